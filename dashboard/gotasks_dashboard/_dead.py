"""The route that groups dead letters by what they died of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic import Field
from typing_extensions import TypedDict

from gotasks_dashboard._desk import Desk
from gotasks_dashboard._endpoints import (
    DEFAULT_LISTED,
    Call,
    Cursor,
    Endpoint,
    Model,
    Name,
    Nothing,
    listed,
)
from gotasks_dashboard._query import written
from gotasks_dashboard._views import CountView, TaskRow, count_view, row_of
from gotasks_py import DeadGroup


class DeadQuery(Model):
    """Of which queue, and which of the groups."""

    queue: Name | None = None
    limit: int = Field(default=DEFAULT_LISTED, description="Clamped to 1-200.")
    cursor: Cursor | None = None


class GroupView(TypedDict):
    """Dead letters of one queue that died of the same."""

    queue: str
    fingerprint: str
    kind: str
    message: str
    count: CountView
    latest: TaskRow
    query: str


class GroupsView(TypedDict):
    """Groups of dead letters, the largest of the page first."""

    groups: Sequence[GroupView]
    cursor: str | None


async def dead(desk: Desk, call: Call[DeadQuery, Nothing]) -> GroupsView:
    """Group dead letters by what they died of."""
    return await groups_of(desk, call.query)


async def groups_of(desk: Desk, query: DeadQuery) -> GroupsView:
    """Group dead letters by what they died of, as of the last second."""
    limit = listed(query.limit)

    async def ask() -> GroupsView:
        page = await desk.inspected.dead_groups(query.queue, limit=limit, cursor=query.cursor)
        return {
            "groups": [group_view(desk, each) for each in page.groups],
            "cursor": page.cursor,
        }

    return await desk.shared(("dead", query.queue, limit, query.cursor), ask)


def group_view(desk: Desk, group: DeadGroup) -> GroupView:
    """Show a group of dead letters, as much of it as may be shown."""
    latest = desk.shown(group.latest)
    error = latest.errors[-1] if latest.errors else None
    return {
        "queue": group.queue,
        "fingerprint": group.fingerprint,
        "kind": error.kind if error else "",
        "message": error.message if error else "",
        "count": count_view(group.count),
        "latest": row_of(latest),
        "query": written(queue=group.queue, status="dead", fingerprint=group.fingerprint),
    }


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="dead",
        summary="Dead letters by what they died of",
        handle=dead,
        query=DeadQuery,
        answer=GroupsView,
    ),
)
