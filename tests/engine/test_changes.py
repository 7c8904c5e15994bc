"""What managers and waiters do when the store tells of changes."""

from __future__ import annotations

import anyio
import pytest

from gotasks_py import Manager, Status, TaskContext, TaskPolicy
from gotasks_py.errors import TaskCancelledError, TaskNotFoundError
from gotasks_py.store import ClaimRequest
from tests.engine.world import FaultyStore, a_manager, orphan, seconds, settled

pytestmark = pytest.mark.anyio

NEVER = seconds(1_000_000)


def worker(
    store: FaultyStore, *, length: float = 0, workers: int = 2
) -> tuple[Manager, list[float]]:
    """Make a manager that finds nothing by polling, and note when its handler starts."""
    manager = a_manager(store, workers=workers, fallback_poll=NEVER, janitor=None)
    started: list[float] = []

    @manager.handler("q", "t")
    async def work(number: int) -> int:
        started.append(anyio.current_time())
        await anyio.sleep(length)
        return number

    return manager, started


async def test_work_from_elsewhere_starts_at_once(store: FaultyStore) -> None:
    manager, started = worker(store)
    async with manager:
        await anyio.sleep(100)
        await a_manager(store).enqueue("q", "t", 1)
        await anyio.sleep(0.01)
        assert len(started) == 1


async def test_as_many_workers_wake_as_tasks_come(store: FaultyStore) -> None:
    manager, started = worker(store, length=50, workers=8)
    async with manager:
        await anyio.sleep(100)
        asked = store.calls["claim"]
        producer = a_manager(store)
        for number in range(4):
            await producer.enqueue("q", "t", number)
        await anyio.sleep(0.01)
        assert len(started) == 4
        # For each, the claim that finds it, one by the worker that is woken by that, and one more
        # where the call came in the midst of a claim: no herd of eight.
        assert store.calls["claim"] - asked <= 3 * 4


async def test_neither_another_queue_nor_another_type_wakes_anybody(store: FaultyStore) -> None:
    manager, _ = worker(store)
    async with manager:
        await anyio.sleep(100)
        asked = store.calls["claim"]
        producer = a_manager(store, "q", "other")
        await producer.enqueue("other", "t", 1)
        await producer.enqueue("q", "other", 1)
        await anyio.sleep(0.5)
        assert store.calls["claim"] == asked


async def test_work_of_its_own_wakes_a_manager_once(store: FaultyStore) -> None:
    manager, started = worker(store)
    async with manager:
        await anyio.sleep(100)
        asked = store.calls["claim"]
        for number in range(5):
            await manager.enqueue("q", "t", number)
            await anyio.sleep(1)
        assert len(started) == 5
        # For each, the claim that finds it and the one that finds no more.
        assert store.calls["claim"] - asked <= 2 * 5


async def test_what_is_due_later_starts_when_it_is_due(store: FaultyStore) -> None:
    manager, started = worker(store)
    async with manager:
        await anyio.sleep(10)
        began = anyio.current_time()
        await a_manager(store).enqueue("q", "t", 1, TaskPolicy(delay=seconds(17)))
        await anyio.sleep(25)
    assert [at - began for at in started] == [pytest.approx(17, abs=0.05)]


async def test_what_was_put_off_before_the_start_is_asked_for(store: FaultyStore) -> None:
    manager, started = worker(store)
    for delay in (13, 400):
        await a_manager(store).enqueue("q", "t", 1, TaskPolicy(delay=seconds(delay)))
    began = anyio.current_time()
    async with manager:
        await anyio.sleep(500)
    assert [at - began for at in started] == pytest.approx([13, 400], abs=0.05)


async def test_a_lease_that_ends_elsewhere_is_noticed_as_it_ends(store: FaultyStore) -> None:
    await a_manager(store).enqueue("q", "t", 1)
    await orphan(store, "q", "t", seconds(20))
    manager, started = worker(store)
    began = anyio.current_time()
    async with manager:
        await anyio.sleep(25)
    assert [at - began for at in started] == [pytest.approx(20, abs=0.05)]


async def test_an_idle_manager_asks_every_half_minute(store: FaultyStore) -> None:
    manager = a_manager(store, workers=32, fallback_poll=seconds(1))

    @manager.handler("q", "t")
    async def work(payload: None) -> None: ...

    async with manager:
        await anyio.sleep(5)
        before = store.calls.copy()
        await anyio.sleep(300)
        asked = store.calls - before
    assert 9 <= asked["claim"] <= 10
    assert asked["next_due"] <= 10


async def test_leases_that_are_renewed_elsewhere_cause_no_storm(store: FaultyStore) -> None:
    busy = a_manager(store, lease=seconds(3), workers=1)

    @busy.handler("q", "t")
    async def work(payload: None) -> None:
        await anyio.sleep(1000)

    idle, started = worker(store)
    async with busy:
        await busy.enqueue("q", "t")
        await anyio.sleep(1)
        async with idle:
            await anyio.sleep(5)
            before = store.calls.copy()
            await anyio.sleep(60)
            asked = store.calls - before
        await busy.stop(timeout=0)
    assert not started
    assert asked["claim"] <= 60
    assert asked["next_due"] <= 60


async def test_one_task_does_not_cost_a_claim_of_every_manager(store: FaultyStore) -> None:
    managers = [worker(store, length=0.001, workers=1) for _ in range(16)]
    claims = 0
    producer = a_manager(store)
    async with anyio.create_task_group() as group:
        for manager, _ in managers:
            await manager.start()
        await anyio.sleep(10)
        asked = store.calls["claim"]
        for number in range(1000):
            await producer.enqueue("q", "t", number)
            await anyio.sleep(0.002)
        await anyio.sleep(1)
        claims = store.calls["claim"] - asked
        for manager, _ in managers:
            group.start_soon(manager.stop)
    assert sum(len(started) for _, started in managers) == 1000
    # Each claim that finds a task is followed by one that does not.
    assert claims <= 4 * 1000


