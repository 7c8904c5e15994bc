"""Operators look at many tasks, and act on them at a pace."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest

from gotasks_py import (
    BulkReport,
    ConfigurationError,
    Manager,
    PipelineMode,
    QueuePolicy,
    Reason,
    Status,
    StoreUnavailableError,
    TaskFilter,
    TaskNotFoundError,
    TaskPolicy,
    UnknownQueueError,
)
from gotasks_py.lifecycle import Failure, died
from gotasks_py.store import ClaimRequest
from gotasks_py.task import LeaseRef, TaskId
from tests.engine.world import FaultyStore, a_manager, seconds

pytestmark = pytest.mark.anyio


async def some_dead(
    manager: Manager, store: FaultyStore, number: int, unique_key: str | None = None
) -> Sequence[TaskId]:
    ids: list[TaskId] = []
    for _ in range(number):
        handle = await manager.enqueue("q", "t", None, TaskPolicy(unique_key=unique_key))
        task = await store.claim(ClaimRequest("q", ("t",), "token", "w", seconds(60)))
        assert task is not None
        ref = LeaseRef(task.id, "q", 0, "token")
        assert await store.settle(ref, died(Failure(1, "w", "E", "no")))
        ids.append(handle.id)
    return ids


async def test_dead_letters_come_back_by_filter_in_paced_batches(store: FaultyStore) -> None:
    manager = a_manager(store)
    dead = await some_dead(manager, store, 1200)
    told: list[int] = []
    began = anyio.current_time()

    report = await manager.requeue_tasks(
        TaskFilter(queue="q"), per_second=100, progress=lambda each: told.append(each.changed)
    )

    assert (report.changed, report.refused, told) == (1200, 0, [500, 1000, 1200])
    assert 10 <= anyio.current_time() - began < 12
    assert str(await manager.count_tasks(TaskFilter(status="pending"))) == str(len(dead))


async def test_what_cannot_come_back_is_reported(store: FaultyStore) -> None:
    manager = a_manager(store)
    dead = await some_dead(manager, store, 2, unique_key="k")

    report = await manager.requeue_tasks(TaskFilter(unique_key="k"))

    ((refused, reason),) = report.reasons.items()
    assert (report.changed, report.refused, refused in dead) == (1, 1, True)
    assert "unique key" in reason


async def test_cancelling_by_filter_stops_what_runs(store: FaultyStore) -> None:
    manager = a_manager(store)
    started = anyio.Event()

    @manager.handler("q", "t")
    async def work(payload: None) -> None:
        started.set()
        await anyio.sleep_forever()

    handle = await manager.enqueue("q", "t")
    later = await manager.enqueue("q", "t", None, TaskPolicy(delay=seconds(3600)))
    async with manager:
        await started.wait()
        report = await manager.cancel_tasks(TaskFilter(queue="q"))
        with anyio.fail_after(5):
            while (await manager.get(handle.id)).status is not Status.CANCELLED:
                await anyio.sleep(0.1)
    assert report.changed == 2
    assert (await manager.get(later.id)).status is Status.CANCELLED


async def test_deleting_spares_what_is_not_final_unless_it_is_named(store: FaultyStore) -> None:
    manager = a_manager(store)
    await some_dead(manager, store, 3)
    waiting = await manager.enqueue("q", "t")

    assert await manager.delete_tasks(TaskFilter(queue="q")) == BulkReport(changed=3)
    assert [each.id for each in (await manager.find_tasks()).tasks] == [waiting.id]
    assert await manager.delete_tasks(TaskFilter(status="pending")) == BulkReport(changed=1)


async def test_an_outage_ends_a_bulk_operation(store: FaultyStore) -> None:
    manager = a_manager(store)
    await some_dead(manager, store, 20)

    def outage(*_: object) -> None:
        raise StoreUnavailableError("gone")

    store.before["transition"] = outage
    with pytest.raises(StoreUnavailableError):
        await manager.requeue_tasks(TaskFilter(queue="q"))


async def test_progress_that_fails_ends_nothing(
    store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    manager = a_manager(store)
    await some_dead(manager, store, 1)

    report = await manager.delete_tasks(TaskFilter(), progress=lambda _: 1 // 0)

    assert report.changed == 1
    assert "progress function" in caplog.text


async def test_queues_and_dead_letters_are_told(store: FaultyStore) -> None:
    manager = a_manager(store)
    await some_dead(manager, store, 2)

    (queue,) = await manager.overview()
    (group,) = (await manager.dead_letters("q")).groups

    assert (queue.name, queue.counts[Status.DEAD].value, group.count.value) == ("q", 2, 2)
    with pytest.raises(UnknownQueueError, match="nowhere"):
        await manager.overview("nowhere")


async def test_mistaken_arguments_are_refused(store: FaultyStore) -> None:
    manager = a_manager(store)
    for call in (
        lambda: manager.find_tasks({"queue": "q"}),  # type: ignore[arg-type]
        lambda: manager.find_tasks(limit=0),
        lambda: manager.count_tasks(limit=0),
        lambda: manager.delete_tasks(TaskFilter(), per_second=0),
        lambda: manager.delete_tasks(TaskFilter(), progress="yes"),  # type: ignore[arg-type]
        lambda: manager.dead_letters(limit=5000),
        lambda: manager.dead_letters("$q"),
        lambda: manager.overview("$q"),
    ):
        with pytest.raises(ConfigurationError):
            await call()


@pytest.mark.parametrize("mode", [None, PipelineMode()])
async def test_a_task_that_waits_for_the_workers_that_its_queue_declares_is_told_so(
    store: FaultyStore, mode: PipelineMode | None
) -> None:
    queues = (QueuePolicy("own", workers=2, weight=3), "shared", "left")
    manager = a_manager(store, *queues, workers=5, mode=mode)
    for name in ("own", "shared", "left"):

        @manager.handler(name, "work")
        async def work() -> None:
            await anyio.sleep(100)

    manager.override(queues=["own", "shared"])
    async with manager:
        waiting = [await manager.enqueue("own", "work") for _ in range(3)]
        left = await manager.enqueue("left", "work")
        await anyio.sleep(30)
        (node,) = await store.nodes()
        assert node.workers == {"own": 2, "shared": 5}
        assert node.weights == {"own": 3, "shared": 1}
        assert (node.running, node.capacity) == (2, 7)
        # As somebody elsewhere asks, who has declared nothing.
        told = [await Manager(store).explain(each.id) for each in waiting]
        assert [each.reason for each in told].count(Reason.RUNNING) == 2
        (busy,) = [each for each in told if each.reason is Reason.WORKERS_BUSY]
        assert "2 of its tasks run, and 1 manager may run 2 of them at once" in busy.sentence
        assert (await manager.explain(left.id)).reason is Reason.NO_HANDLER
        await manager.stop(0)


async def test_a_task_that_waits_for_its_queues_own_limit_is_told_so(store: FaultyStore) -> None:
    manager = a_manager(store, workers=4)

    @manager.handler("q", "t")
    async def work(payload: None) -> None:
        await anyio.sleep_forever()

    async with manager:
        await anyio.sleep(30)  # for it to say that it is there
        await manager.set_queue_policy("q", workers=1)
        await anyio.sleep(5)
        await manager.enqueue("q", "t")
        await anyio.sleep(5)
        waiting = await manager.enqueue("q", "t")
        await anyio.sleep(5)
        told = await manager.explain(waiting.id)
        assert told.reason is Reason.WORKERS_BUSY
        assert "all workers of queue 'q' are busy: 1 of its tasks run" in told.sentence
        await manager.set_queue_policy("q", workers=3)
        await anyio.sleep(5)
        assert (await manager.explain(waiting.id)).reason is Reason.RUNNING
        await manager.stop(timeout=0)


async def test_why_a_task_waits_is_told(store: FaultyStore) -> None:
    manager, operator = a_manager(store), a_manager(store)

    @manager.handler("q", "t")
    async def work(payload: None) -> None:
        await anyio.sleep_forever()

    async with manager:
        await anyio.sleep(30)  # for it to say that it is there
        running = await operator.enqueue("q", "t")
        await anyio.sleep(1)
        assert (await operator.explain(running.id)).reason is Reason.RUNNING
        foreign = await operator.enqueue("q", "unknown")
        assert (await operator.explain(foreign.id)).reason is Reason.NO_HANDLER
        await operator.pause("q", by="ops")
        paused = await operator.explain(str(foreign.id))
        assert (paused.reason, paused.by) == (Reason.QUEUE_PAUSED, "ops")
    with pytest.raises(TaskNotFoundError):
        await operator.explain("0" * 24)
