"""The conditions under which the library touches a task, each with the index that serves it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias, cast

from bson import Int64, ObjectId

from gotasks_py.lanes import MAX_LANES
from gotasks_py.lifecycle import Patch
from gotasks_py.store import ClaimRequest, Renewal
from gotasks_py.task import LeaseRef, Status, TaskId

Filter: TypeAlias = dict[str, object]
PlainState: TypeAlias = tuple[int, int, int]  # attempts, interruptions, max_attempts

CLAIM_ORDER: Final = [("priority", -1), ("due_at", 1), ("_id", 1)]
UNMOVED: Final[Mapping[str, None]] = dict.fromkeys(("finished_at", "due_at", "reap_at"))
"""What no task has that nothing will ever move, and that is not final."""
_MOST_SCANS: Final = 200
_SKEW: Final = timedelta(seconds=1)
# Compared by type, for to Python True is a number.
_WHOLE: Final = frozenset({int, Int64})
_USUAL_IDS: Final = frozenset({ObjectId, str})
# Whatever else a hand may have written sorts below a date and would count as due.
_A_DATE: Final = {"$gte": datetime(1, 1, 1, tzinfo=UTC)}


def due(request: ClaimRequest) -> Filter:
    """Match tasks that a claim may take; index ``claim``."""
    return {
        **_claimable(request),
        "due_at": _A_DATE,
        "$expr": {"$lte": ["$due_at", "$$NOW"]},
    }


def mergeable(request: ClaimRequest) -> Iterator[ClaimRequest]:
    """Divide a claim of many lanes so that the index gives each part in order."""
    for lanes in mergeable_lanes(request.lanes, request.types):
        yield replace(request, lanes=lanes)


def mergeable_lanes(lanes: Sequence[int], types: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """Divide lanes so that the index gives the tasks of each part in order.

    The planner merges one scan per lane and type, up to ``internalQueryMaxScansToExplode``;
    beyond that it would sort everything that is due.
    """
    most = max(1, _MOST_SCANS // max(1, len(types)))
    for start in range(0, len(lanes), most):
        yield tuple(lanes[start : start + most])


def due_from(request: ClaimRequest, priorities: range, low_water: datetime) -> Filter:
    """Match what :func:`due` does, but pass over the entries that claims have taken already.

    Taken entries stay in the index as tombstones until the storage engine cleans up;
    without the bound each claim walks over all of them (measured: 4 times the CPU per
    claim after 20 000 claims on MongoDB 6.0). The scan has to begin at the priority itself:
    from any higher one the first step leads onto the oldest tombstone. And a single
    priority must look like a range, or the planner no longer merges the types in order.
    """
    between = {"$lte": priorities[-1], "$gt": priorities[0] - 1}
    return {**due(request), "due_at": {"$gte": low_water}, "priority": between}


def plain_state(document: Mapping[str, object]) -> PlainState | None:
    """Tell the state of a pending task if its next one can be told without the server."""
    attempts = document.get("attempts")
    interruptions = document.get("interruptions")
    max_attempts = document.get("max_attempts")
    if (
        type(attempts) in _WHOLE
        and type(interruptions) in _WHOLE
        and type(max_attempts) in _WHOLE
        and document.get("status") == Status.PENDING.value
        and type(document.get("due_at")) is datetime
        and type(document["_id"]) in _USUAL_IDS
    ):
        return cast("PlainState", (attempts, interruptions, max_attempts))
    return None


def still_as_found(
    request: ClaimRequest,
    found: Sequence[Mapping[str, object]],
    states: Sequence[PlainState | None],
) -> Filter:
    """Match those of the found tasks that nobody has claimed since; index ``_id_``.

    Whatever happens to a task in between moves its due time past the latest that was
    found. The counts say it once more, in case a clock was set back. That they are due by the
    server's time the find has told.
    """
    ids = [each["_id"] for each in found]
    due_times = [at for each in found if isinstance(at := each["due_at"], datetime)]
    groups: dict[PlainState | None, list[object]] = {}
    for task_id, state in zip(ids, states, strict=True):
        groups.setdefault(state, []).append(task_id)
    clauses = [_in_state(state, of_state) for state, of_state in groups.items()]
    as_found = clauses[0] if len(clauses) == 1 else {"$or": clauses}
    return {
        **_claimable(request),
        "_id": {"$in": ids},
        "due_at": {"$gte": min(due_times), "$lte": max(due_times)} if due_times else _A_DATE,
        **as_found,
    }


def held_in_batch(request: ClaimRequest, ids: Sequence[object]) -> Filter:
    """Match those of many tasks that a claim of many has taken; index ``_id_``."""
    return {**_claimable(request), "_id": {"$in": ids}, "lease.token": _of_many(request)}


def due_later(queue: str, types: Sequence[str], lanes: Sequence[int], below: int | None) -> Filter:
    """Match what may be claimed now or later, in priorities ``below`` one; index ``claim``."""
    matched: Filter = {
        "queue": queue,
        "lane": {"$in": list(lanes)},
        "type": {"$in": list(types)},
        "due_at": _A_DATE,
    }
    return matched if below is None else {**matched, "priority": {"$lt": below}}


def claimed_under(request: ClaimRequest, now: datetime) -> list[tuple[Filter, str]]:
    """Match the tasks of a claim, of one or of many, by each index that may hold them."""
    window = {"$gt": now - _SKEW, "$lt": now + request.lease + _SKEW}
    held: Filter = {
        "$or": [{"lease.token": request.token}, {"lease.token": _of_many(request)}],
        "status": {"$in": [Status.RUNNING.value, Status.PENDING.value]},
    }
    return [
        ({**_claimable(request), "due_at": window, **held}, "claim"),
        ({"queue": request.queue, "lane": _lane(request), "reap_at": window, **held}, "reap"),
    ]


def held(ref: LeaseRef) -> Filter:
    """Match the task while its lease is ours: the fence; index ``_id_``."""
    return {
        "_id": ref.id,
        "queue": ref.queue,
        "lane": ref.lane,
        "status": Status.RUNNING.value,
        "lease.token": ref.token,
    }


def held_for(ref: LeaseRef, patch: Patch) -> Filter:
    """Match the task while it is ours and the patch applies."""
    source = patch.source or Status.RUNNING
    return {**held(ref), "status": source.value, **_asked_to_cancel(patch)}


def held_by_any(refs: Sequence[LeaseRef], patch: Patch) -> Filter:
    """Match those of many tasks that are ours and that the patch applies to; index ``_id_``."""
    source = patch.source or Status.RUNNING
    return {**_held(refs), "status": source.value, **_asked_to_cancel(patch)}


def applied_before(ref: LeaseRef, patch: Patch) -> Filter | None:
    """Match the task if this very patch has been applied to it; index ``_id_``.

    ``None``: the patch leaves nothing behind to be known by.
    """
    if patch.ends_lease:
        place = {"_id": ref.id, "queue": ref.queue, "lane": ref.lane}
        return {**place, "settle_token": patch.mark_of(ref)}
    is_start = patch.source is Status.PENDING and patch.target is Status.RUNNING
    return held(ref) if is_start else None


def marked_by_any(refs: Sequence[LeaseRef], patch: Patch) -> Filter:
    """Match those of many tasks whose lease this patch has ended; index ``_id_``."""
    return {**_places(refs), "settle_token": {"$in": [patch.mark_of(ref) for ref in refs]}}


def in_source_of(patch: Patch, task_id: TaskId) -> Filter:
    """Match a task in the state that a patch starts from; index ``_id_``."""
    matched: Filter = {"_id": task_id}
    if patch.source is not None:
        matched["status"] = patch.source.value
    return matched | _asked_to_cancel(patch)


def held_any(renewals: Iterable[Renewal], *, unless_asked: bool) -> Filter:
    """Match the tasks of many leases; index ``_id_``."""
    matched = _held([renewal.ref for renewal in renewals])
    return matched | ({"cancel_requested_at": None} if unless_asked else {})


def lapsed() -> Filter:
    """Match running tasks whose lease lapsed and that may not be claimed; index ``reap``."""
    return {
        "reap_at": _A_DATE,
        "$expr": {"$lte": ["$reap_at", "$$NOW"]},
        "status": Status.RUNNING.value,
    }


def stuck() -> Filter:
    """Match active tasks that neither claims nor janitors would look at; index ``stuck``."""
    return {
        "status": {"$in": [Status.PENDING.value, Status.RUNNING.value]},
        **UNMOVED,
    }


def in_lanes_from(queue: str, lane: int) -> Filter:
    """Match what may be claimed in lanes from one on; index ``claim``."""
    return {"queue": queue, "lane": {"$gte": lane, "$lt": MAX_LANES}, "due_at": _A_DATE}


def cancelling() -> Filter:
    """Match running tasks that were asked to stop; index ``cancelling``."""
    return {"status": Status.RUNNING.value, "cancel_requested_at": _A_DATE}


def dead(queue: str | None, task_type: str | None) -> Filter:
    """Match the dead letters that exist when the query begins; index ``dead``."""
    named = {"queue": queue, "type": task_type}
    return {
        "status": Status.DEAD.value,
        **{name: value for name, value in named.items() if value is not None},
        "$expr": {"$lte": ["$finished_at", "$$NOW"]},
    }


def key_holder(document: Mapping[str, object]) -> Filter:
    """Match the active task that holds a document's unique key; index ``unique``."""
    return {name: document.get(name) for name in ("queue", "lane", "unique_key")}


