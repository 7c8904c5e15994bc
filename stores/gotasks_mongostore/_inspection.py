"""The half of the store on MongoDB that looks at many tasks."""

from __future__ import annotations

from collections.abc import Sequence

from gotasks_mongostore._inspecting import Inspector
from gotasks_mongostore._part import Part
from gotasks_py.inspecting import Count, DeadPage, QueueOverview, TaskFilter, TaskPage
from gotasks_py.task import TaskId


class Inspection(Part):
    """Answers each question by an :class:`Inspector` on the open store."""

    def parse_id(self, value: object) -> TaskId:
        raise NotImplementedError

    async def overview(self, queue: str | None = None) -> Sequence[QueueOverview]:
        return await (await self._inspector()).overview(queue)

    async def find_tasks(
        self,
        wanted: TaskFilter,
        *,
        limit: int = 50,
        cursor: str | None = None,
        newest_first: bool = True,
    ) -> TaskPage:
        return await (await self._inspector()).find(
            wanted, self._id_of(wanted), limit=limit, cursor=cursor, newest_first=newest_first
        )

    async def count_tasks(self, wanted: TaskFilter, *, limit: int = 10_000) -> Count:
        return await (await self._inspector()).count(wanted, self._id_of(wanted), limit)

    async def dead_groups(
        self, queue: str | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> DeadPage:
        return await (await self._inspector()).dead_groups(queue, limit, cursor)

    async def tags(self, prefix: str = "", *, limit: int = 20) -> Sequence[str]:
        return await (await self._inspector()).tags(prefix, limit)

    async def delete_tasks(self, wanted: TaskFilter, ids: Sequence[TaskId]) -> int:
        return await (await self._inspector()).delete(wanted, self._id_of(wanted), ids)

    async def _inspector(self) -> Inspector:
        await self.reach()
        return Inspector(self._operations.bounded, self.clock)

    def _id_of(self, wanted: TaskFilter) -> TaskId | None:
        return None if wanted.id is None else self.parse_id(wanted.id)
