"""The part of the store on MongoDB that records queues, and what operators decide."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from gotasks_mongostore import _filters as filters
from gotasks_mongostore import _registry
from gotasks_mongostore._indexes import ensure_indexes
from gotasks_mongostore._part import Part
from gotasks_py.controls import NodeOrder, QueueChanges
from gotasks_py.policy import QueuePolicy
from gotasks_py.task import TaskId

_KEPT: Final = timedelta(days=30)
"""How long an order is kept; a manager that is quiet for longer begins to claim again."""
_LAST_ASKED_FIRST: Final = [("cancel_requested_at", -1)]


class Control(Part):
    """Keeps decisions in the collection of queues, which managers follow."""

    async def register_queue(self, policy: QueuePolicy) -> Mapping[str, object]:
        with self._operations.bounded(f"register queue {policy.name!r}") as here:
            return await _registry.register(here.queues, policy)

    async def set_queue_policy(self, policy: QueuePolicy) -> None:
        await self.open()
        with self._operations.bounded(f"change the policy of queue {policy.name!r}") as here:
            await _registry.replace(here.queues, policy)

    async def queues(self) -> Mapping[str, Mapping[str, object]]:
        await self.reach()
        return await self._operations.repeatable(
            "read the queues", lambda here: _registry.recorded(here.queues)
        )

    async def pause_queue(
        self, queue: str, *, until: datetime | None = None, by: str | None = None
    ) -> bool:
        await self.reach()
        with self._operations.bounded(f"pause queue {queue!r}") as here:
            return await _registry.set_pause(here.queues, queue, until, by)

    async def resume_queue(self, queue: str) -> bool:
        await self.reach()
        with self._operations.bounded(f"resume queue {queue!r}") as here:
            return await _registry.end_pause(here.queues, queue)

    async def change_queue(self, queue: str, changes: QueueChanges | None) -> bool:
        await self.reach()
        with self._operations.bounded(f"change the policy of queue {queue!r}") as here:
            return await _registry.set_changes(here.queues, queue, changes)

    async def forget_queue(self, queue: str) -> bool:
        await self.reach()
        with self._operations.bounded(f"remove queue {queue!r}") as here:
            return await _registry.forget(here.queues, queue)

    async def order_node(self, node: str, order: NodeOrder | None) -> None:
        await self.open()
        with self._operations.bounded(f"give an order to manager {node!r}") as here:
            if not here.has_queues_indexes:
                await ensure_indexes(here.database, here.queues, _registry.INDEXES)
                here.has_queues_indexes = True
            await _registry.set_order(here.queues, node, order, self.clock.now() + _KEPT)

    async def node_orders(self) -> Mapping[str, NodeOrder]:
        await self.reach()
        with self._operations.bounded("read the orders to managers") as here:
            return await _registry.orders(here.queues)

    async def cancelling(self, limit: int = 1000) -> frozenset[TaskId]:
        with self._operations.bounded("ask what is being cancelled") as here:
            found = await here.tasks.find(
                filters.cancelling(),
                {"_id": 1},
                sort=_LAST_ASKED_FIRST,
                limit=limit,
                hint="cancelling",
            ).to_list(None)
        return frozenset(each["_id"] for each in found)
