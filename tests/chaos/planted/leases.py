"""Leases that end too soon, or whose end changes nothing, and losers that record are found; 6."""

from __future__ import annotations

from gotasks_chaos.evidence import Entry
from tests.chaos.histories import (
    FROZEN,
    SECOND,
    WALL,
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

DIED = [ran(how="died", ended=3.0), ran_again()]
BOTH_LIVED = [ran(ended=6.0), ran_again(3.0, ended=6.0)]
SIDE_BY_SIDE = [ran(ended=2.4), ran_again(2.0, ended=2.4)]
STOPPED = evidence(
    runs=[ran(how="stopped", ended=2.5), ran_again()],
    tasks=[second(at=3.9)],
    processes=[process(ended=2.6)],
    lease=2.0,
    is_undisturbed=True,
)
LOST_FAILURE = ran(ended=4.5, how="raised")

PLANTED: Planted = [
    (6, "while both lived", evidence(runs=BOTH_LIVED, tasks=[SECOND])),
    (
        6,
        "for 1.000 s while both lived",
        evidence(
            runs=[ran(ended=6.8), ran_again(3.0, ended=7.0)], tasks=[SECOND], processes=[FROZEN]
        ),
    ),
    (
        6,
        "for 0.400 s, in worker and other, and nothing had ended the first one's lease",
        evidence(runs=SIDE_BY_SIDE, tasks=[second("timeout")]),
    ),
    (
        6,
        "and nothing had ended the first one's lease",
        evidence(
            runs=[ran(type="threaded", ended=9.0), ran_again(type="threaded")],
            tasks=[second("ValueError")],
        ),
    ),
    (6, "t1, after t2 had taken it over", evidence(runs=[ran(), ran_again()])),
    (
        6,
        "t1, after attempt 2 had taken it over",
        evidence(tasks=[stored(attempts=2, errors=[Entry(1, "lease_expired", "worker")])]),
    ),
    (
        6,
        "t1, after t2 had taken it over",
        evidence(
            runs=[ran(how="raised", ended=4.5), ran_again(how="stopped")],
            tasks=[dead(attempts=2, max_attempts=2)],
        ),
    ),
    (
        6,
        "attempt 1 of task task-r is said to have failed 0.600 s after attempt 2 was claimed",
        evidence(runs=[LOST_FAILURE, ran_again()], tasks=[second("x.IntendedError", at=4.5)]),
    ),
    (
        6,
        "taken from worker 1.10 s after its claim, in the midst of a lease of 2 s",
        evidence(runs=DIED, tasks=[second(at=3.0)], lease=2.0),
    ),
    (
        6,
        "which ran all the while and had not ended",
        evidence(
            runs=[ran(ended=9.0, type="threaded"), ran_again()],
            tasks=[second(at=3.9)],
            lease=2.0,
            is_undisturbed=True,
        ),
    ),
    (
        6,
        "which ran all the while and had returned",
        evidence(runs=[ran(), ran_again()], tasks=[second(at=3.9)], lease=2.0, is_undisturbed=True),
    ),
    (6, "which ran all the while and had stopped", STOPPED),
    (
        6,
        "went on in worker for 0.700 s after its lease was over, until it returned",
        evidence(runs=[ran(ended=6.5)], tasks=[second(at=4.0)], processes=[FROZEN]),
    ),
]

SOUND: Sound = [
    ("a lapse was taken over", evidence(runs=DIED, tasks=[SECOND])),
    (
        "a zombie was frozen",
        evidence(
            runs=[ran(ended=6.0), ran_again(3.0, ended=7.0)], tasks=[SECOND], processes=[FROZEN]
        ),
    ),
    (
        "a thread could not be stopped",
        evidence(runs=[ran(ended=6.0, type="threaded"), ran_again()], tasks=[SECOND]),
    ),
    (
        "a thread was out of time, and went on",
        evidence(
            runs=[ran(ended=6.0, type="threaded"), ran_again(type="threaded")],
            tasks=[second("timeout")],
        ),
    ),
    (
        "a handler that would not stop was handed back",
        evidence(
            runs=[ran(ended=6.0, type="threaded"), ran_again(attempt=1, type="threaded")],
            tasks=[second(attempts=1, interruptions=1, errors=[])],
            processes=[process(asked_to_leave=2.5)],
        ),
    ),
    (
        "a handler was stopped soon after its process went on, and a thread could not be",
        evidence(
            [asked(), asked("s")],
            [ran(ended=6.2, how="stopped"), ran("s", token="s1", ended=9.0, type="threaded")],
            [
                dead(settle_token=None, errors=second(at=4.0).errors),
                dead("s", settle_token=None, errors=second(at=4.0).errors),
            ],
            processes=[FROZEN],
        ),
    ),
    (
        "a lease ended in its time, for its holder had died",
        evidence(
            runs=DIED,
            tasks=[second(at=3.9)],
            processes=[killed(ended=3.0)],
            lease=2.0,
            is_undisturbed=True,
        ),
    ),
    (
        "a lease ended in its time, and its holder had heard late of its begin",
        evidence(
            runs=[ran(began=2.5, ended=3.0, how="died", claimed_at=WALL + 2.4)],
            tasks=[
                dead(
                    settle_token=None,
                    started_at=WALL + 1.9,
                    errors=[Entry(1, "lease_expired", "worker", at=WALL + 3.9)],
                )
            ],
            lease=2.0,
        ),
    ),
    (
        "a lease ended in its time, for its holder was frozen",
        evidence(
            runs=[ran(ended=6.0), ran_again(ended=7.0)],
            tasks=[second(at=3.9)],
            processes=[FROZEN],
            lease=2.0,
            is_undisturbed=True,
        ),
    ),
    (
        "a lease ended while its holder was frozen, and a backlog came before who noticed",
        evidence(
            runs=[ran(ended=6.0), ran_again(40.0)],
            tasks=[second(at=39.9)],
            processes=[process(ended=50.0, gaps=[(2.2, 5.8)])],
            lease=2.0,
            is_undisturbed=True,
        ),
    ),
    (
        "a lease ended while its holder hardly got to run",
        evidence(
            runs=[ran(), ran_again(40.0)],
            tasks=[second(at=39.9)],
            processes=[process(ended=50.0, gaps=[(2.2, 2.6), (2.8, 3.2), (3.4, 3.8)])],
            lease=2.0,
            is_undisturbed=True,
        ),
    ),
]
