"""How an attempt ended, what follows from it, and the patch that records it.

It does no I/O and reads no clock: everything that a judgement needs is passed in.
"""

from __future__ import annotations

import logging
import traceback
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias, assert_never

from gotasks_py import lifecycle
from gotasks_py._running import Returned, StopReason
from gotasks_py.backoff import Backoff, Exponential, bounded
from gotasks_py.errors import PayloadError, Reject, Retry, Snooze
from gotasks_py.lifecycle import Failure, Patch
from gotasks_py.policy import AttemptPolicy, TypePolicy
from gotasks_py.task import Task

logger = logging.getLogger("gotasks_py.attempt")

_FALLBACK: Final = Exponential()
_MAX_MESSAGE: Final = 2_000
_MAX_TRACEBACK: Final = 8_000


@dataclass(frozen=True, slots=True)
class Raised:
    """The handler or its middleware raised, or the payload could not be read."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Unstorable:
    """The handler returned what cannot be stored. Its effects have happened."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Stopped:
    """The engine stopped the attempt."""

    reason: StopReason


@dataclass(frozen=True, slots=True)
class Expired:
    """The task was past its lifetime when it was claimed; nothing was started."""


Failing: TypeAlias = Raised | Unstorable | Stopped | Expired
Ending: TypeAlias = Returned | Failing


@dataclass(frozen=True, slots=True)
class Done:
    """Success."""

    value: object
    document: object


@dataclass(frozen=True, slots=True)
class Retrying:
    """A failure that another attempt follows."""

    failure: Failure
    error: BaseException
    delay: timedelta


@dataclass(frozen=True, slots=True)
class Dead:
    """A failure for good."""

    failure: Failure
    error: BaseException | None


@dataclass(frozen=True, slots=True)
class Snoozed:
    """Later, at the handler's wish."""

    delay: timedelta


@dataclass(frozen=True, slots=True)
class Released:
    """Handed back for another worker."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Stopped on request."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Another worker has the task; there is nothing to record."""


