"""Pipeline mode: batches in, bulk out, and nothing different about what is promised."""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from datetime import timedelta

import anyio
import pytest

from gotasks_py import (
    ConfigurationError,
    Enqueue,
    Fixed,
    Hooks,
    Manager,
    PipelineMode,
    QueuePolicy,
    Retry,
    Status,
    TaskContext,
    TaskEvent,
    TaskPolicy,
)
from tests.engine.world import (
    AWAY,
    ONCE,
    Ears,
    FaultyStore,
    a_manager,
    a_pipeline,
    failing,
    reached,
    real_time,
    seconds,
    settled,
)

pytestmark = pytest.mark.anyio


def many(number: int, policy: TaskPolicy | None = None) -> list[Enqueue]:
    return [Enqueue("q", "work", each, policy) for each in range(number)]


async def all_final(store: FaultyStore) -> None:
    while not store.are_all_final():
        await anyio.sleep(0.1)


@pytest.fixture(params=[4, 100])
def workers(request: pytest.FixtureRequest) -> int:
    assert isinstance(request.param, int)
    return request.param


async def test_many_tasks_take_few_writes(store: FaultyStore, workers: int) -> None:
    manager = a_pipeline(store, workers=workers)

    @manager.handler("q", "work")
    async def double(number: int) -> int:
        return 2 * number

    handles = await manager.enqueue_many(many(1000))
    async with manager:
        results = [await handle.result(timeout=60) for handle in handles]

    assert results == [2 * number for number in range(1000)]
    assert store.calls["settle"] == 1  # the first, before which there was silence
    assert store.calls["claim"] + store.calls["claim_many"] < 100
    assert store.calls["settle_many"] < 100


async def test_outcomes_are_those_of_single_mode(store: FaultyStore) -> None:
    manager = a_pipeline(store, hooks=(ears := Ears()).hooks())

    @manager.handler("q", "work")
    async def work(ctx: TaskContext, number: int) -> None:
        if number % 3 == 1:
            raise ValueError(number)
        if number % 3 == 2 and ctx.attempt == 1:
            raise Retry(delay=seconds(5))

    await manager.enqueue_many(many(30))
    async with manager:
        await all_final(store)

    tasks = {task.payload["value"]: task for task in store.all_tasks()}  # type: ignore[index]
    for number, task in tasks.items():
        assert task.status is (Status.DEAD if number % 3 == 1 else Status.DONE)
        assert task.attempts == (1, 3, 2)[number % 3]
        assert len(task.errors) == (0, 3, 1)[number % 3]
    assert len(ears.of("on_done")) == 20
    assert len(ears.of("on_dead")) == 10
    assert len(ears.of("before_retry")) == 30
    assert len(ears.of("after_handle")) == 60


async def test_a_last_attempt_is_begun_and_ended_by_writes_of_its_own(store: FaultyStore) -> None:
    manager = a_pipeline(store)
    seen = list[tuple[Status, int]]()

    @manager.handler("q", "work")
    async def work(ctx: TaskContext, number: int) -> None:
        stored = await store.stored(ctx.task.id)
        seen.append((stored.status, stored.attempts))

    await manager.enqueue_many(many(10, ONCE))
    async with manager:
        await all_final(store)

    assert seen == [(Status.RUNNING, 1)] * 10
    assert store.calls["settle"] == 20
    assert {task.status for task in store.all_tasks()} == {Status.DONE}


@pytest.mark.parametrize("policy", [None, ONCE])
async def test_what_was_not_started_goes_back_without_an_attempt(
    store: FaultyStore, policy: TaskPolicy | None
) -> None:
    """With a full buffer: the first tasks are quick, and the next ones slow."""
    manager = a_pipeline(store, workers=4)
    is_slow = anyio.Event()

    @manager.handler("q", "work")
    async def work(number: int) -> None:
        if number >= 500:
            is_slow.set()
            await anyio.sleep(5)
        else:
            await anyio.sleep(0.001)

    await manager.enqueue_many(many(2000, policy))
    await manager.start()
    await is_slow.wait()
    await anyio.sleep(0.01)
    held = [task for task in store.all_tasks() if task.lease is not None]
    assert len(held) > 50
    await manager.stop(timeout=10)

    tasks = store.all_tasks()
    assert {task.status for task in tasks} == {Status.DONE, Status.PENDING}
    pending = [task for task in tasks if task.status is Status.PENDING]
    assert len(pending) > 1000
    assert {(task.attempts, len(task.errors)) for task in pending} == {(0, 0)}
    assert all(task.lease is None for task in pending)
    now = store.clock.now()
    assert all(task.due_at is not None and task.due_at <= now for task in pending)


