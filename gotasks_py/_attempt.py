"""One attempt of one task, in steps: run the handler, judge how it ended, record it, tell."""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final

import anyio
from anyio import to_thread

from gotasks_py import lifecycle
from gotasks_py._announcing import announce
from gotasks_py._control import AttemptControl
from gotasks_py._meter import Meter
from gotasks_py._recording import BulkRecorder
from gotasks_py._running import Returned, Running, StopReason
from gotasks_py._settling import Settler
from gotasks_py._verdict import (
    Cancelled,
    Dead,
    Done,
    Ending,
    Expired,
    Judge,
    Lost,
    Raised,
    Retrying,
    Snoozed,
    Stopped,
    Unstorable,
    Verdict,
    interrupted,
    patch_for,
    text_of,
    unreadable,
)
from gotasks_py.context import TaskContext
from gotasks_py.errors import GotasksError, StoreError, StoreUnavailableError
from gotasks_py.handle import handling
from gotasks_py.handlers import Handler
from gotasks_py.hooks import HookCaller, Middleware, TaskEvent
from gotasks_py.policy import Defaults, QueuePolicy, attempt_policy
from gotasks_py.store import Store

logger = logging.getLogger("gotasks_py.attempt")

_NOTHING: Final = object()
# Its lease may be over and nobody may have taken the task: the fence decides, not the clock. All
# that ran in a process that stood still would run again else.
_MAY_END_WELL: Final = frozenset({StopReason.SHUTDOWN, StopReason.LEASE_LOST})


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRunner:
    """Runs attempts for one manager."""

    store: Store
    settler: Settler
    hooks: HookCaller
    middleware: Sequence[Middleware]
    defaults: Defaults
    result_limit: int
    threads: anyio.CapacityLimiter
    lease_changed: Callable[[], None]
    meter: Meter
    bulk: BulkRecorder | None = None

    async def run(
        self, running: Running, handler: Handler[Any, Any], queue: QueuePolicy
    ) -> timedelta | None:
        """See one attempt through to its recorded outcome; tell in how long it is due again.

        Nothing but a bug raises here.

        The attempt runs as a task of its own, so that context variables that a handler or
        a middleware sets do not leak into the next attempt.
        """
        attempt = _Attempt(self, running, handler, queue)
        async with anyio.create_task_group() as group:
            group.start_soon(attempt.run)
        return attempt.again_in

    async def run_in(
        self,
        scope: anyio.CancelScope,
        running: Running,
        handler: Handler[Any, Any],
        queue: QueuePolicy,
    ) -> timedelta | None:
        """Do the same as :meth:`run` in the task and context of the caller.

        ``scope`` is the caller's and a shield. It is what stops the handler: once it is
        cancelled, the caller has to leave it, and must not wait for anything in it.
        """
        attempt = _Attempt(self, running, handler, queue)
        await attempt.run_in(scope)
        return attempt.again_in

    async def refuse(self, running: Running) -> None:
        """End a task that was claimed for its type and does not read as being of any.

        Somebody has edited its document. Handing it back would claim it for ever.
        """
        task = running.task
        message = f"the document reads as queue {task.queue!r}, type {task.type!r}: no handler"
        logger.error("task %s is dead: %s", task.id, message, extra={"task_id": str(task.id)})
        running.is_over = True
        dead = unreadable(task, message)
        patch = patch_for(dead)
        assert patch is not None  # noqa: S101  - death is always recorded
        await self.settler.let_go(running, patch)
        await self.hooks.call("on_dead", TaskEvent(task=task))

    async def abandon(self, running: Running) -> None:
        """Record for a handler that does not stop what would follow if it had."""
        verdict = interrupted(running.task, handler_started=running.handler_started)
        patch = patch_for(verdict)
        has_gone = patch is not None and await self.settler.let_go(running, patch)
        if has_gone and isinstance(verdict, Dead):
            await self.hooks.call("on_dead", TaskEvent(task=running.task, error=verdict.error))


async def _foreign(cancellation: BaseException) -> BaseException:
    """Tell the failure that a cancellation is which the engine has not asked for."""
    try:
        # If asyncio is closing its event loop, the engine hears of it now; if not, it was the
        # handler's own doing.
        await anyio.lowlevel.checkpoint()
    except anyio.get_cancelled_exc_class() as closing:
        return closing
    return cancellation


