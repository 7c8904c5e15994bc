"""The documents in memory, with what the indexes of a database do for the real store."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import product

from gotasks_py.store import TaskDocument
from gotasks_py.task import TaskId


class Documents:
    """Documents by id; those that a claim may take by lane; holders of unique keys."""

    def __init__(self, changed: Callable[[TaskDocument | None, TaskDocument | None], None]) -> None:
        self._changed = changed
        self._by_id: dict[TaskId, TaskDocument] = {}
        self._claimable: dict[object, dict[TaskId, TaskDocument]] = {}
        self._holders: dict[object, TaskId] = {}
        self._expiring: list[tuple[datetime, str]] = []

    def __iter__(self) -> Iterator[TaskDocument]:
        return iter(list(self._by_id.values()))

    def get(self, task_id: TaskId) -> TaskDocument | None:
        return self._by_id.get(task_id)

    def put(self, document: TaskDocument) -> None:
        """Store a document in place of the one with its id."""
        task_id = id_of(document)
        before = self._by_id.get(task_id)
        expired_at = None if before is None else before.get("expires_at")
        self._take_out(task_id)
        self._by_id[task_id] = document
        if document.get("due_at") is not None:
            self._claimable.setdefault(_lane(document), {})[task_id] = document
        if isinstance(document.get("unique_key"), str):
            self._holders[_key(document)] = task_id
        expires_at = document.get("expires_at")
        if isinstance(expires_at, datetime) and expires_at != expired_at:
            heapq.heappush(self._expiring, (expires_at, str(task_id)))
        self._changed(before, document)

    def remove(self, task_id: TaskId) -> bool:
        document = self._take_out(task_id)
        if document is not None:
            self._changed(document, None)
        return document is not None

    def claimable(
        self, queue: str, lanes: Iterable[int], types: Iterable[str]
    ) -> Iterator[TaskDocument]:
        """Yield what of some lanes a claim may take, now or later."""
        for lane, name in product(lanes, types):
            yield from self._claimable.get((queue, lane, name), {}).values()

    def holder(self, document: TaskDocument) -> TaskId | None:
        """Tell which document holds the unique key of this one."""
        return self._holders.get(_key(document))

    def purge(self, now: datetime) -> None:
        """Remove what has expired, as the TTL monitor of a server does."""
        while self._expiring and self._expiring[0][0] <= now:
            _, task_id = heapq.heappop(self._expiring)
            document = self._by_id.get(task_id, {})
            # A requeue may have given the document another end since.
            if isinstance(at := document.get("expires_at"), datetime) and at <= now:
                self.remove(task_id)

    def _take_out(self, task_id: TaskId) -> TaskDocument | None:
        document = self._by_id.pop(task_id, None)
        if document is not None:
            self._claimable.get(_lane(document), {}).pop(task_id, None)
            if self._holders.get(_key(document)) == task_id:
                del self._holders[_key(document)]
        return document


def id_of(document: TaskDocument) -> TaskId:
    return str(document["_id"])


def _lane(document: TaskDocument) -> object:
    return tuple(_hashable(document.get(name)) for name in ("queue", "lane", "type"))


def _key(document: TaskDocument) -> object:
    return tuple(_hashable(document.get(name)) for name in ("queue", "lane", "unique_key"))


def _hashable(value: object) -> object:
    return value if isinstance(value, str | int) else repr(value)
