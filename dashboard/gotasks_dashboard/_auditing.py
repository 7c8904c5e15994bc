"""The route that tells who did what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import Field
from typing_extensions import TypedDict

from gotasks_dashboard._desk import Desk
from gotasks_dashboard._endpoints import (
    DEFAULT_LISTED,
    Call,
    Cursor,
    Endpoint,
    Model,
    Nothing,
    listed,
)
from gotasks_dashboard._jobs import error_of
from gotasks_dashboard._permissions import Permission
from gotasks_dashboard._values import Tagged, moment, tagged
from gotasks_py import AuditEntry, Auditing


class AuditQuery(Model):
    """Whose deeds, and which."""

    user: Annotated[str, Field(max_length=200)] | None = None
    action: Annotated[str, Field(max_length=200)] | None = None
    limit: int = Field(default=DEFAULT_LISTED, description="Clamped to 1-200.")
    cursor: Cursor | None = None


class ReportView(TypedDict):
    """How many tasks it was about."""

    changed: int
    refused: int


class AuditEntryView(TypedDict):
    """What somebody did."""

    id: str
    at: str
    user: str | None
    action: str
    target: Tagged
    details: Tagged
    outcome: str
    error: str | None
    by: str | None
    report: ReportView | None
    finished_at: str | None


class AuditView(TypedDict):
    """What was done, the latest first."""

    entries: Sequence[AuditEntryView]
    cursor: str | None


async def audit(desk: Desk, call: Call[AuditQuery, Nothing]) -> AuditView:
    """Tell who did what."""
    store, query = desk.store, call.query
    if not isinstance(store, Auditing):
        raise desk.unable()
    await desk.trail.settle()
    async with desk.bounded():
        page = await store.audit_log(
            user=query.user, action=query.action, limit=listed(query.limit), cursor=query.cursor
        )
    now = store.clock.now()
    entries = [_view(each.as_of(now)) for each in page.entries]
    return {"entries": entries, "cursor": page.cursor}


def _view(entry: AuditEntry) -> AuditEntryView:
    return {
        "id": entry.id,
        "at": moment(entry.at) or "",
        "user": entry.user,
        "action": entry.action,
        "target": tagged(entry.target),
        "details": tagged(entry.details),
        "outcome": entry.outcome.value,
        "error": error_of(entry),
        "by": entry.by,
        "report": None
        if entry.changed is None
        else {"changed": entry.changed, "refused": entry.refused or 0},
        "finished_at": moment(entry.finished_at),
    }


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="audit",
        summary="Who did what",
        handle=audit,
        permissions=(Permission.VIEW_AUDIT,),
        query=AuditQuery,
        answer=AuditView,
    ),
)
