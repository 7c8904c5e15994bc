"""Scaling worker processes: one of them says how many workers are wanted, the supervisor follows.

The supervisor itself imports no APP, so that code which crashes or changes is none of its
business. What it has to know comes through a pipe, one line at a time.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Collection
from datetime import timedelta
from typing import Final, Protocol

import anyio

from gotasks_py import Manager, StoreError
from gotasks_py.autoscaling import ScalingConfig, next_size, wanted_workers

logger = logging.getLogger("gotasks_cli.scaling")

REPORTS: Final = "GOTASKS_REPORTS"
"""Set for worker processes that may be scaled: the file descriptor to report to."""

_LOOK_SECONDS: Final = 1.0
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
                for load in await manager.loads()
                if manager.types(load.queue) and (queues is None or load.queue in queues)
            )
        except StoreError as error:
            logger.debug("cannot look at the queues: %s", error)
            continue
        workers = manager.health().most_workers
        if workers:
            os.write(descriptor, f"{wanted} {workers}\n".encode("ascii"))


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
