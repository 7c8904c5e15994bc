"""How large the collections and indexes are, how they are used, and how far the log reaches."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias

from pymongo.asynchronous.collection import AsyncCollection

from gotasks_mongostore._driver import Collections, Document
from gotasks_mongostore._explains import explained, oplog_state
from gotasks_mongostore._gathering import gathered
from gotasks_mongostore._plans import queries
from gotasks_py.diagnosis import CollectionSize, IndexUse, Measurements, PlanCheck
from gotasks_py.errors import StoreError, StoreUnavailableError

Operation: TypeAlias = Callable[[str], AbstractContextManager[Collections]]


@dataclass(frozen=True, slots=True)
class Survey:
    """One look at everything. What the user may not read is left out."""

    operation: Operation

    async def run(self) -> Measurements:
        with self.operation("measure") as here:
            collections = (here.tasks, here.queues, here.metrics, here.audit)
        sizes: list[CollectionSize] = []
        uses: list[IndexUse] = []
        for collection in collections:
            stats = await self._stats(collection)
            if stats is not None:
                sizes.append(_size(collection.name, stats))
                uses += [each async for each in self._uses(collection, stats)]
        plans = await self._plans()
        oplog = None
        with suppress(StoreError):
            oplog = await oplog_state(self.operation)
        return Measurements(collections=sizes, indexes=uses, plans=plans, oplog=oplog)

    async def _stats(self, collection: AsyncCollection[Document]) -> Mapping[str, Any] | None:
        try:
            found = await self._run(collection, {"$collStats": {"storageStats": {}}})
        except StoreUnavailableError:
            raise
        except StoreError:  # it is not there yet, or the user may not ask
            return None
        stats = found[0].get("storageStats") if found else None
        return stats if isinstance(stats, dict) else None

    async def _uses(
        self, collection: AsyncCollection[Document], stats: Mapping[str, Any]
    ) -> AsyncIterator[IndexUse]:
        try:
            found = await self._run(collection, {"$indexStats": {}})
        except StoreUnavailableError:
            raise
        except StoreError:
            return
        sizes = stats.get("indexSizes")
        for each in found:
            match each:
                case {"name": str(name), "key": dict(keys), "accesses": {"ops": ops}}:
                    yield IndexUse(
                        collection=collection.name,
                        name=name,
                        keys=[(str(key), _whole(order)) for key, order in keys.items()],
                        bytes=_whole(sizes.get(name)) if isinstance(sizes, dict) else 0,
                        uses=_whole(ops),
                    )
                case _:
                    pass

    async def _plans(self) -> Sequence[PlanCheck]:
        examples = list(queries(datetime.now(UTC)))
        try:
            plans = await gathered([partial(explained, self.operation, each) for each in examples])
        except StoreUnavailableError:
            raise
        except StoreError:
            return []
        return [
            PlanCheck(query=each.query.name, index=each.query.index, is_served=each.is_fit)
            for each in plans
        ]

    async def _run(
        self, collection: AsyncCollection[Document], stage: Mapping[str, Any]
    ) -> Sequence[Document]:
        with self.operation("measure"):
            opening: Any = collection.aggregate([stage])
            # Motor's is no awaitable, but its calls are alike.
            cursor = await opening if inspect.isawaitable(opening) else opening
            found: list[Document] = await cursor.to_list(None)
            return found


def _size(name: str, stats: Mapping[str, Any]) -> CollectionSize:
    return CollectionSize(
        name=name,
        documents=_whole(stats.get("count")),
        bytes=_whole(stats.get("size")),
        storage_bytes=_whole(stats.get("storageSize")),
        index_bytes=_whole(stats.get("totalIndexSize")),
    )


def _whole(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0
