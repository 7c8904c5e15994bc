"""A pool in pipeline mode: one loop fetches batches into a buffer, another starts tasks.

What is in the buffer is leased, and not started: the local deadline says until when a task
may be started with a whole lease before it. What stops or waits too long goes back.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import anyio

from gotasks_py import lifecycle
from gotasks_py._appetite import Appetite
from gotasks_py._attempt import AttemptRunner
from gotasks_py._pool import Claimed, Pool, running_for
from gotasks_py._running import Running, RunningTasks
from gotasks_py.handlers import Registry
from gotasks_py.modes import PipelineMode
from gotasks_py.task import Status

logger = logging.getLogger("gotasks_py.pipeline")


@dataclass(slots=True, kw_only=True)
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
    appetite: Appetite = field(init=False)
    free: int = field(init=False)
    _buffer: deque[Claimed] = field(default_factory=deque[Claimed])
    _arrived: anyio.Event = field(default_factory=anyio.Event)
    _hungry: anyio.Event = field(default_factory=anyio.Event)
    _is_fetching: bool = True

    def __post_init__(self) -> None:
        self.free = self.pool.size
        self.appetite = Appetite(self.mode, self.pool.size)

    @property
    def waiting(self) -> int:
        """How many tasks are claimed and not started."""
        return len(self._buffer)

    async def fetch(self) -> None:
        """Claim until the pool stops."""
        try:
            while not self.pool.is_stopping:
                wanted = self._wanted()
                if not wanted:
                    self._hungry = anyio.Event()
                    await self._hungry.wait()
                    continue
                claimed: Sequence[Claimed] = ()
                # A claim under way is never abandoned: the store may have carried it out.
                with anyio.CancelScope(shield=True):
                    claimed = await self.pool.claim(self.owner, wanted)
                self._buffer.extend(claimed)
                self._arrived.set()
                if not claimed:
                    await self.pool.wait()
        finally:
            self._is_fetching = not self.pool.is_stopping
            self._arrived.set()

    async def start_tasks(self) -> None:
        """Start what is in the buffer as workers become free, until nothing more comes."""
        try:
            async with anyio.create_task_group() as group:
                while self._is_fetching or not self.pool.is_stopping:
                    # Before the look, so that what arrives meanwhile counts.
                    self._arrived = anyio.Event()
                    self._start_some(group)
                    await self._arrived.wait()
        finally:
            # Closing asyncio's event loop cancels this; other workers should not have to wait.
            with anyio.CancelScope(shield=True):
                await self._return_all()

    def stop(self) -> None:
        """Notice that the pool stops: start nothing more."""
        self._hungry.set()
        self._arrived.set()

    def _start_some(self, group: anyio.abc.TaskGroup) -> None:
        clock = self.runner.store.clock
        late = list[Claimed]()
        while self._buffer and self.free and not self.pool.is_stopping:
            claimed = self._buffer.popleft()
            if claimed.deadline - clock.monotonic() < self.lease.total_seconds():
                late.append(claimed)
                continue
            self.free -= 1
            group.start_soon(self._work, claimed)
        if late:
            group.start_soon(self._return, late)
        self._ask()

    async def _work(self, claimed: Claimed) -> None:
        clock = self.runner.store.clock
        began = clock.monotonic()
        try:
            await self._attempt(claimed)
        except Exception:
            logger.exception(
                "task %s met an error of the library, its lease has to end",
                claimed.task.id,
                extra={"task_id": str(claimed.task.id)},
            )
        finally:
            self.free += 1
            self.appetite.ended(began, clock.monotonic())
            if self._buffer:
                self._arrived.set()
            self._ask()

    async def _attempt(self, claimed: Claimed) -> None:
        running = running_for(claimed, self.lease)
        if running.task.status is Status.PENDING and not await self._began(running):
            return
        was_idle = not self.running.by_token
        self.running.by_token[claimed.token] = running
        if was_idle:
            self.work_began()
        try:
            await self._run(running, claimed)
        finally:
            if not running.is_in_bulk:
                del self.running.by_token[claimed.token]

    async def _run(self, running: Running, claimed: Claimed) -> None:
        handler = self.registry.find(running.task.queue, running.task.type)
        if handler is None:
            await self.runner.refuse(running)
            return
        again_in = await self.runner.run_here(running, handler, claimed.queue)
        if again_in is not None:
            due_at = self.runner.store.clock.now() + again_in
            self.pool.nudge(running.task.queue, due_at)
        elif running.is_in_bulk and self.runner.bulk is not None:
            await self.runner.bulk.room()

    async def _began(self, running: Running) -> bool:
        """Begin a last attempt, which the claim has only reserved."""
        clock = self.runner.store.clock
        if not await self.runner.settler.start(
            running, lifecycle.started(owner=self.owner, lease=self.lease)
        ):
            return False
        task, now = running.task, clock.now()
        assert task.lease is not None  # noqa: S101  - a reservation is a lease
        running.task = replace(
            task,
            status=Status.RUNNING,
            attempts=task.attempts + 1,
            lease=replace(task.lease, owner=self.owner, until=now + self.lease),
            started_at=now,
            updated_at=now,
        )
        return True

    async def _return(self, unstarted: Sequence[Claimed]) -> None:
        """Give tasks back that were never started."""
        claims = [running_for(each, self.lease) for each in unstarted]
        for status in (Status.PENDING, Status.RUNNING):
            returned = [each for each in claims if each.task.status is status]
            if returned:
                await self.runner.settler.let_go_many(returned, returned[0].handed_back())

    async def _return_all(self) -> None:
        unstarted = list(self._buffer)
        self._buffer.clear()
        await self._return(unstarted)

    def _wanted(self) -> int:
        now = self.runner.store.clock.monotonic()
        return self.appetite.next_batch(free=self.free, waiting=len(self._buffer), now=now)

    def _ask(self) -> None:
        """Let the fetcher look again, if it should claim now."""
        if not self._hungry.is_set() and self._wanted():
            self._hungry.set()
