"""What operators decide is recorded, and told to those who follow."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest

from gotasks_py import lifecycle
from gotasks_py.backoff import Fixed
from gotasks_py.controls import Controlling, NodeOrder, Pause, QueueChanges, policy_of
from gotasks_py.feed import Event, NodeOrdered, QueueChanged
from gotasks_py.inspecting import Inspecting
from gotasks_py.lanes import Lanes
from gotasks_py.policy import QueuePolicy
from gotasks_py.store import Watching
from tests.lab import HOUR, MINUTE, SECOND, Lab, ref_of

pytestmark = pytest.mark.anyio


async def controlled(lab: Lab) -> Controlling:
    await lab.store.register_queue(QueuePolicy("q", max_attempts=3))
    assert isinstance(lab.store, Controlling)
    return lab.store


async def pause_of(lab: Lab) -> Pause | None:
    return Pause.from_document((await lab.store.queues())["q"])


async def test_a_pause_is_recorded_until_it_is_ended(lab: Lab) -> None:
    store = await controlled(lab)
    until = lab.store.clock.now() + HOUR

    assert await store.pause_queue("q", until=until, by="$by")
    pause = await pause_of(lab)

    assert pause is not None
    assert (pause.until, pause.by) == (until, "$by")
    assert abs(pause.at - lab.store.clock.now()) < MINUTE
    assert pause.holds(until - SECOND)
    assert not pause.holds(until)
    assert await store.pause_queue("q")
    pause = await pause_of(lab)
    assert pause is not None
    assert (pause.until, pause.by) == (None, None)
    assert pause.holds(until + HOUR)
    assert await store.resume_queue("q")
    assert await store.resume_queue("q")
    assert await pause_of(lab) is None


async def test_claims_cover_the_most_lanes_that_a_queue_was_ever_given(lab: Lab) -> None:
    store = await controlled(lab)

    assert await store.change_queue("q", QueueChanges(lanes=5))
    assert await store.change_queue("q", QueueChanges(lanes=2))
    recorded = (await lab.store.queues())["q"]

    assert QueueChanges.from_document(recorded).lanes == 2
    lanes = Lanes.from_document(recorded)
    assert (lanes.current, lanes.keyed, lanes.most) == (1, 1, 5)
    # What is declared is still what was.
    await lab.store.register_queue(QueuePolicy("q", max_attempts=3))
    assert await store.change_queue("q", None)
    assert Lanes.from_document((await lab.store.queues())["q"]).most == 5
    assert not await store.change_queue("nowhere", QueueChanges(lanes=2))


async def test_changes_add_up_until_all_are_taken_back(lab: Lab) -> None:
    store = await controlled(lab)
    declared = QueuePolicy("q", max_attempts=3)

    assert await store.change_queue("q", QueueChanges(weight=3, ttl=timedelta(0)))
    assert await store.change_queue("q", QueueChanges(workers=2, backoff=Fixed(delay=MINUTE)))
    assert await store.change_queue("q", QueueChanges())

    recorded = (await lab.store.queues())["q"]
    assert QueueChanges.from_document(recorded) == QueueChanges(
        weight=3, ttl=timedelta(0), workers=2, backoff=Fixed(delay=MINUTE)
    )
    policy = policy_of("q", recorded)
    assert (policy.max_attempts, policy.weight, policy.workers) == (3, 3, 2)
    # What was declared still agrees.
    await lab.store.register_queue(declared)
    assert await store.change_queue("q", None)
    assert policy_of("q", (await lab.store.queues())["q"]) == declared


async def test_another_declaration_leaves_decisions_alone(lab: Lab) -> None:
    store = await controlled(lab)
    await store.pause_queue("q", by="me")
    await store.change_queue("q", QueueChanges(max_attempts=9))

    await lab.store.set_queue_policy(QueuePolicy("q", max_attempts=5))

    recorded = (await lab.store.queues())["q"]
    assert policy_of("q", recorded).max_attempts == 9
    assert await pause_of(lab) is not None


async def test_a_queue_that_is_not_recorded_cannot_be_controlled(lab: Lab) -> None:
    store = await controlled(lab)

    assert not await store.pause_queue("nowhere")
    assert not await store.resume_queue("nowhere")
    assert not await store.change_queue("nowhere", QueueChanges(weight=2))
    assert not await store.forget_queue("nowhere")
    assert set(await lab.store.queues()) == {"q"}


async def test_a_queue_that_is_forgotten_leaves_nothing_but_its_tasks(lab: Lab) -> None:
    store = await controlled(lab)
    other = await lab.store.register_queue(QueuePolicy("r"))
    task_id = await lab.enqueue()
    await store.pause_queue("q")
    await store.change_queue("q", QueueChanges(weight=2))

    assert await store.forget_queue("q")
    assert not await store.forget_queue("q")

    assert set(await lab.store.queues()) == {"r"}
    assert (await lab.store.queues())["r"].items() <= other.items()
    assert await lab.store.get(task_id) is not None
    await lab.store.register_queue(QueuePolicy("q", max_attempts=9))
    recorded = (await lab.store.queues())["q"]
    assert policy_of("q", recorded).max_attempts == 9
    assert await pause_of(lab) is None
    assert QueueChanges.from_document(recorded) == QueueChanges()


async def test_an_overview_shows_what_was_decided(lab: Lab) -> None:
    store = await controlled(lab)
    assert isinstance(store, Inspecting)
    await store.change_queue("q", QueueChanges(weight=7))
    await store.pause_queue("q", until=lab.store.clock.now() + HOUR, by="me")

    (queue,) = await store.overview()

    assert queue.pause is not None
    assert (queue.pause.by, queue.policy.weight, queue.policy.max_attempts) == ("me", 7, 3)


async def test_managers_have_orders_of_their_own(lab: Lab) -> None:
    store = await controlled(lab)

    await store.order_node("m.1", NodeOrder.QUIET)
    await store.order_node("m.2", NodeOrder.QUIET)
    await store.order_node("m.2", NodeOrder.DRAIN)
    assert await store.node_orders() == {"m.1": NodeOrder.QUIET, "m.2": NodeOrder.DRAIN}

    await store.order_node("m.1", None)
    assert await store.node_orders() == {"m.2": NodeOrder.DRAIN}
    assert set(await lab.store.queues()) == {"q"}


async def test_what_is_being_cancelled_is_told_while_it_runs(lab: Lab) -> None:
    store = await controlled(lab)
    await lab.claimed()
    asked = await lab.claimed()
    waiting = await lab.enqueue()
    await lab.store.transition(asked.id, lifecycle.cancel_requested())
    await lab.store.transition(waiting, lifecycle.withdrawn())

    assert await store.cancelling() == {asked.id}

    assert await lab.store.settle(ref_of(asked), lifecycle.cancelled())
    assert await store.cancelling() == frozenset()


async def test_decisions_are_told_as_they_are_made(lab: Lab) -> None:
    store = await controlled(lab)
    assert isinstance(store, Watching)
    feed_of_now = store.watch(finished=False)
    assert feed_of_now is not None
    told: list[Event] = []
    with anyio.fail_after(20):
        async with feed_of_now as feed:
            await feed.next()  # the gap that it begins with
            await store.pause_queue("q")
            await store.order_node("m.1", NodeOrder.DRAIN)
            await store.order_node("m.1", None)
            await store.forget_queue("q")
            while NodeOrdered("m.1") not in told or told[-1] != QueueChanged("q"):
                told += await feed.next()
    # The queue's first declaration may be among them: it was just before.
    orders = [NodeOrdered("m.1"), NodeOrdered("m.1")]
    assert told[-4:] == [QueueChanged("q"), *orders, QueueChanged("q")]
