"""Records successes in bulk: hundreds of outcomes in one write, each behind its own fence."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

import anyio
from anyio.lowlevel import checkpoint

from gotasks_py import lifecycle
from gotasks_py._running import Running, RunningTasks
from gotasks_py._settling import Settler
from gotasks_py._verdict import Done
from gotasks_py.clock import Clock
from gotasks_py.errors import StoreError, StoreUnavailableError
from gotasks_py.modes import PipelineMode

logger = logging.getLogger("gotasks_py.attempt")

_WRITES_AT_ONCE: Final = 4
_MOST_FLUSHES_WAITING: Final = 8
# A success waits for a hundredth of its lease at most, and never in the lease's last tenth.
_LONGEST_WAIT: Final = 0.01
_NEAR_THE_END: Final = 0.1


class Concluding(Protocol):
    """An attempt whose handler has ended and whose outcome is not recorded yet."""

    @property
    def running(self) -> Running:
        """The task."""
        ...

    async def conclude(self, verdict: Done, duration: timedelta) -> None:
        """Record the outcome in a write of its own, and tell."""
        ...

    async def announce(self, verdict: Done, duration: timedelta) -> None:
        """Tell of an outcome that is recorded."""
        ...


@dataclass(slots=True, eq=False)
class _Success:
    attempt: Concluding
    verdict: Done
    duration: timedelta
    is_told: bool = False


class BulkRecorder:
    """Gathers successes and writes them by size, by time, and before their leases end.

    A lease that is renewed has time; one that is not, and every task that may run at most
    once, is recorded by a write of its own, at once. So is what comes after a silence: it
    would be waiting for nothing, and would run again if this process were killed meanwhile.
    """

    def __init__(
        self, settler: Settler, running: RunningTasks, clock: Clock, mode: PipelineMode
    ) -> None:
        self._settler = settler
        self._running = running
        self._clock = clock
        self._mode = mode
        self._gathered: deque[_Success] = deque()
        self._changed = anyio.Event()
        self._flushed = anyio.Event()
        self._writing = 0
        self._wrote_at = -math.inf
        self._left_alone_at = -math.inf
        self._is_draining = False
        self._has_ended = False
        """Whether :meth:`run` has, for good or until it is started again."""

    def take(self, attempt: Concluding, verdict: Done, duration: timedelta) -> bool:
        """Accept an outcome, unless it has to be written at once."""
        if self._has_ended:
            return False
        running = attempt.running
        left = running.deadline - self._clock.monotonic()
        is_near = left < running.lease.total_seconds() * _NEAR_THE_END
        if is_near or running.task.is_at_most_once or running.completion is not None:
            return False
        if self._is_silent(running):
            self.left_alone()
            return False
        running.is_in_bulk = True
        self._gathered.append(_Success(attempt, verdict, duration))
        if len(self._gathered) in {1, self._mode.flush_size}:
            self._changed.set()
        return True

    def left_alone(self) -> None:
        """Notice that a write of its own begins, or has ended: there is no silence around it.

        Else each would follow the one before it, and none would ever be gathered.
        """
        self._left_alone_at = self._clock.monotonic()

    @property
    def is_full(self) -> bool:
        """Whether too much is gathered: handlers are faster than the database."""
        return len(self._gathered) > _MOST_FLUSHES_WAITING * self._mode.flush_size

    async def room(self) -> None:
        """Wait while it is full, and somebody writes."""
        while self.is_full and not self._has_ended:
            await self._flushed.wait()

    async def run(self) -> None:
        """Write what is gathered, until cancelled."""
        self._has_ended = False
        try:
            async with anyio.create_task_group() as group:
                while True:
                    await self._write_some(group)
        finally:
            self._has_ended = True
            self._flushed.set()
            self._flushed = anyio.Event()

    async def _write_some(self, group: anyio.abc.TaskGroup) -> None:
        if not self._gathered:
            await self._change()
            return
        await self._wait_for_more()
        while self._gathered and self._writing < _WRITES_AT_ONCE:
            self._writing += 1
            self._wrote_at = self._clock.monotonic()
            group.start_soon(self._flush, self._batch())
        if self._writing >= _WRITES_AT_ONCE:
            await self._flushed.wait()

    async def drain(self) -> None:
        """Write at once, and wait until everything is written."""
        self._is_draining = True
        self._changed.set()
        while self._gathered or self._writing:
            await self._flushed.wait()

    async def write_rest(self) -> None:
        """Write what is still gathered after :meth:`run`, all at once: hooks may be slow."""
        async with anyio.create_task_group() as group:
            while self._gathered:
                self._writing += 1
                group.start_soon(self._flush, self._batch())

    async def _change(self) -> None:
        self._changed = anyio.Event()
        await self._changed.wait()

    def _is_silent(self, running: Running) -> bool:
        if self._gathered or self._writing:
            return False
        latest = max(self._wrote_at, self._left_alone_at)
        return self._clock.monotonic() - latest > self._patience(running)

    async def _wait_for_more(self) -> None:
        first = self._gathered[0].attempt.running
        patience = self._wrote_at + self._patience(first) - self._clock.monotonic()
        if patience <= 0:
            await checkpoint()  # what ends in the same turn of the event loop comes along
            return
        with anyio.move_on_after(patience):
            while len(self._gathered) < self._mode.flush_size and not self._is_draining:
                await self._change()

    def _patience(self, running: Running) -> float:
        return min(self._mode.flush_interval, running.lease * _LONGEST_WAIT).total_seconds()

    def _batch(self) -> Sequence[_Success]:
        number = min(len(self._gathered), self._mode.flush_size)
        return [self._gathered.popleft() for _ in range(number)]

    async def _flush(self, batch: Sequence[_Success]) -> None:
        # Closing asyncio's event loop cancels the group; the outcomes count still.
        with anyio.CancelScope(shield=True):
            try:
                await self._write(batch)
                await checkpoint()  # where the last hook's cancellation shows
            except anyio.get_cancelled_exc_class():
                # A hook has cancelled its task, or asyncio closes its loop: again, then. What
                # was written counts as applied.
                self._gathered.extendleft(each for each in reversed(batch) if not each.is_told)
                self._changed.set()
            finally:
                for success in set(batch).difference(self._gathered):
                    self._running.by_token.pop(success.attempt.running.ref.token, None)
                self._writing -= 1
                self._flushed.set()
                self._flushed = anyio.Event()

    async def _write(self, batch: Sequence[_Success]) -> None:
        refs = [success.attempt.running.ref for success in batch]
        results = [success.verdict.document for success in batch]
        try:
            refused = await self._settler.settle_many(refs, lifecycle.completed_each(), results)
        except StoreUnavailableError as error:
            logger.error(  # noqa: TRY400  - the cause is the store, not this code
                "the outcomes of %d tasks could not be recorded, they will run again when their "
                "leases end: %s: %s",
                len(batch),
                error,
                ", ".join(str(ref.id) for ref in refs),
            )
            return
        except StoreError:
            # One of them is what the database refuses; on its own each gets its due.
            refused = frozenset(ref.token for ref in refs)
        for success in batch:
            is_refused = success.attempt.running.ref.token in refused
            tell = success.attempt.conclude if is_refused else success.attempt.announce
            success.is_told = True  # first, for what it tells may end this here
            await tell(success.verdict, success.duration)
