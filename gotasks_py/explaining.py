"""Why a task is not running: told from the task, its queue and the managers that are there.

Rules of this file: it reads no clock and asks no store; all that it judges by is passed in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from gotasks_py.controls import NodeOrder, Pause
from gotasks_py.nodes import Node
from gotasks_py.task import Status, Task


class Reason(StrEnum):
    """Why a task is where it is; the first that applies, in this order."""

    FINISHED = "finished"
    """It is done, dead or cancelled."""
    RUNNING = "running"
    """A worker holds its lease."""
    CANCELLING = "cancelling"
    """Its worker was asked to stop it."""
    LEASE_ENDED = "lease_ended"
    """Its worker is gone; another takes it over, or the janitor ends it."""
    EXPIRED = "expired"
    """Its lifetime is over; it is not started any more."""
    RESERVED = "reserved"
    """A manager has claimed it, and will start it."""
    STUCK = "stuck"
    """It has no time from which it may be claimed, until the janitor gives it one."""
    WAITING_FOR_RETRY = "waiting_for_retry"
    """An attempt failed, and the next is not due yet."""
    NOT_DUE = "not_due"
    """It is to run later."""
    QUEUE_PAUSED = "queue_paused"
    """Nothing is claimed from its queue."""
    NO_HANDLER = "no_handler"
    """No manager that is there handles its type."""
    MANAGERS_QUIET = "managers_quiet"
    """All managers that handle its type were told to claim nothing."""
    WORKERS_BUSY = "workers_busy"
    """All managers that handle its type run as many tasks, or of its queue, as they may."""
    IN_LINE = "in_line"
    """Nothing keeps it; it is next, or behind others that are due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a task is not running, or that it is.

    ``sentence`` says it for people. ``until`` is when that will or may change by itself;
    ``by`` is the worker, or whoever paused the queue.
    """

    task: Task
    reason: Reason
    sentence: str
    until: datetime | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a task is judged by besides itself."""

    now: datetime
    pause: Pause | None
    nodes: Sequence[Node]
    orders: Mapping[str, NodeOrder]
    limit: int | None = None
    """How many tasks of its queue each manager may run, where that was set."""
    running: int = 0
    """How many tasks of its queue run."""


def explanation(task: Task, around: Surroundings) -> Explanation:
    """Tell why a task is not running."""
    judges = (
        *(_finished, _running, _expired, _reserved),
        *(_stuck, _not_due, _paused, _unhandled, _limited, _busy),
    )
    for judge in judges:
        found = judge(task, around)
        if found is not None:
            return found
    since = f"since {_shown(task.due_at)}" if task.due_at else "now"
    return _told(task, Reason.IN_LINE, f"it is due {since}; it is next, or behind others")


def _finished(task: Task, _around: Surroundings) -> Explanation | None:
    if not task.status.is_final:
        return None
    why = ""
    if task.status is Status.DEAD and task.errors:
        why = f", of {task.errors[-1].kind}: {task.errors[-1].message}"
    at = f" since {_shown(task.finished_at)}" if task.finished_at else ""
    return _told(task, Reason.FINISHED, f"it is {task.status}{at}{why}")


def _running(task: Task, around: Surroundings) -> Explanation | None:
    if task.status is not Status.RUNNING:
        return None
    if task.lease is None:
        return _told(task, Reason.LEASE_ENDED, "it is running, but nobody holds a lease of it")
    owner, until = task.lease.owner, task.lease.until
    if until <= around.now:
        step = _next_step(task, owner, until, around)
        sentence = f"the lease of {owner} ended at {_shown(until)}; {step}"
        return _told(task, Reason.LEASE_ENDED, sentence, by=owner)
    if task.cancel_requested_at is not None:
        sentence = f"{owner} was asked to stop it at {_shown(task.cancel_requested_at)}"
        return _told(task, Reason.CANCELLING, sentence, until=until, by=owner)
    sentence = f"it is running: {owner} holds its lease until {_shown(until)}"
    return _told(task, Reason.RUNNING, sentence, until=until, by=owner)


def _next_step(task: Task, owner: str, ended_at: datetime, around: Surroundings) -> str:
    """Tell what becomes of a task whose lease has ended, and whether anybody is there for it."""
    gone = [
        node
        for node in around.nodes
        if owner.startswith(f"{node.id}.") and node.beat_at <= ended_at
    ]
    there = replace(around, nodes=[node for node in around.nodes if node not in gone])
    silent = "".join(f"; {node.id} was last heard of at {_shown(node.beat_at)}" for node in gone)
    if task.due_at is None:
        step = "a manager's janitor ends it"
        return step if there.nodes else f"{step}, but none says that it is there{silent}"
    obstacle = _paused(task, there) or _unhandled(task, there)
    return "another takes it over" if obstacle is None else f"but {obstacle.sentence}{silent}"


