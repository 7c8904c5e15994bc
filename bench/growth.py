"""The memory that a worker keeps: after many tasks, beside after the first thousand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from bench.draining import fill
from bench.measuring import Row, Sample, Target
from bench.partners import partner
from bench.scene import Scene, spaced
from bench.worker import TASKS_PER_MARK

_TASKS: Final = 200_000
_MOST_MIB: Final = 20


async def run(scene: Scene) -> AsyncIterator[Row]:
    """Let one process run 200 000 tasks in pipeline mode."""
    marks = scene.scaled(_TASKS) // TASKS_PER_MARK
    async with scene.store() as (store, tasks):
        await fill(store, tasks, (marks + 1) * TASKS_PER_MARK)
        arguments = (scene.uri, tasks.name, "pipeline", 16, 1, "tell memory")
        async with partner("bench.worker", *arguments) as worker:
            worker.go()
            sizes = [float(await worker.says()) for _ in range(marks + 1)]
    ran = spaced(marks * TASKS_PER_MARK)
    yield Row(f"RSS of a worker after {ran} more tasks", "MiB", Sample(sizes[-1:]))
    growth = Sample([max(0.0, sizes[-1] - sizes[0])])
    yield Row("and how much it grew", "MiB", growth, target=Target(most=_MOST_MIB))
