"""What follows when an attempt fails."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import Any

import anyio
import pytest

from gotasks_py import (
    Backoff,
    Exponential,
    Fibonacci,
    Fixed,
    Linear,
    QueuePolicy,
    Reject,
    Retry,
    Snooze,
    Status,
    TaskContext,
    TaskFailedError,
    TaskPolicy,
)
from gotasks_py.lifecycle import MAX_ERRORS
from tests.engine.world import (
    Ears,
    FaultyStore,
    a_manager,
    is_pending,
    orphan,
    reached,
    seconds,
    settled,
)

pytestmark = pytest.mark.anyio


class NotTodayError(Exception):
    pass


class NeverError(NotTodayError):
    pass


async def gaps_of(
    store: FaultyStore, backoff: Backoff | None, attempts: int, **settings: Any
) -> list[float]:
    """Fail every attempt but the last, and tell the seconds between their starts."""
    starts: list[float] = []
    manager = a_manager(store, **settings)

    @manager.handler("q", "work", backoff=backoff)
    async def work(ctx: TaskContext, payload: None) -> None:
        starts.append(anyio.current_time())
        if not ctx.is_last_attempt:
            raise NotTodayError

    async with manager:
        handle = await manager.enqueue("q", "work", None, TaskPolicy(max_attempts=attempts))
        await handle.result(timeout=1e6)
    return [after - before for before, after in pairwise(starts)]


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (Fixed(seconds(7), jitter=0), [7, 7, 7, 7]),
        (Linear(seconds(5), jitter=0), [5, 10, 15, 20]),
        (Exponential(seconds(2), cap=seconds(12), jitter=0), [2, 4, 8, 12]),
        (Exponential(seconds(1), factor=3, jitter=0), [1, 3, 9, 27]),
        (Fibonacci(seconds(10), jitter=0), [10, 10, 20, 30]),
        (lambda attempt, error: seconds(attempt * attempt), [1, 4, 9, 16]),
        (Fixed(seconds(0), jitter=0), [0, 0, 0, 0]),
    ],
    ids=["fixed", "linear", "exponential", "factor", "fibonacci", "custom", "zero"],
)
async def test_a_failed_attempt_is_followed_after_its_backoff(
    store: FaultyStore, backoff: Backoff, expected: list[float]
) -> None:
    assert await gaps_of(store, backoff, 5) == pytest.approx(expected, abs=0.05)


async def test_the_backoff_of_the_task_beats_type_queue_and_manager(store: FaultyStore) -> None:
    manager = a_manager(store, QueuePolicy("q", backoff=Fixed(seconds(300))))

    @manager.handler("q", "work", backoff=Fixed(seconds(200)))
    async def work(ctx: TaskContext, payload: None) -> None:
        raise NotTodayError

    async with manager:
        handle = await manager.enqueue(
            "q", "work", None, TaskPolicy(backoff=Fixed(seconds(3), jitter=0))
        )
        task = await reached(store, handle.id, lambda task: len(task.errors) == 1)
    assert task.run_at - task.errors[0].at == seconds(3)


async def test_the_last_failure_makes_a_dead_letter_with_every_attempt(
    store: FaultyStore,
) -> None:
    ears = Ears()
    manager = a_manager(store, hooks=ears.hooks())

    @manager.handler("q", "work")
    async def work(ctx: TaskContext, payload: None) -> None:
        raise NotTodayError(f"attempt {ctx.attempt}")

    async with manager:
        handle = await manager.enqueue("q", "work")
        with pytest.raises(TaskFailedError, match="NotTodayError: attempt 3") as failed:
            await handle.result(timeout=60)
        await ears.wait("on_dead")
    task = await store.stored(handle.id)
    assert failed.value.errors == task.errors
    assert task.status is Status.DEAD
    assert task.attempts == task.max_attempts == 3
    assert [(e.attempt, e.kind, e.message) for e in task.errors] == [
        (number, "NotTodayError", f"attempt {number}") for number in (1, 2, 3)
    ]
    assert all("raise NotTodayError" in (error.traceback or "") for error in task.errors)
    assert all(error.worker.startswith("manager.") for error in task.errors)
    assert ears.names() == [
        "on_enqueue",
        *(["on_claim", "before_handle", "after_handle", "before_retry"] * 2),
        *["on_claim", "before_handle", "after_handle", "on_dead"],
    ]
    assert [event.delay for event in ears.of("before_retry")] == [seconds(10)] * 2


async def test_errors_are_bounded_and_the_rest_is_counted(store: FaultyStore) -> None:
    manager = a_manager(store, backoff=Fixed(seconds(0)))

    @manager.handler("q", "work")
    async def work(ctx: TaskContext, payload: None) -> None:
        raise NotTodayError("x" * 100_000 + "\ud800")

    async with manager:
        handle = await manager.enqueue("q", "work", None, TaskPolicy(max_attempts=33))
        task = await settled(store, handle.id)
    assert len(task.errors) == MAX_ERRORS
    assert task.errors_dropped == 33 - MAX_ERRORS
    assert [error.attempt for error in task.errors] == list(range(14, 34))
    assert max(len(error.message) for error in task.errors) < 2_100
    assert max(len(error.traceback or "") for error in task.errors) < 8_100


async def test_retry_chooses_its_own_delay(store: FaultyStore) -> None:
    manager = a_manager(store)

    @manager.handler("q", "work")
    async def work(ctx: TaskContext, payload: None) -> None:
        if ctx.attempt == 1:
            raise Retry("the other side is busy", delay=seconds(77))
        if ctx.attempt == 2:
            raise Retry

    async with manager:
        handle = await manager.enqueue("q", "work")
        first = await reached(store, handle.id, lambda task: len(task.errors) == 1)
        second = await reached(store, handle.id, lambda task: len(task.errors) == 2)
        await handle.result(timeout=60)
    assert first.run_at - first.errors[0].at == seconds(77)
    assert second.run_at - second.errors[1].at == seconds(10)
    assert [error.kind for error in second.errors] == ["retry", "retry"]
    assert second.errors[0].message == "the other side is busy"


async def test_retry_on_the_last_attempt_is_a_dead_letter(store: FaultyStore) -> None:
    manager = a_manager(store)

    @manager.handler("q", "work")
    async def work(payload: None) -> None:
        raise Retry(delay=seconds(1))

    async with manager:
        handle = await manager.enqueue("q", "work", None, TaskPolicy(max_attempts=1))
        assert (await settled(store, handle.id)).status is Status.DEAD


async def test_snooze_burns_no_attempt_and_leaves_no_error(store: FaultyStore) -> None:
    runs: list[tuple[float, int]] = []
    manager = a_manager(store)

    @manager.handler("q", "work")
    async def work(ctx: TaskContext, payload: None) -> None:
        runs.append((anyio.current_time(), ctx.attempt))
        if len(runs) < 4:
            raise Snooze(seconds(60))

    async with manager:
        handle = await manager.enqueue("q", "work", None, TaskPolicy(max_attempts=1))
        await handle.result(timeout=1000)
    assert [attempt for _, attempt in runs] == [1, 1, 1, 1]
    assert runs[3][0] - runs[0][0] == pytest.approx(180, abs=0.1)
    assert (await store.stored(handle.id)).errors == ()


async def test_reject_makes_a_dead_letter_at_once(store: FaultyStore) -> None:
    manager = a_manager(store)

    @manager.handler("q", "work")
    async def work(payload: None) -> None:
        raise Reject("no such customer")

    async with manager:
        handle = await manager.enqueue("q", "work")
        task = await settled(store, handle.id)
    assert task.status is Status.DEAD
    assert task.attempts == 1
    assert [(e.kind, e.message) for e in task.errors] == [("rejected", "no such customer")]


@pytest.mark.parametrize("signal", [Retry, Snooze])
@pytest.mark.parametrize("delay", [seconds(-1), 5, float("nan")], ids=str)
async def test_an_unusable_delay_falls_back_to_the_backoff(
    store: FaultyStore, signal: Callable[..., Exception], delay: Any, caplog: Any
) -> None:
    manager = a_manager(store)

    @manager.handler("q", "work")
    async def work(payload: None) -> None:
        raise signal(delay=delay)

    async with manager:
        handle = await manager.enqueue("q", "work")
        await anyio.sleep(1)
        task = await reached(store, handle.id, is_pending)
    assert task.run_at - task.updated_at == seconds(10)
    assert "unusable delay" in caplog.text


@pytest.mark.parametrize(
    ("error", "is_retried"),
    [
        (NotTodayError(), True),
        (NeverError(), False),
        (ValueError(), False),
        (TimeoutError(), False),
    ],
    ids=["listed", "given up on", "not listed", "another"],
)
async def test_retry_on_and_give_up_on_decide_by_class(
    store: FaultyStore, error: Exception, is_retried: bool
) -> None:
    manager = a_manager(store)

    @manager.handler("q", "work", retry_on=[NotTodayError], give_up_on=[NeverError])
    async def work(payload: None) -> None:
        raise error

    async with manager:
        handle = await manager.enqueue("q", "work")
        task = await reached(store, handle.id, lambda task: bool(task.errors))
    assert (task.status is Status.PENDING) == is_retried


async def test_no_retry_starts_after_retry_until(store: FaultyStore) -> None:
    manager = a_manager(store)

    @manager.handler("q", "work")
    async def work(payload: None) -> None:
        raise NotTodayError

    async with manager:
        handle = await manager.enqueue(
            "q", "work", None, TaskPolicy(max_attempts=100, retry_until=seconds(35))
        )
        task = await settled(store, handle.id)
    assert task.status is Status.DEAD
    assert task.attempts == 4
    assert "no retry after" in task.errors[-1].message


@pytest.mark.parametrize(
    "misbehaving",
    [
        lambda attempt, error: 1 / 0,
        lambda attempt, error: seconds(-5),
        lambda attempt, error: 5,
        lambda attempt, error: float("nan"),
        lambda attempt, error: None,
        partial(lambda error, *_: (_ for _ in ()).throw(error), KeyboardInterrupt()),
    ],
    ids=["raises", "negative", "number", "nan", "none", "interrupts"],
)
async def test_a_custom_backoff_that_misbehaves_loses_no_task(
    store: FaultyStore, misbehaving: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """B50: the default backoff stands in, and the log says so."""
    manager = a_manager(store)

    @manager.handler("q", "work", backoff=misbehaving)
    async def work(ctx: TaskContext, payload: None) -> int:
        if ctx.attempt == 1:
            raise NotTodayError
        return ctx.attempt

    async with manager:
        handle = await manager.enqueue("q", "work")
        task = await reached(store, handle.id, lambda task: bool(task.errors))
        assert seconds(9) <= task.run_at - task.errors[0].at <= seconds(10)
        assert await handle.result(timeout=60) == 2
    assert "using the default one" in caplog.text


async def test_a_delay_beyond_all_bounds_is_clamped(store: FaultyStore) -> None:
    """B50: a task never disappears into the year 9999."""
    manager = a_manager(store)

    @manager.handler("q", "work", backoff=lambda attempt, error: timedelta.max)
    async def work(payload: None) -> None:
        raise NotTodayError

    async with manager:
        handle = await manager.enqueue("q", "work")
        task = await reached(store, handle.id, lambda task: bool(task.errors))
    assert task.status is Status.PENDING
    assert task.run_at - task.errors[0].at == timedelta(days=365)


@pytest.mark.parametrize("attempt", [47, 1100, 10**6])
async def test_a_high_attempt_number_keeps_the_task_pending_within_its_cap(
    store: FaultyStore, attempt: int
) -> None:
    """B50: with factors 2 and 10, whatever the attempt."""
    manager = a_manager(store)

    @manager.handler("q", "work")
    async def work(factor: float) -> None:
        raise NotTodayError

    handles = []
    for factor in (2.0, 10.0):
        backoff = Exponential(seconds(1), cap=seconds(3600), factor=factor, jitter=0)
        policy = TaskPolicy(max_attempts=10**7, backoff=backoff)
        handles.append(await manager.enqueue("q", "work", factor, policy))
        store.edit(handles[-1].id, attempts=attempt - 1)
    async with manager:
        for handle in handles:
            task = await reached(store, handle.id, lambda task: bool(task.errors))
            assert task.attempts == attempt
            assert task.run_at - task.errors[0].at == seconds(3600)


async def test_attempts_are_the_number_of_claims_whatever_happened(store: FaultyStore) -> None:
    """B51: failures, lapses and timeouts each count once; hand-backs and snoozes do not."""
    manager = a_manager(store, timeout=seconds(5))
    seen: list[int] = []

    @manager.handler("q", "work")
    async def work(ctx: TaskContext, payload: None) -> None:
        seen.append(ctx.attempt)
        if ctx.attempt == 2:
            raise NotTodayError
        if ctx.attempt == 3:
            await anyio.sleep(100)
        if len(seen) == 3:
            raise Snooze(seconds(1))

    handle = await manager.enqueue("q", "work", None, TaskPolicy(max_attempts=9))
    await orphan(store, "q", "work", seconds(1))
    async with manager:
        await handle.result(timeout=100)
    task = await store.stored(handle.id)
    assert seen == [2, 3, 4, 4]
    assert task.attempts == 4
    assert [error.kind for error in task.errors] == ["lease_expired", "NotTodayError", "timeout"]


async def test_a_retried_task_keeps_its_priority(store: FaultyStore) -> None:
    """B76: a retry takes its place among the others by the same priority."""
    order: list[str] = []
    manager = a_manager(store, workers=1, backoff=Fixed(seconds(5)))

    @manager.handler("q", "work")
    async def work(ctx: TaskContext, name: str) -> None:
        order.append(name)
        if name == "urgent" and ctx.attempt == 1:
            raise NotTodayError
        await anyio.sleep(3)

    for name, priority in [("urgent", 9), *((f"normal{n}", 0) for n in range(6))]:
        await manager.enqueue("q", "work", name, TaskPolicy(priority=priority))
    async with manager:
        await anyio.sleep(60)
    assert order[0] == "urgent"
    assert order.index("urgent", 1) == 3


async def test_backoffs_are_jittered_downwards(store: FaultyStore) -> None:
    gaps = await gaps_of(store, Fixed(seconds(100), jitter=0.5), 12)
    assert all(50 <= gap <= 100.1 for gap in gaps)
    assert max(gaps) - min(gaps) > 5
