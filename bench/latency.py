"""From enqueue to the handler's first line, on an idle manager."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from random import random
from statistics import median
from time import perf_counter

from bench.claiming import RawClaimer
from bench.measuring import Row, Sample, Target, in_turns
from bench.partners import partner
from bench.scene import (
    A_NOTE,
    DATABASE,
    NOTE,
    Collection,
    Document,
    Note,
    Scene,
    copies,
    manager,
    template,
)
from gotasks_mongostore import MongoStore
from gotasks_py import Manager


async def run(scene: Scene) -> AsyncIterator[Row]:
    """Measure in one process, from another client, and between two processes."""
    yield await _here(scene)
    yield await _elsewhere(scene)
    async for row in _between_processes(scene):
        yield row


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
            return median([await _raw(tasks, claimer, document) for _ in range(times)]) * 1000

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


async def _between_processes(scene: Scene) -> AsyncIterator[Row]:
    """Enqueue here what a manager of another process is told of, and insert and claim in turn."""
    ours, raw = list[float](), list[float]()
    async with scene.store() as (store, tasks), scene.store() as (raw_store, raw_tasks):
        document = await template(raw_store, raw_tasks)
        claimer, producer = RawClaimer(raw_tasks, "raw", None), manager(store)
        arguments = (scene.uri, tasks.name, "single", 4, 1, "tell when")
        async with partner("bench.worker", *arguments) as worker:
            worker.go()
            assert await worker.says() == "connected"
            for _ in range(scene.rounds * scene.scaled(200)):
                await _a_moment()
                began = perf_counter()
                await producer.enqueue(NOTE, A_NOTE)
                ours.append((float(await worker.says()) - began) * 1000)
                await _a_moment()
                raw.append(await _raw(raw_tasks, claimer, document) * 1000)
    for percent, most in ((50, 3), (99, 5)):
        yield Row(
            f"enqueue to start, two processes: p{percent}, to raw p50",
            "ms",
            Sample([_percentile(ours, percent)]),
            Sample([median(raw)]),
            Target(most=most),
        )
    p99 = Sample([_percentile(ours, 99)]), Sample([_percentile(raw, 99)])
    yield Row("enqueue to start, two processes: p99, to raw p99", "ms", *p99)


async def _raw(tasks: Collection, claimer: RawClaimer, document: Document) -> float:
    """Insert a task and claim it, one after the other."""
    began = perf_counter()
    await tasks.insert_one(copies(document, 1)[0])
    assert await claimer.claim() is not None
    return perf_counter() - began


def _percentile(values: Sequence[float], percent: int) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


def _signalled(worker: Manager) -> asyncio.Queue[float]:
    started: asyncio.Queue[float] = asyncio.Queue()

    @worker.handler(NOTE)
    async def handle(_: Note) -> None:
        started.put_nowait(perf_counter())

    return started


async def _latency(producer: Manager, started: asyncio.Queue[float], times: int) -> float:
    delays: list[float] = []
    for _ in range(times):
        await _a_moment()
        began = perf_counter()
        await producer.enqueue(NOTE, A_NOTE)
        delays.append(await started.get() - began)
    return median(delays) * 1000


async def _a_moment() -> None:
    """Wait until everybody is idle, and for no fixed phase."""
    await asyncio.sleep(0.01 * (1 + random()))
