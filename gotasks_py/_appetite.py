"""How many tasks a pipeline should claim next: what its workers will start shortly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from gotasks_py.modes import PipelineMode

_MEMORY: Final = 16
"""Over how many tasks the average duration is taken, about."""


@dataclass(slots=True)
class Appetite:
    """Follows how long tasks take, and from that how many will be started soon.

    ``slots`` workers that are busy for ``d`` seconds each start ``slots / d`` tasks a
    second. Without experience, and with slow tasks, that leaves what is free right now.
    """

    mode: PipelineMode
    slots: int
    _duration: float | None = None
    _ended_at: float = -math.inf

    def ended(self, began: float, now: float) -> None:
        """Learn from a task that has left its worker."""
        took = max(now - began, 0.0)
        known = took if self._duration is None else self._duration
        self._duration = known + (took - known) / _MEMORY
        self._ended_at = now

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
        return math.floor(min(soon, self.mode.buffer))
