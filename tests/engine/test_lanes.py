"""Managers on a queue of several lanes: turns, helping out, and lanes that change."""

from __future__ import annotations

from collections import Counter

import anyio
import pytest

from gotasks_py import Enqueue, Manager, QueuePolicy, TaskPolicy
from gotasks_py.errors import DuplicateTaskError, StoreUnavailableError
from gotasks_py.store import ClaimRequest
from gotasks_py.task import Task
from tests.engine.world import FaultyStore, a_manager, failing, seconds, settled

pytestmark = pytest.mark.anyio

ALL = tuple(range(16))
WIDE = QueuePolicy("q", lanes=16)


def working(manager: Manager, length: float = 0.01) -> list[int]:
    """Register a handler; tell what it was called with."""
    done: list[int] = []

    @manager.handler("q", "work")
    async def work(number: int) -> None:
        done.append(number)
        await anyio.sleep(length)

    return done


def listening(store: FaultyStore) -> list[tuple[int, ...]]:
    """Tell the lanes of every claim."""
    asked: list[tuple[int, ...]] = []

    def note(request: ClaimRequest) -> None:
        asked.append(request.lanes)

    store.before["claim"] = note
    return asked


async def fill(manager: Manager, count: int) -> None:
    await manager.enqueue_many(Enqueue("q", "work", number) for number in range(count))


async def in_lane(store: FaultyStore, lane: int, count: int = 1) -> None:
    """Store tasks in a lane, and nudge nobody."""
    producer = a_manager(store, WIDE)
    for number in range(count):
        handle = await producer.enqueue("q", "work", number)
        store.edit(handle.id, lane=lane)


@pytest.mark.parametrize("poll", [1, 2])
async def test_an_idle_poll_is_one_claim_of_all_lanes(store: FaultyStore, poll: int) -> None:
    store.tells_of_changes = False
    asked = listening(store)
    manager = a_manager(store, WIDE, workers=16, fallback_poll=seconds(poll))
    working(manager)
    async with manager:
        await anyio.sleep(1)
        asked.clear()
        await anyio.sleep(100 * poll)
    assert set(asked) == {ALL}
    assert 90 <= len(asked) <= 100


async def test_claimers_take_turns_in_lanes_of_their_own(store: FaultyStore) -> None:
    """While there is work everywhere no two claims of a manager name the same lane at once."""
    under_way, met = set[tuple[int, ...]](), list[tuple[int, ...]]()

    def begin(request: ClaimRequest) -> None:
        if request.lanes in under_way:
            met.append(request.lanes)
        under_way.add(request.lanes)

    store.before["claim"] = begin
    store.after["claim"] = lambda request: under_way.discard(request.lanes)
    manager = a_manager(store, WIDE, workers=8)
    done = working(manager)
    for lane in ALL:
        await in_lane(store, lane, 40)
    async with manager:
        while len(done) < 400:
            await anyio.sleep(0.01)
        by_lane = Counter(task.lane for task in store.all_tasks() if task.attempts)
    assert met == []
    assert max(by_lane.values()) - min(by_lane.values()) <= 4


async def test_a_worker_helps_out_in_the_lanes_of_others_and_stays_there(
    store: FaultyStore,
) -> None:
    asked = listening(store)
    manager = a_manager(store, WIDE, workers=1, fallback_poll=seconds(1000))
    done = working(manager)
    await in_lane(store, 11, 40)
    async with manager:
        while len(done) < 40:
            await anyio.sleep(0.01)
    assert asked[:2] == [ALL, (11,)]
    assert sorted(done) == list(range(40))
    assert len(asked) <= 40 + 2 * len(ALL)


async def test_empty_lanes_are_not_asked_again_and_again(store: FaultyStore) -> None:
    asked = listening(store)
    manager = a_manager(store, WIDE, workers=1, fallback_poll=seconds(1000))
    done = working(manager)
    await in_lane(store, 3, 100)
    await in_lane(store, 9, 100)
    async with manager:
        while len(done) < 200:
            await anyio.sleep(0.01)
    elsewhere = [lanes for lanes in asked if lanes not in {(3,), (9,)}]
    assert len(elsewhere) <= 2 * len(ALL)


