"""What a manager does to single stored tasks: get, cancel, requeue, delete."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from gotasks_py import lifecycle
from gotasks_py._meter import Meter
from gotasks_py.checks import check_names
from gotasks_py.errors import DuplicateTaskError, InvalidStateError, TaskNotFoundError
from gotasks_py.hooks import HookCaller, TaskEvent
from gotasks_py.store import Store
from gotasks_py.task import Status, Task, TaskId

logger = logging.getLogger("gotasks_py.manager")

_LITTLE_LIFETIME: Final = timedelta(minutes=5)
# A task may change state between the look at it and the write, but not for ever.
_TRIES: Final = 10


@dataclass(frozen=True, slots=True)
class RequeueReport:
    """What a bulk requeue did, as task ids.

    ``conflicts`` stay dead: another active task has taken their unique key. So do
    ``expired``: their lifetime is over, ask for a fresh one.
    """

    requeued: tuple[TaskId, ...]
    conflicts: tuple[TaskId, ...]
    expired: tuple[TaskId, ...] = ()


@dataclass(frozen=True, slots=True)
class Operations:
    """Acts on stored tasks for one manager."""

    store: Store
    hooks: HookCaller
    meter: Meter

    async def get(self, task_id: object) -> Task:
        task = await self.store.get(self.store.parse_id(task_id))
        if task is None:
            raise TaskNotFoundError(task_id)
        return task

    async def cancel(self, task_id: object) -> Task:
        task = await self.get(task_id)
        for _ in range(_TRIES):
            if task.status.is_final:
                raise InvalidStateError(
                    task.id, task.status, "only a pending or running task can be cancelled"
                )
            if task.cancel_requested_at is not None:
                return task
            pending = task.status is Status.PENDING
            patch = lifecycle.withdrawn() if pending else lifecycle.cancel_requested()
            changed = await self.store.transition(task.id, patch)
            if changed is None:
                task = await self.get(task_id)
                continue
            if pending:
                self.meter.cancelled(changed)
                await self.hooks.call_apart("on_cancelled", TaskEvent(task=changed))
            return changed
        raise InvalidStateError(task.id, task.status, "its state keeps changing, try again")

    async def requeue(self, task_id: object, *, fresh_lifetime: bool) -> Task:
        task = await self.get(task_id)
        if task.status is not Status.DEAD:
            raise InvalidStateError(task.id, task.status, "only a dead task can be requeued")
        if not fresh_lifetime and self._is_expired(task):
            raise InvalidStateError(
                task.id,
                task.status,
                f"its lifetime ended at {task.expires_at}; requeue it with fresh_lifetime=True",
            )
        patch = lifecycle.requeued(fresh_lifetime=fresh_lifetime)
        changed = await self.store.transition(task.id, patch)
        if changed is None:
            now = await self.get(task_id)
            raise InvalidStateError(task.id, now.status, "somebody else has just requeued it")
        self.meter.requeued(changed)
        if not fresh_lifetime:
            self._warn_of_little_lifetime(changed)
        return changed

    async def requeue_dead(
        self, queue: str | None, type: str | None, *, fresh_lifetime: bool
    ) -> RequeueReport:
        check_names(queue=queue, type=type)
        requeued, conflicts, expired = list[TaskId](), list[TaskId](), list[TaskId]()
        async for task_id in self.store.dead_ids(queue=queue, type=type):
            try:
                await self.requeue(task_id, fresh_lifetime=fresh_lifetime)
                requeued.append(task_id)
            except DuplicateTaskError:
                conflicts.append(task_id)
            except InvalidStateError as error:
                if error.status is Status.DEAD:
                    expired.append(task_id)
            except TaskNotFoundError:
                continue
        return RequeueReport(tuple(requeued), tuple(conflicts), tuple(expired))

    async def delete(self, task_id: object) -> None:
        if not await self.store.delete(self.store.parse_id(task_id)):
            raise TaskNotFoundError(task_id)

    def _is_expired(self, task: Task) -> bool:
        return task.expires_at is not None and task.expires_at <= self.store.clock.now()

    def _warn_of_little_lifetime(self, task: Task) -> None:
        if task.expires_at is None:
            return
        left = task.expires_at - self.store.clock.now()
        if left < _LITTLE_LIFETIME:
            logger.warning(
                "task %s was requeued and will be purged in %s; fresh_lifetime=True would start "
                "its lifetime anew",
                task.id,
                left,
                extra={"task_id": str(task.id)},
            )
