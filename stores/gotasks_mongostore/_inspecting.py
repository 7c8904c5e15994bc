"""Looking at many tasks: lists, counts, how queues are doing, and what dead letters died of."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeAlias

import anyio

from gotasks_mongostore import _registry
from gotasks_mongostore._access import Access, accesses, everything
from gotasks_mongostore._driver import Collections, Document
from gotasks_mongostore._filters import Filter
from gotasks_mongostore._gathering import gathered
from gotasks_mongostore._listing import WINDOW, Listing, Position
from gotasks_py.checks import check_count
from gotasks_py.clock import Clock
from gotasks_py.controls import Pause, policy_of
from gotasks_py.inspecting import (
    Count,
    DeadGroup,
    DeadPage,
    QueueOverview,
    TaskFilter,
    TaskPage,
    bad_cursor,
    check_page_size,
)
from gotasks_py.task import Status, Task, TaskId

Place: TypeAlias = tuple[str, str]
"""A queue and a fingerprint."""

Operation: TypeAlias = Callable[[str], AbstractContextManager[Collections]]

_LOOKS_SECONDS: Final = 0.1
_MOST_COUNTED: Final = 60_000
"""How many index entries an overview counts in all: at some 3 million a second."""
_LEAST_COUNTED: Final = 500
_COUNTED_FOR_GROUPS: Final = 50_000
_CELLS: Final = len(Status) + 1
_PROJECT_RUN_AT: Final = {"_id": 0, "run_at": 1}
_PROJECT_TAGS: Final = {"_id": 0, "tags": 1}
_LATEST_FIRST: Final = [("error_fingerprint", -1), ("run_at", -1), ("_id", -1)]
_ABOVE_ALL: Final = "g"
"""Fingerprints are hexadecimal digits."""
_AS_LISTED: Final = {
    **dict.fromkeys(("payload", "result", "progress", "metadata"), 0),
    "errors": {"$slice": -1},
}


@dataclass(frozen=True, slots=True)
class Inspector:
    """Answers one question after the other on the collections of one event loop."""

    operation: Operation
    clock: Clock

    async def overview(self, queue: str | None) -> Sequence[QueueOverview]:
        with self.operation("read the queues") as here:
            recorded = await _registry.recorded(here.queues)
        names = sorted(recorded) if queue is None else [queue] if queue in recorded else []
        most = max(_LEAST_COUNTED, _MOST_COUNTED // (_CELLS * max(1, len(names))))
        return await gathered(
            [partial(self._overview, name, recorded[name], most) for name in names]
        )

    async def find(
        self,
        wanted: TaskFilter,
        task_id: TaskId | None,
        *,
        limit: int,
        cursor: str | None,
        newest_first: bool,
    ) -> TaskPage:
        check_page_size(limit)
        start = None if cursor is None else Position.read(cursor)
        ways = await self._ways(wanted, task_id)
        until = anyio.current_time() + _LOOKS_SECONDS
        with self.operation("list tasks") as here:
            listing = Listing(here.tasks, -1 if newest_first else 1)
            found, end = await listing.page(ways, limit, start, until)
        tasks = [Task.from_document(each) for each in found]
        return TaskPage(tasks, None if end is None else str(end))

    async def count(self, wanted: TaskFilter, task_id: TaskId | None, limit: int) -> Count:
        check_count("limit", limit)
        total, is_exact = 0, True
        for way in await self._ways(wanted, task_id):
            counted = await self._count(way, limit - total)
            total, is_exact = total + counted.value, is_exact and counted.is_exact
        return Count(total, is_exact)

    async def dead_groups(self, queue: str | None, limit: int, cursor: str | None) -> DeadPage:
        check_page_size(limit)
        queues = sorted(await self._queues() if queue is None else [queue], reverse=True)
        after = None if cursor is None else _read_place(cursor)
        latest = [each async for each in self._latest_dead(queues, after, limit + 1)]
        end = _cursor_of(_place_of(latest[limit - 1])) if len(latest) > limit else None
        most = max(_LEAST_COUNTED, _COUNTED_FOR_GROUPS // max(1, len(latest)))
        groups = await gathered([partial(self._group, each, most) for each in latest[:limit]])
        return DeadPage(sorted(groups, key=lambda each: -each.count.value), end)

    async def tags(self, prefix: str, limit: int) -> Sequence[str]:
        check_count("limit", limit)
        found: list[str] = []
        while len(found) < limit:
            # One key of the index for each tag.
            above = {"$gt": found[-1]} if found else {"$gte": prefix}
            matched = {"tags": {"$elemMatch": above}, "tags.0": {"$exists": True}}
            with self.operation("list tags") as here:
                task = await here.tasks.find_one(matched, _PROJECT_TAGS, hint="tags")
            tags = (task or {}).get("tags")
            texts = (
                [each for each in tags if isinstance(each, str)] if isinstance(tags, list) else []
            )
            later = [each for each in texts if (each > found[-1] if found else each >= prefix)]
            if not later or not min(later).startswith(prefix):
                break
            found.append(min(later))
        return found

    async def delete(
        self, wanted: TaskFilter, task_id: TaskId | None, ids: Sequence[TaskId]
    ) -> int:
        meant = [each for each in ids if task_id in {None, each}]
        matched: Filter = {**everything(wanted), "_id": {"$in": meant}}
        with self.operation("delete tasks") as here:
            deleted = await here.tasks.delete_many(matched, hint="_id_")
        return deleted.deleted_count

    async def _ways(self, wanted: TaskFilter, task_id: TaskId | None) -> Sequence[Access]:
        queues = [] if wanted.queue else await self._queues()
        return accesses(wanted, task_id, queues)

    async def _queues(self) -> Sequence[str]:
        with self.operation("read the queues") as here:
            return sorted(await _registry.recorded(here.queues))

    async def _overview(
        self, name: str, recorded: Mapping[str, object], most: int
    ) -> QueueOverview:
        now = self.clock.now()
        pending: Filter = {"queue": name, "status": Status.PENDING.value}
        counts = {
            status: await self._counted({"queue": name, "status": status.value}, "list", most)
            for status in Status
        }
        scheduled = await self._counted({**pending, "run_at": {"$gt": now}}, "list", most)
        with self.operation("look for the oldest task") as here:
            oldest = await here.tasks.find_one(
                {**pending, "run_at": {"$lte": now}},
                _PROJECT_RUN_AT,
                sort=[("run_at", 1), ("_id", 1)],
                hint="list",
            )
        run_at = None if oldest is None else oldest.get("run_at")
        pause = Pause.from_document(recorded)
        return QueueOverview(
            name=name,
            policy=policy_of(name, recorded),
            counts=counts,
            scheduled=scheduled,
            oldest_due_age=now - run_at if isinstance(run_at, datetime) else None,
            pause=pause if pause and pause.holds(now) else None,
        )

    async def _count(self, way: Access, limit: int) -> Count:
        if not way.rest:
            return await self._counted(way.served, way.hint, limit)
        looked_at = await self._counted(way.served, way.hint, WINDOW)
        stages: list[Mapping[str, Any]] = [
            {"$match": way.served},
            {"$limit": WINDOW},
            {"$match": way.rest},
            {"$limit": limit + 1},
            {"$count": "n"},
        ]
        with self.operation("count tasks") as here:
            found = await Listing(here.tasks, 1).run(way.hint, stages)
        counted = found[0]["n"] if found else 0
        number = counted if isinstance(counted, int) else 0
        return Count(min(number, limit), looked_at.is_exact and number <= limit)

    async def _counted(self, matched: Filter, hint: str, limit: int) -> Count:
        with self.operation("count tasks") as here:
            # Counts keys in the index; what count_documents() sends takes four times as long.
            answer = await here.database.command(
                "count", here.tasks.name, query=matched, limit=limit + 1, hint=hint
            )
        number = int(answer["n"])
        return Count(min(number, limit), is_exact=number <= limit)

    async def _latest_dead(
        self, queues: Sequence[str], after: Place | None, limit: int
    ) -> AsyncIterator[Document]:
        """Yield the latest dead letter of each fingerprint: one look at the index for each."""
        for queue in queues:
            if after is not None and queue > after[0]:
                continue
            below = after[1] if after is not None and queue == after[0] else _ABOVE_ALL
            while limit > 0:
                matched = {"queue": queue, "error_fingerprint": {"$gt": "", "$lt": below}}
                with self.operation("group dead letters") as here:
                    found = await here.tasks.find_one(
                        matched, _AS_LISTED, sort=_LATEST_FIRST, hint="errors"
                    )
                if found is None:
                    break
                yield found
                below, limit = str(found["error_fingerprint"]), limit - 1

    async def _group(self, latest: Document, most: int) -> DeadGroup:
        task = Task.from_document(latest)
        queue, fingerprint = _place_of(latest)
        of_group: Filter = {"queue": queue, "error_fingerprint": fingerprint}
        count = await self._counted(of_group, "errors", most)
        error = task.errors[-1] if task.errors else None
        return DeadGroup(
            queue=queue,
            fingerprint=fingerprint,
            kind=error.kind if error else "",
            message=error.message if error else "",
            count=count,
            latest=task,
        )


def _place_of(document: Document) -> Place:
    return str(document["queue"]), str(document["error_fingerprint"])


def _cursor_of(place: Place) -> str:
    return base64.urlsafe_b64encode("\0".join(place).encode()).decode()


def _read_place(cursor: object) -> Place:
    try:
        queue, fingerprint = base64.urlsafe_b64decode(str(cursor)).decode().split("\0")
    except ValueError as error:  # of the coding, of the text, or of the number of pieces
        raise bad_cursor(cursor) from error
    return queue, fingerprint
