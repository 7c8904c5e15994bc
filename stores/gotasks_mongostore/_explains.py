"""What the server tells of the plans of queries, and of its log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeAlias

from bson import Timestamp
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import OperationFailure

from gotasks_mongostore._driver import Collections, Document
from gotasks_mongostore._plans import CollectionName, Query
from gotasks_py.diagnosis import OplogState

Operation: TypeAlias = Callable[[str], AbstractContextManager[Collections]]

_BAD_STAGES: Final = frozenset({"COLLSCAN", "SORT"})


@dataclass(frozen=True, slots=True)
class Explained:
    """How a query is carried out."""

    query: Query
    bad_stages: Sequence[str]
    indexes: frozenset[str]

    @property
    def is_fit(self) -> bool:
        """Whether the index that it is pinned to serves it, in order."""
        return not self.bad_stages and self.indexes <= {self.query.index}

    def __str__(self) -> str:
        done = ", ".join(self.bad_stages) or "served"
        return f"{done} by {', '.join(sorted(self.indexes)) or 'none'}"


async def explained(operation: Operation, query: Query) -> Explained:
    """Ask how a query is carried out."""
    with operation(f"explain {query.name}") as here:
        name = collection_of(here, query.collection).name
        command: dict[str, Any] = {"find": name, "filter": query.condition}
        if query.sort:
            command["sort"] = dict(query.sort)
        command["hint"] = query.index
        try:
            answer = await here.database.command("explain", command, verbosity="queryPlanner")
        except OperationFailure as error:
            if "hint" not in str(error):
                raise
            return Explained(query, ["COLLSCAN"], frozenset())
    stages = list(_walk(_winning(answer)))
    bad = sorted(_BAD_STAGES & {str(each.get("stage")) for each in stages})
    indexes = frozenset(str(each["indexName"]) for each in stages if "indexName" in each)
    return Explained(query, bad, indexes)


async def oplog_state(operation: Operation) -> OplogState | None:
    """Ask how far the log reaches back; ``None``: there is none."""
    with operation("read the oplog") as here:
        if "setName" not in await here.database.command("hello"):
            return None
        oplog = here.database.client["local"]["oplog.rs"]
        first = await oplog.find_one({}, {"ts": 1}, sort=[("$natural", 1)])
        last = await oplog.find_one({}, {"ts": 1}, sort=[("$natural", -1)])
    match first, last:
        case {"ts": Timestamp() as began}, {"ts": Timestamp() as ends}:
            window = timedelta(seconds=ends.time - began.time)
        case _:
            return None
    with operation("read the size of the oplog") as here:
        stats = await here.database.client["local"].command("collStats", "oplog.rs")
    used = float(stats.get("size", 0)) / float(stats.get("maxSize", 0) or 1)
    return OplogState(window=window, used=used)


def collection_of(here: Collections, name: CollectionName) -> AsyncCollection[Document]:
    """Tell a collection by its name here."""
    collection: AsyncCollection[Document] = getattr(here, name)
    return collection


def _winning(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    planner = answer.get("queryPlanner") or {}
    plan: Mapping[str, Any] = planner.get("winningPlan") or {}
    # The slot-based engine keeps the plan that people know one level down.
    found: Mapping[str, Any] = plan.get("queryPlan", plan)
    return found


def _walk(stage: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield stage
    for child in (stage.get("inputStage"), *_list(stage.get("inputStages"))):
        if isinstance(child, dict):
            yield from _walk(child)
    for shard in _list(stage.get("shards")):
        if isinstance(shard, dict):
            yield from _walk(shard.get("winningPlan") or {})


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else []
