"""Records outcomes, for as long as it takes the store to answer."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Final

import anyio

from gotasks_py._running import Running
from gotasks_py.backoff import Exponential
from gotasks_py.errors import StoreUnavailableError
from gotasks_py.lifecycle import Patch
from gotasks_py.store import Store

logger = logging.getLogger("gotasks_py.attempt")

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
            except StoreUnavailableError as error:
                failures += 1
                if self._giving_up.is_set():
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
