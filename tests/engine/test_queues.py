"""Several queues in one manager: order, shares, pools, and how often an idle one asks."""

from __future__ import annotations

from collections import Counter

import anyio
import pytest

from gotasks_py import Enqueue, Manager, QueuePolicy, TaskPolicy
from gotasks_py.store import ClaimRequest
from tests.engine.world import FaultyStore, a_manager, seconds

pytestmark = pytest.mark.anyio


def recording(manager: Manager, *queues: str, length: float = 0.01) -> list[str]:
    """Register a handler on every queue; tell the queue of each start."""
    started: list[str] = []

    def register(name: str) -> None:
        async def work(number: int) -> None:
            started.append(name)
            await anyio.sleep(length)

        manager.handler(name, "work")(work)

    for queue in queues:
        register(queue)
    return started


async def fill(manager: Manager, queue: str, count: int, priority: int = 0) -> None:
    policy = TaskPolicy(priority=priority)
    await manager.enqueue_many(Enqueue(queue, "work", n, policy) for n in range(count))


async def test_strict_order_empties_the_first_queue_first(store: FaultyStore) -> None:
    """B76."""
    manager = a_manager(store, "first", "second", order="strict", workers=1)
    started = recording(manager, "first", "second")
    await fill(manager, "second", 10)
    await fill(manager, "first", 50)
    async with manager:
        await anyio.sleep(5)
    assert started == ["first"] * 50 + ["second"] * 10


async def test_weights_are_shares_of_the_claims(store: FaultyStore) -> None:
    """B76: within ten points over 500 tasks; here exactly."""
    manager = a_manager(
        store, QueuePolicy("a", weight=6), QueuePolicy("b", weight=3), "c", workers=3
    )
    started = recording(manager, "a", "b", "c")
    for queue in "abc":
        await fill(manager, queue, 550)
    async with manager:
        while len(started) < 500:
            await anyio.sleep(0.01)
    shares = Counter(started[:500])
    assert shares["a"] == pytest.approx(300, abs=10)
    assert shares["b"] == pytest.approx(150, abs=10)
    assert shares["c"] == pytest.approx(50, abs=10)


async def test_no_queue_starves_under_weights(store: FaultyStore) -> None:
    manager = a_manager(store, QueuePolicy("heavy", weight=100), "light", workers=1)
    started = recording(manager, "heavy", "light")
    await fill(manager, "heavy", 400)
    await fill(manager, "light", 3)
    async with manager:
        while started.count("light") < 3:
            await anyio.sleep(0.01)
    assert len(started) <= 310


async def test_a_queue_with_workers_of_its_own_shares_none(store: FaultyStore) -> None:
    """B77: one busy queue does not hold up the rest."""
    manager = a_manager(store, QueuePolicy("busy", workers=2), "quick", workers=1)
    busy = recording(manager, "busy", length=1000)
    quick = recording(manager, "quick")
    await fill(manager, "busy", 10)
    await fill(manager, "quick", 10)
    async with manager:
        await anyio.sleep(5)
        assert manager.health().workers == 3
        assert manager.health().running_tasks == 2
        await manager.stop(timeout=0)
    assert len(busy) == 2
    assert len(quick) == 10


async def test_a_far_future_task_first_in_order_holds_nobody_up(store: FaultyStore) -> None:
    """B77."""
    manager = a_manager(store, workers=1)
    started = recording(manager, "q")
    await manager.enqueue("q", "work", 0, TaskPolicy(priority=99, delay=seconds(10**6)))
    await fill(manager, "q", 5)
    async with manager:
        await anyio.sleep(2)
    assert len(started) == 5


async def test_higher_priorities_go_first_and_equal_ones_in_order(store: FaultyStore) -> None:
    """B76: the default is 0; delayed tasks keep their priority."""
    order: list[str] = []
    manager = a_manager(store, workers=1)

    @manager.handler("q", "work")
    async def work(name: str) -> None:
        order.append(name)
        await anyio.sleep(1)

    plan = [("low", -1), ("first", 0), ("second", 0), ("high", 5), ("highest", 2**31 - 1)]
    for name, priority in plan:
        await manager.enqueue("q", "work", name, TaskPolicy(priority=priority))
        await anyio.sleep(0.01)
    late = TaskPolicy(priority=7, delay=seconds(1.5))
    await manager.enqueue("q", "work", "delayed", late)
    async with manager:
        await anyio.sleep(10)
    assert order == ["highest", "high", "delayed", "first", "second", "low"]


