"""Loops that crash are started again; a store that is away is waited for."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from gotasks_py import JanitorConfig, Manager, Status, TaskPolicy
from tests.engine.world import (
    AWAY,
    FaultyStore,
    a_manager,
    fail_renewals_of_threads,
    failing,
    orphan,
    real_time,
    seconds,
    settled,
)

pytestmark = pytest.mark.anyio

BUG = RuntimeError("a bug in the store")


def echoing(store: FaultyStore, **settings: Any) -> Manager:
    manager = a_manager(store, **settings)

    @manager.handler("q", "echo")
    async def echo(number: int) -> int:
        return number

    return manager


@pytest.mark.parametrize("name", ["claim", "settle", "reap"])
async def test_a_loop_that_crashes_is_started_again_and_shows_in_health(
    store: FaultyStore, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    store.before[name] = failing(BUG, times=1)
    manager = echoing(store, workers=1, lease=seconds(2))
    async with manager:
        handle = await manager.enqueue("q", "echo", 5)
        assert await handle.result(timeout=60) == 5
        await anyio.sleep(1)
        health = manager.health()
        assert "RuntimeError: a bug in the store" in "; ".join(health.reasons)
        crashed = [loop for loop in health.loops.values() if loop.restarts]
        assert [(loop.restarts, loop.error) for loop in crashed] == [
            (1, "RuntimeError: a bug in the store")
        ]
        await anyio.sleep(70)
        assert manager.health().ok
        assert sum(loop.restarts for loop in manager.health().loops.values()) == 1
    assert caplog.text.count("crashed, restarting it in") == 1


async def test_a_loop_that_keeps_crashing_backs_off(
    store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.before["reap"] = failing(BUG)
    manager = echoing(store)
    async with manager:
        await anyio.sleep(300)
        assert await (await manager.enqueue("q", "echo", 1)).result(timeout=5) == 1
        assert not manager.health().ok
    assert store.calls["reap"] <= 300 / 4.5 + 10
    assert caplog.text.count("crashed, restarting") == store.calls["reap"]


@pytest.mark.parametrize("times", [None, 200])
async def test_during_an_outage_claims_and_log_lines_are_bounded(
    store: FaultyStore, times: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    """B67: however many workers there are; and the recovery takes less than 5 s."""
    caplog.set_level(logging.INFO, "gotasks_py")
    manager = echoing(store, workers=32)
    async with manager:
        await anyio.sleep(5)
        store.before["claim"] = failing(AWAY)
        before = store.calls["claim"]
        handle = await a_manager(store).enqueue("q", "echo", 7)
        await anyio.sleep(10)
        assert store.calls["claim"] - before <= 20
        del store.before["claim"]
        assert await handle.result(timeout=5) == 7
    lines = [record.getMessage() for record in caplog.records]
    assert len([line for line in lines if "cannot claim tasks" in line]) == 1
    assert len([line for line in lines if "claiming again after" in line]) == 1


async def test_an_outage_while_all_workers_claim_counts_once(store: FaultyStore) -> None:
    manager = echoing(store, workers=16)
    for number in range(64):
        await manager.enqueue("q", "echo", number)
    store.before["claim"] = failing(AWAY, times=16)
    async with manager:
        began = anyio.current_time()
        while any(not task.status.is_final for task in store.all_tasks()):
            await anyio.sleep(0.01)
        assert anyio.current_time() - began < 10
    assert {task.attempts for task in store.all_tasks()} == {1}


async def test_a_janitor_whose_store_is_away_tries_on_and_says_so_once(
    store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.before["reap"] = failing(AWAY, times=5)
    manager = echoing(store)
    handle = await manager.enqueue("q", "echo", 1, TaskPolicy(max_attempts=1))
    await orphan(store, "q", "echo", seconds(1))
    async with manager:
        assert (await settled(store, handle.id)).status is Status.DEAD
    assert caplog.text.count("janitor duty reap failed") == 1


async def test_the_reaper_goes_on_while_batches_are_full(store: FaultyStore) -> None:
    manager = echoing(store, janitor=JanitorConfig(reap_interval=seconds(1000), reap_batch=3))
    for number in range(10):
        await manager.enqueue("q", "echo", number, TaskPolicy(max_attempts=1))
        await orphan(store, "q", "echo", seconds(1))
    await anyio.sleep(2)
    async with manager:
        await anyio.sleep(150)
    assert {task.status for task in store.all_tasks()} == {Status.DEAD}


async def test_without_a_janitor_nobody_reaps(store: FaultyStore) -> None:
    manager = echoing(store, janitor=None)
    async with manager:
        await anyio.sleep(100)
        assert "janitor" not in manager.health().loops
    assert store.calls["reap"] == 0


async def test_a_worker_whose_hand_back_fails_goes_on(store: FaultyStore) -> None:
    """The lease ends by itself."""
    manager = echoing(store, workers=1, lease=seconds(1))
    handle = await manager.enqueue("q", "echo", 3)
    store.after["claim"] = failing(AWAY, times=1)
    store.before["find_claimed"] = failing(AWAY, times=4)
    store.before["settle"] = failing(AWAY, times=2)
    async with manager:
        assert await handle.result(timeout=60) == 3


async def test_a_manager_that_fails_as_a_whole_ends_run_with_its_error(
    store: FaultyStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """B88: so that the process exits with an error."""
    manager = echoing(store)

    def broken(*arguments: object) -> object:
        raise BUG

    monkeypatch.setattr("gotasks_py._crew.Crew.loops", broken)
    with pytest.raises((RuntimeError, ExceptionGroup)) as raised:
        await manager.run()
    assert "a bug in the store" in repr(raised.value)
    assert "failed" in caplog.text
    assert not manager.health().is_running


@real_time
async def test_a_thread_heartbeat_that_crashes_is_started_again(
    monkeypatch: pytest.MonkeyPatch, store: FaultyStore
) -> None:
    fail_renewals_of_threads(monkeypatch, store, failing(BUG, times=1))
    manager = a_manager(store, lease=seconds(6))
    renewed = anyio.Event()

    @manager.handler("q", "work")
    async def work(payload: None) -> str:
        await renewed.wait()
        return "kept"

    async with manager:
        handle = await manager.enqueue("q", "work")
        first = None
        while (lease := (await store.stored(handle.id)).lease) is None or first in {None, lease}:
            first = lease
            await anyio.sleep(0.05)
        assert manager.health().loops["heartbeat"].restarts == 1
        renewed.set()
        assert await handle.result(timeout=20) == "kept"
    assert (await store.stored(handle.id)).attempts == 1
