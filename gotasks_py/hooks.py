"""What users may watch (hooks) and wrap (middleware)."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, Literal, Protocol, TypeAlias

import anyio

from gotasks_py.context import TaskContext
from gotasks_py.copying import copied
from gotasks_py.errors import ConfigurationError
from gotasks_py.task import Task

logger = logging.getLogger("gotasks_py.hooks")

HOOK_TIMEOUT: Final = timedelta(seconds=10)
"""How long an async hook may take before it is cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEvent:
    """What a hook is told.

    ``task`` is the task as it was claimed or found. ``error`` is set where an attempt
    failed, ``delay`` where it will be retried, ``result`` where it succeeded, and
    ``duration`` where a handler ran.
    """

    task: Task
    error: BaseException | None = None
    result: object = None
    delay: timedelta | None = None
    duration: timedelta | None = None


Hook: TypeAlias = Callable[[TaskEvent], Awaitable[None] | None]
"""A function of one event, sync (and quick) or async."""

HookName: TypeAlias = Literal[
    "on_enqueue",
    "on_claim",
    "before_handle",
    "after_handle",
    "before_retry",
    "on_done",
    "on_dead",
    "on_cancelled",
    "on_lease_lost",
]

Middleware: TypeAlias = Callable[[TaskContext, Callable[[], Awaitable[object]]], Awaitable[object]]
"""Wraps the execution of a handler: ``async def (ctx, call_next) -> result``."""


class Tracing(Protocol):
    """Follows tasks from their enqueue to their attempts."""

    def carried(self, queue: str, type: str) -> Mapping[str, str]:
        """Tell what is to be stored in the ``trace`` of a task that is being enqueued."""
        ...

    async def around(
        self, context: TaskContext, call_next: Callable[[], Awaitable[object]], /
    ) -> object:
        """Wrap an attempt, as the outermost middleware."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Functions that watch tasks. They can change nothing and break nothing.

    A hook that tells of an outcome is called after the outcome was recorded, never for
    one that was refused because the lease was lost. What a hook raises is logged.

    Attributes:
        on_enqueue: The task was stored.
        on_claim: This manager took the task.
        before_handle: The handler is about to start.
        after_handle: The handler ended, in any way, and the outcome was recorded.
        before_retry: The attempt failed; the task will run again after ``delay``.
        on_done: The task succeeded.
        on_dead: The task became a dead letter, also when the janitor found it.
        on_cancelled: The task was cancelled.
        on_lease_lost: Another worker took the task over; nothing was recorded.
    """

    on_enqueue: Hook | None = None
    on_claim: Hook | None = None
    before_handle: Hook | None = None
    after_handle: Hook | None = None
    before_retry: Hook | None = None
    on_done: Hook | None = None
    on_dead: Hook | None = None
    on_cancelled: Hook | None = None
    on_lease_lost: Hook | None = None

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            hook = getattr(self, name)
            if hook is not None and not callable(hook):
                msg = f"hook {name} must be a function of one event, not {hook!r}"
                raise ConfigurationError(msg)


class HookCaller:
    """Calls hooks so that whatever they do stays theirs."""

    def __init__(self, hooks: Sequence[Hooks], tracing: Tracing | None = None) -> None:
        self._hooks = tuple(hooks)
        self._tracing = tracing
        self._names = frozenset(
            name
            for each in self._hooks
            for name in each.__dataclass_fields__
            if getattr(each, name) is not None
        )

    @property
    def has_any(self) -> bool:
        """Whether anybody listens to anything."""
        return bool(self._names)

    def carried(self, queue: str, type: str) -> Mapping[str, str]:
        """Tell what is to travel with a task of this type that is being enqueued."""
        if self._tracing is None:
            return {}
        try:
            return dict(self._tracing.carried(queue, type))
        except Exception:
            logger.exception("tracing failed on a task of %s/%s", queue, type)
            return {}

    def has(self, name: HookName) -> bool:
        """Tell whether anybody listens."""
        return name in self._names

    async def call(self, name: HookName, event: TaskEvent) -> None:
        """Call every hook of that name, in the order they were given."""
        if not self.has(name):
            return
        event = replace(event, task=_copied(event.task))
        for hooks in self._hooks:
            hook: Hook | None = getattr(hooks, name)
            if hook is not None:
                await _call(name, hook, event)

    async def call_apart(self, name: HookName, event: TaskEvent) -> None:
        """Call hooks from a caller's task, which may be cancelled meanwhile and must hear of it."""
        if self.has(name):
            async with anyio.create_task_group() as group:
                group.start_soon(self.call, name, event)


def _copied(task: Task) -> Task:
    """Give hooks data of their own: they can change nothing."""
    return replace(
        task,
        payload=copied(task.payload),
        metadata=copied(task.metadata),
        progress=copied(task.progress),
    )


async def _call(name: str, hook: Hook, event: TaskEvent) -> None:
    about = {"task_id": str(event.task.id)}
    with anyio.move_on_after(HOOK_TIMEOUT.total_seconds(), shield=True) as scope:
        try:
            answer = hook(event)
            if inspect.isawaitable(answer):
                await answer
        except anyio.get_cancelled_exc_class():
            if scope.cancel_called:
                raise
            logger.exception("hook %s failed on task %s", name, event.task.id, extra=about)
        except BaseException:  # a hook can break nothing, whatever it raises
            logger.exception("hook %s failed on task %s", name, event.task.id, extra=about)
    if scope.cancelled_caught:
        logger.error(
            "hook %s took over %s on task %s", name, HOOK_TIMEOUT, event.task.id, extra=about
        )
