"""What applies to a task, and where it comes from.

The order is task, then type (the handler's options), then queue, then manager. It is
resolved here and nowhere else: :func:`resolve` when the task is enqueued, for what is
stored with it, and :func:`attempt_policy` when it runs, for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from gotasks_py import backoff as backoffs
from gotasks_py.backoff import Backoff, Exponential
from gotasks_py.checks import (
    LONGEST,
    MAX_WEIGHT,
    MAX_WORKERS,
    check_count,
    check_duration,
    check_moment,
    check_name,
)
from gotasks_py.clock import truncated
from gotasks_py.errors import ConfigurationError, QueueConflictError
from gotasks_py.lanes import MAX_LANES, Lanes
from gotasks_py.task import Task

_LONGEST_TTL: Final = 100 * LONGEST
_MILLISECOND: Final = timedelta(milliseconds=1)
MAX_TAGS: Final = 100
MAX_ATTEMPTS: Final = 1_000_000_000
_PRIORITIES: Final = range(-(2**31), 2**31)


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """Declares a queue, and what holds for its tasks unless they say otherwise.

    ``ttl`` (how long a task is kept after ``run_at``, or after now if that is past; at most
    100 years; ``None`` or zero: for ever),
    ``max_attempts``, ``timeout``, ``backoff`` and ``lanes`` (into how many parts, 1 to 64,
    the queue is divided for many claimers; the order of claims holds within one; default 1)
    are recorded in the store with the first declaration; every later one must agree.
    ``weight`` (this queue's share of claims among the queues that share a pool, at most
    1 000 000) and ``workers`` (a pool of its own of that size, at most 10 000) concern this
    manager alone.

    Raises:
        ConfigurationError: a name that is not 1-200 printable characters or starts with
            ``$``, a negative time, fewer than one attempt, a custom backoff callable, fewer
            than one lane or more than 64, a weight or workers out of their bounds.
    """

    name: str
    ttl: timedelta | None = field(default=None, kw_only=True)
    max_attempts: int | None = field(default=None, kw_only=True)
    timeout: timedelta | None = field(default=None, kw_only=True)
    backoff: Backoff | None = field(default=None, kw_only=True)
    lanes: int = field(default=1, kw_only=True)
    weight: int = field(default=1, kw_only=True)
    workers: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_name("queue", self.name)
        _check_ttl(self.ttl)
        _check_attempts(self.max_attempts)
        _check_timeout(self.timeout)
        if self.backoff is not None:
            backoffs.to_document(self.backoff)
        _check_lanes(self.lanes)
        check_count("weight", self.weight, maximum=MAX_WEIGHT)
        if self.workers is not None:
            check_count("workers", self.workers, maximum=MAX_WORKERS)

    def refuse_conflict(self, recorded: Mapping[str, object]) -> None:
        """Compare this declaration with what a store has recorded.

        Raises:
            QueueConflictError: they differ.
        """
        recorded = {"lanes": 1, **recorded}  # which early versions did not write
        differing = {
            name: (recorded.get(name), value)
            for name, value in self.registered().items()
            if recorded.get(name) != value
        }
        if differing:
            raise QueueConflictError(self.name, differing)

    def registered(self) -> dict[str, object]:
        """Describe what must agree among all declarations, as plain data."""
        return {
            "ttl_ms": _milliseconds(self.ttl) or None,
            "max_attempts": self.max_attempts,
            "timeout_ms": _milliseconds(self.timeout),
            "backoff": None if self.backoff is None else backoffs.to_document(self.backoff),
            "lanes": self.lanes,
        }

    @classmethod
    def from_document(cls, name: str, recorded: Mapping[str, object]) -> QueuePolicy:
        """Read what a store has recorded of a queue; what makes no sense reads as not set."""
        backoff = recorded.get("backoff")
        return cls(
            name,
            ttl=_span(_count(recorded.get("ttl_ms"), _LONGEST_TTL // _MILLISECOND)),
            max_attempts=_count(recorded.get("max_attempts"), MAX_ATTEMPTS),
            timeout=_span(_count(recorded.get("timeout_ms"), LONGEST // _MILLISECOND)),
            backoff=backoffs.from_document(backoff) if isinstance(backoff, Mapping) else None,
            lanes=Lanes.from_document(recorded).current,
        )

    def recorded_after(self, recorded: Mapping[str, object] | None) -> dict[str, object]:
        """Describe what a store has to record when this policy follows another, or none."""
        before = None if recorded is None else Lanes.from_document(recorded)
        lanes = before.changed(self.lanes) if before else Lanes.first(self.lanes)
        return self.registered() | lanes.to_document()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPolicy:
    """How one task is to be treated; what is left out comes from its queue or manager.

    Attributes:
        run_at: Not before this time; aware. Default: now.
        delay: Not before this span from now; instead of ``run_at``.
        max_attempts: How often the handler may be started; 1 means at most once, ever.
        unique_key: At most one active task of its queue holds a key; it is free again
            when the task is final.
        priority: Higher goes first, default 0.
        timeout: How long one attempt may take.
        backoff: ``Fixed``, ``Linear``, ``Exponential`` or ``Fibonacci``.
        retry_until: No retry starts after this time; a timedelta counts from now.
        ttl: How long the task is kept, as for a ``QueuePolicy``; zero: for ever.
        tags: Words to find the task by.
        metadata: Plain data that travels with the task.
    """

    run_at: datetime | None = None
    delay: timedelta | None = None
    max_attempts: int | None = None
    unique_key: str | None = None
    priority: int = 0
    timeout: timedelta | None = None
    backoff: Backoff | None = None
    retry_until: datetime | timedelta | None = None
    ttl: timedelta | None = None
    tags: Sequence[str] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.run_at is not None and self.delay is not None:
            msg = "give run_at or delay, not both"
            raise ConfigurationError(msg)
        if self.run_at is not None:
            check_moment("run_at", self.run_at)
        if self.delay is not None:
            check_duration("delay", self.delay, minimum=timedelta(0))
        _check_attempts(self.max_attempts)
        if self.unique_key is not None:
            check_name("unique key", self.unique_key)
        _check_priority(self.priority)
        _check_timeout(self.timeout)
        if self.backoff is not None:
            backoffs.to_document(self.backoff)
        _check_retry_until(self.retry_until)
        _check_ttl(self.ttl)
        _check_tags(self.tags)
        if not isinstance(self.metadata, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  - checked for those who do not check types
            msg = f"metadata must be a mapping of names to plain data, not {self.metadata!r}"
            raise ConfigurationError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What a manager applies where neither the task, its type nor its queue decides."""

    max_attempts: int = 3
    timeout: timedelta | None = None
    backoff: Backoff = field(default_factory=Exponential)

    def __post_init__(self) -> None:
        _check_attempts(self.max_attempts)
        _check_timeout(self.timeout)
        _check_callable(self.backoff)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypePolicy:
    """What a handler applies to tasks of its type.

    ``give_up_on``: exceptions that make the task a dead letter at once. ``retry_on``: when
    given, all others do. An exception that matches both is given up on.
    """

    timeout: timedelta | None = None
    backoff: Backoff | None = None
    retry_on: tuple[type[BaseException], ...] | None = None
    give_up_on: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        _check_timeout(self.timeout)
        _check_callable(self.backoff)
        _check_exceptions("retry_on", self.retry_on or ())
        _check_exceptions("give_up_on", self.give_up_on)

    def is_retryable(self, error: BaseException) -> bool:
        """Whether another attempt makes sense after this error."""
        if isinstance(error, self.give_up_on):
            return False
        return self.retry_on is None or isinstance(error, self.retry_on)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptPolicy:
    """What holds for one attempt of one task."""

    timeout: timedelta | None
    backoff: Backoff


