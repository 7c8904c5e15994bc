"""Step-downs, servers that freeze or are gone, and streams that die: everything goes on."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio
import pytest
from anyio import to_thread
from pymongo import MongoClient

from gotasks_mongostore import MongoStore
from gotasks_mongostore.local import LocalReplicaSet
from gotasks_py import (
    Enqueue,
    Hooks,
    JanitorConfig,
    Manager,
    PipelineMode,
    QueuePolicy,
    TaskContext,
    TaskEvent,
    TaskHandle,
    TaskPolicy,
)
from gotasks_py.errors import StoreUnavailableError
from tests.lab import HOUR
from tests.mongo.wire import a_wire

pytestmark = [pytest.mark.anyio, pytest.mark.mongo, pytest.mark.timeout(240)]

ONCE = TaskPolicy(max_attempts=1)
OUTAGE_SECONDS = float(os.environ.get("GOTASKS_OUTAGE_SECONDS", "1"))
"""How long a database is away; 30 to see that its length does not matter."""

Restored = Callable[[], object]


@pytest.fixture(scope="module")
def servers() -> Iterator[LocalReplicaSet]:
    """Start a replica set that only these tests hurt."""
    with LocalReplicaSet() as started:
        yield started


@pytest.fixture
async def store(servers: LocalReplicaSet, anyio_backend: object) -> AsyncIterator[MongoStore]:
    servers.primary()
    async with a_store(servers.uri) as made:
        yield made
    with MongoClient[Any](servers.uri) as client:
        client.drop_database("app")


@asynccontextmanager
async def a_store(uri: str) -> AsyncGenerator[MongoStore]:
    store = await MongoStore.connect(uri, database="app")
    yield store
    await store.aclose()


@pytest.fixture
def only_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody find anything by polling, and a stream that is quiet for a second be dead."""
    for name in ("FASTEST_POLL", "SLOWEST_POLL", "SAFETY_POLL"):
        monkeypatch.setattr(f"gotasks_py.handle.{name}", HOUR)
    for name in ("QUIET", "GRACE"):
        monkeypatch.setattr(f"gotasks_mongostore._watch._{name}_SECONDS", 0.5)


@asynccontextmanager
async def a_worker(store: MongoStore) -> AsyncGenerator[Manager]:
    """Run a manager that doubles numbers and has heard of all changes up to now."""
    manager = Manager(store, queues=[QueuePolicy("q")], workers=4, fallback_poll=HOUR)

    @manager.handler("q", "double")
    async def double(number: int) -> int:
        return 2 * number

    async with manager:
        await connected(manager)
        yield manager


async def connected(manager: Manager, *, value: bool = True) -> None:
    with anyio.fail_after(60):
        while manager.health().is_stream_connected is not value:
            await anyio.sleep(0.01)


async def assert_doubled(handle: TaskHandle[Any], number: int) -> None:
    with anyio.fail_after(60):
        assert await handle.result() == 2 * number


async def test_wake_ups_and_waiters_survive_a_step_down(
    servers: LocalReplicaSet, store: MongoStore, only_told: None
) -> None:
    producer = Manager(store, queues=[QueuePolicy("q")])
    async with a_store(servers.uri) as elsewhere, a_worker(elsewhere):
        for number in range(2):
            later = TaskPolicy(delay=timedelta(seconds=1))
            waiting = await producer.enqueue("q", "double", 100 + number, later)
            async with anyio.create_task_group() as group:
                group.start_soon(assert_doubled, waiting, 100 + number)
                await to_thread.run_sync(step_down, servers)
                for each in range(3):
                    await assert_doubled(await enqueued(producer, each), each)


async def enqueued(producer: Manager, number: int) -> TaskHandle[Any]:
    """Enqueue as one does while a primary steps down.

    The server may refuse a write without the label that lets the driver try again; the error
    then says that the outcome is not known.
    """
    with anyio.fail_after(60):
        while True:
            try:
                return await producer.enqueue("q", "double", number)
            except StoreUnavailableError:
                await anyio.sleep(0.05)


def step_down(servers: LocalReplicaSet) -> None:
    with MongoClient[Any](servers.uri) as client:
        client.admin.command("replSetStepDown", 1, secondaryCatchUpPeriodSecs=0, force=True)


async def test_wake_ups_and_waiters_survive_a_server_that_freezes(
    servers: LocalReplicaSet, store: MongoStore, only_told: None
) -> None:
    producer = Manager(store, queues=[QueuePolicy("q")])
    async with a_store(servers.uri) as elsewhere, a_worker(elsewhere) as worker:
        later = TaskPolicy(delay=timedelta(seconds=1))
        waiting = await producer.enqueue("q", "double", 7, later)
        async with anyio.create_task_group() as group:
            group.start_soon(assert_doubled, waiting, 7)
            servers.pause(0)
            try:
                await connected(worker, value=False)
            finally:
                servers.resume(0)
            await assert_doubled(await producer.enqueue("q", "double", 8), 8)
        await connected(worker)


