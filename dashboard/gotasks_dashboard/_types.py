"""Routes that tell how the types of tasks are doing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from typing_extensions import TypedDict

from gotasks_dashboard._dead import GroupView, group_view
from gotasks_dashboard._desk import Desk
from gotasks_dashboard._endpoints import Call, Endpoint, Name, Nothing
from gotasks_dashboard._enqueueing import schema_of
from gotasks_dashboard._history import Past, Place
from gotasks_dashboard._query import written
from gotasks_dashboard._series import LatencyView, RangeQuery, latency_view, past_of, period_of
from gotasks_dashboard._values import moment
from gotasks_dashboard._views import CountView, total_of
from gotasks_py import Activity, Count, DeadGroup, LatencySketch, Node, Status, Task, TaskFilter

_MOST_GROUPS: Final = 50
_MOST_COUNTED: Final = 10
_MOST_READ: Final = 500
"""Of how many dead letters causes are told: the latest."""
_TYPES_SECONDS: Final = 5.0
# Each bar is twice as long as the one before, from a microsecond up to more than a day.
_BOUNDS: Final = tuple(0.001 * 2**number for number in range(-10, 28))


class TypeRangeQuery(RangeQuery):
    """Which type, and over how long."""

    queue: Name
    type: Name


class TypeView(TypedDict):
    """How a type is doing. The failure rate is the part of attempts that failed."""

    queue: str
    type: str
    enqueued: int
    done: int
    failed: int
    dead: int
    failure_rate: float | None
    run: LatencyView | None
    wait: LatencyView | None
    nodes: int
    schema: bool


class TypesView(TypedDict):
    """How all types are doing."""

    since: str
    until: str
    types: Sequence[TypeView]
    is_complete: bool


class BarView(TypedDict):
    """How many attempts took so long."""

    from_seconds: float
    to_seconds: float
    count: int


class TypeDetailView(TypedDict):
    """How one type is doing, and what it fails of; ``others`` are dead of causes not listed."""

    since: str
    until: str
    summary: TypeView
    histogram: Sequence[BarView]
    failures: Sequence[GroupView]
    others: CountView
    schema: Mapping[str, object] | None
    is_complete: bool


async def types(desk: Desk, call: Call[RangeQuery, Nothing]) -> TypesView:
    """Tell how all types are doing."""
    span = call.query.range

    async def ask() -> TypesView:
        past = await past_of(desk, span)
        summed = _by_type(past)
        nodes = await desk.metering.nodes() if desk.metering else ()
        served = {
            (queue, name) for node in nodes for queue, names in node.types.items() for name in names
        }
        places = sorted({*summed, *served, *desk.types})
        since, until = period_of(span, desk.store.clock.now())
        return {
            "since": moment(since) or "",
            "until": moment(until) or "",
            "types": [_view(desk, each, summed.get(each, Activity()), nodes) for each in places],
            "is_complete": past.is_complete,
        }

    return await desk.shared(
        ("types", span), ask, _TYPES_SECONDS, lambda found: found["is_complete"]
    )


async def type_detail(desk: Desk, call: Call[TypeRangeQuery, Nothing]) -> TypeDetailView:
    """Tell how one type is doing."""
    query = call.query
    place = (query.queue, query.type)

    async def ask() -> TypeDetailView:
        past = await past_of(desk, query.range)
        summed = _by_type(past).get(place, Activity())
        nodes = await desk.metering.nodes() if desk.metering else ()
        since, until = period_of(query.range, desk.store.clock.now())
        failures = await _failures(desk, place)
        return {
            "since": moment(since) or "",
            "until": moment(until) or "",
            "summary": _view(desk, place, summed, nodes),
            "histogram": _histogram(summed.run),
            "failures": failures,
            "others": await _others(desk, place, failures),
            "schema": schema_of(desk, *place),
            "is_complete": past.is_complete,
        }

    return await desk.shared(
        ("type", place, query.range), ask, _TYPES_SECONDS, lambda found: found["is_complete"]
    )


def _by_type(past: Past) -> Mapping[Place, Activity]:
    summed: dict[Place, Activity] = {}
    for step in past.steps:
        for place, activity in step.activities.items():
            summed.setdefault(place, Activity()).merge(activity)
    return summed


def _view(desk: Desk, place: Place, activity: Activity, nodes: Sequence[Node]) -> TypeView:
    queue, name = place
    counters = activity.counters
    ended = counters.done + counters.failed
    return {
        "queue": queue,
        "type": name,
        "enqueued": counters.enqueued,
        "done": counters.done,
        "failed": counters.failed,
        "dead": counters.dead,
        "failure_rate": round(counters.failed / ended, 6) if ended else None,
        "run": latency_view(activity.run),
        "wait": latency_view(activity.wait),
        "nodes": sum(name in node.types.get(queue, ()) for node in nodes),
        "schema": place in desk.types,
    }


def _histogram(run: LatencySketch) -> Sequence[BarView]:
    """Count run times in bars, without the empty ones at both ends."""
    below = run.counts_below(_BOUNDS)
    counts = [after - before for before, after in zip([0, *below], below, strict=False)]
    counts.append(run.count - below[-1])
    ends = [*_BOUNDS, 2 * _BOUNDS[-1]]
    used = [number for number, count in enumerate(counts) if count]
    if not used:
        return []
    return [
        {
            "from_seconds": ends[number - 1] if number else 0.0,
            "to_seconds": ends[number],
            "count": counts[number],
        }
        for number in range(used[0], used[-1] + 1)
    ]


async def _failures(desk: Desk, place: Place) -> Sequence[GroupView]:
    """Group the latest dead letters of a type by cause."""
    queue, name = place
    letters = await desk.inspected.find_tasks(
        TaskFilter(queue=queue, type=name, status=[Status.DEAD]), limit=_MOST_READ
    )
    latest: dict[str, Task] = {}
    counts: Counter[str] = Counter()
    for letter in letters.tasks:
        cause = letter.error_fingerprint
        if cause is not None:
            latest.setdefault(cause, letter)
            counts[cause] += 1
    found: list[GroupView] = []
    for rank, (cause, number) in enumerate(counts.most_common(_MOST_GROUPS)):
        count = Count(number, is_exact=letters.cursor is None)
        if not count.is_exact and rank < _MOST_COUNTED:
            wanted = TaskFilter(queue=queue, type=name, fingerprint=cause)
            count = await desk.inspected.count_tasks(wanted)
        found.append(_failure(desk, latest[cause], count))
    return sorted(found, key=lambda each: each["count"]["value"], reverse=True)


async def _others(desk: Desk, place: Place, failures: Sequence[GroupView]) -> CountView:
    """Count the dead letters of a type whose cause is not among those listed."""
    queue, name = place
    dead = await desk.inspected.count_tasks(
        TaskFilter(queue=queue, type=name, status=[Status.DEAD])
    )
    listed = total_of(Count(**each["count"]) for each in failures)
    is_exact = dead.is_exact and listed["is_exact"]
    return {"value": max(0, dead.value - listed["value"]), "is_exact": is_exact}


def _failure(desk: Desk, latest: Task, count: Count) -> GroupView:
    error = latest.errors[-1] if latest.errors else None
    cause = latest.error_fingerprint or ""
    group = DeadGroup(
        queue=latest.queue,
        fingerprint=cause,
        kind=error.kind if error else "",
        message=error.message if error else "",
        count=count,
        latest=latest,
    )
    query = written(queue=latest.queue, type=latest.type, status="dead", fingerprint=cause)
    return {**group_view(desk, group), "query": query}


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="types",
        summary="How all types are doing",
        handle=types,
        query=RangeQuery,
        answer=TypesView,
    ),
    Endpoint(
        method="GET",
        path="types/detail",
        summary="How one type is doing, and what it fails of",
        handle=type_detail,
        query=TypeRangeQuery,
        answer=TypeDetailView,
    ),
)
