"""One example of each query that the library sends, for a look at its plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from bson import ObjectId

from gotasks_mongostore import _audit, _metrics, _registry
from gotasks_mongostore import _filters as filters
from gotasks_mongostore._access import accesses
from gotasks_py import lifecycle
from gotasks_py.inspecting import TaskFilter
from gotasks_py.metrics_reading import Period
from gotasks_py.store import ClaimRequest
from gotasks_py.task import LeaseRef, Status

CollectionName: TypeAlias = Literal["tasks", "queues", "metrics", "audit"]

_BY_RUN_AT = (("run_at", 1), ("_id", 1))


@dataclass(frozen=True, slots=True)
class Query:
    """A query, the index that it is pinned to, and the collection that it is sent to."""

    name: str
    condition: Mapping[str, Any]
    index: str
    sort: Sequence[tuple[str, int]] = ()
    collection: CollectionName = "tasks"


def queries(now: datetime) -> Iterator[Query]:
    """Yield an example of each query; what it looks for need not be there."""
    yield from _of_tasks(now)
    past = now - timedelta(hours=1)
    hour = Period(past, now)
    yield Query("metrics", _metrics.of_period(None, None, hour), "series", (), "metrics")
    yield Query("metrics of a queue", _metrics.of_period("q", "a", hour), "series", (), "metrics")
    yield Query("managers", _metrics.OF_NODES, "series", (), "metrics")
    yield Query("leader", _metrics.of_leader("gauges"), "_id_", (), "metrics")
    yield Query("queues", _registry.OF_QUEUES, "_id_", (), "queues")
    yield Query("orders", _registry.OF_NODES, "_id_", (), "queues")
    for wanted, index in (({}, "log"), ({"user": "u"}, "by_user"), ({"action": "a"}, "by_action")):
        after = _audit.after(now, "")
        yield Query(f"audit {index}", {**wanted, **after}, index, _audit.LATEST_FIRST, "audit")


def _of_tasks(now: datetime) -> Iterator[Query]:
    lanes, types = (0, 1), ("a", "b")
    claim = ClaimRequest("q", types, "token", "owner", timedelta(minutes=1), lanes)
    order = tuple(filters.CLAIM_ORDER)
    yield Query("claim", filters.due(claim), "claim", order)
    yield Query("claim from the mark", filters.due_from(claim, range(1), now), "claim", order)
    yield Query("next due", filters.due_later("q", types, lanes, None), "claim", order)
    for condition, index in filters.claimed_under(claim, now):
        yield Query("find a claim", condition, index)
    yield Query("reap", filters.lapsed(), "reap", (("reap_at", 1),))
    yield Query("stuck tasks", filters.stuck(), "stuck")
    yield Query("lanes beyond", filters.in_lanes_from("q", 1), "claim", (("lane", -1),))
    yield Query("cancelling", filters.cancelling(), "cancelling", (("cancel_requested_at", -1),))
    yield Query("dead letters", filters.dead("q", "a"), "dead")
    ref = LeaseRef(ObjectId(), "q", 0, "token")
    yield Query("settle", filters.held_for(ref, lifecycle.released()), "_id_")
    for name, wanted in (
        ("list", TaskFilter(queue="q", status=Status.PENDING)),
        ("list by tag", TaskFilter(tag="t")),
        ("list by cause", TaskFilter(queue="q", fingerprint="f")),
        ("list by key", TaskFilter(queue="q", unique_key="k")),
    ):
        for access in accesses(wanted, None, ["q"]):
            condition = {**access.served, **access.rest}
            is_one = access.hint in {"unique", "_id_"}
            yield Query(name, condition, access.hint, () if is_one else _BY_RUN_AT)
