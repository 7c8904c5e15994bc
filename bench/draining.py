"""Draining a queue, beside a bare loop of the same claims and settles."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from time import monotonic, perf_counter

from bench.claiming import RawClaimer
from bench.measuring import Row, in_turns
from bench.scene import NOTE, Collection, Note, Scene, copies, manager, template
from gotasks_mongostore import MongoStore
from gotasks_mongostore._low_water import LowWater
from gotasks_py import PipelineMode
from gotasks_py.lanes import Lanes


async def run(scene: Scene) -> AsyncIterator[Row]:
    """Measure with one worker, a few and many; the handler does nothing."""
    for workers, number in ((1, 400), (4, 800), (16, 1600)):
        yield await drain(scene, workers, scene.scaled(number))


async def drain(scene: Scene, workers: int, number: int) -> Row:
    """Compare drains of so many tasks by so many workers."""

    async def ours() -> float:
        async with scene.store() as (store, tasks):
            await fill(store, tasks, number)
            return number / await drained(store, workers, number)

    async def raw() -> float:
        async with scene.store() as (store, tasks):
            await fill(store, tasks, number)
            return number / await _drained_raw(tasks, workers)

    samples = await in_turns(scene.rounds, {"ours": ours, "raw": raw})
    name = f"drain, {workers} worker{'s' if workers > 1 else ''}"
    return Row(name, "tasks/s", samples["ours"], samples["raw"])


async def fill(store: MongoStore, tasks: Collection, number: int, *, lanes: int = 1) -> None:
    """Put tasks into a queue, spread over its lanes."""
    document, spread = await template(store, tasks, lanes=lanes), Lanes.first(lanes)
    for start in range(0, number, 1000):
        many = copies(document, min(1000, number - start))
        if lanes > 1:
            many = [{**each, "lane": spread.lane_for(None)} for each in many]
        await tasks.insert_many(many, ordered=False)


async def drained(
    store: MongoStore, workers: int, number: int, mode: PipelineMode | None = None
) -> float:
    """Tell how many seconds a manager takes, up to the last recorded outcome."""
    worker = manager(store, workers=workers, mode=mode)
    all_ran = asyncio.Event()
    left = number

    @worker.handler(NOTE)
    async def handle(_: Note) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            all_ran.set()

    began = perf_counter()
    await worker.start()
    await all_ran.wait()
    await worker.stop()  # waits for the last settles
    return perf_counter() - began


async def _drained_raw(tasks: Collection, workers: int) -> float:
    marks = LowWater(monotonic, lambda: datetime.now(UTC))

    async def work(owner: str) -> None:
        claimer = RawClaimer(tasks, owner, marks)
        while (document := await claimer.claim()) is not None:
            await claimer.settle(document)

    began = perf_counter()
    await asyncio.gather(*(work(f"worker {number}") for number in range(workers)))
    return perf_counter() - began
