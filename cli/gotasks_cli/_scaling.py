"""Scaling worker processes: one of them says how many workers are wanted, the supervisor follows.

The supervisor itself imports no APP, so that code which crashes or changes is none of its
business. What it has to know comes through a pipe, one line at a time.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Final, Protocol

import anyio

from gotasks_py import Manager, Metering, QueueOverview, Status, StoreError
from gotasks_py.autoscaling import QueueLoad, ScalingConfig, next_size, wanted_workers

logger = logging.getLogger("gotasks_cli.scaling")

REPORTS: Final = "GOTASKS_REPORTS"
"""Set for worker processes that may be scaled: the file descriptor to report to."""

_LOOK_SECONDS: Final = 1.0
_RECENTLY: Final = timedelta(minutes=10)
_LINE_BYTES: Final = 4096


class Sizeable(Protocol):
    """Something of which there can be more or fewer."""

    @property
    def size(self) -> int:
        """How many there are to be."""
        ...

    def scale(self, size: int) -> None:
        """Have so many."""
        ...


async def report(manager: Manager, queues: Collection[str] | None, target_wait: timedelta) -> None:
    """Tell the supervisor, again and again, how many workers these queues want."""
    descriptor = int(os.environ[REPORTS])
    while True:
        await anyio.sleep(_LOOK_SECONDS)
        try:
            wanted = sum(
                wanted_workers(load, target_wait)
                for load in await loads(manager)
                if manager.types(load.queue) and (queues is None or load.queue in queues)
            )
        except StoreError as error:
            logger.debug("cannot look at the queues: %s", error)
            continue
        workers = manager.health().workers
        if workers:
            os.write(descriptor, f"{wanted} {workers}\n".encode("ascii"))


async def loads(manager: Manager) -> list[QueueLoad]:
    """Tell what each queue has to do."""
    times = await _run_times(manager)
    return [_load(queue, times.get(queue.name)) for queue in await manager.overview()]


async def follow(descriptor: int, processes: Sizeable, config: ScalingConfig) -> None:
    """Scale by what is reported, and say why."""
    changed_at = anyio.current_time()
    while True:
        await anyio.wait_readable(descriptor)
        lines = os.read(descriptor, _LINE_BYTES).decode("ascii").splitlines()
        wanted, workers = (int(number) for number in lines[-1].split())
        before = processes.size
        since = timedelta(seconds=anyio.current_time() - changed_at)
        size, reason = next_size(
            before, math.ceil(wanted / workers), since_change=since, config=config
        )
        if size != before:
            logger.info(
                "%d processes instead of %d: %s, for %d workers of %d in each",
                size,
                before,
                reason,
                wanted,
                workers,
            )
            processes.scale(size)
            changed_at = anyio.current_time()


async def _run_times(manager: Manager) -> Mapping[str, timedelta]:
    if not isinstance(manager.store, Metering):
        return {}
    found = await manager.store.metrics(since=_RECENTLY)
    queues = {window.queue for window in found.windows}
    means = {queue: found.total(queue).run.mean for queue in queues}
    return {queue: mean for queue, mean in means.items() if mean is not None}


def _load(queue: QueueOverview, run_time: timedelta | None) -> QueueLoad:
    pending = queue.counts[Status.PENDING].value if Status.PENDING in queue.counts else 0
    running = queue.counts[Status.RUNNING].value if Status.RUNNING in queue.counts else 0
    return QueueLoad(
        queue=queue.name,
        due=max(0, pending - queue.scheduled.value),
        running=running,
        oldest_due_age=queue.oldest_due_age or timedelta(0),
        run_time=run_time,
        weight=queue.policy.weight,
        is_paused=queue.pause is not None,
    )
