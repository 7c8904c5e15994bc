"""What went wrong in rare moments of a pipeline once, and must not again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import anyio
import pytest

from gotasks_py import (
    Enqueue,
    Hooks,
    Manager,
    PipelineMode,
    QueuePolicy,
    Status,
    Task,
    TaskEvent,
    TaskPolicy,
)
from gotasks_py.store import ClaimRequest
from gotasks_py.testing import VirtualClock
from tests.engine.virtual import VirtualTimeLoop
from tests.engine.world import (
    AWAY,
    ONCE,
    Ears,
    FaultyStore,
    a_manager,
    a_pipeline,
    add_deaf_handler,
    failing,
    is_running,
    orphan,
    reached,
    seconds,
    settled,
)

pytestmark = pytest.mark.anyio


def a_sleeper(store: FaultyStore, **settings: Any) -> Manager:
    """Make a pipeline whose tasks take as many seconds as their payload says."""
    manager = a_pipeline(store, **settings)

    @manager.handler("q", "work")
    async def work(duration: float) -> None:
        await anyio.sleep(duration)

    return manager


async def until(goal: Callable[[], bool]) -> None:
    with anyio.fail_after(100):
        while not goal():
            await anyio.sleep(0.01)


async def a_busy_stretch(store: FaultyStore, manager: Manager) -> None:
    """Keep both workers busy for 6 s, until nobody listens any more, then be idle a while."""
    await manager.enqueue_many([Enqueue("q", "work", 0.2) for _ in range(60)])
    await until(lambda: store.feeds == 0)
    await anyio.sleep(8)
    assert manager.health().running_tasks == 0


def run_and_close(main: Callable[[], Awaitable[None]]) -> None:
    """Run on asyncio in virtual time, and close the event loop under what still runs."""

    async def ran() -> None:
        await main()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(ran())


def outcome(task: Task) -> tuple[Status, int, bool]:
    return task.status, task.attempts, task.lease is not None


async def test_a_renewed_task_stops_before_another_manager_can_begin_it(
    store: FaultyStore,
) -> None:
    """A renewal leaves less of a batch's lease than its claim had asked for."""
    log = list[tuple[str, float]]()

    async def work(number: int) -> None:
        log.append(("began", anyio.current_time()))
        try:
            await anyio.sleep_forever()
        finally:
            log.append(("stopped", anyio.current_time()))

    mode = PipelineMode(queue_lease=seconds(20))
    manager = a_pipeline(store, mode=mode, lease=seconds(3))
    other = a_manager(store, lease=seconds(60))
    for each in (manager, other):
        each.handler("q", "work")(work)

    await manager.enqueue("q", "work", 1)
    async with manager:
        await until(lambda: store.calls["renew"] == 1)
        await anyio.sleep(0.1)
        store.before["renew"] = failing(AWAY)
        async with other:
            await until(lambda: [name for name, _ in log].count("began") == 2)
            await other.stop(timeout=0)
        await manager.stop(timeout=0)

    assert [name for name, _ in log[:3]] == ["began", "stopped", "began"]
    # The lease of the one renewal, a second after the start, and no more.
    assert log[1][1] - log[0][1] == pytest.approx(4, abs=0.1)
    assert log[2][1] - log[0][1] == pytest.approx(4, abs=0.2)


async def test_after_every_busy_stretch_a_manager_listens_again(store: FaultyStore) -> None:
    """Even if its surveyor is still asking for due times when it ceases to listen."""
    manager = a_sleeper(store)
    store.late["next_due"] = 3
    async with manager:
        await anyio.sleep(10)
        for _ in range(3):
            store.calls["next_due"] = 0
            await manager.enqueue("q", "work", 0)
            await until(lambda: store.calls["next_due"] > 0)
            await a_busy_stretch(store, manager)
            assert store.feeds == 1
            assert manager.health().is_stream_connected


async def test_after_every_busy_stretch_a_lapsed_lease_is_taken_over_at_once(
    store: FaultyStore,
) -> None:
    manager = a_sleeper(store)
    async with manager:
        await anyio.sleep(1)
        for _ in range(3):
            await a_busy_stretch(store, manager)
            handle = await a_manager(store).enqueue("q", "work", 0)
            assert (await orphan(store, "q", "work", seconds(5))).id == handle.id
            began = anyio.current_time()
            await settled(store, handle.id)
            assert anyio.current_time() - began == pytest.approx(5, abs=0.2)


async def test_after_a_busy_stretch_manager_and_waiter_share_one_feed(store: FaultyStore) -> None:
    manager = a_sleeper(store)
    async with manager:
        await anyio.sleep(1)
        for _ in range(2):
            await a_busy_stretch(store, manager)
            handle = await manager.enqueue("q", "work", 1)
            async with anyio.create_task_group() as group:
                group.start_soon(handle.result)
                await anyio.sleep(0.5)
                assert store.feeds == 1
            await anyio.sleep(10)  # until ends are no longer followed
    await anyio.sleep(1)
    assert store.feeds == 0


