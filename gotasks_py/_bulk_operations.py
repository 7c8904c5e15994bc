"""Acting on all tasks of a filter, a batch at a time, at a pace that leaves room for others."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import anyio

from gotasks_py.errors import (
    DuplicateTaskError,
    GotasksError,
    InvalidStateError,
    StoreError,
    TaskNotFoundError,
)
from gotasks_py.inspecting import Inspecting, TaskFilter
from gotasks_py.task import Status, TaskId

logger = logging.getLogger("gotasks_py.manager")

Progress: TypeAlias = Callable[["BulkReport"], object]

_BATCH: Final = 500
_AT_ONCE: Final = 8
_MOST_NAMED: Final = 1_000
_TOLD_SECONDS: Final = 0.5
"""How often progress is told within a batch, which may take long where the store is slow."""


@dataclass(slots=True)
class BulkReport:
    """What an operation on many tasks has done so far, or in all.

    ``changed`` counts those that it acted on, ``refused`` those that it could not, because
    another task holds their unique key or their lifetime is over; ``reasons`` says why, of
    the first 1000. What has meanwhile become another's business is in neither.
    """

    changed: int = 0
    refused: int = 0
    reasons: dict[TaskId, str] = field(default_factory=dict[TaskId, str])

    def refuse(self, task_id: TaskId, error: GotasksError) -> None:
        """Note what could not be done."""
        self.refused += 1
        if len(self.reasons) < _MOST_NAMED:
            self.reasons[task_id] = str(error)


@dataclass(frozen=True, slots=True)
class BulkOperation:
    """Goes through the tasks of a filter as it is when it begins, oldest first."""

    store: Inspecting
    wanted: TaskFilter
    per_second: int
    progress: Progress | None

    async def each(self, act: Callable[[TaskId], Awaitable[object]]) -> BulkReport:
        """Act on one task after the other, some at once."""

        async def on_batch(ids: Sequence[TaskId], report: BulkReport) -> None:
            batch = _Batch(act, report, self._tell, anyio.current_time())
            async with anyio.create_task_group() as group:
                for some in _divided(ids):
                    group.start_soon(batch.go_through, some)
            if batch.failure is not None:
                raise batch.failure

        return await self._run(on_batch)

    async def delete(self) -> BulkReport:
        """Remove them, a batch in one write."""

        async def on_batch(ids: Sequence[TaskId], report: BulkReport) -> None:
            report.changed += await self.store.delete_tasks(self.wanted, ids)

        return await self._run(on_batch)

    async def _run(
        self, on_batch: Callable[[Sequence[TaskId], BulkReport], Awaitable[None]]
    ) -> BulkReport:
        report = BulkReport()
        cursor: str | None = None
        while True:
            began = anyio.current_time()
            page = await self.store.find_tasks(
                self.wanted, limit=_BATCH, cursor=cursor, newest_first=False
            )
            if page.tasks:
                await on_batch([task.id for task in page.tasks], report)
                self._tell(report)
            cursor = page.cursor
            if cursor is None:
                return report
            await anyio.sleep_until(began + len(page.tasks) / self.per_second)

    def _tell(self, report: BulkReport) -> None:
        if self.progress is None:
            return
        try:
            self.progress(replace(report))
        except Exception:
            logger.exception("the progress function of an operation on many tasks failed")


@dataclass(slots=True)
class _Batch:
    act: Callable[[TaskId], Awaitable[object]]
    report: BulkReport
    tell: Callable[[BulkReport], None]
    told_at: float
    failure: StoreError | None = None

    async def go_through(self, ids: Sequence[TaskId]) -> None:
        """Act on some of them, one after the other, until the store fails."""
        for task_id in ids:
            if self.failure is not None:
                return
            await self._act_on(task_id)
            if anyio.current_time() >= self.told_at + _TOLD_SECONDS:
                self.told_at = anyio.current_time()
                self.tell(self.report)

    async def _act_on(self, task_id: TaskId) -> None:
        try:
            await self.act(task_id)
            self.report.changed += 1
        except DuplicateTaskError as error:
            self.report.refuse(task_id, error)
        except InvalidStateError as error:
            if error.status is Status.DEAD:
                self.report.refuse(task_id, error)
        except TaskNotFoundError:
            pass
        except StoreError as error:
            self.failure = error


def _divided(ids: Sequence[TaskId]) -> Sequence[Sequence[TaskId]]:
    return [ids[start::_AT_ONCE] for start in range(min(_AT_ONCE, len(ids)))]
