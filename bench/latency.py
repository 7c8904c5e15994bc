"""From enqueue to the handler's first line, on an idle manager."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from random import random
from statistics import median
from time import perf_counter

from bench.claiming import RawClaimer
from bench.measuring import Row, in_turns
from bench.scene import A_NOTE, DATABASE, NOTE, Note, Scene, copies, manager, template
from gotasks_mongostore import MongoStore
from gotasks_py import Manager


async def run(scene: Scene) -> AsyncIterator[Row]:
    """Measure in the same process, and from another client, of which the stream tells."""
    yield await _here(scene)
    yield await _elsewhere(scene)


async def _here(scene: Scene) -> Row:
    async with scene.store() as (store, _), scene.store() as (raw_store, tasks):
        times = scene.scaled(200)
        document = await template(raw_store, tasks)
        worker = manager(store, workers=4)
        started = _signalled(worker)
        claimer = RawClaimer(tasks, "raw", None)

        async def ours() -> float:
            return await _latency(worker, started, times)

        async def raw() -> float:
            delays: list[float] = []
            for _ in range(times):
                began = perf_counter()
                await tasks.insert_one(copies(document, 1)[0])
                assert await claimer.claim() is not None
                delays.append(perf_counter() - began)
            return median(delays) * 1000

        async with worker:
            samples = await in_turns(scene.rounds, {"ours": ours, "raw": raw})
    return Row("enqueue to start, same process", "ms", samples["ours"], samples["raw"])


async def _elsewhere(scene: Scene) -> Row:
    async with AsyncExitStack() as stack:
        store, tasks = await stack.enter_async_context(scene.store())
        other = await MongoStore.connect(scene.uri, database=DATABASE, namespace=tasks.name)
        stack.push_async_callback(other.aclose)
        worker, producer = manager(store, workers=4), manager(other)
        started = _signalled(worker)

        async def ours() -> float:
            return await _latency(producer, started, scene.scaled(200))

        await stack.enter_async_context(worker)
        while not worker.health().is_stream_connected:  # noqa: ASYNC110  - health has no event
            await asyncio.sleep(0.01)
        samples = await in_turns(scene.rounds, {"ours": ours})
    return Row("enqueue to start, another client", "ms", samples["ours"])


def _signalled(worker: Manager) -> asyncio.Queue[float]:
    started: asyncio.Queue[float] = asyncio.Queue()

    @worker.handler(NOTE)
    async def handle(_: Note) -> None:
        started.put_nowait(perf_counter())

    return started


async def _latency(producer: Manager, started: asyncio.Queue[float], times: int) -> float:
    delays: list[float] = []
    for _ in range(times):
        await asyncio.sleep(0.01 * (1 + random()))  # until it is idle, and at no fixed phase
        began = perf_counter()
        await producer.enqueue(NOTE, A_NOTE)
        delays.append(await started.get() - began)
    return median(delays) * 1000
