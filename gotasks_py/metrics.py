"""What is known of the work done and waiting: counters, latencies and gauges by window.

Rules of this file: plain data, how it is stored and how it is read. It knows no store and
reads no clock. A *window* is a stretch of store time whose start is a multiple of its
length, so that all managers agree on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from gotasks_py._fields import milliseconds, text, whole
from gotasks_py.checks import LONGEST, check_duration, check_moment
from gotasks_py.sketch import LatencySketch
from gotasks_py.task import EPOCH, Status

MetricsDocument: TypeAlias = dict[str, Any]
"""One stored document, its identity under ``_id``."""

Kind: TypeAlias = Literal["counters", "gauges", "hours", "hourly_gauges"]
"""What a document tells of: a window or an hour, of a manager or of a queue."""

HOUR: Final = timedelta(hours=1)
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsConfig:
    """How a manager keeps its metrics.

    ``interval``: how often it writes them, and that it is there; default 10 s. It counts as
    gone when it has been silent for three intervals. ``window``: how much time one document
    covers; default one minute. ``retention``: how long documents are kept; default 7 days.
    ``target_wait``: how long a task that is due may wait, for the gauge of how many workers a
    queue wants; default 5 s.

    Raises:
        ConfigurationError: a time is out of its bounds, or the window is no multiple of a
            second.
    """

    interval: timedelta = timedelta(seconds=10)
    window: timedelta = timedelta(minutes=1)
    retention: timedelta = timedelta(days=7)
    target_wait: timedelta = timedelta(seconds=5)

    def __post_init__(self) -> None:
        check_duration(
            "interval", self.interval, minimum=timedelta(seconds=1), maximum=timedelta(hours=1)
        )
        check_duration(
            "window", self.window, minimum=timedelta(seconds=1), maximum=timedelta(days=1)
        )
        shortest = timedelta(milliseconds=1)
        check_duration("target_wait", self.target_wait, minimum=shortest, maximum=LONGEST)
        check_duration("retention", self.retention, minimum=timedelta(minutes=1), maximum=LONGEST)

    @property
    def silence(self) -> timedelta:
        """After how long a silent manager counts as gone."""
        return 3 * self.interval

    def window_of(self, moment: datetime) -> datetime:
        """Tell the start of the window that a moment lies in."""
        return moment - (moment - EPOCH) % self.window


@dataclass(slots=True, kw_only=True)
class Counters:
    """How often something happened. Each is counted after the database had confirmed it."""

    enqueued: int = 0
    """Tasks that were stored, outside of transactions of the caller's own."""
    claimed: int = 0
    """Attempts that began, or that were taken into a buffer to begin."""
    done: int = 0
    """Tasks that succeeded."""
    failed: int = 0
    """Attempts that failed, whatever follows from it."""
    retried: int = 0
    """Attempts that failed and that another one follows."""
    dead: int = 0
    """Tasks that became dead letters, of a failure or because nobody held them any more."""
    cancelled: int = 0
    """Tasks that were cancelled."""
    lease_lost: int = 0
    """Attempts whose outcome was refused, for somebody else had the task."""
    interrupted: int = 0
    """Attempts that were given back and do not count."""
    snoozed: int = 0
    """Attempts that ended with ``Snooze`` and do not count."""
    requeued: int = 0
    """Dead letters that were brought back."""
    rescued: int = 0
    """Tasks that nothing would have moved, and that the janitor put back on their way."""

    def merge(self, other: Counters) -> None:
        """Add what was counted elsewhere, or at another time."""
        for name in COUNTERS:
            if more := getattr(other, name):
                setattr(self, name, getattr(self, name) + more)

    @property
    def events(self) -> int:
        """How much was counted altogether."""
        return sum(getattr(self, name) for name in COUNTERS)


COUNTERS: Final = tuple(each.name for each in fields(Counters))
"""The names of all counters."""


@dataclass(slots=True, kw_only=True)
class Activity:
    """What happened to tasks: counters, and how long things took."""

    counters: Counters = field(default_factory=Counters)
    wait: LatencySketch = field(default_factory=LatencySketch)
    """From the moment a task is due until it is claimed; of each claim."""
    run: LatencySketch = field(default_factory=LatencySketch)
    """How long handlers ran; of each attempt whose outcome was recorded."""
    end_to_end: LatencySketch = field(default_factory=LatencySketch)
    """From the enqueue to the success, with all delays, waiting and retries."""

    def merge(self, other: Activity) -> None:
        """Take in what happened elsewhere, or at another time."""
        self.counters.merge(other.counters)
        for name in LATENCIES:
            getattr(self, name).merge(getattr(other, name))


