"""How many tasks a pipeline should claim next: what its workers will start shortly."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from gotasks_py.modes import PipelineMode

_MEMORY: Final = 16
"""Over how many tasks the average duration is taken, about."""


@dataclass(slots=True)
class Appetite:
    """Follows how long tasks take, and from that how many will be started soon.

    ``slots`` workers that are busy for ``d`` seconds each start ``slots / d`` tasks a
    second. Without experience, and with slow tasks, that leaves what is free right now.
    But tasks that only compute run one after the other, on as much of a CPU as there is:
    no more is expected than has ended lately while work was waiting, or twice as much
    each time that it ran out.
    """

    mode: PipelineMode
    slots: int
    _duration: float | None = None
    _ended_at: float = -math.inf
    _expected: float = field(init=False)
    """How many tasks end within the lookahead."""
    _counted: int = 0
    _counted_since: float | None = None

    def __post_init__(self) -> None:
        self._expected = self.slots

    def ended(self, began: float, now: float, *, is_dry: bool) -> None:
        """Learn from a task that has left its worker; ``is_dry``: there is no other to start."""
        took = max(now - began, 0.0)
        known = took if self._duration is None else self._duration
        self._duration = known + (took - known) / _MEMORY
        self._ended_at = now
        if is_dry:
            self._expected = min(2 * self._expected, self.mode.buffer)
            self._counted_since = None
        elif self._counted_since is None:
            self._counted, self._counted_since = 0, now
        else:
            self._count(now - self._counted_since, now)

    def _count(self, elapsed: float, now: float) -> None:
        self._counted += 1
        ahead = self.mode.lookahead.total_seconds()
        if elapsed >= ahead:
            self._expected = self._counted * ahead / elapsed
            self._counted, self._counted_since = 0, now

    def next_batch(self, *, free: int, waiting: int, now: float) -> int:
        """Tell how many tasks to claim; 0: not yet.

        Tops up from half on, so that claims are few and large.
        """
        ahead = self._ahead(free, now)
        if waiting > free + ahead // 2:
            return 0
        return max(0, min(self.mode.batch, free + ahead - waiting))

    def _ahead(self, free: int, now: float) -> int:
        if self._duration is None:
            return 0
        # While every worker is busy, the time without an end tells what an average cannot yet.
        since = now - self._ended_at if free == 0 else 0.0
        duration = max(self._duration, since, 1e-6)
        soon = self.mode.lookahead.total_seconds() * self.slots / duration
        return math.floor(min(soon, self._expected, self.mode.buffer))
