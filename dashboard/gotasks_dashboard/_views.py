"""What is shown of tasks: rows of lists, and all of one task."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from typing_extensions import TypedDict

from gotasks_dashboard._permissions import Access, Permission
from gotasks_dashboard._timeline import Moment, timeline_of
from gotasks_dashboard._values import Tagged, moment, seconds, tagged
from gotasks_py import AttemptError, Count, Explanation, Status, Task


class CountView(TypedDict):
    """How many there are; at least as many where it is not exact."""

    value: int
    is_exact: bool


class ErrorView(TypedDict):
    """Why an attempt failed."""

    at: str
    attempt: int
    worker: str
    kind: str
    message: str


class FullErrorView(ErrorView):
    """Why an attempt failed, and where."""

    traceback: str | None


class TaskRow(TypedDict):
    """What lists tell of a task."""

    id: str
    queue: str
    type: str
    status: Status
    priority: int
    attempts: int
    max_attempts: int
    interruptions: int
    run_at: str
    due_at: str | None
    created_at: str
    updated_at: str
    started_at: str | None
    finished_at: str | None
    expires_at: str | None
    cancel_requested_at: str | None
    unique_key: str | None
    tags: Sequence[str]
    worker: str | None
    lease_until: str | None
    error: ErrorView | None
    fingerprint: str | None


class LeaseView(TypedDict):
    """Who runs a task, and until when unless it is renewed."""

    owner: str
    until: str


class ExplanationView(TypedDict):
    """Why a task is where it is."""

    reason: str
    sentence: str
    until: str | None
    by: str | None


class TaskView(TaskRow):
    """All of a task but its lease's token, which would let its reader settle it."""

    lane: int
    timeout_seconds: float | None
    backoff: Tagged
    retry_until: str | None
    errors_dropped: int
    errors: Sequence[FullErrorView]
    lease: LeaseView | None
    trace: Tagged
    trace_id: str | None
    trace_url: str | None
    hidden: bool
    is_redacted: bool
    payload: Tagged
    result: Tagged
    has_result: bool
    progress: Tagged
    metadata: Tagged
    explanation: ExplanationView
    timeline: Sequence[Moment]
    can: Sequence[str]
    schema: bool


_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-(?P<id>[0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_WRAPPER: Final = "value"

_POSSIBLE: Final[Mapping[str, tuple[Permission, frozenset[Status]]]] = {
    "requeue": (Permission.REQUEUE, frozenset({Status.DEAD})),
    "cancel": (Permission.CANCEL, frozenset({Status.PENDING, Status.RUNNING})),
    "delete": (Permission.DELETE, frozenset(Status)),
    "clone": (Permission.ENQUEUE, frozenset(Status)),
}


def count_view(count: Count) -> CountView:
    """Show a count."""
    return {"value": count.value, "is_exact": count.is_exact}


def total_of(counts: Iterable[Count]) -> CountView:
    """Show the sum of counts."""
    counted = list(counts)
    return {
        "value": sum(each.value for each in counted),
        "is_exact": all(each.is_exact for each in counted),
    }


def row_of(task: Task) -> TaskRow:
    """Show a task in a list."""
    lease = task.lease
    return {
        "id": str(task.id),
        "queue": task.queue,
        "type": task.type,
        "status": task.status,
        "priority": task.priority,
        "attempts": task.attempts,
        "max_attempts": task.max_attempts,
        "interruptions": task.interruptions,
        "run_at": moment(task.run_at) or "",
        "due_at": moment(task.due_at),
        "created_at": moment(task.created_at) or "",
        "updated_at": moment(task.updated_at) or "",
        "started_at": moment(task.started_at),
        "finished_at": moment(task.finished_at),
        "expires_at": moment(task.expires_at),
        "cancel_requested_at": moment(task.cancel_requested_at),
        "unique_key": task.unique_key,
        "tags": list(task.tags),
        "worker": lease.owner if lease else None,
        "lease_until": moment(lease.until) if lease else None,
        "error": _error_view(task.errors[-1]) if task.errors else None,
        "fingerprint": task.error_fingerprint,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """What is shown of a task besides itself."""

    explanation: Explanation
    trace_url: str | None
    is_redacted: bool
    has_schema: bool


def task_view(task: Task, access: Access, facts: TaskFacts) -> TaskView:
    """Show all of a task that somebody may see."""
    is_shown = Permission.VIEW_PAYLOADS in access.permissions
    trace_id = _trace_id(task)
    url = facts.trace_url
    return {
        **row_of(task),
        "lane": task.lane,
        "timeout_seconds": seconds(task.timeout),
        "backoff": tagged(task.backoff),
        "retry_until": moment(task.retry_until),
        "errors_dropped": task.errors_dropped,
        "errors": [
            {**_error_view(each), "traceback": each.traceback if is_shown else None}
            for each in task.errors
        ],
        "lease": _lease_view(task),
        "trace": tagged(task.trace),
        "trace_id": trace_id,
        "trace_url": url.replace("{trace_id}", trace_id) if url and trace_id else None,
        "hidden": not is_shown,
        "is_redacted": facts.is_redacted,
        "payload": tagged(unwrapped(task.payload)) if is_shown else None,
        "result": tagged(unwrapped(task.result)) if is_shown else None,
        "has_result": task.result is not None,
        "progress": tagged(unwrapped(task.progress)) if is_shown else None,
        "metadata": tagged(task.metadata) if is_shown else None,
        "explanation": _explanation_view(facts.explanation),
        "timeline": timeline_of(task),
        "can": list(_possible(task, access, is_redacted=facts.is_redacted)),
        "schema": facts.has_schema,
    }


def unwrapped(document: object) -> object:
    """Take a value that is no object out of the document that it is stored in."""
    if isinstance(document, dict) and len(document) == 1 and _WRAPPER in document:
        return document[_WRAPPER]
    return document


def _possible(task: Task, access: Access, *, is_redacted: bool) -> Iterable[str]:
    for what, (permission, statuses) in _POSSIBLE.items():
        if permission in access.permissions and task.status in statuses:
            is_hidden = is_redacted or Permission.VIEW_PAYLOADS not in access.permissions
            if what != "clone" or not is_hidden:
                yield what


def _trace_id(task: Task) -> str | None:
    parent = (task.trace or {}).get("traceparent")
    found = _TRACEPARENT.fullmatch(parent) if isinstance(parent, str) else None
    return found["id"] if found else None


def _error_view(error: AttemptError) -> ErrorView:
    return {
        "at": moment(error.at) or "",
        "attempt": error.attempt,
        "worker": error.worker,
        "kind": error.kind,
        "message": error.message,
    }


def _lease_view(task: Task) -> LeaseView | None:
    if task.lease is None:
        return None
    return {"owner": task.lease.owner, "until": moment(task.lease.until) or ""}


def _explanation_view(explanation: Explanation) -> ExplanationView:
    return {
        "reason": explanation.reason.value,
        "sentence": explanation.sentence,
        "until": moment(explanation.until),
        "by": explanation.by,
    }