async def test_a_task_that_is_cancelled_elsewhere_stops_at_once(store: FaultyStore) -> None:
    manager = a_manager(store, lease=seconds(3000))
    stopped: list[float] = []

    @manager.handler("q", "t")
    async def work(ctx: TaskContext, payload: None) -> None:
        try:
            await anyio.sleep(1000)
        finally:
            stopped.append(anyio.current_time())

    other = a_manager(store)
    async with manager:
        handle = await other.enqueue("q", "t")
        await anyio.sleep(10)
        await other.cancel(handle.id)
        with pytest.raises(TaskCancelledError):
            await handle.result(timeout=1)
    assert stopped == [pytest.approx(10, abs=0.1)]


async def test_hundreds_wait_for_results_on_one_feed(store: FaultyStore) -> None:
    manager, _ = worker(store, length=100, workers=300)
    producer = a_manager(store)
    results: list[int] = []
    opened = 0
    async with manager, anyio.create_task_group() as group:
        handles = [await producer.enqueue("q", "t", number) for number in range(300)]

        async def wait(index: int) -> None:
            results.append(await handles[index].result(timeout=200))

        for index in range(300):
            group.start_soon(wait, index)
        await anyio.sleep(50)
        opened, asked = store.calls["watch"], store.calls["get"]
        await anyio.sleep(60)
        assert len(results) == 300
        assert store.feeds == 1
        # Opened anew without the ends of tasks, when nobody had waited for a while.
        assert store.calls["watch"] == opened + 1
        # Every 5 s in case that something is missed, and once when it is told of.
        assert store.calls["get"] - asked <= 300 * (60 / 5 + 1)
    assert sorted(results) == list(range(300))
    assert opened == 2


async def test_a_result_is_told_at_once(store: FaultyStore) -> None:
    manager, _ = worker(store, length=33.3)
    async with manager:
        handle = await a_manager(store).enqueue("q", "t", 5)
        began = anyio.current_time()
        assert await handle.result(timeout=100) == 5
        assert anyio.current_time() - began == pytest.approx(33.3, abs=0.05)


async def test_a_task_that_ends_as_its_waiter_comes_is_not_missed(store: FaultyStore) -> None:
    handle = await a_manager(store).enqueue("q", "t", 5)
    ending = a_manager(store)

    async def end() -> None:
        await ending.cancel(handle.id)

    async with anyio.create_task_group() as group:

        def ended(task_id: object) -> None:
            store.after.clear()
            group.start_soon(end)

        store.after["get"] = ended
        began = anyio.current_time()
        with pytest.raises(TaskCancelledError):
            await handle.result(timeout=100)
        assert anyio.current_time() - began < 0.1


async def test_the_end_of_a_task_that_is_deleted_is_told(store: FaultyStore) -> None:
    producer = a_manager(store)
    handle = await producer.enqueue("q", "t", 5)

    async def delete() -> None:
        await anyio.sleep(33.3)
        await producer.delete(handle.id)

    async with anyio.create_task_group() as group:
        group.start_soon(delete)
        with pytest.raises(TaskNotFoundError):
            await handle.result()
        assert anyio.current_time() == pytest.approx(33.3, abs=0.1)


async def test_a_gap_lets_everybody_look(
    store: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager, started = worker(store)
    producer = a_manager(store)
    async with manager:
        await anyio.sleep(10)
        handle = await producer.enqueue("q", "t", 1, TaskPolicy(delay=seconds(1000)))
        await anyio.sleep(1)
        # By a hand that no feed tells of, and more changes than the log keeps.
        changes = store._changes  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        with monkeypatch.context() as patched:
            patched.setattr(changes, "document_changed", lambda before, after: None)
            store._documents._changed = changes.document_changed  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            store.edit(handle.id, due_at=store.clock.now())
        await anyio.sleep(1)
        assert not started
        for number in range(10_001):
            changes.queue_changed(f"other{number}")
        await anyio.sleep(0.1)
        assert len(started) == 1
    assert (await settled(store, handle.id)).status is Status.DONE


async def test_a_feed_that_breaks_is_stood_in_for_by_polls(
    store: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = a_manager(store, fallback_poll=seconds(1))
    asked: list[float] = []

    def note(request: ClaimRequest) -> None:
        asked.append(anyio.current_time())

    @manager.handler("q", "t")
    async def work(payload: None) -> None: ...

    async with manager:
        await anyio.sleep(10)
        assert manager.health().is_stream_connected
        store.breaks_feeds(for_seconds=20)
        store.before["claim"] = note
        await anyio.sleep(20)
        assert not manager.health().is_stream_connected
        assert manager.health().ok
        assert 15 <= len(asked) <= 21
        await anyio.sleep(5)
        assert manager.health().is_stream_connected
        asked.clear()
        await anyio.sleep(25)
        assert len(asked) <= 1


async def test_the_feed_is_closed_when_nobody_needs_it(store: FaultyStore) -> None:
    manager, _ = worker(store)
    async with manager:
        await anyio.sleep(1)
        assert store.feeds == 1
        async with worker(store)[0]:
            await anyio.sleep(1)
            assert store.feeds == 1
    await anyio.sleep(0.1)
    assert store.feeds == 0