def resolve(
    policy: TaskPolicy, queue: QueuePolicy, defaults: Defaults, now: datetime
) -> dict[str, object]:
    """Settle everything that is stored with a task when it is enqueued at ``now``.

    Raises:
        ConfigurationError: a time beyond what a date can hold.
    """
    run_at = _utc(policy.run_at) if policy.run_at else _after(now, policy.delay)
    ttl = queue.ttl if policy.ttl is None else policy.ttl
    fields: dict[str, object] = {
        "priority": policy.priority,
        "run_at": run_at,
        # Never before now, so that new work lands above what claims have already passed.
        "due_at": max(run_at, now),
        "max_attempts": policy.max_attempts or queue.max_attempts or defaults.max_attempts,
        "tags": list(policy.tags),
    }
    optional = {
        "unique_key": policy.unique_key,
        "timeout_ms": _milliseconds(policy.timeout),
        "backoff": policy.backoff and backoffs.to_document(policy.backoff),
        "retry_until": _moment(policy.retry_until, now),
        "ttl_ms": _milliseconds(ttl) or None,
        "expires_at": _after(max(run_at, now), ttl) if ttl else None,
    }
    return fields | {name: value for name, value in optional.items() if value is not None}


def attempt_policy(
    task: Task, kind: TypePolicy, queue: QueuePolicy, defaults: Defaults
) -> AttemptPolicy:
    """Settle what holds for one attempt of a task."""
    stored = None if task.backoff is None else backoffs.from_document(task.backoff)
    return AttemptPolicy(
        timeout=task.timeout or kind.timeout or queue.timeout or defaults.timeout,
        backoff=stored or kind.backoff or queue.backoff or defaults.backoff,
    )