async def test_a_stop_while_a_last_attempt_is_being_begun_hands_it_back(
    store: FaultyStore,
) -> None:
    manager = a_pipeline(store)
    runs = list[int]()

    @manager.handler("q", "work")
    async def work(number: int) -> None:
        runs.append(number)
        await anyio.sleep(60)

    store.late["settle"] = 0.05
    handle = await manager.enqueue("q", "work", 1, ONCE)
    await manager.start()
    await reached(store, handle.id, is_running)
    began = anyio.current_time()
    await manager.stop(timeout=0)

    assert anyio.current_time() - began < 1
    assert runs == []
    assert outcome(await store.stored(handle.id)) == (Status.PENDING, 0, False)


async def test_a_start_that_stayed_unclear_goes_back_when_the_store_is_back(
    store: FaultyStore,
) -> None:
    """It was away for so long that the rest of the lease would not be enough."""
    manager = a_pipeline(store, lease=seconds(60))
    runs = list[int]()

    @manager.handler("q", "work")
    async def work(number: int) -> None:
        runs.append(number)

    def lose(*_: object) -> None:
        store.after.clear()
        store.before["settle"] = failing(AWAY)
        raise AWAY

    store.after["settle"] = lose
    handle = await manager.enqueue("q", "work", 1, ONCE)
    async with manager:
        await reached(store, handle.id, is_running)
        await anyio.sleep(40)
        assert runs == []
        assert outcome(await store.stored(handle.id)) == (Status.RUNNING, 1, True)
        store.before.clear()
        back = anyio.current_time()
        task = await settled(store, handle.id)
        assert anyio.current_time() - back < 5

    assert runs == [1]
    assert outcome(task) == (Status.DONE, 1, False)
    assert task.interruptions == 1


def test_a_last_attempt_that_is_being_begun_as_asyncio_closes_goes_back() -> None:
    store = FaultyStore(clock=VirtualClock())
    runs = list[int]()

    async def main() -> None:
        manager = a_pipeline(store, workers=4)

        @manager.handler("q", "work")
        async def work(number: int) -> None:
            runs.append(number)
            await anyio.sleep_forever()

        store.late["settle"] = 0.05
        await manager.enqueue_many([Enqueue("q", "work", each, ONCE) for each in range(4)])
        await manager.start()
        await until(lambda: all(is_running(task) for task in store.all_tasks()))

    run_and_close(main)

    assert runs == []
    assert [outcome(task) for task in store.all_tasks()] == [(Status.PENDING, 0, False)] * 4


async def test_what_has_begun_too_late_goes_back_unrun(store: FaultyStore) -> None:
    manager = a_pipeline(store, lease=seconds(3), janitor=None)
    runs = list[float]()

    @manager.handler("q", "work")
    async def work(_: int) -> None:
        runs.append(anyio.current_time())

    # As it is for a process that was frozen meanwhile.
    store.late["settle"] = 4
    handle = await manager.enqueue("q", "work", 1, TaskPolicy(max_attempts=1))
    async with manager:
        await until(lambda: store.calls["settle"] >= 2)
        assert runs == []
        store.late["settle"] = 0
        await handle.result(timeout=30)

    task = await store.stored(handle.id)
    assert len(runs) == 1
    assert task.attempts == 1
    assert task.interruptions >= 1


def test_successes_that_are_gathered_as_asyncio_closes_are_recorded() -> None:
    store = FaultyStore(clock=VirtualClock())
    runs = list[int]()

    async def main() -> None:
        mode = PipelineMode(flush_interval=timedelta(hours=1))
        manager = a_pipeline(store, workers=4, mode=mode, lease=timedelta(days=300))

        @manager.handler("q", "work")
        async def work(number: int) -> int:
            runs.append(number)
            return number

        first = await manager.enqueue_many([Enqueue("q", "work", -each) for each in (1, 2)])
        await manager.start()
        for each in first:
            await each.result()  # the next ones are gathered
        await manager.enqueue_many([Enqueue("q", "work", each) for each in range(20)])
        await until(lambda: len(runs) == 22)
        await anyio.sleep(0.1)
        assert sum(is_running(task) for task in store.all_tasks()) == 20

    run_and_close(main)

    tasks = store.all_tasks()
    assert [outcome(task) for task in tasks] == [(Status.DONE, 1, False)] * 22
    assert [task.result for task in tasks] == [task.payload for task in tasks]


async def test_a_task_that_starts_while_only_finished_ones_are_known_is_fenced(
    store: FaultyStore,
) -> None:
    mode = PipelineMode(queue_lease=seconds(0.25))
    manager = a_pipeline(store, mode=mode, lease=seconds(3))
    lasted = list[float]()

    @manager.handler("q", "work")
    async def work(duration: float) -> None:
        began = anyio.current_time()
        try:
            await anyio.sleep(duration)
        finally:
            lasted.append(anyio.current_time() - began)

    store.late["settle_many"] = 2.5
    async with manager:
        await anyio.sleep(1)
        await manager.enqueue("q", "work", 0)
        await anyio.sleep(1.5)  # by now the deadlines have been looked at
        assert lasted == [0]
        store.before["renew"] = failing(AWAY)
        await manager.enqueue("q", "work", 30)
        await anyio.sleep(4)
        assert lasted[1:] == [pytest.approx(3, abs=0.26)]
        store.before.clear()
        await manager.stop(timeout=0)


