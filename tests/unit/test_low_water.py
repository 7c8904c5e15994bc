"""What a store on MongoDB remembers of the head of a lane, on a clock set by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from gotasks_mongostore._low_water import LowWater
from gotasks_py.lifecycle import enqueued
from gotasks_py.task import Lease, Task
from tests.lab import SECOND, START, ManualClock, a_claim

MILLISECOND = timedelta(milliseconds=1)
REQUEST = a_claim()


class Head:
    """A lane of which one claim after the other is made."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.low_water = LowWater(self.clock.monotonic, self.clock.now)

    def claim(self, priority: int = 0, *, takes: timedelta = MILLISECOND) -> bool:
        """Find a task that is due now; tell whether the claim was a sweep."""
        with self.low_water.look(REQUEST) as look:
            self.clock.advance(takes)
            look.found = a_running_task(self.clock, priority)
        return look.bound is None

    def claims_until_sweep(self, takes: timedelta) -> int:
        number = 0
        while not self.claim(takes=takes):
            number += 1
        return number


def a_running_task(clock: ManualClock, priority: int) -> Task:
    given = {"_id": "1", "queue": "q", "type": "t", "priority": priority, "due_at": clock.now()}
    task = Task.from_document(enqueued(given | {"max_attempts": 1}, now=START))
    return replace(task, lease=Lease("token", "me", clock.now() + SECOND, clock.now()))


def test_the_first_claim_is_a_sweep_and_the_next_are_not() -> None:
    head = Head()

    assert [head.claim() for _ in range(4)] == [True, False, False, False]


def test_sweeps_take_a_tenth_of_the_time() -> None:
    head = Head()
    assert head.claim(takes=2 * MILLISECOND)

    assert head.claims_until_sweep(2 * MILLISECOND) == 10
    assert head.claims_until_sweep(MILLISECOND) == 20


def test_a_slow_sweep_is_followed_within_a_quarter_of_a_second() -> None:
    head = Head()
    assert head.claim(takes=SECOND)

    assert not head.claim(takes=timedelta(milliseconds=250))
    assert head.claim()


@pytest.mark.parametrize(("priority", "sweeps"), [(1, True), (0, False), (-1, False)])
def test_a_write_makes_the_next_claim_a_sweep_if_the_bound_would_hide_it(
    priority: int, sweeps: bool
) -> None:
    head = Head()
    head.claim()

    head.low_water.wrote("q", 0, priority, head.clock.now())

    assert head.claim() is sweeps


def test_a_write_below_the_mark_makes_the_next_claim_a_sweep() -> None:
    head = Head()
    head.claim()

    head.low_water.wrote("q", 0, 0, START - SECOND)

    assert head.claim()


def test_a_write_elsewhere_does_not() -> None:
    head = Head()
    head.claim()

    head.low_water.wrote("another", 0, 9, START)
    head.low_water.wrote("q", 1, 9, START)

    assert not head.claim()


def test_a_write_during_a_claim_is_not_forgotten() -> None:
    head = Head()
    with head.low_water.look(REQUEST) as look:
        look.found = a_running_task(head.clock, 0)
        head.low_water.wrote("q", 0, 9, head.clock.now())

    assert head.claim()


def test_a_task_for_later_makes_a_sweep_once_it_is_due() -> None:
    head = Head()
    head.low_water.wrote("q", 0, 9, START + 3 * MILLISECOND)

    assert [head.claim() for _ in range(5)] == [True, False, False, True, False]


def test_a_task_that_returns_may_be_of_the_most_urgent_priority() -> None:
    head = Head()
    head.claim(9)
    head.low_water.wrote("q", 0, -1, START)  # hides nothing
    while not head.claim():
        pass

    head.low_water.wrote("q", 0, None, head.clock.now())

    assert head.claim()


def test_a_claim_that_fails_leaves_the_marks() -> None:
    head = Head()
    head.claim()

    with pytest.raises(OSError, match="no"), head.low_water.look(REQUEST):
        raise OSError("no")

    assert not head.claim()


def test_what_the_server_calls_due_is_due_although_the_estimate_of_its_time_lags() -> None:
    head = Head()
    head.claim()
    assert not head.claim()
    ahead = head.clock.now() + SECOND

    head.low_water.wrote("q", 0, 9, ahead, as_of=ahead)

    assert head.claim()
