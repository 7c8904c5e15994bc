"""The comparison with other libraries, as far as it needs neither them nor their servers."""

from pathlib import Path

import pytest

from bench.peers.__main__ import main
from bench.peers.catalogue import CONTESTANTS
from bench.peers.contest import Outcome, Scale
from bench.peers.environments import ROOT
from bench.peers.ledger import Ledger
from bench.peers.report import Result, write


def test_an_unknown_peer_is_refused_with_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["--peers", "arq,cron"])

    assert "unknown: cron; there are celery" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--tasks", "--repeats", "--latencies", "--minutes"])
def test_a_number_must_be_positive(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([option, "0"])

    assert "0 is not a positive number" in capsys.readouterr().err


def test_contestants_have_names_of_their_own_and_ours_come_first() -> None:
    names = [contestant.name for contestant in CONTESTANTS]

    assert len(set(names)) == len(names)
    assert CONTESTANTS[0].is_ours
    assert all(_file(each.module).exists() for each in CONTESTANTS)


def test_a_slow_contestant_gets_its_share_of_the_tasks() -> None:
    slow = min(CONTESTANTS, key=lambda each: each.share)

    assert Scale(tasks=20_000).share(slow) == 20_000 * slow.share
    assert Scale(tasks=1).share(slow) == 10


def test_the_ledger_tells_what_was_noted_since(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    for number in (7, -1, 7):
        ledger.note(number)

    assert len(ledger) == 3
    assert [entry.number for entry in ledger.entries(1)] == [-1, 7]
    assert ledger.entries()[0].started_ns <= ledger.entries()[2].started_ns

    ledger.clear()
    assert ledger.entries() == []
    ledger.close()


def test_the_report_sets_medians_beside_ours() -> None:
    ours, theirs = CONTESTANTS[0], next(each for each in CONTESTANTS if each.name == "arq")
    results = [
        Result(ours, [_outcome(enqueued=1000, drained=200, delay=4.0, version="0.1.0")]),
        Result(
            theirs,
            [
                _outcome(enqueued=500, drained=300, delay=8.0),
                _outcome(enqueued=700, drained=500, delay=2.0),
                _outcome(enqueued=400, drained=400, delay=6.0, twice=3),
            ],
        ),
    ]

    report = write(results, {"redis": "Redis 7.0.15"}, Scale())

    assert "Servers: Redis 7.0.15." in report
    assert f"| {ours.title} | MongoDB | 1 000 ±0% | 1.00 | 200 ±0% | 1.00 | 4.0 | 4.0 |" in report
    assert "| arq | Redis | 500 ±30% | 0.50 | 400 ±25% | 2.00 | 6.0 | 6.0 | 1.50 | 3 |" in report
    assert "| arq | package 1.2.3 | after running |" in report
    assert report.endswith("Some tasks ran twice without any crash: arq.")


def _file(module: str) -> Path:
    return ROOT.joinpath(*module.split(".")).with_suffix(".py")


def _outcome(
    *, enqueued: float, drained: float, delay: float, twice: int = 0, version: str = "1.2.3"
) -> Outcome:
    return Outcome(enqueued, drained, (delay, delay), twice, {"package": version})
