"""What operators ask and do of many tasks and whole queues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final

from gotasks_py._bulk_operations import BulkOperation, BulkReport, Progress
from gotasks_py._loads import load_of, run_times
from gotasks_py.autoscaling import QueueLoad
from gotasks_py.checks import check_count, check_name
from gotasks_py.controls import Controlling, Pause, QueueChanges
from gotasks_py.errors import ConfigurationError, UnknownQueueError
from gotasks_py.explaining import Explanation, Surroundings, explanation
from gotasks_py.inspecting import (
    Count,
    DeadPage,
    Inspecting,
    QueueOverview,
    TaskFilter,
    TaskPage,
    check_page_size,
)
from gotasks_py.metering import Metering
from gotasks_py.store import Store
from gotasks_py.task import Status, Task

_PER_SECOND: Final = 2_000
_MILLISECOND: Final = timedelta(milliseconds=1)
_FINAL: Final = [status for status in Status if status.is_final]


class Oversight:
    """The part of a manager that looks at many tasks, and acts on them."""

    _store: Store

    async def _reached(self) -> None:
        raise NotImplementedError

    async def get(self, task_id: object) -> Task:
        raise NotImplementedError

    async def cancel(self, task_id: object) -> Task:
        raise NotImplementedError

    async def requeue(self, task_id: object, *, fresh_lifetime: bool = False) -> Task:
        raise NotImplementedError

    async def overview(self, queue: str | None = None) -> Sequence[QueueOverview]:
        """Tell how each recorded queue is doing, by name; or only the one.

        Raises:
            UnknownQueueError: no store has recorded the queue.
        """
        if queue is not None:
            check_name("queue", queue)
        found = await (await self._inspected()).overview(queue)
        if queue is not None and not found:
            raise UnknownQueueError(queue, list(await self._store.queues()))
        return found

    async def loads(self) -> Sequence[QueueLoad]:
        """Tell what each recorded queue has to do, as an autoscaler wants to know it.

        See :func:`gotasks_py.autoscaling.wanted_workers`.
        """
        overviews = await self.overview()
        times = await run_times(self._store)
        return [load_of(each, times.get(each.name)) for each in overviews]

    async def explain(self, task_id: object) -> Explanation:
        """Tell why a task is not running, or where it runs.

        Raises:
            TaskNotFoundError: there is no such task.
        """
        task = await self.get(task_id)
        store = self._store
        recorded = (await store.queues()).get(task.queue, {})
        around = Surroundings(
            now=store.clock.now(),
            pause=Pause.from_document(recorded),
            nodes=await store.nodes() if isinstance(store, Metering) else (),
            orders=await store.node_orders() if isinstance(store, Controlling) else {},
            limit=QueueChanges.from_document(recorded).workers,
            running=await self._running(task),
        )
        return explanation(task, around)

    async def find_tasks(
        self,
        wanted: TaskFilter | None = None,
        *,
        limit: int = 50,
        cursor: str | None = None,
        newest_first: bool = True,
    ) -> TaskPage:
        """List tasks, page by page, in the order of ``run_at``.

        ``cursor`` is that of the page before. Each page looks at a bounded number of tasks;
        with parts of the filter that no index serves (type, worker, payload, error) it may
        be short and still have a cursor.

        Raises:
            ConfigurationError: an impossible limit, or a cursor that is none.
            TaskNotFoundError: no task can have the id in the filter.
        """
        check_page_size(limit)
        return await (await self._inspected()).find_tasks(
            _checked(wanted), limit=limit, cursor=cursor, newest_first=newest_first
        )

    async def count_tasks(self, wanted: TaskFilter | None = None, *, limit: int = 10_000) -> Count:
        """Count tasks up to ``limit``; beyond, the answer is that there are at least as many.

        With parts of the filter that no index serves, only some thousand are looked at.
        """
        check_count("limit", limit)
        return await (await self._inspected()).count_tasks(_checked(wanted), limit=limit)

    async def dead_letters(
        self, queue: str | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> DeadPage:
        """Group dead letters by what they died of; the largest groups of the page first.

        Raises:
            ConfigurationError: an impossible limit, or a cursor that is none.
        """
        if queue is not None:
            check_name("queue", queue)
        check_page_size(limit)
        return await (await self._inspected()).dead_groups(queue, limit=limit, cursor=cursor)

    async def requeue_tasks(
        self,
        wanted: TaskFilter,
        *,
        fresh_lifetime: bool = False,
        per_second: int = _PER_SECOND,
        progress: Progress | None = None,
    ) -> BulkReport:
        """Bring back the dead letters of a filter; see :meth:`Manager.requeue`.

        At most ``per_second`` of them, in batches. ``progress`` is called on the event loop
        after each batch, and twice a second within one, with the report so far; it must not
        block.
        """
        act = partial(self.requeue, fresh_lifetime=fresh_lifetime)
        if _checked(wanted).run_before is None:
            # What dies again is not met again.
            wanted = replace(wanted, run_before=self._store.clock.now() + _MILLISECOND)
        bulk = await self._bulk(wanted, [Status.DEAD], per_second, progress)
        return await bulk.each(act)

    async def cancel_tasks(
        self,
        wanted: TaskFilter,
        *,
        per_second: int = _PER_SECOND,
        progress: Progress | None = None,
    ) -> BulkReport:
        """Cancel the pending and running tasks of a filter; see :meth:`Manager.cancel`.

        Paced, and with ``progress``, as :meth:`requeue_tasks` is.
        """
        active = [Status.PENDING, Status.RUNNING]
        bulk = await self._bulk(wanted, active, per_second, progress)
        return await bulk.each(self.cancel)

    async def delete_tasks(
        self,
        wanted: TaskFilter,
        *,
        per_second: int = _PER_SECOND,
        progress: Progress | None = None,
    ) -> BulkReport:
        """Remove the tasks of a filter: final ones, unless it names other statuses.

        Paced, and with ``progress``, as :meth:`requeue_tasks` is.
        """
        statuses = _FINAL if _checked(wanted).status is None else list(Status)
        bulk = await self._bulk(wanted, statuses, per_second, progress)
        return await bulk.delete()

    async def _running(self, task: Task) -> int:
        """Count what runs of a task's queue, where that can keep it from running."""
        if task.status is not Status.PENDING or not isinstance(self._store, Inspecting):
            return 0
        wanted = TaskFilter(queue=task.queue, status=Status.RUNNING)
        return (await self._store.count_tasks(wanted)).value

    async def _bulk(
        self,
        wanted: TaskFilter,
        statuses: Sequence[Status],
        per_second: int,
        progress: Progress | None,
    ) -> BulkOperation:
        check_count("per_second", per_second)
        if progress is not None and not callable(progress):
            msg = f"progress must be a function of the report so far, not {progress!r}"
            raise ConfigurationError(msg)
        chosen = sorted(_checked(wanted).statuses.intersection(statuses))
        store = await self._inspected()
        return BulkOperation(store, replace(wanted, status=chosen), per_second, progress)

    async def _inspected(self) -> Inspecting:
        await self._reached()
        if not isinstance(self._store, Inspecting):
            msg = f"{type(self._store).__name__} cannot list or count tasks"
            raise ConfigurationError(msg)
        return self._store


def _checked(wanted: TaskFilter | None) -> TaskFilter:
    if wanted is None:
        return TaskFilter()
    if not isinstance(wanted, TaskFilter):  # pyright: ignore[reportUnnecessaryIsInstance]  - a plain dict is an easy mistake
        msg = f"which tasks are meant is told by TaskFilter(queue=..., ...), not {wanted!r}"
        raise ConfigurationError(msg)
    return wanted