def _expired(task: Task, around: Surroundings) -> Explanation | None:
    if task.expires_at is None or task.expires_at > around.now:
        return None
    sentence = f"its lifetime ended at {_shown(task.expires_at)}; it is not started any more"
    return _told(task, Reason.EXPIRED, sentence)


def _reserved(task: Task, around: Surroundings) -> Explanation | None:
    if task.lease is None or task.lease.until <= around.now:
        return None
    owner, until = task.lease.owner, task.lease.until
    sentence = f"{owner} has claimed it and will start it, or give it back by {_shown(until)}"
    return _told(task, Reason.RESERVED, sentence, until=until, by=owner)


def _stuck(task: Task, _around: Surroundings) -> Explanation | None:
    if task.due_at is not None:
        return None
    sentence = "it has no time from which it may be claimed; a manager's janitor puts that right"
    return _told(task, Reason.STUCK, sentence)


def _not_due(task: Task, around: Surroundings) -> Explanation | None:
    due_at = task.due_at
    if due_at is None or due_at <= around.now:
        return None
    if not task.attempts or not task.errors:
        return _told(task, Reason.NOT_DUE, f"it is not due until {_shown(due_at)}", until=due_at)
    sentence = (
        f"attempt {task.attempts} of {task.max_attempts} failed ({task.errors[-1].kind}); the "
        f"next is due at {_shown(due_at)}"
    )
    return _told(task, Reason.WAITING_FOR_RETRY, sentence, until=due_at)


def _paused(task: Task, around: Surroundings) -> Explanation | None:
    pause = around.pause
    if pause is None or not pause.holds(around.now):
        return None
    by = f" by {pause.by}" if pause.by else ""
    ends = f"until {_shown(pause.until)}" if pause.until else "until it is resumed"
    sentence = f"queue {task.queue!r} was paused{by} at {_shown(pause.at)}, {ends}"
    return _told(task, Reason.QUEUE_PAUSED, sentence, until=pause.until, by=pause.by)


def _unhandled(task: Task, around: Surroundings) -> Explanation | None:
    handling = _handling(task, around)
    if any(node.id not in around.orders for node in handling):
        return None
    what = f"type {task.type!r} of queue {task.queue!r}"
    if handling:
        names = ", ".join(f"{node.id} ({around.orders[node.id]})" for node in handling)
        sentence = f"the managers that handle {what} were told to claim nothing: {names}"
        return _told(task, Reason.MANAGERS_QUIET, sentence)
    if around.nodes:
        number = len(around.nodes)
        sentence = (
            f"the only manager that is there does not handle {what}"
            if number == 1
            else f"none of the {number} managers that are there handles {what}"
        )
    else:
        sentence = "no manager says that it is there"
    return _told(task, Reason.NO_HANDLER, sentence)


def _limited(task: Task, around: Surroundings) -> Explanation | None:
    claiming = _claiming(task, around)
    limits = [_limit(node, task.queue, around) for node in claiming]
    if around.running < sum(limits):
        return None
    sentence = (
        f"all workers of queue {task.queue!r} are busy: {around.running} of its tasks run, and "
        f"{_managers(claiming)} may run {sum(limits)} of them at once"
    )
    return _told(task, Reason.WORKERS_BUSY, sentence)


def _busy(task: Task, around: Surroundings) -> Explanation | None:
    claiming = _claiming(task, around)
    if any(node.running < node.capacity for node in claiming):
        return None
    running, capacity = (
        sum(node.running for node in claiming),
        sum(node.capacity for node in claiming),
    )
    sentence = (
        f"all workers that handle it are busy: {running} tasks run on {capacity} workers of "
        f"{_managers(claiming)}"
    )
    return _told(task, Reason.WORKERS_BUSY, sentence)


def _managers(nodes: Sequence[Node]) -> str:
    return "1 manager" if len(nodes) == 1 else f"{len(nodes)} managers"


def _limit(node: Node, queue: str, around: Surroundings) -> int:
    """Tell how many tasks of a queue a manager runs at once, as far as it says so."""
    own = node.workers.get(queue, node.capacity)
    return own if around.limit is None else min(own, around.limit)


def _handling(task: Task, around: Surroundings) -> Sequence[Node]:
    return [node for node in around.nodes if task.type in node.types.get(task.queue, ())]


def _claiming(task: Task, around: Surroundings) -> Sequence[Node]:
    return [node for node in _handling(task, around) if node.id not in around.orders]


def _told(
    task: Task,
    reason: Reason,
    sentence: str,
    *,
    until: datetime | None = None,
    by: str | None = None,
) -> Explanation:
    return Explanation(task=task, reason=reason, sentence=sentence, until=until, by=by)


def _shown(moment: datetime | None) -> str:
    return "?" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"
