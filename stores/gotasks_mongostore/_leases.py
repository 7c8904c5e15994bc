"""The part of the store on MongoDB that writes for whoever holds a task, behind the fence."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from gotasks_mongostore import _batches as batches
from gotasks_mongostore import _filters as filters
from gotasks_mongostore import _renewal
from gotasks_mongostore._part import Part
from gotasks_mongostore._render import render
from gotasks_py.lifecycle import Patch
from gotasks_py.store import Renewal, Renewed, Renewer, Session
from gotasks_py.task import LeaseRef

_PROJECT_ID: Final = {"_id": 1}


class Leases(Part):
    """Each write matches the task by its lease's token, and tells whether it did."""

    async def settle(self, ref: LeaseRef, patch: Patch, *, session: Session | None = None) -> bool:
        with self._operations.retried("write to a running task") as here:
            result = await here.tasks.update_one(
                filters.held_for(ref, patch), render(patch), hint="_id_", session=session
            )
            is_ours = bool(result.matched_count)
            # Inside a transaction nothing is sent twice.
            if not is_ours and session is None:
                ours = filters.applied_before(ref, patch)
                is_ours = bool(ours) and bool(
                    await here.tasks.find_one(ours, _PROJECT_ID, hint="_id_")
                )
        if is_ours:
            self._note_settled([ref], patch)
        return is_ours

    async def settle_many(
        self, refs: Sequence[LeaseRef], patch: Patch, values: Sequence[object] = ()
    ) -> frozenset[str]:
        with self._operations.retried("write to running tasks") as here:
            refused = await batches.settle(here.tasks, refs, patch, values)
        self._note_settled(refs, patch)
        return refused

    async def is_held(self, ref: LeaseRef) -> bool:
        held = filters.held(ref)
        found = await self._operations.repeatable(
            "look at a lease", lambda here: here.tasks.find_one(held, _PROJECT_ID, hint="_id_")
        )
        return found is not None

    async def renew(self, renewals: Sequence[Renewal]) -> Renewed:
        with self._operations.retried("renew leases") as here:
            return await _renewal.renew(here.tasks, renewals)

    def open_renewer(self, timeout: timedelta) -> Renewer | None:
        opened = self._connection.blocking_tasks(timeout)
        return None if opened is None else _renewal.BlockingRenewer(*opened, timeout)

    def _note_settled(self, refs: Sequence[LeaseRef], patch: Patch) -> None:
        if patch.due_in is None:
            return
        due_at = self.clock.now() + patch.due_in
        for queue, lane in {(ref.queue, ref.lane) for ref in refs}:
            self._low_water.wrote(queue, lane, None, due_at)
