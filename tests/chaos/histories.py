"""What may have happened to a task, in the words of the audit; sound, unless it says otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from gotasks_chaos.evidence import Asked, Entry, Evidence, Execution, Process, Stored
from gotasks_chaos.ledger import Line

Planted: TypeAlias = list[tuple[int, str, Evidence]]
"""The number under which a violation is to be told, what is to be said, and the evidence."""
Sound: TypeAlias = list[tuple[str, Evidence]]

WALL: Final = 1_000.0
"""The server's clock reads this when the monotonic one reads zero."""
NEVER: Final[dict[str, Any]] = {"answer": "unclear", "task": None, "answered_at": None}


def asked(ref: str = "r", **facts: Any) -> Asked:
    """Tell of an enqueue, by default one that was acknowledged at 1.1."""
    given: dict[str, Any] = {"at": 1.0, "answer": "ack", "answered_at": 1.1, "task": f"task-{ref}"}
    return Asked(ref=ref, **given | facts)


def ran(ref: str = "r", **facts: Any) -> Execution:
    """Tell of an execution, by default of a first attempt that returned at 2.5."""
    given: dict[str, Any] = {
        "token": "t1",
        "attempt": 1,
        "type": "work",
        "process": "worker",
        "began": 2.0,
        "ended": 2.5,
        "how": "returned",
        "run_at": WALL + 1,
        "claimed_at": WALL + 1.9,
    }
    return Execution(task=f"task-{ref}", **given | facts)


def ran_again(began: float = 4.0, ref: str = "r", **facts: Any) -> Execution:
    """Tell of a second attempt, elsewhere."""
    given: dict[str, Any] = {
        "attempt": 2,
        "token": "t2",
        "process": "other",
        "began": began,
        "ended": began + 0.5,
        "claimed_at": WALL + began - 0.1,
    }
    return ran(ref, **given | facts)


def stored(ref: str = "r", **facts: Any) -> Stored:
    """Tell of a task, by default one that its first attempt did."""
    given: dict[str, Any] = {
        "settle_token": "t1/done",
        "result_token": "t1",
        "run_at": WALL + 1,
        "started_at": WALL + 1.9,
        "finished_at": WALL + 2.6,
    }
    return Stored(id=f"task-{ref}", ref=ref, **given | facts)


def dead(ref: str = "r", **facts: Any) -> Stored:
    """Tell of a task whose only attempt failed."""
    given: dict[str, Any] = {
        "status": "dead",
        "max_attempts": 1,
        "settle_token": "t1/dead",
        "result_token": None,
        "errors": [Entry(1, "x.IntendedError", "worker", ref)],
    }
    return stored(ref, **given | facts)


def second(kind: str = "lease_expired", at: float = 0.0, **facts: Any) -> Stored:
    """Tell of a task whose first attempt failed at a time, and whose second did it."""
    given: dict[str, Any] = {
        "attempts": 2,
        "errors": [Entry(1, kind, "worker", at=WALL + at)],
        "settle_token": "t2/done",
        "result_token": "t2",
        "finished_at": WALL + 90,
    }
    return stored(**given | facts)


def process(name: str = "worker", ended: float | None = 9.0, **facts: Any) -> Process:
    """Tell of a process, by default a worker that left when it was asked to."""
    given: dict[str, Any] = {"began": 0.0, "code": 0, "asked_to_leave": ended}
    return Process(name=name, ended=ended, **given | facts)


def killed(name: str = "worker", ended: float = 9.0, **facts: Any) -> Process:
    """Tell of a process that was killed."""
    given: dict[str, Any] = {"code": -9, "was_killed": True, "asked_to_leave": None}
    return process(name, ended, **given | facts)


def evidence(
    asks: Sequence[Asked] = (asked(),),
    runs: Sequence[Execution] = (ran(),),
    tasks: Sequence[Stored] = (stored(),),
    **facts: Any,
) -> Evidence:
    """Tell of a run, by default of one task that was done by one worker."""
    given: dict[str, Any] = {"processes": [process()], "offset": WALL}
    return Evidence(asked=asks, executions=runs, stored=tasks, **given | facts)


def of_database(*told: tuple[float, str, int]) -> list[Line]:
    """Tell what became of the servers: when, what, to which member."""
    return [Line(at, "database", {"what": what, "member": who}) for at, what, who in told]


FROZEN: Final = process(gaps=[(2.2, 5.8)])
SECOND: Final = second()
INTERRUPTED: Final = replace(SECOND, attempts=1, interruptions=1, errors=[])
