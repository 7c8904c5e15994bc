"""The tasks that this manager is running now, and why one should stop."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto

import anyio

from gotasks_py.lifecycle import Patch, released, unreserved
from gotasks_py.store import Renewal
from gotasks_py.task import LeaseRef, Status, Task, TaskId


@dataclass(frozen=True, slots=True)
class Returned:
    """The handler returned; ``document`` is its result as it will be stored."""

    value: object
    document: object


class StopReason(Enum):
    """Why the engine stops a handler."""

    TIMEOUT = auto()
    LEASE_LOST = auto()
    CANCELLED = auto()
    SHUTDOWN = auto()


@dataclass(slots=True, eq=False)
class Running:
    """One claimed task, from the claim to the recorded outcome.

    ``deadline`` is the end of the lease on the local monotonic clock, counted from before
    the claim was sent. The heartbeat's thread moves it, so it is only ever assigned.
    """

    task: Task
    ref: LeaseRef
    lease: timedelta
    deadline: float
    handler_started: bool = False
    is_over: bool = False
    """Whether the handler has ended; what is left is to record the outcome."""
    is_in_bulk: bool = False
    """Whether the outcome waits to be recorded together with others."""
    completion: Returned | None = None
    """Set when the handler has completed the task itself, in a transaction."""
    is_in_transaction: bool = False
    """Whether renewals must keep away: each would conflict with the transaction."""
    stop_reason: StopReason | None = None
    scope: anyio.CancelScope | None = None

    def stop(self, reason: StopReason) -> None:
        """Cancel the handler. The first reason counts, but a lost lease beats them all."""
        if self.is_over or self.completion is not None:
            return
        if self.stop_reason is None or reason is StopReason.LEASE_LOST:
            self.stop_reason = reason
        if self.scope is not None:
            self.scope.cancel()

    def handed_back(self) -> Patch:
        """Tell how to give back what nobody began: a reserved task, or a running one."""
        return unreserved() if self.task.status is Status.PENDING else released()

    @property
    def is_deaf(self) -> bool:
        """Whether the handler runs on although it was told to stop."""
        return not self.is_over and self.scope is not None and self.scope.cancel_called

    @property
    def is_renewable(self) -> bool:
        """Whether the heartbeat should renew the lease."""
        return not self.is_in_transaction and self.completion is None

    def renewal(self) -> Renewal:
        """Ask for the lease to be renewed."""
        cancelling = self.stop_reason is StopReason.CANCELLED
        return Renewal(self.ref, self.lease, cancelling=cancelling)


@dataclass(slots=True)
class RunningTasks:
    """All of them, by token."""

    by_token: dict[str, Running] = field(default_factory=dict)

    def find(self, task_id: TaskId) -> Running | None:
        """Tell the running attempt of a task."""
        return next((each for each in self.by_token.values() if each.task.id == task_id), None)
