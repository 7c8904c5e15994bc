"""Bringing dead letters back."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest

from gotasks_py import (
    DuplicateTaskError,
    InvalidStateError,
    Manager,
    QueuePolicy,
    Status,
    TaskNotFoundError,
    TaskPolicy,
)
from gotasks_py.task import Task, TaskId
from tests.engine.world import FaultyStore, a_manager, seconds, settled

pytestmark = pytest.mark.anyio


def failing_manager(store: FaultyStore, queue: QueuePolicy | None = None) -> Manager:
    manager = a_manager(store, queue or QueuePolicy("q"), "other", max_attempts=1)

    async def work(payload: None) -> str:
        if not mended.get(manager):
            raise ValueError
        return "mended"

    for address in (("q", "a"), ("q", "b"), ("other", "a")):
        manager.handler(*address)(work)
    return manager


mended: dict[Manager, bool] = {}


async def dead(
    manager: Manager, store: FaultyStore, queue: str = "q", type: str = "a", key: str | None = None
) -> Task:
    handle = await manager.enqueue(queue, type, None, TaskPolicy(unique_key=key))
    return await settled(store, handle.id)


async def test_a_requeued_task_starts_over_and_keeps_its_history(store: FaultyStore) -> None:
    manager = failing_manager(store)
    async with manager:
        task = await dead(manager, store)
        mended[manager] = True
        requeued = await manager.requeue(str(task.id))
        assert await (await manager.handle(task.id)).result(timeout=5) == "mended"
    assert (requeued.status, requeued.attempts) == (Status.PENDING, 0)
    after = await store.stored(task.id)
    assert after.attempts == 1
    assert [error.kind for error in after.errors] == ["ValueError"]


@pytest.mark.parametrize("status", [Status.PENDING, Status.RUNNING, Status.DONE, Status.CANCELLED])
async def test_only_a_dead_task_can_be_requeued(store: FaultyStore, status: Status) -> None:
    """B49."""
    manager = failing_manager(store)
    handle = await manager.enqueue("q", "a")
    store.edit(handle.id, status=status.value)
    with pytest.raises(InvalidStateError, match="only a dead task") as raised:
        await manager.requeue(handle.id)
    assert raised.value.task_id == handle.id


async def test_of_two_requeues_at_once_one_wins(store: FaultyStore) -> None:
    """B49: a double click requeues once."""
    manager = failing_manager(store)
    async with manager:
        task = await dead(manager, store)
    results: list[str] = []

    async def requeue() -> None:
        try:
            await manager.requeue(task.id)
        except InvalidStateError:
            results.append("refused")
        else:
            results.append("requeued")

    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(requeue)
    assert sorted(results) == ["refused", "requeued"]


async def test_a_requeue_takes_the_unique_key_again(store: FaultyStore) -> None:
    manager = failing_manager(store)
    async with manager:
        task = await dead(manager, store, key="k")
    await manager.requeue(task.id)
    with pytest.raises(DuplicateTaskError) as raised:
        await manager.enqueue("q", "a", None, TaskPolicy(unique_key="k"))
    assert raised.value.existing_id == task.id


async def test_a_requeue_is_refused_while_another_task_holds_the_key(store: FaultyStore) -> None:
    manager = failing_manager(store)
    async with manager:
        task = await dead(manager, store, key="k")
    holder = await manager.enqueue("q", "a", None, TaskPolicy(unique_key="k", delay=seconds(999)))
    with pytest.raises(DuplicateTaskError) as raised:
        await manager.requeue(task.id)
    assert raised.value.existing_id == holder.id
    assert (await store.stored(task.id)).status is Status.DEAD


async def test_requeue_dead_does_what_it_can_and_reports_the_rest(store: FaultyStore) -> None:
    manager = failing_manager(store)
    async with manager:
        tasks = [await dead(manager, store, key=f"k{number}") for number in range(4)]
    await manager.enqueue("q", "a", None, TaskPolicy(unique_key="k1", delay=seconds(999)))
    report = await manager.requeue_dead("q")
    assert set(report.requeued) == {tasks[0].id, tasks[2].id, tasks[3].id}
    assert report.conflicts == (tasks[1].id,)
    assert report.expired == ()


@pytest.mark.parametrize(
    ("queue", "type", "expected"),
    [
        (None, None, {"qa", "qb", "oa"}),
        ("q", None, {"qa", "qb"}),
        (None, "a", {"qa", "oa"}),
        ("q", "b", {"qb"}),
        ("q", "z", set[str]()),
    ],
)
async def test_requeue_dead_is_narrowed_by_queue_and_type(
    store: FaultyStore, queue: str | None, type: str | None, expected: set[str]
) -> None:
    manager = failing_manager(store)
    names: dict[TaskId, str] = {}
    async with manager:
        for name, address in {"qa": ("q", "a"), "qb": ("q", "b"), "oa": ("other", "a")}.items():
            names[(await dead(manager, store, *address)).id] = name
    report = await manager.requeue_dead(queue=queue, type=type)
    assert {names[task_id] for task_id in report.requeued} == expected


async def test_requeue_dead_passes_over_what_disappears_meanwhile(store: FaultyStore) -> None:
    manager = failing_manager(store)
    async with manager:
        task = await dead(manager, store)
        other = await dead(manager, store)
    seen: list[int] = []

    def vanish(task_id: TaskId) -> None:
        if task_id == task.id and not seen:
            seen.append(1)
            store.remove(task_id)

    store.before["get"] = vanish
    report = await manager.requeue_dead()
    assert report.requeued == (other.id,)
    assert (report.conflicts, report.expired) == ((), ())


async def test_a_requeue_keeps_the_lifetime_and_warns_when_little_is_left(
    store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    manager = failing_manager(store, QueuePolicy("q", ttl=timedelta(minutes=10)))
    async with manager:
        task = await dead(manager, store)
    requeued = await manager.requeue(task.id)
    assert requeued.expires_at == task.expires_at
    assert "purged" not in caplog.text
    async with manager:
        await settled(store, task.id)
        await anyio.sleep(8 * 60)
    await manager.requeue(task.id)
    assert "will be purged in" in caplog.text


async def test_a_fresh_lifetime_starts_anew(store: FaultyStore) -> None:
    manager = failing_manager(store, QueuePolicy("q", ttl=timedelta(minutes=10)))
    async with manager:
        task = await dead(manager, store)
    await anyio.sleep(8 * 60)
    requeued = await manager.requeue(task.id, fresh_lifetime=True)
    assert requeued.expires_at is not None
    assert requeued.expires_at - requeued.updated_at == timedelta(minutes=10)
    await anyio.sleep(5 * 60)
    assert (await manager.get(task.id)).status is Status.PENDING
    await anyio.sleep(6 * 60)
    with pytest.raises(TaskNotFoundError):
        await manager.get(task.id)


async def test_a_dead_letter_past_its_lifetime_needs_a_fresh_one(store: FaultyStore) -> None:
    """The database purges with a delay: until then the task is there, and expired."""
    manager = failing_manager(store, QueuePolicy("q", ttl=timedelta(minutes=10)))
    async with manager:
        task = await dead(manager, store)
    store.never_purges()
    await anyio.sleep(11 * 60)
    with pytest.raises(InvalidStateError, match="fresh_lifetime=True"):
        await manager.requeue(task.id)
    report = await manager.requeue_dead()
    assert report.expired == (task.id,)
    assert (await manager.requeue_dead(fresh_lifetime=True)).requeued == (task.id,)


async def test_nothing_past_its_lifetime_is_started(store: FaultyStore) -> None:
    runs: list[int] = []
    manager = a_manager(store, QueuePolicy("q", ttl=timedelta(minutes=10)))

    @manager.handler("q", "work")
    async def work(payload: None) -> None:
        runs.append(1)

    store.never_purges()
    handle = await manager.enqueue("q", "work")
    await anyio.sleep(11 * 60)
    async with manager:
        task = await settled(store, handle.id)
    assert runs == []
    assert task.status is Status.DEAD
    assert [error.kind for error in task.errors] == ["expired"]


async def test_a_purged_task_refuses_its_outcome(store: FaultyStore) -> None:
    """B71: the purge of a running task fences its end."""
    manager = a_manager(store, QueuePolicy("q", ttl=seconds(60)))

    @manager.handler("q", "work")
    async def work(payload: None) -> None:
        await anyio.sleep(100)

    async with manager:
        handle = await manager.enqueue("q", "work")
        with pytest.raises(TaskNotFoundError):
            await handle.result(timeout=200)
        await anyio.sleep(60)
        assert manager.health().running_tasks == 0
