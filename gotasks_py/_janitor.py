"""The manager's housekeeping: a table of duties, done now and then by every manager at once.

Each duty is safe to do on all managers at the same time, runs in a loop of its own that is
restarted when it crashes, is put off by chance so that managers spread out, and works in
batches. Between two of them it rests for a multiple of the time that the last one took: where
the database is slow, or there is much to do, claims come first.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeAlias

import anyio
from anyio.lowlevel import checkpoint

from gotasks_py.checks import LONGEST, check_count, check_duration
from gotasks_py.clock import Clock
from gotasks_py.errors import StoreError

logger = logging.getLogger("gotasks_py.janitor")

Loop: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

_JITTER: Final = 0.1
_REST: Final = 9
"""How much longer than it worked a duty rests that has more to do: claims come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JanitorConfig:
    """How often the janitor works.

    ``reap_interval``: how often it looks for tasks whose last attempt lost its worker;
    default 10 s. ``reap_batch``: how many tasks it ends or rescues, one by one, before it rests;
    default 100.
    ``rescue_interval``: how often it looks for tasks that nothing else would ever move;
    default one minute. ``sweep_interval``: how often it sweeps up what belongs to nobody any
    more; default ten minutes.

    Raises:
        ConfigurationError: a time or a number is out of its bounds.
    """

    reap_interval: timedelta = timedelta(seconds=10)
    reap_batch: int = 100
    rescue_interval: timedelta = timedelta(minutes=1)
    sweep_interval: timedelta = timedelta(minutes=10)

    def __post_init__(self) -> None:
        shortest = timedelta(milliseconds=1)
        for name in ("reap_interval", "rescue_interval", "sweep_interval"):
            check_duration(name, getattr(self, name), minimum=shortest, maximum=LONGEST)
        check_count("reap_batch", self.reap_batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """Something to do every ``interval``. ``do`` tells whether there is more of it left."""

    name: str
    interval: timedelta
    do: Callable[[], Awaitable[bool]]
    begins_at_once: bool = False


async def one_by_one(batch: int, do_next: Callable[[], Awaitable[bool]]) -> bool:
    """Do a batch of something, each shielded; tell whether there may be more.

    What is done is counted and told before the next is begun, whatever befalls that.
    """
    for _ in range(batch):
        done = False
        with anyio.CancelScope(shield=True):
            done = await do_next()
        if not done:
            return False
        await checkpoint()
    return True


@dataclass(frozen=True, slots=True)
class Janitor:
    """Does the duties of one manager."""

    duties: tuple[Duty, ...]
    clock: Clock

    def loops(self) -> dict[str, Loop]:
        """Tell a loop for each duty, which runs until it is cancelled."""
        return {f"janitor.{duty.name}": partial(self._run, duty) for duty in self.duties}

    async def _run(self, duty: Duty) -> None:
        interval = duty.interval.total_seconds()
        is_failing = False
        if not duty.begins_at_once:
            # Managers that were started together spread out.
            await anyio.sleep(interval * random.random() * _JITTER)  # noqa: S311  - no secret
        while True:
            began = self.clock.monotonic()
            has_more = False
            try:
                has_more = await duty.do()
            except StoreError as error:
                if not is_failing:
                    logger.error("janitor duty %s failed, trying on: %s", duty.name, error)  # noqa: TRY400  - the cause is the store, not this code
                is_failing = True
            else:
                is_failing = False
            pause = interval * (1 - _JITTER * random.random())  # noqa: S311  - as above
            rest = _REST * (self.clock.monotonic() - began)
            await anyio.sleep(min(rest, pause) if has_more else pause)
