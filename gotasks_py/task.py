"""The task as it is stored, and how a stored document is read.

Reading never fails: a document that somebody edited by hand must not stop a queue, so a
field of the wrong kind reads as if it were absent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, TypeAlias

TaskId: TypeAlias = Hashable
"""A task's id: an ``ObjectId`` on MongoDB, its 24 hex digits in memory."""

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


@dataclass(frozen=True, kw_only=True)
class Task:
    """A snapshot of one stored task.

    ``payload`` and ``result`` are the stored documents; a value that is not an object is
    wrapped as ``{"value": ...}``. ``errors`` holds the latest attempts that failed, oldest
    first; ``errors_dropped`` counts those that no longer fit. ``error_fingerprint`` is what
    dead letters of the same cause have in common. ``trace`` is what a tracing of the program
    that enqueued it sent along.
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
    error_fingerprint: str | None = None
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
    trace: Mapping[str, object] | None = None

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
        kinds = (*document, *map(type, document.values()))
        shape = _SHAPES.get(kinds) or _learned(kinds, document)
        task = object.__new__(cls)
        # Claims of many read thousands in a second, and the initialiser of a frozen dataclass
        # sets each of its fields by a call.
        values = task.__dict__
        values.update(_ABSENT, metadata={})
        values.update(document)
        for key in shape.foreign:
            del values[key]
        for name, key, read in shape.readers:
            found = read(document[key])
            values[name] = _ABSENT[name] if found is None else found
        released_key = document.get("released_key")
        if isinstance(released_key, str) and not task.unique_key:
            values["unique_key"] = released_key or None
        return task


@dataclass(frozen=True, slots=True)
class _Shape:
    """What to do with the fields of a document, told by their names and types alone.

    ``foreign`` are no fields of a task. The ``readers`` make what they can of all that cannot
    be taken as it is; each names the task's field, the document's, and how to read it.
    """

    foreign: Sequence[str]
    readers: Sequence[tuple[str, str, Callable[[object], object]]]


def _learned(kinds: tuple[object, ...], document: Mapping[str, object]) -> _Shape:
    if len(_SHAPES) >= _MOST_SHAPES:  # of documents that hands have made
        _SHAPES.clear()
    shape = _SHAPES[kinds] = _Shape(
        foreign=[key for key in document if key not in _ABSENT],
        # What a document must not name comes first, for its right name to overrule.
        readers=[
            *((key, key, _nothing) for key in document if key in _RENAMED.values()),
            *(
                (_RENAMED.get(key, key), key, _READERS[key])
                for key, value in document.items()
                if key in _READERS and type(value) is not _USUAL.get(key)
            ),
        ],
    )
    return shape


def _nothing(_value: object) -> None:
    return None


def _as_it_is(value: object) -> object:
    return value


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _time(value: object) -> datetime | None:
    return value if isinstance(value, datetime) else None


def _mapping(value: object) -> Mapping[str, object] | None:
    return value if isinstance(value, dict) else None


def _number(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Shells write whole numbers as doubles.
    return int(value) if math.isfinite(value) else None


def _milliseconds(value: object) -> timedelta | None:
    number = _number(value) or 0
    try:
        return timedelta(milliseconds=number) if number > 0 else None
    except OverflowError:
        return None


def _status(value: object) -> Status | None:
    return _STATUSES.get(value) if isinstance(value, str) else None


def _tags(value: object) -> tuple[str, ...] | None:
    return tuple(tag for tag in value if isinstance(tag, str)) if isinstance(value, list) else None


def _lease(value: object) -> Lease | None:
    if not isinstance(value, dict):
        return None
    return Lease(
        token=_text(value.get("token")) or "",
        owner=_text(value.get("owner")) or "",
        until=_time(value.get("until")) or EPOCH,
        due_at=_time(value.get("due_at")),
    )


def _errors(value: object) -> tuple[AttemptError, ...] | None:
    if not isinstance(value, list):
        return None
    return tuple(_error(entry) for entry in value if isinstance(entry, dict))


def _error(entry: Mapping[str, object]) -> AttemptError:
    return AttemptError(
        at=_time(entry.get("at")) or EPOCH,
        attempt=_number(entry.get("attempt")) or 0,
        worker=_text(entry.get("worker")) or "",
        kind=_text(entry.get("kind")) or "",
        message=_text(entry.get("message")) or "",
        traceback=_text(entry.get("traceback")),
    )


_STATUSES: Final[Mapping[str, Status]] = {status.value: status for status in Status}
_TEXTS: Final = ("queue", "type", "unique_key", "error_fingerprint")
_NUMBERS: Final = (
    "lane",
    "priority",
    "attempts",
    "max_attempts",
    "interruptions",
    "errors_dropped",
)
_TIMES: Final = (
    "run_at",
    "due_at",
    "retry_until",
    "expires_at",
    "cancel_requested_at",
    "created_at",
    "updated_at",
    "started_at",
    "finished_at",
)
_RENAMED: Final = {"_id": "id", "timeout_ms": "timeout"}
_USUAL: Final[Mapping[str, type]] = {
    **dict.fromkeys(_TEXTS, str),
    **dict.fromkeys(_NUMBERS, int),
    **dict.fromkeys(_TIMES, datetime),
}
_READERS: Final[Mapping[str, Callable[[object], object]]] = {
    **dict.fromkeys(_TEXTS, _text),
    **dict.fromkeys(_NUMBERS, _number),
    **dict.fromkeys(_TIMES, _time),
    **dict.fromkeys(("_id", "payload", "result", "progress"), _as_it_is),
    "status": _status,
    "tags": _tags,
    "metadata": _mapping,
    "backoff": _mapping,
    "trace": _mapping,
    "timeout_ms": _milliseconds,
    "lease": _lease,
    "errors": _errors,
}
# A task as an empty document reads.
_ABSENT: Final[Mapping[str, Any]] = {
    **{each.name: each.default for each in fields(Task) if each.default is not MISSING},
    "id": None,
    "queue": "",
    "type": "",
    "status": Status.PENDING,
    "max_attempts": 0,
    "metadata": MappingProxyType({}),
}
_SHAPES: Final[dict[tuple[object, ...], _Shape]] = {}
_MOST_SHAPES: Final = 1_000
