"""A task that was enqueued, and waiting for what becomes of it."""

from __future__ import annotations

import math
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Generic, TypeVar

import anyio

from gotasks_py._wakeup import waiting
from gotasks_py.checks import seconds_of
from gotasks_py.codec import Codec
from gotasks_py.errors import (
    ConfigurationError,
    ResultTimeoutError,
    TaskCancelledError,
    TaskFailedError,
    TaskNotFoundError,
)
from gotasks_py.store import Store, reach
from gotasks_py.task import Status, Task, TaskId

R = TypeVar("R")

FASTEST_POLL: Final = timedelta(milliseconds=20)
SLOWEST_POLL: Final = timedelta(milliseconds=500)
SAFETY_POLL: Final = timedelta(seconds=5)

handling: ContextVar[bool] = ContextVar("gotasks_py_handling", default=False)
"""Whether this code runs inside a handler, and so holds a worker."""


@dataclass(frozen=True, slots=True)
class TaskHandle(Generic[R]):
    """A task in the store. ``result`` waits for it; everything else asks the store anew."""

    id: TaskId
    queue: str
    type: str
    _store: Store = field(repr=False)
    _codec: Codec[R] = field(repr=False)

    async def task(self) -> Task:
        """Read the task as it is now.

        Raises:
            TaskNotFoundError: it was deleted, or its TTL purged it.
        """
        await reach(self._store)
        task = await self._store.get(self.id)
        if task is None:
            raise TaskNotFoundError(self.id)
        return task

    async def result(self, timeout: float | timedelta | None = None) -> R:  # noqa: ASYNC109  - part of the API
        """Wait until the task is final, and return what its handler returned.

        ``timeout`` in seconds; ``None`` waits for ever. A store that tells of changes is
        asked when the task has ended, and every 5 s; another at most every 20 ms at first
        and every 500 ms later. Inside a handler a timeout is required: the
        waiting handler holds its worker, and if all workers waited for tasks that only
        they could run, none would ever go on.

        Raises:
            TaskFailedError: the task is dead.
            TaskCancelledError: the task was cancelled.
            TaskNotFoundError: it was deleted, or its TTL purged it.
            ResultTimeoutError: it was not final in time; it is not affected.
            ConfigurationError: no timeout inside a handler, or one that is no span of time.
            PayloadError: the stored result does not fit the type's result.
        """
        if timeout is None and handling.get():
            msg = (
                f"a handler waits for task {self.id} and holds its worker meanwhile; give "
                "result() a timeout, or enqueue a follow-up task instead of waiting"
            )
            raise ConfigurationError(msg)
        seconds = None if timeout is None else seconds_of("timeout", timeout)
        task = await self._finished(seconds)
        if task.status is Status.CANCELLED:
            raise TaskCancelledError(self.id, task.errors)
        if task.status is Status.DEAD:
            raise TaskFailedError(self.id, task.errors)
        return self._codec.decode(_stored(task.result))

    async def _finished(self, seconds: float | None) -> Task:
        deadline = None if seconds is None else anyio.current_time() + seconds
        task = await self.task()
        if task.status.is_final:
            return task
        pause = FASTEST_POLL
        with waiting(self._store, self.id) as waiter:
            while not task.status.is_final:
                # The store told of changes: then asking is a precaution.
                longest = SAFETY_POLL if waiter.is_told else pause
                left = math.inf if deadline is None else deadline - anyio.current_time()
                if left <= 0:
                    raise ResultTimeoutError(self.id, seconds or 0, task.status)
                await waiter.wait(min(longest.total_seconds(), left))
                task = await self.task()
                pause = min(pause * 1.5, SLOWEST_POLL)
        return task


def _stored(result: object) -> object:
    # A handler that returned nothing leaves no field; that is the document of None.
    return {"value": None} if result is None else result
