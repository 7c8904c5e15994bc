"""What a transition is as plain data, and the error entries that transitions leave behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from gotasks_py.expressions import (
    NOW,
    Added,
    Appended,
    Each,
    Expression,
    Field,
    Now,
    Number,
    Overflow,
    Record,
    Text,
    Value,
)
from gotasks_py.task import LeaseRef, Status

MAX_ERRORS: Final = 20
"""How many error entries a task keeps; the oldest make room."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A transition: which documents it applies to, and what each field becomes.

    ``source`` is the status that the document must have (``None``: the store's filter
    says it all, as for a claim). ``cancel_requested`` tells whether a request to cancel
    must be there, must not be, or does not matter (``None``).
    """

    target: Status
    changes: Mapping[str, Expression | Each]
    source: Status | None = Status.RUNNING
    cancel_requested: bool | None = None

    @property
    def ends_lease(self) -> bool:
        """Whether the holder lets go of the task, and leaves a mark of that behind."""
        return isinstance(self.changes.get("settle_token"), Text)

    def mark_of(self, ref: LeaseRef) -> str:
        """Tell the mark by which a patch that ends a lease is known to have been applied."""
        return f"{ref.token}/{self.target.value}"

    @property
    def due_in(self) -> timedelta | None:
        """When the task may be claimed again; ``None`` if that depends on the document."""
        due_at = self.changes.get("due_at")
        return due_at.plus if isinstance(due_at, Now) else None


@dataclass(frozen=True, slots=True)
class Failure:
    """What an error entry will say; the time is added by the store."""

    attempt: int
    worker: str
    kind: str
    message: str
    traceback: str | None = None


def failed(failure: Failure) -> Mapping[str, Expression]:
    """Append what failed to the entries, and count those that it pushes out."""
    entry = Record(
        {
            "at": NOW,
            "attempt": Value(failure.attempt),
            "worker": Value(failure.worker),
            "kind": Value(failure.kind),
            "message": Value(failure.message),
            "traceback": Value(failure.traceback),
        }
    )
    return {"errors": Appended("errors", entry, MAX_ERRORS), "errors_dropped": dropped()}


def lapse_appended() -> Appended:
    """Append that the worker's lease ended without an outcome."""
    entry = Record(
        {
            "at": NOW,
            "attempt": Number("attempts"),
            "worker": Text((Field("lease.owner"),)),
            "kind": Value("lease_expired"),
            "message": Text(("lease of ", Field("lease.owner"), " expired")),
            "traceback": Value(None),
        }
    )
    return Appended("errors", entry, MAX_ERRORS)


def dropped() -> Expression:
    """Count what an appended entry pushes out."""
    return Added(Number("errors_dropped"), Overflow("errors", MAX_ERRORS))


def mark(target: Status) -> Text:
    """Tell a write whose reply was lost, when it is tried again, that it had succeeded."""
    # It comes from the document, so that one patch serves many tasks.
    return Text((Field("lease.token"), f"/{target.value}"))
