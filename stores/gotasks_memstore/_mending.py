"""The part of the store in memory that finds and mends what no other path would touch."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from gotasks_memstore._changes import Changes
from gotasks_memstore._documents import Documents
from gotasks_memstore._expressions import has
from gotasks_memstore._metrics import MetricsDocuments
from gotasks_py.clock import Clock
from gotasks_py.controls import NodeOrder
from gotasks_py.lanes import MAX_LANES, Lanes
from gotasks_py.lifecycle import Patch, rescued
from gotasks_py.store import TaskDocument
from gotasks_py.sweeping import Swept
from gotasks_py.task import Status, Task

_ACTIVE = (Status.PENDING, Status.RUNNING)


class Mending:
    """Looks at every document; the MongoDB store has an index."""

    _lock: threading.RLock
    _clock: Clock
    _changes: Changes
    _documents: Documents
    _metrics: MetricsDocuments
    _queues: dict[str, dict[str, object]]
    _orders: dict[str, NodeOrder]
    _ordered_at: dict[str, datetime]

    def _apply(self, document: TaskDocument, patch: Patch) -> Task:
        raise NotImplementedError

    async def stuck(self, limit: int) -> Sequence[Task]:
        with self._lock:
            found = [Task.from_document(copy.deepcopy(each)) for each in self._stuck()]
        return found[:limit]

    async def rescue(self, limit: int) -> Sequence[Task]:
        with self._lock:
            return [self._apply(each, rescued()) for each in list(self._stuck())[:limit]]

    async def sweep(self, *, older_than: timedelta, limit: int) -> Swept:
        with self._lock:
            orders = list(self._forgotten(self._clock.now() - older_than))[:limit]
            for node in orders:
                del self._orders[node]
            lanes = self._beyond()
            for queue, most in lanes.items():
                self._queues[queue]["most_lanes"] = most
        for queue in lanes:
            self._changes.queue_changed(queue)
        return Swept(orders=tuple(orders), lanes=lanes)

    def _stuck(self) -> Iterator[TaskDocument]:
        unmoved = ("finished_at", "due_at", "reap_at")
        for document in self._documents:
            if document.get("status") in _ACTIVE and not any(has(document, n) for n in unmoved):
                yield document

    def _forgotten(self, before: datetime) -> Iterator[str]:
        there = {node.id for node in self._metrics.nodes(self._clock.now())}
        for node in self._orders:
            if node not in there and self._ordered_at[node] < before:
                yield node

    def _beyond(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for document in self._documents:
            queue, lane = document.get("queue"), document.get("lane")
            if not (isinstance(queue, str) and queue in self._queues and type(lane) is int):
                continue
            most = max(found.get(queue, 0), Lanes.from_document(self._queues[queue]).most)
            if has(document, "due_at") and most <= lane < MAX_LANES:
                found[queue] = lane + 1
        return found
