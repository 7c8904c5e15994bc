"""Draining in pipeline mode, beside the least that a batched drain can do."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from time import perf_counter

from bench.draining import drained, fill
from bench.measuring import Row, Target, in_turns
from bench.partners import partner
from bench.scene import QUEUE, Collection, Document, Scene
from gotasks_mongostore._filters import CLAIM_ORDER
from gotasks_py import PipelineMode

BATCH = 500
WORKERS = 16

_DUE = {"due_at": {"$exists": True}, "$expr": {"$lte": ["$due_at", "$$NOW"]}}
_UNTIL = {"$add": ["$$NOW", 60_000]}


async def run(scene: Scene) -> AsyncIterator[Row]:
    """Measure a drain of 50 000 tasks by one process."""
    number = scene.scaled(50_000)

    async def ours() -> float:
        async with scene.store() as (store, tasks):
            await fill(store, tasks, number)
            return number / await drained(store, WORKERS, number, PipelineMode())

    async def raw() -> float:
        async with scene.store() as (store, tasks):
            await fill(store, tasks, number)
            return number / await _drained_raw(tasks)

    samples = await in_turns(scene.rounds, {"ours": ours, "raw": raw})
    target = Target(least=0.6)
    yield Row("drain, pipeline mode", "tasks/s", samples["ours"], samples["raw"], target)
    yield await _beside_single_mode(scene)
    yield await _followed(scene)


async def _beside_single_mode(scene: Scene) -> Row:
    async def rate(mode: PipelineMode | None, number: int) -> float:
        async with scene.store() as (store, tasks):
            await fill(store, tasks, number)
            return number / await drained(store, WORKERS, number, mode)

    samples = await in_turns(
        scene.rounds,
        {
            "pipeline": lambda: rate(PipelineMode(), scene.scaled(20_000)),
            "single": lambda: rate(None, scene.scaled(2_000)),
        },
    )
    pair = samples["pipeline"], samples["single"]
    return Row("drain, pipeline mode, to single mode", "tasks/s", *pair, Target(least=5))


async def _followed(scene: Scene) -> Row:
    """Compare a drain that another process follows by the change stream with one alone."""
    number = scene.scaled(20_000)

    async def rate(*, is_followed: bool) -> float:
        async with scene.store() as (store, tasks), AsyncExitStack() as stack:
            await fill(store, tasks, number)
            if is_followed:
                # Of another queue: it is told of everything and finds nothing to do.
                arguments = (scene.uri, tasks.name, "single", 1, 1, "only listen")
                follower = await stack.enter_async_context(partner("bench.worker", *arguments))
                follower.go()
                assert await follower.says() == "connected"
            return number / await drained(store, WORKERS, number, PipelineMode())

    samples = await in_turns(
        scene.rounds,
        {"followed": lambda: rate(is_followed=True), "alone": lambda: rate(is_followed=False)},
    )
    pair = samples["followed"], samples["alone"]
    return Row("drain that another process follows, to one alone", "tasks/s", *pair)


async def _drained_raw(tasks: Collection) -> float:
    """Claim a batch while the one before it is being settled, with a result for each task."""
    began = perf_counter()
    settling: asyncio.Task[None] | None = None
    while claimed := await _claim(tasks):
        if settling is not None:
            await settling
        settling = asyncio.create_task(_settle(tasks, claimed))
    if settling is not None:
        await settling
    return perf_counter() - began


async def _claim(tasks: Collection) -> list[Document]:
    lane = {"queue": QUEUE, "lane": 0, "type": "note"}
    found = await tasks.find({**lane, **_DUE}, sort=CLAIM_ORDER, limit=BATCH, hint="claim").to_list(
        None
    )
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
        "finished_at": "$$NOW",
    }
    held = {"_id": {"$in": ids}, "status": "running"}
    result = await tasks.update_many(held, [{"$set": done}, {"$unset": ["lease", "due_at"]}])
    assert result.matched_count == len(claimed)
