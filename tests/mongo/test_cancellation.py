"""Operations that are cancelled, at any moment, and again and again as anyio does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import aclosing, contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeAlias

import anyio
import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient
from pymongo.asynchronous import pool, topology
from pymongo.errors import ServerSelectionTimeoutError
from pymongo.lock import Condition

from gotasks_mongostore import MongoStore
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


async def test_a_client_survives_the_timeouts_of_handlers_that_share_it() -> None:
    async with AsyncMongoClient[Any](NOBODY, serverSelectionTimeoutMS=2000) as client:
        MongoStore(client, database="d")

        async def ask(seconds: float) -> None:
            with suppress(TimeoutError, ServerSelectionTimeoutError):
                async with asyncio.timeout(seconds):
                    await client["d"]["things"].find_one()

        for _ in range(3):
            async with asyncio.TaskGroup() as group:
                for number in range(40):
                    # PyMongo gives up a wait, and begins another, each half second.
                    group.create_task(ask(0.49 + number / 2000))
        with anyio.fail_after(30), pytest.raises(ServerSelectionTimeoutError):
            await client.admin.command("ping")


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
