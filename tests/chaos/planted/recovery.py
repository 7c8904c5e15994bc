"""What does not get well by itself is found, and what is not modest; 10."""

from __future__ import annotations

from gotasks_chaos.evidence import Evidence, Process
from gotasks_chaos.ledger import Line
from gotasks_chaos.nursery import NO_DATABASE
from gotasks_chaos.producer import KEYS
from tests.chaos.histories import (
    SECOND,
    WALL,
    Planted,
    Sound,
    evidence,
    killed,
    of_database,
    process,
    ran,
    ran_again,
)

CRASH = "loop queues crashed and has not recovered: RuntimeError: x"
LATE = [ran(how="died"), ran_again(17.0, claimed_at=WALL + 17)]
KILLED_AND_ELECTED = [(3.0, "primary killed", 0), (6.0, "elected", 1)]
UNTIL_20 = [process(ended=20.0)]
PROBER = process("prober-0-9", asked_to_leave=None, ready_at=None)


def roll(at_once: int) -> Line:
    return Line(1.0, "roll", {"worker": "worker-1", "at_once": at_once, "slots": 4})


def probe(key: str, *, ok: bool = True) -> Line:
    return Line(1.0, "probe", {"key": key, "ok": ok, "why": "" if ok else "taken"})


def alone(*processes: Process) -> Evidence:
    return evidence(processes=processes)


def failing(since: float, until: float) -> Line:
    return Line(until, "failing", {"since": since, "until": until})


PLANTED: Planted = [
    (10, "waited 9.0 s", evidence(notes=[Line(1.0, "overdue", {"what": "t", "seconds": 9.0})])),
    (10, "key 'k' is stuck", evidence(notes=[probe("k", ok=False)])),
    (10, "worker-1 ran nothing, with more than enough to do", evidence(notes=[roll(0)])),
    (10, "worker-1 ran 3 tasks at a time, of 4", evidence(notes=[roll(3)])),
    (
        10,
        "key 'key-1' was not tried",
        evidence(processes=[PROBER], notes=[probe("key-0"), roll(4)]),
    ),
    (
        10,
        "no worker was seen at work after the storm",
        evidence(
            processes=[PROBER],
            notes=[*(probe(key) for key in KEYS), Line(1.0, "calling", {})],
        ),
    ),
    (10, "did not end", alone(process(ended=None))),
    (10, "by itself with code 1", alone(process(ended=1.0, code=1))),
    (10, "by itself with code 1", alone(process(ended=1.0, code=1, ready_at=None))),
    (10, "by itself with code 1", alone(killed(code=1))),
    (10, "by itself with code 0", alone(process(asked_to_leave=None))),
    (10, "by itself with code -9", alone(process(code=-9))),
    (10, "by itself with code -15", alone(process(code=-15, asked_to_leave=None, ready_at=None))),
    (10, f"by itself with code {NO_DATABASE}", alone(process("producer-1", code=NO_DATABASE))),
    (
        10,
        f"by itself with code {NO_DATABASE}",
        alone(process("prober-0-9", code=NO_DATABASE, ready_at=None)),
    ),
    (10, "was not seen at work in 60 s", alone(process(ended=60.0, ready_at=None))),
    (
        10,
        "complains when all is calm: loop x crashed",
        alone(process(ended=1.0, complaints=["loop x crashed"])),
    ),
    (10, f"worker said: {CRASH}", alone(killed(crashes=[CRASH]))),
    (
        10,
        "was asked to leave, and was still there after 31 s",
        alone(killed(ended=60.0, asked_to_leave=20.0, gaps=[(30.0, 39.0)])),
    ),
    (
        10,
        "first claim 11.0 s after the election",
        evidence(
            runs=LATE,
            tasks=[SECOND],
            notes=of_database(*KILLED_AND_ELECTED, (11.9, "written", 1)),
            processes=UNTIL_20,
        ),
    ),
    (
        10,
        "a worker was there for 8.5 s of that",
        evidence(
            runs=LATE,
            tasks=[SECOND],
            notes=[
                *of_database(*KILLED_AND_ELECTED, (6.1, "written", 1)),
                failing(1.0, 2.0),
                failing(6.0, 8.5),
            ],
            processes=UNTIL_20,
        ),
    ),
    (
        10,
        "and a bare write after 0.1 s",
        evidence(
            runs=LATE,
            tasks=[SECOND],
            notes=of_database((3.0, "all killed", -1), (6.0, "elected", 1), (6.1, "written", 1)),
            processes=UNTIL_20,
        ),
    ),
    (
        10,
        "and a bare write after 0.2 s",
        evidence(
            runs=LATE,
            tasks=[SECOND],
            notes=of_database(
                (1.0, "primary killed", 0),
                (1.5, "elected", 1),
                (3.0, "primary killed", 1),
                (6.0, "elected", 2),
                (6.2, "written", 2),
                (16.0, "written", 1),
            ),
            processes=UNTIL_20,
        ),
    ),
    (
        10,
        "no claim before the new primary was lost in its turn",
        evidence(
            notes=of_database(
                (3.0, "primary stepped down", 0),
                (3.5, "elected", 1),
                (3.6, "written", 1),
                (8.7, "primary frozen", 1),
                (8.8, "elected", 0),
            )
        ),
    ),
    (
        10,
        "primary killed: no claim came after the election",
        evidence(notes=of_database(*KILLED_AND_ELECTED)),
    ),
    (10, "had 101 files open", alone(process(files=101))),
    (10, "logged 60 records in 9 s", alone(process(logged=60))),
]

