"""Scales the workers of one manager: as many as what waits wants, shared among its queues."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Protocol

import anyio

from gotasks_py._loads import run_times
from gotasks_py._pool import Pool
from gotasks_py._scheduling import Source
from gotasks_py.autoscaling import QueueLoad, ScalingConfig, balanced, next_size, wanted_workers
from gotasks_py.errors import StoreError
from gotasks_py.inspecting import Inspecting, TaskFilter
from gotasks_py.metering import Metering
from gotasks_py.nodes import Node
from gotasks_py.store import Store
from gotasks_py.task import Status

logger = logging.getLogger("gotasks_py.scaling")

_LOOK_SECONDS: Final = 1.0
_SURROUNDINGS_SECONDS: Final = 10.0
_JITTER: Final = 0.1
_MOST_COUNTED: Final = 20_000
"""How many tasks that are due are told apart from still more."""


class Scalable(Store, Inspecting, Protocol):
    """A store that can be asked how much waits."""


@dataclass(slots=True, kw_only=True, eq=False)
class Sizer:
    """Follows what waits in the queues of a pool, once a second.

    What waits is shared with the other managers that handle it. ``is_sharing``: a queue gets
    no more workers at once than its share while there are too few for all; in pipeline mode
    the turns of its claims are its share.
    """

    store: Scalable
    pool: Pool
    config: ScalingConfig
    resize: Callable[[Pool, int], None]
    is_sharing: bool
    _changed_at: float = field(init=False)
    _nodes: Sequence[Node] = ()
    _run_times: Mapping[str, timedelta] = field(default_factory=dict[str, timedelta])
    _looked_around_at: float = -math.inf

    def __post_init__(self) -> None:
        # The first look may already grow it.
        self._changed_at = self.store.clock.monotonic() - self.config.pause_up.total_seconds()

    async def run(self) -> None:
        """Look and follow, until cancelled."""
        while True:
            pause = _LOOK_SECONDS * (1 - _JITTER * random.random())  # noqa: S311  - no secret
            await anyio.sleep(pause)
            try:
                await self._look_around()
                loads = [await self._load(source) for source in self.pool.sources]
            except StoreError as error:
                logger.debug("cannot look at the queues, staying as it is: %s", error)
                continue
            self._follow(loads)

    def _follow(self, loads: Sequence[QueueLoad]) -> None:
        now, before = self.store.clock.monotonic(), self.pool.size
        wanted = self._wanted(loads)
        total = sum(wanted.values())
        since = timedelta(seconds=now - self._changed_at)
        size, reason = next_size(before, total, since_change=since, config=self.config)
        self._share(loads, total, size)
        if size == before:
            return
        logger.info(
            "%d workers instead of %d: %s (%s)",
            size,
            before,
            reason,
            ", ".join(f"{queue} {number}" for queue, number in wanted.items()),
        )
        self.resize(self.pool, size)
        self._changed_at = now

    def _wanted(self, loads: Sequence[QueueLoad]) -> Mapping[str, int]:
        """Tell how many workers each queue wants, of those that it may have."""
        limits = {source.queue.name: source.queue.workers for source in self.pool.sources}
        wanted = {load.queue: wanted_workers(load, self.config.target_wait) for load in loads}
        return {queue: min(number, limits[queue] or number) for queue, number in wanted.items()}

    def _share(self, loads: Sequence[QueueLoad], wanted: int, size: int) -> None:
        if not self.is_sharing:
            return
        shares = balanced(loads, replace(self.config, least=1, most=size))
        for source in self.pool.sources:
            # One at least: what comes a moment from now should not wait for the next look.
            share = max(1, shares[source.queue.name]) if wanted > size else math.inf
            self.pool.limit_share(source, share)

    async def _look_around(self) -> None:
        now = self.store.clock.monotonic()
        if now - self._looked_around_at < _SURROUNDINGS_SECONDS:
            return
        if isinstance(self.store, Metering):
            self._nodes = await self.store.nodes()
        self._run_times = await run_times(self.store)
        self._looked_around_at = now

    async def _load(self, source: Source) -> QueueLoad:
        queue, now = source.queue, self.store.clock.now()
        due = TaskFilter(queue=queue.name, status=Status.PENDING, run_before=now)
        count = await self.store.count_tasks(due, limit=_MOST_COUNTED)
        managers = sum(queue.name in node.types for node in self._nodes)
        return QueueLoad(
            queue=queue.name,
            due=math.ceil(count.value / max(1, managers)),
            running=source.in_hand,
            oldest_due_age=await self._age(due, now) if count.value else timedelta(0),
            run_time=self._run_times.get(queue.name),
            weight=queue.weight,
            is_paused=source.is_held,
        )

    async def _age(self, due: TaskFilter, now: datetime) -> timedelta:
        page = await self.store.find_tasks(due, limit=1, newest_first=False)
        return now - page.tasks[0].run_at if page.tasks else timedelta(0)