async def test_a_process_that_dies_leaves_no_last_attempt_dead_unrun(store: FaultyStore) -> None:
    """Its buffer is lost with it; the next manager runs what was reserved."""
    first = a_pipeline(store, workers=1, janitor=None)

    @first.handler("q", "work")
    async def never_ends(number: int) -> None:
        await anyio.sleep_forever()

    await first.enqueue_many(many(1, ONCE))
    async with anyio.create_task_group() as group:
        await first.start()
        await reached_running(store)
        # As a killed process would: no write of it arrives any more.
        for name in ("claim", "claim_many", "settle", "settle_many", "renew", "find_claimed"):
            store.before[name] = failing(AWAY)
        await first.stop(timeout=0)
        store.before.clear()
        group.cancel_scope.cancel()
    (task,) = store.all_tasks()
    assert (task.status, task.attempts) == (Status.RUNNING, 1)

    second = a_pipeline(store)
    second.handler("q", "work")(never_ends)
    async with second:
        dead = await settled(store, task.id)
        await second.stop(timeout=0)

    assert (dead.status, dead.attempts) == (Status.DEAD, 1)


async def reached_running(store: FaultyStore) -> None:
    await reached(store, store.all_tasks()[0].id, lambda task: task.status is Status.RUNNING)


async def test_what_waits_too_long_to_be_started_goes_back(store: FaultyStore) -> None:
    mode = PipelineMode(queue_lease=seconds(3), lookahead=seconds(3))
    manager = a_pipeline(store, workers=2, mode=mode, lease=seconds(10))
    slow = anyio.Event()

    @manager.handler("q", "work")
    async def work(number: int) -> None:
        if number >= 100:
            slow.set()
            await anyio.sleep(8)
        else:
            await anyio.sleep(0.05)

    await manager.enqueue_many(many(140))
    async with manager:
        await slow.wait()
        writes = store.calls["settle_many"]
        await all_final(store)
        writes = store.calls["settle_many"] - writes

    tasks = store.all_tasks()
    assert {task.status for task in tasks} == {Status.DONE}
    # The 40 slow ones end in 20 pairs, of which one is recorded by a write of its own, after a
    # quick one or two; what has waited too long goes back together.
    assert writes <= 22 + sum(task.interruptions for task in tasks) * 2 // 3
    # Handed back while others ran, and no attempt was burned by it.
    assert any(task.interruptions for task in tasks)
    assert {task.attempts for task in tasks} == {1}


async def test_an_outcome_that_the_fence_refuses_is_told_apart(store: FaultyStore) -> None:
    mode = PipelineMode(flush_interval=seconds(1))
    manager = a_pipeline(
        store, workers=8, mode=mode, lease=seconds(200), hooks=(ears := Ears()).hooks()
    )

    @manager.handler("q", "work")
    async def work(number: int) -> int:
        return number

    before = await manager.enqueue_many(many(2))
    async with manager:
        await ears.wait("on_done", 2)  # the next ones are gathered
        handles = await manager.enqueue_many(many(8))
        stolen, cancelled, deleted = (handle.id for handle in handles[:3])
        await ears.wait("before_handle", 10)
        await anyio.sleep(0.1)
        lease = (await store.stored(stolen)).lease
        assert lease is not None
        store.edit(stolen, lease={"token": "another's", "owner": "w", "until": lease.until})
        await manager.cancel(cancelled)
        await manager.delete(deleted)
        await ears.wait("on_done", 7)
        await ears.wait("on_lease_lost", 2)
        await ears.wait("on_cancelled")
        await manager.stop(timeout=0)

    assert {event.task.id for event in ears.of("on_lease_lost")} == {stolen, deleted}
    assert {event.task.id for event in ears.of("on_cancelled")} == {cancelled}
    done = {handle.id for handle in [*before, *handles[3:]]}
    assert {event.task.id for event in ears.of("on_done")} == done
    assert (await store.stored(stolen)).result is None
    assert (await store.stored(cancelled)).status is Status.CANCELLED


async def test_a_lost_reply_to_a_bulk_settle_is_no_second_outcome(store: FaultyStore) -> None:
    manager = a_pipeline(store, hooks=(ears := Ears()).hooks())
    store.after["settle_many"] = failing(AWAY, times=3)

    @manager.handler("q", "work")
    async def work(number: int) -> int:
        return number

    await manager.enqueue_many(many(50))
    async with manager:
        await all_final(store)
        await ears.wait("on_done", 50)

    assert len(ears.of("on_done")) == 50
    assert not ears.of("on_lease_lost")
    assert {task.attempts for task in store.all_tasks()} == {1}


