"""Metrics that count what did not happen, or miss what was told, are found; 9."""

from __future__ import annotations

from typing import Any

from gotasks_chaos.evidence import Entry
from tests.chaos.histories import (
    NEVER,
    SECOND,
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

ALL = {"enqueued": 1, "claimed": 1, "done": 1}
BOTH: dict[str, Any] = {"processes": [process(), killed("other")]}
TWO = (
    [asked(), asked("s")],
    [ran(), ran("s", token="s1", process="other")],
    [stored(), stored("s", settle_token="s1/done", result_token="s1")],
)

PLANTED: Planted = [
    (9, "metrics count 2 done, and there were 1", evidence(counted=ALL | {"done": 2})),
    (9, "metrics count 0 done, and those who left saw 1", evidence(counted=ALL | {"done": 0})),
    (9, "metrics count 0 enqueued, and those who left saw 1", evidence(counted={})),
    (
        9,
        "metrics count 0 claimed, and those who left saw 1",
        evidence(counted=ALL | {"claimed": 0}, is_graceful=True),
    ),
    (9, "metrics count 9 claimed, and there were 1", evidence(counted=ALL | {"claimed": 9})),
    (9, "metrics count 1 snoozed, and there were 0", evidence(counted=ALL | {"snoozed": 1})),
    (9, "metrics count 1 requeued, and there were 0", evidence(counted=ALL | {"requeued": 1})),
    (9, "metrics count 1 retried, and there were 0", evidence(counted=ALL | {"retried": 1})),
    (9, "metrics count 3 interrupted, and there", evidence(counted=ALL | {"interrupted": 3})),
    (9, "metrics count 2 lease_lost, and there were 1", evidence(counted=ALL | {"lease_lost": 2})),
    (
        9,
        "metrics count 0 claimed, and those who left saw 1",
        evidence(
            counted=ALL | {"claimed": 0},
            processes=[process(), process("worker-9", code=-15, ready_at=None)],
            is_graceful=True,
        ),
    ),
    (9, "metrics count 0 done, and those who left saw 1", evidence(counted=ALL | {"done": 0})),
    (
        9,
        "metrics count 0 done, and those who left saw 1",
        evidence(*TWO, counted={"enqueued": 1}, is_undisturbed=True, **BOTH),
    ),
]

SOUND: Sound = [
    ("every process told all that it had counted", evidence(counted=ALL, is_graceful=True)),
    (
        "nobody heard that an enqueue, a claim and a failure were carried out",
        evidence(
            [asked(**NEVER)],
            [ran(how="raised"), ran_again()],
            [second(errors=[Entry(1, "x.IntendedError", "worker", "r")])],
            counted={"done": 1},
        ),
    ),
    (
        "one left in an outage, before all was over",
        evidence(counted={}, processes=[process(left_early=True)]),
    ),
    ("a killed process did not", evidence(counted={"enqueued": 1}, processes=[killed()])),
    (
        "one that left told all, and another was killed",
        evidence(*TWO, counted=ALL, is_undisturbed=True, **BOTH),
    ),
    ("one that left in an outage told nothing", evidence(*TWO, counted={}, **BOTH)),
    (
        "a lapse is seen by whoever comes next, and may be no failure",
        evidence(
            runs=[ran(how="stopped"), ran_again()],
            tasks=[SECOND],
            counted=ALL | {"claimed": 2, "lease_lost": 1},
        ),
    ),
    (
        "a failure that was the last one was not tried again",
        evidence(
            runs=[ran(how="raised")],
            tasks=[dead()],
            counted={"enqueued": 1, "claimed": 1, "failed": 1, "dead": 1},
        ),
    ),
    (
        "a lapse that was the last one was told by the janitor",
        evidence(
            runs=[ran(how="died")],
            tasks=[dead(settle_token=None, errors=[Entry(1, "lease_expired", "worker")])],
            counted={"enqueued": 1, "claimed": 1, "dead": 1},
        ),
    ),
]
