"""``python -m gotasks_cli`` is ``gotasks``."""

from __future__ import annotations

from gotasks_cli import main

if __name__ == "__main__":
    main()
