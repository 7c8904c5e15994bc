"""Attempts that take too long."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import pytest

from gotasks_py import QueuePolicy, Status, TaskContext, TaskPolicy
from tests.engine.world import Ears, FaultyStore, a_manager, real_time, seconds, settled

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("task", "kind", "queue", "manager", "expected"),
    [
        (1, 2, 3, 4, 1),
        (None, 2, 3, 4, 2),
        (None, None, 3, 4, 3),
        (None, None, None, 4, 4),
        (None, None, None, None, 50),
    ],
)
async def test_the_nearest_timeout_applies(
    store: FaultyStore,
    task: float | None,
    kind: float | None,
    queue: float | None,
    manager: float | None,
    expected: float,
) -> None:
    def span(number: float | None) -> Any:
        return None if number is None else seconds(number)

    made = a_manager(
        store, QueuePolicy("q", timeout=span(queue)), timeout=span(manager), max_attempts=1
    )
    lasted: list[float] = []

    @made.handler("q", "work", timeout=span(kind))
    async def work(payload: None) -> None:
        began = anyio.current_time()
        try:
            await anyio.sleep(50)
        finally:
            lasted.append(anyio.current_time() - began)

    async with made:
        handle = await made.enqueue("q", "work", None, TaskPolicy(timeout=span(task)))
        done = await settled(store, handle.id)
    assert lasted == [pytest.approx(expected, abs=0.01)]
    assert (done.status is Status.DONE) == (expected == 50)
    assert [error.kind for error in done.errors] == ["timeout"] * (expected != 50)


async def test_a_swallowed_cancellation_is_a_timeout_all_the_same(store: FaultyStore) -> None:
    """B21: the deadline wins over what the handler returns after it."""
    manager = a_manager(store, max_attempts=1, timeout=seconds(0.2), workers=1)

    @manager.handler("q", "swallows")
    async def swallows(payload: None) -> str:
        try:
            await anyio.sleep(100)
        except anyio.get_cancelled_exc_class():
            return "ok"
        return "never"

    @manager.handler("q", "raises")
    async def raises(payload: None) -> str:
        try:
            await anyio.sleep(100)
        finally:
            raise ValueError

    async with manager:
        for name in ("swallows", "raises"):
            task = await settled(store, (await manager.enqueue("q", name)).id)
            assert task.status is Status.DEAD
            assert [error.kind for error in task.errors] == ["timeout"]
            assert task.result is None


async def test_a_timeout_is_retried_as_an_exception_is(store: FaultyStore) -> None:
    manager = a_manager(store, timeout=seconds(1))
    policies: dict[str, Any] = {
        "kept": {},
        "listed": {"retry_on": [TimeoutError]},
        "unlisted": {"retry_on": [ValueError]},
        "given_up": {"give_up_on": [TimeoutError]},
    }

    async def work(ctx: TaskContext, payload: None) -> None:
        await anyio.sleep(5 if ctx.attempt == 1 else 0)

    for name, policy in policies.items():
        manager.handler("q", name, **policy)(work)
    async with manager:
        statuses = {
            name: (await settled(store, (await manager.enqueue("q", name)).id)).status
            for name in policies
        }
    assert statuses == {
        "kept": Status.DONE,
        "listed": Status.DONE,
        "unlisted": Status.DEAD,
        "given_up": Status.DEAD,
    }


async def test_a_handlers_own_timeout_error_is_its_failure(store: FaultyStore) -> None:
    manager = a_manager(store, max_attempts=1, timeout=seconds(10))

    @manager.handler("q", "work")
    async def work(payload: None) -> None:
        with anyio.fail_after(1):
            await anyio.sleep(5)

    async with manager:
        task = await settled(store, (await manager.enqueue("q", "work")).id)
    assert [error.kind for error in task.errors] == ["TimeoutError"]


@real_time
async def test_a_sync_handler_that_overruns_keeps_a_thread_but_no_worker(
    store: FaultyStore,
) -> None:
    """B22: good tasks go on, and the late return is refused."""
    release = threading.Event()
    returned = threading.Semaphore(0)
    ears = Ears()
    manager = a_manager(store, workers=2, max_attempts=1, lease=seconds(3), hooks=ears.hooks())

    @manager.handler("q", "stuck", timeout=seconds(0.1))
    def stuck(payload: None) -> str:
        release.wait(10)
        returned.release()
        return "too late"

    @manager.handler("q", "good")
    def good(number: int) -> int:
        return number

    async with manager:
        bad = [await manager.enqueue("q", "stuck") for _ in range(4)]
        for handle in bad:
            task = await settled(store, handle.id)
            assert [error.kind for error in task.errors] == ["timeout"]
        for handle in [await manager.enqueue("q", "good", n) for n in range(5)]:
            await handle.result(timeout=5)
        await ears.wait("on_done", 5)
        release.set()
        for _ in bad:
            await anyio.to_thread.run_sync(returned.acquire)
        await anyio.sleep(0.05)
        assert {(await store.stored(handle.id)).status for handle in bad} == {Status.DEAD}
    assert len(ears.of("on_dead")) == 4


@real_time
async def test_a_sync_handler_sees_that_it_should_stop(store: FaultyStore) -> None:
    seen = threading.Event()
    manager = a_manager(store, max_attempts=1)

    @manager.handler("q", "work", timeout=seconds(0.1))
    def work(ctx: TaskContext, payload: None) -> None:
        pause = threading.Event()
        while not ctx.is_stopping:
            pause.wait(0.005)
        seen.set()

    async with manager:
        await settled(store, (await manager.enqueue("q", "work")).id)
        assert await anyio.to_thread.run_sync(seen.wait, 5)
