"""An append-only file per process, on disk before its writer goes on.

It is the witness that does not depend on the database under test. A line is one event:
its moment on the machine's monotonic clock, which all processes share whatever their
wall clocks say, its name, and its facts.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

SUFFIX: Final = ".ledger"
NO_LEDGER: Final = os.EX_IOERR
"""The exit code of a process that could not write its ledger."""


class LedgerError(Exception):
    """A ledger that cannot be trusted: a line could not be written, or is damaged."""


@dataclass(frozen=True, slots=True)
class Line:
    """One event as it was written."""

    at: float
    event: str
    facts: Mapping[str, Any]


class Ledger:
    """Writes the ledger of one process; threads may share it.

    ``give_up`` is called when it cannot be written, and never returns: what went on without
    its witness would be blamed for what nobody saw.
    """

    def __init__(
        self, path: Path, give_up: Callable[[LedgerError], NoReturn] | None = None
    ) -> None:
        self._path = path
        self._give_up = give_up
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, event: str, **facts: object) -> None:
        """Append an event; when this returns, it is on disk.

        Raises:
            LedgerError: it could not be written, and nothing else was to be done then.
        """
        line = json.dumps([time.monotonic(), event, facts], separators=(",", ":"))
        try:
            self._append(f"{line}\n".encode())
        except OSError as error:
            msg = f"{self._path} cannot be written: {error.strerror}"
            failure = LedgerError(msg)
            if self._give_up is not None:
                self._give_up(failure)
            raise failure from error

    def _append(self, line: bytes) -> None:
        # One write of O_APPEND: lines of several threads do not mix.
        if os.write(self._file, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fdatasync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def leave(failure: LedgerError) -> NoReturn:
    """End this process at once, with all its threads and before anybody handles the failure."""
    os.write(2, f"{failure}\n".encode())
    os._exit(NO_LEDGER)


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
