"""Where the head of a lane is: claims start there instead of walking over taken entries."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final, TypeAlias

from gotasks_py.store import ClaimRequest
from gotasks_py.task import Task

_SWEEP_SECONDS: Final = 1.0

Bound: TypeAlias = tuple[int, datetime]


class LowWater:
    """Remembers, per lane, the due time of the last claim in each priority.

    New work is stamped at or above the server's time, so it lands above the mark. What
    can land below it (a write that commits late, a step of the server's clock, a lower
    priority) is found by a claim without the bound: once a second, and whenever a bounded
    one finds nothing. Bounded claims never reach below the lowest priority that has a
    mark, so the order stays strict.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lanes: dict[tuple[str, int, tuple[str, ...]], _Lane] = {}

    def bound(self, request: ClaimRequest) -> Bound | None:
        """Tell the lowest priority and due time to look at; ``None``: look everywhere."""
        lane = self._lanes.get(_key(request))
        if lane is None or self._monotonic() - lane.swept_at >= _SWEEP_SECONDS:
            return None
        return min(lane.marks), min(lane.marks.values())

    def note(self, request: ClaimRequest, task: Task | None, *, bounded: bool) -> None:
        """Learn from a claim's outcome."""
        if not bounded:
            self._lanes.pop(_key(request), None)
        if task is None or task.lease is None or task.lease.due_at is None:
            return
        lane = self._lanes.setdefault(_key(request), _Lane(self._monotonic()))
        lane.marks[task.priority] = task.lease.due_at


class _Lane:
    def __init__(self, swept_at: float) -> None:
        self.swept_at = swept_at
        self.marks: dict[int, datetime] = {}


def _key(request: ClaimRequest) -> tuple[str, int, tuple[str, ...]]:
    return (request.queue, request.lane, request.types)
