"""Cancelling tasks, pending and running, here and elsewhere."""

from __future__ import annotations

import anyio
import pytest

from gotasks_py import (
    InvalidStateError,
    JanitorConfig,
    Manager,
    Status,
    TaskCancelledError,
    TaskContext,
    TaskNotFoundError,
    TaskPolicy,
)
from tests.engine.world import Ears, FaultyStore, a_manager, orphan, seconds, settled

pytestmark = pytest.mark.anyio


class Work:
    def __init__(self, store: FaultyStore, **settings: object) -> None:
        self.ears = Ears()
        self.stopped: list[float] = []
        self.manager: Manager = a_manager(store, hooks=self.ears.hooks(), **settings)
        self.manager.handler("q", "work")(self.work)

    async def work(self, ctx: TaskContext, length: float) -> str:
        try:
            await anyio.sleep(length)
        except anyio.get_cancelled_exc_class():
            self.stopped.append(anyio.current_time())
            raise
        return "finished"


async def test_a_pending_task_is_cancelled_at_once(store: FaultyStore) -> None:
    work = Work(store)
    handle = await work.manager.enqueue("q", "work", 1, TaskPolicy(unique_key="k"))
    task = await work.manager.cancel(handle.id)
    assert task.status is Status.CANCELLED
    assert task.finished_at is not None
    assert work.ears.names() == ["on_enqueue", "on_cancelled"]
    with pytest.raises(TaskCancelledError, match="is cancelled"):
        await handle.result(timeout=1)
    async with work.manager:
        await anyio.sleep(10)
    assert "on_claim" not in work.ears.names()
    again = await work.manager.enqueue("q", "work", 1, TaskPolicy(unique_key="k"))
    assert again.id != handle.id


async def test_a_task_that_runs_here_is_stopped_at_once(store: FaultyStore) -> None:
    work = Work(store, lease=seconds(60))
    async with work.manager:
        handle = await work.manager.enqueue("q", "work", 1000)
        await work.ears.wait("before_handle")
        await anyio.sleep(1)
        began = anyio.current_time()
        await work.manager.cancel(handle.id)
        task = await settled(store, handle.id)
        await work.ears.wait("on_cancelled")
    assert work.stopped == [pytest.approx(began, abs=0.01)]
    assert task.status is Status.CANCELLED
    assert (task.errors, task.result) == ((), None)


async def test_a_task_that_runs_elsewhere_is_stopped_by_its_next_heartbeat(
    store: FaultyStore,
) -> None:
    store.tells_of_changes = False
    work = Work(store, lease=seconds(30))
    other = a_manager(store)
    async with work.manager:
        handle = await other.enqueue("q", "work", 1000)
        await work.ears.wait("before_handle")
        await anyio.sleep(1)
        began = anyio.current_time()
        requested = await other.cancel(handle.id)
        assert requested.status is Status.RUNNING
        assert requested.cancel_requested_at is not None
        assert (await other.cancel(handle.id)).status is Status.RUNNING
        await work.ears.wait("on_cancelled")
    assert 0 < work.stopped[0] - began <= 10.1
    assert (await store.stored(handle.id)).status is Status.CANCELLED


async def test_a_handler_that_finishes_before_it_hears_is_cancelled_all_the_same(
    store: FaultyStore,
) -> None:
    """Nothing of it is recorded but that it was cancelled."""
    work = Work(store, lease=seconds(300))
    other = a_manager(store)
    async with work.manager:
        handle = await other.enqueue("q", "work", 2)
        await work.ears.wait("before_handle")
        await other.cancel(handle.id)
        await work.ears.wait("on_cancelled")
    task = await store.stored(handle.id)
    assert (task.status, task.result) == (Status.CANCELLED, None)
    assert "on_done" not in work.ears.names()


async def test_a_swallowed_cancellation_is_no_success(store: FaultyStore) -> None:
    ears = Ears()
    manager = a_manager(store, hooks=ears.hooks())

    @manager.handler("q", "work")
    async def work(payload: None) -> str:
        try:
            await anyio.sleep(1000)
        except anyio.get_cancelled_exc_class():
            pass
        return "ignored"

    async with manager:
        handle = await manager.enqueue("q", "work")
        await ears.wait("before_handle")
        await anyio.sleep(0.1)
        await manager.cancel(handle.id)
        task = await settled(store, handle.id)
    assert (task.status, task.result) == (Status.CANCELLED, None)


async def test_a_cancelled_task_whose_worker_died_is_reaped_as_cancelled(
    store: FaultyStore,
) -> None:
    work = Work(store, janitor=JanitorConfig(reap_interval=seconds(1)))
    handle = await work.manager.enqueue("q", "work", 1)
    await orphan(store, "q", "work", seconds(5))
    await work.manager.cancel(handle.id)
    async with work.manager:
        task = await settled(store, handle.id)
        await work.ears.wait("on_cancelled")
    assert (task.status, task.errors) == (Status.CANCELLED, ())
    assert "on_claim" not in work.ears.names()


@pytest.mark.parametrize("status", [Status.DONE, Status.DEAD, Status.CANCELLED])
async def test_a_final_task_cannot_be_cancelled(store: FaultyStore, status: Status) -> None:
    work = Work(store)
    handle = await work.manager.enqueue("q", "work", 1)
    store.edit(handle.id, status=status.value)
    with pytest.raises(InvalidStateError, match=f"is {status}: only a pending") as raised:
        await work.manager.cancel(handle.id)
    assert raised.value.status is status


async def test_a_task_that_is_claimed_while_it_is_being_cancelled_is_asked_to_stop(
    store: FaultyStore,
) -> None:
    work = Work(store)
    handle = await work.manager.enqueue("q", "work", 1)

    async def claim_in_between() -> None:
        await orphan(store, "q", "work", seconds(60))

    claims = [claim_in_between]
    transition = store.transition

    async def racing(*arguments: object) -> object:
        while claims:
            await claims.pop()()
        return await transition(*arguments)  # type: ignore[arg-type]

    store.transition = racing  # type: ignore[method-assign, assignment]
    task = await work.manager.cancel(handle.id)
    assert task.status is Status.RUNNING
    assert task.cancel_requested_at is not None


async def test_a_task_that_never_holds_still_is_given_up_on(store: FaultyStore) -> None:
    work = Work(store)
    handle = await work.manager.enqueue("q", "work", 1)

    async def never(*arguments: object) -> None:
        return None

    store.transition = never  # type: ignore[method-assign, assignment]
    with pytest.raises(InvalidStateError, match="keeps changing"):
        await work.manager.cancel(handle.id)


@pytest.mark.parametrize("task_id", ["0" * 24, "zzz", "", None, 5, "../x"])
async def test_an_unknown_id_is_not_found(store: FaultyStore, task_id: object) -> None:
    manager = a_manager(store)
    for operation in (manager.get, manager.cancel, manager.requeue, manager.delete, manager.handle):
        with pytest.raises(TaskNotFoundError):
            await operation(task_id)


async def test_deleting_a_running_task_stops_its_handler(store: FaultyStore) -> None:
    work = Work(store, lease=seconds(3))
    async with work.manager:
        handle = await work.manager.enqueue("q", "work", 1000)
        await work.ears.wait("before_handle")
        await work.manager.delete(str(handle.id))
        await work.ears.wait("on_lease_lost")
        with pytest.raises(TaskNotFoundError):
            await handle.task()
    assert len(work.stopped) == 1
