"""Many claimers on one queue: what lanes save them of each other's write conflicts.

The claimers are several processes, so that Python is not what limits them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Final

from bench.measuring import Row, Sample, Target
from bench.partners import Partner, partner
from bench.scene import Collection, Scene, copies, template
from gotasks_mongostore import MongoStore
from gotasks_py.lanes import Lanes

_LANES: Final = 16
_CLAIMS: Final = {1: 400, 4: 1200, 16: 3200}
_MOST_PER_PROCESS: Final = 4
_LEAST: Final = 1.3


async def run(scene: Scene) -> AsyncIterator[Row]:
    """Compare claims in a queue of 16 lanes with those in one of one lane."""
    for claimers in _CLAIMS:
        rates: dict[int, list[float]] = {1: [], _LANES: []}
        conflicts: dict[int, list[float]] = {1: [], _LANES: []}
        for number in range(scene.rounds):
            for lanes in (1, _LANES) if number % 2 == 0 else (_LANES, 1):
                rate, per_claim = await _measured(scene, lanes, claimers)
                rates[lanes].append(rate)
                conflicts[lanes].append(per_claim)
        target = Target(least=_LEAST) if claimers == _LANES else None
        for name, values, bound in (
            ("claims/s", rates, target),
            ("write conflicts per claim", conflicts, None),
        ):
            label = f"{name}, {claimers} claimers: 16 lanes, and one"
            yield Row(label, "1", Sample(values[_LANES]), Sample(values[1]), bound)


async def _measured(scene: Scene, lanes: int, claimers: int) -> tuple[float, float]:
    """Tell the claims per second, and the write conflicts per claim."""
    processes = max(1, claimers // _MOST_PER_PROCESS)
    claims = scene.scaled(_CLAIMS[claimers]) // processes * processes or processes
    async with scene.store() as (store, tasks), AsyncExitStack() as stack:
        # Half as many again, so that no lane runs empty before the end.
        await _fill(store, tasks, lanes, claims * 3 // 2 + 10 * lanes)
        numbers = (lanes, claimers // processes, claims // processes)
        started = [
            await stack.enter_async_context(
                partner("bench.claimer", scene.uri, tasks.name, *numbers)
            )
            for _ in range(processes)
        ]
        before = await _write_conflicts(scene)
        seconds = await _claimed(started)
        after = await _write_conflicts(scene)
    return claims / seconds, (after - before) / claims


async def _fill(store: MongoStore, tasks: Collection, lanes: int, number: int) -> None:
    document = await template(store, tasks)
    spread, newest = Lanes.first(lanes), document["due_at"]
    await tasks.insert_many(
        {
            **each,
            "lane": spread.lane_for(None),
            "due_at": newest - index * timedelta(milliseconds=1),
        }
        for index, each in enumerate(copies(document, number))
    )


async def _claimed(claimers: Sequence[Partner]) -> float:
    """Let all of them go; tell how long the slowest took."""
    for each in claimers:
        each.go()
    return max([float(await each.says()) for each in claimers])


async def _write_conflicts(scene: Scene) -> int:
    status = await scene.client.admin.command("serverStatus")
    conflicts: int = status["metrics"]["operation"]["writeConflicts"]
    return conflicts
