"""Leases: the heartbeat, lapses, reclaims, fencing, and at most once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import anyio
import pytest

from gotasks_memstore import MemStore
from gotasks_py import (
    ConfigurationError,
    JanitorConfig,
    LeaseLostError,
    Manager,
    Status,
    TaskContext,
    TaskPolicy,
)
from gotasks_py._heartbeat import Line
from gotasks_py.store import ClaimRequest, Renewal
from tests.engine.world import (
    AWAY,
    ONCE,
    Ears,
    FaultyStore,
    a_manager,
    fail_renewals_of_threads,
    failing,
    orphan,
    reached,
    real_time,
    seconds,
    settled,
)

pytestmark = pytest.mark.anyio


async def test_a_handler_longer_than_its_lease_runs_once(store: FaultyStore) -> None:
    """B01: the heartbeat keeps the lease; another manager does not get the task."""
    runs: list[str] = []
    untils = set()

    def make() -> Manager:
        manager = a_manager(store, lease=seconds(1))

        @manager.handler("q", "long")
        async def long(ctx: TaskContext, payload: None) -> None:
            runs.append(ctx.lease.owner)
            for _ in range(8):
                await anyio.sleep(0.5)
                held = (await store.stored(ctx.id)).lease
                assert held is not None
                untils.add(held.until)

        return manager

    async with make() as first, make():
        handle = await first.enqueue("q", "long")
        await handle.result(timeout=30)
    task = await store.stored(handle.id)
    assert len(runs) == 1
    assert task.attempts == 1
    assert len(untils) > 2


async def test_without_a_heartbeat_a_long_handler_runs_again_and_the_first_end_is_refused(
    store: FaultyStore,
) -> None:
    """B01, B02: expiry makes the task claimable, and the token fences the first worker off."""
    ears = Ears()
    manager = a_manager(store, lease=seconds(1), heartbeat=False, hooks=ears.hooks())

    @manager.handler("q", "long")
    async def long(ctx: TaskContext, payload: None) -> int:
        await anyio.sleep(1.5 if ctx.attempt == 1 else 0.9)
        return ctx.attempt

    async with manager:
        handle = await manager.enqueue("q", "long")
        await ears.wait("on_lease_lost")
        while_second_runs = await store.stored(handle.id)
        assert await handle.result(timeout=30) == 2
    assert while_second_runs.status is Status.RUNNING
    assert while_second_runs.result is None
    assert while_second_runs.attempts == 2


async def test_a_worker_that_reclaims_its_own_lapsed_task_gets_another_token(
    store: FaultyStore,
) -> None:
    """B02: tokens belong to claims, so the older run stays fenced off."""
    ears = Ears()
    tokens: list[str] = []
    manager = a_manager(store, lease=seconds(1), heartbeat=False, hooks=ears.hooks())

    @manager.handler("q", "slow")
    async def slow(ctx: TaskContext, payload: None) -> str:
        tokens.append(ctx.lease.token)
        if ctx.attempt == 1:
            await anyio.sleep(1.5)
            return "first"
        await anyio.sleep(0.9)
        return "second"

    async with manager:
        handle = await manager.enqueue("q", "slow")
        assert await handle.result(timeout=10) == "second"
        await ears.wait("on_done")
    assert len(set(tokens)) == 2
    assert ears.names().count("on_lease_lost") == 1
    assert ears.names().count("on_done") == 1


async def test_a_late_finish_succeeds_while_nobody_reclaimed(store: FaultyStore) -> None:
    manager = a_manager(store, lease=seconds(1), heartbeat=False, workers=1)

    @manager.handler("q", "late")
    async def late(payload: None) -> str:
        await anyio.sleep(5)
        return "late, but ours"

    async with manager:
        handle = await manager.enqueue("q", "late")
        assert await handle.result(timeout=10) == "late, but ours"
    assert (await store.stored(handle.id)).attempts == 1


async def test_a_reclaim_records_whose_lease_expired(store: FaultyStore) -> None:
    manager = a_manager(store)

    @manager.handler("q", "work")
    async def work(payload: None) -> str:
        return "done by another"

    handle = await manager.enqueue("q", "work")
    await orphan(store, "q", "work", seconds(2))
    async with manager:
        assert await handle.result(timeout=10) == "done by another"
    task = await store.stored(handle.id)
    assert task.attempts == 2
    assert [(e.kind, e.worker, e.attempt) for e in task.errors] == [
        ("lease_expired", "killed.1", 1)
    ]
    assert "killed.1" in task.errors[0].message


async def test_a_task_orphaned_long_after_the_start_is_reclaimed_within_lease_and_poll(
    store: FaultyStore,
) -> None:
    """B08: the cut-off is taken at each claim, not once at the start."""
    manager = a_manager(store)
    producer = a_manager(store)
    started_at: list[float] = []

    @manager.handler("q", "work")
    async def work(payload: None) -> None:
        started_at.append(anyio.current_time())

    async with manager:
        await anyio.sleep(500)
        handle = await producer.enqueue("q", "work")
        orphaned_at = anyio.current_time()
        await orphan(store, "q", "work", seconds(1))
        await handle.result(timeout=10)
    assert 1 <= started_at[0] - orphaned_at <= 1 + 1.2


async def test_a_task_of_one_attempt_is_never_reclaimed_but_reaped(store: FaultyStore) -> None:
    """B07: at most once is absolute; the dead letter says what happened."""
    ears = Ears()
    runs: list[int] = []
    manager = a_manager(store, hooks=ears.hooks())

    @manager.handler("q", "once")
    async def once(payload: None) -> None:
        runs.append(1)

    handle = await manager.enqueue("q", "once", None, ONCE)
    await orphan(store, "q", "once", seconds(1))
    async with manager:
        task = await settled(store, handle.id)
        await ears.wait("on_dead")
        await anyio.sleep(30)
    assert runs == []
    assert task.status is Status.DEAD
    assert task.attempts == 1
    assert [error.kind for error in task.errors] == ["lease_expired"]


async def test_a_task_on_its_last_attempt_is_reaped_too(store: FaultyStore) -> None:
    manager = a_manager(store)

    @manager.handler("q", "work")
    async def work(payload: None) -> None: ...

    handle = await manager.enqueue("q", "work", None, TaskPolicy(max_attempts=2))
    await orphan(store, "q", "work", seconds(1))
    await anyio.sleep(1.5)
    await orphan(store, "q", "work", seconds(1))
    async with manager:
        task = await settled(store, handle.id)
    assert task.status is Status.DEAD
    assert [error.attempt for error in task.errors] == [1, 2]


async def test_the_reaper_never_takes_a_task_that_is_being_worked_on(store: FaultyStore) -> None:
    """B12: a claim sets state, attempt and lease in one write."""
    ears = Ears()
    manager = a_manager(
        store,
        workers=8,
        lease=seconds(1),
        hooks=ears.hooks(),
        janitor=JanitorConfig(reap_interval=seconds(0.001)),
    )

    @manager.handler("q", "quick")
    async def quick(number: int) -> None:
        await anyio.sleep(0.005 * (number % 3))

    handles = [await manager.enqueue("q", "quick", n, ONCE) for n in range(300)]
    async with manager:
        for handle in handles:
            await handle.result(timeout=60)
    assert store.calls["reap"] > 100
    assert ears.of("on_dead") == []


async def test_a_lost_lease_of_one_task_leaves_the_others_alone(store: FaultyStore) -> None:
    """B13: one renewal for all, and each answer is for one task."""
    ears = Ears()
    manager = a_manager(store, workers=3, lease=seconds(3), hooks=ears.hooks())

    @manager.handler("q", "work")
    async def work(name: str) -> str:
        await anyio.sleep(20)
        return name

    async with manager:
        handles = {name: await manager.enqueue("q", "work", name) for name in "xyz"}
        await ears.wait("before_handle", 3)
        await manager.delete(handles["x"].id)
        lost = await ears.wait("on_lease_lost")
        assert lost.task.id == handles["x"].id
        assert await handles["y"].result(timeout=60) == "y"
        assert await handles["z"].result(timeout=60) == "z"
    assert (await store.stored(handles["y"].id)).attempts == 1


@pytest.mark.parametrize("error", [AWAY, RuntimeError("a bug")], ids=["away", "bug"])
async def test_a_heartbeat_that_fails_for_a_while_loses_no_lease(
    store: FaultyStore, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """B13: the failure is logged once, and the next beat in time keeps the task."""
    store.before["renew"] = failing(error, times=1)
    manager = a_manager(store, lease=seconds(3))

    @manager.handler("q", "work")
    async def work(payload: None) -> str:
        await anyio.sleep(20)
        return "kept"

    async with manager:
        handle = await manager.enqueue("q", "work")
        assert await handle.result(timeout=60) == "kept"
        assert manager.health().reasons == [] or isinstance(error, RuntimeError)
    assert (await store.stored(handle.id)).attempts == 1
    failures = [r for r in caplog.records if "heartbeat" in r.getMessage() and r.levelno > 20]
    assert len(failures) == 1


async def test_a_handler_is_stopped_when_its_lease_passes_without_a_renewal(
    store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    """The lease is fenced by the local clock, database or no database."""
    ears = Ears()
    store.before["renew"] = failing(AWAY)
    stopped_at: list[float] = []
    reasons: list[str] = []
    manager = a_manager(store, lease=seconds(3), hooks=ears.hooks())

    @manager.handler("q", "work")
    async def work(ctx: TaskContext, payload: None) -> str:
        began = anyio.current_time()
        try:
            await anyio.sleep(100 if ctx.attempt == 1 else 1)
        except anyio.get_cancelled_exc_class():
            stopped_at.append(anyio.current_time() - began)
            reasons.extend(manager.health().reasons)
            assert ctx.is_stopping
            raise
        return f"attempt {ctx.attempt}"

    async with manager:
        handle = await manager.enqueue("q", "work")
        assert await handle.result(timeout=60) == "attempt 2"
    assert "heartbeats fail since" in "; ".join(reasons)
    assert stopped_at == [pytest.approx(3, abs=0.2)]
    assert ears.names().count("on_lease_lost") == 1
    assert [e.kind for e in (await store.stored(handle.id)).errors] == ["lease_expired"]
    assert "passed without a renewal" in caplog.text


async def test_what_ends_as_its_lease_passes_is_recorded_unless_somebody_was_quicker(
    store: FaultyStore,
) -> None:
    """As after a standstill of the process, when both are due at once."""
    ears = Ears()
    store.before["renew"] = failing(AWAY)
    manager = a_manager(store, lease=seconds(1), workers=1, hooks=ears.hooks())

    @manager.handler("q", "work")
    async def work(payload: None) -> str:
        with suppress(anyio.get_cancelled_exc_class()):
            await anyio.sleep(100)
        return "done all the same"

    async with manager:
        handle = await manager.enqueue("q", "work")
        assert await handle.result(timeout=60) == "done all the same"
    task = await store.stored(handle.id)
    assert (task.attempts, task.errors) == (1, ())
    assert "on_lease_lost" not in ears.names()


async def test_a_handler_that_ignores_its_lost_lease_keeps_nobody_busy(
    store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told once, and everything else goes on."""
    store.before["renew"] = failing(AWAY)
    manager = a_manager(store, lease=seconds(1), workers=2)

    @manager.handler("q", "deaf")
    async def deaf(ctx: TaskContext, payload: None) -> int:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(10 if ctx.attempt == 1 else 0)
        return ctx.attempt

    async with manager:
        handle = await manager.enqueue("q", "deaf")
        assert await handle.result(timeout=5) == 2
        await anyio.sleep(20)
        assert manager.health().running_tasks == 0
    assert caplog.text.count("passed without a renewal") == 1


