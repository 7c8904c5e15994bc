"""The least that a batched drain can do: the claims and settlements alone, on PyMongo."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from time import perf_counter
from typing import Final

from bson import ObjectId

from bench.scene import QUEUE, Collection, Document, Scene
from gotasks_mongostore._filters import CLAIM_ORDER

_BATCH: Final = 500
_TYPE: Final = "note"
_DUE: Final = {"due_at": {"$exists": True}, "$expr": {"$lte": ["$due_at", "$$NOW"]}}
_UNTIL: Final = {"$add": ["$$NOW", 60_000]}


@asynccontextmanager
async def bare(scene: Scene, number: int, *, lanes: int) -> AsyncGenerator[Collection]:
    """Keep so many bare tasks, with the fields and the one index that claims cannot do without."""
    async with scene.collection() as tasks:
        await tasks.create_index(
            [("queue", 1), ("lane", 1), ("type", 1), *CLAIM_ORDER],
            name="claim",
            partialFilterExpression={"due_at": {"$exists": True}},
        )
        now = datetime.now(UTC)
        for start in range(0, number, 1000):
            numbers = range(start, min(start + 1000, number))
            await tasks.insert_many([_task(each, each % lanes, now) for each in numbers])
        yield tasks


def _task(number: int, lane: int, now: datetime) -> Document:
    return {
        "_id": ObjectId(),
        "queue": QUEUE,
        "lane": lane,
        "type": _TYPE,
        "status": "pending",
        "priority": 0,
        "payload": {"number": number},
        "run_at": now,
        "due_at": now,
        "attempts": 0,
        "max_attempts": 3,
        "created_at": now,
        "updated_at": now,
    }


async def drained_bare(tasks: Collection, *, lanes: int = 1) -> float:
    """Tell how many seconds it takes to claim and settle all, each lane on its own."""
    began = perf_counter()
    await asyncio.gather(*(_drain_lane(tasks, lane) for lane in range(lanes)))
    return perf_counter() - began


async def _drain_lane(tasks: Collection, lane: int) -> None:
    """Claim a batch while the one before it is being settled, with a result for each task."""
    settling: asyncio.Task[None] | None = None
    while claimed := await _claim(tasks, lane):
        if settling is not None:
            await settling
        settling = asyncio.create_task(_settle(tasks, claimed))
    if settling is not None:
        await settling


async def _claim(tasks: Collection, lane: int) -> list[Document]:
    head = {"queue": QUEUE, "lane": lane, "type": _TYPE, **_DUE}
    found = await tasks.find(head, sort=CLAIM_ORDER, limit=_BATCH, hint="claim").to_list(None)
    if not found:
        return []
    running = {
        "status": "running",
        "attempts": {"$add": ["$attempts", 1]},
        "lease": {"token": uuid.uuid4().hex, "owner": "raw", "until": _UNTIL},
        "due_at": _UNTIL,
        "updated_at": "$$NOW",
    }
    guard = {"_id": {"$in": [each["_id"] for each in found]}, "attempts": 0, **_DUE}
    result = await tasks.update_many(guard, [{"$set": running}])
    assert result.modified_count == len(found)
    return found


async def _settle(tasks: Collection, claimed: list[Document]) -> None:
    ids = [each["_id"] for each in claimed]
    results = [{"value": number} for number in range(len(claimed))]
    row = {"$indexOfArray": [{"$literal": ids}, "$_id"]}
    done = {
        "status": "done",
        "result": {"$arrayElemAt": [{"$literal": results}, row]},
        "updated_at": "$$NOW",
    }
    held = {"_id": {"$in": ids}, "status": "running"}
    result = await tasks.update_many(held, [{"$set": done}, {"$unset": ["lease", "due_at"]}])
    assert result.matched_count == len(claimed)
