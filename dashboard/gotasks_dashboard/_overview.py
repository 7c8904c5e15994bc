"""How all queues are doing, and who works on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Final

from typing_extensions import TypedDict

from gotasks_dashboard._desk import Desk
from gotasks_dashboard._rates import MINUTE, STEPS, RatesView, SparkView, rates_of, spark_of
from gotasks_dashboard._values import Tagged, moment, seconds, tagged
from gotasks_dashboard._views import CountView, count_view, total_of
from gotasks_py import Count, Metering, Metrics, Node, Pause, QueueOverview, QueuePolicy, Status
from gotasks_py import backoff as backoffs
from gotasks_py.controls import QueueChanges

GAUGES_DUTY: Final = "gauges"
_LATELY_SECONDS: Final = 5.0


class PauseView(TypedDict):
    """Since when a queue is paused, and by whom."""

    at: str
    until: str | None
    by: str | None


class PolicyView(TypedDict):
    """The policy that holds for a queue.

    Its weight and workers are those of its managers; where they differ, ``managed`` tells.
    """

    ttl_seconds: float | None
    max_attempts: int | None
    timeout_seconds: float | None
    backoff: Tagged
    weight: int
    workers: int | None
    lanes: int


class ManagedView(TypedDict):
    """The weights that managers give a queue, and how many of its tasks they run at once."""

    weights: Sequence[int]
    workers: Sequence[int]


class QueueView(TypedDict):
    """How one queue is doing."""

    name: str
    counts: Mapping[str, CountView]
    backlog: CountView
    scheduled: CountView
    oldest_due_seconds: float | None
    capacity: int
    pause: PauseView | None
    rates: RatesView
    spark: SparkView
    nodes: int
    policy: PolicyView
    managed: ManagedView
    changed: Sequence[str]


class TotalsView(TypedDict):
    """All queues together."""

    pending: CountView
    running: CountView
    done: CountView
    dead: CountView
    cancelled: CountView
    backlog: CountView
    scheduled: CountView
    capacity: int
    rates: RatesView


class NodesView(TypedDict):
    """All managers together."""

    count: int
    capacity: int
    running: int
    max_loop_lag_seconds: float
    versions: Sequence[str]


class StreamView(TypedDict):
    """Whether the dashboard is told of changes as they happen."""

    state: str
    detail: str


class JanitorView(TypedDict):
    """Which manager looks at all queues for everybody."""

    leader: str | None
    until: str | None
    state: str


class HealthView(TypedDict):
    """Whether what is shown is as it should be."""

    stream: StreamView
    janitor: JanitorView


class OverviewView(TypedDict):
    """How everything is doing."""

    at: str
    queues: Sequence[QueueView]
    totals: TotalsView
    nodes: NodesView
    health: HealthView


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What was read for one overview."""

    now: datetime
    queues: Sequence[QueueOverview]
    recorded: Mapping[str, Mapping[str, object]]
    metrics: Metrics | None
    nodes: Sequence[Node]


async def overview_of(desk: Desk) -> OverviewView:
    """Tell how everything is doing, as of the last two seconds."""
    return await desk.shared("overview", lambda: _overview(desk))


async def _overview(desk: Desk) -> OverviewView:
    metering = desk.metering
    seen = _Seen(
        queues=await desk.queues(),
        recorded=await desk.store.queues(),
        metrics=await _lately(metering, desk) if metering else None,
        nodes=await metering.nodes() if metering else (),
        now=desk.store.clock.now(),
    )
    leader = await metering.leader(GAUGES_DUTY) if metering else None
    state, detail = desk.live.stream
    return {
        "at": moment(seen.now) or "",
        "queues": [_queue_view(each, seen) for each in seen.queues],
        "totals": _totals(seen),
        "nodes": {
            "count": len(seen.nodes),
            "capacity": sum(each.capacity for each in seen.nodes),
            "running": sum(each.running for each in seen.nodes),
            "max_loop_lag_seconds": max(
                (each.loop_lag.total_seconds() for each in seen.nodes), default=0.0
            ),
            "versions": sorted({each.version for each in seen.nodes if each.version}),
        },
        "health": {
            "stream": {"state": state, "detail": detail},
            "janitor": {
                "leader": leader.node if leader else None,
                "until": moment(leader.until) if leader else None,
                "state": "ok" if leader else "none",
            },
        },
    }


