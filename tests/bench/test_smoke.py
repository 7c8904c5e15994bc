"""Every benchmark runs, on a server that it starts itself."""

import pytest

from bench.__main__ import AT_SCALE, BENCHMARKS, main
from bench.measuring import Row, Sample, Target, table

pytestmark = [pytest.mark.mongo, pytest.mark.timeout(300)]


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


def test_a_quick_run_at_scale_judges_each_by_its_target(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--quick", "--scale"])

    printed = capsys.readouterr().out
    for name in AT_SCALE:
        assert f"{name}, in " in printed
    for target in ("≤ 1.2: ", "≤ 1.1: ", "≤ 20: ", "≥ 1.4: "):
        assert target in printed
    assert "drain, 16 workers" not in printed


@pytest.mark.parametrize(
    ("ours", "raw", "target", "judged"),
    [
        (13, 10, Target(least=1.3), "≥ 1.3: met"),
        (12, 10, Target(least=1.3), "≥ 1.3: MISSED"),
        (12, 10, Target(least=1.3, excuse="no CPU"), "≥ 1.3: not judged: no CPU"),
        (14, 10, Target(least=1.3, excuse="no CPU"), "≥ 1.3: met"),
        (12, 10, Target(most=1.2), "≤ 1.2: met"),
        (13, 10, Target(most=1.2), "≤ 1.2: MISSED"),
        (19, None, Target(most=20), "≤ 20: met"),
        (21, None, Target(most=20), "≤ 20: MISSED"),
        (21, 1, None, ""),
    ],
)
def test_a_ratio_is_judged_by_its_target_or_a_value_that_has_no_yardstick(
    ours: float, raw: float | None, target: Target | None, judged: str
) -> None:
    beside = None if raw is None else Sample([raw])
    row = Row("name", "unit", Sample([ours]), beside, target)

    assert row.cells[-1] == judged
    assert judged in table([row]).splitlines()[-1]


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