def _check_lanes(value: int) -> None:
    check_count("lanes", value)
    if value > MAX_LANES:
        msg = f"a queue has at most {MAX_LANES} lanes, not {value}"
        raise ConfigurationError(msg)


def _check_attempts(value: int | None) -> None:
    if value is not None:
        check_count("max_attempts", value, maximum=MAX_ATTEMPTS)


def _check_timeout(value: timedelta | None) -> None:
    if value is not None:
        check_duration("timeout", value, minimum=timedelta(milliseconds=1), maximum=LONGEST)


def _check_callable(backoff: object) -> None:
    if backoff is not None and not callable(backoff):
        msg = f"backoff must be callable as (attempt, error) -> timedelta, not {backoff!r}"
        raise ConfigurationError(msg)


def _check_exceptions(what: str, kinds: Sequence[object]) -> None:
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            msg = f"{what} must be exception classes, not {kind!r}"
            raise ConfigurationError(msg)


def _check_priority(value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value not in _PRIORITIES:
        msg = f"priority must be a whole number of 32 bits, not {value!r}"
        raise ConfigurationError(msg)


def _check_ttl(value: timedelta | None) -> None:
    if value is not None:
        check_duration("ttl", value, minimum=timedelta(0), maximum=_LONGEST_TTL)


def _check_retry_until(value: datetime | timedelta | None) -> None:
    if isinstance(value, timedelta):
        check_duration("retry_until", value, minimum=timedelta(0))
    elif value is not None:
        check_moment("retry_until", value)


def _check_tags(tags: Sequence[str]) -> None:
    if isinstance(tags, str) or not isinstance(tags, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]  - one word is an easy mistake
        msg = f"tags must be a sequence of strings, not {tags!r}"
        raise ConfigurationError(msg)
    if len(tags) > MAX_TAGS:
        msg = f"a task has at most {MAX_TAGS} tags, not {len(tags)}"
        raise ConfigurationError(msg)
    for tag in tags:
        check_name("tag", tag)


def _milliseconds(value: timedelta | None) -> int | None:
    # Rounded up: a timeout of 0.4 ms must not become none at all.
    return None if value is None else -(-value // timedelta(milliseconds=1))


def _count(value: object, most: int) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 < value <= most else None


def _span(milliseconds: int | None) -> timedelta | None:
    return None if milliseconds is None else milliseconds * _MILLISECOND


def _after(moment: datetime, span: timedelta | None) -> datetime:
    if span is None:
        return moment
    try:
        return truncated(moment + span)
    except OverflowError:
        msg = f"{span} from {moment:%Y-%m-%d} is beyond the year 9999"
        raise ConfigurationError(msg) from None


def _moment(value: datetime | timedelta | None, now: datetime) -> datetime | None:
    if isinstance(value, timedelta):
        return _after(now, value)
    return _utc(value) if value else None


def _utc(moment: datetime) -> datetime:
    try:
        return truncated(moment.astimezone(UTC))
    except OverflowError:
        msg = f"{moment} is beyond the years 1 to 9999 in UTC"
        raise ConfigurationError(msg) from None