async def _lately(metering: Metering, desk: Desk) -> Metrics:
    """Read the windows of the last half hour, as of some seconds ago: managers write them so."""
    return await desk.shared(
        "lately", lambda: metering.metrics(since=STEPS * MINUTE), _LATELY_SECONDS
    )


def _queue_view(queue: QueueOverview, seen: _Seen) -> QueueView:
    serving = [node for node in seen.nodes if node.types.get(queue.name)]
    changes = QueueChanges.from_document(seen.recorded.get(queue.name, {}))
    return {
        "name": queue.name,
        "counts": {status.value: count_view(queue.counts[status]) for status in Status},
        "backlog": count_view(_backlog(queue)),
        "scheduled": count_view(queue.scheduled),
        "oldest_due_seconds": seconds(queue.oldest_due_age),
        "capacity": sum(_capacity(node, queue.policy) for node in serving),
        "pause": _pause_view(queue.pause),
        "rates": rates_of(seen.metrics, seen.now, queue.name),
        "spark": spark_of(seen.metrics, seen.now, queue.name),
        "nodes": len(serving),
        "policy": policy_view(_held(queue.policy, changes, serving)),
        "managed": {
            "weights": sorted({node.weights.get(queue.name, 1) for node in serving}),
            "workers": sorted({_capacity(node, queue.policy) for node in serving}),
        },
        "changed": [
            each.name for each in fields(changes) if getattr(changes, each.name) is not None
        ],
    }


def _totals(seen: _Seen) -> TotalsView:
    counts = {status: total_of(each.counts[status] for each in seen.queues) for status in Status}
    return {
        "pending": counts[Status.PENDING],
        "running": counts[Status.RUNNING],
        "done": counts[Status.DONE],
        "dead": counts[Status.DEAD],
        "cancelled": counts[Status.CANCELLED],
        "backlog": total_of(map(_backlog, seen.queues)),
        "scheduled": total_of(each.scheduled for each in seen.queues),
        "capacity": sum(each.capacity for each in seen.nodes),
        "rates": rates_of(seen.metrics, seen.now),
    }


def _backlog(queue: QueueOverview) -> Count:
    """Tell how many are due: pending, and not scheduled for later."""
    pending, scheduled = queue.counts[Status.PENDING], queue.scheduled
    if not scheduled.is_exact:
        return Count(0, is_exact=False)
    return Count(max(0, pending.value - scheduled.value), pending.is_exact)


def _held(recorded: QueuePolicy, changes: QueueChanges, serving: Sequence[Node]) -> QueuePolicy:
    """Tell the policy as all managers have it: what each declares for itself is not recorded.

    What was changed is told at once, for they follow within seconds.
    """
    weights = {node.weights.get(recorded.name, recorded.weight) for node in serving}
    workers = {_limit(node, recorded) for node in serving}
    if changes.weight is None and len(weights) == 1:
        recorded = replace(recorded, weight=weights.pop())
    if changes.workers is None and len(workers) == 1:
        recorded = replace(recorded, workers=workers.pop())
    return recorded


def _limit(node: Node, policy: QueuePolicy) -> int | None:
    most = _capacity(node, policy)
    return most if most < node.capacity else policy.workers


def _capacity(node: Node, policy: QueuePolicy) -> int:
    """Tell how many tasks of a queue a manager can run at once."""
    declared = node.capacity if policy.workers is None else min(node.capacity, policy.workers)
    return node.workers.get(policy.name, declared)


def _pause_view(pause: Pause | None) -> PauseView | None:
    if pause is None:
        return None
    return {"at": moment(pause.at) or "", "until": moment(pause.until), "by": pause.by}


def policy_view(policy: QueuePolicy) -> PolicyView:
    """Show the policy of a queue."""
    backoff = policy.backoff
    return {
        "ttl_seconds": seconds(policy.ttl),
        "max_attempts": policy.max_attempts,
        "timeout_seconds": seconds(policy.timeout),
        "backoff": None if backoff is None else tagged(backoffs.to_document(backoff)),
        "weight": policy.weight,
        "workers": policy.workers,
        "lanes": policy.lanes,
    }
