"""Scaling worker processes: one of them says how many workers are wanted, the supervisor follows.

The supervisor itself imports no APP, so that code which crashes or changes is none of its
business. What it has to know comes through a pipe, one line at a time.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

import anyio

from gotasks_py import Manager, StoreError
from gotasks_py.autoscaling import ScalingConfig, next_size, wanted_workers
from gotasks_py.health import PoolHealth

logger = logging.getLogger("gotasks_cli.scaling")

REPORTS: Final = "GOTASKS_REPORTS"
"""Set for worker processes that may be scaled: the file descriptor to report to."""

_LOOK_SECONDS: Final = 1.0
_READ_BYTES: Final = 4096
_MOST_NAMED: Final = 3
_LONGEST_REASON: Final = 300
"""So that a line is written in one piece: pipes promise 4096 bytes."""


class Sizeable(Protocol):
    """Something of which there can be more or fewer."""

    @property
    def size(self) -> int:
        """How many there are to be."""
        ...

    def scale(self, size: int) -> None:
        """Have so many."""
        ...


@dataclass(frozen=True, slots=True)
class Demand:
    """How many processes are wanted, and why: ``each`` has so many of the ``workers`` wanted."""

    processes: int
    workers: int
    each: int
    queues: Sequence[str]

    @property
    def reason(self) -> str:
        """Say what decided, for the log."""
        named = ", ".join(self.queues[:_MOST_NAMED])
        more = len(self.queues) - _MOST_NAMED
        others = f" and {more} more" if more > 0 else ""
        of = "queue" if len(self.queues) == 1 else "queues"
        return f"for {self.workers} workers of {self.each} in each, of {of} {named}{others}"


def demand(pools: Sequence[PoolHealth], wanted: Mapping[str, int]) -> Demand:
    """Tell how many processes it takes for each queue to have the workers that it wants.

    Every process has the same pools, and workers of one do nothing for the queues of another:
    the pool decides that is the shortest of workers, or the queue in it that may have few.
    Where nothing waits, it is the pool that has the most workers.
    """
    demands = [
        Demand(math.ceil(workers / each), workers, each, queues)
        for pool in pools
        for queues, each in _shares(pool, wanted)
        for workers in [sum(wanted.get(queue, 0) for queue in queues)]
    ]
    return max(demands, key=lambda found: (found.processes, found.each, len(found.queues)))


def _shares(pool: PoolHealth, wanted: Mapping[str, int]) -> Sequence[tuple[Sequence[str], int]]:
    """Tell who has how many workers: each queue those it may have at most, all the pool's."""
    hungry = [queue for queue in pool.queues if wanted.get(queue)]
    limited = [([queue], most) for queue, most in pool.queues.items()]
    return [*limited, (hungry or list(pool.queues), pool.most_workers)]


async def report(manager: Manager, target_wait: timedelta) -> None:
    """Tell the supervisor, again and again, how many processes the queues here want."""
    descriptor = int(os.environ[REPORTS])
    os.set_blocking(descriptor, False)
    while True:
        await anyio.sleep(_LOOK_SECONDS)
        try:
            wanted = {
                load.queue: wanted_workers(load, target_wait) for load in await manager.loads()
            }
        except StoreError as error:
            logger.debug("cannot look at the queues: %s", error)
            continue
        pools = manager.health().pools
        if pools:
            # A supervisor that does not read, or is gone, is none of this process's troubles.
            with suppress(BlockingIOError, BrokenPipeError):
                os.write(descriptor, line_of(demand(pools, wanted)))


def line_of(found: Demand) -> bytes:
    """Make the line by which a process tells what is wanted."""
    return json.dumps([found.processes, found.reason[:_LONGEST_REASON]]).encode() + b"\n"


async def follow(descriptor: int, processes: Sizeable, config: ScalingConfig) -> None:
    """Scale by what is reported, and say why."""
    changed_at = anyio.current_time()
    while True:
        await anyio.wait_readable(descriptor)
        wanted, because = json.loads(await _latest(descriptor))
        before = processes.size
        since = timedelta(seconds=anyio.current_time() - changed_at)
        size, reason = next_size(before, wanted, since_change=since, config=config)
        if size != before:
            logger.info("%d processes instead of %d: %s, %s", size, before, reason, because)
            processes.scale(size)
            changed_at = anyio.current_time()


async def _latest(descriptor: int) -> bytes:
    """Read the last line that is there in full: a process that stood still has many to read."""
    read = b""
    while not read.endswith(b"\n"):
        await anyio.wait_readable(descriptor)
        read = read[-_READ_BYTES:] + os.read(descriptor, _READ_BYTES)
    return read.splitlines()[-1]
