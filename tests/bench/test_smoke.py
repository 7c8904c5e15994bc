"""Every benchmark runs, on a server that it starts itself."""

import pytest

from bench.__main__ import BENCHMARKS, main

pytestmark = pytest.mark.mongo


def test_a_quick_run_prints_a_row_for_every_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--quick"])

    printed = capsys.readouterr().out
    for name in BENCHMARKS:
        assert f"{name}, in " in printed
    for row in (
        "enqueue one by one",
        "enqueue_many",
        "enqueue_many of",
        "drain, 16 workers",
        "drain, pipeline mode",
        "same process",
        "keys",
    ):
        assert row in printed


def test_one_benchmark_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    main(["codec", "--quick"])

    printed = capsys.readouterr().out
    assert "| encode model " in printed
    assert "drain" not in printed


def test_an_unknown_name_is_refused_with_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["speed"])

    assert "unknown: speed; there are enqueue, drain" in capsys.readouterr().err
