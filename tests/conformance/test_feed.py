"""What a feed tells, and what it leaves out, of everything that can happen to a task."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

from gotasks_py import QueuePolicy, lifecycle
from gotasks_py.errors import StoreError
from gotasks_py.feed import CancelRequested, Claimable, Event, Feed, Finished, Gap, QueueChanged
from gotasks_py.lifecycle import Failure
from gotasks_py.store import Watching
from gotasks_py.task import Status, Task, TaskId
from tests.lab import HOUR, MINUTE, Lab, a_renewal, ref_of

pytestmark = pytest.mark.anyio

ASIDE = "of no interest"
FAILURE = Failure(1, "worker", "E", "no")


@asynccontextmanager
async def opened(
    lab: Lab, *, finished: bool = True, position: object = None
) -> AsyncGenerator[Feed]:
    assert isinstance(lab.store, Watching)
    opening = lab.store.watch(finished=finished, position=position)
    assert opening is not None
    async with opening as feed:
        yield feed


@asynccontextmanager
async def a_feed(lab: Lab, *, finished: bool = True) -> AsyncGenerator[Feed]:
    """Open a feed that has come to the present."""
    async with opened(lab, finished=finished) as feed:
        assert list(await feed.next()) == [Gap()]
        await told(lab, feed)  # it may begin a little early, with what came just before
        yield feed


async def told(lab: Lab, feed: Feed) -> list[Event]:
    """Read everything that has happened up to now."""
    last = await lab.enqueue(queue=ASIDE)
    events: list[Event] = []
    with anyio.fail_after(30):
        while not any(getattr(event, "id", None) == last for event in events):
            events.extend(await feed.next())
    return [event for event in events if getattr(event, "queue", None) != ASIDE]


async def claimable(lab: Lab, task_id: TaskId) -> Claimable:
    """Say what is told of a task that is pending as it is stored now."""
    task = await lab.get(task_id)
    assert task.due_at is not None
    assert task.status is Status.PENDING
    return Claimable(task_id, task.queue, task.lane, task.type, task.due_at)


async def test_a_new_feed_begins_with_a_gap(lab: Lab) -> None:
    async with opened(lab) as feed:
        assert list(await feed.next()) == [Gap()]
        assert await told(lab, feed) == []
        assert await told(lab, feed) == []


async def test_new_tasks_are_told_with_place_and_due_time_in_their_order(lab: Lab) -> None:
    later = lab.store.clock.now() + HOUR
    async with a_feed(lab) as feed:
        first = await lab.enqueue(queue="a.b", lane=3, type="täsk")
        second = await lab.enqueue(due_at=later, run_at=later)
        many = [lab.a_task(priority=number) for number in range(3)]
        await lab.store.insert_many(many)
        events = await told(lab, feed)

    ids = [first, second, *(document["_id"] for document in many)]
    assert events == [await claimable(lab, each) for each in ids]
    assert events[0] == Claimable(first, "a.b", 3, "täsk", (await lab.get(first)).run_at)


async def test_claims_starts_and_renewals_are_not_told(lab: Lab) -> None:
    for max_attempts in (1, 3):
        await lab.enqueue(max_attempts=max_attempts)
    await lab.enqueue(queue="single")

    async with a_feed(lab) as feed:
        single = await lab.claim(queue="single")
        reserved, running = sorted(await lab.claim_many(), key=lambda task: task.max_attempts)
        await lab.store.settle(ref_of(reserved), lifecycle.started(owner="me", lease=MINUTE))
        await lab.store.renew([a_renewal(running)])
        assert single is not None
        await lab.store.settle(ref_of(single), lifecycle.progressed({"done": 1}))
        assert await told(lab, feed) == []


Return = Callable[[Lab, Task], Awaitable[object]]


async def _retried(lab: Lab, task: Task) -> None:
    assert await lab.store.settle(ref_of(task), lifecycle.retried(FAILURE, HOUR))


async def _snoozed(lab: Lab, task: Task) -> None:
    assert await lab.store.settle(ref_of(task), lifecycle.snoozed(HOUR))


async def _released(lab: Lab, task: Task) -> None:
    assert await lab.store.settle(ref_of(task), lifecycle.released())


async def _released_in_bulk(lab: Lab, task: Task) -> None:
    assert not await lab.store.settle_many([ref_of(task)], lifecycle.released())


async def _requeued(lab: Lab, task: Task) -> None:
    assert await lab.store.settle(ref_of(task), lifecycle.died(FAILURE))
    assert await lab.store.transition(task.id, lifecycle.requeued(fresh_lifetime=False))


@pytest.mark.parametrize("way", [_retried, _snoozed, _released, _released_in_bulk, _requeued])
async def test_what_comes_back_is_told_with_its_new_due_time(lab: Lab, way: Return) -> None:
    task = await lab.claimed()

    async with a_feed(lab, finished=False) as feed:
        await way(lab, task)
        assert await told(lab, feed) == [await claimable(lab, task.id)]


async def test_a_reserved_task_that_is_given_back_is_told(lab: Lab) -> None:
    await lab.enqueue(max_attempts=1)
    (reserved,) = await lab.claim_many()

    async with a_feed(lab) as feed:
        await lab.store.settle_many([ref_of(reserved)], lifecycle.unreserved())
        assert await told(lab, feed) == [await claimable(lab, reserved.id)]


async def _completed(lab: Lab, task: Task) -> None:
    assert await lab.store.settle(ref_of(task), lifecycle.completed({"n": 1}))


async def _completed_in_bulk(lab: Lab, task: Task) -> None:
    patch = lifecycle.completed_each()
    assert not await lab.store.settle_many([ref_of(task)], patch, [{"n": 1}])


async def _died(lab: Lab, task: Task) -> None:
    assert await lab.store.settle(ref_of(task), lifecycle.died(FAILURE))


async def _deleted(lab: Lab, task: Task) -> None:
    assert await lab.store.delete(task.id)


async def _reaped(lab: Lab, task: Task) -> None:
    lab.pass_time(HOUR)
    assert [each.id for each in await lab.store.reap(10)] == [task.id]


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("way", [_completed, _completed_in_bulk, _died, _deleted, _reaped])
async def test_ends_are_told_to_those_who_ask_for_them(
    lab: Lab, way: Return, finished: bool
) -> None:
    task = await lab.claimed(max_attempts=1)

    async with a_feed(lab, finished=finished) as feed:
        await way(lab, task)
        assert await told(lab, feed) == [Finished(task.id)] * finished


async def test_the_withdrawal_of_a_waiting_task_is_its_end(lab: Lab) -> None:
    task_id = await lab.enqueue()

    async with a_feed(lab) as feed:
        await lab.store.transition(task_id, lifecycle.withdrawn())
        events = await told(lab, feed)

    # Whoever runs a task is told to stop as well; nobody runs this one.
    assert [event for event in events if event != CancelRequested(task_id)] == [Finished(task_id)]


async def test_a_wish_to_cancel_is_told_before_the_end_that_it_brings(lab: Lab) -> None:
    task = await lab.claimed()

    async with a_feed(lab) as feed:
        await lab.store.transition(task.id, lifecycle.cancel_requested())
        assert await told(lab, feed) == [CancelRequested(task.id)]
        await lab.store.settle(ref_of(task), lifecycle.cancelled())
        assert await told(lab, feed) == [Finished(task.id)]


async def test_a_queue_with_another_policy_is_told(lab: Lab) -> None:
    async with a_feed(lab, finished=False) as feed:
        await lab.store.register_queue(QueuePolicy("q.with.dots"))
        assert await told(lab, feed) == [QueueChanged("q.with.dots")]


async def test_a_feed_carries_on_where_another_has_come_to(lab: Lab) -> None:
    async with a_feed(lab) as feed:
        first = await lab.enqueue()
        assert await told(lab, feed) == [await claimable(lab, first)]
        position = feed.position
    missed = await lab.enqueue()

    for _ in range(2):  # a position can be used again
        async with opened(lab, position=position) as feed:
            assert await told(lab, feed) == [await claimable(lab, missed)]


async def test_a_position_that_no_feed_has_handed_out_is_refused_or_is_a_gap(lab: Lab) -> None:
    was_refused, events = False, list[Event]()
    try:
        async with opened(lab, position={"_data": "nonsense"}) as feed:
            events.extend(await feed.next())
    except StoreError:
        was_refused = True
    assert was_refused or events == [Gap()]


async def test_whoever_stops_waiting_misses_nothing(lab: Lab) -> None:
    async with a_feed(lab) as feed:
        for _ in range(3):
            with anyio.move_on_after(0.01):
                while True:
                    assert list(await feed.next()) == []  # it is alive
            task_id = await lab.enqueue()
            assert await told(lab, feed) == [await claimable(lab, task_id)]


async def test_each_of_several_feeds_is_told_what_it_asked_for(lab: Lab) -> None:
    async with a_feed(lab) as one, a_feed(lab, finished=False) as other:
        task_id = await lab.enqueue()
        waiting = await claimable(lab, task_id)
        await lab.store.delete(task_id)
        assert await told(lab, one) == [waiting, Finished(task_id)]
        assert await told(lab, other) == [waiting]
