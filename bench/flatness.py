"""Whether a task costs more the more tasks there are, waiting or finished."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from time import perf_counter, process_time
from typing import Final, TypeAlias

from bench.draining import drained, fill
from bench.measuring import Row, Sample, Target, by_turns
from bench.scene import (
    NOTE,
    Collection,
    Document,
    Note,
    Scene,
    copies,
    cpu_seconds,
    local_pid,
    manager,
    spaced,
)
from gotasks_mongostore import MongoStore
from gotasks_py import PipelineMode

_MANY: Final = 1_000_000
_FEW: Final = 10_000
_WORKERS: Final = 16
# What is drained of the few: the last of them are another matter, an emptying queue.
_SHARE: Final = 0.8

Costs: TypeAlias = dict[str, float]


async def run(scene: Scene) -> AsyncIterator[Row]:
    """Compare drains beside a million waiting and a million finished tasks with a plain one."""
    many, few = scene.scaled(_MANY), scene.scaled(_FEW)
    number = round(few * _SHARE)
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(scene.store()) for _ in range(3)]
        few_tasks, waiting, finished = stores
        await fill(*waiting, many)
        await _finish(*finished, many)
        await scene.client.admin.command("fsync")  # or the first rounds would pay for it

        async def beside(store: MongoStore, tasks: Collection, *, refill: bool) -> Costs:
            if refill:
                await tasks.delete_many({"status": "pending"})
                await fill(store, tasks, few)
            return await _cost(scene, store, number)

        costs = await by_turns(
            scene.rounds,
            {
                "plain": lambda: beside(*few_tasks, refill=True),
                "waiting": lambda: beside(*waiting, refill=False),
                "finished": lambda: beside(*finished, refill=True),
            },
        )
    for what, label, most in (
        ("waiting", f"{spaced(many)} waiting, to {spaced(few)}", 1.2),
        ("finished", f"{spaced(many)} finished, to none", 1.1),
    ):
        for unit in ("µs CPU a task", "µs a task"):
            ours, plain = (Sample([each[unit] for each in costs[name]]) for name in (what, "plain"))
            target = Target(most=most) if "CPU" in unit else None
            yield Row(f"drain beside {label}", unit, ours, plain, target)


async def _finish(store: MongoStore, tasks: Collection, number: int) -> None:
    """Put finished tasks into a collection, as a manager leaves them."""
    await fill(store, tasks, 1)
    await drained(store, 1, 1, PipelineMode())
    document: Document | None = await tasks.find_one_and_delete({"status": "done"})
    assert document is not None
    for start in range(0, number, 1000):
        await tasks.insert_many(copies(document, min(1000, number - start)), ordered=False)


async def _cost(scene: Scene, store: MongoStore, number: int) -> Costs:
    """Run so many of the tasks; tell what each took of the server, this process and the time."""
    pid = await local_pid(scene.client)
    server, here, began = cpu_seconds(pid) if pid else 0.0, process_time(), perf_counter()
    await _ran(store, number)
    server = cpu_seconds(pid) - server if pid else 0.0
    cpu = server + process_time() - here
    each = {"µs CPU a task": cpu, "µs a task": perf_counter() - began}
    return {unit: seconds / number * 1e6 for unit, seconds in each.items()}


async def _ran(store: MongoStore, number: int) -> None:
    worker = manager(store, workers=_WORKERS, mode=PipelineMode())
    enough, left = asyncio.Event(), number

    @worker.handler(NOTE)
    async def handle(_: Note) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            enough.set()

    async with worker:
        await enough.wait()