@pytest.mark.parametrize("mode", [None, PipelineMode()], ids=["single", "pipeline"])
async def test_nothing_of_a_manager_is_left_that_stops_while_its_server_is_frozen(
    servers: LocalReplicaSet,
    store: MongoStore,
    mode: PipelineMode | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gotasks_py._engine._LAST_WRITES", timedelta(seconds=0.5))
    manager = Manager(store, queues=[QueuePolicy("q")], workers=4, mode=mode)
    begun = anyio.Event()

    @manager.handler("q", "work")
    async def work(payload: None) -> None:
        begun.set()
        await anyio.sleep(2)

    await manager.start()
    await manager.enqueue("q", "work")
    await begun.wait()
    await to_thread.run_sync(servers.pause, 0)
    try:
        # What the handlers leave is on its way to the server, and so are claims of more.
        with anyio.fail_after(15):
            await manager.stop(timeout=1)
        names = [task.get_name() for task in asyncio.all_tasks()]
    finally:
        await to_thread.run_sync(servers.resume, 0)
    assert not [name for name in names if "gotasks_py manager" in name]


async def test_a_stream_that_dies_quietly_is_noticed_and_replaced(
    servers: LocalReplicaSet, store: MongoStore, only_told: None
) -> None:
    producer = Manager(store, queues=[QueuePolicy("q")])
    async with (
        a_wire(servers.members[0].port) as wire,
        a_store(wire.uri) as far_away,
        a_worker(far_away) as worker,
    ):
        for number in range(2):
            while not wire.cut("getMore"):
                await anyio.sleep(0.01)
            handle = await producer.enqueue("q", "double", number)
            # Waits on the wire as well.
            await assert_doubled(await worker.handle(handle.id), number)


def killed(servers: LocalReplicaSet) -> Restored:
    servers.kill(0)
    return lambda: servers.restart(0)


def frozen(servers: LocalReplicaSet) -> Restored:
    servers.pause(0)
    return lambda: servers.resume(0)


@pytest.mark.parametrize(
    ("outage", "mode", "tasks"),
    [
        pytest.param(killed, None, 150, id="killed-single"),
        pytest.param(killed, PipelineMode(), 1000, id="killed-pipeline"),
        pytest.param(frozen, PipelineMode(), 600, id="frozen-pipeline"),
    ],
)
async def test_an_outage_loses_nothing_and_work_goes_on_after_it(
    servers: LocalReplicaSet,
    store: MongoStore,
    caplog: pytest.LogCaptureFixture,
    outage: Callable[[LocalReplicaSet], Restored],
    mode: PipelineMode | None,
    tasks: int,
) -> None:
    caplog.set_level(logging.INFO, "gotasks_py")
    ran, done = Counter[tuple[int, int]](), Done()
    worker = Manager(
        store,
        queues=[QueuePolicy("q", max_attempts=10)],
        workers=8,
        mode=mode,
        lease=timedelta(seconds=10),
        janitor=JanitorConfig(reap_interval=timedelta(seconds=1)),
        hooks=Hooks(on_done=done.heard),
    )

    @worker.handler("q", "double")
    async def double(ctx: TaskContext, number: int) -> int:
        ran[number, ctx.attempt] += 1
        await anyio.sleep(0.005)
        return 2 * number

    handles = await worker.enqueue_many(
        Enqueue("q", "double", number, ONCE if number % 10 == 0 else None)
        for number in range(tasks)
    )
    async with worker:
        await done.reach(tasks // 10)
        restore = await to_thread.run_sync(outage, servers)
        await anyio.sleep(OUTAGE_SECONDS)
        await to_thread.run_sync(restore)
        back, before = anyio.current_time(), done.number
        await done.reach(before + 1)
        recovered_in = anyio.current_time() - back
        stored = await final(servers, tasks)

    print(f"went on {recovered_in:.1f} s after {OUTAGE_SECONDS:.0f} s; {len(caplog.records)} lines")
    assert recovered_in < 5 or OUTAGE_SECONDS < 30
    assert len(caplog.records) < 40
    assert set(ran.values()) == {1}
    results = {task["_id"]: task.get("result") for task in stored if task["status"] == "done"}
    for number, handle in enumerate(handles):
        # What may run at most once may have been running when its lease ended.
        assert results.get(handle.id) == {"value": 2 * number} or number % 10 == 0


class Done:
    """Counts successes, and lets a test wait for them."""

    def __init__(self) -> None:
        self.number = 0
        self._changed = anyio.Event()

    def heard(self, event: TaskEvent) -> None:
        self.number += 1
        self._changed.set()
        self._changed = anyio.Event()

    async def reach(self, number: int) -> None:
        with anyio.fail_after(100):
            while self.number < number:
                await self._changed.wait()


async def final(servers: LocalReplicaSet, number: int) -> list[dict[str, Any]]:
    """Wait until all tasks are."""
    with MongoClient[Any](servers.uri) as client:
        tasks = client["app"]["tasks"]
        unfinished = {"status": {"$in": ["pending", "running"]}}
        with anyio.fail_after(100):
            while await to_thread.run_sync(tasks.count_documents, unfinished):
                await anyio.sleep(0.1)
        stored = list(tasks.find())
    assert len(stored) == number
    return stored