async def test_a_handler_extends_its_lease(store: FaultyStore) -> None:
    manager = a_manager(store, lease=seconds(1), heartbeat=False)

    @manager.handler("q", "work")
    async def work(ctx: TaskContext, payload: None) -> bool:
        before = ctx.lease.until
        extended = await ctx.extend_lease(seconds(30))
        assert extended.token == ctx.lease.token
        assert extended.until > before
        assert (await store.stored(ctx.id)).lease == extended
        await anyio.sleep(20)
        return await ctx.still_mine()

    async with manager:
        handle = await manager.enqueue("q", "work")
        assert await handle.result(timeout=60) is True
    assert (await store.stored(handle.id)).attempts == 1


async def test_an_extended_lease_is_renewed_to_its_new_length(store: FaultyStore) -> None:
    asked: list[float] = []
    store.before["renew"] = lambda renewals: asked.extend(
        each.lease.total_seconds() for each in renewals
    )
    manager = a_manager(store, lease=seconds(60))

    @manager.handler("q", "work")
    async def work(ctx: TaskContext, payload: None) -> None:
        await ctx.extend_lease(seconds(3))
        await anyio.sleep(10)
        await ctx.extend_lease()

    async with manager:
        await (await manager.enqueue("q", "work")).result(timeout=60)
    assert set(asked) == {3.0}
    assert len(asked) >= 8


