"""Answers that many share: each question is asked once, however many wait for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final, TypeVar

import anyio

T = TypeVar("T")

_MOST_KEPT: Final = 500


@dataclass(slots=True)
class _Entry:
    turn: anyio.Lock = field(default_factory=anyio.Lock)
    value: Any = None
    good_until: float = float("-inf")
    seconds: float = 0
    rounds: int = 0
    failure: Exception | None = None


class SharedAnswers:
    """Keeps answers for a while. Time is that of ``monotonic``, in seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._entries: dict[Hashable, _Entry] = {}

    async def get(
        self,
        key: Hashable,
        seconds: float,
        ask: Callable[[], Awaitable[T]],
        is_kept: Callable[[T], bool],
    ) -> T:
        """Tell an answer that is no older than ``seconds``, or the error all wait for."""
        entry = self._entries.pop(key, None) or _Entry()
        self._entries[key] = entry
        if len(self._entries) > _MOST_KEPT:
            del self._entries[next(iter(self._entries))]
        before = entry.rounds
        async with entry.turn:
            if entry.failure is not None and entry.rounds > before:
                raise entry.failure
            if self._monotonic() >= entry.good_until:
                entry.value = await _asked(entry, ask)
                entry.seconds = seconds
                if is_kept(entry.value):
                    entry.good_until = self._monotonic() + seconds
            answer: T = entry.value
            return answer

    def forget(self, seconds: float = inf) -> None:
        """Ask anew what is kept for so long at most, for something has changed."""
        self._entries = {
            key: entry for key, entry in self._entries.items() if entry.seconds > seconds
        }


async def _asked(entry: _Entry, ask: Callable[[], Awaitable[T]]) -> T:
    entry.failure = None
    try:
        return await ask()
    except Exception as error:
        entry.failure = error
        raise
    finally:
        entry.rounds += 1
