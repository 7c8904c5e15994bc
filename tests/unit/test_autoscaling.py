"""How many workers queues get: every rule on every combination of a small world."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gotasks_py import ConfigurationError
from gotasks_py.autoscaling import (
    QueueLoad,
    ScalingConfig,
    balanced,
    next_size,
    wanted_workers,
)

SECOND = timedelta(seconds=1)
TARGET = 5 * SECOND
AGES = [timedelta(0), SECOND, TARGET, 6 * SECOND, 7.5 * SECOND, 1000 * SECOND]
TIMES = [None, timedelta(0), timedelta(milliseconds=1), SECOND, 100 * SECOND]
WORLD = [
    QueueLoad(queue="q", due=due, running=running, oldest_due_age=age, run_time=run, is_paused=off)
    for due, running, age, run, off in product(
        (0, 1, 2, 7, 10_000), (0, 1, 4, 100), AGES, TIMES, (False, True)
    )
]


def load(name: str = "q", **fields: Any) -> QueueLoad:
    values: dict[str, Any] = {"queue": name, "due": 0, "running": 0, **fields}
    return QueueLoad(**values)


def test_nowhere_are_more_workers_wanted_than_there_are_tasks() -> None:
    assert all(0 <= wanted_workers(each, TARGET) <= each.due + each.running for each in WORLD)


def test_whatever_is_due_wants_a_worker_and_a_paused_queue_only_those_it_has() -> None:
    for each in WORLD:
        wanted = wanted_workers(each, TARGET)
        if each.is_paused or not each.due:
            assert wanted == each.running
        else:
            assert wanted >= 1


def test_more_work_never_wants_fewer_workers() -> None:
    for age, run, running in product(AGES, TIMES, (0, 1, 4, 100)):
        wanted = [
            wanted_workers(load(due=due, running=running, oldest_due_age=age, run_time=run), TARGET)
            for due in (1, 2, 3, 7, 100, 10_000)
        ]
        assert wanted == sorted(wanted)


def test_longer_waits_never_want_fewer_workers() -> None:
    for due, running, run in product((1, 7, 10_000), (0, 1, 4, 100), TIMES):
        wanted = [
            wanted_workers(load(due=due, running=running, oldest_due_age=age, run_time=run), TARGET)
            for age in AGES
        ]
        assert wanted == sorted(wanted)


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, 0),
        ({"running": 3}, 3),
        ({"due": 10, "run_time": SECOND}, 2),
        ({"due": 11, "run_time": SECOND}, 3),
        ({"due": 6, "running": 5, "run_time": SECOND}, 3),
        ({"due": 3, "run_time": 60 * SECOND}, 3),
        ({"due": 100, "run_time": timedelta(milliseconds=1)}, 1),
        ({"due": 100}, 1),
        ({"due": 100, "running": 4, "oldest_due_age": TARGET}, 4),
        ({"due": 100, "running": 4, "oldest_due_age": 6 * SECOND}, 5),
        ({"due": 100, "running": 4, "oldest_due_age": 7.5 * SECOND}, 6),
        ({"due": 100, "running": 4, "oldest_due_age": 3600 * SECOND}, 8),
        ({"due": 1, "running": 4, "oldest_due_age": 3600 * SECOND}, 5),
    ],
)
def test_workers_for_one_queue(fields: dict[str, Any], wanted: int) -> None:
    assert wanted_workers(load(**fields), TARGET) == wanted


def test_while_there_are_enough_each_queue_gets_what_it_wants() -> None:
    loads = [load("a", due=10, run_time=SECOND), load("b", running=3), load("c")]
    assert balanced(loads, ScalingConfig(most=5)) == {"a": 2, "b": 3, "c": 0}


@pytest.mark.parametrize(
    ("weights", "most", "shares"),
    [
        ((1, 1, 1), 9, (3, 3, 3)),
        ((6, 3, 1), 10, (6, 3, 1)),
        ((100, 1, 1), 10, (8, 1, 1)),
        ((1, 1, 1), 2, (1, 1, 0)),
        ((1, 1, 9), 1, (0, 0, 1)),
    ],
)
def test_too_few_are_shared_by_weight_and_none_is_starved(
    weights: tuple[int, ...], most: int, shares: tuple[int, ...]
) -> None:
    loads = [
        load(name, due=1000, run_time=100 * SECOND, weight=weight)
        for name, weight in zip("abc", weights, strict=True)
    ]
    assert tuple(balanced(loads, ScalingConfig(most=most)).values()) == shares


def test_a_small_queue_leaves_the_rest_to_the_others() -> None:
    loads = [
        load("big", due=1000, run_time=TARGET),
        load("small", due=2, run_time=TARGET, weight=9),
    ]
    assert balanced(loads, ScalingConfig(most=10)) == {"big": 8, "small": 2}


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20), st.integers(1, 10)), max_size=5),
    st.integers(1, 30),
)
def test_shares_are_within_what_is_wanted_and_there(
    queues: list[tuple[int, int, int]], most: int
) -> None:
    loads = [
        load(str(number), due=due, running=running, weight=weight, run_time=TARGET)
        for number, (due, running, weight) in enumerate(queues)
    ]
    shares = balanced(loads, ScalingConfig(most=most))
    wanted = {each.queue: wanted_workers(each, TARGET) for each in loads}
    assert sum(shares.values()) == min(most, sum(wanted.values()))
    assert all(0 <= shares[name] <= wanted[name] for name in wanted)
    if most >= sum(count > 0 for count in wanted.values()):
        assert all(shares[name] > 0 for name, count in wanted.items() if count)


CONFIG = ScalingConfig(least=2, most=16)


@pytest.mark.parametrize(
    ("size", "wanted", "seconds", "size_after"),
    [
        (4, 4, 1000, 4),
        (4, 5, 5, 5),
        (4, 5, 4.9, 4),
        (4, 100, 5, 8),
        (8, 100, 5, 16),
        (16, 100, 5, 16),
        (8, 7, 60, 7),
        (8, 7, 59, 8),
        (8, 0, 60, 4),
        (2, 0, 60, 2),
        (3, 0, 60, 2),
        (1, 0, 0, 2),
        (99, 0, 0, 16),
    ],
)
def test_the_next_size(size: int, wanted: int, seconds: float, size_after: int) -> None:
    since = timedelta(seconds=seconds)
    assert next_size(size, wanted, since_change=since, config=CONFIG)[0] == size_after


def test_a_size_stays_in_its_bounds_and_moves_towards_what_is_wanted() -> None:
    for size, wanted, since in product(range(1, 20), range(40), (0, 4, 5, 59, 60, 1000)):
        after, reason = next_size(size, wanted, since_change=since * SECOND, config=CONFIG)
        goal = min(max(wanted, 2), 16)
        assert 2 <= after <= 16
        assert reason
        if 2 <= size <= 16:
            assert min(size, goal) <= after <= max(size, goal)


def test_every_size_arrives_where_it_is_wanted() -> None:
    for start, wanted in product(range(2, 17), range(40)):
        size = start
        for _ in range(4):
            size, _ = next_size(size, wanted, since_change=60 * SECOND, config=CONFIG)
        assert size == min(max(wanted, 2), 16)


@pytest.mark.parametrize(
    "settings",
    [
        {"most": 0},
        {"least": 0, "most": 1},
        {"least": 3, "most": 2},
        {"most": 2, "target_wait": timedelta(0)},
        {"most": 2, "pause_up": -SECOND},
        {"most": 2, "pause_down": 1},
        {"most": True},
    ],
)
def test_impossible_settings_are_refused(settings: Any) -> None:
    with pytest.raises(ConfigurationError):
        ScalingConfig(**settings)