@pytest.mark.parametrize("policy", [None, ONCE])
async def test_a_lost_reply_to_a_batch_claim_is_found(
    store: FaultyStore, policy: TaskPolicy | None
) -> None:
    manager = a_pipeline(store, lease=seconds(600))
    store.after["claim_many"] = failing(AWAY, times=1)

    @manager.handler("q", "work")
    async def work(number: int) -> int:
        return number

    await manager.enqueue_many(many(20, policy))
    began = anyio.current_time()
    async with manager:
        await all_final(store)

    assert anyio.current_time() - began < 10
    assert {(task.status, task.attempts) for task in store.all_tasks()} == {(Status.DONE, 1)}


async def test_a_lost_reply_to_a_start_runs_the_task_once(store: FaultyStore) -> None:
    manager = a_pipeline(store)
    runs = 0

    @manager.handler("q", "work")
    async def work(number: int) -> None:
        nonlocal runs
        runs += 1

    store.after["settle"] = failing(AWAY, times=1)
    await manager.enqueue_many(many(1, ONCE))
    async with manager:
        await all_final(store)

    (task,) = store.all_tasks()
    assert (runs, task.status, task.attempts) == (1, Status.DONE, 1)


async def test_a_reserved_task_that_was_cancelled_does_not_start(store: FaultyStore) -> None:
    manager = a_pipeline(store, workers=1)
    runs = list[int]()

    @manager.handler("q", "work")
    async def work(number: int) -> None:
        runs.append(number)
        if number == 0:
            await anyio.sleep(1)

    store.before["settle"] = failing(AWAY, times=1)
    (handle,) = await manager.enqueue_many(many(1, ONCE))
    async with manager:
        await reached(store, handle.id, lambda task: task.lease is not None)
        await manager.cancel(handle.id)
        await anyio.sleep(10)

    assert runs == []
    assert (await store.stored(handle.id)).status is Status.CANCELLED


