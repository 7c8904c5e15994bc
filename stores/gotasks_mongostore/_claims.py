"""Claims: one task or many, each from where the head of its lane is known to be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Final

from pymongo import ReturnDocument

from gotasks_mongostore import _batches
from gotasks_mongostore import _filters as filters
from gotasks_mongostore._driver import Collections, Document
from gotasks_mongostore._low_water import Bound, Look, LowWater
from gotasks_mongostore._reading import claimed_task
from gotasks_mongostore._render import render
from gotasks_py.lifecycle import claimed
from gotasks_py.store import ClaimRequest
from gotasks_py.task import Task, TaskId

# Others may take all that was found, as often as they claim in between.
_BATCH_TRIES: Final = 8
_PROJECT_DUE: Final = {"_id": 0, "priority": 1, "due_at": 1}
_MOST_PRIORITIES: Final = 32
"""How many are looked into for the next due time; what is due in others is found by polls."""


class Claims:
    """Takes tasks for a store, whose ``operation`` bounds each command and names it in errors."""

    def __init__(
        self,
        operation: Callable[[str], AbstractContextManager[Collections]],
        now: Callable[[], datetime],
        low_water: LowWater,
    ) -> None:
        self._operation = operation
        self._now = now
        self._low_water = low_water

    async def one(self, request: ClaimRequest) -> Task | None:
        """Claim the first that is due."""
        for part in filters.mergeable(request):
            task = await self._claim_part(part)
            if task is not None:
                return task
        return None

    async def many(self, request: ClaimRequest, limit: int) -> Sequence[Task]:
        """Claim up to ``limit`` that are due."""
        if limit < 1:  # which to the server means all there are
            return []
        for part in filters.mergeable(request):
            with self._low_water.look(part) as look:
                tasks = await self._take_many(part, limit, look)
                look.found = tasks[-1] if tasks else None
            if tasks:
                return tasks
        return []

    async def taken_under(self, request: ClaimRequest) -> Sequence[Task]:
        """Look up what a claim has taken whose answer was lost."""
        found: dict[TaskId, Task] = {}
        for condition, hint in filters.claimed_under(request, self._now()):
            with self._operation("look for a claim") as here:
                async for document in here.tasks.find(condition, hint=hint):
                    found[document["_id"]] = claimed_task(document, request)
        return list(found.values())

    async def next_due(
        self, queue: str, types: Sequence[str], lanes: Sequence[int]
    ) -> datetime | None:
        """Tell when the next task is due that is not due yet."""
        parts = filters.mergeable_lanes(lanes, types)
        times = [await self._next_due_in(queue, types, part) for part in parts]
        return min((each for each in times if each is not None), default=None)

    async def _next_due_in(
        self, queue: str, types: Sequence[str], lanes: Sequence[int]
    ) -> datetime | None:
        earliest: datetime | None = None
        below: int | None = None
        # The first entry of a priority is its earliest: one look for each that is in use.
        for _ in range(_MOST_PRIORITIES):
            condition = filters.due_later(queue, types, lanes, below)
            with self._operation("ask when work is due") as here:
                found = await here.tasks.find_one(
                    condition, _PROJECT_DUE, sort=filters.CLAIM_ORDER, hint="claim"
                )
            match found:
                case {"due_at": datetime() as due_at, "priority": int(priority)}:
                    earliest = due_at if earliest is None else min(earliest, due_at)
                    below = priority
                case _:
                    break
        return earliest

    async def _claim_part(self, request: ClaimRequest) -> Task | None:
        with self._low_water.look(request) as look:
            look.found = await self._take(request, look.bound)
            if look.found is None and look.bound is not None:
                look.bound = None
                look.found = await self._take(request, None)
        return look.found

    async def _take(self, request: ClaimRequest, bound: Bound | None) -> Task | None:
        condition = filters.due(request) if bound is None else filters.due_from(request, *bound)
        with self._operation("claim a task") as here:
            taken = await here.tasks.find_one_and_update(
                condition,
                render(claimed(token=request.token, owner=request.owner, lease=request.lease)),
                sort=filters.CLAIM_ORDER,
                hint="claim",
                return_document=ReturnDocument.AFTER,
            )
        return None if taken is None else claimed_task(taken, request)

    async def _take_many(self, request: ClaimRequest, limit: int, look: Look) -> Sequence[Task]:
        for _ in range(_BATCH_TRIES):
            with self._operation("claim tasks") as here:
                # One after the other, so that each passes over what those before it found.
                async with here.finding:
                    found = await self._find_many(here, request, limit, look)
                    ids = [document["_id"] for document in found]
                    here.being_claimed.append(ids)
                try:
                    if not found:
                        break
                    taken = await _batches.take(here.tasks, request, found, self._now())
                finally:
                    here.being_claimed.remove(ids)
            if taken:
                return taken
        return []

    async def _find_many(
        self, here: Collections, request: ClaimRequest, limit: int, look: Look
    ) -> list[Document]:
        others = [task_id for ids in here.being_claimed for task_id in ids]
        found = await _batches.find(here.tasks, request, limit, look.bound, others)
        if len(found) < limit and look.bound is not None:
            look.bound = None
            found = await _batches.find(here.tasks, request, limit, None, others)
        return found
