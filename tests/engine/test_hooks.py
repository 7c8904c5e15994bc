"""Hooks watch, and can change and break nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from gotasks_py import (
    ConfigurationError,
    Hooks,
    Reject,
    Retry,
    Snooze,
    Status,
    TaskContext,
    TaskEvent,
    TaskId,
    TaskPolicy,
)
from tests.engine.world import Ears, FaultyStore, a_manager, orphan, seconds, settled

pytestmark = pytest.mark.anyio

BEFORE = ["on_claim", "before_handle"]


def after_enqueue(ears: Ears, task_id: TaskId) -> list[str]:
    """Tell the hooks of a task; a worker may hear of it before who enqueued it does."""
    names = ears.names(task_id)
    names.remove("on_enqueue")
    return names


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, ["after_handle", "on_done"]),
        (ValueError(), ["after_handle", "before_retry"]),
        (Retry(delay=seconds(1000)), ["after_handle", "before_retry"]),
        (Snooze(seconds(1000)), ["after_handle"]),
        (Reject("no"), ["after_handle", "on_dead"]),
    ],
    ids=["done", "failed", "retry", "snooze", "reject"],
)
async def test_hooks_tell_the_life_of_a_task_in_order(
    store: FaultyStore, error: Exception | None, expected: list[str]
) -> None:
    ears = Ears()
    manager = a_manager(store, hooks=ears.hooks())

    @manager.handler("q", "work")
    async def work(payload: None) -> str:
        await anyio.sleep(2)
        if error is not None:
            raise error
        return "result"

    async with manager:
        handle = await manager.enqueue("q", "work")
        await ears.wait("after_handle")
    assert after_enqueue(ears, handle.id) == [*BEFORE, *expected]
    assert {event.task.id for _, event in ears.events} == {handle.id}
    last = ears.events[-1][1]
    assert last.duration == seconds(2)
    assert last.result == ("result" if error is None else None)
    assert last.error is (None if isinstance(error, Snooze) else error)


async def test_a_task_whose_payload_cannot_be_read_is_never_handled(store: FaultyStore) -> None:
    ears = Ears()
    manager = a_manager(store, hooks=ears.hooks(), max_attempts=1)

    @manager.handler("q", "work")
    async def work(payload: int) -> None: ...

    handle = await manager.enqueue("q", "work", 1)
    store.edit(handle.id, payload={"value": "x"})
    async with manager:
        event = await ears.wait("on_dead")
    assert ears.names() == ["on_enqueue", "on_claim", "on_dead"]
    assert event.duration is None


@pytest.mark.parametrize(
    "error",
    [ValueError(), KeyboardInterrupt(), SystemExit(1), asyncio.CancelledError(), GeneratorExit()],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_hook_that_raises_changes_nothing(
    store: FaultyStore, error: BaseException, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """B23: whatever it raises, and wherever."""

    def sync(event: TaskEvent) -> None:
        raise error

    async def later(event: TaskEvent) -> None:
        await anyio.lowlevel.checkpoint()
        raise error

    hook: Any = sync if kind == "sync" else later
    ears = Ears()
    names = list(Hooks.__dataclass_fields__)
    manager = a_manager(
        store, hooks=[Hooks(**dict.fromkeys(names, hook)), ears.hooks()], max_attempts=1
    )

    @manager.handler("q", "work")
    async def work(number: int) -> str:
        if number:
            raise LookupError
        return "fine"

    async with manager:
        fine = await manager.enqueue("q", "work", 0)
        failed = await manager.enqueue("q", "work", 1)
        assert await fine.result(timeout=5) == "fine"
        task = await settled(store, failed.id)
        await ears.wait("on_dead")
        assert manager.health().ok
    assert [entry.kind for entry in task.errors] == ["LookupError"]
    logged = [record for record in caplog.records if record.name == "gotasks_py.hooks"]
    assert len(logged) == len(ears.events)


async def test_a_hook_that_takes_too_long_is_stopped_and_its_lease_is_kept(
    store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    """B23: a hook slower than the lease loses no task."""

    async def slow(event: TaskEvent) -> None:
        await anyio.sleep(1000)

    manager = a_manager(store, lease=seconds(3), hooks=Hooks(on_claim=slow))

    @manager.handler("q", "work")
    async def work(ctx: TaskContext, payload: None) -> int:
        return ctx.attempt

    async with manager:
        handle = await manager.enqueue("q", "work")
        assert await handle.result(timeout=60) == 1
    assert "hook on_claim took over" in caplog.text


async def test_hooks_fire_after_the_write_and_never_for_a_refused_one(store: FaultyStore) -> None:
    seen: list[Status] = []

    async def look(event: TaskEvent) -> None:
        seen.append((await store.stored(event.task.id)).status)

    ears = Ears()
    hooks = [Hooks(on_done=look, on_dead=look, before_retry=look), ears.hooks()]
    manager = a_manager(store, hooks=hooks, heartbeat=False)

    @manager.handler("q", "done")
    async def done(payload: None) -> None: ...

    @manager.handler("q", "retry")
    async def retry(payload: None) -> None:
        raise ValueError

    @manager.handler("q", "dead")
    async def dead(payload: None) -> None:
        raise Reject("no")

    @manager.handler("q", "lost")
    async def lost(ctx: TaskContext, payload: None) -> None:
        await manager.delete(ctx.id)

    async with manager:
        for name, hook in {"done": "on_done", "retry": "before_retry", "dead": "on_dead"}.items():
            await manager.enqueue("q", name)
            await ears.wait(hook)
        gone = await manager.enqueue("q", "lost")
        await ears.wait("on_lease_lost")
    assert seen == [Status.DONE, Status.PENDING, Status.DEAD]
    assert after_enqueue(ears, gone.id) == [*BEFORE, "on_lease_lost"]


async def test_no_hook_tells_of_an_enqueue_that_failed(store: FaultyStore) -> None:
    ears = Ears()
    manager = a_manager(store, hooks=ears.hooks())
    policy = TaskPolicy(unique_key="k")
    await manager.enqueue("q", "work", 1, policy)
    again = await manager.enqueue("q", "work", 1, policy, on_conflict="return")
    assert ears.names() == ["on_enqueue"]
    assert ears.events[0][1].task.id == again.id


async def test_the_janitor_tells_hooks_what_it_found(store: FaultyStore) -> None:
    ears = Ears()
    manager = a_manager(store, hooks=ears.hooks())

    @manager.handler("q", "work")
    async def work(payload: None) -> None: ...

    handle = await manager.enqueue("q", "work", None, TaskPolicy(max_attempts=1))
    await orphan(store, "q", "work", seconds(1))
    async with manager:
        event = await ears.wait("on_dead")
    assert event.task.id == handle.id
    assert event.task.status is Status.DEAD


@pytest.mark.parametrize("hook", ["text", 5, object()])
def test_a_hook_that_is_no_function_is_refused(hook: Any) -> None:
    with pytest.raises(ConfigurationError, match="hook on_done must be a function"):
        Hooks(on_done=hook)


def test_every_hook_is_documented() -> None:
    documentation = Hooks.__doc__ or ""
    names = list(Hooks.__dataclass_fields__)
    assert [name for name in names if f"{name}: " not in documentation] == []
    makers: dict[str, Callable[[TaskEvent], None]] = {name: lambda event: None for name in names}
    assert Hooks(**makers).on_done is makers["on_done"]
