"""The manager's housekeeping: duties that run now and then, on every manager at once."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import anyio

from gotasks_py.checks import LONGEST, check_count, check_duration
from gotasks_py.errors import StoreError
from gotasks_py.hooks import HookCaller, TaskEvent
from gotasks_py.store import Store
from gotasks_py.task import Status, Task

logger = logging.getLogger("gotasks_py.janitor")

_JITTER: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class JanitorConfig:
    """How often the janitor works.

    ``reap_interval``: how often it looks for tasks whose last attempt lost its worker;
    default 10 s. ``reap_batch``: how many of them it ends at a time; default 100.
    """

    reap_interval: timedelta = timedelta(seconds=10)
    reap_batch: int = 100

    def __post_init__(self) -> None:
        shortest = timedelta(milliseconds=1)
        check_duration("reap_interval", self.reap_interval, minimum=shortest, maximum=LONGEST)
        check_count("reap_batch", self.reap_batch)


class Janitor:
    """Does the duties of one manager. Each is safe to do on every manager at once."""

    def __init__(self, store: Store, config: JanitorConfig, hooks: HookCaller) -> None:
        self._store = store
        self._config = config
        self._hooks = hooks
        self._failing = False

    async def run(self) -> None:
        """Do the duties until cancelled."""
        interval = self._config.reap_interval.total_seconds()
        # Managers that were started together spread out.
        await anyio.sleep(interval * random.random() * _JITTER)  # noqa: S311  - no secret
        while True:
            await self._do("reap", self._reap)
            await anyio.sleep(interval * (1 - _JITTER * random.random()))  # noqa: S311  - as above

    async def _do(self, name: str, duty: Callable[[], Awaitable[None]]) -> None:
        try:
            await duty()
        except StoreError as error:
            if not self._failing:
                logger.error("janitor duty %s failed, trying on: %s", name, error)  # noqa: TRY400  - the cause is the store, not this code
            self._failing = True
        else:
            self._failing = False

    async def _reap(self) -> None:
        while True:
            reaped: Sequence[Task] = ()
            # Shielded: what was reaped is told to the hooks.
            with anyio.CancelScope(shield=True):
                reaped = await self._store.reap(self._config.reap_batch)
                for task in reaped:
                    logger.warning(
                        "task %s is %s: the lease of its last attempt expired",
                        task.id,
                        task.status,
                        extra={"task_id": str(task.id)},
                    )
                    await self._hooks.call(
                        "on_dead" if task.status is Status.DEAD else "on_cancelled",
                        TaskEvent(task=task),
                    )
            if len(reaped) < self._config.reap_batch:
                return
