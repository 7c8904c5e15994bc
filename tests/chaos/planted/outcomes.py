"""Outcomes that are not what happened, and failures that are not explained, are found; 4, 5, 11."""

from __future__ import annotations

from gotasks_chaos.evidence import Entry
from tests.chaos.histories import (
    INTERRUPTED,
    SECOND,
    WALL,
    Planted,
    Sound,
    asked,
    dead,
    evidence,
    process,
    ran,
    ran_again,
    second,
    stored,
)

LAPSE = Entry(1, "lease_expired", "worker")
LATE_LAPSE = Entry(1, "lease_expired", "somebody.12.1", at=WALL + 5.9)
INTENDED = Entry(1, "x.IntendedError", "worker", "r")
WANTED_AWAY = asked(was_to_be_cancelled=True)
CANCELLED = stored(status="cancelled", settle_token=None, result_token=None)

PLANTED: Planted = [
    (4, "the ledger knows nothing", evidence(runs=[])),
    (4, "which raised", evidence(runs=[ran(how="raised")])),
    (4, "its result is of t0", evidence(tasks=[stored(result_token="t0")])),
    (4, "is done, and attempt t1 made it dead", evidence(tasks=[stored(settle_token="t1/dead")])),
    (
        4,
        "is cancelled, and attempt t1 made it done",
        evidence([WANTED_AWAY], tasks=[stored(status="cancelled")]),
    ),
    (4, "is done, from None to", evidence(tasks=[stored(started_at=None)])),
    (4, "before attempt t1 had ended", evidence(tasks=[stored(finished_at=WALL + 2.0)])),
    (4, "nobody asked for that", evidence(tasks=[CANCELLED])),
    (
        4,
        "is done, and its cancellation was acknowledged",
        evidence([asked(was_to_be_cancelled=True, was_cancelled=True)]),
    ),
    (
        4,
        "was claimed 3.300 s after it was cancelled",
        evidence(
            [WANTED_AWAY],
            [ran(began=6.0, ended=6.1, how="stopped", claimed_at=WALL + 5.9)],
            [CANCELLED],
        ),
    ),
    (
        4,
        "returned, and is said to have failed: ValueError: why",
        evidence(runs=[ran(), ran_again()], tasks=[second("ValueError")]),
    ),
    (
        4,
        "returned, and is said to have failed: ValueError: why",
        evidence(
            runs=[ran(type="threaded"), ran_again(type="threaded")], tasks=[second("ValueError")]
        ),
    ),
    (
        4,
        "returned, and is said to have failed: timeout: why",
        evidence(runs=[ran(ended=2.01), ran_again()], tasks=[second("timeout")]),
    ),
    (
        5,
        "attempt t1 of task task-r was started 2 times",
        evidence(runs=[ran(), ran(process="other", began=3.0, ended=3.5)]),
    ),
    (
        5,
        "attempt t1 of task task-s was started 2 times",
        evidence([asked(), asked("s")], [ran(), ran("s")], [stored(), stored("s")]),
    ),
    (
        5,
        "attempt 1 of task task-r was started 2 times, and not interrupted as often",
        evidence(runs=[ran(how="died"), ran_again(attempt=1)], tasks=[SECOND]),
    ),
    (11, "failed 1 attempts and explains 0", evidence(tasks=[dead(errors=[])])),
    (11, "failed 1 attempts and explains 0", evidence(tasks=[stored(attempts=2)])),
    (
        11,
        "failed 1 attempts and explains [2]",
        evidence(tasks=[second(errors=[Entry(2, "lease_expired", "worker")])]),
    ),
    (
        11,
        "explains attempt 7, and counts 2",
        evidence(tasks=[second(errors=[LAPSE, Entry(7, "lease_expired", "worker")])]),
    ),
    (
        11,
        "dropped 1 entries, and keeps 0",
        evidence(tasks=[second(errors=[], errors_dropped=1)]),
    ),
    (
        11,
        "several outcomes of attempt 1",
        evidence(tasks=[dead(errors=[LAPSE, Entry(1, "ValueError", "a")])]),
    ),
    (11, "of attempt 1 only", evidence(tasks=[dead(errors=[Entry(1, "ValueError", "a", " ")])])),
    (11, "of attempt 1 only", evidence(tasks=[dead(errors=[Entry(1, "", "a", "why")])])),
    (
        11,
        "of attempt 1 only",
        evidence(tasks=[dead(errors=[Entry(1, "x.IntendedError", "a", "no")])]),
    ),
    (
        11,
        "raised, and is told as 'RuntimeError'",
        evidence(
            runs=[ran(how="raised")], tasks=[dead(errors=[Entry(1, "RuntimeError", "worker")])]
        ),
    ),
    (
        11,
        "raised, and is told as 'timeout'",
        evidence(
            runs=[ran(how="raised", ended=2.01)],
            tasks=[dead(errors=[Entry(1, "timeout", "worker")])],
        ),
    ),
    (
        11,
        "was in worker, and its lapse is told of somebody",
        evidence(
            runs=[ran(how="died"), ran_again()],
            tasks=[second(errors=[Entry(1, "lease_expired", "somebody.1234.1")])],
        ),
    ),
]

SOUND: Sound = [
    ("a task was done", evidence()),
    ("a task failed as it was asked to", evidence(runs=[ran(how="raised")], tasks=[dead()])),
    ("one that was not wanted any more", evidence([WANTED_AWAY], [], [CANCELLED])),
    (
        "what returned too late for its timeout",
        evidence(
            runs=[ran(type="threaded", ended=2.9), ran_again(type="threaded")],
            tasks=[second("timeout")],
        ),
    ),
    (
        "an attempt was handed back by a thread that returned, and failed elsewhere",
        evidence(
            runs=[
                ran(type="threaded", ended=3.0),
                ran_again(attempt=1, how="raised", type="threaded"),
                ran_again(began=5.0, token="t3"),
            ],
            tasks=[
                second(
                    interruptions=1, errors=[INTENDED], settle_token="t3/done", result_token="t3"
                )
            ],
            processes=[process(asked_to_leave=2.5), process("other")],
        ),
    ),
    (
        "a claim lapsed that was handed back by another process before",
        evidence(
            runs=[ran(how="stopped"), ran_again(began=6.0)],
            tasks=[second(at=5.9, interruptions=1, errors=[LATE_LAPSE])],
            processes=[process(asked_to_leave=2.4, ended=3.0), process("other")],
            lease=2.0,
            is_undisturbed=True,
        ),
    ),
    (
        "old errors were dropped",
        evidence(
            runs=[ran(attempt=22)],
            tasks=[
                stored(
                    attempts=22,
                    max_attempts=30,
                    errors=[Entry(each, "lease_expired", "a") for each in range(2, 22)],
                    errors_dropped=1,
                )
            ],
        ),
    ),
    ("what was interrupted was done", evidence(runs=[ran_again(attempt=1)], tasks=[INTERRUPTED])),
]
