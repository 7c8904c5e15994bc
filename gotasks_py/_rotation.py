"""Which lanes of a queue a pool claims from next."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count
from typing import Final

_ALWAYS_ONE: Final = lambda: 1  # noqa: E731


class LaneRotation:
    """Takes the lanes of one queue in turns.

    Claimers of one pool get different lanes while there are enough; those of different
    pools go through the lanes in different orders, so that they rarely meet. A lane that
    had nothing is left out for a while, and a claim over all lanes stands in for those.
    """

    def __init__(self, size: Callable[[], int] = _ALWAYS_ONE) -> None:
        self._size = size
        self._serials = count(1)
        self._turns: dict[int, float] = {}
        self._claimers: Counter[int] = Counter()
        self._empty_until: dict[int, float] = {}
        self._is_dry = True

    @property
    def all(self) -> tuple[int, ...]:
        """Every lane that may hold tasks."""
        return tuple(range(self._size()))

    def choose(self, now: float) -> tuple[int, ...]:
        """Choose a lane for a claim, or all where none is better than another."""
        lanes = self.all
        if len(lanes) == 1:
            return lanes
        if self._is_dry:  # where work has come is not known: one command finds it
            self._is_dry = False
            return lanes
        promising = [lane for lane in lanes if self._empty_until.get(lane, -math.inf) <= now]
        if not promising:
            return lanes
        return (min(promising, key=self._rank),)

    @contextmanager
    def claiming(self, lanes: tuple[int, ...]) -> Generator[None]:
        """Keep other claimers off a lane, if they have the choice, during a claim."""
        lane, *others = lanes
        if others:
            yield
            return
        self._turns[lane] = next(self._serials)
        self._claimers[lane] += 1
        try:
            yield
        finally:
            self._claimers[lane] -= 1

    def found(self, lanes: tuple[int, ...], lane: int) -> None:
        """Go on where a claim over all lanes has found work."""
        if len(lanes) > 1:
            self._empty_until.pop(lane, None)
            self._turns[lane] = -math.inf

    def found_nothing(self, lanes: tuple[int, ...], until: float) -> None:
        """Leave a lane out until a monotonic time."""
        for lane in lanes:
            self._empty_until[lane] = until
        self._is_dry = len(lanes) == self._size()

    def forget(self) -> None:
        """Take any lane to have work again."""
        self._empty_until.clear()

    def _rank(self, lane: int) -> tuple[int, float]:
        turn = self._turns.setdefault(lane, -random.random())  # noqa: S311  - no secret
        return self._claimers[lane], turn
