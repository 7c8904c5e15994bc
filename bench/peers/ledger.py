"""Where running tasks note that they run: the same few microseconds for every library.

Only the standard library: this is imported inside each peer's own environment.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns
from typing import Final

VARIABLE: Final = "GOTASKS_BENCH_LEDGER"
_ENTRY: Final = struct.Struct("=qq")


@dataclass(frozen=True, slots=True)
class Entry:
    """One start of one task, in nanoseconds of the machine's monotonic clock."""

    number: int
    started_ns: int


class Ledger:
    """A file that entries are appended to, by any process and thread at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # One write of 16 bytes with O_APPEND is never torn and needs no lock.
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_RDWR)

    def note(self, number: int) -> None:
        """Note that the task of this number has started."""
        os.write(self._file, _ENTRY.pack(number, monotonic_ns()))

    def __len__(self) -> int:
        return os.fstat(self._file).st_size // _ENTRY.size

    def entries(self, first: int = 0) -> Sequence[Entry]:
        """Read the entries from the first of these on."""
        offset = first * _ENTRY.size
        size = len(self) * _ENTRY.size - offset
        return [Entry(*fields) for fields in _ENTRY.iter_unpack(os.pread(self._file, size, offset))]

    def clear(self) -> None:
        """Forget every entry."""
        os.ftruncate(self._file, 0)

    def close(self) -> None:
        """Close the file; it stays where it is."""
        os.close(self._file)


def from_environment() -> Ledger:
    """Open the ledger of this run, which the runner names in the environment."""
    return Ledger(Path(os.environ[VARIABLE]))