async def test_a_lease_cannot_be_extended_by_nothing(store: FaultyStore) -> None:
    manager = a_manager(store)
    errors: list[str] = []

    @manager.handler("q", "work")
    async def work(ctx: TaskContext, payload: None) -> None:
        try:
            await ctx.extend_lease(seconds(0))
        except ConfigurationError as error:
            errors.append(str(error))

    async with manager:
        await (await manager.enqueue("q", "work")).result(timeout=60)
    assert errors == ["lease must be at least 0:00:00.100000, not 0:00:00"]


async def test_a_handler_that_lost_its_task_hears_of_it(store: FaultyStore) -> None:
    heard: list[object] = []
    ears = Ears()
    manager = a_manager(store, heartbeat=False, hooks=ears.hooks())

    @manager.handler("q", "work")
    async def work(ctx: TaskContext, payload: None) -> None:
        await manager.delete(ctx.id)
        heard.append(await ctx.still_mine())
        for call in (ctx.extend_lease, partial(ctx.progress, 1)):
            with anyio.CancelScope(shield=True):
                try:
                    await call()
                except LeaseLostError as error:
                    heard.append(error.task_id == ctx.id)
        heard.append(ctx.is_stopping)

    async with manager:
        await manager.enqueue("q", "work")
        await ears.wait("on_lease_lost")
    assert heard == [False, True, True, True]


