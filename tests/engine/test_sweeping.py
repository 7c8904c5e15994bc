"""The janitor moves what nothing else would move, and sweeps up what belongs to nobody."""

from __future__ import annotations

import logging
from datetime import timedelta

import anyio
import pytest

from gotasks_py import JanitorConfig, Manager, Status, TaskPolicy
from gotasks_py.controls import NodeOrder
from gotasks_py.sweeping import Swept
from gotasks_py.task import TaskId
from tests.engine.world import ONCE, FaultyStore, a_manager, orphan, seconds, settled

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
CONFIG = JanitorConfig(
    reap_interval=seconds(1), rescue_interval=seconds(60), sweep_interval=seconds(600)
)


def working(store: FaultyStore, **settings: object) -> Manager:
    manager = a_manager(store, **{"janitor": CONFIG} | settings)

    @manager.handler("q", "t")
    async def work(payload: None) -> None: ...

    return manager


async def stuck(manager: Manager, store: FaultyStore, policy: TaskPolicy | None = None) -> TaskId:
    handle = await manager.enqueue("q", "t", None, policy)
    store.drop_field(handle.id, "due_at")
    return handle.id


async def test_a_stuck_task_runs_within_an_interval_is_counted_and_told_of(
    store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    producer, manager = a_manager(store), working(store)
    async with manager:
        await anyio.sleep(30)
        task_id = await stuck(producer, store)
        began = anyio.current_time()
        assert (await settled(store, task_id)).status is Status.DONE
        assert anyio.current_time() - began <= 61
    counters = (await store.metrics(since=DAY)).total().counters
    assert (counters.rescued, counters.claimed, counters.done) == (1, 1, 1)
    (said,) = [each for each in caplog.records if each.name == "gotasks_py.janitor"]
    assert f"task {task_id} was pending, and nothing would ever have moved it" in said.message
    assert said.levelno == logging.WARNING


async def test_a_stuck_last_attempt_is_ended_by_the_janitor(store: FaultyStore) -> None:
    manager = working(store)
    handle = await manager.enqueue("q", "t", None, ONCE)
    await orphan(store, "q", "t", seconds(1))
    store.drop_field(handle.id, "reap_at")
    async with manager:
        task = await settled(store, handle.id)
    assert (task.status, [error.kind for error in task.errors]) == (Status.DEAD, ["lease_expired"])


async def test_many_stuck_tasks_are_moved_in_batches_with_rests_between(store: FaultyStore) -> None:
    manager = working(
        store, janitor=JanitorConfig(rescue_interval=seconds(60), reap_batch=2), workers=1
    )
    ids = [await stuck(manager, store) for _ in range(5)]
    async with manager:
        for task_id in ids:
            assert (await settled(store, task_id)).status is Status.DONE


async def test_a_quiet_manager_that_stops_leaves_no_order_behind(store: FaultyStore) -> None:
    manager = working(store)
    async with manager:
        await manager.quiet_node(manager.id)
        await anyio.sleep(2)
        assert await store.node_orders() == {manager.id: NodeOrder.QUIET}
    assert await store.node_orders() == {}


async def test_orders_to_managers_that_died_are_swept_up_after_a_day(
    store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await store.order_node("killed.1", NodeOrder.DRAIN)
    seldom = JanitorConfig(reap_interval=HOUR, rescue_interval=HOUR, sweep_interval=HOUR)
    async with working(store, janitor=seldom, fallback_poll=HOUR):
        await anyio.sleep(DAY.total_seconds() - 1)
        assert list(await store.node_orders()) == ["killed.1"]
        await anyio.sleep(3602)
        assert await store.node_orders() == {}
    assert "forgot what 1 managers that are gone were told" in caplog.messages


async def test_tasks_in_lanes_that_nobody_looked_into_are_run(
    store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    """As when somebody has dropped the record of a queue that had lanes."""
    manager = working(store)
    handle = await manager.enqueue("q", "t")
    store.edit(handle.id, lane=7)
    async with manager:
        assert (await settled(store, handle.id)).status is Status.DONE
    assert "it is recorded with 8 now" in caplog.text
    assert await store.sweep(older_than=DAY, limit=1) == Swept()