def _caught(call: Callable[..., object], arguments: Sequence[object]) -> object:
    """Call in a thread. What is raised travels as a value: a future cannot carry all of it."""
    try:
        return call(*arguments)
    except BaseException as error:  # noqa: BLE001  - a failed attempt, whatever it is
        return Raised(error)


class _Attempt:
    def __init__(
        self,
        runner: AttemptRunner,
        running: Running,
        handler: Handler[Any, Any],
        queue: QueuePolicy,
    ) -> None:
        self._runner = runner
        self._running = self.running = running
        self._task = running.task
        self._handler = handler
        self._policy = attempt_policy(running.task, handler.policy, queue, runner.defaults)
        # Not the verdict: it holds the error, whose traceback holds this object's frames, and
        # that cycle would keep whatever the handler worked on alive until a collection.
        self.again_in: timedelta | None = None

    async def run(self) -> None:
        # Closing asyncio's event loop cancels the group around this; the outcome counts still.
        with anyio.CancelScope(shield=True) as scope:
            await self.run_in(scope)

    async def run_in(self, scope: anyio.CancelScope) -> None:
        clock = self._runner.store.clock
        handling.set(True)
        if self._runner.hooks.has("on_claim"):
            await self._runner.hooks.call("on_claim", TaskEvent(task=self._task))
        began = clock.monotonic()
        ending = await self._ending(scope)
        self._running.is_over = True
        duration = timedelta(seconds=clock.monotonic() - began)
        verdict = self._judged(ending)
        # They hold the handler's error, whose traceback holds this frame: a cycle.
        del ending
        bulk = self._runner.bulk
        try:
            match verdict:
                case Done() if bulk is not None and bulk.take(self, verdict, duration):
                    pass
                case _ if scope.cancel_called:
                    with anyio.CancelScope(shield=True):
                        await self.conclude(verdict, duration)
                case _:
                    await self.conclude(verdict, duration)
                    if bulk is not None:
                        bulk.left_alone()
        finally:
            del verdict

    def _judged(self, ending: Ending) -> Verdict:
        if isinstance(ending, Returned):
            return Done(ending.value, ending.document)
        judge = Judge(
            task=self._task,
            kind=self._handler.policy,
            policy=self._policy,
            handler_started=self._running.handler_started,
        )
        return judge.judge(ending, self._runner.store.clock.now())

    async def conclude(self, verdict: Verdict, duration: timedelta) -> None:
        """Record what follows from the attempt, and tell of what it became."""
        recorded = await self._record(verdict)
        if recorded is not None:
            if isinstance(recorded, Retrying | Snoozed):
                self.again_in = recorded.delay
            await self.announce(recorded, duration)

    async def _ending(self, scope: anyio.CancelScope) -> Ending:
        expires_at, claimed_at = self._task.expires_at, self._task.updated_at
        if expires_at is not None and expires_at <= claimed_at:
            return Expired()
        value, error = await self._outcome(scope)
        try:
            if self._running.completion is not None:
                return self._completed(error)
            if scope.cancel_called:
                return self._interrupted(value)
            return Raised(error) if error is not None else self._returned(value)
        finally:
            del error  # its traceback holds this frame, and so itself

    async def _outcome(self, scope: anyio.CancelScope) -> tuple[object, BaseException | None]:
        """Run the handler; tell what it returned or raised."""
        timeout = self._policy.timeout
        if timeout is not None:
            scope.deadline = anyio.current_time() + timeout.total_seconds()
        self._running.scope = scope
        if self._running.stop_reason is not None:
            scope.cancel()
        try:
            return await self._handle(), None
        except anyio.get_cancelled_exc_class() as cancellation:
            return _NOTHING, None if scope.cancel_called else await _foreign(cancellation)
        except BaseException as failure:  # noqa: BLE001  - a failed attempt, whatever it is
            return _NOTHING, failure
        finally:
            if timeout is not None:
                scope.deadline = math.inf

    def _completed(self, error: BaseException | None) -> Ending:
        """Take the handler's own completion for its ending: it is committed."""
        assert self._running.completion is not None  # noqa: S101  - checked by the caller
        if error is not None:
            logger.error(
                "the handler of task %s failed after it had completed the task: %s",
                self._task.id,
                text_of(error),
                extra={"task_id": str(self._task.id)},
            )
        return self._running.completion

    def _interrupted(self, value: object) -> Ending:
        """Judge an attempt that was told to stop, which it may have ignored."""
        reason = self._running.stop_reason or StopReason.TIMEOUT
        if reason in _MAY_END_WELL and value is not _NOTHING:
            return self._returned(value)
        return Stopped(reason)

    def _returned(self, value: object) -> Ending:
        try:
            return self._encoded(value)
        except GotasksError as error:
            return Unstorable(error)

    def _encoded(self, value: object) -> Returned:
        codec = self._handler.task_type.result_codec
        document = codec.encode(value, limit=self._runner.result_limit, what="result")
        return Returned(value, None if value is None else document)

    async def _handle(self) -> object:
        payload = self._handler.task_type.payload_codec.decode(self._task.payload)
        control = AttemptControl(
            self._runner.store, self._running, self._runner.lease_changed, self._encoded
        )
        context = TaskContext(self._task, control)
        if self._runner.hooks.has("before_handle"):
            await self._runner.hooks.call("before_handle", TaskEvent(task=self._task))
        if control.is_stopping:
            # What was told to stop before it started must not start.
            await anyio.lowlevel.checkpoint()
        self._running.handler_started = True
        if not self._runner.middleware:
            return await self._call(context, payload)
        call: Callable[[], Awaitable[object]] = partial(self._call, context, payload)
        for middleware in reversed(self._runner.middleware):
            call = partial(middleware, context, call)
        return await call()

    async def _call(self, context: TaskContext, payload: object) -> object:
        signature = self._handler.signature
        arguments = self._handler.arguments(context, payload)
        if signature.is_async:
            result = signature.call(*arguments)
        else:
            result = await self._in_thread(signature.call, arguments)
        # Of neither kind is it certain: a wrapper may have waited itself, or not waited.
        return await result if inspect.isawaitable(result) else result

    async def _in_thread(self, call: Callable[..., object], arguments: Sequence[object]) -> object:
        result = await to_thread.run_sync(
            _caught, call, arguments, limiter=self._runner.threads, abandon_on_cancel=True
        )
        if isinstance(result, Raised):
            try:
                raise result.error
            finally:
                del result  # the traceback holds this frame, which would hold the error
        return result

    async def _record(self, verdict: Verdict) -> Verdict | None:
        """Write the verdict; tell what it became, or ``None`` if that is not known."""
        if self._running.completion is not None:
            return verdict
        patch = patch_for(verdict)
        try:
            if patch is None or await self._settle(patch):
                return verdict
            if await self._settle(lifecycle.cancelled()):
                return Cancelled()
        except StoreUnavailableError as error:
            logger.error(  # noqa: TRY400  - the cause is the store, not this code
                "the outcome of task %s could not be recorded, it will run again when its lease "
                "ends: %s",
                self._task.id,
                error,
                extra={"task_id": str(self._task.id)},
            )
            return None
        except StoreError as error:
            return await self._record_refusal(verdict, error)
        return Lost()

    async def _record_refusal(self, verdict: Verdict, error: StoreError) -> Verdict | None:
        """Make a result that the database refuses a dead letter that says so."""
        if not isinstance(verdict, Done):
            logger.error(
                "the outcome of task %s was refused: %s",
                self._task.id,
                error,
                extra={"task_id": str(self._task.id)},
            )
            return None
        judge = Judge(
            task=self._task, kind=self._handler.policy, policy=self._policy, handler_started=True
        )
        return await self._record(judge.judge(Unstorable(error), self._runner.store.clock.now()))

    async def _settle(self, patch: lifecycle.Patch) -> bool:
        return await self._runner.settler.settle(self._running, patch)

    async def announce(self, verdict: Verdict, duration: timedelta) -> None:
        """Tell hooks and the log of an outcome that is recorded."""
        started = self._running.handler_started
        runner = self._runner
        span = duration if started else None
        await announce(runner.hooks, runner.meter, self._task, verdict, span)
