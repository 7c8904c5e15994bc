"""Short storms on real processes, from the command line to the report."""

from __future__ import annotations

import errno
import json
import logging
import os
import tempfile
import time
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest
from pymongo import MongoClient

from gotasks_chaos import record
from gotasks_chaos.__main__ import main
from gotasks_chaos.evidence import Evidence, Execution, Stored
from gotasks_chaos.gathering import gather
from gotasks_chaos.ledger import Ledger, LedgerError, Line
from gotasks_chaos.nursery import Nursery, show_logs
from gotasks_chaos.plan import Fault, make_plan
from gotasks_chaos.plan import to_document as plan_to_document
from gotasks_chaos.profiles import GRACEFUL, PROFILES, FaultKind, Times
from gotasks_chaos.record import Record
from gotasks_chaos.report import text, to_document
from gotasks_chaos.run import DATABASE, Crowd, Request, StuckError, overdue_in, server_time
from gotasks_chaos.stage import FaketimeError, Slot, Stage, environment
from gotasks_chaos.work import Setting


@pytest.mark.mongo
@pytest.mark.timeout(120)
def test_a_storm_is_survived_and_reported(
    mongodb: str,
    raw_client: MongoClient[dict[str, Any]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = tmp_path / "report.json"
    told = ["--profile", "zombies", "--seed", "3", "--duration", "3s", "--mode", "pipeline"]

    kept = tmp_path / "kept" / "zombies-pipeline-3"
    told += ["--uri", mongodb, "--report", str(report), "--keep", str(kept.parent)]

    assert main(told) == 0

    (document,) = json.loads(report.read_text())
    assert (document["profile"], document["mode"], document["seed"]) == ("zombies", "pipeline", 3)
    assert document["counts"]["done"] > 0
    assert document["counts"]["freeze_worker"] == len(document["plan"]) > 0
    assert not any(each["violations"] for each in document["invariants"])
    assert "zombies, pipeline mode, seed 3, 3 s" in capsys.readouterr().out
    assert raw_client[DATABASE].list_collection_names() == []
    assert len((kept / "tasks.jsonl").read_text().splitlines()) == document["counts"]["stored"]
    assert {"runner.ledger", "worker-0-0.ledger"} <= {each.name for each in kept.iterdir()}
    assert "File exists" in refusal(*told, capsys=capsys)

    assert main(["--audit", str(kept.parent), "--report", str(report)]) == 0
    assert json.loads(report.read_text()) == [document]


def leave_empty(folder: Path, request: Request) -> None:
    """Leave what a run does in which nothing happened."""
    Ledger(folder / "runner.ledger").write("calm")
    kept = Record(
        profile=request.profile.name,
        mode=request.mode,
        seed=request.seed,
        duration=request.duration,
        plan=plan_to_document(request.plan),
        began_at=datetime.now(UTC),
        machine="a small one",
        versions={},
        members=1,
        offset=0.0,
        counted={},
        drained_after=1.0,
    )
    record.write(folder, kept, [])


def test_a_report_is_replayed_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOTASKS_MONGODB_URI", raising=False)
    faults = make_plan(PROFILES["failover"], 7, 60)
    wanted = Request(
        profile=PROFILES["failover"], mode="single", seed=7, duration=60.0, plan=faults
    )
    leave_empty(tmp_path, wanted)
    report = tmp_path / "report.json"
    report.write_text(json.dumps([to_document(record.read(tmp_path), gather(tmp_path))]))
    requests = list[Request]()

    def run(request: Request, folder: Path) -> None:
        requests.append(request)
        leave_empty(folder, request)

    monkeypatch.setattr("gotasks_chaos.__main__.run", run)

    assert main(["--replay", str(report)]) == 0
    assert requests == [wanted]


def test_what_was_violated_is_kept_and_told_once_more_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(request: Request, folder: Path) -> None:
        if request.mode == "single":
            Ledger(folder / "runner.ledger").write("overdue", what="task 7", seconds=90.0)
        leave_empty(folder, request)

    monkeypatch.delenv("GOTASKS_MONGODB_URI", raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr("gotasks_chaos.__main__.run", run)
    told = ["--profile", "zombies", "--seed", "3", "--duration", "9s"]
    violated = "VIOLATED: invariant 10 by zombies, single mode, seed 3: task 7 waited 90.0 s"

    assert main(told) == 1

    out = capsys.readouterr().out
    (saved,) = tmp_path.iterdir()
    assert f"the evidence is kept in {saved}\n" in out
    assert out.endswith(f"\n{violated}\n")
    assert main(["--audit", str(saved)]) == 1
    assert capsys.readouterr().out.endswith(f"\n{violated}\n")

    assert main([*told, "--mode", "pipeline"]) == 0
    assert capsys.readouterr().out.endswith("\nnothing was violated in 1 run\n")
    assert list(tmp_path.iterdir()) == [saved]


def test_a_violation_is_told_though_the_next_run_fails_and_nothing_can_be_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(request: Request, folder: Path) -> None:
        if request.mode == "pipeline":
            msg = "did not leave"
            raise StuckError(msg)
        Ledger(folder / "runner.ledger").write("overdue", what="task 7", seconds=90.0)
        leave_empty(folder, request)

    def full(**_: str) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.delenv("GOTASKS_MONGODB_URI", raising=False)
    monkeypatch.setattr("gotasks_chaos.__main__.run", run)
    monkeypatch.setattr("gotasks_chaos.__main__.mkdtemp", full)

    with pytest.raises(SystemExit, match="2"):
        main(["--profile", "zombies", "--seed", "3", "--duration", "9s"])

    told = capsys.readouterr()
    assert "single mode, seed 3: task 7 waited 90.0 s\n" in told.out.splitlines(keepends=True)[-1]
    assert "the evidence could not be kept: [Errno 28] No space left on device" in told.err
    assert told.err.endswith("did not leave\n")


def test_a_replay_on_a_cluster_of_ones_own_leaves_its_servers_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    faults = [Fault(1.0, FaultKind.KILL_PRIMARY, 1), Fault(2.0, FaultKind.KILL_WORKER, 1)]
    told = {"profile": "failover", "mode": "single", "seed": 7, "duration": 60}
    report = tmp_path / "report.json"
    report.write_text(json.dumps([{**told, "plan": plan_to_document(faults)}]))
    requests = list[Request]()

    def run(request: Request, _folder: Path) -> None:
        requests.append(request)
        raise StuckError("one did not leave")

    monkeypatch.setattr("gotasks_chaos.__main__.run", run)

    assert "one did not leave" in refusal(
        "--replay", str(report), "--uri", "mongodb://x", capsys=capsys
    )
    assert [each.plan for each in requests] == [faults[1:]]


def test_nobody_is_late_who_waits_in_turn_on_a_slow_machine() -> None:
    crowd = Crowd(slots=16, left=300, now=0.0)

    for second in range(1, 300):
        crowd.count(300 - second, float(second))

    assert crowd.thinned_at == 284.0  # when there was room for the sixteen that were left
    assert crowd.fell_at == 299.0


def test_a_crowd_that_nobody_serves_is_late() -> None:
    crowd = Crowd(slots=16, left=300, now=0.0)

    crowd.count(200, 5.0)
    crowd.count(200, 60.0)
    crowd.count(210, 61.0)  # what is tried again is nothing that was done

    assert (crowd.thinned_at, crowd.fell_at) == (5.0, 5.0)


def test_what_there_is_room_for_is_late_however_much_is_done_meanwhile() -> None:
    crowd = Crowd(slots=16, left=10, now=0.0)

    crowd.count(9, 5.0)
    crowd.count(8, 10.0)

    assert (crowd.thinned_at, crowd.fell_at) == (0.0, 10.0)


@pytest.mark.mongo
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_what_is_overdue_is_told_in_every_time_zone(
    raw_client: MongoClient[dict[str, Any]],
    namespace: str,
    zone: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tasks = raw_client["gotasks_tests"][namespace]
    with monkeypatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        now = server_time(raw_client)
        ages = {"due_at": 9, "reap_at": 8, "due_at ": 1}
        for field, seconds in ages.items():
            tasks.insert_one({"_id": field, field.strip(): now - timedelta(seconds=seconds)})
        late_by = overdue_in(tasks, now, 5.0)
        difference = now.timestamp() - time.time()
    time.tzset()

    assert late_by == {"due_at": 9.0, "reap_at": 8.0}
    assert abs(difference) < 60


@pytest.mark.mongo
@pytest.mark.timeout(60)
def test_a_run_whose_processes_cannot_write_their_ledgers_is_given_up(
    mongodb: str, namespace: str, tmp_path: Path
) -> None:
    def start(nursery: Nursery, slot: Slot) -> None:
        setting = Setting(
            name=slot.name,
            ledger="/dev/full",
            uri=mongodb,
            database="gotasks_tests",
            namespace=namespace,
            seed=1,
            mode="single",
            slots=1,
            rate=1.0,
            **asdict(Times()),
        )
        nursery.start(slot.role, setting)

    prober = Slot("prober", 0)
    with Stage(Ledger(tmp_path / "runner.ledger"), [prober], start) as stage:
        stage.fill(prober)
        with pytest.raises(LedgerError, match="prober-0-0 could not write its ledger"):
            bury_for_ever(stage)


def bury_for_ever(stage: Stage) -> NoReturn:
    while True:
        stage.bury()
        time.sleep(0.01)


def test_goals_are_told_and_are_no_violations(tmp_path: Path) -> None:
    faults = make_plan(PROFILES["realistic"], 7, 60)
    wanted = Request(
        profile=PROFILES["realistic"], mode="single", seed=7, duration=60.0, plan=faults
    )
    leave_empty(tmp_path, wanted)
    runs = [
        Execution(
            task="t",
            token=token,
            attempt=attempt,
            type="work",
            process="worker",
            began=began,
            ended=began + 0.5,
            how="returned",
            run_at=1.0,
            claimed_at=began,
        )
        for attempt, token, began in ((1, "a", 2.0), (2, "b", 7.5))
    ]
    lost = [
        Line(3.0, "database", {"what": "primary killed"}),
        Line(5.0, "database", {"what": "elected", "member": 1}),
        Line(5.1, "database", {"what": "written", "member": 1}),
    ]
    seen = Evidence(asked=[], executions=runs, stored=[Stored(id="t", ref="r")], notes=lost)

    document = to_document(record.read(tmp_path), seen)

    assert "goal MISSED: duplicates of retryable tasks 100 %, at most 0.1 %" in text(document)
    assert "goal MISSED: first claim after an election 2.5 s, at most 2 s" in text(document)
    assert "goal met: duplicates of retryable tasks 0 %" in text(
        to_document(record.read(tmp_path), replace(seen, executions=[]))
    )


def test_what_is_not_shown_of_the_log_can_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(logging.root, "level", logging.WARNING)

    show_logs("CRITICAL")

    assert [handler.level for handler in logging.root.handlers] == [logging.CRITICAL]
    assert logging.getLogger("gotasks_py.x").isEnabledFor(logging.WARNING)


def refusal(*told: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        main(told)
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (("--duration", "soon"), "not a span such as 90s"),
        (("--duration", "\uff11s"), "not a span such as 90s"),
        (("--duration", "0s"), "for a day at most: not '0s'"),
        (("--duration", f"{'9' * 320}h"), "for a day at most"),
        (("--audit", ".", "--replay", "report.json"), "not allowed with argument"),
        (("--audit", ".", "--report", "/nowhere/report.json"), "No such file"),
        (("--report", "/nowhere/report.json"), "No such file"),
        (("--uri", "mongo://x"), "Invalid URI scheme"),
        (("--profile", "quiet"), "invalid choice: 'quiet'"),
        (("--mode", "double"), "invalid choice: 'double'"),
        (("--replay", "/nowhere.json"), "No such file"),
        (("--audit", "/nowhere"), "/nowhere holds no run that --keep kept"),
    ],
)
def test_what_cannot_be_run_is_refused(
    told: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refusal(*told, capsys=capsys)


def replayed(**facts: object) -> str:
    fault = {"at": 1.0, "kind": "kill_worker", "target": 1, "seconds": 0.0} | facts
    told = {"profile": "smoke", "mode": "single", "seed": 1, "duration": 5, "plan": [fault]}
    return json.dumps([told])


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ('[{"mode": "single"}]', "is none: 0.profile: Field required"),
        ('[{"profile": "calm"}]', "no profile: there are smoke, "),
        ('[{"profile": "smoke", "mode": "double"}]', "'single' or 'pipeline'"),
        ('[{"profile": "smoke", "mode": "single", "seed": 1, "duration": -5}]', "greater than 0"),
        ("[]", "at least 1 item"),
        ("{}", "valid array"),
        ("5", "valid array"),
        ("[", "Invalid JSON"),
        (replayed(at=float("nan")), "not a fault"),
        (replayed(seconds=-1), "not a fault"),
        (replayed(target=True), "not a fault"),
        (replayed(kind="flood"), "'flood' is not a valid FaultKind"),
        (replayed(kind="cut_line"), "smoke has no lines to spoil, and is to cut_line"),
    ],
)
def test_what_is_no_report_is_not_replayed(
    report: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "report.json").write_text(report)

    last = refusal("--replay", str(tmp_path / "report.json"), capsys=capsys).splitlines()[-1]

    assert said in last


def test_shifted_clocks_say_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "glob", lambda *_: iter(()))

    assert environment(0) is None
    with pytest.raises(FaketimeError, match="apt-get install faketime"):
        environment(600)


def test_the_profiles_of_the_promise_are_there() -> None:
    kinds = {name: {each.kind for each in one.rhythms} for name, one in PROFILES.items()}
    graceful = {name for name, done in kinds.items() if done <= GRACEFUL}
    three = {name for name, profile in PROFILES.items() if profile.members == 3}

    assert graceful == {"deploys"}
    assert three == {"failover", "everything"}
    assert {name for name, profile in PROFILES.items() if profile.is_proxied} == {"partition"}
