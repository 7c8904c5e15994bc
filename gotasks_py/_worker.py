"""A worker: claim, attempt, again while work comes; then wait for more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import anyio
from anyio.lowlevel import checkpoint

from gotasks_py import lifecycle
from gotasks_py._attempt import AttemptRunner
from gotasks_py._claims import Claimed
from gotasks_py._pool import Pool
from gotasks_py._running import Running, RunningTasks
from gotasks_py.handlers import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One slot of a pool."""

    owner: str
    pool: Pool
    runner: AttemptRunner
    running: RunningTasks
    registry: Registry
    lease: timedelta
    work_began: Callable[[], None]

    async def run(self) -> None:
        """Work until the pool stops, or has workers to spare."""
        while not self.pool.is_stopping and not self.pool.headcount.leaves_one():
            worked = False
            # A claim under way is never abandoned: the store may have carried it out.
            with anyio.CancelScope(shield=True):
                worked = await self._turn()
            if worked:
                await checkpoint()
            else:
                await self.pool.wait()
        # It may have been woken for work that another is to do now.
        self.pool.room.wake_one()

    async def _turn(self) -> bool:
        claims = await self.pool.claim(self.owner)
        if not claims:
            return False
        (claimed,) = claims
        running = claimed.running(self.lease)
        was_idle = not self.running.by_token
        self.running.by_token[claimed.token] = running
        if was_idle:
            self.work_began()
        try:
            await self._attempt(running, claimed)
        finally:
            del self.running.by_token[claimed.token]
            self.pool.ended(claimed)
        return True

    async def _attempt(self, running: Running, claimed: Claimed) -> None:
        clock = self.runner.store.clock
        handler = self.registry.find(running.task.queue, running.task.type)
        is_late = running.deadline <= clock.monotonic()
        if is_late or self.pool.is_stopping:
            await self._hand_back(running)
            return
        if handler is None:
            await self.runner.refuse(running)
            return
        again_in = await self.runner.run(running, handler, claimed.queue)
        if again_in is not None:
            self.pool.nudge(running.task.queue, clock.now() + again_in)

    async def _hand_back(self, running: Running) -> None:
        running.is_over = True
        await self.runner.settler.let_go(running, lifecycle.released())
