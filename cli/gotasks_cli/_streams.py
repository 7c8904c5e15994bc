"""Standard output and standard error that may be closed by whoever reads them.

A command has done its work when it prints, and its exit code tells of that. Whether its last
lines are still read (``| head -1``) is a matter of moments, and must not change the code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO, cast


class UnwritableError(Exception):
    """The result cannot be kept, for other reasons than that nobody reads it."""


class Unread:
    """A stream that goes on when its reader is gone, and drops what is written from then on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write.

        Raises:
            UnwritableError: the disk is full, say.
        """
        try:
            return self._stream.write(text)
        except OSError as error:
            self._drop(error)
        return len(text)

    def flush(self) -> None:
        """Write what was kept back.

        Raises:
            UnwritableError: as for :meth:`write`.
        """
        try:
            self._stream.flush()
        except OSError as error:
            self._drop(error)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def _drop(self, error: OSError) -> None:
        # What the stream still holds would be written, and refused, at the end of the process.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
        if self._stream is sys.__stdout__ and not isinstance(error, BrokenPipeError):
            msg = f"the result cannot be written: {error.strerror}"
            raise UnwritableError(msg) from error


@contextmanager
def maybe_unread() -> Generator[None]:
    """Let both streams be closed by their readers."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", Unread(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
