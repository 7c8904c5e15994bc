"""What is wrong with a store and the tasks in it, and what to do about it.

For the doctor of the command line, and for dashboards. It changes nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from gotasks_py.diagnosis import Diagnosing, Finding, Severity
from gotasks_py.errors import StorePermissionError
from gotasks_py.inspecting import Inspecting, QueueOverview, TaskFilter
from gotasks_py.metering import Metering
from gotasks_py.nodes import Node
from gotasks_py.store import Store, reach
from gotasks_py.sweeping import Sweeping
from gotasks_py.task import Status
from gotasks_py.wording import span

Queues: TypeAlias = Callable[[], Awaitable[Sequence[QueueOverview]]]

_LONG_DUE: Final = timedelta(minutes=5)
_LONG_LAPSED: Final = timedelta(minutes=1)
_LOOKED_AT: Final = 100


async def examined(store: Store, queues: Queues | None = None) -> Sequence[Finding]:
    """Do every check that the store allows; what is in it only if it is well.

    ``queues`` tells how they are doing, for whoever knows it already; default: ask the store.
    """
    findings: list[Finding] = []
    try:
        if isinstance(store, Diagnosing):
            findings += await store.diagnose()
    except StorePermissionError as error:  # which no manager would get beyond either
        remedy = "put a user into the URL, its password and authSource, and give it readWrite"
        findings.append(Finding(Severity.ERROR, "rights", str(error), remedy))
    if any(finding.severity is Severity.ERROR for finding in findings):
        what = "not looked at, until the above is mended"
        return [*findings, Finding(Severity.WARNING, "stuck tasks", what, "run doctor again")]
    await reach(store)
    stuck = [finding async for finding in _stuck(store, queues)]
    return [*findings, *(stuck or [Finding(Severity.OK, "stuck tasks", "there are none")])]


async def _stuck(store: Store, queues: Queues | None) -> AsyncIterator[Finding]:
    if not isinstance(store, Inspecting):
        return
    for finding in await _unmoved(store):
        yield finding
    now = store.clock.now()
    nodes = await store.nodes() if isinstance(store, Metering) else ()
    for queue in await (queues or store.overview)():
        for finding in [
            *_waiting(queue, nodes),
            *await _unhandled(store, queue, nodes),
            *await _lapsed(store, queue, now),
        ]:
            yield finding


async def _unmoved(store: Store) -> Sequence[Finding]:
    """Look for tasks that neither a claim nor the janitor would ever look at."""
    stuck = await store.stuck(_LOOKED_AT) if isinstance(store, Sweeping) else ()
    if not stuck:
        return []
    number = f"{len(stuck)}{'+' if len(stuck) == _LOOKED_AT else ''}"
    return [
        Finding(
            Severity.ERROR,
            "stuck tasks",
            f"{number} tasks have neither a time to be claimed nor one to be ended, such as "
            f"{stuck[0].id} of queue {stuck[0].queue!r}; what writes such documents is to be found",
            "start a manager with a janitor, which puts them back on their way",
        )
    ]


def _waiting(queue: QueueOverview, nodes: Sequence[Node]) -> Sequence[Finding]:
    age = queue.oldest_due_age
    if age is None or age < _LONG_DUE:
        return []
    said = f"a task of queue {queue.name!r} has been due for {span(age)}"
    if queue.pause is not None:
        remedy = f"the queue is paused; gotasks queue resume {queue.name}, when it may go on"
        return [Finding(Severity.WARNING, "stuck tasks", said, remedy)]
    if not any(queue.name in node.queues for node in nodes):
        remedy = "no manager that is there works on it: start one, gotasks worker APP"
        return [Finding(Severity.ERROR, "stuck tasks", said, remedy)]
    remedy = "too few workers, or handlers that hang: gotasks metrics show, gotasks node list"
    return [Finding(Severity.WARNING, "stuck tasks", said, remedy)]


async def _unhandled(
    store: Inspecting, queue: QueueOverview, nodes: Sequence[Node]
) -> Sequence[Finding]:
    """Look for types that nobody has a handler for, among the tasks that wait the longest."""
    serving = [node for node in nodes if queue.name in node.queues]
    if not serving or queue.oldest_due_age is None:
        return []
    handled = {name for node in serving for name in node.types.get(queue.name, ())}
    wanted = TaskFilter(queue=queue.name, status=Status.PENDING)
    page = await store.find_tasks(wanted, limit=_LOOKED_AT, newest_first=False)
    missing = sorted({task.type for task in page.tasks} - handled)
    return [
        Finding(
            Severity.ERROR,
            "stuck tasks",
            f"queue {queue.name!r} has tasks of type {name!r}, and no manager handles it",
            "deploy a worker with its handler, or cancel its tasks",
        )
        for name in missing
    ]


async def _lapsed(store: Inspecting, queue: QueueOverview, now: datetime) -> Sequence[Finding]:
    """Look for running tasks whose lease has ended, among those that were to run first."""
    wanted = TaskFilter(queue=queue.name, status=Status.RUNNING)
    page = await store.find_tasks(wanted, limit=_LOOKED_AT, newest_first=False)
    limit = now - _LONG_LAPSED
    lapsed = [task for task in page.tasks if task.lease and task.lease.until < limit]
    if not lapsed:
        return []
    return [
        Finding(
            Severity.ERROR,
            "stuck tasks",
            f"{len(lapsed)} running tasks of queue {queue.name!r} have lost their worker, "
            f"such as {lapsed[0].id}",
            "start a manager that handles their types: it takes them over, its janitor ends "
            "those without attempts",
        )
    ]
