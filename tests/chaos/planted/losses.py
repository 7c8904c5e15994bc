"""Tasks that are lost, doubled, repeated or miscounted are found; 1, 2 and 3."""

from __future__ import annotations

from gotasks_chaos.evidence import Entry
from tests.chaos.histories import (
    INTERRUPTED,
    NEVER,
    Planted,
    Sound,
    asked,
    dead,
    evidence,
    killed,
    process,
    ran,
    ran_again,
    second,
    stored,
)

BOTH = [asked("a"), asked("b")]
TWO_TASKS = (
    [ran("a"), ran("b", token="u1")],
    [
        stored("a"),
        stored("b", settle_token="u1/done", result_token="u1"),
    ],
)
AGAIN = ran_again(attempt=1)

PLANTED: Planted = [
    (1, "acknowledged and is gone", evidence(tasks=[])),
    (1, "still pending", evidence(tasks=[stored(status="pending")])),
    (1, "exists 2 times", evidence([asked(answer="unclear")], tasks=[stored(), stored()])),
    (1, "answered with duplicate", evidence([asked(answer="duplicate", task=None)])),
    (1, "was refused: why", evidence([asked(answer="refused", why="why")], [], [])),
    (1, "no producer asked", evidence([])),
    (1, "was started in worker, and does not exist", evidence([], [ran()], [])),
    (
        1,
        "a was told of task task-b, and is task task-a",
        evidence([asked("a", task="task-b"), asked("b", task="task-a")], *TWO_TASKS),
    ),
    (
        1,
        "b was told of task task-a, and is task task-b",
        evidence([asked("a"), asked("b", task="task-a")], *TWO_TASKS),
    ),
    (
        1,
        "r was told of task task-x, and is task task-r",
        evidence([asked(answer="unclear", task="task-x")]),
    ),
    (2, "started 2 times", evidence(runs=[ran(), AGAIN], tasks=[stored(max_attempts=1)])),
    (2, "never started", evidence(runs=[], tasks=[dead()], is_graceful=True)),
    (2, "was to be attempted once, and allows 20", evidence([asked(once=True)])),
    (3, "was started 2 times, and counts 1 attempts", evidence(runs=[ran(), AGAIN])),
    (3, "3 attempts of 2", evidence(tasks=[stored(attempts=3, max_attempts=2)])),
    (3, "attempt 3 of task task-r was started", evidence(runs=[ran(attempt=3)])),
    (3, "died at attempt 1 of 20", evidence(tasks=[dead(max_attempts=20)])),
    (
        3,
        "was started 2 times, interrupted less often, and counts",
        evidence(
            runs=[ran(how="died"), AGAIN],
            tasks=[INTERRUPTED],
            processes=[killed(ended=2.5), process("other")],
        ),
    ),
    (
        3,
        "was started 2 times, interrupted less often, and counts",
        evidence(
            runs=[ran(how="raised"), AGAIN],
            tasks=[INTERRUPTED],
            processes=[process(), process("other")],
        ),
    ),
    (
        3,
        "was done twice",
        evidence(runs=[ran(), AGAIN], tasks=[stored(interruptions=1)], is_graceful=True),
    ),
    (
        3,
        "was done twice",
        evidence(
            runs=[ran(type="threaded"), AGAIN],
            tasks=[INTERRUPTED],
            processes=[process(asked_to_leave=2.4), process("other")],
            is_graceful=True,
            grace=5.0,
        ),
    ),
    (
        3,
        "attempt 1 of task task-r was burnt: stopped",
        evidence(
            runs=[ran(how="stopped", ended=8.0)],
            tasks=[dead(errors=[Entry(1, "stopped", "worker")])],
            processes=[process(asked_to_leave=2.5)],
            is_graceful=True,
            grace=5.0,
        ),
    ),
    (3, "lost its lease", evidence(tasks=[second()], is_graceful=True)),
    (
        3,
        "attempt 1 of task task-r was burnt: stopped",
        evidence(tasks=[dead(errors=[Entry(1, "stopped", "worker")])], is_graceful=True),
    ),
    (
        3,
        "attempt 1 of task task-r was burnt: interrupted",
        evidence(
            runs=[ran(how="stopped", ended=3.0)],
            tasks=[dead(errors=[Entry(1, "interrupted", "worker")])],
            processes=[process(asked_to_leave=2.5)],
            is_graceful=True,
            grace=5.0,
        ),
    ),
]

SOUND: Sound = [
    ("two tasks are two tasks", evidence(BOTH, *TWO_TASKS)),
    ("an unclear one exists", evidence([asked(**NEVER)])),
    ("an unclear one does not", evidence([asked(**NEVER)], [], [])),
    (
        "an interruption counts no attempt",
        evidence(
            runs=[ran(how="stopped"), AGAIN],
            tasks=[INTERRUPTED],
            processes=[process(asked_to_leave=2.4), process("other")],
        ),
    ),
    (
        "a thread was handed back, went on until its process was killed, and others did it",
        evidence(
            runs=[ran(how="died", type="threaded", ended=9.0), AGAIN],
            tasks=[INTERRUPTED],
            processes=[killed(asked_to_leave=3.0), process("other")],
        ),
    ),
    (
        "a thread was handed back, and returned as well",
        evidence(
            runs=[ran(type="threaded", ended=8.0), ran_again(attempt=1, type="threaded")],
            tasks=[INTERRUPTED],
            processes=[process(asked_to_leave=3.0), process("other")],
            is_graceful=True,
        ),
    ),
    (
        "a task of one attempt was at it when the grace was over",
        evidence(
            runs=[ran(how="stopped", ended=8.0)],
            tasks=[dead(errors=[Entry(1, "interrupted", "worker")])],
            processes=[process(asked_to_leave=2.5)],
            is_graceful=True,
            grace=5.0,
        ),
    ),
    (
        "a handler failed as it was asked to, and another was out of time",
        evidence(
            [asked(), asked("s")],
            [ran(how="raised"), ran("s", token="s1", how="stopped")],
            [dead(), dead("s", errors=[Entry(1, "timeout", "worker")])],
            is_graceful=True,
        ),
    ),
]
