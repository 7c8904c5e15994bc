"""What the engine asks of a store, and the contract that each store keeps.

**Fencing.** Every write to a running task names the token of its claim
(:class:`~gotasks_py.task.LeaseRef`) and changes nothing unless the task is running under
that token. Expiry alone does not forbid it: finishing late but unreclaimed is a success.
The same holds for the start of a reserved task, which is pending under its token.

**Time.** Due times and leases are judged by the store's clock at the moment of the write.

**Unique keys.** Within a queue, at most one task that is not final holds a key; the store
enforces it in the same write that makes the task active.

**Errors.** Driver errors never leave a store: :class:`~gotasks_py.errors.StoreError`
when the database refuses, :class:`~gotasks_py.errors.StoreUnavailableError` when trying
again may help. After the latter a write may or may not have happened; every method here
may be repeated.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeAlias, runtime_checkable

from gotasks_py.clock import Clock
from gotasks_py.errors import GotasksError
from gotasks_py.feed import Feed
from gotasks_py.lifecycle import Patch
from gotasks_py.policy import QueuePolicy
from gotasks_py.task import LeaseRef, Task, TaskId

Session: TypeAlias = Any
"""The driver's session of a transaction, to be passed to the driver's own calls."""

TaskDocument: TypeAlias = dict[str, object]
"""A task as it is inserted: every stored field, its id under ``_id``."""


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """Who claims what: lanes of one queue, and the types that have a handler.

    The order of claims holds within each lane.
    """

    queue: str
    types: tuple[str, ...]
    token: str
    owner: str
    lease: timedelta
    lanes: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class Renewal:
    """A lease to renew. ``cancelling`` says that the request to cancel is known already."""

    ref: LeaseRef
    lease: timedelta
    cancelling: bool = False


@dataclass(frozen=True, slots=True)
class Renewed:
    """The exceptions of a renewal: everything else was renewed."""

    lost: frozenset[str] = field(default_factory=frozenset)
    """Tokens under which no task is running any more."""
    cancelled: frozenset[str] = field(default_factory=frozenset)
    """Tokens whose task was asked to stop; their leases were renewed too."""


class Renewer(Protocol):
    """Renews leases with blocking calls from a thread, on a connection of its own."""

    def renew(self, renewals: Sequence[Renewal]) -> Renewed:
        """Renew many leases in one write; see :meth:`Store.renew`."""
        ...

    def close(self) -> None:
        """Give up the connection."""
        ...


class Store(Protocol):
    """Keeps tasks and queue policies. See the module's contract."""

    @property
    def clock(self) -> Clock:
        """The store's time."""
        ...

    def new_id(self) -> TaskId:
        """Make an id for a task that is about to be inserted."""
        ...

    def parse_id(self, value: object) -> TaskId:
        """Read an id or its text form.

        Raises:
            TaskNotFoundError: no task can have such an id.
        """
        ...

    async def open(self) -> None:
        """Make the store usable: check the server, ensure indexes. May be called often.

        Raises:
            ConfigurationError: the server, the connection or the event loop is unfit.
            StoreError: the database refused.
            StoreUnavailableError: the database did not answer.
        """
        ...

    async def aclose(self) -> None:
        """Give up the connections that the store itself made for this event loop."""
        ...

    async def register_queue(self, policy: QueuePolicy) -> Mapping[str, object]:
        """Record a queue at its first declaration; tell what is recorded of it.

        Raises:
            QueueConflictError: it is recorded with other values.
        """
        ...

    async def set_queue_policy(self, policy: QueuePolicy) -> None:
        """Record other values for a queue, on purpose; see ``QueuePolicy.recorded_after``."""
        ...

    async def queues(self) -> Mapping[str, Mapping[str, object]]:
        """Tell the recorded policy of each queue."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[Session]:
        """Begin a transaction that commits when the block ends, and aborts if it raises.

        Raises:
            ConfigurationError: this store, or its server, has no transactions.
        """
        ...

    async def insert(self, document: TaskDocument, *, session: Session | None = None) -> None:
        """Store a new task. Inserting the same ``_id`` again is not a duplicate.

        Raises:
            DuplicateTaskError: another active task of the queue holds the unique key.
            StoreUnavailableError: with ``task_id``; the task may exist.
        """
        ...

    async def insert_many(self, documents: Sequence[TaskDocument]) -> Mapping[int, GotasksError]:
        """Store new tasks, each on its own; tell the failures by index.

        Several calls may be on their way at once. The documents share values with each
        other: a store that keeps them in memory keeps copies.
        """
        ...

    async def claim(self, request: ClaimRequest) -> Task | None:
        """Take the first task that is due, by priority, then due time, then id.

        With many lanes and types a store may look at some of the lanes after the others.

        The state, the attempt, the lease and the token change in one write. ``None``:
        nothing is due. A task of another type is never touched.
        """
        ...

    async def next_due(
        self, queue: str, types: Sequence[str], lanes: Sequence[int] = (0,)
    ) -> datetime | None:
        """Tell when the next task becomes due that a claim could take, or the next lease ends.

        ``None``: none will, unless something changes.
        """
        ...

    async def claim_many(self, request: ClaimRequest, limit: int) -> Sequence[Task]:
        """Take up to ``limit`` tasks that are due, in the order of :meth:`claim`.

        Each gets a token of its own, :func:`~gotasks_py.lifecycle.batch_token`. A task
        whose next attempt would be its last is only reserved: it comes back pending, with
        a lease, and :func:`~gotasks_py.lifecycle.started` begins its attempt. The tasks
        may come back with times as of this process's estimate of the store's clock. Fewer
        than ``limit``: no more are due, or others took them at the same moment.
        """
        ...

    async def find_claimed(self, request: ClaimRequest) -> Sequence[Task]:
        """Look for the tasks of a claim, of one or of many, whose reply was lost."""
        ...

    async def settle(self, ref: LeaseRef, patch: Patch, *, session: Session | None = None) -> bool:
        """Apply a patch to a task that is ours; ``False`` if the fence refused it.

        Ours is a running task, or for a patch that starts from pending a reserved one. A
        patch that ends the lease or begins an attempt counts as applied when it is applied
        again.
        """
        ...

    async def settle_many(
        self, refs: Sequence[LeaseRef], patch: Patch, values: Sequence[object] = ()
    ) -> frozenset[str]:
        """Apply one patch to many running tasks; tell the tokens that the fence refused.

        ``values`` are what :class:`~gotasks_py.expressions.Each` stands for, one for each
        of ``refs``; empty where the patch has no use for them. A patch that is applied
        again counts as applied. The patch ends the leases, or gives the tasks back.

        Raises:
            ValueError: there is not a value for each of ``refs``.
            StoreError: the database refuses; some may have been settled.
            StoreUnavailableError: some may have been settled.
        """
        ...

    async def is_held(self, ref: LeaseRef) -> bool:
        """Tell whether the task is still running under this token."""
        ...

    async def renew(self, renewals: Sequence[Renewal]) -> Renewed:
        """Renew many leases, each to its own length from now, in one write.

        A lapsed lease that nobody took over is renewed as well.
        """
        ...

    def open_renewer(self, timeout: timedelta) -> Renewer | None:
        """Offer renewals to another thread, each bounded by ``timeout``.

        ``None``: no thread can reach this store; renewals then run on the event loop.
        """
        ...

    async def get(self, task_id: TaskId) -> Task | None:
        """Read one task."""
        ...

    async def transition(self, task_id: TaskId, patch: Patch) -> Task | None:
        """Apply a patch to a task in the patch's source state, whoever holds it.

        ``None``: there is no such task in that state.

        Raises:
            DuplicateTaskError: the patch takes a unique key that another task holds.
        """
        ...

    async def delete(self, task_id: TaskId) -> bool:
        """Remove a task in any state; a worker that runs it loses its lease."""
        ...

    async def reap(self, limit: int) -> Sequence[Task]:
        """End up to ``limit`` running tasks whose lease lapsed and that have no attempts left."""
        ...

    def dead_ids(self, *, queue: str | None, type: str | None) -> AsyncIterator[TaskId]:
        """List the dead letters of now, of one queue or type or of all.

        Those of one queue and type come oldest first.
        """
        ...


@runtime_checkable
class Reachable(Protocol):
    """What a store may offer beside: to be used without being made ready for new tasks."""

    async def reach(self) -> None:
        """Check the server as :meth:`Store.open` does, and write nothing. May be called often.

        Enough for everything that puts in no tasks, queues or metrics.

        Raises:
            ConfigurationError: the server, the connection or the event loop is unfit.
            StoreError: the database refused.
            StoreUnavailableError: the database did not answer.
        """
        ...


async def reach(store: Store) -> None:
    """Make a store ready for looking and for changing what is there; writing nothing, if it can.

    Raises:
        ConfigurationError: the server, the connection or the event loop is unfit.
        StoreError: the database refused.
        StoreUnavailableError: the database did not answer.
    """
    await (store.reach() if isinstance(store, Reachable) else store.open())


@runtime_checkable
class Watching(Protocol):
    """What a store may offer beside: to tell of changes as they happen."""

    def watch(
        self, *, finished: bool, position: object = None
    ) -> AbstractAsyncContextManager[Feed] | None:
        """Open a feed, with or without :class:`~gotasks_py.feed.Finished`.

        ``position`` is where an earlier feed of this store had come to; ``None`` begins now.
        The result is ``None`` where the store's server cannot tell of changes.

        Raises:
            StoreUnavailableError: on entering; try again.
            StoreError: on entering; the position, or the feed itself, cannot be had.
        """
        ...
