"""The half of the store in memory that looks at many tasks."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

from gotasks_memstore import _inspecting
from gotasks_memstore._documents import Documents, id_of
from gotasks_py.checks import check_count
from gotasks_py.clock import Clock
from gotasks_py.copying import copied
from gotasks_py.inspecting import Count, DeadPage, QueueOverview, TaskFilter, TaskPage
from gotasks_py.store import TaskDocument
from gotasks_py.task import Status, Task, TaskId


class Inspection:
    """Answers from the documents of the store."""

    _lock: threading.RLock
    _clock: Clock
    _documents: Documents
    _queues: dict[str, dict[str, object]]

    def parse_id(self, value: object) -> TaskId:
        raise NotImplementedError

    async def overview(self, queue: str | None = None) -> Sequence[QueueOverview]:
        with self._lock:
            self._documents.purge(self._clock.now())
            return [
                _inspecting.overview(self._documents, name, recorded, self._clock.now())
                for name, recorded in sorted(self._queues.items())
                if queue in {None, name}
            ]

    async def find_tasks(
        self,
        wanted: TaskFilter,
        *,
        limit: int = 50,
        cursor: str | None = None,
        newest_first: bool = True,
    ) -> TaskPage:
        with self._lock:
            fitting = copied(list(self._fitting(wanted)))
        return _inspecting.page(fitting, limit=limit, cursor=cursor, newest_first=newest_first)

    async def count_tasks(self, wanted: TaskFilter, *, limit: int = 10_000) -> Count:
        check_count("limit", limit)
        with self._lock:
            return _inspecting.count(self._fitting(wanted), limit)

    async def dead_groups(
        self, queue: str | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> DeadPage:
        with self._lock:
            dead = copied(list(self._fitting(TaskFilter(status=Status.DEAD))))
        return _inspecting.dead_groups(dead, queue, limit=limit, cursor=cursor)

    async def tags(self, prefix: str = "", *, limit: int = 20) -> Sequence[str]:
        check_count("limit", limit)
        with self._lock:
            tasks = [Task.from_document(each) for each in self._fitting(TaskFilter())]
        found = {tag for task in tasks for tag in task.tags if tag.startswith(prefix)}
        return sorted(found)[:limit]

    async def delete_tasks(self, wanted: TaskFilter, ids: Sequence[TaskId]) -> int:
        with self._lock:
            meant = {id_of(each) for each in self._fitting(wanted)} & set(ids)
            return sum(self._documents.remove(each) for each in meant)

    def _fitting(self, wanted: TaskFilter) -> Iterator[TaskDocument]:
        self._documents.purge(self._clock.now())
        task_id = None if wanted.id is None else self.parse_id(wanted.id)
        return (each for each in self._documents if _inspecting.fits(wanted, task_id, each))