async def test_a_lane_that_was_empty_gets_its_turn_again_within_a_poll(store: FaultyStore) -> None:
    """While the other lanes keep the workers busy nothing else makes them look there."""
    manager = a_manager(store, WIDE, workers=1, fallback_poll=seconds(5))
    done = working(manager, length=0.05)
    await in_lane(store, 3, 300)
    async with manager:
        await anyio.sleep(2)
        other = await a_manager(store, WIDE).enqueue("q", "work", -1)
        store.edit(other.id, lane=9)
        await anyio.sleep(6)
        assert -1 in done
        assert len(done) < 300


async def test_all_workers_join_in_at_once_when_a_manager_fills_its_queue(
    store: FaultyStore,
) -> None:
    manager = a_manager(store, WIDE, workers=10, fallback_poll=seconds(1000))
    done = working(manager, length=100)
    async with manager:
        await anyio.sleep(10)
        await fill(manager, 30)
        await anyio.sleep(0.1)
        assert len(done) == 10
        await manager.stop(timeout=0)


async def test_one_lane_is_claimed_from_as_such(store: FaultyStore) -> None:
    asked = listening(store)
    manager = a_manager(store, "q", workers=1, fallback_poll=seconds(1000))
    done = working(manager)
    await fill(manager, 20)
    async with manager:
        await anyio.sleep(1)
    assert len(done) == 20
    assert asked == [(0,)] * 21


async def test_a_claim_of_all_lanes_whose_answer_was_lost_is_settled_in_its_lane(
    store: FaultyStore,
) -> None:
    manager = a_manager(store, WIDE, workers=1)
    done = working(manager)
    handle = await manager.enqueue("q", "work", 7)
    store.edit(handle.id, lane=13)
    store.after["claim"] = failing(StoreUnavailableError("no answer"), times=1)
    async with manager:
        task = await settled(store, handle.id)
    assert done == [7]
    assert (task.status, task.attempts, task.lane) == ("done", 1, 13)


async def test_running_managers_and_producers_learn_of_more_and_of_fewer_lanes(
    store: FaultyStore,
) -> None:
    worker, producer = a_manager(store, "q", workers=4), a_manager(store, "q")
    done = working(worker)
    tasks: list[list[Task]] = []
    async with worker:
        await producer.enqueue("q", "work", 0, TaskPolicy(unique_key="k", delay=seconds(10**6)))
        for lanes in (1, 16, 4):
            await store.set_queue_policy(QueuePolicy("q", lanes=lanes))
            await anyio.sleep(10)
            known = {task.id for task in store.all_tasks()}
            await fill(producer, 200)
            with pytest.raises(DuplicateTaskError):
                await producer.enqueue("q", "work", 0, TaskPolicy(unique_key="k"))
            await anyio.sleep(5)
            tasks.append([task for task in store.all_tasks() if task.id not in known])
    assert len(done) == 600
    assert [max(task.lane for task in batch) for batch in tasks] == [0, 15, 3]


async def test_tasks_that_lie_in_lanes_given_up_are_run(store: FaultyStore) -> None:
    producer = a_manager(store, WIDE)
    await fill(producer, 100)
    narrow = QueuePolicy("q", lanes=1)
    await store.set_queue_policy(narrow)
    manager = a_manager(store, narrow, workers=4)
    done = working(manager)
    async with manager:
        await anyio.sleep(3)
    assert sorted(done) == list(range(100))


async def test_an_idle_worker_looks_at_once_when_it_learns_of_more_lanes(
    store: FaultyStore,
) -> None:
    manager = a_manager(store, "q", fallback_poll=seconds(1000))
    done = working(manager)
    async with manager:
        await anyio.sleep(1)
        await store.set_queue_policy(WIDE)
        await fill(a_manager(store, WIDE), 20)
        await anyio.sleep(6)
    assert sorted(done) == list(range(20))


async def test_a_registry_that_cannot_be_read_holds_nobody_up(
    store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    manager, producer = a_manager(store, WIDE), a_manager(store, WIDE)
    done = working(manager)
    store.before["queues"] = failing(StoreUnavailableError("no answer"))
    store.tells_of_changes = False
    async with manager:
        await fill(producer, 5)
        await anyio.sleep(30)
        await fill(producer, 5)
        await anyio.sleep(3)
    assert len(done) == 10
    assert store.calls["queues"] >= 5
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_producer_asks_for_changes_every_few_seconds_at_most(store: FaultyStore) -> None:
    producer = a_manager(store, "q")
    for _ in range(100):
        await producer.enqueue("q", "work", 1)
        await anyio.sleep(0.5)
    assert 8 <= store.calls["queues"] <= 10
    assert store.calls["insert"] == 100
