"""How long whoever asks is willing to wait, for stores to tell their servers."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_SECONDS: Final = ContextVar[float | None]("gotasks_py.patience", default=None)


@contextmanager
def patience(seconds: float) -> Generator[None]:
    """In the block, let each operation of a store take so long at most, its server's part too."""
    token = _SECONDS.set(seconds)
    try:
        yield
    finally:
        _SECONDS.reset(token)


def at_most(seconds: float) -> float:
    """Tell how long an operation may take that could take ``seconds``."""
    given = _SECONDS.get()
    return seconds if given is None else min(seconds, given)
