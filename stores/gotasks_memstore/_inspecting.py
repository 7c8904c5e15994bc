"""Looking at many tasks in memory, as the store on a database does with its indexes."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeAlias

from gotasks_py.controls import Pause, policy_of
from gotasks_py.inspecting import (
    Count,
    DeadGroup,
    DeadPage,
    QueueOverview,
    TaskFilter,
    TaskPage,
    bad_cursor,
    check_page_size,
)
from gotasks_py.store import TaskDocument
from gotasks_py.task import EPOCH, Status, Task, TaskId

Position: TypeAlias = tuple[float, str]

_NOT_LISTED: Final = ("payload", "result", "progress", "metadata")


def fits(wanted: TaskFilter, task_id: TaskId | None, document: TaskDocument) -> bool:
    """Whether a document is one of those that are meant."""
    task = Task.from_document(document)
    keys = (document.get("unique_key"), document.get("released_key"))
    return (
        task_id in {None, task.id}
        and wanted.queue in {None, task.queue}
        and wanted.type in {None, task.type}
        and task.status in wanted.statuses
        and (wanted.tag is None or wanted.tag in task.tags)
        and (wanted.unique_key is None or wanted.unique_key in keys)
        and wanted.fingerprint in {None, task.error_fingerprint}
        and (wanted.worker is None or _runs_on(task, wanted.worker))
        and (wanted.error is None or any(wanted.error in each.message for each in task.errors))
        and (wanted.run_from is None or task.run_at >= wanted.run_from)
        and (wanted.run_before is None or task.run_at < wanted.run_before)
        and all(_holds(document, path, value) for path, value in wanted.payload.items())
    )


def page(
    documents: Iterable[TaskDocument], *, limit: int, cursor: str | None, newest_first: bool
) -> TaskPage:
    """Cut one page out of the documents that fit."""
    check_page_size(limit)
    tasks = sorted((_listed(each) for each in documents), key=_position, reverse=newest_first)
    if cursor is not None:
        start = _read(cursor)
        tasks = [
            task
            for task in tasks
            if (_position(task) < start if newest_first else _position(task) > start)
        ]
    end = _cursor(_position(tasks[limit - 1])) if len(tasks) > limit else None
    return TaskPage(tasks[:limit], end)


def count(documents: Iterable[TaskDocument], limit: int) -> Count:
    number = sum(1 for _ in documents)
    return Count(min(number, limit), is_exact=number <= limit)


def overview(
    documents: Iterable[TaskDocument], name: str, recorded: Mapping[str, object], now: datetime
) -> QueueOverview:
    """Tell how one queue is doing."""
    tasks = [Task.from_document(each) for each in documents if each.get("queue") == name]
    pending = [task.run_at for task in tasks if task.status is Status.PENDING]
    oldest = min((run_at for run_at in pending if run_at <= now), default=None)
    pause = Pause.from_document(recorded)
    return QueueOverview(
        name=name,
        policy=policy_of(name, recorded),
        counts={each: Count(sum(task.status is each for task in tasks)) for each in Status},
        scheduled=Count(sum(run_at > now for run_at in pending)),
        oldest_due_age=None if oldest is None else now - oldest,
        pause=pause if pause and pause.holds(now) else None,
    )


def dead_groups(
    documents: Iterable[TaskDocument], queue: str | None, *, limit: int, cursor: str | None
) -> DeadPage:
    """Group dead letters by queue and fingerprint."""
    check_page_size(limit)
    grouped: dict[tuple[str, str], list[Task]] = {}
    for document in documents:
        task = _listed(document)
        if task.error_fingerprint is not None and queue in {None, task.queue}:
            grouped.setdefault((task.queue, task.error_fingerprint), []).append(task)
    after = None if cursor is None else _read_place(cursor)
    places = [each for each in sorted(grouped, reverse=True) if after is None or each < after]
    end = _encoded("\0".join(places[limit - 1])) if len(places) > limit else None
    groups = [_group(place, grouped[place]) for place in places[:limit]]
    return DeadPage(sorted(groups, key=lambda each: -each.count.value), end)


def _group(place: tuple[str, str], tasks: Sequence[Task]) -> DeadGroup:
    latest = max(tasks, key=_position)
    error = latest.errors[-1] if latest.errors else None
    return DeadGroup(
        queue=place[0],
        fingerprint=place[1],
        kind=error.kind if error else "",
        message=error.message if error else "",
        count=Count(len(tasks)),
        latest=latest,
    )


def _listed(document: TaskDocument) -> Task:
    shown = {name: value for name, value in document.items() if name not in _NOT_LISTED}
    errors = shown.get("errors")
    return Task.from_document({**shown, "errors": errors[-1:] if isinstance(errors, list) else []})


def _runs_on(task: Task, worker: str) -> bool:
    owner = task.lease.owner if task.lease else ""
    return owner == worker or owner.startswith(f"{worker}.")


def _holds(document: TaskDocument, path: str, value: object) -> bool:
    found = list(_values(document.get("payload"), path.split(".")))
    return any(_equal(each, value) for each in found) or (value is None and not found)


def _values(value: object, steps: Sequence[str]) -> Iterator[object]:
    """Yield what a path leads to: through lists, to each of their items."""
    if isinstance(value, list):
        if not steps:
            yield value
        for item in value:
            if not isinstance(item, list):
                yield from _values(item, steps)
    elif not steps:
        yield value
    elif isinstance(value, dict) and steps[0] in value:
        yield from _values(value[steps[0]], steps[1:])


def _equal(found: object, value: object) -> bool:
    return isinstance(found, bool) == isinstance(value, bool) and found == value


def _position(task: Task) -> Position:
    return ((task.run_at - EPOCH).total_seconds(), str(task.id))


def _cursor(position: Position) -> str:
    return _encoded(f"{position[0]!r} {position[1]}")


def _read(cursor: object) -> Position:
    seconds, _, task_id = _decoded(cursor).partition(" ")
    try:
        return float(seconds), task_id
    except ValueError as error:
        raise bad_cursor(cursor) from error


def _read_place(cursor: object) -> tuple[str, str]:
    queue, separator, fingerprint = _decoded(cursor).partition("\0")
    if not separator:
        raise bad_cursor(cursor)
    return queue, fingerprint


def _encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


def _decoded(cursor: object) -> str:
    try:
        return base64.urlsafe_b64decode(str(cursor)).decode()
    except ValueError as error:
        raise bad_cursor(cursor) from error
