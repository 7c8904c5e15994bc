"""The half of the store in memory that records what operators decide."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import datetime

from gotasks_memstore._changes import Changes
from gotasks_memstore._documents import Documents, id_of
from gotasks_memstore._expressions import has
from gotasks_py.clock import Clock
from gotasks_py.controls import NodeOrder, QueueChanges
from gotasks_py.lanes import Lanes
from gotasks_py.task import EPOCH, Status, TaskId


class Control:
    """Keeps decisions beside the recorded policies of queues."""

    _lock: threading.RLock
    _clock: Clock
    _changes: Changes
    _documents: Documents
    _queues: dict[str, dict[str, object]]
    _orders: dict[str, NodeOrder]
    _ordered_at: dict[str, datetime]

    async def pause_queue(
        self, queue: str, *, until: datetime | None = None, by: str | None = None
    ) -> bool:
        pause: dict[str, object] = {"at": self._clock.now(), "until": until, "by": by}
        return self._decide(queue, pause=pause)

    async def resume_queue(self, queue: str) -> bool:
        return self._decide(queue, pause=None)

    async def change_queue(self, queue: str, changes: QueueChanges | None) -> bool:
        if changes is None:
            return self._decide(queue, changes=None)
        with self._lock:
            before = self._queues.get(queue, {}).get("changes")
            if changes.lanes is not None and queue in self._queues:
                recorded = self._queues[queue]
                # Which claims have to cover for ever.
                recorded["most_lanes"] = Lanes.from_document(recorded).changed(changes.lanes).most
        given = before if isinstance(before, dict) else {}
        return self._decide(queue, changes={**given, **changes.to_document()})

    async def forget_queue(self, queue: str) -> bool:
        with self._lock:
            was_recorded = self._queues.pop(queue, None) is not None
        if was_recorded:
            self._changes.queue_changed(queue)
        return was_recorded

    async def order_node(self, node: str, order: NodeOrder | None) -> None:
        with self._lock:
            if order is None:
                self._orders.pop(node, None)
            else:
                self._orders[node] = order
                self._ordered_at[node] = self._clock.now()
        self._changes.node_ordered(node)

    async def node_orders(self) -> Mapping[str, NodeOrder]:
        with self._lock:
            return dict(self._orders)

    async def cancelling(self, limit: int = 1000) -> frozenset[TaskId]:
        with self._lock:
            asked = [
                (at if isinstance(at := each["cancel_requested_at"], datetime) else EPOCH, each)
                for each in self._documents
                if each.get("status") == Status.RUNNING and has(each, "cancel_requested_at")
            ]
        asked.sort(key=lambda each: each[0], reverse=True)
        return frozenset(id_of(document) for _, document in asked[:limit])

    def _decide(self, queue: str, **decision: dict[str, object] | None) -> bool:
        with self._lock:
            recorded = self._queues.get(queue)
            if recorded is None:
                return False
            for name, value in decision.items():
                if value is None:
                    recorded.pop(name, None)
                else:
                    recorded[name] = value
        self._changes.queue_changed(queue)
        return True
