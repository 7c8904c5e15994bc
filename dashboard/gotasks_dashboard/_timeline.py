"""What has happened to a task, and what will, in order of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from typing_extensions import TypedDict

from gotasks_dashboard._values import moment
from gotasks_py import Status, Task


class Moment(TypedDict):
    """Something that happened to a task, or will unless something else does."""

    at: str
    what: str
    attempt: int | None
    worker: str | None
    detail: str | None
    is_future: bool


def timeline_of(task: Task) -> Sequence[Moment]:
    """Tell what is known of a task's life."""
    found = [*_past(task), *_future(task)]
    found.sort(key=lambda each: (each[0], each[1]["is_future"]))
    return [each for _, each in found]


def _past(task: Task) -> Iterator[tuple[datetime, Moment]]:
    yield _told(task.created_at, "created")
    if task.run_at > task.created_at:
        yield _told(task.run_at, "due", is_future=_waits(task) and task.due_at == task.run_at)
    for error in task.errors:
        yield _told(
            error.at,
            "failed",
            attempt=error.attempt,
            worker=error.worker,
            detail=f"{error.kind}: {error.message}" if error.message else error.kind,
        )
    if task.started_at is not None:
        worker = task.lease.owner if task.lease else None
        yield _told(task.started_at, "started", attempt=task.attempts or None, worker=worker)
    if task.cancel_requested_at is not None:
        yield _told(task.cancel_requested_at, "cancel_requested")
    if task.finished_at is not None and task.status.is_final:
        yield _told(task.finished_at, task.status.value)


def _future(task: Task) -> Iterator[tuple[datetime, Moment]]:
    if _waits(task) and task.due_at is not None and task.due_at != task.run_at:
        yield _told(task.due_at, "due", is_future=True)
    if task.status is Status.RUNNING and task.lease is not None:
        yield _told(task.lease.until, "lease_ends", worker=task.lease.owner, is_future=True)
    if task.expires_at is not None:
        yield _told(task.expires_at, "expires", is_future=True)


def _waits(task: Task) -> bool:
    return task.status is Status.PENDING


def _told(
    at: datetime,
    what: str,
    *,
    attempt: int | None = None,
    worker: str | None = None,
    detail: str | None = None,
    is_future: bool = False,
) -> tuple[datetime, Moment]:
    return at, {
        "at": moment(at) or "",
        "what": what,
        "attempt": attempt,
        "worker": worker,
        "detail": detail,
        "is_future": is_future,
    }
