"""What needs no workers: putting tasks into the store, and acting on those that are there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, overload

from anyio.lowlevel import EventLoopToken, current_token

from gotasks_py._operations import Operations, RequeueReport
from gotasks_py._oversight import Oversight
from gotasks_py._recorded import RecordedQueues
from gotasks_py._reporting import Books
from gotasks_py._steering import Steering
from gotasks_py.checks import check_name
from gotasks_py.enqueue import Enqueue, Producer, check_on_conflict
from gotasks_py.errors import ConfigurationError, UnknownQueueError
from gotasks_py.handle import TaskHandle
from gotasks_py.handlers import OnConflict, Registry, TaskType
from gotasks_py.hooks import HookCaller
from gotasks_py.policy import Defaults, QueuePolicy, TaskPolicy
from gotasks_py.store import Session, Store, reach
from gotasks_py.sync import SyncManager
from gotasks_py.task import Task, TaskId

P = TypeVar("P")
R = TypeVar("R")


class Client(Oversight, Steering):
    """The half of a manager that works without being started."""

    def __init__(
        self,
        store: Store,
        *,
        queues: Mapping[str, QueuePolicy],
        registry: Registry,
        defaults: Defaults,
        hooks: HookCaller,
        payload_limit: int,
        books: Books,
    ) -> None:
        self._store = store
        self._books = books
        self._queues = queues
        self._registry = registry
        self._recorded = RecordedQueues(store, queues, self._queue_changed)
        self._producer = Producer(
            store=store,
            queues=self._recorded.policies,
            lanes=self._recorded.lanes,
            registry=registry,
            defaults=defaults,
            payload_limit=payload_limit,
            hooks=hooks,
            nudge=self._nudge,
            meter=books.meter,
        )
        self._operations = Operations(store, hooks, books.meter)
        self._loop: EventLoopToken | None = None
        self._process = os.getpid()
        self._sync = SyncManager(self, oversight=self, steering=self)

    @property
    def store(self) -> Store:
        """The store that this manager works on."""
        return self._store

    @property
    def queues(self) -> Mapping[str, QueuePolicy]:
        """The queues that are declared here, by name."""
        return self._queues

    @property
    def task_types(self) -> Sequence[TaskType[Any, Any]]:
        """The types that this manager has handlers for, by queue and name."""
        return self._registry.task_types()

    @property
    def event_loop(self) -> EventLoopToken | None:
        """The event loop that this manager last worked on, in this process."""
        # A fork remembers its parent's loop, and that it was running.
        return self._loop if self._process == os.getpid() else None

    @property
    def sync(self) -> SyncManager:
        """The same operations for code that is not async: scripts, Django, Flask."""
        return self._sync

    @overload
    async def enqueue(
        self,
        queue: TaskType[P, R],
        type: P,
        payload: TaskPolicy | None = None,
        /,
        *,
        on_conflict: OnConflict = "raise",
        session: Session | None = None,
    ) -> TaskHandle[R]: ...

    @overload
    async def enqueue(
        self,
        queue: str,
        type: str,
        payload: object = None,
        policy: TaskPolicy | None = None,
        *,
        on_conflict: OnConflict = "raise",
        session: Session | None = None,
    ) -> TaskHandle[Any]: ...

    async def enqueue(
        self,
        queue: str | TaskType[Any, Any],
        type: Any,  # typed by the overloads
        payload: Any = None,
        policy: TaskPolicy | None = None,
        *,
        on_conflict: OnConflict = "raise",
        session: Session | None = None,
    ) -> TaskHandle[Any]:
        """Store a task to be run: ``enqueue(queue, type, payload, policy)``.

        With a :class:`TaskType`: ``enqueue(task_type, payload, policy)``, checked by type
        checkers. With ``on_conflict="return"`` a task that holds the unique key already is
        returned instead of raised about, unless it ended meanwhile. With ``session``, a
        session of the store's driver in a transaction, the task exists when the transaction
        commits (an outbox); hooks are not told of it.

        Raises:
            UnknownQueueError: the queue is not declared.
            PayloadError: the payload does not fit its type or cannot be stored.
            DuplicateTaskError: an active task holds the unique key.
            StoreUnavailableError: no answer; with ``task_id``, the task may exist.
        """
        if isinstance(queue, TaskType):
            chosen = payload if policy is None else policy
            return await self._enqueue_typed(
                queue, type, chosen, on_conflict=on_conflict, session=session
            )
        return await self._enqueue(
            Enqueue(queue, type, payload, policy), None, on_conflict, session
        )

    async def enqueue_many(
        self,
        requests: Iterable[Enqueue],
        *,
        progress: Callable[[int], object] | None = None,
    ) -> list[TaskHandle[Any]]:
        """Store many tasks, each on its own; the handles align with the input.

        They are sent in chunks of at most 1000, and prepared while others are on their way,
        so ``requests`` may be a generator of any length; what it raises ends the call when
        the chunks before have arrived. ``progress`` is called on the event loop after each
        chunk, with the number of tasks that were handled so far, stored or refused; it
        must not block. What it raises is logged, and it is not called again. A call that is
        cancelled has stored some of the tasks.

        Raises:
            PartialEnqueueError: some failed; ``ids`` and ``failures`` say which and why,
                and all others are stored.
        """
        _check_many(requests, progress)
        await self._ready()
        is_sound = True
        if not all(map(self._recorded.knows, self._queues)):  # before anything is written
            is_sound, requests = await self._producer.sound(requests)
        if is_sound:
            for queue in self._queues.values():
                await self._register(queue)
            await self._recorded.refresh_if_old()
        try:
            return await self._producer.enqueue_many(requests, progress)
        finally:
            await self._books.attended()

    async def get(self, task_id: object) -> Task:
        """Read a task by its id or the id's text.

        Raises:
            TaskNotFoundError: there is no such task.
        """
        await self._reached()
        return await self._operations.get(task_id)

    async def handle(self, task_id: object) -> TaskHandle[Any]:
        """Make a handle for a task that was enqueued elsewhere.

        Raises:
            TaskNotFoundError: there is no such task.
        """
        task = await self.get(task_id)
        return self._producer.handle(task.id, task.queue, task.type)

    async def cancel(self, task_id: object) -> Task:
        """Cancel a task: a pending one at once, a running one by its next heartbeat.

        The handler of a running task is cancelled; nothing of it is recorded.

        Raises:
            TaskNotFoundError: there is no such task.
            InvalidStateError: it is final already.
        """
        await self._reached()
        task = await self._operations.cancel(task_id)
        await self._books.attended()
        self._stop_here(task.id)
        return task

    async def requeue(self, task_id: object, *, fresh_lifetime: bool = False) -> Task:
        """Bring a dead letter back: attempts start over, errors stay, its key is taken again.

        It keeps the time at which it expires, unless ``fresh_lifetime`` starts that anew;
        a warning is logged when little is left.

        Raises:
            TaskNotFoundError: there is no such task.
            InvalidStateError: it is not dead, or its lifetime is over.
            DuplicateTaskError: another active task has taken its unique key.
        """
        await self._reached()
        task = await self._operations.requeue(task_id, fresh_lifetime=fresh_lifetime)
        await self._books.attended()
        self._nudge(task.queue, task.due_at, [task.id])
        return task

    async def requeue_dead(
        self,
        queue: str | None = None,
        type: str | None = None,
        *,
        fresh_lifetime: bool = False,
    ) -> RequeueReport:
        """Bring back all dead letters of a queue, of a type, or of both; without either, all.

        What cannot be brought back is reported, and the rest is done.

        Raises:
            UnknownQueueError: the queue is neither declared here nor recorded in the store.
        """
        if queue is not None:
            check_name("queue", queue)
        await self._reached()
        if queue is not None and queue not in self._queues:
            recorded = await self._store.queues()
            if queue not in recorded:
                raise UnknownQueueError(queue, list({**self._queues, **recorded}))
        report = await self._operations.requeue_dead(queue, type, fresh_lifetime=fresh_lifetime)
        await self._books.attended()
        for name in self._queues:
            self._nudge(name)
        return report

    async def delete(self, task_id: object) -> None:
        """Remove a task in any state; if it is running, its outcome will be refused.

        Raises:
            TaskNotFoundError: there is no such task.
        """
        await self._reached()
        await self._operations.delete(task_id)

    async def _enqueue_typed(
        self,
        task_type: TaskType[P, R],
        payload: P,
        policy: TaskPolicy | None,
        *,
        on_conflict: OnConflict,
        session: Session | None,
    ) -> TaskHandle[R]:
        request = Enqueue(task_type.queue, task_type.name, payload, policy)
        return await self._enqueue(request, task_type, on_conflict, session)

    async def _enqueue(
        self,
        request: Enqueue,
        task_type: TaskType[Any, Any] | None,
        on_conflict: OnConflict,
        session: Session | None,
    ) -> TaskHandle[Any]:
        check_name("queue", request.queue)
        check_on_conflict(on_conflict)
        await self._ready()
        queue = self._queues.get(request.queue)
        if queue is not None:
            if not self._recorded.knows(queue.name):
                self._producer.check(request, task_type)  # before anything is written
            await self._register(queue)
            await self._recorded.refresh_if_old()
        handle = await self._producer.enqueue(request, task_type, on_conflict, session)
        await self._books.attended()
        return handle

    async def _ready(self) -> None:
        await self._store.open()
        self._note_place()

    async def _reached(self) -> None:
        await reach(self._store)
        self._note_place()

    def _note_place(self) -> None:
        if self._process != os.getpid():
            self._books.forked()
        self._loop, self._process = current_token(), os.getpid()

    async def _register(self, queue: QueuePolicy) -> None:
        if not self._recorded.knows(queue.name):
            self._recorded.learn(queue.name, await self._store.register_queue(queue))

    def _nudge(
        self, queue: str, due_at: datetime | None = None, ids: Sequence[TaskId] = ()
    ) -> None:
        """Notice that a queue got work; for the half that has workers."""

    def _queue_changed(self, queue: str) -> None:
        """Notice that a queue has changed; for the half that has workers."""

    def _stop_here(self, task_id: TaskId) -> None:
        """Notice that a task was cancelled; for the half that may be running it."""


def _check_many(requests: object, progress: object) -> None:
    if not isinstance(requests, Iterable):
        msg = f"requests must be Enqueue(...) values, in a list or the like, not {requests!r}"
        raise ConfigurationError(msg)
    if progress is not None and not callable(progress):
        msg = f"progress must be a function of the number handled so far, not {progress!r}"
        raise ConfigurationError(msg)
