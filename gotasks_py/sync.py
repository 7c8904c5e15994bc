"""The manager's operations for code that is not async.

They run on the event loop that the manager works on, if there is one, and otherwise on one
of their own in a background thread.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, overload

from anyio import NoEventLoopError, RunFinishedError, from_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal
from anyio.lowlevel import EventLoopToken, current_token

from gotasks_py._operations import RequeueReport
from gotasks_py._oversight import Oversight
from gotasks_py._steering import Steering
from gotasks_py._sync_operator import SyncOperator
from gotasks_py.enqueue import Enqueue
from gotasks_py.errors import ConfigurationError
from gotasks_py.handle import TaskHandle
from gotasks_py.handlers import OnConflict, TaskType
from gotasks_py.policy import TaskPolicy
from gotasks_py.store import Store
from gotasks_py.task import Task, TaskId

P = TypeVar("P")
R = TypeVar("R")
T = TypeVar("T")


class _AsyncOperations(Protocol):
    """What of a manager is offered to sync code."""

    async def enqueue(
        self,
        queue: str,
        type: str,
        payload: object = None,
        policy: TaskPolicy | None = None,
        *,
        on_conflict: OnConflict = "raise",
    ) -> TaskHandle[Any]: ...

    async def enqueue_many(
        self, requests: Iterable[Enqueue], *, progress: Callable[[int], object] | None = None
    ) -> list[TaskHandle[Any]]: ...

    async def get(self, task_id: object) -> Task: ...
    async def handle(self, task_id: object) -> TaskHandle[Any]: ...
    async def cancel(self, task_id: object) -> Task: ...
    async def requeue(self, task_id: object, *, fresh_lifetime: bool = False) -> Task: ...

    async def requeue_dead(
        self, queue: str | None = None, type: str | None = None, *, fresh_lifetime: bool = False
    ) -> RequeueReport: ...

    async def delete(self, task_id: object) -> None: ...

    @property
    def event_loop(self) -> EventLoopToken | None: ...
    @property
    def store(self) -> Store: ...


@dataclass(frozen=True, slots=True)
class SyncTaskHandle(Generic[R]):
    """A task in the store, for sync code; see :class:`~gotasks_py.TaskHandle`."""

    id: TaskId
    queue: str
    type: str
    _handle: TaskHandle[R] = field(repr=False)
    _call: Callable[[Callable[[], Awaitable[Any]]], Any] = field(repr=False)

    def task(self) -> Task:
        """Read the task as it is now."""
        task: Task = self._call(self._handle.task)
        return task

    def result(self, timeout: float | timedelta | None = None) -> R:
        """Wait until the task is final, and return what its handler returned."""
        result: R = self._call(partial(self._handle.result, timeout))
        return result


class SyncManager(SyncOperator):
    """Sync twins of the manager's operations; each does and raises what the async one does.

    Never for use on the event loop itself, which would wait for itself: it refuses there.
    """

    def __init__(
        self, manager: _AsyncOperations, *, oversight: Oversight, steering: Steering
    ) -> None:
        self._manager = manager
        self._oversight = oversight
        self._steering = steering
        self._lock = threading.Lock()
        self._own: _OwnLoop | None = None

    @overload
    def enqueue(
        self,
        queue: TaskType[P, R],
        type: P,
        payload: TaskPolicy | None = None,
        /,
        *,
        on_conflict: OnConflict = "raise",
    ) -> SyncTaskHandle[R]: ...

    @overload
    def enqueue(
        self,
        queue: str,
        type: str,
        payload: object = None,
        policy: TaskPolicy | None = None,
        *,
        on_conflict: OnConflict = "raise",
    ) -> SyncTaskHandle[Any]: ...

    def enqueue(
        self,
        queue: Any,  # typed by the overloads
        type: Any,
        payload: Any = None,
        policy: TaskPolicy | None = None,
        *,
        on_conflict: OnConflict = "raise",
    ) -> SyncTaskHandle[Any]:
        """Store a task to be run; see ``Manager.enqueue``."""
        enqueue = partial(
            self._manager.enqueue, queue, type, payload, policy, on_conflict=on_conflict
        )
        return self._wrapped(self._call(enqueue))

    def enqueue_many(
        self,
        requests: Iterable[Enqueue],
        *,
        progress: Callable[[int], object] | None = None,
    ) -> list[SyncTaskHandle[Any]]:
        """Store many tasks; see ``Manager.enqueue_many``.

        ``requests`` is read, and ``progress`` called, in the thread of the event loop.
        """
        handles = self._call(partial(self._manager.enqueue_many, requests, progress=progress))
        return [self._wrapped(handle) for handle in handles]

    def get(self, task_id: object) -> Task:
        """Read a task; see ``Manager.get``."""
        return self._call(partial(self._manager.get, task_id))

    def handle(self, task_id: object) -> SyncTaskHandle[Any]:
        """Make a handle for a task that was enqueued elsewhere; see ``Manager.handle``."""
        return self._wrapped(self._call(partial(self._manager.handle, task_id)))

    def cancel(self, task_id: object) -> Task:
        """Cancel a task; see ``Manager.cancel``."""
        return self._call(partial(self._manager.cancel, task_id))

    def requeue(self, task_id: object, *, fresh_lifetime: bool = False) -> Task:
        """Bring a dead letter back; see ``Manager.requeue``."""
        return self._call(partial(self._manager.requeue, task_id, fresh_lifetime=fresh_lifetime))

    def requeue_dead(
        self, queue: str | None = None, type: str | None = None, *, fresh_lifetime: bool = False
    ) -> RequeueReport:
        """Bring dead letters back; see ``Manager.requeue_dead``."""
        return self._call(
            partial(self._manager.requeue_dead, queue, type, fresh_lifetime=fresh_lifetime)
        )

    def delete(self, task_id: object) -> None:
        """Remove a task; see ``Manager.delete``."""
        self._call(partial(self._manager.delete, task_id))

    def close(self) -> None:
        """End the background thread if there is one, and the store's own connection there.

        Both end with the process anyway.
        """
        with self._lock:
            own, self._own = self._own, None
        if own is not None:
            own.close()

    def _wrapped(self, handle: TaskHandle[R]) -> SyncTaskHandle[R]:
        return SyncTaskHandle(handle.id, handle.queue, handle.type, handle, self._call)

    def _call(self, operation: Callable[[], Awaitable[T]]) -> T:
        _refuse_on_event_loop()

        async def call() -> T:
            return await operation()

        token = self._manager.event_loop
        if token is not None and _is_running(token):
            with suppress(RunFinishedError):
                return from_thread.run(call, token=token)
        return self._portal().call(call)

    def _portal(self) -> BlockingPortal:
        with self._lock:
            # A fork has the thread's memory, but not the thread.
            if self._own is None or self._own.process != os.getpid():
                self._own = _OwnLoop(self._manager.store)
            return self._own.portal


class _OwnLoop:
    """An event loop in a background thread, for the process that made it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.process = os.getpid()
        self._context: AbstractContextManager[BlockingPortal] = start_blocking_portal(
            name="gotasks_py sync"
        )
        self.portal = self._context.__enter__()
        atexit.register(self.close)

    def close(self) -> None:
        atexit.unregister(self.close)
        if self.process == os.getpid():
            try:
                self.portal.call(self._store.aclose)
            finally:
                self._context.__exit__(None, None, None)


def _is_running(token: EventLoopToken) -> bool:
    # An asyncio loop says so. A trio token has no such method; a run that ended refuses.
    is_running = getattr(token.native_token, "is_running", None)
    return is_running is None or bool(is_running())


def _refuse_on_event_loop() -> None:
    try:
        current_token()
    except NoEventLoopError:
        return
    msg = (
        "manager.sync was called on the event loop, which would then wait for itself; there, "
        "await the manager's own methods"
    )
    raise ConfigurationError(msg)
