"""Routes that act on many tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from gotasks_dashboard._desk import Desk
from gotasks_dashboard._endpoints import AsWhole, Body, Call, Endpoint, Nothing
from gotasks_dashboard._jobs import (
    KEPT,
    Action,
    Job,
    JobView,
    acted_on,
    entry_view,
    error_of,
    job_view,
)
from gotasks_dashboard._permissions import Permission
from gotasks_dashboard._problems import Problem
from gotasks_dashboard._query import NOTHING, SOMETHING, Query
from gotasks_dashboard._reading import searched
from gotasks_py import (
    AuditEntry,
    Auditing,
    Count,
    Outcome,
    StoreUnavailableError,
    TaskFilter,
)
from gotasks_py.task import TaskId

_MOST_IDS: Final = 1_000
_MOST_AT_ONCE: Final = 10
_MOST_RECORDED: Final = 100
"""How many of what was done last, of each kind, are looked through for jobs."""

_PERMISSIONS: Final = {
    "requeue": Permission.REQUEUE,
    "cancel": Permission.CANCEL,
    "delete": Permission.DELETE,
}
_ANY: Final = tuple(_PERMISSIONS.values())


def _one_of_both(schema: dict[str, Any]) -> None:
    """Say that it takes ids or a query, and that an empty one means everything."""
    ids, query = (
        next(each for each in schema["properties"].pop(name)["anyOf"] if each["type"] != "null")
        for name in ("ids", "query")
    )
    nothing = {"type": "null"}
    searched = {"query": {**query, "pattern": SOMETHING}, "ids": nothing}
    schema["properties"] |= {"ids": True, "query": True}
    schema["oneOf"] = [
        {"properties": {"ids": ids, "query": nothing}, "required": ["ids"]},
        {"properties": searched, "required": ["query"]},
        {
            "properties": {
                "query": {"type": "string", "pattern": NOTHING},
                "ids": nothing,
                "everything": {"const": True},
            },
            "required": ["query", "everything"],
        },
    ]


class JobBody(Body):
    """What to do to many tasks: those named, or all that fit a search."""

    model_config = ConfigDict(json_schema_extra=_one_of_both)

    action: Action
    ids: Annotated[list[str], Field(min_length=1, max_length=_MOST_IDS)] | None = None
    query: Query | None = None
    everything: bool = Field(
        default=False, description="Needed where an empty search means all tasks."
    )
    per_second: Annotated[int, Field(ge=1, le=10_000), AsWhole] = 2_000
    fresh_lifetime: bool = False


class JobsView(TypedDict):
    """The jobs of the last hour, of whichever process, and those that this one does still."""

    jobs: Sequence[JobView]


async def begin(desk: Desk, call: Call[Nothing, JobBody]) -> JobView:
    """Begin to act on many tasks."""
    body = call.body
    call.access.demand(_PERMISSIONS[body.action])
    if desk.jobs.running >= _MOST_AT_ONCE:
        detail = f"{_MOST_AT_ONCE} jobs are running already"
        raise Problem(429, "too_many_jobs", detail, headers={"Retry-After": "5"})
    async with desk.bounded():  # a search goes by the store's time
        wanted, ids = _meant(desk, call)
    target: dict[str, object] = {} if wanted is not None else {"tasks": len(ids)}
    entry = await desk.entry(call.access, body.action, target, query=body.query)
    if ids:
        entry = replace(entry, details={**entry.details, "ids": [str(each) for each in ids]})
    entry = replace(entry, outcome=Outcome.RUNNING)
    async with desk.trail.unless_failed(entry), desk.bounded():
        total = Count(len(ids)) if wanted is None else await desk.manager.count_tasks(wanted)
    if wanted is not None and total.is_exact:
        entry = replace(entry, details={**entry.details, "total": total.value})
    job = Job(
        entry=entry,
        total=total,
        wanted=wanted,
        ids=ids,
        per_second=body.per_second,
        fresh_lifetime=body.fresh_lifetime,
        is_redacted=desk.settings.redact is not None,
    )
    await desk.jobs.begin(job)
    return job_view(job, call.access)


async def jobs(desk: Desk, call: Call[Nothing, Nothing]) -> JobsView:
    """List the jobs of this process, and what the audit knows of those of others."""
    own = desk.jobs.listed()
    here = {each.entry.id for each in own}
    others = [each for each in await _recorded(desk) if each.id not in here]
    views = [
        *(job_view(each, call.access) for each in own),
        *(entry_view(each, call.access) for each in others),
    ]
    return {"jobs": sorted(views, key=lambda each: each["started_at"], reverse=True)}


async def _recorded(desk: Desk) -> Sequence[AuditEntry]:
    """Read the jobs among what was done last, as of now; none while the store is away."""
    store = desk.store
    if not isinstance(store, Auditing):
        return []

    async def ask() -> Sequence[AuditEntry]:
        pages = [
            await store.audit_log(action=action, limit=_MOST_RECORDED) for action in _PERMISSIONS
        ]
        since = store.clock.now() - KEPT
        return [
            entry
            for page in pages
            for entry in page.entries
            if entry.by is not None and entry.at > since
        ]

    try:
        entries = await desk.shared("jobs of others", ask)
    except StoreUnavailableError:
        return []
    return [each.as_of(store.clock.now()) for each in entries]


async def job(desk: Desk, call: Call[Nothing, Nothing]) -> JobView:
    """Tell how far a job has come, whichever process does it."""
    found = desk.jobs.find(call.path["id"])
    if found is not None:
        return job_view(found, call.access)
    async with desk.bounded():
        entry = await _elsewhere(desk, call)
        return entry_view(
            entry, call.access, is_stopping=await desk.trail.is_told_to_stop(entry.id)
        )


async def stop(desk: Desk, call: Call[Nothing, Nothing]) -> JobView:
    """Stop a job; what it has done stays done.

    One of another process is asked to stop, and does so within seconds.

    Raises:
        Problem: 409: it is lost.
    """
    found = desk.jobs.find(call.path["id"])
    if found is not None:
        call.access.demand(_PERMISSIONS[found.entry.action])
        if not found.is_over:
            desk.jobs.stop(found)
            await desk.trail.record(desk.trail.wish(call.access, found.entry.id))
        return job_view(found, call.access)
    async with desk.bounded():
        entry = await _elsewhere(desk, call)
        call.access.demand(_PERMISSIONS[entry.action])
        if entry.outcome is Outcome.LOST:
            raise Problem(409, "job_lost", f"there is nothing to stop: {error_of(entry)}")
        is_running = entry.outcome is Outcome.RUNNING
        if is_running and isinstance(desk.store, Auditing):
            await desk.store.audit(desk.trail.wish(call.access, entry.id))
    return entry_view(entry, call.access, is_stopping=is_running)


def _meant(desk: Desk, call: Call[Nothing, JobBody]) -> tuple[TaskFilter | None, Sequence[TaskId]]:
    body = call.body
    if (body.ids is None) == (body.query is None):
        raise Problem(400, "bad_request", "give ids or a query, and not both")
    if body.ids is not None:
        return None, [desk.store.parse_id(each) for each in dict.fromkeys(body.ids)]
    wanted = searched(desk, call.access, body.query or "")
    if wanted == TaskFilter() and not body.everything:
        detail = "an empty query means all tasks; say so with everything: true"
        raise Problem(400, "bad_request", detail)
    return acted_on(wanted, body.action), ()


async def _elsewhere(desk: Desk, call: Call[Nothing, Nothing]) -> AuditEntry:
    """Find a job of another process, or of long ago."""
    if isinstance(desk.store, Auditing):
        entry = await desk.store.audited(call.path["id"])
        if entry is not None and entry.action in _PERMISSIONS:
            return entry.as_of(desk.store.clock.now())
    raise _unknown(call)


def _unknown(call: Call[Nothing, Nothing]) -> Problem:
    return Problem(404, "job_not_found", f"there is no job {call.path['id']!r:.100}")


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path="jobs",
        summary="Act on many tasks",
        handle=begin,
        permissions=_ANY,
        body=JobBody,
        answer=JobView,
        status=202,
        refusals=(429,),
    ),
    Endpoint(
        method="GET",
        path="jobs",
        summary="The jobs of the last hour",
        handle=jobs,
        answer=JobsView,
    ),
    Endpoint(
        method="GET",
        path="jobs/{id}",
        summary="How far a job has come",
        handle=job,
        answer=JobView,
    ),
    Endpoint(
        method="POST",
        path="jobs/{id}/stop",
        summary="Stop a job, whichever process does it",
        handle=stop,
        permissions=_ANY,
        answer=JobView,
        refusals=(409,),
    ),
)
