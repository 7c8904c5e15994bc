"""The duty of ending tasks that nobody holds any more and that no attempt is left of."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from gotasks_py._closing import Closing
from gotasks_py._janitor import one_by_one
from gotasks_py._meter import Meter
from gotasks_py.hooks import HookCaller, TaskEvent
from gotasks_py.store import Store
from gotasks_py.task import Status

logger = logging.getLogger("gotasks_py.janitor")


@dataclass(frozen=True, slots=True)
class Reaper:
    """Ends them in batches, and tells."""

    store: Store
    hooks: HookCaller
    meter: Meter
    batch: int
    closing: Closing

    async def reap(self) -> bool:
        """End one batch; tell whether there may be more."""
        return await one_by_one(self.batch, self._reap_one)

    async def _reap_one(self) -> bool:
        with self.closing.in_time():
            reaped = await self.store.reap(1)
        for task in reaped:
            self.meter.reaped(task)
            logger.warning(
                "task %s is %s: the lease of its last attempt expired",
                task.id,
                task.status,
                extra={"task_id": str(task.id)},
            )
            await self.hooks.call(
                "on_dead" if task.status is Status.DEAD else "on_cancelled", TaskEvent(task=task)
            )
        return bool(reaped)
