"""What a store may offer beside: to look at many tasks, each question bounded and index-served.

Lists and counts are for people and their tools. They never load payloads or results, look
at a bounded number of tasks for each question, and say so where that was not all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable

from gotasks_py.checks import check_moment, check_name
from gotasks_py.controls import Pause
from gotasks_py.errors import ConfigurationError
from gotasks_py.policy import QueuePolicy
from gotasks_py.task import Status, Task, TaskId

MOST_LISTED: Final = 1000
"""How many tasks one page may hold."""

_MAX_TEXT: Final = 2000

Literals: TypeAlias = str | int | float | bool | datetime | None
"""What a field of a payload may be compared with."""

StatusName: TypeAlias = Status | Literal["pending", "running", "done", "dead", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """Which tasks are meant: those that fit everything that is given.

    Every value is taken literally; there are no operators and no patterns.

    Attributes:
        queue, type: Names.
        status: One status, or several.
        tag: One of the task's tags.
        id: The task's id, or its text.
        unique_key: The key, held now or until the task was final.
        worker: Running on this manager, or on this worker of it.
        payload: Values by dotted path, such as ``{"user.id": 7}``; a list fits if one of its
            items does, and ``None`` fits what is absent.
        error: A piece of the message of one of its errors.
        fingerprint: Dead of a failure with this fingerprint; see :class:`DeadGroup`.
        run_from, run_before: Bounds of the time from which the task was to run.

    Raises:
        ConfigurationError: a value of another kind: an operator, a pattern, a naive time.
    """

    queue: str | None = None
    type: str | None = None
    status: StatusName | Sequence[StatusName] | None = None
    tag: str | None = None
    id: object = None
    unique_key: str | None = None
    worker: str | None = None
    payload: Mapping[str, Literals] = field(default_factory=dict[str, Literals])
    error: str | None = None
    fingerprint: str | None = None
    run_from: datetime | None = None
    run_before: datetime | None = None

    def __post_init__(self) -> None:
        for what in ("queue", "type", "tag", "unique_key", "worker", "fingerprint"):
            value = getattr(self, what)
            if value is not None:
                check_name(what.replace("_", " "), value)
        if self.error is not None:
            _check_text(self.error)
        for what in ("run_from", "run_before"):
            if getattr(self, what) is not None:
                check_moment(what, getattr(self, what))
        _check_payload(self.payload)
        _check_id(self.id)
        _read_statuses(self.status)

    @property
    def statuses(self) -> frozenset[Status]:
        """The statuses that are meant; all of them where none is given."""
        chosen = _read_statuses(self.status)
        if self.worker is not None:
            chosen &= {Status.RUNNING}
        return chosen if self.fingerprint is None else chosen & {Status.DEAD}


@dataclass(frozen=True, slots=True)
class Count:
    """How many there are: just so many if ``is_exact``, else at least as many.

    Counting ends at a bound, so that it never takes long; as text that is ``10000+``.
    """

    value: int
    is_exact: bool = True

    def __str__(self) -> str:
        return str(self.value) if self.is_exact else f"{self.value}+"


@dataclass(frozen=True, slots=True)
class TaskPage:
    """Some of the tasks that were asked for, in the order of ``run_at``, then id.

    They come without payload, result, progress and metadata, and with their latest error
    alone; ask for one by its id to see it all. ``cursor`` is what the next page is to be
    asked for with; ``None``: there is none. A page may hold fewer tasks than asked for, or
    none, and have a cursor: as many as one question may look at did not fit.
    """

    tasks: Sequence[Task]
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOverview:
    """How a queue is doing.

    ``scheduled`` is the part of the pending tasks that is not due yet. ``oldest_due_age``
    is for how long the first task in line has been due; ``None``: none is. ``policy`` is
    as recorded in the store.
    """

    name: str
    policy: QueuePolicy
    counts: Mapping[Status, Count]
    scheduled: Count
    oldest_due_age: timedelta | None
    pause: Pause | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadGroup:
    """Dead letters of one queue that died of the same.

    The fingerprint is of the kind of the error and of its message without numbers and ids.
    ``latest`` is the latest of them by ``run_at``, as in a :class:`TaskPage`.
    """

    queue: str
    fingerprint: str
    kind: str
    message: str
    count: Count
    latest: Task


@dataclass(frozen=True, slots=True)
class DeadPage:
    """Groups of dead letters, the largest of the page first; ``cursor`` as in a TaskPage."""

    groups: Sequence[DeadGroup]
    cursor: str | None = None


@runtime_checkable
class Inspecting(Protocol):
    """Looks at many tasks. Bad cursors raise :class:`ConfigurationError`."""

    async def overview(self, queue: str | None = None) -> Sequence[QueueOverview]:
        """Tell how each recorded queue is doing, by name; or only the one."""
        ...

    async def find_tasks(
        self,
        wanted: TaskFilter,
        *,
        limit: int = 50,
        cursor: str | None = None,
        newest_first: bool = True,
    ) -> TaskPage:
        """List tasks, page by page. Tasks that change meanwhile may move between pages."""
        ...

    async def count_tasks(self, wanted: TaskFilter, *, limit: int = 10_000) -> Count:
        """Count tasks up to ``limit``: what is not exact is at least as many."""
        ...

    async def dead_groups(
        self, queue: str | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> DeadPage:
        """Group the dead letters of a queue, or of all, by what they died of."""
        ...

    async def delete_tasks(self, wanted: TaskFilter, ids: Sequence[TaskId]) -> int:
        """Remove those of the tasks that still fit, at once; tell how many."""
        ...


@runtime_checkable
class Tagging(Protocol):
    """What a store may offer beside: to tell which tags are in use."""

    async def tags(self, prefix: str = "", *, limit: int = 20) -> Sequence[str]:
        """List tags that begin so, in the order of their characters."""
        ...


def check_page_size(limit: object) -> None:
    """Refuse a page of no tasks, or of too many.

    Raises:
        ConfigurationError: not a whole number from 1 to 1000.
    """
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_LISTED:
        msg = f"limit must be a whole number from 1 to {MOST_LISTED}, not {limit!r}"
        raise ConfigurationError(msg)


def bad_cursor(cursor: object) -> ConfigurationError:
    """Make the error for what is no cursor."""
    return ConfigurationError(f"cursor must be that of an earlier page, not {cursor!r}")


def _check_text(value: object) -> None:
    if not isinstance(value, str) or not 1 <= len(value) <= _MAX_TEXT or "\0" in value:
        msg = f"error must be a text of 1 to {_MAX_TEXT} characters, not {value!r}"
        raise ConfigurationError(msg)


def _check_id(value: object) -> None:
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str):
        msg = f"id must be a task's id or its text, not {value!r}"
        raise ConfigurationError(msg)


def _check_payload(payload: object) -> None:
    if not isinstance(payload, Mapping):
        msg = f"payload must map paths to values, such as {{'user.id': 7}}, not {payload!r}"
        raise ConfigurationError(msg)
    for path, value in payload.items():
        _check_path(path)
        if isinstance(value, datetime):
            check_moment(f"payload {path!r}", value)
        elif not isinstance(value, str | int | float | bool | None):
            msg = (
                f"payload {path!r} is compared with a text, a number, a truth value, a time or "
                f"None, not {value!r}; for a value inside an object give its dotted path"
            )
            raise ConfigurationError(msg)
        elif not _is_storable(value):
            msg = f"payload {path!r}: no stored payload can have the value {value!r}"
            raise ConfigurationError(msg)


def _is_storable(value: str | float | None) -> bool:
    """Whether a database can hold it: whole numbers of 64 bits, and texts that are Unicode."""
    if isinstance(value, str):
        return not any("\ud800" <= each <= "\udfff" for each in value)
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def _check_path(path: object) -> None:
    if not isinstance(path, str) or not all(_is_step(step) for step in path.split(".")):
        msg = f"a path into a payload is names with dots between, such as 'user.id', not {path!r}"
        raise ConfigurationError(msg)


def _is_step(step: str) -> bool:
    return bool(step) and not step.startswith("$") and "\0" not in step


def _read_statuses(value: StatusName | Sequence[StatusName] | None) -> frozenset[Status]:
    if value is None:
        return frozenset(Status)
    several = [value] if isinstance(value, str) else value
    try:
        return frozenset(Status(each) for each in several)
    except (TypeError, ValueError):
        names = ", ".join(Status)
        msg = f"status must be one or several of {names}, not {value!r}"
        raise ConfigurationError(msg) from None
