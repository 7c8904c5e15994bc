"""The manager: where queues, handlers and a store come together."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar, overload

import anyio

from gotasks_py._arguments import (
    check_limits,
    check_parts,
    check_store,
    classes_of,
    queues_by_name,
    span_of,
)
from gotasks_py._client import Client
from gotasks_py._config import EngineConfig
from gotasks_py._engine import Engine
from gotasks_py._janitor import JanitorConfig
from gotasks_py._reporting import Books
from gotasks_py._scheduling import QueueOrder
from gotasks_py.autoscaling import ScalingConfig
from gotasks_py.backoff import Backoff, Exponential
from gotasks_py.checks import check_name
from gotasks_py.errors import ConfigurationError, HandlerError, UnknownQueueError
from gotasks_py.handlers import HandlerDecorator, Registry, TaskType, TypedHandlerDecorator
from gotasks_py.health import Health
from gotasks_py.hooks import HookCaller, Hooks, Middleware, Tracing
from gotasks_py.metrics import MetricsConfig
from gotasks_py.modes import PipelineMode
from gotasks_py.policy import Defaults, QueuePolicy, TypePolicy
from gotasks_py.signals import Received, signals_taken, stop_on_signals, unless_signalled
from gotasks_py.store import Store
from gotasks_py.task import TaskId

logger = logging.getLogger("gotasks_py.manager")

P = TypeVar("P")
R = TypeVar("R")

_MIB: Final = 1024 * 1024
_NO_GRACE: Final = timedelta(0)
_GRACE: Final = timedelta(seconds=30)


class Manager(Client):
    """Declares queues, registers handlers, enqueues tasks and runs them.

    A manager need not be started to enqueue, get, cancel, requeue or delete, and several
    may share a store.

    Args:
        store: Where tasks are kept.
        queues: The queues that this manager works with; every one must be declared.
        workers: How many tasks run at once over all queues that have no pool of their own, at
            most 10 000; or between which bounds to follow what waits in them, as a
            :class:`~gotasks_py.autoscaling.ScalingConfig`.
        lease: How long a claimed task is this manager's without a renewal. At least 100 ms
            with the heartbeat, 1 s without.
        name: The first part of the id that the manager takes at each start.
        version: Of the program, such as the hash of a commit: shown with the manager, and
            where it was first seen. Default: gotasks_py's own.
        order: ``"weighted"`` shares claims between queues by their weights, ``"strict"``
            takes the first declared queue that has work.
        mode: ``PipelineMode(...)`` claims and records in batches, for many short tasks; by
            default each worker claims, runs and records on its own.
        heartbeat: Renew the leases of running tasks every third of a lease. Without it
            the lease must be longer than any handler runs.
        fallback_poll: How often an idle manager looks for work while the store does not tell
            of changes as they happen. While it does: every 30 s, or this if it is longer.
        max_attempts, timeout, backoff: What holds where neither the task, its type nor
            its queue decides. Default: 3 attempts, no time limit, exponential from 10 s to
            one hour.
        janitor: How often to reap; ``None`` leaves it to other managers.
        metrics: How often to write what was counted, and that this manager is there; ``None``
            counts nothing, and nobody knows of this manager.
        hooks: One or several sets of hooks.
        middleware: Wraps every handler; the first is outermost.
        tracing: Follows tasks from their enqueue to their attempts, such as
            ``OpenTelemetryTracing()`` of :mod:`gotasks_py.opentelemetry`.
        payload_limit, result_limit: The largest encoded payload and result, in bytes;
            default 8 MiB and 4 MiB.

    Raises:
        ConfigurationError: a setting is out of its bounds, or a queue is declared twice.
    """

    def __init__(  # noqa: PLR0913  - each setting has a default; most programs set a few
        self,
        store: Store,
        *,
        queues: Sequence[QueuePolicy] = (),
        workers: int | ScalingConfig = 8,
        lease: timedelta = timedelta(seconds=60),
        name: str = "manager",
        version: str | None = None,
        order: QueueOrder = "weighted",
        mode: PipelineMode | None = None,
        heartbeat: bool = True,
        fallback_poll: timedelta = timedelta(seconds=1),
        max_attempts: int = 3,
        timeout: timedelta | None = None,
        backoff: Backoff | None = None,
        janitor: JanitorConfig | None = JanitorConfig(),  # noqa: B008  - immutable
        metrics: MetricsConfig | None = MetricsConfig(),  # noqa: B008  - immutable
        hooks: Hooks | Sequence[Hooks] = (),
        middleware: Sequence[Middleware] = (),
        tracing: Tracing | None = None,
        payload_limit: int = 8 * _MIB,
        result_limit: int = 4 * _MIB,
    ) -> None:
        check_store(store)
        check_parts(hooks, middleware, janitor, metrics)
        check_limits(payload_limit, result_limit)
        self._config = EngineConfig(
            name=name,
            version=version,
            workers=workers,
            lease=lease,
            poll=fallback_poll,
            order=order,
            heartbeat=heartbeat,
            mode=mode,
            janitor=janitor,
            metrics=metrics,
            middleware=(*([] if tracing is None else [tracing.around]), *middleware),
            result_limit=result_limit,
        )
        chosen = Exponential() if backoff is None else backoff
        self._defaults = Defaults(max_attempts=max_attempts, timeout=timeout, backoff=chosen)
        self._hooks = HookCaller([hooks] if isinstance(hooks, Hooks) else hooks, tracing)
        self._registry = Registry()
        super().__init__(
            store,
            queues=queues_by_name(queues),
            registry=self._registry,
            defaults=self._defaults,
            hooks=self._hooks,
            payload_limit=payload_limit,
            books=Books.opened(store, name, metrics),
        )
        self._engine: Engine | None = None
        self._is_starting = False

    @property
    def id(self) -> str:
        """The id of the current run; the name alone while the manager is not started."""
        return self._config.name if self._engine is None else self._engine.id

    @overload
    def handler(
        self,
        queue: TaskType[P, R],
        /,
        *,
        timeout: timedelta | None = None,
        backoff: Backoff | None = None,
        retry_on: Sequence[type[BaseException]] | None = None,
        give_up_on: Sequence[type[BaseException]] = (),
    ) -> TypedHandlerDecorator[P, R]: ...

    @overload
    def handler(
        self,
        queue: str,
        type: str,
        *,
        timeout: timedelta | None = None,
        backoff: Backoff | None = None,
        retry_on: Sequence[type[BaseException]] | None = None,
        give_up_on: Sequence[type[BaseException]] = (),
    ) -> HandlerDecorator: ...

    def handler(
        self,
        queue: str | TaskType[Any, Any],
        type: str = "",
        *,
        timeout: timedelta | None = None,
        backoff: Backoff | None = None,
        retry_on: Sequence[type[BaseException]] | None = None,
        give_up_on: Sequence[type[BaseException]] = (),
    ) -> Any:  # typed by the overloads
        """Register the decorated function as the handler of a type of task.

        The function takes the payload, or a ``TaskContext`` and the payload; it may be
        async, or plain: it then runs in a thread. Payload and result types come from its
        annotations, or from the :class:`TaskType`, which they must fit.

        Args:
            queue: The queue, or a task type that names queue and type.
            type: The name of the type.
            timeout: How long one attempt may take, unless the task says otherwise.
            backoff: How long to wait before the next attempt; any callable
                ``(attempt, error) -> timedelta``.
            retry_on: Only these exceptions are tried again; default: all.
            give_up_on: These exceptions make the task a dead letter at once.

        Raises:
            HandlerError: the function cannot be used, the type has a handler already, or
                the manager is running.
            UnknownQueueError: the queue is not declared.
        """
        if isinstance(queue, TaskType) == bool(type):
            msg = "give handler() a queue and a type, or a TaskType alone"
            raise HandlerError(msg)
        address = queue if isinstance(queue, TaskType) else (queue, type)
        queue_name = queue.queue if isinstance(queue, TaskType) else queue
        self._check_registration(queue_name)
        policy = TypePolicy(
            timeout=timeout,
            backoff=backoff,
            retry_on=None if retry_on is None else classes_of("retry_on", retry_on),
            give_up_on=classes_of("give_up_on", give_up_on),
        )
        return partial(
            self._registry.add, address=address, policy=policy, enqueue=self._enqueue_typed
        )

    def types(self, queue: str) -> tuple[str, ...]:
        """Tell the types of a queue that have a handler here, sorted."""
        return self._registry.types(queue)

    def override(
        self,
        *,
        queues: Sequence[str] | None = None,
        workers: int | ScalingConfig | None = None,
        max_tasks: int | None = None,
    ) -> None:
        """Change how much the next :meth:`start` sets going, as a deployment decides.

        Args:
            queues: Work on these alone; the others can be enqueued to all the same.
            workers: In place of the manager's own ``workers``.
            max_tasks: Claim so many tasks, and then no more until the next start: for a
                process that another one is to replace.

        Raises:
            UnknownQueueError: a queue is not declared.
            ConfigurationError: no queue, fewer than one worker or task, or it is running
                already.
        """
        if self._engine is not None or self._is_starting:
            msg = f"manager {self.id} is running; override its settings before it starts"
            raise ConfigurationError(msg)
        for name in queues or ():
            if name not in self._queues:
                raise UnknownQueueError(name, list(self._queues))
        if queues is not None and not queues:
            msg = "queues must name a queue, or be left out to work on all"
            raise ConfigurationError(msg)
        self._config = replace(
            self._config,
            served=self._config.served if queues is None else frozenset(queues),
            workers=self._config.workers if workers is None else workers,
            max_tasks=self._config.max_tasks if max_tasks is None else max_tasks,
        )

    async def start(self) -> None:
        """Start working in the background of the current event loop.

        Installs no signal handlers and belongs to no task of the caller.

        Raises:
            HandlerError: no handler is registered.
            ConfigurationError: it is running already, or the store is unfit.
            QueueConflictError: a queue is registered with another policy.
            StoreUnavailableError: the store did not answer.
        """
        if self._engine is not None or self._is_starting:
            msg = f"manager {self.id} is running already; await stop() before it starts again"
            raise ConfigurationError(msg)
        if not any(self.types(name) for name in self._queues if self._config.serves(name)):
            msg = (
                "no handler is registered, so there is nothing to run; decorate functions with "
                "@manager.handler(queue, type), or do not start a manager that only enqueues"
            )
            raise HandlerError(msg)
        self._is_starting = True
        try:
            await self._started()
        finally:
            self._is_starting = False
        logger.info("manager %s started on %s", self.id, ", ".join(self._queues))

    async def stop(self, timeout: timedelta | float = _GRACE) -> None:  # noqa: ASYNC109  - part of the API
        """Stop: claim no more, let handlers finish for ``timeout``, then cancel them.

        What is not finished is handed back at once, without burning an attempt; a task of
        ``max_attempts=1`` whose handler had started becomes a dead letter instead. A
        manager that is not running is left alone. ``timeout``: seconds or a timedelta.
        """
        grace, engine = span_of(timeout), self._engine
        if engine is None:
            return
        try:
            await engine.stop(grace)
        finally:
            if self._engine is engine and engine.over.is_set():
                self._engine = None
                logger.info("manager %s stopped", engine.id)

    async def run(self, timeout: timedelta | float = _GRACE) -> None:  # noqa: ASYNC109  - as for stop()
        """Work until SIGINT, SIGTERM or SIGHUP, then :meth:`stop`; a second one stops at once.

        ``timeout`` is the grace that handlers then have, in seconds or as a timedelta.
        Signals are taken in the main thread only, and user handlers are put back; one that
        comes while the manager starts ends the start. SIGHUP, of a terminal that is closed, is
        left alone where it is ignored (``nohup``) or has a handler already. Elsewhere it works
        until another task calls :meth:`stop`.

        Raises:
            Exception: the manager failed; so that the process exits with an error.
        """
        grace = span_of(timeout)
        with signals_taken() as signals:
            if signals is None:
                await self.start()
            elif not await unless_signalled(signals, self.start):
                return
            await self._run_until_stopped(signals, grace)

    async def _run_until_stopped(self, signals: Received | None, grace: timedelta) -> None:
        engine = self._engine
        assert engine is not None  # noqa: S101  - start() sets it
        try:
            async with anyio.create_task_group() as group:
                if signals is not None:
                    stop = partial(engine.stop, grace)
                    group.start_soon(stop_on_signals, signals, stop, engine.interrupt)
                await engine.over.wait()
                group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self.stop(_NO_GRACE)
        if engine.failure is not None:
            raise engine.failure

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Shielded, for the block may be left because its task was cancelled: then no grace.
        with anyio.CancelScope(shield=True):
            await self.stop(_GRACE if exc_type is None else _NO_GRACE)

    def health(self) -> Health:
        """Tell whether claims and heartbeats really happen, and what is wrong if not."""
        if self._engine is None:
            return Health(ok=False, reasons=["the manager is not running"], is_running=False)
        return self._engine.health()

    async def _started(self) -> None:
        await self._ready()
        is_known = any(map(self._recorded.knows, self._queues))
        for queue in self._queues.values():
            await self._register(queue)
        if is_known:  # of old: the very first claim must know of a pause
            await self._recorded.refresh()
        engine = Engine(
            self._store,
            self._config,
            queues=self._recorded,
            registry=self._registry,
            defaults=self._defaults,
            hooks=self._hooks,
            books=self._books,
        )
        self._engine = engine
        try:
            await engine.start()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.stop(_NO_GRACE)
            raise
        if engine.failure is not None:
            self._engine = None
            raise engine.failure

    def _nudge(
        self, queue: str, due_at: datetime | None = None, ids: Sequence[TaskId] = ()
    ) -> None:
        if self._engine is not None:
            self._engine.nudge(queue, due_at, ids)

    def _queue_changed(self, queue: str) -> None:
        if self._engine is not None:
            self._engine.queue_changed(queue)

    def _stop_here(self, task_id: TaskId) -> None:
        if self._engine is not None:
            self._engine.cancel(task_id)

    def _check_registration(self, queue: str) -> None:
        check_name("queue", queue)
        if queue not in self._queues:
            raise UnknownQueueError(queue, list(self._queues))
        if self._engine is not None:
            msg = "the manager is running; register handlers before it starts"
            raise HandlerError(msg)
