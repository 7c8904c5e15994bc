"""Draining in pipeline mode, beside the least that a batched drain can do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

from bench.draining import drained, fill
from bench.limit import bare, drained_bare
from bench.measuring import Row, Target, in_turns
from bench.partners import partner
from bench.scene import Scene
from gotasks_py import PipelineMode

WORKERS = 16


async def run(scene: Scene) -> AsyncIterator[Row]:
    """Measure a drain of 50 000 tasks by one process."""
    number = scene.scaled(50_000)

    async def ours() -> float:
        async with scene.store() as (store, tasks):
            await fill(store, tasks, number)
            return number / await drained(store, WORKERS, number, PipelineMode())

    async def alike() -> float:
        async with scene.store() as (store, tasks):
            await fill(store, tasks, number)
            return number / await drained_bare(tasks)

    async def limit(lanes: int) -> float:
        async with bare(scene, number, lanes=lanes) as tasks:
            return number / await drained_bare(tasks, lanes=lanes)

    samples = await in_turns(
        scene.rounds,
        {
            "ours": ours,
            "alike": alike,
            "one lane": lambda: limit(1),
            "two lanes": lambda: limit(2),
        },
    )
    best = max(samples["one lane"], samples["two lanes"], key=lambda each: each.median)
    yield Row("drain, pipeline mode", "tasks/s", samples["ours"], best, Target(least=0.6))
    name = "drain, pipeline mode, to a bare one of our documents"
    yield Row(name, "tasks/s", samples["ours"], samples["alike"])
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
