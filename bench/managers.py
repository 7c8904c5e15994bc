"""Two manager processes beside one: what the second adds while there is CPU for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Final

from bench.draining import fill
from bench.measuring import Row, Sample, Target, by_turns
from bench.partners import partner
from bench.scene import QUEUE, Collection, Scene, cpu_seconds, local_pid

_TASKS: Final = 30_000
_LANES: Final = 2
_LEAST: Final = 1.4
_SPARE: Final = 0.35
"""What share of the machine one manager must leave idle for a second one to have a chance."""


@dataclass(frozen=True, slots=True)
class _Drain:
    rate: float
    server_cores: float
    """How many cores' worth of CPU the server took."""
    idle: float
    """What share of the machine's CPU nobody took."""


async def run(scene: Scene) -> AsyncIterator[Row]:
    """Drain the same queue by one process and by two."""
    number = scene.scaled(_TASKS)
    drains = await by_turns(
        scene.rounds,
        {
            "one": lambda: _drained(scene, 1, number),
            "two": lambda: _drained(scene, 2, number),
        },
    )
    idle = Sample([each.idle for each in drains["one"]])
    excuse = None
    if idle.median < _SPARE:
        excuse = f"one manager leaves {idle.median:.0%} of the machine idle"
    one, two = (Sample([each.rate for each in drains[name]]) for name in ("one", "two"))
    target = Target(least=_LEAST, excuse=excuse)
    yield Row("drain by two managers, to one", "tasks/s", two, one, target)
    for title, name in (("mongod, cores", "server_cores"), ("CPU left idle, share", "idle")):
        one, two = (Sample([getattr(each, name) for each in drains[of]]) for of in ("one", "two"))
        yield Row(f"{title}: two managers, and one", "1", two, one)


async def _drained(scene: Scene, managers: int, number: int) -> _Drain:
    async with scene.store() as (store, tasks), AsyncExitStack() as stack:
        await fill(store, tasks, number, lanes=_LANES)
        arguments = (scene.uri, tasks.name, "pipeline", 16, _LANES, "nothing")
        workers = [
            await stack.enter_async_context(partner("bench.worker", *arguments))
            for _ in range(managers)
        ]
        pid = await local_pid(scene.client)
        server, idle, began = cpu_seconds(pid) if pid else 0.0, _idle_ticks(), perf_counter()
        for worker in workers:
            worker.go()
        while await _is_unfinished(tasks):  # noqa: ASYNC110  - the managers are elsewhere
            await asyncio.sleep(0.02)
        seconds = perf_counter() - began
        cores = (cpu_seconds(pid) - server) / seconds if pid else 0.0
        was_idle, total = (
            after - before for before, after in zip(idle, _idle_ticks(), strict=True)
        )
    return _Drain(number / seconds, cores, was_idle / (total or 1))


async def _is_unfinished(tasks: Collection) -> bool:
    """Look into the claim index, which holds no finished task."""
    left = {"queue": QUEUE, "due_at": {"$exists": True}}
    return await tasks.find_one(left, {"_id": 1}, hint="claim") is not None


def _idle_ticks() -> tuple[int, int]:
    """Tell the idle ticks of all CPUs, and all ticks; zeros where the system does not say."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0, 0
    ticks = [int(each) for each in stat.read_text().partition("\n")[0].split()[1:9]]
    return ticks[3], sum(ticks)
