"""Health is proven by recent claims and heartbeats, not by uptime."""

from __future__ import annotations

import anyio
import pytest

from gotasks_py import MetricsConfig, TaskContext
from tests.engine.world import AWAY, Ears, FaultyStore, a_manager, failing, seconds

pytestmark = pytest.mark.anyio


async def test_a_manager_that_is_not_running_is_not_healthy(store: FaultyStore) -> None:
    health = a_manager(store).health()
    assert not health.ok
    assert not health.is_running
    assert health.reasons == ["the manager is not running"]


async def test_an_idle_and_a_busy_manager_are_healthy(store: FaultyStore) -> None:
    manager = a_manager(store, hooks=(ears := Ears()).hooks(), lease=seconds(6))

    @manager.handler("q", "work")
    async def work(payload: None) -> None:
        await anyio.sleep(1000)

    async with manager:
        await anyio.sleep(100)
        idle = manager.health()
        assert (idle.ok, idle.running_tasks, idle.workers) == (True, 0, 2)
        assert idle.last_claim_at is not None
        assert store.clock.now() - idle.last_claim_at <= seconds(33.1)
        assert idle.is_stream_connected
        for _ in range(2):
            await manager.enqueue("q", "work")
        await ears.wait("before_handle", 2)
        await anyio.sleep(100)
        busy = manager.health()
        assert (busy.ok, busy.running_tasks) == (True, 2)
        assert busy.last_beat_at is not None
        assert {name.partition(".")[0] for name in busy.loops} >= {"ticker", "heartbeat", "janitor"}
        await manager.stop(timeout=0)


async def test_a_store_that_is_away_shows_until_it_is_back(store: FaultyStore) -> None:
    """B88: for the 30 s that it is away, and no longer."""
    manager = a_manager(store, hooks=(ears := Ears()).hooks(), lease=seconds(3))

    @manager.handler("q", "work")
    async def work(payload: None) -> None:
        await anyio.sleep(100)

    async with manager:
        await manager.enqueue("q", "work")
        await ears.wait("before_handle")
        store.before.update(claim=failing(AWAY), renew=failing(AWAY))
        await anyio.sleep(2.5)
        assert any(
            reason.startswith("heartbeats fail since") for reason in manager.health().reasons
        )
        await anyio.sleep(27.5)  # its lease is over, and there is nothing left to renew
        (reason,) = manager.health().reasons
        assert reason.startswith("claims from q fail since")
        store.before.clear()
        await anyio.sleep(5)
        await ears.wait("before_handle", 2)
        await anyio.sleep(2)
        assert manager.health().reasons == []
        await manager.stop(timeout=0)


