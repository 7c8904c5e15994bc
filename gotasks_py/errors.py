"""The errors that gotasks_py raises, and the signals that handlers raise to steer.

::

    GotasksError
    ├── ConfigurationError              wrong before anything ran
    │   ├── QueueConflictError          the registered queue policy differs
    │   ├── UnknownQueueError           the queue was not declared
    │   └── HandlerError                unusable, duplicate, missing or late handler
    ├── PayloadError                    a payload or result that cannot be stored or read
    │   └── PayloadTooLargeError
    ├── EnqueueError
    │   ├── DuplicateTaskError          .existing_id
    │   └── PartialEnqueueError         .ids, .failures
    ├── TaskNotFoundError               .task_id
    ├── InvalidStateError               .task_id, .status
    ├── TaskFailedError                 .task_id, .errors: the awaited task is dead
    │   └── TaskCancelledError          the awaited task was cancelled
    ├── ResultTimeoutError              also a TimeoutError
    ├── LeaseLostError                  .task_id: another worker holds the task
    └── StoreError                      the database refused; its own error is __cause__
        ├── StorePermissionError        the database user lacks a right, or the login failed
        └── StoreUnavailableError       worth retrying; .task_id where one was sent
    TaskSignal                          not errors: raised by handlers to steer
    ├── Retry                           a failed attempt with a delay of its own
    ├── Snooze                          later, without burning an attempt
    └── Reject                          dead now
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from gotasks_py.task import AttemptError, Status, TaskId


class GotasksError(Exception):
    """Something in gotasks_py went wrong."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").partition("\n")[0])


class ConfigurationError(GotasksError, ValueError):
    """A setting is wrong; nothing has been started or written."""


class QueueConflictError(ConfigurationError):
    """The queue is registered with another policy.

    ``differences`` maps each differing field to ``(registered, declared)``.
    """

    def __init__(self, queue: str, differences: Mapping[str, tuple[object, object]]) -> None:
        fields = "; ".join(
            f"{name}: registered {registered!r}, declared {declared!r}"
            for name, (registered, declared) in sorted(differences.items())
        )
        super().__init__(
            f"queue {queue!r} is registered with another policy ({fields}); "
            "declare the registered values, or change them with store.set_queue_policy()"
        )
        self.queue = queue
        self.differences = dict(differences)


class UnknownQueueError(ConfigurationError):
    """The queue is not declared on this manager."""

    def __init__(self, queue: str, declared: Sequence[str]) -> None:
        super().__init__(
            f"queue {queue!r} is not declared on this manager (declared: "
            f"{', '.join(map(repr, declared)) or 'none'}); add QueuePolicy({queue!r}) to queues="
        )
        self.queue = queue
        self.declared = tuple(declared)


class HandlerError(ConfigurationError):
    """A handler cannot be used: its signature, a duplicate, or it comes too late."""


class PayloadError(GotasksError, ValueError):
    """A payload or result does not fit its type or cannot be stored.

    ``path`` is the dotted path of the field at fault, empty for the whole value.
    ``problems`` has the path and the message of each field, where several are at fault.
    """

    def __init__(
        self, message: str, *, path: str = "", problems: Sequence[tuple[str, str]] = ()
    ) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.problems: Sequence[tuple[str, str]] = tuple(problems) or ((path, message),)


class PayloadTooLargeError(PayloadError):
    """The encoded payload or result is larger than the limit."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(
            f"the {what} takes {size} bytes, the limit is {limit}; "
            "store it elsewhere and pass a reference"
        )
        self.size = size
        self.limit = limit


class EnqueueError(GotasksError):
    """A task was not enqueued."""


class DuplicateTaskError(EnqueueError):
    """An active task already holds the unique key; ``existing_id`` is that task's."""

    def __init__(self, queue: str, unique_key: str, existing_id: TaskId | None) -> None:
        super().__init__(
            f"queue {queue!r} already has an active task with unique key {unique_key!r}: "
            f"{existing_id}"
        )
        self.queue = queue
        self.unique_key = unique_key
        self.existing_id = existing_id


class PartialEnqueueError(EnqueueError):
    """Some tasks of a bulk enqueue were not stored.

    ``ids`` is aligned with the input, ``None`` where it failed; ``failures`` maps
    each failed index to its error. All other tasks are stored.
    """

    def __init__(self, ids: Sequence[TaskId | None], failures: Mapping[int, GotasksError]) -> None:
        first = next(iter(sorted(failures.items())), None)
        example = f"; first: [{first[0]}] {first[1]}" if first else ""
        super().__init__(f"{len(failures)} of {len(ids)} tasks were not enqueued{example}")
        self.ids = list(ids)
        self.failures = dict(failures)


class TaskNotFoundError(GotasksError, LookupError):
    """No such task: the id is unknown, or the task was deleted or purged."""

    def __init__(self, task_id: object) -> None:
        super().__init__(f"no task {task_id}: it never existed, was deleted, or its TTL purged it")
        self.task_id = task_id


class InvalidStateError(GotasksError):
    """The task is not in a state that allows this."""

    def __init__(self, task_id: TaskId, status: Status, message: str) -> None:
        super().__init__(f"task {task_id} is {status}: {message}")
        self.task_id = task_id
        self.status = status


class TaskFailedError(GotasksError):
    """The awaited task is dead; ``errors`` holds its recorded attempts."""

    def __init__(self, task_id: TaskId, errors: Sequence[AttemptError]) -> None:
        last = f": {errors[-1].kind}: {errors[-1].message}" if errors else ""
        super().__init__(f"task {task_id} is {self._state}{last}")
        self.task_id = task_id
        self.errors = tuple(errors)

    _state = "dead"


class TaskCancelledError(TaskFailedError):
    """The awaited task was cancelled."""

    _state = "cancelled"


class ResultTimeoutError(GotasksError, TimeoutError):
    """The task did not finish in time; it is not affected."""

    def __init__(self, task_id: TaskId, timeout: float, status: Status) -> None:
        super().__init__(f"task {task_id} is still {status} after {timeout:g} s")
        self.task_id = task_id
        self.status = status


class LeaseLostError(GotasksError):
    """Another worker holds the task, or it is finished; nothing was recorded."""

    def __init__(self, task_id: TaskId) -> None:
        super().__init__(
            f"the lease of task {task_id} is lost: another worker holds it, or it is finished"
        )
        self.task_id = task_id


class StoreError(GotasksError):
    """The store refused an operation; the driver's error is the ``__cause__``."""


class StorePermissionError(StoreError):
    """The database user may not do this, or its login was refused."""


class StoreUnavailableError(StoreError):
    """The store did not answer; trying again may succeed.

    ``task_id`` is set where a task was sent and its outcome cannot be known: it may
    exist, once.
    """

    def __init__(self, message: str | None = None, *, task_id: TaskId | None = None) -> None:
        super().__init__(message)
        self.task_id = task_id


class TaskSignal(Exception):  # noqa: N818  - a signal, not an error
    """Raised by a handler to say what happens to its task next."""


class Retry(TaskSignal):
    """Fail this attempt and run again after ``delay`` (default: the task's backoff)."""

    def __init__(self, message: str = "", *, delay: timedelta | None = None) -> None:
        super().__init__(message or "the handler asked for a retry")
        self.delay = delay


class Snooze(TaskSignal):
    """Run again after ``delay``; this attempt does not count."""

    def __init__(self, delay: timedelta) -> None:
        super().__init__(f"snoozed for {delay}")
        self.delay = delay


class Reject(TaskSignal):
    """Move the task to the dead letters now, whatever attempts are left."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
