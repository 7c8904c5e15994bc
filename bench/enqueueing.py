"""Enqueueing, beside inserts of the same documents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from time import perf_counter

from bench.measuring import Row, Target, in_turns
from bench.scene import A_NOTE, NOTE, QUEUE, Scene, copies, manager, template
from gotasks_py import Enqueue


async def run(scene: Scene) -> AsyncIterator[Row]:
    """Measure one by one, many at a time, and in bulk."""
    for callers, number in ((1, 500), (50, 2000)):
        yield await _one_by_one(scene, callers, scene.scaled(number))
    async for row in _in_bulk(scene, scene.scaled(20_000)):
        yield row


async def _one_by_one(scene: Scene, callers: int, number: int) -> Row:
    async with scene.store() as (store, _), scene.store() as (raw_store, tasks):
        producer = manager(store)
        document = await template(raw_store, tasks)
        await producer.enqueue(NOTE, A_NOTE)

        async def ours() -> float:
            return await _rate(lambda: producer.enqueue(NOTE, A_NOTE), callers, number)

        async def raw() -> float:
            return await _rate(lambda: tasks.insert_one(copies(document, 1)[0]), callers, number)

        samples = await in_turns(scene.rounds, {"ours": ours, "raw": raw})
    name = "enqueue one by one" if callers == 1 else f"enqueue, {callers} callers at once"
    return Row(name, "tasks/s", samples["ours"], samples["raw"])


async def _in_bulk(scene: Scene, number: int) -> AsyncIterator[Row]:
    async with scene.store() as (store, _), scene.store() as (raw_store, tasks):
        producer = manager(store)
        document = await template(raw_store, tasks)
        await producer.enqueue_many([Enqueue(QUEUE, "note", A_NOTE)])
        chunks = [min(1000, number - start) for start in range(0, number, 1000)]

        async def ours() -> float:
            began = perf_counter()
            await producer.enqueue_many(Enqueue(QUEUE, "note", A_NOTE) for _ in range(number))
            return number / (perf_counter() - began)

        async def raw(at_once: int) -> float:
            left = iter(chunks)

            async def insert() -> None:
                for size in left:
                    await tasks.insert_many(copies(document, size), ordered=False)

            began = perf_counter()
            await asyncio.gather(*(insert() for _ in range(at_once)))
            return number / (perf_counter() - began)

        samples = await in_turns(
            scene.rounds, {"ours": ours, "raw": lambda: raw(1), "four": lambda: raw(4)}
        )
    target = Target(least=0.7)
    yield Row("enqueue_many", "tasks/s", samples["ours"], samples["raw"], target)
    yield Row("enqueue_many, to 4 raw at once", "tasks/s", samples["ours"], samples["four"])


async def _rate(call: Callable[[], Awaitable[object]], callers: int, number: int) -> float:
    async def caller() -> None:
        for _ in range(number // callers or 1):
            await call()

    began = perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return (number // callers or 1) * callers / (perf_counter() - began)