SOUND: Sound = [
    (
        "every key was tried, and every worker was at full work",
        evidence(processes=[PROBER], notes=[*(probe(key) for key in KEYS), roll(4)]),
    ),
    (
        "a primary was lost before a majority could be had",
        evidence(
            runs=LATE,
            tasks=[SECOND],
            notes=of_database(
                (3.0, "primary frozen", 0),
                (3.5, "elected", 1),
                (10.0, "primary killed", 1),
                (16.5, "elected", 2),
                (16.6, "written", 2),
            ),
            processes=UNTIL_20,
        ),
    ),
    (
        "a majority could be had late, and the first claim came soon after",
        evidence(
            runs=LATE,
            tasks=[SECOND],
            notes=of_database(*KILLED_AND_ELECTED, (12.1, "written", 1)),
            processes=UNTIL_20,
        ),
    ),
    (
        "commands were made to fail, and the first claim came soon after",
        evidence(
            runs=LATE,
            tasks=[SECOND],
            notes=[
                *of_database(*KILLED_AND_ELECTED, (6.1, "written", 1)),
                failing(6.5, 12.5),
            ],
            processes=UNTIL_20,
        ),
    ),
    (
        "a primary was lost before anybody could claim from it, and the next one told in time",
        evidence(
            runs=LATE,
            tasks=[SECOND],
            notes=of_database(
                (3.0, "primary stepped down", 0),
                (6.0, "elected", 1),
                (6.1, "primary frozen", 1),
                (14.0, "elected", 0),
                (14.1, "written", 1),
                (16.0, "written", 0),
                (18.0, "member back", 1),
            ),
            processes=UNTIL_20,
        ),
    ),
    (
        "no worker was there to claim anything",
        evidence(
            runs=LATE,
            tasks=[SECOND],
            notes=of_database(*KILLED_AND_ELECTED, (6.5, "written", 1)),
            processes=[
                killed("worker-0", ended=8.0),
                process("worker-1", ended=20.0, gaps=[(7.5, 16.0)]),
                process("worker-2", ended=20.0, asked_to_leave=6.0),
                process("worker-3", began=8.0, ended=20.0, ready_at=16.5),
                process("producer", ended=20.0),
            ],
        ),
    ),
    (
        "a process was told to go before it was ready",
        alone(process(code=-15, asked_to_leave=8.9, ready_at=None)),
    ),
    (
        "a process found no database",
        alone(process(code=NO_DATABASE, asked_to_leave=None, ready_at=None)),
    ),
    ("a killed process is no complaint", alone(killed())),
]
