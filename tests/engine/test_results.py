"""Waiting for what a task results in."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import anyio
import pytest
from pydantic import BaseModel

from gotasks_py import (
    ConfigurationError,
    PayloadError,
    ResultTimeoutError,
    Status,
    TaskCancelledError,
    TaskFailedError,
    TaskNotFoundError,
    TaskType,
)
from gotasks_py.handle import FASTEST_POLL, SLOWEST_POLL
from tests.engine.world import FaultyStore, a_manager, seconds

pytestmark = pytest.mark.anyio


class Receipt(BaseModel):
    number: int


PAY = TaskType("q", "pay", int, Receipt)


async def test_a_result_is_typed_where_the_type_is_known(store: FaultyStore) -> None:
    manager, producer = a_manager(store), a_manager(store)

    @manager.handler(PAY)
    async def pay(payload: int) -> Receipt:
        return Receipt(number=payload)

    async with manager:
        typed = await producer.enqueue(PAY, 5)
        untyped = await producer.enqueue("q", "pay", 5)
        assert await typed.result(timeout=5) == Receipt(number=5)
        assert await untyped.result(timeout=5) == {"number": 5}
        assert await (await manager.handle(untyped.id)).result(timeout=5) == Receipt(number=5)


@pytest.mark.parametrize("result", [None, 0, "", [], {}, {"value": 1}, [None], False])
async def test_any_plain_result_comes_back_equal(store: FaultyStore, result: object) -> None:
    manager = a_manager(store)

    @manager.handler("q", "work")
    async def work(payload: None) -> object:
        return result

    async with manager:
        got = await (await manager.enqueue("q", "work")).result(timeout=5)
    assert got == result
    assert type(got) is type(result)


@pytest.mark.parametrize("timeout", [3, 3.0, timedelta(seconds=3)])
async def test_a_timeout_is_kept_exactly_and_leaves_the_task_alone(
    store: FaultyStore,
    timeout: float | timedelta,  # noqa: ASYNC109  - it is what is tested
) -> None:
    """B30: within 0.2 s."""
    manager = a_manager(store)
    handle = await manager.enqueue("q", "work")
    began = anyio.current_time()
    with pytest.raises(ResultTimeoutError, match="still pending after 3 s") as raised:
        await handle.result(timeout)
    assert anyio.current_time() - began == pytest.approx(3, abs=0.2)
    assert isinstance(raised.value, TimeoutError)
    assert raised.value.status is Status.PENDING
    assert (await store.stored(handle.id)).status is Status.PENDING


async def test_no_time_at_all_asks_once(store: FaultyStore) -> None:
    handle = await a_manager(store).enqueue("q", "work")
    asked = store.calls["get"]
    with pytest.raises(ResultTimeoutError):
        await handle.result(timeout=0)
    assert store.calls["get"] - asked == 1


async def test_the_store_is_asked_no_faster_than_documented(store: FaultyStore) -> None:
    """B30: every 20 ms at first, every 500 ms later."""
    store.tells_of_changes = False
    asked: list[float] = []
    store.before["get"] = lambda task_id: asked.append(anyio.current_time())
    handle = await a_manager(store).enqueue("q", "work")
    with pytest.raises(ResultTimeoutError):
        await handle.result(timeout=60)
    pauses = [after - before for before, after in pairwise(asked)]
    assert min(pauses[:-1]) >= FASTEST_POLL.total_seconds() - 1e-6
    assert max(pauses) <= SLOWEST_POLL.total_seconds() + 1e-6
    assert len(asked) <= 60 / 0.5 + 15


async def test_waiting_for_what_is_deleted_meanwhile_ends(store: FaultyStore) -> None:
    """B30."""
    manager = a_manager(store)
    handle = await manager.enqueue("q", "work")
    errors: list[object] = []

    async def wait() -> None:
        with pytest.raises(TaskNotFoundError) as raised:
            await handle.result()
        errors.append(raised.value.task_id)

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.sleep(5)
        await manager.delete(handle.id)
        await anyio.sleep(0.6)
        assert errors == [handle.id]


async def test_waiting_for_a_dead_or_cancelled_task_ends(store: FaultyStore) -> None:
    """B30: with what its attempts said."""
    manager = a_manager(store, max_attempts=1)

    @manager.handler("q", "work")
    async def work(payload: None) -> None:
        raise ValueError("no luck")

    async with manager:
        handle = await manager.enqueue("q", "work")
        with pytest.raises(TaskFailedError, match="is dead: ValueError: no luck") as raised:
            await handle.result()
        assert [error.message for error in raised.value.errors] == ["no luck"]
        later = await manager.enqueue("q", "foreign")
        await manager.cancel(later.id)
        with pytest.raises(TaskCancelledError):
            await later.result()


async def test_a_handler_must_not_wait_for_ever(store: FaultyStore) -> None:
    """B29: the error says what to do instead; with a timeout nothing is wedged."""
    said: list[str] = []
    manager = a_manager(store, workers=1)

    @manager.handler("q", "child")
    async def child(payload: None) -> str:
        return "child"

    @manager.handler("q", "parent")
    async def parent(payload: None) -> str:
        waiting = await manager.enqueue("q", "child")
        try:
            await waiting.result()
        except ConfigurationError as error:
            said.append(str(error))
        try:
            await waiting.result(timeout=seconds(2))
        except ResultTimeoutError as error:
            said.append(str(error))
        return str(waiting.id)

    async with manager:
        child_id = await (await manager.enqueue("q", "parent")).result(timeout=10)
        assert await (await manager.handle(child_id)).result(timeout=10) == "child"
    assert "give result() a timeout" in said[0]
    assert "still pending after 2 s" in said[1]


async def test_a_stored_result_that_no_longer_fits_says_which_field(store: FaultyStore) -> None:
    manager = a_manager(store)
    handle = await manager.enqueue(PAY, 1)
    store.edit(handle.id, status="done", result={"number": "many"})
    with pytest.raises(PayloadError, match="number"):
        await handle.result(timeout=1)


async def test_a_handle_reads_its_task(store: FaultyStore) -> None:
    manager = a_manager(store)
    handle = await manager.enqueue(PAY, 1)
    assert (await handle.task()).payload == {"value": 1}
    assert (handle.queue, handle.type) == ("q", "pay")
    assert (await manager.get(str(handle.id))).id == handle.id
