"""What the audit reads in the folder of a run, and what it refuses to read."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gotasks_chaos import record
from gotasks_chaos.__main__ import main
from gotasks_chaos.evidence import Evidence, Process
from gotasks_chaos.gathering import gather
from gotasks_chaos.plan import Fault, to_document
from gotasks_chaos.profiles import FaultKind
from gotasks_chaos.record import Record

HEALTH: dict[str, Any] = {"reasons": [], "logged": 0, "files": 9}
ASKED = [0.4, "ask", {"ref": "r", "key": None, "delay": 0.0, "once": False}]
STARTED: dict[str, Any] = {
    "task": "t",
    "token": "t1",
    "attempt": 1,
    "type": "work",
    "run_at": 1.0,
    "claimed_at": 1.0,
}
TASK: dict[str, Any] = {
    "_id": "t",
    "payload": {"ref": "r"},
    "type": "work",
    "status": "done",
    "attempts": 1,
    "max_attempts": 20,
    "interruptions": 0,
    "errors": [],
    "errors_dropped": 0,
    "run_at": {"$date": "2026-01-01T00:00:00Z"},
}
LIFE: list[list[Any]] = [
    [0.1, "born", {"process": "worker-0"}],
    [20.0, "calm", {}],
    [20.1, "stopping", {"process": "worker-0"}],
    [60.1, "ended", {"process": "worker-0", "code": 0, "at": 60.0}],
]
WELL: list[list[Any]] = [[0.5 * step, "health", HEALTH] for step in range(1, 40)]


def write(path: Path, lines: list[Any]) -> None:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    kept = Record(
        profile="deploys",
        mode="single",
        seed=1,
        duration=20.0,
        plan=to_document([Fault(1.0, FaultKind.STOP_WORKER, 1)]),
        began_at=datetime.now(UTC),
        machine="a small one",
        versions={},
        members=1,
        offset=0.0,
        counted={},
        drained_after=1.0,
    )
    record.write(tmp_path, kept, [])
    write(tmp_path / "tasks.jsonl", [TASK])
    write(tmp_path / "runner.ledger", LIFE)
    write(tmp_path / "worker-0.ledger", [*WELL, [20.2, "left", {}]])
    return tmp_path


def rewritten(folder: Path, **facts: Any) -> Evidence:
    path = folder / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | facts))
    return gather(folder)


def worker(folder: Path) -> Process:
    (process,) = gather(folder).processes
    return process


def test_what_was_done_to_whom_decides_what_is_judged(folder: Path) -> None:
    kill = to_document([Fault(1.0, FaultKind.KILL_WORKER, 1)])
    step_down = to_document([Fault(1.0, FaultKind.STEP_DOWN, 1)])

    orderly, edited, disturbed, of_others = (
        (evidence.is_graceful, evidence.is_undisturbed)
        for evidence in (
            gather(folder),
            rewritten(folder, plan=kill),
            rewritten(folder, plan=step_down),
            rewritten(folder, plan=[], members=None),
        )
    )

    assert (orderly, edited, disturbed) == ((True, True), (False, True), (False, False))
    assert of_others == (False, False)


def test_a_worker_that_is_well_has_no_complaints(folder: Path) -> None:
    assert worker(folder).complaints == []
    assert worker(folder).ready_at == 0.5


def test_the_last_complaint_before_all_was_calm_is_heard(folder: Path) -> None:
    late = {**HEALTH, "reasons": ["heartbeat is late"]}
    gap = [19.0, "gap", {"since": 18.5, "until": 18.9}]
    write(
        folder / "worker-0.ledger", [*WELL, gap, [19.9, "health", late], [30.0, "health", HEALTH]]
    )

    assert worker(folder).complaints == ["heartbeat is late"]


def test_who_tells_nothing_of_itself_is_not_well(folder: Path) -> None:
    write(folder / "worker-0.ledger", WELL[:20])

    assert worker(folder).complaints == ["it tells nothing"]


def test_who_leaves_while_all_gets_calm_is_given_its_time(folder: Path) -> None:
    asked = [18.0, "stopping", {"process": "worker-0"}]
    write(folder / "runner.ledger", [LIFE[0], asked, LIFE[1], LIFE[3]])
    write(folder / "worker-0.ledger", [*WELL[:20], [25.0, "left", {}]])

    assert list(worker(folder).complaints) == []


def test_who_hardly_got_to_run_speaks_of_that(folder: Path) -> None:
    gap = [19.9, "gap", {"since": 17.0, "until": 19.8}]
    write(folder / "worker-0.ledger", [*WELL[:33], gap])

    assert list(worker(folder).complaints) == []


def test_a_hang_is_no_gap_but_the_silence_of_one_that_was_killed_is(folder: Path) -> None:
    assert worker(folder).ran(20.2, 60.0) == pytest.approx(39.8)

    write(folder / "runner.ledger", [*LIFE, [55.0, "killing", {"process": "worker-0"}]])

    assert worker(folder).ran(20.2, 60.0) == 0.0


def test_a_producer_is_at_work_from_its_first_question_on(folder: Path) -> None:
    born = [0.1, "born", {"process": "producer-0"}]
    write(folder / "runner.ledger", [*LIFE, born])
    write(folder / "producer-0.ledger", [ASKED])

    (producer,) = (each for each in gather(folder).processes if each.name == "producer-0")

    assert producer.ready_at == 0.4
    assert (producer.files, producer.logged) == (0, 0)


def test_who_was_asked_to_leave_in_the_midst_of_the_storm_left_early(folder: Path) -> None:
    assert not worker(folder).left_early

    write(folder / "runner.ledger", [*LIFE, [30.0, "fault", {"kind": "stop_worker"}]])

    assert worker(folder).left_early


@pytest.mark.parametrize(
    ("name", "lines", "said"),
    [
        ("worker-9.ledger", [], "its runner knows no such process"),
        ("runner.ledger", LIFE[1:], "tells of worker-0 (stopping), and not of its birth"),
        ("runner.ledger", [], "its runner knows no such process"),
        ("worker-0.ledger", [[1.0, "start", {**STARTED, "token": None}]], "a proper 'token'"),
        ("worker-0.ledger", [[1.0, "health", {"reasons": None}]], "a proper 'reasons'"),
        (
            "worker-0.ledger",
            [[1.0, "gap", {"since": 1.0}]],
            "'gap' at 1.0 without a proper 'until'",
        ),
        ("worker-0.ledger", [5, ASKED], "line 1 of"),
        ("tasks.jsonl", [TASK, {}], "line 2 of the stored tasks is no task: KeyError"),
        ("tasks.jsonl", [None], "line 1 of the stored tasks is no task"),
        ("tasks.jsonl", [{**TASK, "run_at": 5}], "line 1 of the stored tasks is no task"),
        ("tasks.jsonl", [{**TASK, "_id": {"$oid": "5"}}], "line 1 of"),
    ],
)
def test_a_damaged_folder_is_not_audited(
    folder: Path, name: str, lines: list[Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / name, lines)

    with pytest.raises(SystemExit, match="2"):
        main(["--audit", str(folder)])

    assert said in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("tasks.jsonl", '{"_id": "t", "pay', "line 1 of"),
        ("run.json", "{}", "is no record of a run: profile: Field required"),
        ("run.json", "", "is no record of a run: Invalid JSON"),
    ],
)
def test_a_torn_file_is_named(
    folder: Path, name: str, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / name).write_text(text)

    with pytest.raises(SystemExit, match="2"):
        main(["--audit", str(folder)])

    last = capsys.readouterr().err.splitlines()[-1]
    assert name in last
    assert said in last