async def test_progress_is_stored_with_the_running_task(store: FaultyStore) -> None:
    seen: list[object] = []
    manager = a_manager(store)

    @manager.handler("q", "work")
    async def work(ctx: TaskContext, payload: None) -> None:
        for progress in (0.5, {"$done": 3, "a.b": "$lease"}, None):
            await ctx.progress(progress)
            seen.append((await store.stored(ctx.id)).progress)

    async with manager:
        handle = await manager.enqueue("q", "work")
        await handle.result(timeout=10)
    assert seen == [0.5, {"$done": 3, "a.b": "$lease"}, None]


async def test_a_claim_whose_reply_was_lost_is_found_again(
    store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    """B51: no task waits out a lease, and no attempt is counted twice."""
    caplog.set_level(logging.INFO)
    manager = a_manager(store, lease=seconds(600))

    @manager.handler("q", "work")
    async def work(ctx: TaskContext, payload: None) -> int:
        return ctx.attempt

    handle = await manager.enqueue("q", "work")
    store.after["claim"] = failing(AWAY, times=1)
    async with manager:
        assert await handle.result(timeout=10) == 1
    assert (await store.stored(handle.id)).attempts == 1
    assert "the answer to a claim was lost" in caplog.text


async def test_a_lost_claim_that_lapsed_meanwhile_is_handed_back(store: FaultyStore) -> None:
    """A task is started only while its whole lease is known to be ours."""
    manager = a_manager(store, lease=seconds(1), workers=1)
    runs: list[int] = []

    @manager.handler("q", "work")
    async def work(ctx: TaskContext, payload: None) -> None:
        runs.append(ctx.attempt)

    handle = await manager.enqueue("q", "work", None, ONCE)
    store.after["claim"] = failing(AWAY, times=1)
    store.before["find_claimed"] = failing(AWAY, times=4)
    async with manager:
        task = await settled(store, handle.id)
    # Whoever comes first, the reaper or the hand-back, it never ran twice.
    assert len(runs) <= 1
    assert (task.status is Status.DONE) == (runs == [1])


async def test_the_outcome_is_recorded_once_the_store_is_back(
    store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    manager = a_manager(store)

    @manager.handler("q", "work")
    async def work(payload: None) -> str:
        return "kept"

    store.before["settle"] = failing(AWAY, times=7)
    async with manager:
        handle = await manager.enqueue("q", "work")
        assert await handle.result(timeout=60) == "kept"
    lines = [r for r in caplog.records if "cannot be recorded yet" in r.getMessage()]
    assert len(lines) == 1


async def test_an_outcome_whose_reply_was_lost_is_not_taken_for_a_lost_lease(
    store: FaultyStore,
) -> None:
    ears = Ears()
    manager = a_manager(store, hooks=ears.hooks())

    @manager.handler("q", "work")
    async def work(payload: None) -> str:
        return "once"

    store.after["settle"] = failing(AWAY, times=1)
    async with manager:
        handle = await manager.enqueue("q", "work")
        await ears.wait("on_done")
    assert ears.of("on_lease_lost") == []
    assert (await store.stored(handle.id)).status is Status.DONE


async def test_an_idle_manager_sends_no_heartbeats(store: FaultyStore) -> None:
    manager = a_manager(store, lease=seconds(1))

    @manager.handler("q", "work")
    async def work(payload: None) -> None: ...

    async with manager:
        await (await manager.enqueue("q", "work")).result(timeout=10)
        await anyio.sleep(100)
    assert store.calls["renew"] == 0


async def test_all_running_tasks_are_renewed_in_one_write(store: FaultyStore) -> None:
    sizes: list[int] = []

    def note(renewals: Sequence[Renewal]) -> None:
        sizes.append(len(renewals))

    store.before["renew"] = note
    manager = a_manager(store, workers=5, lease=seconds(3))

    @manager.handler("q", "work")
    async def work(number: int) -> None:
        await anyio.sleep(9.5)

    async with manager:
        for handle in [await manager.enqueue("q", "work", number) for number in range(5)]:
            await handle.result(timeout=60)
    assert max(sizes) == 5
    assert len(sizes) <= 11


def _in_thread(manager: Manager, stop: threading.Event) -> threading.Thread:
    async def work() -> None:
        async with manager:
            await anyio.to_thread.run_sync(stop.wait)

    thread = threading.Thread(target=anyio.run, args=(work,))
    thread.start()
    return thread


@real_time
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_blocking_handler_does_not_lose_its_lease(
    store: FaultyStore, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """B03: the heartbeat has a thread of its own, so that a blocked event loop costs nothing."""
    runs: list[str] = []

    def make() -> Manager:
        manager = a_manager(store, lease=seconds(0.6), fallback_poll=seconds(0.05))

        def block(ctx: TaskContext, payload: None) -> None:
            runs.append(ctx.lease.owner)
            time.sleep(1.5)

        async def block_the_loop(ctx: TaskContext, payload: None) -> None:
            block(ctx, payload)

        manager.handler("q", "block")(block if kind == "sync" else block_the_loop)
        return manager

    stop = threading.Event()
    handle = await a_manager(store).enqueue("q", "block")
    first, second = make(), make()
    async with first:
        await reached(store, handle.id, lambda task: task.attempts > 0)
        thread = _in_thread(second, stop)
        try:
            await handle.result(timeout=5)
            while first.health().running_tasks:
                await anyio.sleep(0.01)
            # The last that was seen of the loop is no complaint while nothing runs.
            assert "a handler blocks the event loop" not in first.health().reasons
        finally:
            stop.set()
            await anyio.to_thread.run_sync(thread.join)
    assert len(runs) == 1
    assert (await store.stored(handle.id)).attempts == 1
    if kind == "async":  # on a starved machine the other's loop may be late as well
        assert "the event loop has not answered" in caplog.text


@real_time
async def test_a_store_that_holds_up_a_beat_is_no_handler_that_blocks_the_loop(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The beat after it comes at once; the loop, free all the time, must not be blamed."""
    store = MemStore()
    manager = a_manager(store, lease=seconds(1.5), hooks=(ears := Ears()).hooks())
    beats: list[int] = []
    went_on = threading.Event()

    def hold_up() -> None:
        beats.append(1)
        if len(beats) == 1:
            time.sleep(0.6)  # longer than from beat to beat
            raise AWAY
        went_on.set()

    fail_renewals_of_threads(monkeypatch, store, hold_up)

    @manager.handler("q", "work")
    async def work(payload: None) -> None:
        await anyio.sleep(100)

    async with manager:
        await manager.enqueue("q", "work")
        await ears.wait("before_handle")
        assert await anyio.to_thread.run_sync(went_on.wait, 10)
        assert "a handler blocks the event loop" not in manager.health().reasons
        await manager.stop(timeout=0)
    assert "a heartbeat could not be written" in caplog.text
    assert "the event loop has not answered" not in caplog.text


def test_the_loop_is_judged_by_the_time_that_it_has_had() -> None:
    line = Line()
    assert not line.is_unanswered(10.0, patience=1)
    assert not line.is_unanswered(10.5, patience=1)
    assert line.is_unanswered(11.0, patience=1)
    line.answered = 1
    assert not line.is_unanswered(20.0, patience=1)
    assert not line.is_unanswered(20.0, patience=1)
    assert line.is_unanswered(21.0, patience=1)
    assert [line.mailbox.get_nowait() for _ in range(line.mailbox.qsize())] == [1, 2]


@real_time
async def test_a_lost_lease_found_by_the_thread_stops_the_handler() -> None:
    ears = Ears()
    store = MemStore()
    manager = a_manager(store, lease=seconds(0.3), hooks=ears.hooks())

    @manager.handler("q", "work")
    async def work(payload: None) -> None:
        await anyio.sleep(20)

    async with manager:
        handle = await manager.enqueue("q", "work")
        await ears.wait("before_handle")
        await manager.delete(handle.id)
        with anyio.fail_after(2):
            told = await ears.wait("on_lease_lost")
        assert told.task.id == handle.id
        assert not ears.of("on_done")


@real_time
async def test_a_failing_thread_heartbeat_is_reported_and_recovers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    store = MemStore()
    fail_renewals_of_threads(monkeypatch, store, failing(AWAY, times=1))
    manager = a_manager(store, lease=seconds(0.6))

    @manager.handler("q", "work")
    async def work(payload: None) -> str:
        await anyio.sleep(0.8)
        return "kept"

    async with manager:
        handle = await manager.enqueue("q", "work")
        assert await handle.result(timeout=5) == "kept"
        assert manager.health().last_beat_at is not None
    assert "a heartbeat could not be written" in caplog.text
    assert "heartbeats are written again" in caplog.text


@pytest.mark.single_mode
async def test_the_claim_names_only_handled_types(store: FaultyStore) -> None:
    asked: list[ClaimRequest] = []
    store.before["claim"] = asked.append
    manager = a_manager(store)

    @manager.handler("q", "b")
    async def b(payload: None) -> None: ...

    @manager.handler("q", "a")
    async def a(payload: None) -> None: ...

    foreign = await manager.enqueue("q", "foreign", {"any": "thing"})
    async with manager:
        await anyio.sleep(5)
    assert {request.types for request in asked} == {("a", "b")}
    task = await store.stored(foreign.id)
    assert (task.status, task.attempts) == (Status.PENDING, 0)
