"""The change stream of a real server: what it tells, what it survives, what it leaves out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio
import pytest
from anyio import to_thread
from pymongo import AsyncMongoClient, MongoClient
from pymongo.asynchronous.change_stream import AsyncChangeStream

from gotasks_mongostore import MongoStore
from gotasks_py import Manager, QueuePolicy, TaskContext, TaskPolicy, lifecycle
from gotasks_py.errors import TaskCancelledError
from gotasks_py.feed import Claimable, Event, Feed, Gap
from gotasks_py.lifecycle import Failure
from gotasks_py.store import Store
from tests.lab import HOUR, SECOND, Lab, MongoHand, raw_collection, ref_of
from tests.mongo.fail_points import failing_commands

pytestmark = [pytest.mark.anyio, pytest.mark.mongo]

APP = "gotasks-watch"
NEVER = timedelta(hours=1)
HUGE = "x" * (10 * 1024 * 1024)


@pytest.fixture
async def elsewhere(mongo_lab: Lab, mongodb: str) -> AsyncIterator[MongoStore]:
    """Connect to the same tasks over a client of its own, as another process does."""
    hand = mongo_lab.hand
    assert isinstance(hand, MongoHand)
    store = await MongoStore.connect(
        mongodb, database=hand.collection.database.name, namespace=hand.collection.name
    )
    yield store
    await store.aclose()


@asynccontextmanager
async def a_feed(
    store: MongoStore, *, finished: bool = True, position: object = None
) -> AsyncGenerator[Feed]:
    opening = store.watch(finished=finished, position=position)
    assert opening is not None
    async with opening as feed:
        yield feed


async def heard(feed: Feed, until: Callable[[Event], bool]) -> list[Event]:
    """Read a feed up to an event."""
    events: list[Event] = []
    with anyio.fail_after(30):
        while not any(until(event) for event in events):
            events.extend(await feed.next())
    return events


def about(task_id: object) -> Callable[[Event], bool]:
    return lambda event: getattr(event, "id", None) == task_id


def a_manager(store: Store, **settings: Any) -> Manager:
    """Make a manager that finds nothing by polling."""
    chosen: dict[str, Any] = {"workers": 2, "fallback_poll": NEVER} | settings
    return Manager(store, queues=[QueuePolicy("q")], **chosen)


async def connected(manager: Manager) -> None:
    with anyio.fail_after(20):
        while not manager.health().is_stream_connected:
            await anyio.sleep(0.01)


async def test_work_of_another_process_starts_at_once(
    mongo_lab: Lab, elsewhere: MongoStore
) -> None:
    worker, producer = a_manager(mongo_lab.store), a_manager(elsewhere)

    @worker.handler("q", "double")
    async def double(number: int) -> int:
        return 2 * number

    async with worker:
        await connected(worker)
        for number in range(5):
            handle = await producer.enqueue("q", "double", number)
            assert await handle.result(timeout=10) == 2 * number


async def test_work_that_a_thread_without_an_event_loop_enqueues_starts_at_once(
    mongo_lab: Lab, elsewhere: MongoStore
) -> None:
    worker, producer = a_manager(mongo_lab.store), a_manager(elsewhere)

    @worker.handler("q", "double")
    async def double(number: int) -> int:
        return 2 * number

    def view(number: int) -> object:
        return producer.sync.enqueue("q", "double", number).result(timeout=20)

    async with worker:
        await connected(worker)
        for number in range(3):
            assert await to_thread.run_sync(view, number) == 2 * number
    await to_thread.run_sync(producer.sync.close)


async def test_work_that_another_process_puts_off_starts_when_it_is_due(
    mongo_lab: Lab, elsewhere: MongoStore
) -> None:
    worker, producer = a_manager(mongo_lab.store), a_manager(elsewhere)

    @worker.handler("q", "t")
    async def work(payload: None) -> str:
        return "done"

    async with worker:
        await connected(worker)
        handle = await producer.enqueue("q", "t", None, TaskPolicy(delay=SECOND))
        assert await handle.result(timeout=10) == "done"
    task = await handle.task()
    assert task.started_at is not None
    assert task.started_at >= task.run_at


async def test_a_task_that_another_process_cancels_is_stopped_at_once(
    mongo_lab: Lab, elsewhere: MongoStore
) -> None:
    worker, producer = a_manager(mongo_lab.store, lease=HOUR), a_manager(elsewhere)
    started = anyio.Event()

    @worker.handler("q", "t")
    async def work(ctx: TaskContext, payload: None) -> None:
        started.set()
        await anyio.sleep_forever()

    async with worker:
        await connected(worker)
        handle = await producer.enqueue("q", "t")
        with anyio.fail_after(10):
            await started.wait()
            await producer.cancel(handle.id)
            with pytest.raises(TaskCancelledError):
                await handle.result(timeout=10)


async def test_a_feed_tells_each_way_of_becoming_claimable(mongo_lab: Lab) -> None:
    store = mongo_lab.store
    assert isinstance(store, MongoStore)
    failure = Failure(1, "worker", "E", "no")
    async with a_feed(store, finished=False) as feed:
        assert list(await feed.next()) == [Gap()]
        task = await mongo_lab.claimed(priority=1)
        assert task.lease is not None
        await store.settle(ref_of(task), lifecycle.retried(failure, HOUR))
        events = await heard(feed, lambda event: _is_due_later(event, task.created_at + HOUR / 2))
    told = [event for event in events if isinstance(event, Claimable)]
    assert {(event.id, event.queue, event.lane, event.type) for event in told} == {
        (task.id, "q", 0, "t")
    }
    assert told[-1].due_at == (await mongo_lab.get(task.id)).due_at


def _is_due_later(event: Event, moment: Any) -> bool:
    return isinstance(event, Claimable) and event.due_at > moment


async def test_a_huge_document_is_told_of_like_any_other(mongo_lab: Lab) -> None:
    store = mongo_lab.store
    assert isinstance(store, MongoStore)
    async with a_feed(store) as feed:
        await feed.next()
        task = await mongo_lab.claimed(payload={"text": HUGE})
        await store.settle(ref_of(task), lifecycle.released())
        small = await mongo_lab.enqueue(priority=-1)
        events = await heard(feed, about(small))
    assert len([event for event in events if about(task.id)(event)]) >= 1


async def test_a_feed_carries_on_where_another_has_stopped(mongo_lab: Lab) -> None:
    store = mongo_lab.store
    assert isinstance(store, MongoStore)
    async with a_feed(store) as feed:
        await feed.next()
        first = await mongo_lab.enqueue()
        await heard(feed, about(first))
        position = feed.position
    missed = await mongo_lab.enqueue()
    async with a_feed(store, position=position) as feed:
        events = await heard(feed, about(missed))
    assert Gap() not in events
    assert not any(about(first)(event) for event in events)


async def test_how_a_read_ends_that_nobody_waits_for_does_not_matter(
    mongo_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = mongo_lab.store
    assert isinstance(store, MongoStore)
    ended = list[str]()

    async def try_next(stream: AsyncChangeStream[Any]) -> None:
        while stream.alive:
            await anyio.lowlevel.checkpoint()
        ended.append("closed")
        raise AttributeError("'NoneType' object has no attribute 'mark_dirty'")

    monkeypatch.setattr(AsyncChangeStream, "try_next", try_next)
    async with a_feed(store) as feed:
        await feed.next()

    assert ended == ["closed"]


async def test_a_bug_in_a_read_that_somebody_waits_for_is_not_hidden(
    mongo_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = mongo_lab.store
    assert isinstance(store, MongoStore)

    async def try_next(_stream: AsyncChangeStream[Any]) -> None:
        raise AttributeError("a bug")

    async def follow() -> None:
        async with a_feed(store) as feed:
            await feed.next()
            await feed.next()

    monkeypatch.setattr(AsyncChangeStream, "try_next", try_next)
    with pytest.raises(ExceptionGroup) as raised:
        await follow()

    assert raised.group_contains(AttributeError, match="a bug")


@pytest.fixture
async def failing_lab(
    mongodb: str, raw_client: MongoClient[dict[str, Any]], namespace: str
) -> AsyncIterator[Lab]:
    collection = raw_collection(raw_client, namespace)
    async with AsyncMongoClient[Any](mongodb, appname=APP) as client:
        store = MongoStore(client, database=collection.database.name, namespace=namespace)
        await store.open()
        yield Lab(store, MongoHand(collection, store), "mongostore")


LOST_HISTORY = {"errorCode": 286, "errorLabels": ["NonResumableChangeStreamError"]}


@pytest.mark.parametrize("how", [LOST_HISTORY, {"closeConnection": True}, {"errorCode": 43}])
async def test_a_stream_that_breaks_is_opened_again_and_nothing_is_missed(
    failing_lab: Lab, raw_client: MongoClient[dict[str, Any]], how: dict[str, Any]
) -> None:
    worker = a_manager(failing_lab.store)
    ran: list[int] = []

    @worker.handler("q", "t")
    async def work(number: int) -> None:
        ran.append(number)

    async with worker:
        await connected(worker)
        for number in range(3):
            with failing_commands(raw_client, APP, "getMore", **how):
                # Past the client of the worker, which would wake a worker by itself.
                await failing_lab.enqueue(payload={"value": number})
                with anyio.fail_after(20):
                    while len(ran) <= number:
                        await anyio.sleep(0.01)
        await connected(worker)
    assert ran == [0, 1, 2]
