"""What is known of the work done and waiting: counters, latencies and gauges by window.

Rules of this file: plain data, and how it is stored. It knows no store and reads no clock.
A *window* is a stretch of store time whose start is a multiple of its length, so that all
managers agree on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from gotasks_py.checks import LONGEST, check_duration
from gotasks_py.sketch import LatencySketch
from gotasks_py.task import EPOCH, Status

MetricsDocument: TypeAlias = dict[str, Any]
"""One stored document, its identity under ``_id``."""

Kind: TypeAlias = Literal["counters", "gauges", "hours", "hourly_gauges", "days", "daily_gauges"]
"""What a document tells of: a window, an hour or a day, of a manager or of a queue."""

HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
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
        return start_of(moment, self.window)


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
    return _latest_gauges(gauges, HOUR, "hourly_gauges", retention)


def daily_gauges_document(gauges: Gauges, retention: timedelta) -> MetricsDocument:
    """Make what is stored of a queue in a day. The latest gauges in it are kept."""
    return _latest_gauges(gauges, DAY, "daily_gauges", retention)


def start_of(moment: datetime, length: timedelta) -> datetime:
    """Tell the start of the hour or day, say, that a moment lies in."""
    return moment - (moment - EPOCH) % length


def _latest_gauges(
    gauges: Gauges, length: timedelta, kind: Kind, retention: timedelta
) -> MetricsDocument:
    start = start_of(gauges.start, length)
    document = gauges_document(replace(gauges, start=start, length=length), retention)
    return {
        **document,
        "_id": {"kind": kind, "queue": gauges.queue, "window": start},
        "kind": kind,
        "version": (gauges.at - EPOCH) // _MILLISECOND,
    }
