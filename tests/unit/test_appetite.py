"""How many tasks a pipeline claims: as many as its workers will start shortly."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gotasks_py import ConfigurationError, PipelineMode
from gotasks_py._appetite import Appetite

SLOTS = 10


def an_appetite(**settings: Any) -> Appetite:
    return Appetite(PipelineMode(**settings), SLOTS)


def fed(appetite: Appetite, duration: float, *, until: float = 100.0) -> Appetite:
    """Let many tasks of one duration end, each before there is another to start."""
    for _ in range(200):
        appetite.ended(until - duration, until, is_dry=True)
    return appetite


def computed(appetite: Appetite, pause: float, number: int, *, since: float = 100.0) -> float:
    """Let tasks end one after the other while more are waiting; tell when the last has."""
    for index in range(1, number + 1):
        now = since + index * pause
        appetite.ended(now - pause / 100, now, is_dry=False)
    return since + number * pause


def test_without_experience_it_takes_what_can_start_now() -> None:
    assert an_appetite().next_batch(free=SLOTS, waiting=0, now=0) == SLOTS
    assert an_appetite().next_batch(free=3, waiting=0, now=0) == 3
    assert an_appetite().next_batch(free=0, waiting=0, now=0) == 0


def test_slow_tasks_are_not_hoarded() -> None:
    slow = fed(an_appetite(), duration=60)

    assert slow.next_batch(free=2, waiting=0, now=100) == 2
    assert slow.next_batch(free=0, waiting=0, now=100) == 0


def test_short_tasks_are_claimed_ahead_by_their_rate() -> None:
    # 10 workers of 10 ms each start 1 000 a second: 250 in a quarter of a second.
    short = fed(an_appetite(), duration=0.01)

    assert short.next_batch(free=0, waiting=0, now=100) == pytest.approx(250, abs=2)
    assert short.next_batch(free=0, waiting=100, now=100) == pytest.approx(150, abs=2)


def test_it_tops_up_from_half_on() -> None:
    short = fed(an_appetite(), duration=0.01)

    assert short.next_batch(free=0, waiting=130, now=100) == 0
    assert short.next_batch(free=0, waiting=120, now=100) > 0


@pytest.mark.parametrize(("settings", "most"), [({"batch": 50}, 50), ({"buffer": 30}, 30)])
def test_batch_and_buffer_are_limits(settings: dict[str, int], most: int) -> None:
    instant = fed(an_appetite(**settings), duration=0)

    assert instant.next_batch(free=0, waiting=0, now=100) == most


def test_no_more_is_claimed_ahead_than_the_process_gets_done() -> None:
    # 10 workers of 0.1 ms each could start 100 000 a second, but 100 a second have ended.
    starved = fed(an_appetite(), duration=0.0001)
    now = computed(starved, pause=0.01, number=60)

    assert starved.next_batch(free=0, waiting=0, now=now) == pytest.approx(25, abs=2)


def test_what_one_stretch_has_shown_counts_until_the_next_has_shown_more() -> None:
    appetite = fed(an_appetite(), duration=0.0001)
    now = computed(appetite, pause=0.01, number=60)
    now = computed(appetite, pause=0.001, number=600, since=now)

    assert appetite.next_batch(free=0, waiting=0, now=now) == pytest.approx(250, abs=5)


def test_it_grows_each_time_that_work_runs_out() -> None:
    appetite = fed(an_appetite(), duration=0.0001)
    now = computed(appetite, pause=0.01, number=60)

    for expected in (50, 100, 200, 400):
        appetite.ended(now, now, is_dry=True)
        assert appetite.next_batch(free=0, waiting=0, now=now) == pytest.approx(expected, rel=0.1)


def test_the_first_tasks_do_not_promise_thousands() -> None:
    appetite = an_appetite()
    appetite.ended(100, 100, is_dry=False)

    assert appetite.next_batch(free=0, waiting=0, now=100) == SLOTS


def test_it_adapts_when_tasks_become_slow() -> None:
    appetite = fed(an_appetite(), duration=0.001)
    fed(appetite, duration=30, until=200)

    assert appetite.next_batch(free=0, waiting=0, now=200) == 0


def test_busy_workers_that_end_nothing_count_as_slow() -> None:
    """Before the first of a series of slow tasks has ended, the average still says fast."""
    appetite = fed(an_appetite(), duration=0.001)

    assert appetite.next_batch(free=0, waiting=0, now=100) == 500
    assert appetite.next_batch(free=0, waiting=0, now=110) == 0


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"batch": 0}, "batch"),
        ({"batch": 10_001}, "batch"),
        ({"batch": 1.5}, "batch"),
        ({"buffer": -1}, "buffer"),
        ({"buffer": 100_001}, "buffer"),
        ({"flush_size": 0}, "flush_size"),
        ({"flush_size": 1_000_000}, "flush_size"),
        ({"lookahead": timedelta(0)}, "lookahead"),
        ({"lookahead": 5}, "lookahead"),
        ({"lookahead": timedelta(minutes=1)}, "lookahead must not be longer than queue_lease"),
        ({"queue_lease": timedelta(seconds=-1)}, "queue_lease"),
        ({"queue_lease": timedelta(milliseconds=99)}, "queue_lease"),
        ({"flush_interval": timedelta(days=10_000)}, "flush_interval"),
    ],
)
def test_settings_out_of_bounds_are_refused(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        PipelineMode(**settings)
