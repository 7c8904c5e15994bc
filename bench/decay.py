"""Whether a claim costs more after many claims: the work of the first against the last."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count

from bench.claiming import RawClaimer, request
from bench.draining import fill
from bench.measuring import Row, Sample
from bench.scene import DATABASE, Collection, Scene, cpu_seconds, local_pid

Claim = Callable[[], Awaitable[object]]


async def run(scene: Scene) -> AsyncIterator[Row]:
    """Measure ours, bounded by the low-water mark, and the same claims without the bound."""
    number = scene.scaled(20_000)
    window = number // 10
    async with scene.store() as (store, tasks):
        await fill(store, tasks, number + 2 * _PROFILED)
        tokens = count()
        ours = await _costs(
            scene, tasks, lambda: store.claim(request(f"token {next(tokens)}")), number
        )
    async with scene.store() as (store, tasks):
        await fill(store, tasks, number + 2 * _PROFILED)
        raw = await _costs(scene, tasks, RawClaimer(tasks, "raw", None).claim, number)
    for place, label in enumerate((f"first {window}", f"last {window}")):
        for unit in sorted(ours[place]):
            yield Row(
                f"claim, {label} of {number}",
                unit,
                Sample([ours[place][unit]]),
                Sample([raw[place][unit]]),
            )


_PROFILED = 50


async def _costs(
    scene: Scene, tasks: Collection, claim: Claim, number: int
) -> tuple[dict[str, float], dict[str, float]]:
    window = number // 10
    first = await _cost(scene, tasks, claim, window)
    for _ in range(number - 2 * window):
        assert await claim() is not None
    last = await _cost(scene, tasks, claim, window)
    return first, last


async def _cost(scene: Scene, tasks: Collection, claim: Claim, number: int) -> dict[str, float]:
    pid = await local_pid(scene.client)
    before = cpu_seconds(pid) if pid else 0.0
    for _ in range(number):
        assert await claim() is not None
    cost = {} if pid is None else {"mongod ms": (cpu_seconds(pid) - before) / number * 1000}
    return cost | {"keys": await _keys_examined(scene, tasks, claim)}


async def _keys_examined(scene: Scene, tasks: Collection, claim: Claim) -> float:
    """Ask the server's profiler about a few claims, outside of the measured ones."""
    database = scene.client[DATABASE]
    await database["system.profile"].drop()
    await database.command("profile", 2)
    for _ in range(_PROFILED):
        assert await claim() is not None
    await database.command("profile", 0)
    seen = database["system.profile"].find({"command.findAndModify": tasks.name})
    keys: list[int] = [each["keysExamined"] async for each in seen]
    return sum(keys) / len(keys)