async def test_an_outage_loses_nothing_and_logs_little(
    store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    manager = a_pipeline(store, lease=seconds(10), workers=10, hooks=(ears := Ears()).hooks())
    caplog.set_level(logging.INFO, "gotasks_py")

    @manager.handler("q", "work")
    async def work(number: int) -> int:
        await anyio.sleep(0.02)
        return number

    await manager.enqueue_many(many(1000))
    async with manager:
        await ears.wait("on_done", 200)
        for name in ("claim", "claim_many", "settle", "settle_many", "renew", "find_claimed"):
            store.before[name] = failing(AWAY)
        await anyio.sleep(30)
        store.before.clear()
        back = anyio.current_time()
        done = len(ears.of("on_done"))
        await ears.wait("on_done", done + 50)
        assert anyio.current_time() - back < 5
        await all_final(store)

    assert {task.status for task in store.all_tasks()} == {Status.DONE}
    assert len(caplog.records) < 100


async def test_two_managers_share_slow_tasks_evenly(store: FaultyStore) -> None:
    ran = [0, 0]

    def a_peer(number: int) -> Manager:
        manager = a_pipeline(store, workers=4, fallback_poll=seconds(0.1))

        @manager.handler("q", "work")
        async def work(_: int) -> None:
            ran[number] += 1
            await anyio.sleep(1)

        return manager

    peers = [a_peer(0), a_peer(1)]
    await peers[0].enqueue_many(many(80))
    began = anyio.current_time()
    async with peers[0], peers[1]:
        await all_final(store)

    assert anyio.current_time() - began < 12
    assert abs(ran[0] - ran[1]) <= 8


async def test_queues_share_by_weight(store: FaultyStore) -> None:
    manager = a_pipeline(store, QueuePolicy("q", weight=3), "r", workers=10)
    order = list[str]()

    async def work(ctx: TaskContext, number: int) -> None:
        order.append(ctx.task.queue)
        await anyio.sleep(0.01)

    manager.handler("q", "work")(work)
    manager.handler("r", "work")(work)
    await manager.enqueue_many(many(600))
    await manager.enqueue_many([Enqueue("r", "work", each) for each in range(600)])
    async with manager:
        await all_final(store)

    first = order[:600]
    assert 0.6 < first.count("q") / len(first) < 0.9


async def test_what_comes_after_a_silence_is_recorded_at_once(store: FaultyStore) -> None:
    mode = PipelineMode(flush_interval=seconds(1))
    manager = a_pipeline(store, mode=mode, lease=seconds(200), hooks=(ears := Ears()).hooks())
    moments = list[float]()

    @manager.handler("q", "work")
    async def work(number: int) -> int:
        return number

    async with manager:
        for number in range(3):
            began = anyio.current_time()
            await manager.enqueue_many(many(2))
            await ears.wait("on_done", 2 * number + 2)
            moments.append(anyio.current_time() - began)
            await anyio.sleep(2)

    assert max(moments) < 0.1
    assert store.calls["settle"] == store.calls["settle_many"] == 3


async def test_a_stop_records_what_is_gathered(store: FaultyStore) -> None:
    mode = PipelineMode(flush_interval=timedelta(hours=1), flush_size=10_000)
    manager = a_pipeline(
        store, mode=mode, lease=timedelta(days=300), hooks=(ears := Ears()).hooks()
    )

    @manager.handler("q", "work")
    async def work(number: int) -> int:
        return number

    await manager.enqueue_many(many(2))
    await manager.start()
    await ears.wait("on_done", 2)
    await manager.enqueue_many(many(20))
    await ears.wait("before_handle", 22)
    await anyio.sleep(1)
    assert len(ears.of("on_done")) == 2
    assert manager.health().running_tasks == 20
    await manager.stop()

    assert len(ears.of("on_done")) == 22
    assert {task.status for task in store.all_tasks()} == {Status.DONE}


async def test_a_success_near_the_end_of_its_lease_is_recorded_at_once(store: FaultyStore) -> None:
    mode = PipelineMode(queue_lease=seconds(1), flush_interval=seconds(1))
    manager = a_pipeline(store, mode=mode, lease=seconds(10), heartbeat=False)

    @manager.handler("q", "work")
    async def work(number: int) -> None:
        await anyio.sleep(9.5)

    await manager.enqueue_many(many(2))
    async with manager:
        await all_final(store)

    assert store.calls["settle"] == 2
    assert store.calls["settle_many"] == 0
    assert {task.attempts for task in store.all_tasks()} == {1}


async def test_the_handlers_of_a_batch_do_not_see_each_others_context(store: FaultyStore) -> None:
    seen: ContextVar[int] = ContextVar("seen", default=-1)
    leaks = list[int]()
    manager = a_pipeline(store)

    @manager.handler("q", "work")
    async def work(number: int) -> None:
        leaks.append(seen.get())
        seen.set(number)

    await manager.enqueue_many(many(20))
    async with manager:
        await all_final(store)

    assert leaks == [-1] * 20


def test_another_kind_of_mode_is_refused(store: FaultyStore) -> None:
    with pytest.raises(ConfigurationError, match="mode must be a PipelineMode or None, not 'fast'"):
        a_manager(store, mode="fast")


@real_time
@pytest.mark.parametrize("hook", ["on_claim", "before_handle", "after_handle", "on_done"])
async def test_a_hook_that_cancels_its_task_harms_nobody_else(
    store: FaultyStore, hook: str
) -> None:
    """It is the worker's task, or the recorder's; asyncio lets anybody cancel it."""

    def cancel_once(event: TaskEvent) -> None:
        current = asyncio.current_task()
        if current is not None and event.task.payload == {"value": 0}:
            current.cancel()

    manager = a_pipeline(store, lease=seconds(1), hooks=Hooks(**{hook: cancel_once}))

    @manager.handler("q", "work")
    async def work(number: int) -> None: ...

    async with manager:
        handles = await manager.enqueue_many(many(5))
        others = handles[1:] + await manager.enqueue_many(many(6)[1:])
        for handle in others:
            await handle.result(timeout=20)

    assert [(await store.stored(handle.id)).attempts for handle in others] == [1] * 9


@real_time
async def test_a_handler_that_cancels_its_worker_stops_one_worker_for_a_moment(
    store: FaultyStore,
) -> None:
    manager = a_pipeline(store, lease=seconds(1), backoff=Fixed(delay=seconds(0), jitter=0))

    @manager.handler("q", "work")
    async def work(number: int) -> None:
        current = asyncio.current_task()
        assert current is not None
        if number == 0:
            asyncio.get_running_loop().call_later(0.05, current.cancel)

    async with manager:
        handles = await manager.enqueue_many(many(5))
        for handle in handles:
            await handle.result(timeout=20)
        await anyio.sleep(0.2)
        for handle in await manager.enqueue_many(many(6)[1:]):
            await handle.result(timeout=20)
