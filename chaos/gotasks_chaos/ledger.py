"""An append-only file per process, on disk before its writer goes on.

It is the witness that does not depend on the database under test. A line is one event:
its moment on the machine's monotonic clock, which all processes share whatever their
wall clocks say, its name, and its facts.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

SUFFIX: Final = ".ledger"


class LedgerError(Exception):
    """A ledger that cannot be trusted: something other than its last line is damaged."""


@dataclass(frozen=True, slots=True)
class Line:
    """One event as it was written."""

    at: float
    event: str
    facts: Mapping[str, Any]


class Ledger:
    """Writes the ledger of one process; threads may share it."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, event: str, **facts: object) -> None:
        """Append an event; when this returns, it is on disk."""
        line = json.dumps([time.monotonic(), event, facts], separators=(",", ":"))
        # One write of O_APPEND: lines of several threads do not mix.
        os.write(self._file, f"{line}\n".encode())
        os.fdatasync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def read(path: Path) -> Iterator[Line]:
    """Read a ledger; the last line may be torn, for its writer may have been killed.

    Raises:
        LedgerError: another line is damaged.
    """
    lines = path.read_text(errors="replace").split("\n")
    for number, text in enumerate(lines, start=1):
        line = _line(text)
        if line is not None:
            yield line
        elif number < len(lines):
            msg = f"line {number} of {path} is damaged: {text!r}"
            raise LedgerError(msg)


def _line(text: str) -> Line | None:
    try:
        match json.loads(text or "null"):
            case [float(at), str(event), dict(facts)]:
                return Line(at, event, facts)
            case _:
                return None
    except ValueError:
        return None
