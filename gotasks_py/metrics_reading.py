"""Reading stored metrics: which documents tell of a period, and what they come to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from gotasks_py._fields import milliseconds, text, whole
from gotasks_py.checks import LONGEST, check_duration, check_moment
from gotasks_py.errors import ConfigurationError
from gotasks_py.metrics import (
    COUNTERS,
    DAY,
    HOUR,
    LATENCIES,
    Activity,
    Counters,
    Gauges,
    Kind,
    Metrics,
    Window,
    start_of,
)
from gotasks_py.sketch import LatencySketch
from gotasks_py.task import Status

_MILLISECOND: Final = timedelta(milliseconds=1)
_COUNTED: Final[Sequence[Kind]] = ("counters", "hours", "days")
_GAUGES: Final[Sequence[Kind]] = ("gauges", "hourly_gauges", "daily_gauges")


@dataclass(frozen=True, slots=True)
class Period:
    """Which documents are asked for: those of windows, hours or days that began in a period."""

    since: datetime
    until: datetime
    kinds: Sequence[Kind] = (_COUNTED[0], _GAUGES[0])

    @classmethod
    def before(
        cls,
        now: datetime,
        since: datetime | timedelta,
        until: datetime | None,
        *,
        hourly: bool = False,
        daily: bool = False,
    ) -> Period:
        """Make one; a span counts back from its end.

        One that is told by the hour or day begins at a full one.

        Raises:
            ConfigurationError: a time without a zone, a span below zero or beyond a century,
                or by the hour and by the day at once.
        """
        if hourly and daily:
            msg = "metrics are read hourly or daily, not both"
            raise ConfigurationError(msg)
        if until is not None:
            check_moment("until", until)
        # A window may begin just now.
        end = until or now + _MILLISECOND
        if isinstance(since, timedelta):
            check_duration("since", since, minimum=timedelta(0), maximum=LONGEST)
            start = end - since
        else:
            check_moment("since", since)
            start = since
        if hourly or daily:
            start = start_of(start, DAY if daily else HOUR)
        level = 2 if daily else int(hourly)
        return cls(start, end, (_COUNTED[level], _GAUGES[level]))

    def holds(self, document: Mapping[str, object]) -> bool:
        """Whether a stored document is one of them."""
        start = document.get("window_start")
        is_in = isinstance(start, datetime) and self.since <= start < self.until
        return is_in and document.get("kind") in self.kinds


class Summing:
    """Reads stored documents one by one and sums the counters across managers."""

    def __init__(self, *, type: str | None = None) -> None:
        self._type = type
        self._activities: dict[tuple[datetime, timedelta, str, str], Activity] = {}
        self._gauges: list[Gauges] = []

    def add(self, document: Mapping[str, object]) -> None:
        """Take in one document; one that does not read as metrics counts as nothing."""
        match document:
            case {
                "kind": kind,
                "queue": str(queue),
                "window_start": datetime() as start,
                "window_ms": length_ms,
            }:
                length = milliseconds(length_ms)
            case _:
                return
        if kind in _GAUGES:
            self._gauges.append(_gauges(document, queue, start, length))
        elif kind in _COUNTED:
            name = text(document.get("type"))
            key = (start, length, queue, name)
            if self._type not in {None, name}:
                return
            if before := self._activities.get(key):
                before.merge(_activity(document))
            else:
                self._activities[key] = _activity(document)

    def metrics(self, period: Period) -> Metrics:
        """Tell what it came to."""
        windows = (
            Window(start=start, length=length, queue=queue, type=name, activity=activity)
            for (start, length, queue, name), activity in self._activities.items()
        )
        return Metrics(
            since=period.since,
            until=period.until,
            windows=sorted(windows, key=lambda each: (each.start, each.queue, each.type)),
            gauges=sorted(self._gauges, key=lambda each: (each.start, each.queue)),
        )


def _activity(document: Mapping[str, object]) -> Activity:
    counts, latencies = document.get("counts"), document.get("latencies")
    sketches: Mapping[str, object] = latencies if isinstance(latencies, dict) else {}
    return Activity(
        counters=Counters(**dict(_counts(counts, COUNTERS))),
        **{name: LatencySketch.from_document(sketches.get(name)) for name in LATENCIES},
    )


def _gauges(
    document: Mapping[str, object], queue: str, start: datetime, length: timedelta
) -> Gauges:
    at = document.get("at")
    counts = _counts(document.get("counts"), [each.value for each in Status])
    return Gauges(
        start=start,
        length=length,
        queue=queue,
        at=at if isinstance(at, datetime) else start,
        counts={Status(name): count for name, count in counts},
        oldest_due_age=milliseconds(document.get("oldest_due_age_ms")),
        is_paused=document.get("is_paused") is True,
        is_capped=document.get("is_capped") is True,
        wanted_workers=whole(document.get("wanted_workers")),
    )


def _counts(counts: object, names: Iterable[str]) -> Iterator[tuple[str, int]]:
    if isinstance(counts, dict):
        for name in names:
            if name in counts:
                yield name, whole(counts[name])