async def test_what_comes_due_during_an_empty_claim_is_not_left_to_the_next_poll(
    store: FaultyStore,
) -> None:
    """In single mode: a pipeline's second fetcher would make good for it."""
    store.tells_of_changes = False
    store.late["claim"] = 0.05
    manager = a_manager(store, fallback_poll=seconds(60))
    started = dict[int, float]()

    @manager.handler("q", "work")
    async def work(number: int) -> None:
        started[number] = anyio.current_time()

    async with manager:
        await anyio.sleep(1)
        began = anyio.current_time()
        await manager.enqueue("q", "work", 1, TaskPolicy(delay=seconds(5)))
        await anyio.sleep(4.93)
        # Claimed at once; the next claim, which is empty, is under way when the other is due.
        await manager.enqueue("q", "work", 2)
        await until(lambda: len(started) == 2)

    assert started[2] - began == pytest.approx(4.98, abs=0.01)
    assert started[1] - began == pytest.approx(5.1, abs=0.1)


@pytest.mark.parametrize("mode", [None, PipelineMode()])
async def test_a_queue_that_changes_while_it_is_read_is_read_again(
    store: FaultyStore, mode: PipelineMode | None
) -> None:
    manager = a_manager(store, mode=mode)
    lanes = list[int]()

    @manager.handler("q", "work")
    async def work(number: int) -> None:
        raise AssertionError

    def note(request: ClaimRequest, limit: int | None = None) -> None:
        lanes.append(len(request.lanes))

    store.before["claim"] = note
    async with manager:
        await anyio.sleep(1)
        assert lanes[-1] == 1
        store.late["queues"] = 0.02
        read = store.calls["queues"]
        await store.set_queue_policy(QueuePolicy("q", lanes=4))
        await anyio.sleep(0.01)
        assert store.calls["queues"] == read + 1
        assert lanes[-1] == 1
        await store.set_queue_policy(QueuePolicy("q", lanes=8))
        await anyio.sleep(1)
        assert lanes[-1] == 8


async def test_a_run_that_is_told_of_nothing_reads_queues_often_after_one_that_was(
    store: FaultyStore,
) -> None:
    manager = a_sleeper(store)
    async with manager:
        await anyio.sleep(1)
    store.tells_of_changes = False
    async with manager:
        read = store.calls["queues"]
        await anyio.sleep(50)
        assert store.calls["queues"] - read >= 9


def gathering(store: FaultyStore, **settings: Any) -> Manager:
    """Make a pipeline that gathers many successes, and in which one task heeds nobody."""
    mode = PipelineMode(flush_size=20, flush_interval=seconds(1))
    manager = a_sleeper(store, mode=mode, workers=100, lease=seconds(600), **settings)
    add_deaf_handler(manager)
    return manager


async def tell_slowly(event: TaskEvent) -> None:
    await anyio.sleep(1)


@pytest.mark.parametrize("type", ["deaf", "work"])
async def test_slow_hooks_of_what_was_gathered_hold_up_no_stop_and_lose_nothing(
    store: FaultyStore, type: str
) -> None:
    manager = gathering(store, hooks=Hooks(on_done=tell_slowly))
    handles = await manager.enqueue_many([Enqueue("q", "work", 0.1) for _ in range(150)])
    await manager.start()
    left = await manager.enqueue("q", type, 1000)
    await reached(store, left.id, is_running)
    await anyio.sleep(1)  # until all the others have ended
    began = anyio.current_time()
    await manager.stop(timeout=0)
    assert anyio.current_time() - began <= 25
    statuses = {(await store.stored(handle.id)).status for handle in handles}
    assert statuses == {Status.DONE}


async def test_a_run_ends_that_has_gathered_more_than_it_could_write(store: FaultyStore) -> None:
    manager = gathering(store)
    await manager.enqueue_many([Enqueue("q", "work", 0.1) for _ in range(600)])
    store.late["settle_many"] = 3600
    await manager.start()
    await until(lambda: store.under_way["settle_many"] == 4)
    await anyio.sleep(30)
    await manager.stop(timeout=0)
    assert not +store.under_way
    asked = dict(store.calls)
    await anyio.sleep(300)
    assert store.calls == asked


async def test_what_ends_after_a_stop_is_refused_and_gathered_by_nobody(store: FaultyStore) -> None:
    ears = Ears()
    manager = a_pipeline(store, hooks=ears.hooks())
    add_deaf_handler(manager)
    await manager.start()
    await manager.enqueue_many([Enqueue("q", "deaf", 100) for _ in range(2)])
    await ears.wait("before_handle", 2)
    await manager.stop(timeout=0)
    await ears.wait("on_lease_lost", 2)
    assert {task.status for task in store.all_tasks()} == {Status.PENDING}
