"""By which index the tasks of a filter are reached, in the order of ``run_at``, then id."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gotasks_mongostore._filters import Filter
from gotasks_py.inspecting import TaskFilter
from gotasks_py.task import Status, TaskId

# The planner merges so many scans in order; beyond that it would sort everything.
_MOST_SCANS: Final = 200


@dataclass(frozen=True, slots=True)
class Access:
    """One way to tasks: what the index ``hint`` serves, and what is left to be looked at."""

    hint: str
    served: Filter
    rest: Filter


def accesses(wanted: TaskFilter, task_id: TaskId | None, queues: Sequence[str]) -> Sequence[Access]:
    """Tell the ways that together lead to all tasks of a filter, each by an index."""
    left = _parts(wanted)
    if not wanted.statuses:
        return []
    if task_id is not None:
        return [Access("_id_", {"_id": task_id}, _joined(left))]
    if wanted.unique_key is not None:
        del left["unique_key"]
        queue = left.pop("queue", {})
        # Named, or the index would be gone through from end to end.
        held: Filter = {"queue": {"$gte": ""}, "lane": {"$gte": 0}, **queue}
        held["unique_key"] = wanted.unique_key
        released: Filter = {"released_key": wanted.unique_key}
        return [
            Access("unique", held, _joined(left)),
            Access("released", released, _joined({**left, "queue": queue})),
        ]
    return list(_ordered(wanted, left, [wanted.queue] if wanted.queue else queues))


def everything(wanted: TaskFilter) -> Filter:
    """Match what a filter means, for tasks that are named by their ids."""
    return _joined(_parts(wanted))


def _ordered(
    wanted: TaskFilter, left: dict[str, Filter], queues: Sequence[str]
) -> Iterator[Access]:
    within = left.pop("run_at", {})
    if wanted.fingerprint is not None:
        for name in ("queue", "error_fingerprint", "status"):  # dead it is, or it has none
            left.pop(name, None)
        for some in _chunks(queues, _MOST_SCANS):
            served = {**_in("queue", some), "error_fingerprint": wanted.fingerprint, **within}
            yield Access("errors", served, _joined(left))
    elif wanted.tag is not None:
        del left["tags"]
        tagged: Filter = {"tags": wanted.tag, "tags.0": {"$exists": True}}
        yield Access("tags", {**tagged, **within}, _joined(left))
    else:
        for name in ("queue", "status"):
            left.pop(name, None)
        of_status = _in("status", sorted(wanted.statuses))
        for some in _chunks(queues, _MOST_SCANS // len(wanted.statuses)):
            yield Access("list", {**_in("queue", some), **of_status, **within}, _joined(left))


def _parts(wanted: TaskFilter) -> dict[str, Filter]:
    """State each part of a filter on its own. Every value is compared by ``$eq``."""
    values: dict[str, object] = {
        "queue": wanted.queue,
        "type": wanted.type,
        "tags": wanted.tag,
        "error_fingerprint": wanted.fingerprint,
    }
    parts: dict[str, Filter] = {
        name: {name: {"$eq": value}} for name, value in values.items() if value is not None
    }
    if wanted.statuses != frozenset(Status):
        parts["status"] = {"status": {"$in": sorted(wanted.statuses)}}
    if wanted.unique_key is not None:
        keys = [{"unique_key": wanted.unique_key}, {"released_key": wanted.unique_key}]
        parts["unique_key"] = {"$or": keys}
    if bounds := _bounds(wanted):
        parts["run_at"] = {"run_at": bounds}
    return parts | _searched(wanted)


def _searched(wanted: TaskFilter) -> dict[str, Filter]:
    """State what no index serves."""
    parts: dict[str, Filter] = {
        f"payload.{path}": {f"payload.{path}": {"$eq": value}}
        for path, value in wanted.payload.items()
    }
    if wanted.worker is not None:
        owner = {"$regex": rf"^{re.escape(wanted.worker)}(\.|$)"}
        parts["lease.owner"] = {"lease.owner": owner}
    if wanted.error is not None:
        parts["errors"] = {"errors.message": {"$regex": re.escape(wanted.error)}}
    return parts


def _bounds(wanted: TaskFilter) -> Filter:
    bounds = {"$gte": wanted.run_from, "$lt": wanted.run_before}
    return {name: moment for name, moment in bounds.items() if moment is not None}


def _joined(parts: dict[str, Filter]) -> Filter:
    return {name: value for part in parts.values() for name, value in part.items()}


def _in(field: str, values: Sequence[str]) -> Filter:
    return {field: values[0] if len(values) == 1 else {"$in": list(values)}}


def _chunks(values: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]
