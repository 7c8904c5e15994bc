"""What tests ask the operating system about processes."""

from __future__ import annotations

import os


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
