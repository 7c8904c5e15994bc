"""Asks the store when an idle pool's next task becomes due, instead of looking every second."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Final

import anyio

from gotasks_py._pool import Pool
from gotasks_py._scheduling import Source
from gotasks_py.errors import StoreError
from gotasks_py.store import Store

logger = logging.getLogger("gotasks_py.pool")

_SELDOM: Final = timedelta(seconds=1)


class Surveyor:
    """Sets a timer for each queue of a pool that has run dry while changes are told of.

    The feed tells of new work; this covers what it cannot tell: leases that will end, and
    what was there before. Round after round is at least a second apart, or a poll if that
    is shorter, however often the queues run dry.
    """

    def __init__(self, store: Store, pool: Pool, poll: timedelta) -> None:
        self._store = store
        self._pool = pool
        self._pause_seconds = min(poll, _SELDOM).total_seconds()

    async def run(self) -> None:
        """Survey whenever queues have run dry, until cancelled."""
        while True:
            await self._pool.has_idled()
            for source in self._pool.sources:
                if source.is_to_survey:
                    await self._survey(source)
            await anyio.sleep(self._pause_seconds)

    async def _survey(self, source: Source) -> None:
        epoch = source.epoch
        try:
            due_at = await self._store.next_due(source.queue.name, source.types, source.lanes.all)
        except StoreError as error:
            # Polls go on, and tell of an outage.
            logger.debug("cannot ask when work is due in %s: %s", source.queue.name, error)
            return
        source.is_surveyed = source.epoch == epoch
        if due_at is not None:
            self._pool.expect(source, due_at)
