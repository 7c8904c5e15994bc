"""Routes that look at tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

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
from gotasks_dashboard._jobs import Action, acted_on
from gotasks_dashboard._overview import OverviewView, overview_of
from gotasks_dashboard._permissions import Access, Permission
from gotasks_dashboard._problems import Problem
from gotasks_dashboard._query import REVEALING, Query, filter_of, misunderstood
from gotasks_dashboard._views import (
    CountView,
    TaskFacts,
    TaskRow,
    TaskView,
    count_view,
    row_of,
    task_view,
)
from gotasks_py import (
    Controlling,
    Pause,
    Status,
    TaskFilter,
    TaskNotFoundError,
)
from gotasks_py.controls import QueueChanges
from gotasks_py.explaining import Surroundings, explanation


class Search(Model):
    """Which tasks."""

    q: Query = ""


class CountQuery(Search):
    """Which tasks; with an action, those of them that it would be done to."""

    action: Action | None = None


class Page(Search):
    """Which tasks, and which of them."""

    sort: Literal["newest", "oldest"] = "newest"
    limit: int = Field(default=DEFAULT_LISTED, description="Clamped to 1-200.")
    cursor: Cursor | None = None


class TasksView(TypedDict):
    """A page of tasks, by the time from which they were to run."""

    tasks: Sequence[TaskRow]
    cursor: str | None
    sort: str


async def overview(desk: Desk, call: Call[Nothing, Nothing]) -> OverviewView:
    """Tell how everything is doing."""
    del call
    return await overview_of(desk)


async def tasks(desk: Desk, call: Call[Page, Nothing]) -> TasksView:
    """List a page of tasks."""
    query = call.query
    wanted = searched(desk, call.access, query.q)
    limit = listed(query.limit)

    async def ask() -> TasksView:
        page = await desk.inspected.find_tasks(
            wanted, limit=limit, cursor=query.cursor, newest_first=query.sort == "newest"
        )
        rows = [row_of(desk.shown(task)) for task in page.tasks]
        return {"tasks": rows, "cursor": page.cursor, "sort": query.sort}

    return await desk.shared(("tasks", query.q, query.sort, limit, query.cursor), ask)


async def count(desk: Desk, call: Call[CountQuery, Nothing]) -> CountView:
    """Count tasks, up to a bound."""
    query = call.query
    wanted = searched(desk, call.access, query.q)
    if query.action is not None:
        wanted = acted_on(wanted, query.action)

    async def ask() -> CountView:
        return count_view(await desk.inspected.count_tasks(wanted))

    return await desk.shared(("count", query.q, query.action), ask)


async def task(desk: Desk, call: Call[Nothing, Nothing]) -> TaskView:
    """Tell all of one task."""
    store = desk.store
    async with desk.bounded():
        found = await desk.manager.get(call.path["id"])
        recorded = (await store.queues()).get(found.queue, {})
        around = Surroundings(
            now=store.clock.now(),
            pause=Pause.from_document(recorded),
            nodes=await desk.nodes(),
            orders=await store.node_orders() if isinstance(store, Controlling) else {},
            limit=QueueChanges.from_document(recorded).workers,
            running=await _running(desk, found.queue),
        )
    shown = desk.shown(found)
    facts = TaskFacts(
        explanation=explanation(shown, around),
        trace_url=desk.settings.trace_url,
        is_redacted=shown != found,
        has_schema=(found.queue, found.type) in desk.types,
    )
    return task_view(shown, call.access, facts)


async def _running(desk: Desk, queue: str) -> int:
    async def ask() -> int:
        wanted = TaskFilter(queue=queue, status=Status.RUNNING)
        return (await desk.inspected.count_tasks(wanted)).value

    return await desk.shared(("running", queue), ask)


def searched(desk: Desk, access: Access, text: str) -> TaskFilter:
    """Read a search that somebody may do.

    Raises:
        Problem: 400: it cannot be understood; 403: it would tell what may not be seen.
    """
    wanted = filter_of(text, desk.store.clock.now())
    if wanted.payload:
        access.demand(Permission.VIEW_PAYLOADS)
    hidden = (wanted.payload, wanted.error, wanted.tag, wanted.unique_key)
    if desk.settings.redact is not None and any(hidden):
        detail = f"what is redacted cannot be searched: not {', '.join(sorted(REVEALING))}"
        raise Problem(403, "forbidden", detail)
    try:
        return wanted if wanted.id is None else replace(wanted, id=desk.store.parse_id(wanted.id))
    except TaskNotFoundError as error:
        why = "an id has 24 hexadecimal digits"
        raise misunderstood(why, text, 0, len(text)) from error


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="overview",
        summary="How all queues are doing",
        handle=overview,
        answer=OverviewView,
    ),
    Endpoint(
        method="GET",
        path="tasks",
        summary="List tasks",
        handle=tasks,
        query=Page,
        answer=TasksView,
    ),
    Endpoint(
        method="GET",
        path="tasks/count",
        summary="Count tasks",
        handle=count,
        query=CountQuery,
        answer=CountView,
    ),
    Endpoint(
        method="GET",
        path="tasks/{id}",
        summary="All of one task",
        handle=task,
        answer=TaskView,
    ),
)
