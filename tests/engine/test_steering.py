"""Operators steer queues and managers that run; nothing gets lost, and all follow at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import anyio
import pytest

from gotasks_py import (
    ConfigurationError,
    Enqueue,
    Fixed,
    Manager,
    QueuePolicy,
    Retry,
    Status,
    TaskPolicy,
    UnknownQueueError,
)
from tests.engine.world import FaultyStore, a_manager, is_running, reached, seconds, settled

pytestmark = pytest.mark.anyio

NEVER = seconds(1_000_000)

told = pytest.mark.parametrize("is_told", [True, False], ids=["told", "polling"])


class Crowd:
    """A handler that notes how many tasks it runs at once."""

    def __init__(self, *managers: Manager, queue: str = "q", length: float = 0) -> None:
        self.now = self.most = self.ended = 0
        self.started: list[float] = []
        self._length = length
        for manager in managers:
            manager.handler(queue, "t")(self.work)

    async def work(self, payload: None) -> None:
        self.started.append(anyio.current_time())
        self.now += 1
        self.most = max(self.most, self.now)
        await anyio.sleep(self._length)
        self.now -= 1
        self.ended += 1


async def many(manager: Manager, number: int, queue: str = "q") -> None:
    await manager.enqueue_many([Enqueue(queue, "t") for _ in range(number)])


async def until(goal: Callable[[], bool]) -> None:
    while not goal():
        await anyio.sleep(0.01)


@told
async def test_a_pause_holds_within_a_second_and_loses_nothing(
    store: FaultyStore, is_told: bool
) -> None:
    store.tells_of_changes = is_told
    manager, operator = a_manager(store), a_manager(store)
    crowd = Crowd(manager)
    async with manager:
        await (await manager.enqueue("q", "t")).result(timeout=5)
        await operator.pause("q")
        await anyio.sleep(1)
        late = await operator.enqueue("q", "t", None, TaskPolicy(delay=seconds(10)))
        await many(operator, 5)
        await anyio.sleep(60)
        assert crowd.ended == 1
        assert manager.health().ok
        await operator.resume("q")
        began = anyio.current_time()
        await settled(store, late.id)
        await until(lambda: crowd.ended == 7)
        assert anyio.current_time() - began < 1.5


async def test_a_fresh_manager_claims_nothing_of_a_paused_queue(store: FaultyStore) -> None:
    operator = a_manager(store)
    await many(operator, 3)
    await operator.pause("q")
    manager = a_manager(store)
    crowd = Crowd(manager)
    # It knows the queue from before the pause.
    await manager.enqueue("q", "t")
    await operator.resume("q")
    await manager.enqueue("q", "t")
    await operator.pause("q")
    async with manager:
        await anyio.sleep(100)
        assert (crowd.ended, store.calls["claim"] + store.calls["claim_many"]) == (0, 0)
        await manager.resume("q")
        await until(lambda: crowd.ended == 5)


@told
async def test_a_pause_ends_by_itself_when_its_time_comes(
    store: FaultyStore, is_told: bool
) -> None:
    store.tells_of_changes = is_told
    manager = a_manager(store)
    crowd = Crowd(manager)
    async with manager:
        began = anyio.current_time()
        await manager.pause("q", until=seconds(100), by="ops")
        await many(manager, 1)
        await until(lambda: bool(crowd.started))
    assert 100 <= crowd.started[0] - began < 101


@told
async def test_a_queue_is_given_lanes_and_all_its_tasks_are_run(
    store: FaultyStore, is_told: bool
) -> None:
    store.tells_of_changes = is_told
    manager, operator = a_manager(store), a_manager(store)
    crowd = Crowd(manager)
    async with manager:
        await many(manager, 1)
        await operator.set_queue_policy("q", lanes=8)
        await anyio.sleep(6)
        await many(manager, 60)
        lanes = {task.lane for task in store.all_tasks()}
        assert lanes > {0}
        assert lanes <= set(range(8))
        await until(lambda: crowd.ended == 61)
        await operator.reset_queue_policy("q")
        await anyio.sleep(6)
        before = {task.id for task in store.all_tasks()}
        await many(manager, 20)
        assert {task.lane for task in store.all_tasks() if task.id not in before} == {0}
        await until(lambda: crowd.ended == 81)


async def test_a_pause_leaves_other_queues_and_running_tasks_alone(store: FaultyStore) -> None:
    manager = a_manager(store, "q", "r", workers=2)
    crowd, other = Crowd(manager, length=100), Crowd(manager, queue="r")
    async with manager:
        await many(manager, 1)
        await until(lambda: crowd.now == 1)
        await manager.pause("q")
        await many(manager, 1)
        await many(manager, 5, "r")
        await until(lambda: other.ended == 5)
        await until(lambda: crowd.ended == 1)
        await anyio.sleep(10)
        assert crowd.ended == 1


async def test_a_retry_comes_due_during_a_pause_and_waits(store: FaultyStore) -> None:
    manager = a_manager(store)
    attempts: list[float] = []

    @manager.handler("q", "t")
    async def work(payload: None) -> None:
        attempts.append(anyio.current_time())
        if len(attempts) == 1:
            raise Retry(delay=seconds(10))

    async with manager:
        handle = await manager.enqueue("q", "t")
        await until(lambda: len(attempts) == 1)
        await manager.pause("q")
        await anyio.sleep(100)
        assert len(attempts) == 1
        await manager.resume("q")
        task = await settled(store, handle.id)
    assert (task.status, task.attempts) == (Status.DONE, 2)


@told
async def test_more_and_fewer_workers_are_taken_on(store: FaultyStore, is_told: bool) -> None:
    store.tells_of_changes = is_told
    manager, operator = a_manager(store, QueuePolicy("q", workers=3)), a_manager(store)
    crowd = Crowd(manager, length=10)
    async with manager:
        await many(operator, 100)
        await until(lambda: crowd.now == 3)
        await operator.set_queue_policy("q", workers=7)
        await anyio.sleep(15)
        assert crowd.most == crowd.now == 7
        await operator.set_queue_policy("q", workers=1)
        await anyio.sleep(23)
        assert crowd.now == 1
        await operator.reset_queue_policy("q")
        await until(lambda: crowd.ended == 100)
    assert crowd.most == 7


async def test_a_limit_holds_within_a_shared_pool(store: FaultyStore) -> None:
    manager = a_manager(store, "q", "r", workers=6)
    crowd, other = Crowd(manager, length=10), Crowd(manager, queue="r", length=10)
    await manager.set_queue_policy("q", workers=2)
    await many(manager, 20)
    await many(manager, 20, "r")
    async with manager:
        await until(lambda: crowd.ended == 20)
    assert crowd.most == 2
    assert other.most >= 6 - 2


async def test_a_changed_policy_holds_for_tasks_and_attempts_to_come(store: FaultyStore) -> None:
    manager = a_manager(store)

    @manager.handler("q", "t")
    async def work(payload: None) -> None:
        await anyio.sleep(50)

    async with manager:
        await manager.set_queue_policy(
            "q",
            max_attempts=2,
            ttl=seconds(10_000),
            timeout=seconds(5),
            backoff=Fixed(delay=seconds(100), jitter=0),
        )
        began = anyio.current_time()
        handle = await manager.enqueue("q", "t")
        task = await settled(store, handle.id)
        took = anyio.current_time() - began
        await manager.reset_queue_policy("q")
        after = await manager.enqueue("q", "t")
    assert (task.status, task.attempts, task.max_attempts) == (Status.DEAD, 2, 2)
    assert task.expires_at is not None
    assert 110 <= took < 112
    assert (await store.stored(after.id)).max_attempts == 3


async def test_weights_change_while_queues_are_served(store: FaultyStore) -> None:
    manager = a_manager(store, "q", "r", workers=1)
    crowd, other = Crowd(manager, length=1), Crowd(manager, queue="r", length=1)
    await many(manager, 100)
    await many(manager, 100, "r")
    async with manager:
        await manager.set_queue_policy("q", weight=4)
        await until(lambda: crowd.ended + other.ended == 50)
    assert 36 <= crowd.ended <= 44


@told
async def test_a_quiet_manager_claims_nothing_until_it_is_woken(
    store: FaultyStore, is_told: bool
) -> None:
    store.tells_of_changes = is_told
    manager, operator = a_manager(store), a_manager(store)
    crowd = Crowd(manager, length=5)
    async with manager:
        await many(operator, 1)
        await until(lambda: crowd.now == 1)
        await operator.quiet_node(manager.id)
        await anyio.sleep(1)
        await many(operator, 3)
        await anyio.sleep(100)
        assert (crowd.ended, manager.health().ok) == (1, True)
        await operator.wake_node(manager.id)
        await until(lambda: crowd.ended == 4)


@told
async def test_a_drained_manager_finishes_and_stops(store: FaultyStore, is_told: bool) -> None:
    store.tells_of_changes = is_told
    manager, operator = a_manager(store), a_manager(store)
    crowd = Crowd(manager, length=50)
    began = ended_at = 0.0

    async def run() -> None:
        nonlocal ended_at
        await manager.run()
        ended_at = anyio.current_time()

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await many(operator, 5)
        await until(lambda: crowd.now == 2)
        began = anyio.current_time()
        await operator.drain_node(manager.id)
    assert crowd.ended == 2
    assert 45 < ended_at - began <= 51
    assert sorted(task.status for task in store.all_tasks()) == ["done"] * 2 + ["pending"] * 3


@told
async def test_what_runs_is_cancelled_within_a_second(store: FaultyStore, is_told: bool) -> None:
    store.tells_of_changes = is_told
    manager = a_manager(store, lease=seconds(600))
    Crowd(manager, length=1000)
    async with manager:
        handle = await manager.enqueue("q", "t")
        await reached(store, handle.id, is_running)
        began = anyio.current_time()
        await a_manager(store).cancel(handle.id)
        task = await settled(store, handle.id)
        assert anyio.current_time() - began <= 1.1
    assert task.status is Status.CANCELLED


def custom(_attempt: int, _error: BaseException | None) -> timedelta:
    return seconds(1)


async def test_mistaken_wishes_are_refused(store: FaultyStore) -> None:
    manager = a_manager(store)
    past = datetime(2000, 1, 1, tzinfo=UTC)
    calls: list[Callable[[], Awaitable[None]]] = [
        lambda: manager.pause("q", until=past),
        lambda: manager.pause("q", until=past.replace(tzinfo=None)),
        lambda: manager.pause("q", until=seconds(-1)),
        lambda: manager.pause("q", until="tomorrow"),  # type: ignore[arg-type]
        lambda: manager.pause("q", by=""),
        lambda: manager.pause("$q"),
        lambda: manager.set_queue_policy("q", workers=0),
        lambda: manager.set_queue_policy("q", backoff=custom),
        lambda: manager.quiet_node(""),
    ]
    for call in calls:
        with pytest.raises(ConfigurationError):
            await call()
    unknown: list[Callable[[], Awaitable[None]]] = [
        lambda: manager.pause("nowhere"),
        lambda: manager.resume("nowhere"),
        lambda: manager.set_queue_policy("nowhere", weight=2),
        lambda: manager.reset_queue_policy("nowhere"),
    ]
    for call in unknown:
        with pytest.raises(UnknownQueueError, match="nowhere"):
            await call()
    assert await store.queues() == {}
