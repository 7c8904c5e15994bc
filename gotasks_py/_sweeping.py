"""The duties of moving what is stuck, and of sweeping up what belongs to nobody any more."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from gotasks_py._closing import Closing
from gotasks_py._janitor import one_by_one
from gotasks_py._meter import Meter
from gotasks_py.sweeping import Sweeping
from gotasks_py.task import Status, Task, TaskId

logger = logging.getLogger("gotasks_py.janitor")

_OLD: Final = timedelta(days=1)
"""For how long a manager may be away and still find the order that it was given."""


@dataclass(frozen=True, slots=True)
class Sweeper:
    """Does both, in batches, and tells."""

    store: Sweeping
    meter: Meter
    batch: int
    nudge: Callable[[str, datetime | None, Sequence[TaskId]], None]
    """Says that there is work: no feed tells of what was rescued."""
    closing: Closing

    async def rescue(self) -> bool:
        """Move one batch of stuck tasks; tell whether there may be more."""
        return await one_by_one(self.batch, self._rescue_one)

    async def _rescue_one(self) -> bool:
        with self.closing.in_time():
            rescued = await self.store.rescue(1)
        for task in rescued:
            self.meter.rescued(task)
            if task.due_at is not None:
                self.nudge(task.queue, task.due_at, ())
            logger.warning(
                "task %s was %s, and nothing would ever have moved it: %s",
                task.id,
                task.status,
                _next_step(task),
                extra={"task_id": str(task.id)},
            )
        return bool(rescued)

    async def sweep(self) -> bool:
        """Sweep up once; tell whether there may be more."""
        swept = await self.store.sweep(older_than=_OLD, limit=self.batch)
        if swept.orders:
            logger.info("forgot what %d managers that are gone were told", len(swept.orders))
        for queue, lanes in swept.lanes.items():
            logger.warning(
                "queue %r has tasks in lanes that nobody looked into: it is recorded with %d now",
                queue,
                lanes,
            )
        return len(swept.orders) >= self.batch


def _next_step(task: Task) -> str:
    if task.due_at is not None:
        return f"it is due from {task.due_at} on"
    return "it has no attempts left, and ends" if task.status is Status.RUNNING else "it is due"
