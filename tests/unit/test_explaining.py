"""The first reason that keeps a task from running is told, in a sentence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gotasks_py import NodeOrder, Pause, Reason, Status, Task
from gotasks_py.explaining import Surroundings, explanation
from gotasks_py.nodes import Node
from gotasks_py.task import AttemptError, Lease

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
AT_11 = "2026-01-01 11:00:00 UTC"
ERROR = AttemptError(NOW - HOUR, 1, "w", "Boom", "no disk")


def a_task(**fields: object) -> Task:
    values = {
        "id": 1,
        "queue": "q",
        "type": "t",
        "status": Status.PENDING,
        "due_at": NOW - HOUR,
        "max_attempts": 3,
        **fields,
    }
    return Task(**values)  # type: ignore[arg-type]  # each test gives what it needs


def a_node(name: str = "m.1", running: int = 0, capacity: int = 4, beat_at: datetime = NOW) -> Node:
    return Node(
        id=name,
        host="h",
        pid=1,
        version="0",
        types={"q": ("t", "u")},
        running=running,
        capacity=capacity,
        beat_at=beat_at,
    )


def told(
    task: Task,
    *nodes: Node,
    pause: Pause | None = None,
    orders: dict[str, NodeOrder] | None = None,
) -> tuple[Reason, str]:
    found = explanation(task, Surroundings(now=NOW, pause=pause, nodes=nodes, orders=orders or {}))
    assert found.task is task
    return found.reason, found.sentence


@pytest.mark.parametrize(
    ("fields", "reason", "words"),
    [
        ({"status": Status.DONE, "finished_at": NOW}, Reason.FINISHED, "it is done since"),
        ({"due_at": None}, Reason.STUCK, "no time from which it may be claimed"),
        ({"status": Status.DEAD, "errors": [ERROR]}, Reason.FINISHED, "of Boom: no disk"),
        (
            {"status": Status.RUNNING, "lease": Lease("x", "m.1.2", NOW + HOUR)},
            Reason.RUNNING,
            "m.1.2 holds its lease until 2026-01-01 13:00:00 UTC",
        ),
        (
            {
                "status": Status.RUNNING,
                "lease": Lease("x", "m.1.2", NOW + HOUR),
                "cancel_requested_at": NOW,
            },
            Reason.CANCELLING,
            "m.1.2 was asked to stop it",
        ),
        (
            {"status": Status.RUNNING, "lease": Lease("x", "m.1.2", NOW - HOUR)},
            Reason.LEASE_ENDED,
            "the lease of m.1.2 ended at 2026-01-01 11:00:00 UTC; another takes it over",
        ),
        (
            {"status": Status.RUNNING, "lease": Lease("x", "m", NOW), "due_at": None},
            Reason.LEASE_ENDED,
            "a manager's janitor ends it",
        ),
        ({"status": Status.RUNNING}, Reason.LEASE_ENDED, "nobody holds a lease"),
        ({"expires_at": NOW}, Reason.EXPIRED, "its lifetime ended"),
        ({"lease": Lease("x", "m.1", NOW + HOUR)}, Reason.RESERVED, "m.1 has claimed it"),
        ({"due_at": NOW + HOUR}, Reason.NOT_DUE, "not due until 2026-01-01 13:00:00 UTC"),
        (
            {"due_at": NOW + HOUR, "attempts": 1, "errors": [ERROR]},
            Reason.WAITING_FOR_RETRY,
            "attempt 1 of 3 failed (Boom); the next is due at 2026-01-01 13:00:00 UTC",
        ),
        ({"type": "other"}, Reason.NO_HANDLER, "the only manager that is there does not handle"),
        ({"queue": "other"}, Reason.NO_HANDLER, "the only manager"),
        ({}, Reason.IN_LINE, "it is due since 2026-01-01 11:00:00 UTC"),
    ],
)
def test_a_task_alone_tells_most(fields: dict[str, object], reason: Reason, words: str) -> None:
    found, sentence = told(a_task(**fields), a_node())
    assert (found, words in sentence) == (reason, True), sentence


@pytest.mark.parametrize(
    ("nodes", "due_at", "words"),
    [
        ([], NOW, "; but no manager says that it is there"),
        ([], None, "; a manager's janitor ends it, but none says that it is there"),
        # Its record stays for a while after its process has gone.
        (
            [a_node(beat_at=NOW - HOUR)],
            NOW,
            f"; but no manager says that it is there; m.1 was last heard of at {AT_11}",
        ),
        ([a_node(beat_at=NOW - HOUR), a_node("m.2")], NOW, "; another takes it over"),
        ([a_node("m.11", beat_at=NOW - HOUR)], NOW, "; another takes it over"),
        ([a_node(beat_at=NOW)], NOW, "; another takes it over"),
    ],
)
def test_who_takes_over_is_told_only_where_somebody_is_there(
    nodes: list[Node], due_at: datetime | None, words: str
) -> None:
    lease = Lease("x", "m.1.2", NOW - HOUR)
    task = a_task(status=Status.RUNNING, lease=lease, due_at=due_at)
    reason, sentence = told(task, *nodes)
    assert reason is Reason.LEASE_ENDED
    assert sentence == f"the lease of m.1.2 ended at {AT_11}{words}"


def test_a_pause_keeps_a_lapsed_task_from_its_next_worker() -> None:
    task = a_task(status=Status.RUNNING, lease=Lease("x", "m.1.2", NOW - HOUR))
    sentence = told(task, a_node(), pause=Pause(NOW, NOW + HOUR, "ops"))[1]
    assert "; but queue 'q' was paused by ops" in sentence


def test_a_pause_is_told_with_its_end_and_its_maker() -> None:
    assert told(a_task(), a_node(), pause=Pause(NOW, NOW + HOUR, "ops")) == (
        Reason.QUEUE_PAUSED,
        "queue 'q' was paused by ops at 2026-01-01 12:00:00 UTC, until 2026-01-01 13:00:00 UTC",
    )
    assert "until it is resumed" in told(a_task(), a_node(), pause=Pause(NOW))[1]
    assert told(a_task(), a_node(), pause=Pause(NOW - HOUR, NOW))[0] is Reason.IN_LINE


def test_managers_that_are_busy_quiet_or_not_there_are_told() -> None:
    busy = a_node(running=4)
    assert told(a_task(), busy)[0] is Reason.WORKERS_BUSY
    assert told(a_task(), busy, a_node("m.2"))[0] is Reason.IN_LINE
    reason, sentence = told(a_task(), a_node(), orders={"m.1": NodeOrder.QUIET})
    assert (reason, "m.1 (quiet)" in sentence) == (Reason.MANAGERS_QUIET, True)
    assert told(a_task(), busy, a_node("m.2"), orders={"m.2": NodeOrder.DRAIN})[0] is (
        Reason.WORKERS_BUSY
    )
    assert told(a_task()) == (Reason.NO_HANDLER, "no manager says that it is there")
