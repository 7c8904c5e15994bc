"""Operations that are cancelled, again and again, as anyio does until its scope is left."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import aclosing, contextmanager, suppress
from datetime import timedelta
from typing import TypeAlias

import anyio
import pytest
from bson import ObjectId
from pymongo.asynchronous import pool, topology
from pymongo.lock import Condition

from gotasks_mongostore import MongoStore
from gotasks_mongostore._cancellation import Once, cancelled_once
from gotasks_py.errors import StoreUnavailableError

pytestmark = pytest.mark.anyio

CondWait: TypeAlias = Callable[[Condition, float | None], Awaitable[bool]]

# Where PyMongo waits under a lock: if it does that elsewhere one day, this is the place to know.
COND_WAITS: list[CondWait] = [vars(module)["_async_cond_wait"] for module in (pool, topology)]
NOBODY = "mongodb://127.0.0.1:9"


async def test_a_client_survives_cancelled_waits_for_a_server() -> None:
    store = MongoStore(NOBODY, database="d", operation_timeout=timedelta(seconds=1))

    @contextmanager
    def impatient(patience: float) -> Generator[None]:
        # On a machine that stands still for a second the client gives up first.
        with anyio.move_on_after(patience), suppress(StoreUnavailableError):
            yield

    async def ask(patience: float) -> None:
        with impatient(patience):
            await store.get(ObjectId())

    async def ask_for_dead(patience: float) -> None:
        with impatient(patience):
            async with aclosing(store.dead_ids(queue=None, type=None)) as ids:  # type: ignore[type-var]  # a generator
                async for _ in ids:
                    pass

    try:
        for _ in range(3):
            async with anyio.create_task_group() as group:
                for number in range(10):
                    group.start_soon(ask, 0.02 + number / 1000)
                    group.start_soon(ask_for_dead, 0.02 + number / 1000)
        with anyio.fail_after(30), pytest.raises(StoreUnavailableError):
            await store.get(ObjectId())
    finally:
        await store.aclose()


class Unwinding:
    """Takes a few rounds of the event loop to end when it is cancelled."""

    def __init__(self, *, stands_still: float = 0.0) -> None:
        self.cancellations = 0
        self.has_ended = False
        self.stands_still = stands_still

    async def work(self, *, swallowed: bool = False) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancellations += 1
            time.sleep(self.stands_still)  # noqa: ASYNC251  - as a machine does
            await self._unwind()
            if not swallowed:
                raise
        return "ended"

    async def _unwind(self) -> None:
        try:
            for _ in range(3):
                await asyncio.sleep(0)
                await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            self.cancellations += 1
            raise
        self.has_ended = True


async def test_it_ends_in_its_own_time_and_hears_of_one_cancellation() -> None:
    unwinding = Unwinding()
    with anyio.move_on_after(0.01) as scope:
        await Once(unwinding.work())
    assert scope.cancelled_caught
    assert (unwinding.cancellations, unwinding.has_ended) == (1, True)


@pytest.mark.parametrize("after", [False, True])
async def test_while_the_machine_stands_still_no_time_is_lost(*, after: bool) -> None:
    unwinding = Unwinding(stands_still=0.0 if after else 0.6)

    async def freeze() -> None:
        await asyncio.sleep(0.011)
        time.sleep(0.6)  # noqa: ASYNC251  - as a machine does

    scope = anyio.CancelScope(deadline=anyio.current_time() + 0.01)
    async with anyio.create_task_group() as group:
        if after:
            group.start_soon(freeze)
        with scope:
            await Once(unwinding.work())
    assert scope.cancelled_caught
    assert (unwinding.cancellations, unwinding.has_ended) == (1, True)


async def test_what_it_does_with_the_cancellation_counts() -> None:
    unwinding = Unwinding()
    with anyio.move_on_after(0.01) as scope:
        assert await Once(unwinding.work(swallowed=True)) == "ended"
    assert not scope.cancelled_caught


async def test_a_cancellation_that_was_missed_is_followed_by_another() -> None:
    unwinding = Unwinding()

    async def work() -> None:
        await unwinding.work(swallowed=True)
        await unwinding.work()

    with anyio.move_on_after(0.01) as scope:
        await Once(work())
    assert scope.cancelled_caught
    assert unwinding.cancellations == 2


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("cond_wait", COND_WAITS)
async def test_the_driver_waits_for_its_lock_however_often_it_is_cancelled(
    cond_wait: CondWait, *, is_late: bool
) -> None:
    condition = Condition()
    has_lock, has_left = anyio.Event(), anyio.Event()
    scope = anyio.CancelScope()

    async def wait() -> None:
        with scope:
            async with condition:
                has_lock.set()
                await cond_wait(condition, 0.01 if is_late else 60)
        has_left.set()

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await has_lock.wait()
        async with condition:
            await anyio.sleep(0.05)  # by when who is late wants its lock again
            scope.cancel()
            await anyio.sleep(0.05)
            assert not has_left.is_set()
        with anyio.fail_after(5):
            await has_left.wait()

    assert not condition.locked()


@pytest.mark.parametrize("cond_wait", COND_WAITS)
async def test_the_driver_is_told_whether_it_waited_in_vain(cond_wait: CondWait) -> None:
    condition = Condition()

    async def notify() -> None:
        async with condition:
            condition.notify()

    async with anyio.create_task_group() as group, condition:
        assert not await cond_wait(condition, 0.01)
        group.start_soon(notify)
        assert await cond_wait(condition, None)
        assert condition.locked()


async def test_without_a_cancellation_nothing_is_different() -> None:
    async def work(failure: Exception | None) -> int:
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        if failure is not None:
            raise failure
        return 1

    assert await Once(work(None)) == 1
    with pytest.raises(LookupError, match="nobody"):
        await Once(work(LookupError("nobody")))


async def test_it_is_closed_as_any_coroutine() -> None:
    closed = False

    async def work() -> None:
        nonlocal closed
        try:
            await asyncio.sleep(60)
        finally:
            closed = True

    waiting = Once(work()).__await__()
    next(waiting)
    waiting.close()
    assert closed


async def test_a_class_keeps_what_is_not_an_operation() -> None:
    @cancelled_once
    class Store:
        async def get(self) -> int:
            return 1

        async def each(self) -> AsyncIterator[int]:
            yield 1
            yield 2

        def name(self) -> str:
            return "store"

    store = Store()
    assert await store.get() == 1
    assert [number async for number in store.each()] == [1, 2]
    assert store.name() == "store"
