"""Every change of a task's state, each stated once as plain data.

Rules of this file: all transitions live here and nowhere else; it knows no database and
reads no clock. A transition is a :class:`Patch`: for each field an expression over the
document as it was. Stores do not list fields; they evaluate the expressions (memstore) or
render them for the server (mongostore). Time is symbolic (:class:`Now`), so that the store
that applies a patch is the one that reads the clock.

``due_at`` exists exactly while a claim may take the task: pending from ``run_at`` on, and
running with attempts left from the end of the lease on. A running task that may not be
claimed again carries ``reap_at`` instead, for the janitor.

A pending task with a lease is *reserved*: a claim of many took it for an attempt that is
its last, and that attempt has yet to begin. Until it does, nothing is used up.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from gotasks_py._claiming import (
    batch_token,
    claimed,
    claimed_as_known,
    claimed_in_batch,
    started,
    unreserved,
)
from gotasks_py._patch import MAX_ERRORS, Failure, Patch, dropped, failed, lapse_appended, mark
from gotasks_py.expressions import (
    NOW,
    REMOVED,
    AtLeast,
    Each,
    Equals,
    Expression,
    Field,
    Has,
    If,
    Later,
    Moment,
    Now,
    Number,
    Sum,
    Value,
)
from gotasks_py.fingerprints import fingerprint_of
from gotasks_py.task import Status

__all__ = [
    "ALLOWED",
    "MAX_ERRORS",
    "Failure",
    "Patch",
    "batch_token",
    "cancel_requested",
    "cancelled",
    "claimed",
    "claimed_as_known",
    "claimed_in_batch",
    "completed",
    "completed_each",
    "died",
    "enqueued",
    "extended",
    "is_claimable",
    "progressed",
    "reaped",
    "released",
    "requeued",
    "rescued",
    "retried",
    "snoozed",
    "started",
    "unreserved",
    "withdrawn",
]

ALLOWED: Final[Mapping[Status, frozenset[Status]]] = MappingProxyType(
    {
        # pending to pending is a reservation, made or given back
        Status.PENDING: frozenset({Status.PENDING, Status.RUNNING, Status.CANCELLED}),
        Status.RUNNING: frozenset(
            # running to running is a reclaim: the lease lapsed and attempts are left
            {Status.RUNNING, Status.PENDING, Status.DONE, Status.DEAD, Status.CANCELLED}
        ),
        Status.DONE: frozenset(),
        Status.DEAD: frozenset({Status.PENDING}),
        Status.CANCELLED: frozenset(),
    }
)

_LAPSED: Final = fingerprint_of("lease_expired", "lease expired")
"""Whichever worker it was that held the lease."""


def is_claimable(due_at: datetime | None, now: datetime) -> bool:
    """Whether a claim may take the task: the one rule, for pending and lapsed alike."""
    return due_at is not None and due_at <= now


def enqueued(fields: Mapping[str, object], *, now: datetime) -> dict[str, object]:
    """Make the document of a new task. Inserts cannot ask the server for its time."""
    return {
        "lane": 0,
        "status": Status.PENDING.value,
        "attempts": 0,
        "interruptions": 0,
        "errors": [],
        "errors_dropped": 0,
        "created_at": now,
        "updated_at": now,
        **fields,
    }


def extended(lease: timedelta) -> Patch:
    """Keep a running task for another ``lease`` from now."""
    until = Now(lease)
    return Patch(
        Status.RUNNING,
        {
            "lease.until": until,
            "due_at": If(Has("reap_at"), REMOVED, until),
            "reap_at": If(Has("reap_at"), until, REMOVED),
        },
    )


def progressed(progress: object) -> Patch:
    """Note how far a running task has come."""
    return Patch(Status.RUNNING, {"progress": Value(progress), "updated_at": NOW})


def completed(result: object) -> Patch:
    """End in success."""
    outcome = REMOVED if result is None else Value(result)
    return _settled(Status.DONE, {**_finished(), "result": outcome})


def completed_each() -> Patch:
    """End many in success, each with the result that comes with it."""
    return _settled(Status.DONE, {**_finished(), "result": Each()})


def retried(failure: Failure, delay: timedelta) -> Patch:
    """Fail an attempt and run again after ``delay``."""
    return _settled(Status.PENDING, {**failed(failure), "run_at": Now(delay), "due_at": Now(delay)})


def died(failure: Failure) -> Patch:
    """Fail for good: the task becomes a dead letter."""
    fingerprint = Value(fingerprint_of(failure.kind, failure.message))
    return _settled(
        Status.DEAD, {**failed(failure), **_finished(), "error_fingerprint": fingerprint}
    )


def snoozed(delay: timedelta) -> Patch:
    """Run again after ``delay`` as if this attempt had not been."""
    return _settled(
        Status.PENDING,
        {
            "attempts": Sum(Number("attempts"), -1),
            "run_at": Now(delay),
            "due_at": Now(delay),
        },
    )


def released() -> Patch:
    """Hand a claimed task back at once; the attempt does not count, the interruption does."""
    return _settled(
        Status.PENDING,
        {
            "attempts": Sum(Number("attempts"), -1),
            "interruptions": Sum(Number("interruptions"), 1),
            "due_at": NOW,
        },
    )


def cancelled() -> Patch:
    """End a running task that was asked to stop; nothing else of it is recorded."""
    return _settled(Status.CANCELLED, _finished(), cancel_requested=True)


def withdrawn() -> Patch:
    """Cancel a task that is not running, reserved or not."""
    return Patch(
        Status.CANCELLED,
        {
            "status": Value(Status.CANCELLED.value),
            "lease": REMOVED,
            "due_at": REMOVED,
            "cancel_requested_at": NOW,
            "updated_at": NOW,
            **_finished(),
        },
        source=Status.PENDING,
    )


def cancel_requested() -> Patch:
    """Ask the worker of a running task to stop it; from here on nobody reclaims it."""
    return Patch(
        Status.RUNNING,
        {
            "cancel_requested_at": NOW,
            "due_at": REMOVED,
            "reap_at": Field("lease.until"),
            "updated_at": NOW,
        },
        cancel_requested=False,
    )


def reaped() -> Patch:
    """End a running task whose lease lapsed and that may not be claimed again."""
    asked = Has("cancel_requested_at")
    return Patch(
        Status.DEAD,
        {
            "status": If(asked, Value(Status.CANCELLED.value), Value(Status.DEAD.value)),
            "errors": If(asked, Field("errors"), lapse_appended()),
            "errors_dropped": If(asked, Field("errors_dropped"), dropped()),
            "error_fingerprint": If(asked, REMOVED, Value(_LAPSED)),
            "lease": REMOVED,
            "due_at": REMOVED,
            "reap_at": REMOVED,
            "updated_at": NOW,
            **_finished(),
        },
    )


def rescued() -> Patch:
    """Put a task on its way again that has neither ``due_at`` nor ``reap_at``.

    A pending one is due when it was to run. One that runs is its worker's until the lease
    ends; then another takes it over or, if it may not be claimed again, the janitor ends it.
    """
    until = Moment("lease.until")
    is_pending = Equals("status", Status.PENDING)
    may_not_run = (Has("cancel_requested_at"), AtLeast(Number("attempts"), Number("max_attempts")))
    due_at: Expression = until
    reap_at: Expression = REMOVED
    for condition in may_not_run:
        due_at, reap_at = If(condition, REMOVED, due_at), If(condition, until, reap_at)
    return Patch(
        Status.PENDING,
        {
            "due_at": If(is_pending, Moment("run_at"), due_at),
            "reap_at": If(is_pending, REMOVED, reap_at),
            "updated_at": NOW,
        },
        source=None,
    )


def requeued(*, fresh_lifetime: bool) -> Patch:
    """Bring a dead letter back: attempts start over, its history and its key come along."""
    lifetime = If(Has("ttl_ms"), Later("ttl_ms"), Field("expires_at"))
    return Patch(
        Status.PENDING,
        {
            "status": Value(Status.PENDING.value),
            "attempts": Value(0),
            "run_at": NOW,
            "due_at": NOW,
            "unique_key": If(Has("released_key"), Field("released_key"), REMOVED),
            "released_key": REMOVED,
            "result": REMOVED,
            "progress": REMOVED,
            "retry_until": REMOVED,
            "finished_at": REMOVED,
            "error_fingerprint": REMOVED,
            "settle_token": REMOVED,
            "updated_at": NOW,
            "expires_at": lifetime if fresh_lifetime else Field("expires_at"),
        },
        source=Status.DEAD,
    )


def _settled(
    target: Status,
    changes: Mapping[str, Expression | Each],
    *,
    cancel_requested: bool = False,
) -> Patch:
    ended: dict[str, Expression | Each] = {
        "status": Value(target.value),
        "lease": REMOVED,
        "due_at": REMOVED,
        "reap_at": REMOVED,
        "settle_token": mark(target),
        "updated_at": NOW,
    }
    return Patch(target, {**ended, **changes}, cancel_requested=cancel_requested)


def _finished() -> Mapping[str, Expression]:
    return {
        "finished_at": NOW,
        "unique_key": REMOVED,
        "released_key": If(Has("unique_key"), Field("unique_key"), Field("released_key")),
    }
