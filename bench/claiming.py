"""The raw driver's side of claims and settles: the store's own commands in a bare loop."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from pymongo import ReturnDocument

from bench.scene import QUEUE, Collection, Document
from gotasks_mongostore import _filters as filters
from gotasks_mongostore._low_water import LowWater
from gotasks_mongostore._render import render
from gotasks_py.lifecycle import claimed, completed
from gotasks_py.store import ClaimRequest
from gotasks_py.task import LeaseRef, Task

LEASE: Final = timedelta(seconds=60)


def request(owner: str) -> ClaimRequest:
    """Name a claim; the token need not be fresh for the commands to be the same."""
    return ClaimRequest(queue=QUEUE, types=("note",), token=owner, owner=owner, lease=LEASE)


class RawClaimer:
    """Claims and settles without a framework around the commands."""

    def __init__(self, tasks: Collection, owner: str, marks: LowWater | None) -> None:
        self._tasks = tasks
        self._request = request(owner)
        self._marks = marks
        self._claim = render(claimed(token=owner, owner=owner, lease=LEASE))
        self._done = completed(None)
        self._settle = render(self._done)

    async def claim(self) -> Document | None:
        """Take the next task, from the low-water mark on where there are marks."""
        if self._marks is None:
            return await self._take(filters.due(self._request))
        with self._marks.look(self._request) as look:
            if look.bound is None:
                taken = await self._take(filters.due(self._request))
            else:
                taken = await self._take(filters.due_from(self._request, *look.bound))
                if taken is None:
                    look.bound = None
                    taken = await self._take(filters.due(self._request))
            look.found = None if taken is None else Task.from_document(taken)
        return taken

    async def settle(self, document: Document) -> None:
        """End a task in success."""
        ref = LeaseRef(document["_id"], QUEUE, 0, self._request.token)
        result = await self._tasks.update_one(
            filters.held_for(ref, self._done), self._settle, hint="_id_"
        )
        assert result.matched_count == 1

    async def _take(self, condition: filters.Filter) -> Document | None:
        taken: Document | None = await self._tasks.find_one_and_update(
            condition,
            self._claim,
            sort=filters.CLAIM_ORDER,
            hint="claim",
            return_document=ReturnDocument.AFTER,
        )
        return taken
