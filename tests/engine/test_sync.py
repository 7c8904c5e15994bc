"""The manager's operations for code that is not async."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import anyio
import pytest

from gotasks_memstore import MemStore
from gotasks_py import (
    ConfigurationError,
    DuplicateTaskError,
    Enqueue,
    Manager,
    PartialEnqueueError,
    PayloadError,
    QueuePolicy,
    Reason,
    ResultTimeoutError,
    Status,
    TaskFilter,
    TaskNotFoundError,
    TaskPolicy,
    TaskType,
)
from tests.engine.world import a_manager, real_time, seconds

DOUBLE = TaskType("q", "double", int, int)


@pytest.fixture
def manager() -> Iterator[Manager]:
    manager = a_manager(MemStore())

    @manager.handler(DOUBLE)
    async def double(number: int) -> int:
        return number * 2

    yield manager
    manager.sync.close()


def test_a_plain_script_does_everything(manager: Manager) -> None:
    sync = manager.sync
    handle = sync.enqueue("q", "double", 1, TaskPolicy(unique_key="k"))
    assert sync.enqueue(DOUBLE, 2).task().payload == {"value": 2}
    assert sync.get(handle.id).status is Status.PENDING
    assert sync.handle(handle.id) == handle
    with pytest.raises(DuplicateTaskError):
        sync.enqueue("q", "double", 1, TaskPolicy(unique_key="k"))
    same = sync.enqueue("q", "double", 1, TaskPolicy(unique_key="k"), on_conflict="return")
    assert same.id == handle.id
    many = sync.enqueue_many([Enqueue("q", "double", number) for number in range(3)])
    assert [each.task().payload for each in many] == [{"value": number} for number in range(3)]
    with pytest.raises(ResultTimeoutError):
        handle.result(timeout=0.01)
    assert sync.cancel(handle.id).status is Status.CANCELLED
    sync.delete(handle.id)
    with pytest.raises(TaskNotFoundError):
        handle.task()


def test_dead_letters_are_requeued(manager: Manager) -> None:
    @manager.handler("q", "die")
    async def die(payload: None) -> None:
        raise ValueError

    task_id = manager.sync.enqueue("q", "die", None, TaskPolicy(max_attempts=1)).id
    asyncio.run(run_until_final(manager, task_id))
    assert manager.sync.requeue(task_id).status is Status.PENDING
    asyncio.run(run_until_final(manager, task_id))
    report = manager.sync.requeue_dead("q", fresh_lifetime=True)
    assert report.requeued == (task_id,)


async def run_until_final(manager: Manager, task_id: object) -> None:
    async with manager:
        while not (await manager.get(task_id)).status.is_final:
            await anyio.sleep(0.005)


def test_the_background_thread_is_made_once_and_anew_after_a_close(manager: Manager) -> None:
    def loops() -> set[threading.Thread]:
        return {each for each in threading.enumerate() if each.name.startswith("gotasks_py sync")}

    others = loops()
    for _ in range(3):
        manager.sync.enqueue(DOUBLE, 1)
    (first,) = loops() - others
    manager.sync.close()
    manager.sync.close()
    assert not first.is_alive()
    assert loops() <= others
    manager.sync.enqueue(DOUBLE, 1)
    (second,) = loops() - others
    assert second is not first


def test_many_threads_share_one_manager(manager: Manager) -> None:
    with ThreadPoolExecutor(8) as pool:
        handles = list(pool.map(lambda number: manager.sync.enqueue(DOUBLE, number), range(100)))
    assert len({handle.id for handle in handles}) == 100


@real_time
@pytest.mark.anyio
async def test_threads_work_with_a_manager_that_runs_on_a_loop(manager: Manager) -> None:
    def view() -> int:
        return manager.sync.enqueue(DOUBLE, 21).result(timeout=seconds(5))

    before = threading.active_count()
    async with manager:
        assert await anyio.to_thread.run_sync(view) == 42
        # The loop that it runs on served, not one more in the background.
        assert threading.active_count() <= before + 3


@real_time
@pytest.mark.anyio
async def test_what_a_thread_enqueues_elsewhere_wakes_an_idle_manager(manager: Manager) -> None:
    never = seconds(1_000_000)
    worker = Manager(manager.store, queues=[QueuePolicy("q")], fallback_poll=never, janitor=None)

    @worker.handler(DOUBLE)
    async def double(number: int) -> int:
        return number * 2

    def view(number: int) -> int:
        # Of a manager that is not started, on an event loop of its own.
        return manager.sync.enqueue(DOUBLE, number).result(timeout=seconds(20))

    async with worker:
        while not worker.health().is_stream_connected:
            await anyio.sleep(0.001)
        await anyio.sleep(0.05)  # until it has looked, and waits
        for number in range(3):
            assert await anyio.to_thread.run_sync(view, number) == 2 * number


def test_the_progress_of_a_bulk_is_told_on_the_event_loop(manager: Manager) -> None:
    told, threads = list[int](), set[int]()

    def progress(done: int) -> None:
        told.append(done)
        threads.add(threading.get_ident())

    requests = (Enqueue("q", "double", number) for number in range(2500))
    handles = manager.sync.enqueue_many(requests, progress=progress)

    assert told == [1000, 2000, 2500]
    assert len(threads - {threading.get_ident()}) == 1
    assert [handles[number].task().payload for number in (0, 2499)] == [
        {"value": 0},
        {"value": 2499},
    ]


def test_a_progress_of_a_bulk_that_raises_loses_nothing(manager: Manager) -> None:
    def progress(done: int) -> None:
        raise ValueError(done)

    requests = [Enqueue("q", "double", number) for number in range(3)]
    handles = manager.sync.enqueue_many(requests, progress=progress)

    assert [handle.task().payload for handle in handles] == [
        {"value": number} for number in range(3)
    ]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_it_is_refused_on_the_event_loop(manager: Manager, backend: str) -> None:
    async def main() -> None:
        with pytest.raises(ConfigurationError, match="await the manager's own methods"):
            manager.sync.enqueue(DOUBLE, 1)

    anyio.run(main, backend=backend)


@real_time
@pytest.mark.anyio
async def test_a_sync_handler_may_enqueue(manager: Manager) -> None:
    @manager.handler("q", "parent")
    def parent(number: int) -> str:
        return str(manager.sync.enqueue(DOUBLE, number).id)

    async with manager:
        child = await (await manager.enqueue("q", "parent", 4)).result(timeout=5)
        assert await (await manager.handle(child)).result(timeout=5) == 8


def test_a_loop_that_ended_is_not_waited_for(manager: Manager) -> None:
    async def once() -> None:
        await manager.enqueue(DOUBLE, 1)

    asyncio.run(once())
    assert manager.sync.enqueue(DOUBLE, 2).task().payload == {"value": 2}


def test_a_trio_run_that_ended_is_not_waited_for(manager: Manager) -> None:
    async def once() -> None:
        await manager.enqueue(DOUBLE, 1)

    anyio.run(once, backend="trio")
    assert manager.sync.enqueue(DOUBLE, 2).task().payload == {"value": 2}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_has_a_loop_of_its_own(manager: Manager) -> None:
    """B73: the thread is not there after a fork."""
    manager.sync.enqueue(DOUBLE, 1)
    child = os.fork()
    if child == 0:
        signal.alarm(5)
        try:
            manager.sync.enqueue(DOUBLE, 2)
        except BaseException:  # noqa: BLE001  - the parent sees the exit code
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_what_is_refused_is_refused_before_anything_is_written(manager: Manager) -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001  - the mistake

    with pytest.raises(PayloadError, match="naive datetime"):
        manager.sync.enqueue("q", "other", naive)
    with pytest.raises(PartialEnqueueError) as caught:
        manager.sync.enqueue_many([Enqueue("q", "other", naive), Enqueue("q", "double", "one")])

    assert caught.value.ids == [None, None]
    assert anyio.run(manager.store.queues) == {}


def test_operators_need_no_event_loop(manager: Manager) -> None:
    sync = manager.sync
    handle = sync.enqueue("q", "t")
    sync.pause("q", by="ops")
    assert sync.explain(handle.id).reason is Reason.QUEUE_PAUSED
    (queue,) = [each for each in sync.overview() if each.name == "q"]
    assert queue.pause is not None
    sync.resume("q")
    sync.set_queue_policy("q", weight=3, workers=2)
    assert sync.overview("q")[0].policy.weight == 3
    sync.reset_queue_policy("q")
    assert sync.overview("q")[0].policy.weight == 1
    for order in (sync.quiet_node, sync.wake_node, sync.drain_node):
        order("m.1")
    assert [task.id for task in sync.find_tasks(TaskFilter(queue="q")).tasks] == [handle.id]
    assert sync.count_tasks().value == 1
    assert sync.dead_letters().groups == []
    assert sync.requeue_tasks(TaskFilter()).changed == 0
    assert sync.cancel_tasks(TaskFilter()).changed == 1
    assert sync.delete_tasks(TaskFilter()).changed == 1
