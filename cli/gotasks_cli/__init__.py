"""The command line ``gotasks``; it needs what the extra ``cli`` installs."""

from __future__ import annotations

import os
import sys

__all__ = ["main"]

_WITHOUT_EXTRA = 3


def main() -> None:
    """Run the command line."""
    _complete_streams()
    try:
        from gotasks_cli._app import app  # noqa: PLC0415  - the extra may not be installed
    except ModuleNotFoundError as error:
        if error.name not in {"rich", "typer", "watchfiles"}:
            raise
        sys.stderr.write(f"gotasks: {error.name} is missing: pip install 'gotasks-py[cli]'\n")
        sys.exit(_WITHOUT_EXTRA)
    app(prog_name="gotasks")


def _complete_streams() -> None:
    """Open what was closed by ``>&-`` and the like.

    Python has ``None`` there, and a connection to the database would take its number.
    """
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115  - for the life of the process
