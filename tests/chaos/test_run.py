"""Short storms on real processes, from the command line to the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from gotasks_chaos.__main__ import main
from gotasks_chaos.evidence import Evidence
from gotasks_chaos.plan import make_plan
from gotasks_chaos.profiles import PROFILES
from gotasks_chaos.report import audit, to_document
from gotasks_chaos.run import DATABASE, Outcome, Request
from gotasks_chaos.stage import FaketimeError, environment


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

    assert main([*told, "--uri", mongodb, "--report", str(report)]) == 0

    (document,) = json.loads(report.read_text())
    assert (document["profile"], document["mode"], document["seed"]) == ("zombies", "pipeline", 3)
    assert document["counts"]["done"] > 0
    assert document["counts"]["freeze_worker"] == len(document["plan"]) > 0
    assert not any(each["violations"] for each in document["invariants"])
    assert "zombies, pipeline mode, seed 3, 3 s" in capsys.readouterr().out
    assert raw_client[DATABASE].list_collection_names() == []


def test_a_report_is_replayed_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = make_plan(PROFILES["failover"], 7, 60)
    wanted = Request(
        profile=PROFILES["failover"], mode="single", seed=7, duration=60.0, plan=faults
    )
    evidence = Evidence(asked=[], executions=[], stored=[])
    outcome = Outcome(request=wanted, evidence=evidence, versions={}, drained_after=1.0)
    report = tmp_path / "report.json"
    report.write_text(json.dumps([to_document(outcome, audit(evidence))]))
    requests = list[Request]()

    def run(request: Request) -> Outcome:
        requests.append(request)
        return outcome

    monkeypatch.setattr("gotasks_chaos.__main__.run", run)

    assert main(["--replay", str(report)]) == 0
    assert requests == [wanted]


def refusal(*told: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        main(told)
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (("--duration", "soon"), "not a span such as 90s"),
        (("--profile", "quiet"), "invalid choice: 'quiet'"),
        (("--mode", "double"), "invalid choice: 'double'"),
        (("--replay", "/nowhere.json"), "No such file"),
    ],
)
def test_what_cannot_be_run_is_refused(
    told: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refusal(*told, capsys=capsys)


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ('[{"mode": "single"}]', "has no 'profile'"),
        ('[{"profile": "calm"}]', "has no 'calm'"),
        ("[", "Expecting value"),
    ],
)
def test_what_is_no_report_is_not_replayed(
    report: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "report.json").write_text(report)

    assert said in refusal("--replay", str(tmp_path / "report.json"), capsys=capsys)


def test_shifted_clocks_say_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "glob", lambda *_: iter(()))

    assert environment(0) is None
    with pytest.raises(FaketimeError, match="apt-get install faketime"):
        environment(600)


def test_the_profiles_of_the_promise_are_there() -> None:
    graceful = {name for name, profile in PROFILES.items() if profile.is_graceful}
    three = {name for name, profile in PROFILES.items() if profile.members == 3}

    assert graceful == {"deploys"}
    assert three == {"failover", "everything"}
    assert {name for name, profile in PROFILES.items() if profile.is_proxied} == {"partition"}