async def test_a_heartbeat_that_failed_is_forgotten_with_the_task_that_it_was_for(
    store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    """A manager that is idle, or whose tasks end before a beat is due, has nothing to renew."""
    manager = a_manager(store, hooks=(ears := Ears()).hooks(), lease=seconds(3))

    @manager.handler("q", "work")
    async def work(lasting: float) -> None:
        await anyio.sleep(lasting)

    async with manager:
        store.before["renew"] = failing(AWAY)
        await manager.enqueue("q", "work", 2.0)
        await ears.wait("before_handle")
        await anyio.sleep(1.5)
        (reason,) = manager.health().reasons
        assert reason.startswith("heartbeats fail since")
        await ears.wait("on_done")
        await anyio.sleep(1)
        assert manager.health().ok
        store.before.clear()
        await manager.enqueue("q", "work", 0.5)
        await ears.wait("before_handle", 2)
        assert manager.health().ok
        await ears.wait("on_done", 2)

        store.before["renew"] = failing(AWAY)
        await manager.enqueue("q", "work", 2.0)
        await ears.wait("before_handle", 3)
        await anyio.sleep(1.5)
        assert not manager.health().ok
        assert caplog.text.count("a heartbeat could not be written") == 2


async def test_a_lease_that_is_extended_says_nothing_of_the_others(store: FaultyStore) -> None:
    manager = a_manager(store, hooks=(ears := Ears()).hooks(), lease=seconds(3))

    @manager.handler("q", "extends")
    async def extends(ctx: TaskContext, payload: None) -> None:
        await anyio.sleep(1.5)
        store.before.clear()
        await ctx.extend_lease(seconds(20))
        store.before["renew"] = failing(AWAY)
        await anyio.sleep(100)

    @manager.handler("q", "work")
    async def work(payload: None) -> None:
        await anyio.sleep(100)

    async with manager:
        store.before["renew"] = failing(AWAY)
        await manager.enqueue("q", "extends")
        await manager.enqueue("q", "work")
        await ears.wait("before_handle", 2)
        await anyio.sleep(1.6)
        (reason,) = manager.health().reasons
        assert reason.startswith("heartbeats fail since")
        await manager.stop(timeout=0)


async def test_claims_that_failed_are_no_concern_of_a_queue_that_was_paused(
    store: FaultyStore,
) -> None:
    manager, operator = a_manager(store), a_manager(store)

    @manager.handler("q", "work")
    async def work(payload: None) -> None: ...

    async with manager:
        store.before["claim"] = failing(AWAY)
        await operator.enqueue("q", "work")
        await anyio.sleep(5)
        (reason,) = manager.health().reasons
        assert reason.startswith("claims from q fail since")
        await operator.pause("q")
        await anyio.sleep(5)
        assert manager.health().ok
        await operator.resume("q")
        await anyio.sleep(10)
        assert not manager.health().ok
        store.before.clear()
        await anyio.sleep(10)
        assert manager.health().ok


async def test_reports_that_are_not_written_show_until_they_are(store: FaultyStore) -> None:
    """A manager that works, and that nobody knows of, is no manager to rely on."""
    manager = a_manager(store, metrics=MetricsConfig(interval=seconds(10)))

    @manager.handler("q", "work")
    async def work(payload: None) -> None: ...

    async with manager:
        await anyio.sleep(60)
        health = manager.health()
        assert health.ok
        assert health.last_report_at is not None
        assert store.clock.now() - health.last_report_at <= seconds(11)
        store.before["report"] = failing(AWAY)
        await anyio.sleep(15)
        assert manager.health().ok
        await anyio.sleep(30)
        (reason,) = manager.health().reasons
        assert reason.startswith("nothing was reported since ")
        assert manager.health().is_alive
        store.before.clear()
        await anyio.sleep(11)
        assert manager.health().ok


async def test_a_manager_that_is_not_to_report_is_not_missed(store: FaultyStore) -> None:
    manager = a_manager(store, metrics=None)

    @manager.handler("q", "work")
    async def work(payload: None) -> None: ...

    async with manager:
        await anyio.sleep(100)
        health = manager.health()
        assert (health.ok, health.last_report_at) == (True, None)


async def test_claims_that_hang_are_seen(store: FaultyStore) -> None:
    """B88: no error says so; only the silence does."""
    manager = a_manager(store, workers=1, lease=seconds(10))
    gate = anyio.Event()

    @manager.handler("q", "work")
    async def work(payload: None) -> None: ...

    claim = store.claim

    async def hang(*arguments: object) -> object:
        await gate.wait()
        return await claim(*arguments)  # type: ignore[arg-type]

    async with manager:
        await anyio.sleep(5)
        store.claim = hang  # type: ignore[method-assign, assignment]
        await a_manager(store).enqueue("q", "work")
        await anyio.sleep(20)
        assert "no claim from q was answered since" in manager.health().reasons[0]
        gate.set()
        await anyio.sleep(2)
        assert manager.health().ok


async def test_all_workers_wedged_is_no_lie(store: FaultyStore) -> None:
    """B88: handlers that hang for good, deaf to their time limit, leave nobody to work."""
    manager = a_manager(
        store, hooks=(ears := Ears()).hooks(), lease=seconds(6), timeout=seconds(10)
    )
    release = anyio.Event()

    @manager.handler("q", "work")
    async def work(payload: None) -> None:
        with anyio.CancelScope(shield=True):
            await release.wait()

    async with manager:
        for _ in range(3):
            await manager.enqueue("q", "work")
        await ears.wait("before_handle", 2)
        await anyio.sleep(60)
        health = manager.health()
        assert health.running_tasks == health.workers == 2
        assert not health.ok
        release.set()
        await anyio.sleep(30)
        assert manager.health().ok


async def test_a_lapsed_lease_without_a_heartbeat_shows(store: FaultyStore) -> None:
    manager = a_manager(
        store, hooks=(ears := Ears()).hooks(), lease=seconds(5), heartbeat=False, workers=1
    )

    @manager.handler("q", "work")
    async def work(payload: None) -> None:
        await anyio.sleep(20)

    async with manager:
        await manager.enqueue("q", "work")
        await ears.wait("before_handle")
        await anyio.sleep(10)
        assert "the leases of 1 running tasks are not renewed" in manager.health().reasons
