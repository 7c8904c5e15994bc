"""The zombie and kill suite, as far as it needs neither other libraries nor their servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pymongo import MongoClient

from bench.peers.environments import ROOT
from bench.peers.kill import witness
from bench.peers.kill.__main__ import main
from bench.peers.kill.catalogue import SUBJECTS, Subject
from bench.peers.kill.report import Played, to_document, write
from bench.peers.kill.scene import Scene, play
from bench.peers.kill.verdict import Execution, Observation, Recorded, Scenario, executions
from bench.peers.ledger import VARIABLE
from bench.peers.processes import ContestError
from gotasks_chaos.ledger import read

_CUT = Execution("a-1", "a", started=10.0)
_LATER = Execution("b-1", "b", started=22.5, ended=23.0, how="returned")
_DONE = Recorded("done", "b-1")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--subjects", "gotasks,cron"], "unknown: cron; there are gotasks"),
        (["--scenarios", "sigkill,sighup"], "there are sigkill, sigterm, zombie"),
        (["--repeats", "0"], "0 is not a positive number"),
    ],
)
def test_what_is_not_there_is_refused_with_what_there_is(
    arguments: Sequence[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)

    assert complaint in capsys.readouterr().err


def test_subjects_have_names_of_their_own_and_modules() -> None:
    names = [subject.name for subject in SUBJECTS]

    assert len(set(names)) == len(names)
    for subject in SUBJECTS:
        assert ROOT.joinpath(*subject.module.split(".")).with_suffix(".py").exists()
        assert subject.contestant.is_ours == ("ours" in subject.module)


def test_a_later_execution_is_brief_and_has_a_name_of_its_own(ledger: Path) -> None:
    first = witness.execute("victim", 0.2)
    other = witness.execute("victims", 0.0)
    second = witness.execute("victim", 60.0)

    seen = executions(read(ledger), "victim")

    assert [each.name for each in seen] == [first, second]
    assert all(each.returned and each.worker == "a" for each in seen)
    assert _seconds(seen[0]) >= 0.2
    assert [each.name for each in executions(read(ledger), "victims")] == [other]


def test_an_execution_that_is_cancelled_was_stopped(ledger: Path) -> None:
    async def cancelled() -> None:
        running = asyncio.create_task(witness.execute_async("victim", 60.0))
        await asyncio.sleep(0)  # to its first await
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancelled())

    (seen,) = executions(read(ledger), "victim")
    assert (seen.how, seen.returned) == ("stopped", False)


def test_a_killed_execution_is_lost_unless_another_comes_to_its_end() -> None:
    lost = _seen(Scenario.SIGKILL, _CUT, after=Recorded("started", None))
    again = _seen(Scenario.SIGKILL, _CUT, _LATER)
    cut_twice = _seen(Scenario.SIGKILL, _CUT, replace(_LATER, ended=None, how=None))

    assert (lost.is_lost, lost.again_after) == (True, None)
    assert (again.is_lost, again.again_after, again.finished) == (False, 12.0, 1)
    assert (cut_twice.is_lost, cut_twice.again_after) == (True, 12.0)


@pytest.mark.parametrize(
    ("before", "after", "overwritten"),
    [
        (_DONE, _DONE, False),
        (_DONE, Recorded("done", "a-1"), True),
        (_DONE, Recorded("failed", None), True),
        (None, _DONE, False),
    ],
)
def test_an_outcome_is_overwritten_when_it_changes_after_the_resumption(
    before: Recorded | None, after: Recorded, *, overwritten: bool
) -> None:
    seen = _seen(Scenario.ZOMBIE, _CUT, _LATER, before=before, after=after)

    assert seen.is_overwritten is overwritten


def test_what_nobody_else_ran_cannot_be_overwritten() -> None:
    alone = _seen(Scenario.ZOMBIE, _CUT, before=Recorded("running", None), after=_DONE)
    too_late = replace(alone, executions=[_CUT, _LATER], resumed=22.0)

    assert not alone.is_overwritten
    assert not too_late.is_overwritten


@pytest.mark.parametrize(
    ("seen", "cell"),
    [
        ((Scenario.SIGKILL, [_CUT, _LATER]), "| again after 12 s |  |  |  |"),
        ((Scenario.SIGKILL, [_CUT]), "| not run again: `done` |  |  |  |"),
        ((Scenario.SIGTERM, [_LATER]), "|  | finished |  |  |"),
        ((Scenario.SIGTERM, [_CUT, _LATER]), "|  | stopped, again after 12 s |  |  |"),
        ((Scenario.SIGTERM, [_CUT]), "|  | not run again: `done` |  |  |"),
        (
            (Scenario.SIGTERM, [replace(_CUT, ended=14.0, how="returned"), _LATER]),
            "|  | finished, and again after 12 s |  |  |",
        ),
        (
            (Scenario.ZOMBIE, [replace(_CUT, ended=30.0, how="stopped"), _LATER]),
            "| again after 12 s, the first stopped | kept: `done` |",
        ),
        (
            (Scenario.ZOMBIE, [replace(_CUT, ended=30.0, how="returned")]),
            "| not run elsewhere; the first finished | `done` |",
        ),
        (
            (Scenario.ZOMBIE, [_CUT, replace(_LATER, ended=40.0), replace(_LATER, ended=41.0)]),
            "| not run elsewhere; again after 12 s (3 starts), the first cut off | `done` |",
        ),
    ],
)
def test_the_table_says_what_was_seen(seen: tuple[Scenario, list[Execution]], cell: str) -> None:
    scenario, runs = seen

    report = _row(Played(SUBJECTS[0], {}, [_seen(scenario, *runs), _seen(scenario, *runs)]))

    assert report.endswith(cell)


def test_an_overwritten_outcome_shows_in_the_table_and_in_the_document() -> None:
    seen = _seen(
        Scenario.ZOMBIE,
        replace(_CUT, ended=30.0, how="returned"),
        _LATER,
        before=_DONE,
        after=Recorded("failed", None),
    )
    played = Played(SUBJECTS[0], {"package": "1.2.3"}, [seen])
    by_first = replace(seen, after=Recorded("done", "a-1"))
    by_another = replace(seen, after=Recorded("done", "b-2"))

    assert _row(played).endswith("the first finished | **overwritten**: `done` → `failed` |")
    assert _row(replace(played, observations=[by_first])).endswith(
        "| **overwritten** by the first |"
    )
    assert _row(replace(played, observations=[by_another])).endswith("by one more |")
    assert write([played]).endswith("\n\nVersions: package 1.2.3.")
    (document,) = json.loads(json.dumps(to_document([played])))
    (scene,) = document["scenes"]
    assert document["versions"] == {"package": "1.2.3"}
    assert (scene["overwritten"], scene["executions"], scene["finished"]) == (True, 2, 2)
    assert scene["again_after"] == scene["runs"][1]["started"] == 12.0


@pytest.mark.mongo
@pytest.mark.timeout(90)
def test_a_frozen_worker_of_ours_changes_nothing_when_it_is_resumed(
    mongodb: str, raw_client: MongoClient[dict[str, Any]], tmp_path: Path
) -> None:
    scene = Scene(_subject("gotasks-pipeline"), mongodb, tmp_path, deadline=2, settle=0.5)

    try:
        seen, versions = play(scene, Scenario.ZOMBIE)
    finally:
        raw_client.drop_database("gotasks_kill")

    first, second = seen.executions
    assert (first.how, second.how) == ("stopped", "returned")
    assert seen.before == seen.after == Recorded("done", second.name)
    assert seen.again_after is not None
    assert "pymongo" in versions


@pytest.mark.mongo
@pytest.mark.timeout(60)
def test_a_scene_ends_when_it_is_told_to(mongodb: str, tmp_path: Path) -> None:
    stopping = Event()
    stopping.set()

    with pytest.raises(ContestError, match="ended before its time"):
        play(Scene(_subject("gotasks"), mongodb, tmp_path, stopping=stopping), Scenario.SIGKILL)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "ledger"
    monkeypatch.setenv(VARIABLE, str(path))
    monkeypatch.setenv(witness.WORKER, "a")
    return path


def _seen(
    scenario: Scenario,
    *runs: Execution,
    before: Recorded | None = _DONE,
    after: Recorded = _DONE,
) -> Observation:
    return Observation(
        scenario=scenario,
        executions=runs,
        signalled=10.5,
        before=before,
        resumed=None if before is None else 26.0,
        after=after,
    )


def _row(played: Played) -> str:
    return write([played]).splitlines()[2]


def _seconds(execution: Execution) -> float:
    assert execution.ended is not None
    return execution.ended - execution.started


def _subject(name: str) -> Subject:
    return next(each for each in SUBJECTS if each.name == name)
