"""What the store has recorded of a manager's queues, and may change while it runs."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Mapping
from typing import Final

import anyio

from gotasks_py.errors import StoreError
from gotasks_py.lanes import Lanes
from gotasks_py.policy import QueuePolicy
from gotasks_py.store import Store

logger = logging.getLogger("gotasks_py.queues")

_REFRESH_SECONDS: Final = 5.0
_SELDOM_SECONDS: Final = 60.0
_JITTER: Final = 0.1


class RecordedQueues:
    """Knows each declared queue's lanes, and learns of changes.

    A running manager refreshes it every few seconds; a producer alone does so before it
    enqueues. ``changed`` is called with the name of a queue that has changed.
    """

    def __init__(
        self,
        store: Store,
        declared: Mapping[str, QueuePolicy],
        changed: Callable[[str], None],
    ) -> None:
        self._store = store
        self.declared = declared
        self._changed = changed
        self._lanes: dict[str, Lanes] = {}
        self._read_at = -math.inf
        self._is_told = False
        self._stale: anyio.Event | None = None

    def set_told(self, *, value: bool) -> None:
        """Refresh seldom from now on, or every few seconds again."""
        self._is_told = value
        self.recheck()

    def recheck(self) -> None:
        """Refresh at once: a queue has changed, or may have."""
        if self._stale is not None:
            self._stale.set()

    def knows(self, queue: str) -> bool:
        """Whether the queue has been registered or read."""
        return queue in self._lanes

    def lanes(self, queue: str) -> Lanes:
        """Tell the lanes of a queue."""
        return self._lanes.get(queue, _ONE_LANE)

    def learn(self, queue: str, recorded: Mapping[str, object]) -> None:
        """Take in what a store has recorded of a queue."""
        lanes = Lanes.from_document(recorded)
        before = self._lanes.get(queue)
        self._lanes[queue] = lanes
        if before is None:
            self._read_at = max(self._read_at, self._store.clock.monotonic())
        elif before != lanes:
            self._changed(queue)

    async def refresh(self) -> None:
        """Read what is recorded; to be called when a queue may have changed.

        Raises:
            StoreError: the store does not say.
        """
        # Noted first: those who come meanwhile go on with what is known.
        self._read_at = self._store.clock.monotonic()
        for name, recorded in (await self._store.queues()).items():
            if name in self.declared:
                self.learn(name, recorded)

    async def refresh_if_old(self) -> None:
        """Read what is recorded unless that was done a few seconds ago."""
        if self._store.clock.monotonic() - self._read_at < _REFRESH_SECONDS:
            return
        try:
            await self.refresh()
        except StoreError as error:
            logger.debug("cannot read the queues, going on with what is known: %s", error)

    async def run(self) -> None:
        """Refresh every few seconds, or when told, until cancelled."""
        self._stale = anyio.Event()
        while True:
            pause = _SELDOM_SECONDS if self._is_told else _REFRESH_SECONDS
            with anyio.move_on_after(pause * (1 - _JITTER * random.random())):  # noqa: S311  - no secret
                await self._stale.wait()
            # Before it is read, so that a change in the midst of that counts.
            self._stale = anyio.Event()
            try:
                await self.refresh()
            except StoreError as error:
                logger.debug("cannot read the queues, going on with what is known: %s", error)


_ONE_LANE: Final = Lanes()
