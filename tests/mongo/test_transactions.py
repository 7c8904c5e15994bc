"""The user's own writes, tasks enqueued and the task's success commit together, or not at all."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import anyio
import pytest

from gotasks_memstore import MemStore
from gotasks_mongostore import MongoStore
from gotasks_mongostore.local import LocalReplicaSet
from gotasks_py import (
    ConfigurationError,
    DuplicateTaskError,
    Fixed,
    Hooks,
    LeaseLostError,
    Manager,
    QueuePolicy,
    Status,
    TaskContext,
    TaskEvent,
    TaskNotFoundError,
    TaskPolicy,
)
from tests.conftest import a_client

pytestmark = [pytest.mark.anyio, pytest.mark.mongo]

AT_ONCE = Fixed(timedelta(0))
DATABASE = "gotasks_tests"


@pytest.fixture(params=["mongostore", "mongostore-motor"])
async def client(request: pytest.FixtureRequest, mongodb: str, anyio_backend: object) -> Any:
    async with a_client(request.param, mongodb) as made:
        yield made


@pytest.fixture
async def effects(client: Any, namespace: str) -> Any:
    collection = client[DATABASE][f"{namespace}_effects"]
    # Made beforehand: creating a collection inside a transaction takes longer.
    await collection.insert_one({"_id": "first"})
    await collection.delete_many({})
    yield collection
    await collection.drop()


@pytest.fixture
def manager(client: Any, namespace: str) -> Manager:
    store = MongoStore(client, database=DATABASE, namespace=namespace)
    return Manager(
        store,
        queues=[QueuePolicy("q")],
        workers=4,
        lease=timedelta(milliseconds=900),
        fallback_poll=timedelta(milliseconds=50),
        backoff=AT_ONCE,
    )


async def test_effects_children_and_success_commit_together(manager: Manager, effects: Any) -> None:
    @manager.handler("q", "child")
    async def child(payload: int) -> int:
        return payload

    @manager.handler("q", "book")
    async def book(ctx: TaskContext, payload: int) -> int:
        async with ctx.transaction(result=payload * 2) as session:
            await effects.insert_one({"attempt": ctx.attempt}, session=session)
            await child.enqueue(payload, TaskPolicy(unique_key=f"c{payload}"), session=session)
            if ctx.attempt == 1:
                message = "abort"
                raise ValueError(message)
        return -1

    async with manager:
        handles = [await book.enqueue(number) for number in range(5)]
        results = [await handle.result(10) for handle in handles]
    assert results == [0, 2, 4, 6, 8]
    found = await effects.find({}).to_list(None)
    assert [each["attempt"] for each in found] == [2] * 5
    tasks = [await handle.task() for handle in handles]
    assert [task.attempts for task in tasks] == [2] * 5
    assert [len(task.errors) for task in tasks] == [1] * 5


async def test_a_transaction_longer_than_a_heartbeat_does_not_conflict_with_it(
    manager: Manager, effects: Any
) -> None:
    @manager.handler("q", "slow")
    async def slow(ctx: TaskContext, payload: int) -> None:
        async with ctx.transaction() as session:
            await effects.insert_one({}, session=session)
            # Beats fall due every 300 ms.
            await anyio.sleep(0.7)

    async with manager:
        handle = await slow.enqueue(1)
        await handle.result(10)
    assert (await handle.task()).attempts == 1
    assert await effects.count_documents({}) == 1


async def test_nothing_commits_when_the_lease_is_lost(manager: Manager, effects: Any) -> None:
    lost: list[bool] = []

    @manager.handler("q", "late")
    async def late(ctx: TaskContext, payload: int) -> None:
        try:
            async with ctx.transaction() as session:
                await manager.delete(ctx.id)
                await effects.insert_one({}, session=session)
        except LeaseLostError:
            lost.append(True)
            raise

    async with manager:
        handle = await late.enqueue(1)
        with pytest.raises(TaskNotFoundError):
            await handle.result(10)
    assert lost == [True]
    assert await effects.count_documents({}) == 0


async def test_what_a_handler_raises_after_its_commit_changes_nothing(
    manager: Manager, effects: Any
) -> None:
    @manager.handler("q", "clumsy")
    async def clumsy(ctx: TaskContext, payload: int) -> int:
        async with ctx.transaction(result=1) as session:
            await effects.insert_one({}, session=session)
        message = "too late"
        raise ValueError(message)

    async with manager:
        handle = await clumsy.enqueue(1)
        assert await handle.result(10) == 1
    task = await handle.task()
    assert (task.status, task.attempts, list(task.errors)) == (Status.DONE, 1, [])


async def test_an_outbox_task_exists_only_if_its_transaction_commits(
    manager: Manager, effects: Any
) -> None:
    async def enqueue_and_abort() -> None:
        async with manager.store.transaction() as session:
            await manager.enqueue("q", "t", 1, session=session)
            raise KeyError

    with pytest.raises(KeyError):
        await enqueue_and_abort()
    assert await effects.database[effects.name.removesuffix("_effects")].count_documents({}) == 0
    async with manager.store.transaction() as session:
        await effects.insert_one({}, session=session)
        kept = await manager.enqueue("q", "t", 2, session=session)
    assert (await kept.task()).payload == {"value": 2}
    assert await effects.count_documents({}) == 1


async def test_an_outbox_task_is_not_told_to_hooks(client: Any, namespace: str) -> None:
    told: list[TaskEvent] = []
    store = MongoStore(client, database=DATABASE, namespace=namespace)
    manager = Manager(store, queues=[QueuePolicy("q")], hooks=Hooks(on_enqueue=told.append))
    async with store.transaction() as session:
        await manager.enqueue("q", "t", 1, session=session)
    assert told == []
    await manager.enqueue("q", "t", 1)
    assert len(told) == 1


async def test_a_held_key_is_a_duplicate_inside_a_transaction_too(manager: Manager) -> None:
    once = TaskPolicy(unique_key="k")
    first = await manager.enqueue("q", "t", 1, once)
    with pytest.raises(DuplicateTaskError) as caught:
        async with manager.store.transaction() as session:
            await manager.enqueue("q", "t", 2, once, session=session)
    assert caught.value.existing_id == first.id


async def test_a_session_of_another_client_is_refused(mongodb: str, manager: Manager) -> None:
    other = await MongoStore.connect(mongodb, database=DATABASE, namespace="elsewhere")
    try:
        async with other.transaction() as session:
            with pytest.raises(ConfigurationError):
                await manager.enqueue("q", "t", 1, session=session)
    finally:
        await other.aclose()


async def test_a_standalone_server_has_no_transactions() -> None:
    with LocalReplicaSet(standalone=True) as server:
        store = await MongoStore.connect(server.uri, database=DATABASE)
        with pytest.raises(ConfigurationError, match="replica set"):
            async with store.transaction():
                pass
        await store.aclose()


async def test_memory_has_no_transactions() -> None:
    manager = Manager(MemStore(), queues=[QueuePolicy("q")])
    with pytest.raises(ConfigurationError, match="MongoStore"):
        await manager.enqueue("q", "t", 1, session=object())
    with pytest.raises(ConfigurationError, match="MongoStore"):
        manager.store.transaction()
