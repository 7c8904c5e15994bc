"""The task as it is stored, and how a stored document is read.

Reading never fails: a document that somebody edited by hand must not stop a queue, so a
field of the wrong kind reads as if it were absent.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TypeAlias, TypeVar

TaskId: TypeAlias = Hashable
"""A task's id: an ``ObjectId`` on MongoDB, its 24 hex digits in memory."""

T = TypeVar("T")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Status(StrEnum):
    """Where a task is in its life."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether nothing happens to the task any more without being asked for."""
        return self in {Status.DONE, Status.DEAD, Status.CANCELLED}


@dataclass(frozen=True, slots=True)
class AttemptError:
    """Why one attempt did not end in success.

    ``kind`` is the name of the exception class, or what the engine found:
    ``timeout``, ``lease_expired``, ``interrupted``, ``rejected``, ``retry``, ``expired``,
    ``invalid_payload``, ``unstorable_result``, ``unreadable``.
    """

    at: datetime
    attempt: int
    worker: str
    kind: str
    message: str
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to settle a running task: only the holder of ``token`` may write.

    ``token`` is fresh at every claim, so it serves as a fencing token for outside systems.
    ``due_at`` is when the task had become claimable.
    """

    token: str
    owner: str
    until: datetime
    due_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class LeaseRef:
    """What a fenced write names: the task, where it lives, and the token that proves it ours."""

    id: TaskId
    queue: str
    lane: int
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A snapshot of one stored task.

    ``payload`` and ``result`` are the stored documents; a value that is not an object is
    wrapped as ``{"value": ...}``. ``errors`` holds the latest attempts that failed, oldest
    first; ``errors_dropped`` counts those that no longer fit.
    """

    id: TaskId
    queue: str
    type: str
    status: Status
    lane: int = 0
    priority: int = 0
    attempts: int = 0
    max_attempts: int = 1
    interruptions: int = 0
    payload: object = None
    result: object = None
    progress: object = None
    errors: Sequence[AttemptError] = ()
    errors_dropped: int = 0
    unique_key: str | None = None
    tags: Sequence[str] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)
    lease: Lease | None = None
    run_at: datetime = EPOCH
    due_at: datetime | None = None
    retry_until: datetime | None = None
    expires_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    created_at: datetime = EPOCH
    updated_at: datetime = EPOCH
    started_at: datetime | None = None
    finished_at: datetime | None = None
    timeout: timedelta | None = None
    backoff: Mapping[str, object] | None = None

    @property
    def is_last_attempt(self) -> bool:
        """Whether a failure now is final."""
        return self.attempts >= self.max_attempts

    @property
    def is_at_most_once(self) -> bool:
        """Whether the handler may never be started twice."""
        return self.max_attempts <= 1

    @classmethod
    def from_document(cls, document: Mapping[str, object]) -> Task:
        """Read a stored document; a field of the wrong kind reads as absent."""
        read = _Reader(document)
        return cls(
            id=document.get("_id"),
            queue=read.one(str, "queue") or "",
            type=read.one(str, "type") or "",
            status=read.status(),
            lane=read.number("lane"),
            priority=read.number("priority"),
            attempts=read.number("attempts"),
            max_attempts=read.number("max_attempts"),
            interruptions=read.number("interruptions"),
            payload=document.get("payload"),
            result=document.get("result"),
            progress=document.get("progress"),
            errors=read.errors(),
            errors_dropped=read.number("errors_dropped"),
            unique_key=read.one(str, "unique_key") or read.one(str, "released_key"),
            tags=tuple(tag for tag in read.many("tags") if isinstance(tag, str)),
            metadata=read.mapping("metadata") or {},
            lease=read.lease(),
            run_at=read.one(datetime, "run_at") or EPOCH,
            due_at=read.one(datetime, "due_at"),
            retry_until=read.one(datetime, "retry_until"),
            expires_at=read.one(datetime, "expires_at"),
            cancel_requested_at=read.one(datetime, "cancel_requested_at"),
            created_at=read.one(datetime, "created_at") or EPOCH,
            updated_at=read.one(datetime, "updated_at") or EPOCH,
            started_at=read.one(datetime, "started_at"),
            finished_at=read.one(datetime, "finished_at"),
            timeout=read.milliseconds("timeout_ms"),
            backoff=read.mapping("backoff"),
        )


class _Reader:
    """Reads fields of a document, each as absent when it is not of the kind asked for."""

    def __init__(self, document: Mapping[str, object]) -> None:
        self._document = document

    def one(self, kind: type[T], name: str) -> T | None:
        value = self._document.get(name)
        return value if isinstance(value, kind) else None

    def number(self, name: str) -> int:
        value = self._document.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return 0
        # Shells write whole numbers as doubles.
        return int(value) if math.isfinite(value) else 0

    def many(self, name: str) -> Sequence[object]:
        return self.one(list, name) or []

    def mapping(self, name: str) -> Mapping[str, object] | None:
        return self.one(dict, name)

    def milliseconds(self, name: str) -> timedelta | None:
        value = self.number(name)
        try:
            return timedelta(milliseconds=value) if value > 0 else None
        except OverflowError:
            return None

    def status(self) -> Status:
        value = self.one(str, "status")
        return next((status for status in Status if status == value), Status.PENDING)

    def lease(self) -> Lease | None:
        nested = self.mapping("lease")
        if nested is None:
            return None
        read = _Reader(nested)
        return Lease(
            token=read.one(str, "token") or "",
            owner=read.one(str, "owner") or "",
            until=read.one(datetime, "until") or EPOCH,
            due_at=read.one(datetime, "due_at"),
        )

    def errors(self) -> tuple[AttemptError, ...]:
        entries = (entry for entry in self.many("errors") if isinstance(entry, dict))
        return tuple(_error(_Reader(entry)) for entry in entries)


def _error(read: _Reader) -> AttemptError:
    return AttemptError(
        at=read.one(datetime, "at") or EPOCH,
        attempt=read.number("attempt"),
        worker=read.one(str, "worker") or "",
        kind=read.one(str, "kind") or "",
        message=read.one(str, "message") or "",
        traceback=read.one(str, "traceback"),
    )
