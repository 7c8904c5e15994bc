"""Records outcomes, for as long as it takes the store to answer."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Final

import anyio

from gotasks_py._running import Running
from gotasks_py.backoff import Exponential
from gotasks_py.errors import StoreError, StoreUnavailableError
from gotasks_py.lifecycle import Patch, cancelled
from gotasks_py.store import Store

logger = logging.getLogger("gotasks_py.attempt")

# How often the store may refuse before that counts: a passing trouble has many names.
_REFUSALS: Final = 5
_PAUSE: Final = Exponential(base=timedelta(milliseconds=50), cap=timedelta(seconds=2))


class Settler:
    """Writes the end of an attempt through the fence.

    While the store is away it tries on, past the end of the lease too: the token proves
    ownership, not the time, and while the database is away nobody else can claim.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._giving_up = anyio.Event()

    def give_up(self) -> None:
        """Stop trying while the store is away; the process is about to end."""
        self._giving_up.set()

    async def settle(self, running: Running, patch: Patch) -> bool:
        """Apply a patch; ``False`` if the fence refused it.

        Raises:
            StoreUnavailableError: the store stayed away until :meth:`give_up`.
            StoreError: the store refuses this patch for good.
        """
        failures = 0
        while True:
            try:
                return await self._store.settle(running.ref, patch)
            except StoreError as error:
                failures += 1
                is_final = not isinstance(error, StoreUnavailableError) and failures >= _REFUSALS
                if is_final or self._giving_up.is_set():
                    raise
                if failures == 1:
                    logger.warning(
                        "the outcome of task %s cannot be recorded yet, trying on: %s",
                        running.task.id,
                        error,
                        extra={"task_id": str(running.task.id)},
                    )
            with anyio.move_on_after(_PAUSE(failures).total_seconds()):
                await self._giving_up.wait()

    async def let_go(self, running: Running, patch: Patch) -> None:
        """Hand a task back, or cancel it if that was asked for meanwhile.

        Whatever fails is logged: the lease ends, and another worker takes the task then.
        """
        try:
            if not await self.settle(running, patch):
                await self.settle(running, cancelled())
        except StoreError as error:
            logger.error(  # noqa: TRY400  - the cause is the store, not this code
                "task %s could not be handed back, its lease has to end: %s",
                running.task.id,
                error,
                extra={"task_id": str(running.task.id)},
            )
