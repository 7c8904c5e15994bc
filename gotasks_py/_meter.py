"""Counts what one manager does, in memory; somebody else writes it down.

Rules of this file: an event is counted after the store has confirmed it, by plain additions,
for it happens thousands of times a second. What was counted is kept until it is written.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import product
from typing import Final, TypeAlias

from gotasks_py.clock import Clock
from gotasks_py.metrics import (
    DAY,
    HOUR,
    Activity,
    Kind,
    MetricsConfig,
    MetricsDocument,
    Window,
    counters_document,
    start_of,
)
from gotasks_py.store import TaskDocument
from gotasks_py.task import EPOCH, Status, Task

_Key: TypeAlias = tuple[str, str]
"""A queue and a type."""

_TICK_SECONDS: Final = 0.001
_SUMS: Final[Mapping[Kind, timedelta]] = {"hours": HOUR, "days": DAY}
"""What windows are summed by as well, so that long periods are read from few documents."""


@dataclass(slots=True, eq=False)
class _Tally:
    """What one manager counts of one queue and type in one window, hour or day."""

    manager: str
    window: Window
    kind: Kind = "counters"
    written: int = 0
    """How many events had been counted when it was written."""

    @property
    def version(self) -> int:
        """The number of events: it only grows, and nothing changes without it."""
        return self.window.activity.counters.events


class Meter:
    """Counters and latencies of one manager.

    ``woken`` is called when there is something to count for the first time in a window.
    Where nobody is going to write it, what was counted is not kept (``is_kept``).
    """

    def __init__(
        self, clock: Clock, config: MetricsConfig, manager: str, *, is_kept: bool = True
    ) -> None:
        self._clock = clock
        self._is_kept = is_kept
        self._config = config
        self._manager = manager
        self._start = EPOCH
        self._ends = -math.inf
        self._now = EPOCH
        self._stale = -math.inf
        self._open: dict[_Key, _Tally] = {}
        self._closed: list[_Tally] = []
        self._sums: dict[tuple[Kind, _Key], _Tally] = {}
        """The closed windows of the hour and day that it is, or was when last something counted."""
        self.woken: Callable[[], None] = _nobody

    def named(self, manager: str) -> None:
        """Count for another run of the manager from here on."""
        self._close()
        for place in list(self._sums):
            self._close_sum(place)
        self._manager = manager

    def forked(self, manager: str) -> None:
        """Leave to the process that this one comes from what that has counted."""
        self._open.clear()
        self._closed.clear()
        self._sums.clear()
        self._manager = manager

    def enqueued(self, documents: Iterable[TaskDocument]) -> None:
        """Count tasks that are stored."""
        for each in documents:
            self._of(str(each["queue"]), str(each["type"])).counters.enqueued += 1

    def claimed(self, tasks: Iterable[Task]) -> None:
        """Count attempts that began with a claim. A reserved task has not begun."""
        for task in tasks:
            if task.status is Status.RUNNING:
                self.begun(task, task.updated_at)

    def begun(self, task: Task, at: datetime) -> None:
        """Count an attempt that began at a time of the store's."""
        activity = self._of(task.queue, task.type)
        activity.counters.claimed += 1
        if task.lease is not None and task.lease.due_at is not None:
            activity.wait.add((at - task.lease.due_at).total_seconds())

    def done(self, task: Task, duration: timedelta | None) -> None:
        """Count a success that is recorded."""
        activity = self._of(task.queue, task.type)
        activity.counters.done += 1
        if duration is not None:
            activity.run.add(duration.total_seconds())
        activity.end_to_end.add((self._now - task.created_at).total_seconds())

    def failed(self, task: Task, duration: timedelta | None, *, is_dead: bool) -> None:
        """Count a failure that is recorded; without a ``duration`` no handler ran."""
        activity = self._of(task.queue, task.type)
        activity.counters.failed += 1
        if is_dead:
            activity.counters.dead += 1
        else:
            activity.counters.retried += 1
        if duration is not None:
            activity.run.add(duration.total_seconds())

    def reaped(self, task: Task) -> None:
        """Count a task that was ended because nobody held it any more."""
        if task.status is Status.DEAD:
            self._of(task.queue, task.type).counters.dead += 1
        else:
            self.cancelled(task)

    def cancelled(self, task: Task) -> None:
        """Count a task that is cancelled."""
        self._of(task.queue, task.type).counters.cancelled += 1

    def lease_lost(self, task: Task) -> None:
        """Count an attempt whose outcome was refused."""
        self._of(task.queue, task.type).counters.lease_lost += 1

    def interrupted(self, task: Task) -> None:
        """Count an attempt that was given back."""
        self._of(task.queue, task.type).counters.interrupted += 1

    def snoozed(self, task: Task) -> None:
        """Count an attempt that put itself off."""
        self._of(task.queue, task.type).counters.snoozed += 1

    def rescued(self, task: Task) -> None:
        """Count a task that nothing would have moved."""
        self._of(task.queue, task.type).counters.rescued += 1

    def requeued(self, task: Task) -> None:
        """Count a dead letter that was brought back."""
        self._of(task.queue, task.type).counters.requeued += 1

    @property
    def is_empty(self) -> bool:
        """Whether nothing was counted in this window, and nothing is left to write of others."""
        self._roll()
        return not (self._open or self._closed)

    def unwritten(self) -> Sequence[tuple[_Tally, MetricsDocument]]:
        """Tell what is to be written, and of which tallies."""
        self._roll()
        retention = self._config.retention
        windows = [
            (each, counters_document(each.manager, each.window, version, retention, kind=each.kind))
            for each in (*self._closed, *self._open.values())
            if (version := each.version) > each.written
        ]
        return [*windows, *self._unwritten_sums()]

    def _unwritten_sums(self) -> Iterator[tuple[_Tally, MetricsDocument]]:
        """Tell of hours and days what their windows came to, with the one that is open."""
        for place in {**self._sums, **dict.fromkeys(product(_SUMS, self._open))}:
            kind, key = place
            now = self._open.get(key)
            summed = self._sums[place] if now is None else self._sum(place, now)
            activity = Activity()
            for part in (summed, now):
                if part is not None:
                    activity.merge(part.window.activity)
            version = activity.counters.events
            if version > summed.written:
                window = replace(summed.window, activity=activity)
                retention = self._config.retention
                yield (
                    summed,
                    counters_document(summed.manager, window, version, retention, kind=kind),
                )

    def wrote(self, written: Sequence[tuple[_Tally, MetricsDocument]]) -> None:
        """Notice that something is written, in the version that it had."""
        for tally, document in written:
            tally.written = document["version"]
        self._closed = [each for each in self._closed if each.version > each.written]

    def _of(self, queue: str, type: str) -> Activity:
        monotonic = self._clock.monotonic()
        if monotonic >= self._stale:
            # Once a millisecond, which is what a store's time is told in.
            self._now, self._stale = self._clock.now(), monotonic + _TICK_SECONDS
            self._roll()
        try:
            return self._open[queue, type].window.activity
        except KeyError:
            return self._opened(queue, type)

    def _opened(self, queue: str, type: str) -> Activity:
        activity = Activity()
        window = Window(
            start=self._start, length=self._config.window, queue=queue, type=type, activity=activity
        )
        self._open[queue, type] = _Tally(self._manager, window)
        self.woken()
        return activity

    def _roll(self) -> None:
        """Begin the window that it is, unless it has begun."""
        if self._clock.monotonic() < self._ends:
            return
        now = self._clock.now()
        start = self._config.window_of(now)
        # The estimate of a server's clock may step back: a window is never begun twice.
        if start > self._start:
            self._close()
            self._start = start
        left = self._start + self._config.window - now
        self._ends = self._clock.monotonic() + left.total_seconds()

    def _sum(self, place: tuple[Kind, _Key], tally: _Tally) -> _Tally:
        """Tell the hour or day that a window lies in."""
        length = _SUMS[place[0]]
        start = start_of(tally.window.start, length)
        summed = self._sums.get(place)
        if summed is None or summed.window.start != start:
            self._close_sum(place)
            length = max(length, self._config.window)
            window = replace(tally.window, start=start, length=length, activity=Activity())
            summed = self._sums[place] = _Tally(tally.manager, window, place[0])
        return summed

    def _close_sum(self, place: tuple[Kind, _Key]) -> None:
        summed = self._sums.pop(place, None)
        if summed is not None and summed.version > summed.written:
            self._closed.append(summed)

    def _close(self) -> None:
        if self._is_kept:
            for key, each in self._open.items():
                for kind in _SUMS:
                    self._sum((kind, key), each).window.activity.merge(each.window.activity)
            self._closed.extend(each for each in self._open.values() if each.version > each.written)
        self._open.clear()


def new_id(name: str) -> str:
    """Make an id that no other run of a manager has."""
    return f"{name}.{secrets.token_hex(4)}"


def _nobody() -> None:
    """Be told of nothing."""
