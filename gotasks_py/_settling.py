"""Records outcomes, for as long as it takes the store to answer."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Final, TypeVar

import anyio

from gotasks_py._closing import Closing
from gotasks_py._meter import Meter
from gotasks_py._running import Running
from gotasks_py.backoff import Exponential
from gotasks_py.errors import StoreError, StoreUnavailableError
from gotasks_py.lifecycle import Patch, cancelled, released, unreserved
from gotasks_py.store import Store
from gotasks_py.task import LeaseRef, Status

T = TypeVar("T")

logger = logging.getLogger("gotasks_py.attempt")

# How often the store may refuse before that counts: a passing trouble has many names.
_REFUSALS: Final = 5
_PAUSE: Final = Exponential(base=timedelta(milliseconds=50), cap=timedelta(seconds=2))


class Settler:
    """Writes the end of an attempt through the fence.

    While the store is away it tries on, past the end of the lease too: the token proves
    ownership, not the time, and while the database is away nobody else can claim.
    """

    def __init__(self, store: Store, meter: Meter, closing: Closing) -> None:
        self._store = store
        self._meter = meter
        self._closing = closing

    async def settle(self, running: Running, patch: Patch) -> bool:
        """Apply a patch; ``False`` if the fence refused it.

        Raises:
            StoreUnavailableError: the store stayed away until the run was closing.
            StoreError: the store refuses this patch for good.
        """
        return await self._persist(partial(self._store.settle, running.ref, patch), [running.ref])

    async def settle_many(
        self, refs: Sequence[LeaseRef], patch: Patch, values: Sequence[object] = ()
    ) -> frozenset[str]:
        """Apply a patch to many tasks; tell the tokens that the fence refused.

        Raises:
            StoreUnavailableError: the store stayed away until the run was closing.
            StoreError: the store refuses the patch, or one of the values, for good.
        """
        return await self._persist(partial(self._store.settle_many, refs, patch, values), refs)

    async def start(self, running: Running, patch: Patch) -> bool:
        """Begin a reserved attempt; ``False``: it must not run here.

        The new lease counts from the first try: any of them may have been the one. So a task
        that may have begun and will not run goes back, for nobody would run it any more.
        """
        try:
            has_begun = await self._start(running, patch)
        except BaseException:  # asyncio closes its event loop
            with anyio.CancelScope(shield=True):
                await self._take_back(running)
            raise
        if has_begun is None:
            await self._take_back(running)
        return bool(has_begun)

    async def _start(self, running: Running, patch: Patch) -> bool | None:
        """Tell whether the attempt has begun; ``None``: that is not known."""
        clock = self._store.clock
        sent = clock.monotonic()
        while clock.monotonic() - sent < running.lease.total_seconds() / 2:
            try:
                with self._closing.in_time():
                    has_begun = await self._store.settle(running.ref, patch)
            except StoreUnavailableError:
                if self._closing.begun.is_set():
                    return None
                await self._pause(1)
            except StoreError as error:
                self._log("task %s could not be started: %s", running, error)
                return None
            else:
                running.deadline = sent + running.lease.total_seconds()
                return has_begun
        return None

    async def _take_back(self, running: Running) -> None:
        try:
            if not await self.settle(running, released()):
                await self.settle(running, unreserved())
        except StoreError as error:
            self._log("task %s could not be handed back, its lease has to end: %s", running, error)

    async def let_go(self, running: Running, patch: Patch) -> bool:
        """Hand a task back, or cancel it if that was asked for meanwhile; tell whether it went.

        Whatever fails is logged: the lease ends, and another worker takes the task then.
        """
        try:
            if await self.settle(running, patch):
                self._count(running, patch)
                return True
            if await self.settle(running, cancelled()):
                self._meter.cancelled(running.task)
            elif patch.source is Status.RUNNING:
                self._meter.lease_lost(running.task)
        except StoreError as error:
            self._log("task %s could not be handed back, its lease has to end: %s", running, error)
        return False

    async def let_go_many(self, unstarted: Sequence[Running], patch: Patch) -> None:
        """Do the same for many, in one write."""
        refused = frozenset[str]()
        try:
            refused = await self.settle_many([each.ref for each in unstarted], patch)
        except StoreError as error:
            for each in unstarted:
                self._log("task %s could not be handed back, its lease has to end: %s", each, error)
            return
        for each in unstarted:
            if each.ref.token in refused:
                await self.let_go(each, patch)
            else:
                self._count(each, patch)

    def _count(self, running: Running, patch: Patch) -> None:
        if patch.target is Status.DEAD:
            self._meter.failed(running.task, None, is_dead=True)
        elif patch.source is Status.RUNNING:  # what was only reserved had not begun
            self._meter.interrupted(running.task)

    async def _persist(self, write: Callable[[], Awaitable[T]], refs: Sequence[LeaseRef]) -> T:
        failures = 0
        while True:
            try:
                with self._closing.in_time():
                    return await write()
            except StoreError as error:
                failures += 1
                is_final = not isinstance(error, StoreUnavailableError) and failures >= _REFUSALS
                if is_final or self._closing.begun.is_set():
                    raise
                if failures == 1:
                    self._warn(refs, error)
            await self._pause(failures)

    async def _pause(self, failures: int) -> None:
        with anyio.move_on_after(_PAUSE(failures).total_seconds()):
            await self._closing.begun.wait()

    def _warn(self, refs: Sequence[LeaseRef], error: StoreError) -> None:
        about = {"task_id": str(refs[0].id)} if len(refs) == 1 else {}
        names = ", ".join(str(ref.id) for ref in refs)
        logger.warning(
            "the outcome of task %s cannot be recorded yet, trying on: %s",
            names,
            error,
            extra=about,
        )

    def _log(self, message: str, running: Running, error: StoreError) -> None:
        logger.error(message, running.task.id, error, extra={"task_id": str(running.task.id)})
