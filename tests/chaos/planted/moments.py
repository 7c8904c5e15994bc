"""Keys that two tasks hold, and starts before their time, are found; 7 and 8."""

from __future__ import annotations

from typing import Any

from gotasks_chaos.evidence import Entry
from tests.chaos.histories import (
    NEVER,
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

A = asked("a", key="k")
B = asked("b", key="k", at=1.2, answered_at=1.3)
UNCLEAR_B = asked("b", key="k", **NEVER)
NEXT = asked("b", key="k", at=2.6, answered_at=2.7)
RAN_B = ran("b", token="u1")
DONE_A, DONE_B = stored("a"), stored("b", settle_token="u1/done", result_token="u1")
DEAD = [dead("a"), dead("b", finished_at=WALL + 9)]
REFUSED: dict[str, Any] = {"answer": "duplicate", "task": None}

PLANTED: Planted = [
    (7, "both held 'k', for 1.300 s", evidence([A, B], [], [DONE_A, DONE_B])),
    (
        7,
        "both held 'k'",
        evidence([A, B], [], [stored("a", finished_at=None), stored("b", finished_at=None)]),
    ),
    (7, "both held 'k', for 0.600 s", evidence([A, UNCLEAR_B], [RAN_B], [DONE_A, DONE_B])),
    (
        7,
        "both held 'k', for 0.600 s",
        evidence([asked("a", key="k", answered_at=8.0), B], [ran("a"), RAN_B], [DONE_A, DONE_B]),
    ),
    (
        7,
        "nobody held 'k'",
        evidence(
            [A, asked("b", key="k", at=3.0, answered_at=3.1, **REFUSED)], [ran("a")], [DONE_A]
        ),
    ),
    (
        7,
        "nobody held 'k'",
        evidence(
            [A, asked("b", key="k", at=2.9, answered_at=3.0, **REFUSED)], [ran("a")], [DONE_A]
        ),
    ),
    (7, "asked for no key", evidence([asked(**REFUSED)], [], [])),
    (7, "is done, and holds 'k'", evidence([asked(key="k")], tasks=[stored(held_key="k")])),
    (8, "was started", evidence(runs=[ran(run_at=WALL + 2.1)])),
    (8, "by the server's clock", evidence(tasks=[stored(run_at=WALL + 1.901)])),
    (8, "before the delay", evidence([asked(delay=5.0)])),
    (8, "before the delay", evidence([asked(delay=5.0, **NEVER)])),
    (8, "before the delay", evidence([asked(delay=5.0, answered_at=8.0)])),
    (
        8,
        "was tried again 0.400 s after attempt 1 failed",
        evidence(
            runs=[ran(how="raised"), ran_again(2.9)], tasks=[second("ValueError")], backoff=0.5
        ),
    ),
    (
        8,
        "was tried again 0.400 s after attempt 1 failed",
        evidence(runs=[ran(how="stopped"), ran_again(2.9)], tasks=[second("timeout")], backoff=0.5),
    ),
]

SOUND: Sound = [
    (
        "a duplicate was refused",
        evidence(
            [A, asked("b", key="k", at=2.0, answered_at=2.1, **REFUSED)], [ran("a")], [DONE_A]
        ),
    ),
    (
        "a duplicate was refused for one whose answer was lost",
        evidence(
            [
                asked("a", key="k", **NEVER),
                asked("b", key="k", at=2.61, answered_at=2.7, **REFUSED),
            ],
            [ran("a")],
            [DONE_A],
        ),
    ),
    (
        "a duplicate was refused while its holder's end was being written",
        evidence(
            [A, asked("b", key="k", at=2.8, answered_at=2.9, **REFUSED)], [ran("a")], [DONE_A]
        ),
    ),
    ("a key was passed on", evidence([A, NEXT], [ran("a", how="raised")], DEAD)),
    (
        "a key was passed on, and the first of its answers came late",
        evidence(
            [asked("a", key="k", answered_at=8.0), NEXT],
            [ran("a", how="raised"), ran("b", token="u1", began=3.0, ended=3.1, how="raised")],
            DEAD,
        ),
    ),
    (
        "a thread was out of time, went on, and was tried again in its time",
        evidence(
            runs=[
                ran(type="threaded", ended=3.9),
                ran_again(4.2, type="threaded", ended=4.5),
            ],
            tasks=[second("timeout")],
            backoff=0.5,
        ),
    ),
    (
        "what was handed back failed elsewhere",
        evidence(
            runs=[
                ran(how="stopped"),
                ran_again(2.6, attempt=1, how="stopped", ended=3.2),
                ran_again(3.8, token="t3"),
            ],
            tasks=[second("timeout", interruptions=1, settle_token="t3/done", result_token="t3")],
            processes=[process(asked_to_leave=2.4), process("other")],
            backoff=0.5,
        ),
    ),
    ("a delay was kept, almost", evidence([asked(delay=1.2)])),
    (
        "a failure was tried again in its time, which is counted in whole milliseconds",
        evidence(
            runs=[ran(how="raised"), ran_again(2.999)],
            tasks=[second(errors=[Entry(1, "x.IntendedError", "worker", "r")])],
            backoff=0.5,
        ),
    ),
    (
        "a failure was tried again in its time, another before, for nobody had told of it",
        evidence(
            [asked(), asked("s")],
            [
                ran(how="raised"),
                ran_again(3.1),
                ran("s", token="s1", how="raised", ended=4.0),
                ran_again(4.1, "s", token="s2"),
            ],
            [
                second(errors=[Entry(1, "x.IntendedError", "worker", "r")]),
                second(at=4.0, ref="s", settle_token="s2/done", result_token="s2"),
            ],
            backoff=0.5,
            lease=2.0,
        ),
    ),
]