@pytest.mark.parametrize("workers", [1, 32])
async def test_an_idle_manager_asks_no_more_often_than_its_poll(
    store: FaultyStore, workers: int
) -> None:
    """B11: whatever the number of workers."""
    store.tells_of_changes = False
    manager = a_manager(store, workers=workers, fallback_poll=seconds(2))
    recording(manager, "q")
    async with manager:
        await anyio.sleep(1)
        before = store.calls["claim"]
        await anyio.sleep(200)
        assert 90 <= store.calls["claim"] - before <= 100


async def test_each_queue_of_an_idle_manager_is_asked_at_its_poll(store: FaultyStore) -> None:
    asked: Counter[str] = Counter()

    def note(request: ClaimRequest) -> None:
        asked[request.queue] += 1

    store.before["claim"] = note
    store.tells_of_changes = False
    manager = a_manager(store, "a", "b", "c", workers=8, fallback_poll=seconds(1))
    recording(manager, "a", "b", "c")
    async with manager:
        await anyio.sleep(100)
    assert all(85 <= count <= 110 for count in asked.values())
    assert set(asked) == set("abc")


async def test_work_from_another_process_is_found_within_a_poll(store: FaultyStore) -> None:
    store.tells_of_changes = False
    manager, producer = a_manager(store, workers=4), a_manager(store)
    started = recording(manager, "q")
    async with manager:
        await anyio.sleep(10.5)
        await fill(producer, "q", 20)
        await anyio.sleep(1.2)
    assert len(started) == 20


async def test_own_work_wakes_a_worker_at_once(store: FaultyStore) -> None:
    manager = a_manager(store, fallback_poll=seconds(1000))
    started = recording(manager, "q")
    async with manager:
        await anyio.sleep(10)
        await fill(manager, "q", 1)
        await anyio.sleep(0.1)
        assert len(started) == 1


async def test_all_workers_join_in_when_there_is_work_for_all(store: FaultyStore) -> None:
    manager = a_manager(store, workers=10, fallback_poll=seconds(1000))
    started = recording(manager, "q", length=100)
    async with manager:
        await anyio.sleep(10)
        await fill(manager, "q", 10)
        await anyio.sleep(0.1)
        assert len(started) == 10
        await manager.stop(timeout=0)


async def test_a_busy_queue_does_not_make_an_empty_one_be_asked_each_time(
    store: FaultyStore,
) -> None:
    asked: Counter[str] = Counter()

    def note(request: ClaimRequest) -> None:
        asked[request.queue] += 1

    store.before["claim"] = note
    manager = a_manager(store, "busy", "empty", workers=2)
    recording(manager, "busy", "empty")
    await fill(manager, "busy", 500)
    async with manager:
        await anyio.sleep(10)
    assert asked["busy"] >= 500
    assert asked["empty"] <= 15


async def test_a_claim_in_vain_does_not_hide_work_that_came_meanwhile(
    store: FaultyStore,
) -> None:
    """A nudge between an empty answer and the wait is not lost."""
    manager = a_manager(store, workers=1, fallback_poll=seconds(1000))
    started = recording(manager, "q")
    producing = anyio.Event()
    store.after["claim"] = lambda request: producing.set()

    async def produce() -> None:
        await producing.wait()
        await manager.enqueue("q", "work", 1)

    async with anyio.create_task_group() as group:
        group.start_soon(produce)
        async with manager:
            await anyio.sleep(5)
            assert len(started) == 1


async def test_thousands_of_timers_are_all_kept(store: FaultyStore) -> None:
    """Beyond what is remembered the poll stands in."""
    manager = a_manager(store, workers=4, fallback_poll=seconds(5))
    started = recording(manager, "q", length=0)
    async with manager:
        for number in range(1100):
            policy = TaskPolicy(delay=seconds(1 + number % 50))
            await manager.enqueue("q", "work", number, policy)
        await anyio.sleep(60)
    assert len(started) == 1100
