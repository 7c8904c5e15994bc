"""What happened over hours and days: steps of equal length, each summed from the metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from typing_extensions import TypedDict

from gotasks_dashboard._desk import Desk
from gotasks_dashboard._endpoints import Call, Endpoint, Model, Name, Nothing
from gotasks_dashboard._history import History, Past, Step
from gotasks_dashboard._values import moment, seconds
from gotasks_py import Activity, LatencySketch, Status
from gotasks_py.task import EPOCH

Range: TypeAlias = Literal["1h", "6h", "24h", "7d"]

_MINUTE: Final = timedelta(minutes=1)
_SPANS: Final[Mapping[str, timedelta]] = {
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
}
_STEPS: Final[Mapping[str, timedelta]] = {
    "1h": _MINUTE,
    "6h": 5 * _MINUTE,
    "24h": 15 * _MINUTE,
    "7d": 60 * _MINUTE,
}


class RangeQuery(Model):
    """Over how long, up to now."""

    range: Range = "1h"


class MetricsQuery(RangeQuery):
    """Over how long, and of what."""

    queue: Name | None = None
    type: Name | None = None


class LatencyView(TypedDict):
    """How long things took, in seconds."""

    count: int
    mean: float
    p50: float
    p95: float
    p99: float


class CountedView(TypedDict):
    """How often what happened, and how long it took."""

    enqueued: int
    claimed: int
    done: int
    failed: int
    retried: int
    dead: int
    cancelled: int
    wait: LatencyView | None
    run: LatencyView | None


class PointView(CountedView):
    """What happened in one step."""

    at: str


class GaugePointView(TypedDict):
    """How things were in one step."""

    at: str
    backlog: int
    running: int
    oldest_due_seconds: float


class TotalView(CountedView):
    """What happened in all."""

    end_to_end: LatencyView | None


class DeployView(TypedDict):
    """When a version was seen first."""

    at: str
    version: str


class SeriesView(TypedDict):
    """What happened, step by step, oldest first."""

    since: str
    until: str
    step_seconds: float
    points: Sequence[PointView]
    gauges: Sequence[GaugePointView]
    total: TotalView
    deploys: Sequence[DeployView]
    is_complete: bool


async def metrics(desk: Desk, call: Call[MetricsQuery, Nothing]) -> SeriesView:
    """Tell what happened over hours or days."""
    query = call.query

    async def ask() -> SeriesView:
        return await _series(desk, query)

    key = ("metrics", query.range, query.queue, query.type)
    return await desk.shared(key, ask, 5.0, lambda found: found["is_complete"])


async def _series(desk: Desk, query: MetricsQuery) -> SeriesView:
    since, until = period_of(query.range, desk.store.clock.now())
    past = await past_of(desk, query.range)
    total = Activity()
    points: list[PointView] = []
    for step in past.steps:
        summed = Activity()
        for (queue, name), activity in step.activities.items():
            if query.queue in {None, queue} and query.type in {None, name}:
                summed.merge(activity)
        total.merge(summed)
        points.append({"at": moment(step.start) or "", **_counted(summed)})
    return {
        "since": moment(since) or "",
        "until": moment(until) or "",
        "step_seconds": _STEPS[query.range].total_seconds(),
        "points": points,
        "gauges": [each for step in past.steps for each in _gauges(step, query.queue)],
        "total": {**_counted(total), "end_to_end": latency_view(total.end_to_end)},
        "deploys": [
            {"at": moment(each.at) or "", "version": each.version}
            for each in (await desk.metering.versions(since) if desk.metering else ())
        ],
        "is_complete": past.is_complete,
    }


def period_of(name: Range, now: datetime) -> tuple[datetime, datetime]:
    """Tell a number of whole steps up to now; the last is not over."""
    step = _STEPS[name]
    until = now - (now - EPOCH) % step + step
    return until - _SPANS[name], until


async def past_of(desk: Desk, name: Range) -> Past:
    """Tell what happened over a range."""
    if desk.metering is None:
        return Past([], is_complete=True)
    since, until = period_of(name, desk.store.clock.now())
    history = desk.histories.setdefault(name, History(desk.metering, _STEPS[name]))
    return await history.read(since, until)


def _gauges(step: Step, queue: str | None) -> Iterator[GaugePointView]:
    found = [each for each in step.gauges.values() if queue in {None, each.queue}]
    if not found:
        return
    yield {
        "at": moment(step.start) or "",
        "backlog": sum(each.counts.get(Status.PENDING, 0) for each in found),
        "running": sum(each.running for each in found),
        "oldest_due_seconds": max(
            (each.oldest_due_age.total_seconds() for each in found), default=0.0
        ),
    }


def _counted(activity: Activity) -> CountedView:
    counters = activity.counters
    return {
        "enqueued": counters.enqueued,
        "claimed": counters.claimed,
        "done": counters.done,
        "failed": counters.failed,
        "retried": counters.retried,
        "dead": counters.dead,
        "cancelled": counters.cancelled,
        "wait": latency_view(activity.wait),
        "run": latency_view(activity.run),
    }


def latency_view(sketch: LatencySketch) -> LatencyView | None:
    """Show how long things took; ``None`` where nothing did."""
    if not sketch.count:
        return None
    return {
        "count": sketch.count,
        "mean": _rounded(sketch.mean),
        "p50": _rounded(sketch.p50),
        "p95": _rounded(sketch.p95),
        "p99": _rounded(sketch.p99),
    }


def _rounded(value: timedelta | None) -> float:
    return round(seconds(value) or 0.0, 6)


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="metrics",
        summary="What happened over hours or days",
        handle=metrics,
        query=MetricsQuery,
        answer=SeriesView,
    ),
)