def key_holders(queue: object, lane: object, keys: Sequence[object]) -> Filter:
    """Match the active tasks that hold keys of one lane; index ``unique``."""
    return {"queue": queue, "lane": lane, "unique_key": {"$in": keys}}


def _claimable(request: ClaimRequest) -> Filter:
    return {
        "queue": request.queue,
        "lane": _lane(request),
        "type": {"$in": list(request.types)},
    }


def _lane(request: ClaimRequest) -> object:
    lanes = request.lanes
    return lanes[0] if len(lanes) == 1 else {"$in": list(lanes)}


def _held(refs: Sequence[LeaseRef]) -> Filter:
    return {
        **_places(refs),
        "status": Status.RUNNING.value,
        # Ids and tokens are not paired up: a token is fresh, so it is on its own task only.
        "lease.token": {"$in": [ref.token for ref in refs]},
    }


def _places(refs: Sequence[LeaseRef]) -> Filter:
    return {
        "_id": {"$in": [ref.id for ref in refs]},
        "queue": {"$in": sorted({ref.queue for ref in refs})},
        "lane": {"$in": sorted({ref.lane for ref in refs})},
    }


def _of_many(request: ClaimRequest) -> Filter:
    # The tokens of a claim of many begin with its own and a slash, which "0" comes after.
    return {"$gte": f"{request.token}/", "$lt": f"{request.token}0"}


def _in_state(state: PlainState | None, ids: Sequence[object]) -> Filter:
    matched: Filter = {"_id": {"$in": ids}}
    if state is None:
        return matched
    names = ("attempts", "interruptions", "max_attempts")
    return {**matched, "status": Status.PENDING.value, **dict(zip(names, state, strict=True))}


def _asked_to_cancel(patch: Patch) -> Filter:
    if patch.cancel_requested is None:
        return {}
    return {"cancel_requested_at": {"$ne": None} if patch.cancel_requested else None}
