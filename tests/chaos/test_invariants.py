"""The auditor finds every violation that is planted, and none where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gotasks_chaos.evidence import Asked, Entry, Evidence, Execution, Process, Stored
from gotasks_chaos.invariants import INVARIANTS
from gotasks_chaos.ledger import Line
from gotasks_chaos.nursery import NO_DATABASE

WALL = 1_000.0  # the server's clock reads this when the monotonic one reads zero


def asked(ref: str = "r", **facts: Any) -> Asked:
    given: dict[str, Any] = {"at": 1.0, "answer": "ack", "answered_at": 1.1, "task": f"task-{ref}"}
    return Asked(ref=ref, **given | facts)


def ran(ref: str = "r", **facts: Any) -> Execution:
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


def stored(ref: str = "r", **facts: Any) -> Stored:
    given: dict[str, Any] = {
        "settle_token": "t1/done",
        "result_token": "t1",
        "run_at": WALL + 1,
        "started_at": WALL + 1.9,
        "finished_at": WALL + 2.6,
    }
    return Stored(id=f"task-{ref}", ref=ref, **given | facts)


def evidence(
    asks: Sequence[Asked] = (asked(),),
    runs: Sequence[Execution] = (ran(),),
    tasks: Sequence[Stored] = (stored(),),
    **facts: Any,
) -> Evidence:
    worker = Process(name="worker", began=0.0, ended=9.0, code=0)
    given: dict[str, Any] = {"processes": [worker], "offset": WALL}
    return Evidence(asked=asks, executions=runs, stored=tasks, **given | facts)


def dead(ref: str = "r", **facts: Any) -> Stored:
    given: dict[str, Any] = {
        "status": "dead",
        "max_attempts": 1,
        "settle_token": "t1/dead",
        "result_token": None,
        "errors": [Entry(1, "ValueError", "worker")],
    }
    return stored(ref, **given | facts)


KEYED = [asked("a", key="k"), asked("b", key="k", at=1.2, answered_at=1.3)]
TWICE: dict[str, Any] = {"attempts": 2, "errors": [Entry(1, "lease_expired", "worker")]}
SECOND = stored(settle_token="t2/done", result_token="t2", **TWICE)
OTHER: dict[str, Any] = {"attempt": 2, "token": "t2", "process": "other"}
LAPSE = Entry(1, "lease_expired", "a")
TAKEN_OVER = [
    ran(how="died", ended=3.0),
    ran(**OTHER, began=4.0, ended=4.5, claimed_at=WALL + 3.9),
]
FROZEN = Process(name="worker", began=0.0, ended=9.0, code=0, gaps=[(2.2, 5.8)])


def lapsed(kind: str = "lease_expired", at: float = 0.0) -> Stored:
    """Make a task whose first attempt failed at a time, and whose second did it."""
    return replace(SECOND, errors=[Entry(1, kind, "worker", at=WALL + at)])


PLANTED: list[tuple[int, str, Evidence]] = [
    (1, "acknowledged and is gone", evidence(tasks=[])),
    (1, "still pending", evidence(tasks=[stored(status="pending")])),
    (1, "exists 2 times", evidence([asked(answer="unclear")], tasks=[stored(), stored()])),
    (1, "answered with duplicate", evidence([asked(answer="duplicate", task=None)])),
    (1, "was refused: why", evidence([asked(answer="refused", why="why")], [], [])),
    (1, "no producer asked", evidence([])),
    (
        2,
        "started 2 times",
        evidence(runs=[ran(), ran(token="t2", began=3.0)], tasks=[stored(max_attempts=1)]),
    ),
    (
        2,
        "never started",
        evidence(runs=[], tasks=[dead(max_attempts=1)], is_graceful=True),
    ),
    (3, "counts 1 attempts", evidence(runs=[ran(), ran(token="t2", began=3.0)])),
    (3, "3 attempts of 2", evidence(tasks=[stored(attempts=3, max_attempts=2)])),
    (4, "the ledger knows nothing", evidence(runs=[])),
    (4, "which raised", evidence(runs=[ran(how="raised")])),
    (4, "its result is of t0", evidence(tasks=[stored(result_token="t0")])),
    (
        3,
        "was done twice",
        evidence(
            runs=[ran(), ran(token="t2", began=3.0)],
            tasks=[stored(interruptions=1)],
            is_graceful=True,
        ),
    ),
    (3, "lost its lease", evidence(tasks=[stored(**TWICE)], is_graceful=True)),
    (
        3,
        "attempt 1 of task task-r was burnt: stopped",
        evidence(tasks=[dead(errors=[Entry(1, "stopped", "worker")])], is_graceful=True),
    ),
    (4, "is done, and its cancellation", evidence([asked(was_cancelled=True)])),
    (5, "started 2 times", evidence(runs=[ran(), ran(began=3.0)])),
    (
        6,
        "while both lived",
        evidence(runs=[ran(ended=6.0), ran(**OTHER, began=3.0, ended=6.0)], tasks=[SECOND]),
    ),
    (
        6,
        "had taken it over",
        evidence(runs=[ran(), ran(**OTHER, began=3.0, claimed_at=WALL + 3)]),
    ),
    (
        6,
        "for 1.000 s while both lived",
        evidence(
            runs=[ran(ended=6.8), ran(**OTHER, began=3.0, ended=7.0)],
            tasks=[SECOND],
            processes=[FROZEN],
        ),
    ),
    (7, "both held 'k', for 1.300 s", evidence(KEYED, [], [stored("a"), stored("b")])),
    (
        7,
        "both held 'k'",
        evidence(KEYED, [], [stored("a", finished_at=None), stored("b", finished_at=None)]),
    ),
    (
        7,
        "both held 'k', for 0.600 s",
        evidence(
            [KEYED[0], replace(KEYED[1], answer="unclear")],
            [ran("b")],
            [stored("a"), stored("b")],
        ),
    ),
    (
        7,
        "nobody held 'k'",
        evidence(
            [KEYED[0], asked("b", key="k", at=3.0, answered_at=3.1, answer="duplicate", task=None)],
            [ran("a")],
            [stored("a")],
        ),
    ),
    (8, "was started", evidence(runs=[ran(run_at=WALL + 2.1)])),
    (8, "by the server's clock", evidence(tasks=[stored(run_at=WALL + 1.901)])),
    (8, "before the delay", evidence([asked(delay=5.0)])),
    (9, "metrics count 2 done, and there were 1", evidence(counted={"done": 2})),
    (
        9,
        "metrics count 0 done, and there were 1",
        evidence(counted={"enqueued": 1}, is_graceful=True),
    ),
    (10, "waited 9.0 s", evidence(notes=[Line(1.0, "overdue", {"what": "t", "seconds": 9.0})])),
    (
        10,
        "key 'k' is stuck",
        evidence(notes=[Line(1.0, "probe", {"key": "k", "ok": False, "why": "taken"})]),
    ),
    (
        10,
        "worker-1 ran nothing, with more than enough to do",
        evidence(notes=[Line(1.0, "roll", {"worker": "worker-1", "at_once": 0, "slots": 4})]),
    ),
    (
        10,
        "worker-1 ran 3 tasks at a time, of 4",
        evidence(notes=[Line(1.0, "roll", {"worker": "worker-1", "at_once": 3, "slots": 4})]),
    ),
    (10, "did not end", evidence(processes=[Process(name="worker", began=0.0)])),
    (
        10,
        "by itself with code 1",
        evidence(processes=[Process(name="worker", began=0.0, ended=1.0, code=1)]),
    ),
    (
        10,
        "complains when all is calm: loop x crashed",
        evidence(
            processes=[
                Process(name="worker", began=0.0, ended=1.0, code=0, complaints=["loop x crashed"])
            ]
        ),
    ),
    (
        10,
        "worker said: loop queues crashed and has not recovered: RuntimeError: x",
        evidence(
            processes=[
                Process(
                    name="worker",
                    began=0.0,
                    ended=9.0,
                    code=-9,
                    was_killed=True,
                    crashes=["loop queues crashed and has not recovered: RuntimeError: x"],
                )
            ]
        ),
    ),
    (
        10,
        "was asked to leave, and was still there after 31 s",
        evidence(
            processes=[
                Process(
                    name="worker",
                    began=0.0,
                    ended=60.0,
                    code=-9,
                    was_killed=True,
                    asked_to_leave=20.0,
                    gaps=[(30.0, 39.0)],
                )
            ]
        ),
    ),
    (
        10,
        "first claim 11.0 s after the election",
        evidence(
            runs=[ran(claimed_at=WALL + 1), ran(token="t2", claimed_at=WALL + 17)],
            notes=[
                Line(3.0, "database", {"what": "primary killed"}),
                Line(6.0, "database", {"what": "elected", "member": 1}),
                Line(11.9, "database", {"what": "written", "member": 1}),
            ],
            processes=[Process(name="worker", began=0.0, ended=20.0, code=0)],
        ),
    ),
    (
        10,
        "no claim before the new primary was lost in its turn",
        evidence(
            notes=[
                Line(3.0, "database", {"what": "primary stepped down"}),
                Line(3.5, "database", {"what": "elected", "member": 1}),
                Line(8.7, "database", {"what": "primary frozen"}),
                Line(8.8, "database", {"what": "elected", "member": 0}),
            ],
        ),
    ),
    (
        10,
        "primary killed: no claim came after the election",
        evidence(
            notes=[
                Line(3.0, "database", {"what": "primary killed"}),
                Line(6.0, "database", {"what": "elected", "member": 1}),
            ]
        ),
    ),
    (
        10,
        "had 101 files open",
        evidence(processes=[Process(name="worker", began=0.0, ended=9.0, files=101)]),
    ),
    (
        10,
        "logged 60 records in 9 s",
        evidence(processes=[Process(name="worker", began=0.0, ended=9.0, logged=60)]),
    ),
    (11, "failed 1 attempts and explains 0", evidence(tasks=[dead(errors=[])])),
    (11, "failed 1 attempts and explains 0", evidence(tasks=[stored(attempts=2)])),
    (
        11,
        "several outcomes of attempt 1",
        evidence(tasks=[dead(errors=[LAPSE, Entry(1, "ValueError", "a")])]),
    ),
    (
        6,
        "taken from worker 1.10 s after its claim, in the midst of a lease of 2 s",
        evidence(runs=TAKEN_OVER, tasks=[lapsed(at=3.0)], lease=2.0),
    ),
    (
        6,
        "which ran all the while and had not ended",
        evidence(
            runs=[ran(ended=9.0, type="threaded"), *TAKEN_OVER[1:]],
            tasks=[lapsed(at=3.9)],
            lease=2.0,
            is_undisturbed=True,
        ),
    ),
    (
        6,
        "went on in worker for 0.700 s after its lease was over, until it returned",
        evidence(runs=[ran(ended=6.5)], tasks=[lapsed(at=4.0)], processes=[FROZEN]),
    ),
    (
        8,
        "was tried again 0.400 s after attempt 1 failed",
        evidence(
            runs=[ran(how="raised"), ran(**OTHER, began=2.9, ended=3.0, claimed_at=WALL + 2.8)],
            tasks=[lapsed(kind="ValueError")],
            backoff=0.5,
        ),
    ),
    (
        6,
        "which ran all the while and had returned",
        evidence(
            runs=[ran(), *TAKEN_OVER[1:]], tasks=[lapsed(at=3.9)], lease=2.0, is_undisturbed=True
        ),
    ),
    (1, "was started in worker, and does not exist", evidence([], [ran()], [])),
    (3, "died at attempt 1 of 20", evidence(tasks=[dead(max_attempts=20)])),
    (
        4,
        "returned, and is said to have failed: ValueError: why",
        evidence(tasks=[lapsed(kind="ValueError")]),
    ),
    (4, "nobody asked for that", evidence(tasks=[stored(status="cancelled")])),
    (
        10,
        "by itself with code 1",
        evidence(processes=[Process(name="p", began=0.0, ended=1.0, code=1, ready_at=None)]),
    ),
    (9, "metrics count nothing", evidence(counted={"done": 0})),
    (11, "of attempt 1 only", evidence(tasks=[dead(errors=[Entry(1, "ValueError", "a", "")])])),
    (
        11,
        "of attempt 1 only",
        evidence(tasks=[dead(errors=[Entry(1, "x.IntendedError", "a", "no")])]),
    ),
]

SOUND: list[tuple[str, Evidence]] = [
    (
        "a majority could be had late, and the first claim came soon after",
        evidence(
            runs=[
                ran(how="died"),
                ran(**OTHER, began=17.0, ended=18.0, claimed_at=WALL + 17),
            ],
            tasks=[SECOND],
            notes=[
                Line(3.0, "database", {"what": "primary killed"}),
                Line(6.0, "database", {"what": "elected", "member": 1}),
                Line(12.1, "database", {"what": "written", "member": 1}),
            ],
        ),
    ),
    (
        "a primary was lost before anybody could claim from it, and the next one told in time",
        evidence(
            runs=[ran(how="died"), ran(**OTHER, began=17.0, ended=18.0, claimed_at=WALL + 17)],
            tasks=[SECOND],
            notes=[
                Line(3.0, "database", {"what": "primary stepped down"}),
                Line(6.0, "database", {"what": "elected", "member": 1}),
                Line(6.1, "database", {"what": "primary frozen"}),
                Line(14.0, "database", {"what": "elected", "member": 0}),
                Line(14.1, "database", {"what": "written", "member": 1}),
                Line(16.0, "database", {"what": "written", "member": 0}),
                Line(18.0, "database", {"what": "member back"}),
            ],
            processes=[Process(name="worker", began=0.0, ended=20.0, code=0)],
        ),
    ),
    (
        "no worker was there to claim anything",
        evidence(
            runs=[ran(how="died"), ran(**OTHER, began=17.0, ended=18.0, claimed_at=WALL + 17)],
            tasks=[SECOND],
            notes=[
                Line(3.0, "database", {"what": "primary killed"}),
                Line(6.0, "database", {"what": "elected", "member": 1}),
                Line(6.5, "database", {"what": "written", "member": 1}),
            ],
            processes=[
                Process(name="worker-0", began=0.0, ended=8.0, code=-9, was_killed=True),
                Process(name="worker-1", began=0.0, ended=20.0, code=0, gaps=[(7.5, 16.0)]),
                Process(name="worker-2", began=0.0, ended=20.0, code=0, asked_to_leave=6.0),
                Process(name="worker-3", began=8.0, ended=20.0, code=0, ready_at=16.5),
                Process(name="producer", began=0.0, ended=20.0, code=0),
            ],
        ),
    ),
    (
        "a lease ended in its time, for its holder had died",
        evidence(runs=TAKEN_OVER, tasks=[lapsed(at=3.9)], lease=2.0, is_undisturbed=True),
    ),
    (
        "a lease ended in its time, and its holder had heard late of its begin",
        evidence(
            runs=[ran(began=2.5, ended=3.0, how="died", claimed_at=WALL + 2.4)],
            tasks=[
                dead(started_at=WALL + 1.9, errors=[Entry(1, "lease_expired", "w", at=WALL + 3.9)])
            ],
            lease=2.0,
        ),
    ),
    (
        "a lease ended in its time, for its holder was frozen",
        evidence(
            runs=[ran(ended=6.0), ran(**OTHER, began=4.0, ended=7.0, claimed_at=WALL + 3.9)],
            tasks=[lapsed(at=3.9)],
            processes=[FROZEN],
            lease=2.0,
            is_undisturbed=True,
        ),
    ),
    (
        "a lease ended while its holder was frozen, and a backlog came before who noticed",
        evidence(
            runs=[ran(ended=6.0), ran(**OTHER, began=40.0, ended=41.0, claimed_at=WALL + 39.9)],
            tasks=[lapsed(at=39.9)],
            processes=[replace(FROZEN, ended=50.0)],
            lease=2.0,
            is_undisturbed=True,
        ),
    ),
    (
        "a lease ended while its holder hardly got to run",
        evidence(
            runs=[ran(), ran(**OTHER, began=40.0, ended=41.0, claimed_at=WALL + 39.9)],
            tasks=[lapsed(at=39.9)],
            processes=[
                Process(
                    name="worker",
                    began=0.0,
                    ended=50.0,
                    code=0,
                    gaps=[(2.2, 2.6), (2.8, 3.2), (3.4, 3.8)],
                )
            ],
            lease=2.0,
            is_undisturbed=True,
        ),
    ),
    (
        "a failure was tried again in its time, another before, for nobody had told of it",
        evidence(
            [asked(), asked("s")],
            [
                ran(how="raised"),
                ran(**OTHER, began=3.1, ended=3.2, claimed_at=WALL + 3.05),
                ran("s", token="s1", how="raised", ended=4.0),
                ran("s", **OTHER, began=4.1, ended=4.2, claimed_at=WALL + 4),
            ],
            [
                lapsed(kind="ValueError"),
                replace(lapsed(at=4.0), id="task-s", ref="s"),
            ],
            backoff=0.5,
            lease=2.0,
        ),
    ),
    ("nothing happened", evidence([], [], [])),
    ("a task was done", evidence()),
    ("an unclear one exists", evidence([asked(answer="unclear", task=None)])),
    ("an unclear one does not", evidence([asked(answer="unclear", task=None)], [], [])),
    ("a duplicate was refused", evidence([asked(answer="duplicate", task=None)], [], [])),
    (
        "a lapse was taken over",
        evidence(runs=[ran(how="died"), ran(**OTHER, began=3.0, ended=4.0)], tasks=[SECOND]),
    ),
    (
        "a zombie was frozen",
        evidence(
            runs=[ran(ended=6.0), ran(**OTHER, began=3.0, ended=7.0, claimed_at=WALL + 3)],
            tasks=[SECOND],
            processes=[FROZEN],
        ),
    ),
    (
        "a thread could not be stopped",
        evidence(
            runs=[
                ran(ended=6.0, type="threaded"),
                ran(**OTHER, began=3.0, ended=7.0, claimed_at=WALL + 3),
            ],
            tasks=[SECOND],
        ),
    ),
    (
        "a handler was stopped soon after its process went on, and a thread could not be",
        evidence(
            [asked(), asked("s")],
            [ran(ended=6.2, how="stopped"), ran("s", ended=9.0, type="threaded")],
            [
                dead(errors=[lapsed(at=4.0).errors[0]]),
                dead("s", errors=[lapsed(at=4.0).errors[0]]),
            ],
            processes=[FROZEN],
        ),
    ),
    (
        "a handler failed as it was asked to, and another was out of time",
        evidence(
            [asked(), asked("s")],
            [ran(how="raised"), ran("s", how="stopped")],
            [
                dead(errors=[Entry(1, "x.IntendedError", "worker", "r")]),
                dead("s", errors=[Entry(1, "timeout", "worker")]),
            ],
            is_graceful=True,
        ),
    ),
    (
        "a duplicate was refused for one whose answer was lost",
        evidence(
            [
                asked("a", key="k", answer="unclear", answered_at=None, task=None),
                asked("b", key="k", at=2.61, answered_at=2.7, answer="duplicate", task=None),
            ],
            [ran("a")],
            [stored("a")],
        ),
    ),
    (
        "an interruption counts no attempt",
        evidence(
            runs=[ran(how="stopped"), ran(token="t2", began=3.0, ended=4.0, claimed_at=WALL + 3)],
            tasks=[replace(SECOND, attempts=1, interruptions=1, errors=[])],
        ),
    ),
    (
        "a key was passed on",
        evidence(
            [asked("a", key="k"), asked("b", key="k", at=2.6, answered_at=2.7)],
            [],
            [dead(ref="a"), dead(ref="b", finished_at=WALL + 9)],
        ),
    ),
    (
        "a key was passed on, and the first of its answers came late",
        evidence(
            [asked("a", key="k", answered_at=8.0), asked("b", key="k", at=2.6, answered_at=2.7)],
            [],
            [dead(ref="a"), dead(ref="b", finished_at=WALL + 9)],
        ),
    ),
    ("a killed process did not tell all that it had counted", evidence(counted={"enqueued": 1})),
    (
        "every process told all that it had counted",
        evidence(counted={"enqueued": 1, "done": 1}, is_graceful=True),
    ),
    ("old errors were dropped", evidence(tasks=[stored(attempts=2, errors_dropped=1)])),
    (
        "a process was told to go before it was ready",
        evidence(processes=[Process(name="worker", began=0.0, ended=9.0, code=-15, ready_at=None)]),
    ),
    (
        "a process found no database",
        evidence(
            processes=[Process(name="w", began=0.0, ended=9.0, code=NO_DATABASE, ready_at=None)]
        ),
    ),
    (
        "a killed process is no complaint",
        evidence(
            processes=[Process(name="worker", began=0.0, ended=9.0, code=-9, was_killed=True)]
        ),
    ),
]


def found_in(evidence: Evidence) -> dict[int, list[str]]:
    findings = {each.number: each.check(evidence).violations for each in INVARIANTS}
    return {number: violations for number, violations in findings.items() if violations}


@pytest.mark.parametrize(("number", "message", "planted"), PLANTED)
def test_a_planted_violation_is_found(number: int, message: str, planted: Evidence) -> None:
    assert any(message in each for each in found_in(planted)[number])


@pytest.mark.parametrize(("what", "sound"), SOUND)
def test_no_violation_is_found_where_there_is_none(what: str, sound: Evidence) -> None:
    assert not found_in(sound), what


def test_every_invariant_has_a_planted_violation() -> None:
    assert {number for number, _, _ in PLANTED} == {each.number for each in INVARIANTS}


def test_checks_count_what_they_look_at() -> None:
    counts = {each.number: each.check(evidence()).examined for each in INVARIANTS}

    assert counts == {1: 1, 2: 0, 3: 1, 4: 1, 5: 1, 6: 0, 7: 0, 8: 1, 9: 0, 10: 2, 11: 0}


def test_a_task_that_waits_for_its_next_attempt_has_not_begun_it() -> None:
    waiting = stored(status="pending", run_at=WALL + 9, finished_at=None)

    assert found_in(evidence(tasks=[waiting])).keys() == {1}
