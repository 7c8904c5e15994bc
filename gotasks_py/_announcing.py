"""Counts, and tells hooks and the log, how an attempt ended, once that is recorded."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final, assert_never

from gotasks_py._meter import Meter
from gotasks_py._verdict import (
    Cancelled,
    Dead,
    Done,
    Lost,
    Released,
    Retrying,
    Snoozed,
    Verdict,
)
from gotasks_py.hooks import HookCaller, HookName, TaskEvent
from gotasks_py.task import Task

logger = logging.getLogger("gotasks_py.attempt")

_HOOKS: Final[Mapping[type[Verdict], HookName]] = {
    Done: "on_done",
    Retrying: "before_retry",
    Dead: "on_dead",
    Cancelled: "on_cancelled",
    Lost: "on_lease_lost",
}


async def announce(
    hooks: HookCaller, meter: Meter, task: Task, verdict: Verdict, duration: timedelta | None
) -> None:
    """Count an outcome and tell of it; an attempt that never started has no ``duration``."""
    count(meter, task, verdict, duration)
    is_quiet = not hooks.has_any and not logger.isEnabledFor(logging.DEBUG)
    if is_quiet and isinstance(verdict, Done):
        return  # most of a busy day
    event = _event(task, verdict, duration)
    _log(task, verdict)
    if duration is not None and not isinstance(verdict, Lost):
        await hooks.call("after_handle", event)
    name = _HOOKS.get(type(verdict))
    if name is not None:
        await hooks.call(name, event)


def count(meter: Meter, task: Task, verdict: Verdict, duration: timedelta | None) -> None:
    """Count an outcome that is recorded."""
    match verdict:
        case Done():
            meter.done(task, duration)
        case Retrying() | Dead():
            meter.failed(task, duration, is_dead=isinstance(verdict, Dead))
        case Cancelled():
            meter.cancelled(task)
        case Lost():
            meter.lease_lost(task)
        case Released():
            meter.interrupted(task)
        case Snoozed():
            meter.snoozed(task)
        case _:
            assert_never(verdict)


def _event(task: Task, verdict: Verdict, duration: timedelta | None) -> TaskEvent:
    event = TaskEvent(task=task, duration=duration)
    match verdict:
        case Done(value=value):
            return replace(event, result=value)
        case Retrying(error=error, delay=delay):
            return replace(event, error=error, delay=delay)
        case Dead(error=error):
            return replace(event, error=error)
        case Cancelled() | Lost() | Snoozed() | Released():
            return event
        case _:
            assert_never(verdict)


def _log(task: Task, verdict: Verdict) -> None:
    name = f"{task.queue}/{task.type}"
    extra = {"task_id": str(task.id)}
    match verdict:
        case Dead(failure=failure):
            logger.error(
                "task %s (%s) is dead after attempt %d of %d: %s: %s",
                task.id,
                name,
                task.attempts,
                task.max_attempts,
                failure.kind,
                failure.message,
                extra=extra,
            )
        case Retrying(failure=failure, delay=delay):
            logger.warning(
                "task %s (%s) failed attempt %d of %d, next in %s: %s: %s",
                task.id,
                name,
                task.attempts,
                task.max_attempts,
                delay,
                failure.kind,
                failure.message,
                extra=extra,
            )
        case Lost():
            logger.warning(
                "task %s (%s) was taken over by another worker, or is finished: nothing of "
                "attempt %d is recorded",
                task.id,
                name,
                task.attempts,
                extra=extra,
            )
        case _:
            logger.debug(
                "task %s (%s): %s",
                task.id,
                name,
                type(verdict).__name__.lower(),
                extra=extra,
            )
