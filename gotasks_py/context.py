"""What a handler is given beside its payload."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from logging import LoggerAdapter, getLogger
from typing import TYPE_CHECKING, Protocol

from pydantic_core.core_schema import CoreSchema, is_instance_schema

from gotasks_py.store import Session
from gotasks_py.task import Lease, Task, TaskId

if TYPE_CHECKING:
    from logging import Logger


class Attempt(Protocol):
    """The running attempt, as a handler may act on it."""

    async def extend(self, lease: timedelta | None) -> Lease:
        """See :meth:`TaskContext.extend_lease`."""
        ...

    async def is_held(self) -> bool:
        """See :meth:`TaskContext.still_mine`."""
        ...

    async def progress(self, progress: object) -> None:
        """See :meth:`TaskContext.progress`."""
        ...

    def transaction(self, result: object) -> AbstractAsyncContextManager[Session]:
        """See :meth:`TaskContext.transaction`."""
        ...

    @property
    def is_stopping(self) -> bool:
        """See :attr:`TaskContext.is_stopping`."""
        ...


@dataclass(frozen=True, slots=True)
class TaskContext:
    """The task that a handler is working on, and what it may do to it.

    A handler asks for it by annotating its first parameter.
    """

    task: Task
    _attempt: Attempt

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> CoreSchema:
        """Let ``validate_call`` and the like pass it through as it is."""
        return is_instance_schema(cls)

    @property
    def id(self) -> TaskId:
        """The task's id."""
        return self.task.id

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1.

        It comes again after a hand-back or a snooze, which do not count: what fences outside
        systems is ``lease.token``, unique to each claim.
        """
        return self.task.attempts

    @property
    def lease(self) -> Lease:
        """The lease under which this attempt runs, as it was claimed."""
        assert self.task.lease is not None  # noqa: S101  - a claim always sets it
        return self.task.lease

    @property
    def is_last_attempt(self) -> bool:
        """Whether a failure now is final."""
        return self.task.is_last_attempt

    @property
    def is_stopping(self) -> bool:
        """Whether this attempt was told to stop; sync handlers should look at it."""
        return self._attempt.is_stopping

    @property
    def log(self) -> LoggerAdapter[Logger]:
        """A logger whose records carry the task's id, queue, type and attempt."""
        return LoggerAdapter(
            getLogger("gotasks_py.task"),
            {
                "task_id": str(self.id),
                "queue": self.task.queue,
                "type": self.task.type,
                "attempt": self.attempt,
            },
        )

    async def extend_lease(self, lease: timedelta | None = None) -> Lease:
        """Keep the task for another ``lease`` from now, and renew to that length from here on.

        Default: the length that it has, at first the manager's. At least 100 ms, at most a
        year. Succeeds after the lease has lapsed as long as nobody
        took the task over.

        Raises:
            LeaseLostError: another worker holds the task, or it is finished.
            ConfigurationError: a lease out of these bounds.
        """
        return await self._attempt.extend(lease)

    async def still_mine(self) -> bool:
        """Ask the store whether this attempt still holds the task."""
        return await self._attempt.is_held()

    async def progress(self, progress: object) -> None:
        """Record how far the task has come: any plain data, shown with the task.

        Raises:
            LeaseLostError: another worker holds the task, or it is finished.
            PayloadError: data that cannot be stored.
        """
        await self._attempt.progress(progress)

    def transaction(self, result: object = None) -> AbstractAsyncContextManager[Session]:
        """Complete the task in one transaction with the handler's own writes.

        ``async with ctx.transaction(result) as session:`` yields the driver's session. What
        is written with it (through ``session.client``), the tasks that are enqueued with
        ``session=session``, and this task's success with ``result`` commit together when
        the block ends, or not at all: effects inside the database happen exactly once. The
        handler should return right after; what it returns or raises then is not recorded.

        The lease is not renewed inside the block, which starts with a whole one.

        Raises:
            ConfigurationError: the store, or its server, has no transactions.
            LeaseLostError: another worker holds the task; nothing is committed.
            PayloadError: the result does not fit the type, or cannot be stored.
            StoreUnavailableError: the transaction failed and may be tried again.
        """
        return self._attempt.transaction(result)
