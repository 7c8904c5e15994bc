"""What a store may offer beside: to keep who did what to tasks, queues and managers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Protocol, runtime_checkable

from gotasks_py._fields import moment, text, whole

KEPT: Final = timedelta(days=365)
"""How long entries are kept."""
LOST_AFTER: Final = timedelta(seconds=30)
"""After how long without a sign of life what runs is taken to run no more."""


class Outcome(StrEnum):
    """What has become of something that somebody did."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"
    """Nobody is heard of any more who would do it; ``AuditEntry.as_of`` tells so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """Something that somebody did.

    ``id`` is unique; ``action`` is a word such as ``pause`` or ``requeue``; ``target`` says
    to what, such as ``{"queue": "emails"}``, and ``details`` how, both as plain data.
    ``changed`` and ``refused`` count tasks, where an action is about many. While it runs,
    ``by`` is the manager that carries it out, which was there at ``alive_at``.
    """

    id: str
    at: datetime
    action: str
    user: str | None = None
    target: Mapping[str, object] = field(default_factory=dict[str, object])
    details: Mapping[str, object] = field(default_factory=dict[str, object])
    outcome: Outcome = Outcome.DONE
    error: str | None = None
    changed: int | None = None
    refused: int | None = None
    finished_at: datetime | None = None
    by: str | None = None
    alive_at: datetime | None = None

    def as_of(self, now: datetime) -> AuditEntry:
        """Tell what has become of it: what shows no sign of life for half a minute is lost."""
        is_heard_of = now - (self.alive_at or self.at) < LOST_AFTER
        if self.outcome is not Outcome.RUNNING or is_heard_of:
            return self
        return replace(self, outcome=Outcome.LOST)

    def to_document(self) -> dict[str, object]:
        """Make what is stored."""
        return {
            "_id": self.id,
            "at": self.at,
            "user": self.user,
            "action": self.action,
            "target": dict(self.target),
            "details": dict(self.details),
            "outcome": self.outcome.value,
            "error": self.error,
            "changed": self.changed,
            "refused": self.refused,
            "finished_at": self.finished_at,
            "by": self.by,
            "alive_at": self.alive_at,
            "expires_at": self.at + KEPT,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, object]) -> AuditEntry:
        """Read what is stored; a field of the wrong kind reads as absent."""
        return cls(
            id=str(document.get("_id")),
            at=moment(document.get("at")),
            user=text(document.get("user")) or None,
            action=text(document.get("action")),
            target=_mapping(document.get("target")),
            details=_mapping(document.get("details")),
            outcome=_OUTCOMES.get(text(document.get("outcome")), Outcome.DONE),
            error=text(document.get("error")) or None,
            changed=_count(document.get("changed")),
            refused=_count(document.get("refused")),
            finished_at=_time(document.get("finished_at")),
            by=text(document.get("by")) or None,
            alive_at=_time(document.get("alive_at")),
        )


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Some entries, the latest first; ``cursor`` is what the next page is asked for with."""

    entries: Sequence[AuditEntry]
    cursor: str | None = None


@runtime_checkable
class Auditing(Protocol):
    """Keeps who did what."""

    async def audit(self, entry: AuditEntry) -> None:
        """Record an entry; one of the same id is replaced, as when its outcome is known.

        Raises:
            StoreError: the database refused, or did not answer.
        """
        ...

    async def audit_log(
        self,
        *,
        user: str | None = None,
        action: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> AuditPage:
        """List what was done: by somebody, or of one kind; the latest first.

        Raises:
            ConfigurationError: an impossible limit, or a cursor that is none.
            StoreError: the database refused, or did not answer.
        """
        ...

    async def audited(self, entry_id: str) -> AuditEntry | None:
        """Read one entry."""
        ...


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _time(value: object) -> datetime | None:
    return value if isinstance(value, datetime) else None


def _count(value: object) -> int | None:
    return None if value is None else whole(value)


_OUTCOMES: Final = {each.value: each for each in Outcome}