Verdict: TypeAlias = Done | Retrying | Dead | Snoozed | Released | Cancelled | Lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Decides what follows from an attempt that has not simply returned."""

    task: Task
    kind: TypePolicy
    policy: AttemptPolicy
    handler_started: bool

    def judge(self, ending: Failing, now: datetime) -> Verdict:
        """Tell what follows."""
        match ending:
            case Raised(error):
                return self._raised(error, now)
            case Unstorable(error):
                return self._dead("unstorable_result", error)
            case Stopped(reason):
                return self._stopped(reason, now)
            case Expired():
                message = f"the task's lifetime ended at {self.task.expires_at}"
                return Dead(self._failure("expired", message), None)
            case _:
                assert_never(ending)

    def _raised(self, error: BaseException, now: datetime) -> Verdict:
        match error:
            case Snooze(delay=delay):
                return Snoozed(self._checked(delay, error))
            case Reject():
                return self._dead("rejected", error)
            case Retry(delay=delay):
                return self._again("retry", error, now, delay)
            case PayloadError() if not self.handler_started:
                return self._again("invalid_payload", error, now)
            case _:
                kind = type(error).__qualname__
                if not self.kind.is_retryable(error):
                    return self._dead(kind, error)
                return self._again(kind, error, now)

    def _stopped(self, reason: StopReason, now: datetime) -> Verdict:
        match reason:
            case StopReason.TIMEOUT:
                error = TimeoutError(f"the attempt timed out after {self.policy.timeout}")
                if not self.kind.is_retryable(error):
                    return self._dead("timeout", error)
                return self._again("timeout", error, now)
            case StopReason.LEASE_LOST:
                return Lost()
            case StopReason.CANCELLED:
                return Cancelled()
            case StopReason.SHUTDOWN:
                return interrupted(self.task, handler_started=self.handler_started)
            case _:
                assert_never(reason)

    def _again(
        self, kind: str, error: BaseException, now: datetime, delay: timedelta | None = None
    ) -> Verdict:
        if self.task.is_last_attempt:
            return self._dead(kind, error)
        chosen = self._backoff(error) if delay is None else self._checked(delay, error)
        until = self.task.retry_until
        if until is not None and now + chosen > until:
            return self._dead(kind, error, note=f"; no retry after {until}")
        return Retrying(self._failure(kind, text_of(error), error), error, chosen)

    def _backoff(self, error: BaseException) -> timedelta:
        asked = _asked(self.policy.backoff, self.task, error)
        return _FALLBACK(self.task.attempts, error) if asked is None else asked

    def _checked(self, delay: object, error: BaseException) -> timedelta:
        try:
            return bounded(delay)
        except ValueError:
            logger.exception(
                "task %s was sent off with an unusable delay %r, using its backoff",
                self.task.id,
                delay,
                extra={"task_id": str(self.task.id)},
            )
            return self._backoff(error)

    def _dead(self, kind: str, error: BaseException, note: str = "") -> Dead:
        return Dead(self._failure(kind, text_of(error) + note, error), error)

    def _failure(self, kind: str, message: str, error: BaseException | None = None) -> Failure:
        return _failure(self.task, kind, message, error)


def interrupted(task: Task, *, handler_started: bool) -> Verdict:
    """Tell what follows when a worker has to let go of a task that is not finished."""
    if task.is_at_most_once and handler_started:
        message = "the worker was shut down, and the task may run at most once"
        return Dead(_failure(task, "interrupted", message), None)
    return Released()


def unreadable(task: Task, message: str) -> Dead:
    """Tell what follows when a claimed document is of no type that has a handler."""
    return Dead(_failure(task, "unreadable", message), None)


def _failure(task: Task, kind: str, message: str, error: BaseException | None = None) -> Failure:
    has_trace = error is not None and error.__traceback__ is not None
    return Failure(
        attempt=task.attempts,
        worker=task.lease.owner if task.lease else "",
        kind=kind,
        message=_storable(message, _MAX_MESSAGE),
        traceback=_trace_of(error) if error is not None and has_trace else None,
    )


def patch_for(verdict: Verdict) -> Patch | None:  # noqa: PLR0911  - one case per verdict
    """Tell what to record; ``None``: nothing."""
    match verdict:
        case Done(document=document):
            return lifecycle.completed(document)
        case Retrying(failure=failure, delay=delay):
            return lifecycle.retried(failure, delay)
        case Dead(failure=failure):
            return lifecycle.died(failure)
        case Snoozed(delay):
            return lifecycle.snoozed(delay)
        case Released():
            return lifecycle.released()
        case Cancelled():
            return lifecycle.cancelled()
        case Lost():
            return None
        case _:
            assert_never(verdict)


def text_of(error: BaseException) -> str:
    """Tell what an exception says, even if it cannot say it."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001  - user code, and all that is wanted is a text
        return f"<{type(error).__qualname__} that cannot be printed>"


def _asked(backoff: Backoff, task: Task, error: BaseException) -> timedelta | None:
    """Ask a backoff, which may be the user's code."""
    try:
        return bounded(backoff(task.attempts, error))
    except BaseException:  # whatever it raises, the task must not get lost over it
        logger.exception(
            "the backoff of task %s failed, using the default one",
            task.id,
            extra={"task_id": str(task.id)},
        )
        return None


def _trace_of(error: BaseException) -> str:
    try:
        text = "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001  - exceptions of users can break their own printing
        return ""
    return _storable(text, _MAX_TRACEBACK, keep_end=True)


def _storable(text: str, limit: int, *, keep_end: bool = False) -> str:
    clean = text.encode("utf-8", "replace").decode("utf-8")
    if len(clean) <= limit:
        return clean
    return f"…{clean[-limit:]}" if keep_end else f"{clean[:limit]}…"
