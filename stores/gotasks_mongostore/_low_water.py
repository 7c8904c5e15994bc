"""Where the head of a lane is: claims start there instead of walking over taken entries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from heapq import heappop, heappush
from operator import itemgetter
from typing import Final, TypeAlias

from gotasks_py.store import ClaimRequest, TaskDocument
from gotasks_py.task import Task

# A sweep walks over all taken entries (2.5 ms for 20 000 of them, measured on MongoDB 6.0),
# so the next one waits ten times as long as this one took.
_PAUSES: Final = 10
_LONGEST_PAUSE_SECONDS: Final = 0.25
# Beyond this many, a task that is to come due later is left to the sweeps.
_MOST_COMING: Final = 10_000

_place_of: Final = itemgetter("queue", "lane", "priority", "due_at")

Bound: TypeAlias = tuple[range, datetime]
Place: TypeAlias = tuple[int, datetime]  # in the order of claims: negated priority, due time


class LowWater:
    """Remembers, per lane, the due time of the last claim in each priority.

    New work is stamped at or above the server's time, so it lands above the mark. What lands
    elsewhere (in a more urgent priority than those last claimed, say) is found by a sweep, a
    claim without the bound. If this store wrote it, the next claim is one; otherwise, sweeps
    take a tenth of the time. A bounded claim that finds nothing is followed by one, too.
    """

    def __init__(self, monotonic: Callable[[], float], now: Callable[[], datetime]) -> None:
        self._monotonic = monotonic
        self._now = now
        self._lanes: dict[tuple[str, int], _Lane] = {}
        self._lock = threading.Lock()  # a store may serve several event loops

    @contextmanager
    def look(self, request: ClaimRequest) -> Generator[Look]:
        """Tell where one claim is to look, and learn from what it has found.

        A claim over several lanes is a sweep. It teaches nothing: what it finds is the head
        of all of them, and leaves the others' heads unknown.
        """
        if len(request.lanes) != 1:
            yield Look(None)
            return
        started = self._monotonic()
        with self._lock:
            lane = self._lane(request.queue, request.lanes[0])
            lane.come_due(self._now())
            look = lane.look(request.types, started)
        try:
            yield look
        except BaseException:
            with self._lock:
                lane.looks.remove(look)
            raise
        with self._lock:
            lane.looks.remove(look)
            lane.learn(request.types, look, started, self._monotonic())

    def wrote(
        self,
        queue: str,
        lane: int,
        priority: int | None,
        due_at: datetime,
        *,
        as_of: datetime | None = None,
    ) -> None:
        """Learn of a task that this store made claimable; ``None``: of any known priority.

        ``as_of``: a time that the server has passed for certain.
        """
        with self._lock:
            there = self._lane(queue, lane)
            there.most_urgent = max(there.most_urgent, priority or 0)
            place = (-(there.most_urgent if priority is None else priority), due_at)
            is_due = as_of is not None and due_at <= as_of
            if is_due or due_at <= self._now():
                there.meet(place)
            elif len(there.coming) < _MOST_COMING:
                heappush(there.coming, (due_at, place))

    def note(self, document: TaskDocument) -> None:
        """Learn of a task that may lie elsewhere than where claims look."""
        match document:
            case {
                "queue": str(queue),
                "lane": int(lane),
                "priority": int(priority),
                "due_at": datetime() as due_at,
                "updated_at": datetime() as updated_at,
            }:
                # When the server has stamped it, the estimate of its time may lag behind.
                self.wrote(queue, lane, priority, due_at, as_of=updated_at)
            case _:
                pass  # it is not due, or somebody has spoiled it by hand

    def _lane(self, queue: str, number: int) -> _Lane:
        return self._lanes.setdefault((queue, number), _Lane())


@dataclass(eq=False)
class Look:
    """One claim's view of a lane: ``bound`` is ``None`` for a sweep."""

    bound: Bound | None
    found: Task | None = None
    met: Place | None = None  # the most urgent that may have come too late to be seen


@dataclass
class _Lane:
    sweep_at: float = 0.0
    most_urgent: int = 0
    marks: dict[tuple[str, ...], dict[int, datetime]] = field(
        default_factory=dict[tuple[str, ...], dict[int, datetime]]
    )
    coming: list[tuple[datetime, Place]] = field(default_factory=list[tuple[datetime, Place]])
    looks: list[Look] = field(default_factory=list[Look])

    def come_due(self, now: datetime) -> None:
        while self.coming and self.coming[0][0] <= now:
            self.meet(heappop(self.coming)[1])

    def meet(self, place: Place) -> None:
        """Take in a task that is due now: no bound may hide it."""
        hiding = [types for types, marks in self.marks.items() if _hides(marks, place)]
        for types in hiding:
            del self.marks[types]
        for look in self.looks:
            look.met = place if look.met is None else min(place, look.met)

    def look(self, types: tuple[str, ...], now: float) -> Look:
        marks = self.marks.get(types)
        look = Look(_bound(marks) if marks and now < self.sweep_at else None)
        if look.bound is None:  # for all claimers: meanwhile, theirs are bounded
            self.sweep_at = now + _LONGEST_PAUSE_SECONDS
        self.looks.append(look)
        return look

    def learn(self, types: tuple[str, ...], look: Look, started: float, ended: float) -> None:
        marks = self.marks.pop(types, {})
        if look.bound is None:
            marks = {}
            self.sweep_at = ended + min(_PAUSES * (ended - started), _LONGEST_PAUSE_SECONDS)
        task = look.found
        due_at = None if task is None or task.lease is None else task.lease.due_at
        if task is None or due_at is None:
            return
        marks[task.priority] = due_at
        self.most_urgent = max(self.most_urgent, task.priority)
        if look.met is None or not _hides(marks, look.met):
            self.marks[types] = marks


def by_place(documents: Sequence[TaskDocument]) -> Iterable[TaskDocument]:
    """Pick one document of each lane, priority and due time: one tells as much as all."""
    return dict(zip(map(_place_of, documents), documents, strict=True)).values()


def _bound(marks: dict[int, datetime]) -> Bound:
    return range(min(marks), max(marks) + 1), min(marks.values())


def _hides(marks: dict[int, datetime], place: Place) -> bool:
    """Whether a claim from these marks passes over a task that it should take first."""
    priorities, low = _bound(marks)
    priority, due_at = -place[0], place[1]
    return priority >= priorities.stop or (priority >= priorities.start and due_at < low)
