"""What is done to many tasks, on the server and at a pace, while its caller does other things."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

import anyio
from typing_extensions import TypedDict

from gotasks_dashboard._permissions import Access, Permission
from gotasks_dashboard._trail import Trail
from gotasks_dashboard._values import moment
from gotasks_dashboard._views import CountView, count_view
from gotasks_py import (
    AuditEntry,
    BulkReport,
    Count,
    GotasksError,
    Manager,
    Outcome,
    Status,
    TaskFilter,
)
from gotasks_py.event_loops import spawn_detached
from gotasks_py.task import TaskId

logger = logging.getLogger("gotasks_dashboard")

KEPT: Final = timedelta(hours=1)
"""How long jobs are listed when they are over."""
_MOST_NAMED: Final = 50
_REFUSED: Final = "its state, its lifetime, or the holder of its unique key is against it"
_TOLD_SECONDS: Final = 2.0
"""How often the audit is told how far a job has come."""

Action: TypeAlias = Literal["requeue", "cancel", "delete"]

_STATUSES: Final[Mapping[str, frozenset[Status]]] = {
    "requeue": frozenset({Status.DEAD}),
    "cancel": frozenset({Status.PENDING, Status.RUNNING}),
    "delete": frozenset(Status),
}
"""What each action is possible with."""


def acted_on(wanted: TaskFilter, action: Action) -> TaskFilter:
    """Narrow a search to what an action is possible with."""
    return replace(wanted, status=sorted(wanted.statuses & _STATUSES[action]))


class RefusedView(TypedDict):
    """A task that nothing could be done to, and why."""

    id: str
    message: str


class JobView(TypedDict):
    """How far a job has come."""

    id: str
    action: str
    query: str | None
    ids: int | None
    state: str
    is_stopping: bool
    total: CountView | None
    changed: int
    refused: Sequence[RefusedView]
    refused_count: int
    error: str | None
    user: str | None
    by: str | None
    started_at: str
    finished_at: str | None


@dataclass(slots=True, kw_only=True)
class Job:
    """Something that is done to many tasks: those of a filter, or those named."""

    entry: AuditEntry
    wanted: TaskFilter | None
    ids: Sequence[TaskId]
    per_second: int
    fresh_lifetime: bool
    is_redacted: bool
    """Whether reasons are not told in full, for they name unique keys."""
    total: Count
    report: BulkReport = field(default_factory=BulkReport)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    is_stopped: bool = False

    @property
    def is_over(self) -> bool:
        """Whether nothing more is done."""
        return self.entry.outcome is not Outcome.RUNNING


class Jobs:
    """The jobs of this process. ``moved`` is called when one has come further."""

    def __init__(self, manager: Manager, trail: Trail, moved: Callable[[Job], None]) -> None:
        self._manager = manager
        self._trail = trail
        self._moved = moved
        self._jobs: dict[str, Job] = {}

    @property
    def running(self) -> int:
        """How many are not over."""
        return sum(not job.is_over for job in self._jobs.values())

    def listed(self) -> Sequence[Job]:
        """Tell those that run, and those of the last hour; the latest first."""
        since = self._manager.store.clock.now() - KEPT
        self._jobs = {
            key: job for key, job in self._jobs.items() if not job.is_over or job.entry.at > since
        }
        return [*reversed(self._jobs.values())]

    def find(self, job_id: str) -> Job | None:
        """Tell one of them."""
        return self._jobs.get(job_id)

    async def begin(self, job: Job) -> None:
        """Begin a job, and let it go on by itself."""
        self._note(job)
        await self._trail.record(job.entry)
        self._jobs[job.entry.id] = job

        async def run() -> None:
            await self._run(job)

        spawn_detached(run, f"gotasks_dashboard {job.entry.action}")

    def stop(self, job: Job) -> None:
        """Let a job do nothing more."""
        job.is_stopped = not job.is_over
        job.scope.cancel()

    async def _run(self, job: Job) -> None:
        outcome, error = Outcome.DONE, None
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._tell, job)
                with job.scope:
                    job.report = await self._work(job)
                group.cancel_scope.cancel()
        except* GotasksError as errors:
            outcome, error = Outcome.FAILED, str(errors.exceptions[0])
        except* Exception:
            logger.exception("a job failed")
            outcome, error = Outcome.FAILED, "something went wrong; the server's log has it"
        if job.is_stopped and outcome is Outcome.DONE:
            outcome = Outcome.STOPPED
        with anyio.CancelScope(shield=True):
            await self._end(job, outcome, error)

    async def _work(self, job: Job) -> BulkReport:
        manager = self._manager

        def progress(report: BulkReport) -> None:
            job.report = report
            self._moved(job)

        if job.wanted is None:
            return await self._each(job)
        match job.entry.action:
            case "requeue":
                return await manager.requeue_tasks(
                    job.wanted,
                    fresh_lifetime=job.fresh_lifetime,
                    per_second=job.per_second,
                    progress=progress,
                )
            case "cancel":
                return await manager.cancel_tasks(
                    job.wanted, per_second=job.per_second, progress=progress
                )
            case _:
                return await manager.delete_tasks(
                    job.wanted, per_second=job.per_second, progress=progress
                )

    async def _each(self, job: Job) -> BulkReport:
        report = job.report
        act = self._act(job)
        for task_id in job.ids:
            began = anyio.current_time()
            try:
                await act(task_id)
                report.changed += 1
            except GotasksError as error:
                report.refuse(task_id, error)
            self._moved(job)
            await anyio.sleep_until(began + 1 / job.per_second)
        return report

    def _act(self, job: Job) -> Callable[[TaskId], Awaitable[object]]:
        manager = self._manager
        match job.entry.action:
            case "requeue":
                return lambda task_id: manager.requeue(task_id, fresh_lifetime=job.fresh_lifetime)
            case "cancel":
                return manager.cancel
            case _:
                return manager.delete

    async def _tell(self, job: Job) -> None:
        """Write down now and then how far it has come, and do what other processes ask."""
        while True:
            await anyio.sleep(_TOLD_SECONDS)
            self._note(job)
            await self._trail.record(job.entry)
            if await self._trail.is_told_to_stop(job.entry.id):
                self.stop(job)

    def _note(self, job: Job) -> None:
        job.entry = replace(
            job.entry,
            changed=job.report.changed,
            refused=job.report.refused,
            by=self._manager.id,
            alive_at=self._manager.store.clock.now(),
        )

    async def _end(self, job: Job, outcome: Outcome, error: str | None) -> None:
        self._note(job)
        now = self._manager.store.clock.now()
        over = replace(job.entry, outcome=outcome, error=error, finished_at=now)
        await self._trail.record(over)
        job.entry = over
        self._trail.acted(over)
        self._moved(job)


def job_view(job: Job, access: Access) -> JobView:
    """Show a job of this process, as much of it as somebody may see."""
    refused = list(job.report.reasons.items())[:_MOST_NAMED]
    if job.is_redacted:
        refused = [(task_id, _REFUSED) for task_id, _ in refused]
    return {
        **entry_view(job.entry, access),
        "is_stopping": job.is_stopped and not job.is_over,
        "total": count_view(job.total),
        "changed": job.report.changed,
        "refused": [{"id": str(task_id), "message": why} for task_id, why in refused],
        "refused_count": job.report.refused,
    }


def entry_view(entry: AuditEntry, access: Access, *, is_stopping: bool = False) -> JobView:
    """Show a job as the audit knows it as of now, such as one of another process.

    Whose it is, and what was searched for, is told to its own user and to those who may see the
    audit.
    """
    query, ids = entry.details.get("query"), entry.target.get("tasks")
    total = entry.details.get("total", ids)
    is_own = entry.user is not None and entry.user == access.user
    is_told = is_own or Permission.VIEW_AUDIT in access.permissions
    return {
        "id": entry.id,
        "action": entry.action,
        "query": query if is_told and isinstance(query, str) else None,
        "ids": ids if isinstance(ids, int) else None,
        "state": entry.outcome.value,
        "is_stopping": is_stopping and entry.outcome is Outcome.RUNNING,
        "total": {"value": total, "is_exact": True} if isinstance(total, int) else None,
        "changed": entry.changed or 0,
        "refused": [],
        "refused_count": entry.refused or 0,
        "error": error_of(entry),
        "user": entry.user if is_told else None,
        "by": entry.by,
        "started_at": _time(entry.at),
        "finished_at": moment(entry.finished_at),
    }


def error_of(entry: AuditEntry) -> str | None:
    """Tell what went wrong with something that somebody did."""
    if entry.outcome is not Outcome.LOST:
        return entry.error
    return (
        f"{entry.by or 'the process that did it'} has not been heard of since "
        f"{_time(entry.alive_at or entry.at)}, and does no more of it; this is how far it had come"
    )


def _time(at: datetime) -> str:
    return moment(at) or ""
