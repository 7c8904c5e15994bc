"""In which order a pool asks its queues."""

from __future__ import annotations

import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gotasks_py import QueuePolicy
from gotasks_py._scheduling import QueueOrder, Scheduler, Source


def sources(*weights: int) -> list[Source]:
    return [
        Source(QueuePolicy(f"q{number}", weight=weight), ("t",))
        for number, weight in enumerate(weights)
    ]


def firsts(scheduler: Scheduler, count: int) -> Counter[str]:
    """Tell which queues a number of claims that all find work go to."""
    return Counter(next(scheduler.turns()).queue.name for _ in range(count))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6))
def test_a_whole_round_gives_each_queue_exactly_its_weight(weights: list[int]) -> None:
    """B76."""
    scheduler = Scheduler(sources(*weights), "weighted")
    for _ in range(3):
        assert firsts(scheduler, sum(weights)) == {
            f"q{number}": weight for number, weight in enumerate(weights)
        }


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6))
def test_strict_order_is_the_order_of_declaration(weights: list[int]) -> None:
    scheduler = Scheduler(sources(*weights), "strict")
    assert [each.queue.name for each in scheduler.turns()] == [
        f"q{number}" for number in range(len(weights))
    ]


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=6),
    st.sampled_from(["weighted", "strict"]),
    st.data(),
)
def test_one_pass_tries_each_queue_that_is_not_dry_once(
    weights: list[int], order: QueueOrder, data: st.DataObject
) -> None:
    made = sources(*weights)
    for source in made:
        source.is_dry = data.draw(st.booleans())
    tried = list(Scheduler(made, order).turns())
    assert {id(each) for each in tried} == {id(each) for each in made if not each.is_dry}
    assert len(tried) == len({id(each) for each in tried})


def test_a_dry_queue_is_looked_at_again_at_the_poll_or_at_its_timer() -> None:
    (source,) = sources(1)
    source.ran_dry(source.epoch, now=100, poll=30)
    assert (source.is_dry, source.probe_at) == (True, 130)
    source.expect(110)
    assert source.probe_at == 110
    source.expect(120)
    assert source.probe_at == 110
    source.nudge()
    source.ran_dry(source.epoch, now=115, poll=30)
    assert source.probe_at == 120
    source.nudge()
    source.ran_dry(source.epoch, now=125, poll=30)
    assert source.probe_at == 155


def test_a_timer_that_comes_due_during_a_claim_outlives_its_empty_answer() -> None:
    (source,) = sources(1)
    source.expect(110)
    source.ran_dry(source.epoch, now=115, poll=30, asked_at=105)
    assert source.probe_at == 110
    source.poll(115)
    source.found_nothing(source.lanes.all, source.epoch, asked_at=115, now=120, poll=30)
    assert source.probe_at == 150


def test_a_nudge_during_a_claim_outlives_its_empty_answer() -> None:
    (source,) = sources(1)
    epoch = source.epoch
    source.nudge()
    source.ran_dry(epoch, now=0, poll=1)
    assert not source.is_dry


def test_of_too_many_timers_the_farthest_are_left_to_polling() -> None:
    (source,) = sources(1)
    for at in range(2000, 0, -1):
        source.expect(at)
    seen: list[float] = []
    now = 0.0
    for _ in range(1100):
        source.nudge()
        source.ran_dry(source.epoch, now, math.inf)
        now = source.probe_at
        seen.append(now)
    assert seen[:1000] == list(range(1, 1001))
    assert seen[1000] == math.inf
