"""What operators ask of this manager, and of the tasks that it runs."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from typing import Final

import anyio

from gotasks_py._running import RunningTasks, StopReason
from gotasks_py.controls import Controlling, NodeOrder
from gotasks_py.errors import StoreError
from gotasks_py.store import Store

logger = logging.getLogger("gotasks_py.manager")

_REFRESH_SECONDS: Final = 1.0
_SELDOM_SECONDS: Final = 60.0
_LAST_WRITE_SECONDS: Final = 2.0
_JITTER: Final = 0.1


class Orders:
    """Follows the order that a manager was given, and the cancellation of its tasks.

    While changes are told of, it is told. Otherwise, and so while a pipeline is busy, it
    asks every second: for the orders, of which there are few, and what is being cancelled.
    """

    def __init__(
        self,
        store: Store,
        node: str,
        running: RunningTasks,
        obey: Callable[[NodeOrder | None], None],
    ) -> None:
        self._store = store if isinstance(store, Controlling) else None
        self._node = node
        self._running = running
        self._obey = obey
        self._is_told = False
        self._has_order = False
        self._stale = anyio.Event()

    def set_told(self, *, value: bool) -> None:
        """Ask seldom from now on, or every second again."""
        self._is_told = value
        self.recheck()

    def recheck(self) -> None:
        """Ask at once: something may have been missed."""
        self._stale.set()

    def ordered(self, node: str) -> None:
        """Notice that a manager was given an order."""
        if node == self._node:
            self.recheck()

    async def run(self) -> None:
        """Ask every second, or when told, until cancelled; not of a store that has no orders."""
        while self._store is not None:
            # Before it is read, so that a change in the midst of that counts.
            self._stale = anyio.Event()
            try:
                await self._ask(self._store)
            except StoreError as error:
                logger.debug("cannot ask for orders, going on as before: %s", error)
            pause = _SELDOM_SECONDS if self._is_told else _REFRESH_SECONDS
            with anyio.move_on_after(pause * (1 - _JITTER * random.random())):  # noqa: S311  - no secret
                await self._stale.wait()

    async def forget(self) -> None:
        """Take away what this manager was told, at its end: its id is never used again."""
        if self._store is None or not self._has_order:
            return
        with anyio.move_on_after(_LAST_WRITE_SECONDS, shield=True):
            try:
                await self._store.order_node(self._node, None)
            except StoreError as error:
                logger.debug("cannot take the order of %s away: %s", self._node, error)

    async def _ask(self, store: Controlling) -> None:
        order = (await store.node_orders()).get(self._node)
        self._has_order = order is not None
        self._obey(order)
        if not self._running.by_token:
            return
        cancelling = await store.cancelling()
        for running in list(self._running.by_token.values()):
            if running.task.id in cancelling:
                running.stop(StopReason.CANCELLED)
