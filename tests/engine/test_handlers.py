"""Every kind of callable through a real run, and every way that one can break."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import anyio
import pytest
from pydantic import BaseModel, validate_call
from typing_extensions import TypedDict

from gotasks_py import (
    Handler,
    HandlerError,
    Status,
    TaskContext,
    TaskFailedError,
    TaskPolicy,
    TaskType,
    UnknownQueueError,
)
from tests.engine.world import Ears, FaultyStore, a_manager, real_time, seconds, settled

pytestmark = pytest.mark.anyio


class Email(BaseModel):
    to: str


class Receipt(BaseModel):
    number: int


@dataclass
class Point:
    x: int
    y: int = 0


class Named(TypedDict):
    name: str


async def run(store: FaultyStore, function: Callable[..., Any], payload: object = None) -> Any:
    """Register a function, and give back what one task of it results in."""
    manager = a_manager(store)
    manager.handler("q", "work")(function)
    async with manager:
        return await (await manager.enqueue("q", "work", payload)).result(timeout=10)


class Service:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    async def method(self, number: int) -> int:
        return number * self.factor

    @classmethod
    async def class_method(cls, number: int) -> int:
        return number + 100

    @staticmethod
    async def static_method(number: int) -> int:
        return number + 200

    async def __call__(self, number: int) -> int:
        return number + self.factor


async def added(number: int, more: int = 5) -> int:
    return number + more


def doing_it_later(number: int) -> Awaitable[int]:
    return added(number)


def wrapped(function: Callable[[int], Awaitable[int]]) -> Callable[[int], Awaitable[int]]:
    @functools.wraps(function)
    def wrapper(number: int) -> Awaitable[int]:
        return function(number + 1000)

    return wrapper


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (added, 6),
        (functools.partial(added, more=7), 8),
        (functools.partial(functools.partial(added), more=9), 10),
        (Service(3).method, 3),
        (Service(3), 4),
        (Service.class_method, 101),
        (Service.static_method, 201),
        (functools.partial(Service(4).method), 4),
        (wrapped(added), 1006),
        (validate_call(added), 6),
        (doing_it_later, 6),
    ],
    ids=[
        "function",
        "partial",
        "nested partial",
        "bound method",
        "callable object",
        "class method",
        "static method",
        "partial of a method",
        "sync wrapper of async",
        "validate_call",
        "returns an awaitable",
    ],
)
@real_time  # a wrapper may be taken for a sync function, which runs in a thread
async def test_the_body_runs_and_its_value_is_the_result(
    store: FaultyStore, function: Callable[..., Any], expected: int
) -> None:
    """B26: nothing is marked a success without having run."""
    assert await run(store, function, 1) == expected


@real_time
@pytest.mark.parametrize("kind", ["function", "lambda", "partial", "method", "object"])
async def test_sync_callables_run_in_a_thread(store: FaultyStore, kind: str) -> None:
    threads: list[threading.Thread] = []

    def note(number: int) -> int:
        threads.append(threading.current_thread())
        return number + 1

    class Worker:
        def method(self, number: int) -> int:
            return note(number)

        def __call__(self, number: int) -> int:
            return note(number)

    functions: dict[str, Callable[..., Any]] = {
        "function": note,
        "lambda": functools.wraps(note)(lambda number: note(number + 0)),
        "partial": functools.partial(note),
        "method": Worker().method,
        "object": Worker(),
    }
    assert await run(store, functions[kind], 1) == 2
    assert threads != [threading.main_thread()]


@real_time
async def test_a_sync_function_that_returns_a_coroutine_is_awaited(store: FaultyStore) -> None:
    """B26."""

    def work(number: int) -> Any:
        return added(number)

    assert await run(store, work, 1) == 6


def generator(payload: int) -> Iterator[int]:
    yield payload


async def async_generator(payload: int) -> AsyncIterator[int]:
    yield payload


@pytest.mark.parametrize("function", [generator, async_generator, functools.partial(generator)])
async def test_generators_are_refused(store: FaultyStore, function: Callable[..., Any]) -> None:
    """B26: their bodies would not run."""
    with pytest.raises(HandlerError, match="generator"):
        a_manager(store).handler("q", "work")(function)


async def test_a_handler_may_leave_out_context_and_payload(store: FaultyStore) -> None:
    async def nothing() -> str:
        return "nothing"

    async def context(ctx: TaskContext) -> str:
        return ctx.task.type

    async def both(ctx: TaskContext, payload: int) -> list[int]:
        return [ctx.attempt, payload]

    assert await run(store, nothing) == "nothing"
    assert await run(store, context) == "work"
    assert await run(store, both, 7) == [1, 7]


async def test_payload_and_result_arrive_as_their_types(store: FaultyStore) -> None:
    class Local(BaseModel):
        emails: list[Email]

    async def models(payload: Local) -> Receipt:
        assert isinstance(payload.emails[0], Email)
        return Receipt(number=len(payload.emails))

    async def points(payload: list[Point]) -> Point:
        return Point(sum(each.x for each in payload))

    async def union(payload: Email | Point) -> str:
        return type(payload).__name__

    async def named(payload: Named) -> Named:
        return {"name": payload["name"] * 2}

    assert await run(store, models, Local(emails=[Email(to="a@b.c")])) == Receipt(number=1)
    assert await run(store, points, [Point(1), Point(2)]) == Point(3)
    assert await run(store, union, Point(1)) == "Point"
    assert await run(store, named, {"name": "ab"}) == {"name": "abab"}


async def test_a_name_that_cannot_be_resolved_is_refused_at_registration(
    store: FaultyStore,
) -> None:
    """B27: never a raw dict at run time."""

    async def work(payload: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(HandlerError, match="'Missing' cannot be found"):
        a_manager(store).handler("q", "work")(work)


async def test_a_type_has_one_handler(store: FaultyStore) -> None:
    manager = a_manager(store)
    manager.handler("q", "work")(added)
    with pytest.raises(HandlerError, match="has a handler for type 'work' already"):
        manager.handler("q", "work")(doing_it_later)


async def test_a_handler_of_an_unknown_queue_is_refused(store: FaultyStore) -> None:
    with pytest.raises(UnknownQueueError, match="'other' is not declared"):
        a_manager(store).handler("other", "work")


async def test_a_handler_that_comes_too_late_is_refused(store: FaultyStore) -> None:
    manager = a_manager(store)
    manager.handler("q", "work")(added)
    async with manager:
        with pytest.raises(HandlerError, match="is running"):
            manager.handler("q", "late")(added)


async def test_a_decorated_function_can_still_be_called(store: FaultyStore) -> None:
    manager = a_manager(store)
    handler = manager.handler("q", "work")(added)
    assert isinstance(handler, Handler)
    assert await handler(1, more=2) == 3
    async with manager:
        assert await (await handler.enqueue(1)).result(timeout=10) == 6


async def test_a_task_type_ties_producer_and_handler(store: FaultyStore) -> None:
    send = TaskType("q", "send", Email, Receipt)
    manager, producer = a_manager(store), a_manager(store)

    @manager.handler(send)
    async def handle(payload: Email) -> Receipt:
        return Receipt(number=len(payload.to))

    async with manager:
        handle_of_it = await producer.enqueue(send, Email(to="abc"))
        assert await handle_of_it.result(timeout=10) == Receipt(number=3)


class OwnInterrupt(BaseException):
    pass


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


class KeywordedError(Exception):
    def __init__(self, first: object, *, second: object) -> None:
        super().__init__(first)
        self.second = second


def cyclic() -> Exception:
    error, cause = ValueError("round"), ValueError("and round")
    error.__cause__, cause.__cause__ = cause, error
    return error


BREAKING = [
    asyncio.CancelledError(),
    SystemExit(3),
    KeyboardInterrupt(),
    BaseExceptionGroup("several", [KeyboardInterrupt(), ValueError()]),
    ExceptionGroup("three", [ValueError(1), ValueError(2), KeyError(3)]),
    OwnInterrupt(),
    GeneratorExit(),
    StopIteration(5),
    StopAsyncIteration(),
    UnprintableError(),
    KeywordedError(lambda: None, second=threading.Lock()),
    cyclic(),
]


@pytest.mark.parametrize("error", BREAKING, ids=lambda error: type(error).__name__)
async def test_whatever_an_async_handler_raises_is_a_failed_attempt(
    store: FaultyStore, error: BaseException
) -> None:
    """B15, B17: recorded under its name; the worker takes the next task at once."""
    manager = a_manager(store, workers=1, max_attempts=1)

    @manager.handler("q", "breaks")
    async def breaks(payload: None) -> None:
        raise error

    @manager.handler("q", "works")
    async def works(payload: None) -> str:
        return "alive"

    async with manager:
        broken = await manager.enqueue("q", "breaks")
        works_on = await manager.enqueue("q", "works")
        assert await works_on.result(timeout=1) == "alive"
        task = await settled(store, broken.id)
        assert manager.health().reasons == []
    assert task.status is Status.DEAD
    # A coroutine cannot raise StopIteration; Python makes a RuntimeError of it.
    expected = "RuntimeError" if isinstance(error, StopIteration) else type(error).__name__
    assert [entry.kind for entry in task.errors] == [expected]
    assert isinstance(task.errors[0].message, str)


@real_time
@pytest.mark.parametrize("error", BREAKING, ids=lambda error: type(error).__name__)
async def test_whatever_a_sync_handler_raises_is_a_failed_attempt(
    store: FaultyStore, error: BaseException
) -> None:
    """B15, B17."""
    manager = a_manager(store, workers=1, max_attempts=1)

    @manager.handler("q", "breaks")
    def breaks(payload: None) -> None:
        raise error

    @manager.handler("q", "works")
    def works(payload: None) -> str:
        return "alive"

    async with manager:
        broken = await manager.enqueue("q", "breaks")
        works_on = await manager.enqueue("q", "works")
        assert await works_on.result(timeout=2) == "alive"
    task = await store.stored(broken.id)
    assert task.status is Status.DEAD
    expected = "RuntimeError" if isinstance(error, StopIteration) else type(error).__name__
    assert [entry.kind for entry in task.errors] == [expected]


async def test_an_unprintable_error_gets_a_text(store: FaultyStore) -> None:
    """B17."""

    async def work() -> None:
        raise UnprintableError

    with pytest.raises(TaskFailedError):
        await run_once(store, work)
    ((_, error),) = store_errors(store)
    assert error.message == "<UnprintableError that cannot be printed>"
    assert "raise UnprintableError" in (error.traceback or "")


async def run_once(store: FaultyStore, function: Callable[..., Any]) -> Any:
    manager = a_manager(store, max_attempts=1)
    manager.handler("q", "work")(function)
    async with manager:
        return await (await manager.enqueue("q", "work")).result(timeout=10)


def store_errors(store: FaultyStore) -> list[tuple[Any, Any]]:
    return [(task.id, error) for task in store.all_tasks() for error in task.errors]


@pytest.mark.parametrize(
    ("spoil", "path"),
    [
        (lambda store, task_id: store.edit(task_id, payload={"to": 5}), "to"),
        (lambda store, task_id: store.edit(task_id, payload="text"), ""),
        (lambda store, task_id: store.edit(task_id, payload=[1, 2]), ""),
        (lambda store, task_id: store.edit(task_id, payload=None), ""),
        (lambda store, task_id: store.drop_field(task_id, "payload"), ""),
    ],
    ids=["wrong field", "text", "list", "null", "missing"],
)
async def test_a_poison_payload_fails_its_own_task_only(
    store: FaultyStore, spoil: Callable[[FaultyStore, Any], None], path: str
) -> None:
    """B20: the error names the field, the payload stays as it is, the next task runs."""
    manager = a_manager(store, workers=1)

    @manager.handler("q", "send")
    async def send(payload: Email) -> str:
        return payload.to

    poisoned = await manager.enqueue("q", "send", Email(to="a"))
    good = await manager.enqueue("q", "send", Email(to="b"))
    spoil(store, poisoned.id)
    before = (await store.stored(poisoned.id)).payload
    async with manager:
        assert await good.result(timeout=1) == "b"
        task = await settled(store, poisoned.id)
    assert task.status is Status.DEAD
    assert [error.kind for error in task.errors] == ["invalid_payload"] * 3
    assert path in task.errors[0].message
    assert task.payload == before


async def test_a_poison_document_does_not_stop_its_queue(store: FaultyStore) -> None:
    """B20: fields of the wrong kind, and fields that nobody knows."""
    manager = a_manager(store, workers=1)

    @manager.handler("q", "work")
    async def work(number: int) -> int:
        return number

    odd = await manager.enqueue("q", "work", 1)
    store.edit(
        odd.id,
        attempts="many",
        max_attempts=None,
        errors="none",
        tags={"a": 1},
        timeout_ms="soon",
        backoff={"kind": "linear", "base_ms": "x"},
        unknown={"a": object},
        created_at="yesterday",
        interruptions=None,
    )
    good = await manager.enqueue("q", "work", 2)
    async with manager:
        assert await good.result(timeout=5) == 2
        assert (await settled(store, odd.id)).status.is_final


async def test_a_payload_that_fits_again_runs_after_a_requeue(store: FaultyStore) -> None:
    manager = a_manager(store, max_attempts=1)

    @manager.handler("q", "send")
    async def send(payload: Email) -> str:
        return payload.to

    handle = await manager.enqueue("q", "send", Email(to="a"))
    store.edit(handle.id, payload={"recipient": "a"})
    async with manager:
        await settled(store, handle.id)
        store.edit(handle.id, payload={"to": "mended"})
        await manager.requeue(handle.id)
        assert await handle.result(timeout=5) == "mended"


async def test_a_result_that_cannot_be_stored_is_a_dead_letter_at_once(
    store: FaultyStore,
) -> None:
    """Its effects happened, so it is not run again."""
    runs: list[int] = []
    manager = a_manager(store)

    @manager.handler("q", "work")
    async def work(payload: None) -> Any:
        runs.append(1)
        return object()

    @manager.handler("q", "typed")
    async def typed(payload: None) -> int:
        runs.append(1)
        return "no number"  # type: ignore[return-value]  # pyright: ignore[reportReturnType]

    async with manager:
        for name in ("work", "typed"):
            task = await settled(store, (await manager.enqueue("q", name)).id)
            assert task.status is Status.DEAD
            assert [error.kind for error in task.errors] == ["unstorable_result"]
    assert len(runs) == 2


async def test_a_result_that_is_too_large_is_a_dead_letter(store: FaultyStore) -> None:
    manager = a_manager(store, result_limit=1000)

    @manager.handler("q", "work")
    async def work(payload: None) -> str:
        return "x" * 2000

    async with manager:
        task = await settled(store, (await manager.enqueue("q", "work")).id)
    assert task.status is Status.DEAD
    assert "the limit is 1000" in task.errors[0].message


async def test_the_payload_is_the_same_for_every_attempt(store: FaultyStore) -> None:
    """B36: neither the producer's object nor a handler's is shared."""
    seen: list[dict[str, list[int]]] = []
    manager = a_manager(store)

    @manager.handler("q", "work")
    async def work(ctx: TaskContext, payload: dict[str, list[int]]) -> None:
        seen.append({key: list(value) for key, value in payload.items()})
        payload["list"].append(99)
        payload.clear()
        if not ctx.is_last_attempt:
            raise ValueError

    mine = {"list": [1]}
    handle = await manager.enqueue("q", "work", mine)
    mine["list"].append(2)
    async with manager:
        await handle.result(timeout=60)
    assert seen == [{"list": [1]}] * 3
    assert (await store.stored(handle.id)).payload == {"list": [1]}


VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


@real_time
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_context_variables_reach_the_handler_and_do_not_leak(
    store: FaultyStore, kind: str
) -> None:
    """B25: each attempt has its own; the next on the same worker starts clean."""
    seen: list[tuple[str, str]] = []
    at_start: list[str] = []

    async def middleware(ctx: TaskContext, call_next: Callable[[], Awaitable[object]]) -> object:
        at_start.append(VARIABLE.get())
        VARIABLE.set(str(ctx.id))
        return await call_next()

    manager = a_manager(store, middleware=[middleware], workers=2)

    def sync(ctx: TaskContext, payload: None) -> None:
        seen.append((str(ctx.id), VARIABLE.get()))
        VARIABLE.set("leaked by a handler")

    async def work(ctx: TaskContext, payload: None) -> None:
        await anyio.sleep(0.01)
        sync(ctx, payload)

    manager.handler("q", "work")(sync if kind == "sync" else work)
    async with manager:
        for handle in [await manager.enqueue("q", "work") for _ in range(6)]:
            await handle.result(timeout=10)
    assert all(task_id == value for task_id, value in seen)
    assert len({value for _, value in seen}) == 6
    assert at_start == ["unset"] * 6


class Heavy:
    alive: ClassVar[weakref.WeakSet[Heavy]] = weakref.WeakSet()

    def __init__(self) -> None:
        self.data = bytearray(1000)
        Heavy.alive.add(self)


@real_time
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_failures_keep_nothing_alive(store: FaultyStore, kind: str) -> None:
    """B28: of 200 failures that held an object each, no more live on than there are workers."""
    manager = a_manager(store, max_attempts=1)

    def fail(payload: int) -> None:
        heavy = Heavy()
        raise ValueError(heavy.data[0])

    async def fail_async(payload: int) -> None:
        fail(payload)

    manager.handler("q", "work")(fail if kind == "sync" else fail_async)
    async with manager:
        for handle in [await manager.enqueue("q", "work", n) for n in range(200)]:
            await settled(store, handle.id)
        await anyio.sleep(0.1)
        assert len(Heavy.alive) <= 2 + 2
        assert manager.health().running_tasks == 0
    gc.collect()


async def test_the_context_tells_about_the_task(store: FaultyStore) -> None:
    told: list[Any] = []
    manager = a_manager(store, hooks=(ears := Ears()).hooks())

    @manager.handler("q", "work")
    async def work(ctx: TaskContext, payload: int) -> None:
        told.extend([ctx.id, ctx.attempt, ctx.task.tags, dict(ctx.task.metadata)])
        told.extend([ctx.is_last_attempt, ctx.is_stopping, len(ctx.lease.token)])
        assert ctx.lease.due_at is not None
        assert ctx.lease.until > ctx.lease.due_at

    async with manager:
        policy = TaskPolicy(tags=["a"], metadata={"k": [1]}, max_attempts=1, delay=seconds(1))
        handle = await manager.enqueue("q", "work", 1, policy)
        await handle.result(timeout=10)
        await ears.wait("on_done")
    assert told == [handle.id, 1, ("a",), {"k": [1]}, True, False, 32]


async def test_a_store_without_transactions_says_so(store: FaultyStore) -> None:
    manager = a_manager(store, max_attempts=1)

    @manager.handler("q", "work")
    async def work(ctx: TaskContext, payload: None) -> None:
        async with ctx.transaction():
            pass

    async with manager:
        task = await settled(store, (await manager.enqueue("q", "work")).id)
    assert [error.kind for error in task.errors] == ["ConfigurationError"]
    assert "no transactions" in task.errors[0].message


async def test_a_manager_tells_its_queues_and_the_types_that_it_handles(store: FaultyStore) -> None:
    manager = a_manager(store)
    later = TaskType("q", "z", Email, Receipt)

    @manager.handler(later)
    async def _(payload: Email) -> Receipt:
        return Receipt(number=len(payload.to))

    @manager.handler("q", "a")
    def _(payload: Point) -> int:
        return payload.x

    assert list(manager.queues) == ["q"]
    assert [each.name for each in manager.task_types] == ["a", "z"]
    assert manager.task_types[1] is later