LATENCIES: Final = ("wait", "run", "end_to_end")
"""The names of all latencies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What happened to tasks of one queue and type in one window, on all managers."""

    start: datetime
    length: timedelta
    queue: str
    type: str
    activity: Activity


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """How one queue was at one moment of a window.

    ``counts`` has every status that was counted; ``is_capped`` says that some were more than
    is worth counting. ``oldest_due_age`` is how long the task that has been due the longest
    has waited; zero while none is due.
    """

    start: datetime
    length: timedelta
    queue: str
    at: datetime
    counts: Mapping[Status, int]
    oldest_due_age: timedelta
    is_paused: bool = False
    is_capped: bool = False
    wanted_workers: int = 0
    """How many workers, of all managers, would keep waits below ``MetricsConfig.target_wait``."""

    @property
    def running(self) -> int:
        """How many tasks were running."""
        return self.counts.get(Status.RUNNING, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """What a store tells of a period; ``windows`` and ``gauges`` are in order of time."""

    since: datetime
    until: datetime
    windows: Sequence[Window]
    gauges: Sequence[Gauges]

    def total(self, queue: str | None = None, type: str | None = None) -> Activity:
        """Sum over the whole period: of a queue, of a type, of both, or of everything."""
        summed = Activity()
        for window in self.windows:
            if queue in {None, window.queue} and type in {None, window.type}:
                summed.merge(window.activity)
        return summed

    def by_type(self) -> Mapping[tuple[str, str], Activity]:
        """Sum over the whole period, for each queue and type."""
        summed: dict[tuple[str, str], Activity] = {}
        for window in self.windows:
            summed.setdefault((window.queue, window.type), Activity()).merge(window.activity)
        return summed

    def latest(self) -> Mapping[str, Gauges]:
        """Tell the latest gauges of each queue."""
        return {each.queue: each for each in self.gauges}


def counters_document(
    manager: str,
    window: Window,
    version: int,
    retention: timedelta,
    *,
    kind: Kind = "counters",
) -> MetricsDocument:
    """Make what one manager stores of a window. Of two versions the higher one is kept."""
    activity = window.activity
    counts = {name: count for name in COUNTERS if (count := getattr(activity.counters, name))}
    latencies = {
        name: sketch.to_document()
        for name in LATENCIES
        if (sketch := getattr(activity, name)).buckets
    }
    return {
        "_id": {
            "kind": kind,
            "queue": window.queue,
            "type": window.type,
            "window": window.start,
            "manager": manager,
        },
        "kind": kind,
        "queue": window.queue,
        "type": window.type,
        "manager": manager,
        "window_start": window.start,
        "window_ms": window.length // _MILLISECOND,
        "version": version,
        "counts": counts,
        "latencies": latencies,
        "expires_at": window.start + window.length + retention,
    }


def gauges_document(gauges: Gauges, retention: timedelta) -> MetricsDocument:
    """Make what is stored of a queue in a window. Whoever comes first in it is kept."""
    return {
        "_id": {"kind": "gauges", "queue": gauges.queue, "window": gauges.start},
        "kind": "gauges",
        "queue": gauges.queue,
        "window_start": gauges.start,
        "window_ms": gauges.length // _MILLISECOND,
        "at": gauges.at,
        "counts": {status.value: count for status, count in gauges.counts.items()},
        "oldest_due_age_ms": gauges.oldest_due_age // _MILLISECOND,
        "is_paused": gauges.is_paused,
        "is_capped": gauges.is_capped,
        "wanted_workers": gauges.wanted_workers,
        "expires_at": gauges.start + gauges.length + retention,
    }


def hourly_gauges_document(gauges: Gauges, retention: timedelta) -> MetricsDocument:
    """Make what is stored of a queue in an hour. The latest gauges in it are kept."""
    start = hour_of(gauges.start)
    document = gauges_document(replace(gauges, start=start, length=HOUR), retention)
    return {
        **document,
        "_id": {"kind": "hourly_gauges", "queue": gauges.queue, "window": start},
        "kind": "hourly_gauges",
        "version": (gauges.at - EPOCH) // _MILLISECOND,
    }


def hour_of(moment: datetime) -> datetime:
    """Tell the start of the hour that a moment lies in."""
    return moment - (moment - EPOCH) % HOUR


def kinds(*, hourly: bool) -> Sequence[Kind]:
    """Tell which kinds of documents tell of a period."""
    return ["hours", "hourly_gauges"] if hourly else ["counters", "gauges"]


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
        if kind in {"gauges", "hourly_gauges"}:
            self._gauges.append(_gauges(document, queue, start, length))
        elif kind in {"counters", "hours"}:
            name = text(document.get("type"))
            key = (start, length, queue, name)
            if self._type not in {None, name}:
                return
            if before := self._activities.get(key):
                before.merge(_activity(document))
            else:
                self._activities[key] = _activity(document)

    def metrics(self, since: datetime, until: datetime) -> Metrics:
        """Tell what it came to."""
        windows = (
            Window(start=start, length=length, queue=queue, type=name, activity=activity)
            for (start, length, queue, name), activity in self._activities.items()
        )
        return Metrics(
            since=since,
            until=until,
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


def period(
    now: datetime, since: datetime | timedelta, until: datetime | None, *, hourly: bool = False
) -> tuple[datetime, datetime]:
    """Tell the period that is asked for; a span counts back from its end.

    One that is told by the hour begins at a full hour.

    Raises:
        ConfigurationError: a time without a zone, or a span below zero or beyond a century.
    """
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
    return hour_of(start) if hourly else start, end
