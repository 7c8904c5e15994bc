"""What happened in the past is read once: steps that are over are kept, and changed no more.

A week of minutes of many managers is more than one look may read. What is missing is read
bit by bit in the background, the latest first, and told as far as it is known.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import anyio

from gotasks_py import Activity, Gauges, GotasksError, Metering
from gotasks_py.event_loops import spawn_detached
from gotasks_py.task import EPOCH

logger = logging.getLogger("gotasks_dashboard")

Place: TypeAlias = tuple[str, str]
"""A queue and a type."""

_LATE: Final = timedelta(minutes=10)
"""How late a manager may write what it counted."""
_HOUR: Final = timedelta(hours=1)
_AT_FIRST: Final = _HOUR
_MOST_AT_ONCE: Final = timedelta(days=1)
"""How much of the past one look reads."""
_QUICK_SECONDS: Final = 0.05
"""How long a look may take for the next one to read more, and how long it is then quiet."""


@dataclass(slots=True)
class Step:
    """What happened in one step, by queue and type, and how queues were last in it."""

    start: datetime
    activities: dict[Place, Activity] = field(default_factory=dict[Place, Activity])
    gauges: dict[str, Gauges] = field(default_factory=dict[str, Gauges])


@dataclass(frozen=True, slots=True)
class Past:
    """The steps of a period, oldest first; those that are not known yet are empty."""

    steps: Sequence[Step]
    is_complete: bool


class History:
    """Steps of one length."""

    def __init__(self, store: Metering, step: timedelta) -> None:
        self._store = store
        self._step = step
        self._settled: dict[datetime, Step] = {}
        self._is_filling = False

    async def read(self, since: datetime, until: datetime) -> Past:
        """Tell what is known of a period of whole steps that ends now."""
        settled_until = until - self._step - _LATE
        settled_until -= (settled_until - EPOCH) % self._step
        self._settled = {at: each for at, each in self._settled.items() if at >= since}
        fresh = await self._steps(settled_until, until)
        known = {**self._settled, **fresh}
        missing = [at for at in self._starts(since, settled_until) if at not in self._settled]
        if missing and not self._is_filling:
            self._is_filling = True
            spawn_detached(lambda: self._fill(since, settled_until), "gotasks_dashboard history")
        steps = [known.get(at) or Step(at) for at in self._starts(since, until)]
        return Past(steps, not missing)

    async def _fill(self, since: datetime, until: datetime) -> None:
        """Read what is missing, the latest first."""
        try:
            end, span = until, max(_AT_FIRST, self._step)
            while end > since:
                begin = max(since, end - span)
                if any(at not in self._settled for at in self._starts(begin, end)):
                    took = await self._settle(begin, end)
                    if took < _QUICK_SECONDS:
                        span = min(2 * span, _MOST_AT_ONCE)
                    else:
                        span = max(_AT_FIRST, self._step)
                        await anyio.sleep(_QUICK_SECONDS)
                end = begin
        except GotasksError as error:
            logger.info("the past could not be read, trying again when asked: %s", error)
        finally:
            self._is_filling = False

    async def _settle(self, begin: datetime, end: datetime) -> float:
        began = anyio.current_time()
        found = await self._steps(begin, end)
        for at in self._starts(begin, end):
            self._settled[at] = found.get(at) or Step(at)
        return anyio.current_time() - began

    def _starts(self, since: datetime, until: datetime) -> Sequence[datetime]:
        return [since + number * self._step for number in range((until - since) // self._step)]

    async def _steps(self, since: datetime, until: datetime) -> Mapping[datetime, Step]:
        hourly = self._step >= _HOUR
        metrics = await self._store.metrics(since=since, until=until, hourly=hourly)
        steps: dict[datetime, Step] = {}
        for window in metrics.windows:
            step = self._of(steps, window.start)
            place = (window.queue, window.type)
            step.activities.setdefault(place, Activity()).merge(window.activity)
        for gauges in metrics.gauges:
            self._of(steps, gauges.start).gauges[gauges.queue] = gauges
        return steps

    def _of(self, steps: dict[datetime, Step], at: datetime) -> Step:
        start = at - (at - EPOCH) % self._step
        return steps.setdefault(start, Step(start))
