"""Middleware wraps the execution of a handler."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import pytest

from gotasks_py import Middleware, Snooze, Status, TaskContext
from tests.engine.world import FaultyStore, a_manager, real_time, seconds, settled

pytestmark = pytest.mark.anyio

Next = Callable[[], Awaitable[object]]


async def outcome(
    store: FaultyStore, *middleware: Middleware, result: object = 1
) -> tuple[Status, list[str], object]:
    manager = a_manager(store, middleware=middleware, max_attempts=1)

    @manager.handler("q", "work")
    async def work(payload: None) -> object:
        return result

    async with manager:
        task = await settled(store, (await manager.enqueue("q", "work")).id)
        good = a_manager(store)
        assert good.health().reasons == ["the manager is not running"]
        assert manager.health().ok
    return task.status, [error.kind for error in task.errors], task.result


async def test_the_first_middleware_is_outermost(store: FaultyStore) -> None:
    order: list[str] = []

    def named(name: str) -> Middleware:
        async def middleware(ctx: TaskContext, call_next: Next) -> object:
            order.append(f"{name} in")
            result = await call_next()
            order.append(f"{name} out")
            return result

        return middleware

    status, _, _ = await outcome(store, named("first"), named("second"))
    assert status is Status.DONE
    assert order == ["first in", "second in", "second out", "first out"]


async def test_a_middleware_may_change_the_result(store: FaultyStore) -> None:
    async def double(ctx: TaskContext, call_next: Next) -> object:
        result = await call_next()
        assert isinstance(result, int)
        return result * 2

    assert await outcome(store, double, double) == (Status.DONE, [], {"value": 4})


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize(
    "error",
    [LookupError(), asyncio.CancelledError(), SystemExit(1)],
    ids=lambda error: type(error).__name__,
)
async def test_a_middleware_that_raises_fails_the_attempt(
    store: FaultyStore, where: str, error: BaseException
) -> None:
    """B23: before and after the handler."""

    async def middleware(ctx: TaskContext, call_next: Next) -> object:
        if where == "before":
            raise error
        await call_next()
        raise error

    assert await outcome(store, middleware) == (Status.DEAD, [type(error).__name__], None)


async def test_a_middleware_may_steer(store: FaultyStore) -> None:
    seen: list[int] = []

    async def once_later(ctx: TaskContext, call_next: Next) -> object:
        seen.append(ctx.attempt)
        if len(seen) == 1:
            raise Snooze(seconds(30))
        return await call_next()

    assert (await outcome(store, once_later))[0] is Status.DONE
    assert seen == [1, 1]


async def test_a_middleware_may_swallow_a_failure(store: FaultyStore) -> None:
    async def swallow(ctx: TaskContext, call_next: Next) -> object:
        try:
            await call_next()
        except ZeroDivisionError:
            return "swallowed"
        return "nothing"

    async def fail(ctx: TaskContext, call_next: Next) -> object:
        raise ZeroDivisionError

    assert await outcome(store, swallow, fail) == (Status.DONE, [], {"value": "swallowed"})


async def test_the_timeout_covers_the_middleware(store: FaultyStore) -> None:
    async def slow(ctx: TaskContext, call_next: Next) -> object:
        await anyio.sleep(100)
        return await call_next()

    manager = a_manager(store, middleware=[slow], timeout=seconds(1), max_attempts=1)

    @manager.handler("q", "work")
    async def work(payload: None) -> None: ...

    async with manager:
        task = await settled(store, (await manager.enqueue("q", "work")).id)
    assert [error.kind for error in task.errors] == ["timeout"]


@real_time
async def test_middleware_wraps_sync_handlers_too(store: FaultyStore) -> None:
    async def add(ctx: TaskContext, call_next: Next) -> object:
        result = await call_next()
        assert isinstance(result, int)
        return result + 1

    manager = a_manager(store, middleware=[add])

    @manager.handler("q", "work")
    def work(payload: int) -> int:
        return payload

    async with manager:
        assert await (await manager.enqueue("q", "work", 1)).result(timeout=5) == 2
