"""A pool in pipeline mode: a fetcher claims batches into a buffer that workers run from.

What is in the buffer is leased, and not started: the local deadline says until when a task
may be started with a whole lease before it. What stops or waits too long goes back.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

import anyio
from anyio.lowlevel import checkpoint

from gotasks_py import lifecycle
from gotasks_py._appetite import Appetite
from gotasks_py._attempt import AttemptRunner
from gotasks_py._claims import Claimed
from gotasks_py._isolation import Isolated
from gotasks_py._pool import Pool
from gotasks_py._running import Running, RunningTasks
from gotasks_py.handlers import Registry
from gotasks_py.modes import PipelineMode
from gotasks_py.task import Status

logger = logging.getLogger("gotasks_py.pipeline")

CLAIMS_AT_ONCE: Final = 2
"""So that one is found while another is being taken."""

# Handlers that never wait would keep the event loop from everything else.
_LONGEST_STRETCH_SECONDS: Final = 0.002


@dataclass(slots=True, kw_only=True, eq=False)
class Pipeline:
    """Runs the tasks of one pool."""

    owner: str
    pool: Pool
    mode: PipelineMode
    runner: AttemptRunner
    running: RunningTasks
    registry: Registry
    lease: timedelta
    work_began: Callable[[], None]
    _appetite: Appetite = field(init=False)
    _free: int = field(init=False)
    _buffer: deque[Claimed] = field(default_factory=deque[Claimed])
    _idle: deque[anyio.Event] = field(default_factory=deque[anyio.Event])
    _held: anyio.Event = field(default_factory=anyio.Event)
    _hungry: anyio.Event = field(default_factory=anyio.Event)
    _asked_for: int = 0
    _let_in_at: float = 0.0

    def __post_init__(self) -> None:
        self._free = self.pool.size
        self._appetite = Appetite(self.mode, self.pool.size)

    async def fetch(self) -> None:
        """Claim until the pool stops, then give back what was not started."""
        try:
            while not self.pool.is_stopping:
                has_more = False
                # A claim under way is never abandoned: the store may have carried it out.
                with anyio.CancelScope(shield=True):
                    has_more = await self._fetch_some()
                if not has_more:
                    await self.pool.wait()
        finally:
            # Closing asyncio's event loop cancels this; other managers should not have to wait.
            with anyio.CancelScope(shield=True):
                unstarted = list(self._buffer)
                self._buffer.clear()
                await self._return(unstarted)

    async def work(self) -> None:
        """Run one task after the other until the pool stops, or has workers to spare."""
        while not self.pool.is_stopping:
            if self.pool.headcount.leaves_one():
                self._free -= 1
                self._appetite.slots -= 1
                self._wake(len(self._buffer))
                return
            # The handlers' scope, too: one for each would take a tenth of a short task's time.
            with anyio.CancelScope(shield=True) as scope:
                await self._run_on(scope)
            await self._wait()

    def stop(self) -> None:
        """Notice that the pool stops: start nothing more."""
        self._hungry.set()
        self._wake(len(self._idle))

    async def _fetch_some(self) -> bool:
        """Fill the buffer; tell whether there was something."""
        while not (wanted := self._wanted()):
            if self.pool.is_stopping:
                return True
            if self._hungry.is_set():
                self._hungry = anyio.Event()
            await self._hungry.wait()
        self._asked_for += wanted
        try:
            claimed = await self.pool.claim(self.owner, wanted)
        finally:
            self._asked_for -= wanted
        self._buffer.extend(claimed)
        self._wake(len(claimed))
        return bool(claimed)

    async def _run_on(self, scope: anyio.CancelScope) -> None:
        """Run what is in the buffer, until a handler had to be stopped through the scope."""
        clock = self.runner.store.clock
        pool = self.pool
        while self._buffer and not (
            pool.is_stopping or pool.headcount.surplus or scope.cancel_called
        ):
            claimed, began = self._buffer.popleft(), clock.monotonic()
            if claimed.source.is_held or self._is_late(claimed, began):
                await self._return([claimed, *self._late_ones(began)])
                self._ask()
                continue
            self._free -= 1
            try:
                await self._attempt(claimed, scope)
            finally:
                ended = clock.monotonic()
                self.pool.ended(claimed)
                self._free += 1
                self._appetite.ended(began, ended, is_dry=not self._buffer)
                self._ask()
            if ended - self._let_in_at > _LONGEST_STRETCH_SECONDS and not scope.cancel_called:
                await checkpoint()
                self._let_in_at = clock.monotonic()

    def _is_late(self, claimed: Claimed, now: float) -> bool:
        """Whether a task has waited too long to be started with a whole lease before it."""
        return claimed.deadline - now < self.lease.total_seconds()

    def _late_ones(self, now: float) -> Iterator[Claimed]:
        """Take those that are late from the head of the buffer."""
        while self._buffer and self._is_late(self._buffer[0], now):
            yield self._buffer.popleft()

    async def _wait(self) -> None:
        """Wait until there is something to run."""
        if self.pool.is_stopping or self._buffer or self.pool.headcount.surplus:
            return
        event = anyio.Event()
        self._idle.append(event)
        try:
            await event.wait()
        finally:
            if not event.is_set():
                self._idle.remove(event)

    def _wake(self, number: int) -> None:
        for _ in range(min(number, len(self._idle))):
            self._idle.popleft().set()

    async def _attempt(self, claimed: Claimed, scope: anyio.CancelScope) -> None:
        running = claimed.running(self.lease)
        if running.task.status is Status.PENDING and not await self._began(running):
            return
        # A renewal makes it this long in the store as well, shorter than the batch had it.
        ends = self.runner.store.clock.monotonic() + self.lease.total_seconds()
        running.deadline = min(running.deadline, ends)
        was_idle = not self.running.by_token
        self.running.by_token[claimed.token] = running
        if was_idle:
            self.work_began()
        try:
            await self._run(running, claimed, scope)
        except anyio.get_cancelled_exc_class():
            # The scopes of others are kept out: it was a handler, or asyncio closes its loop.
            logger.exception(
                "task %s had its worker cancelled, its lease has to end",
                running.task.id,
                extra={"task_id": str(running.task.id)},
            )
        finally:
            if not running.is_in_bulk:
                self.running.by_token.pop(claimed.token, None)

    async def _run(self, running: Running, claimed: Claimed, scope: anyio.CancelScope) -> None:
        handler = self.registry.find(running.task.queue, running.task.type)
        if handler is None:
            await self.runner.refuse(running)
            return
        again_in = await Isolated(self.runner.run_in(scope, running, handler, claimed.queue))
        if again_in is not None:
            due_at = self.runner.store.clock.now() + again_in
            self.pool.nudge(running.task.queue, due_at)
        bulk = self.runner.bulk
        if running.is_in_bulk and bulk is not None and bulk.is_full and not scope.cancel_called:
            await bulk.room()

    async def _began(self, running: Running) -> bool:
        """Begin a last attempt, which the claim has only reserved."""
        start = lifecycle.started(owner=self.owner, lease=self.lease)
        if not await self.runner.settler.start(running, start):
            return False
        # The process may have been frozen meanwhile, and the janitor may have ended the task. And
        # a pool that stops may have interrupted everything that it knew of.
        is_late = running.deadline <= self.runner.store.clock.monotonic()
        if is_late or self.pool.is_stopping:
            self.runner.meter.begun(running.task, self.runner.store.clock.now())
            await self.runner.settler.let_go(running, lifecycle.released())
            self.pool.nudge(running.task.queue)
            return False
        task, now = running.task, self.runner.store.clock.now()
        assert task.lease is not None  # noqa: S101  - a reservation is a lease
        running.task = replace(
            task,
            status=Status.RUNNING,
            attempts=task.attempts + 1,
            lease=replace(task.lease, owner=self.owner, until=now + self.lease),
            started_at=now,
            updated_at=now,
        )
        self.runner.meter.begun(running.task, now)
        return True

    def shrink(self, number: int) -> None:
        """Notice that so many workers are to leave, which those do first that are idle."""
        self._wake(number)

    def grow(self, number: int) -> None:
        """Have more workers, which somebody else starts."""
        self._free += number
        self._appetite.slots += number
        self._ask()

    def hold(self) -> None:
        """Notice that a queue may be held: what is in the buffer of it goes back."""
        self._held.set()

    async def keep_clear(self) -> None:
        """Give back what nobody may start any more, until cancelled."""
        while True:
            await self._held.wait()
            self._held = anyio.Event()
            held = [each for each in self._buffer if each.source.is_held]
            if held:
                kept = [each for each in self._buffer if not each.source.is_held]
                self._buffer.clear()
                self._buffer.extend(kept)
                await self._return(held)

    async def _return(self, unstarted: Sequence[Claimed]) -> None:
        """Give tasks back that were never started."""
        for each in unstarted:
            self.pool.ended(each)
        claims = [each.running(self.lease) for each in unstarted]
        for status in (Status.PENDING, Status.RUNNING):
            returned = [each for each in claims if each.task.status is status]
            if returned:
                await self.runner.settler.let_go_many(returned, returned[0].handed_back())

    def _ask(self) -> None:
        """Let the fetcher look again, if it should claim now."""
        if not self._hungry.is_set() and self._wanted():
            self._hungry.set()

    def _wanted(self) -> int:
        now = self.runner.store.clock.monotonic()
        waiting = len(self._buffer) + self._asked_for
        return self._appetite.next_batch(free=self._free, waiting=waiting, now=now)
