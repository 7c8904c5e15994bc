"""A manager takes on workers while work waits, and sends home those that it can spare."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import anyio
import pytest

from gotasks_py import (
    ConfigurationError,
    Enqueue,
    Manager,
    MetricsConfig,
    PipelineMode,
    QueuePolicy,
    Status,
)
from gotasks_py.autoscaling import ScalingConfig
from tests.engine.world import (
    AWAY,
    EAGER,
    FaultyStore,
    a_manager,
    failing,
    seconds,
    settled,
)

pytestmark = pytest.mark.anyio

SCALING = ScalingConfig(
    least=2, most=16, target_wait=seconds(1), pause_up=seconds(3), pause_down=seconds(20)
)
both = pytest.mark.parametrize("how", [None, EAGER], ids=["single", "pipeline"])
METRICS = MetricsConfig(interval=seconds(5))


class Crowd:
    """A handler that notes how many tasks of each queue run at once."""

    def __init__(self, *managers: Manager, length: float = 10) -> None:
        self.now = dict.fromkeys("qr", 0)
        self.most = dict.fromkeys("qr", 0)
        self.ended = 0
        self._length = length
        for manager in managers:
            for queue in manager.queues:
                manager.handler(queue, "t")(self._work(queue))

    def _work(self, queue: str) -> Callable[[None], Any]:
        async def work(payload: None) -> None:
            self.now[queue] += 1
            self.most[queue] = max(self.most[queue], self.now[queue])
            await anyio.sleep(self._length)
            self.now[queue] -= 1
            self.ended += 1

        return work


async def many(manager: Manager, number: int, queue: str = "q") -> None:
    await manager.enqueue_many([Enqueue(queue, "t") for _ in range(number)])


async def until(goal: Callable[[], bool]) -> None:
    while not goal():
        await anyio.sleep(0.1)


def scaled(store: FaultyStore, *queues: str | QueuePolicy, **settings: Any) -> Manager:
    return a_manager(store, *queues, **{"workers": SCALING, "metrics": METRICS} | settings)


def decisions(caplog: pytest.LogCaptureFixture) -> list[tuple[int, int]]:
    said = [each.message for each in caplog.records if each.name == "gotasks_py.scaling"]
    found = [re.match(r"(\d+) workers instead of (\d+): .*wanted", each) for each in said]
    return [(int(each[2]), int(each[1])) for each in found if each]


@both
async def test_workers_follow_what_waits_up_and_down_and_nothing_is_interrupted(
    store: FaultyStore, caplog: pytest.LogCaptureFixture, how: PipelineMode | None
) -> None:
    caplog.set_level(logging.INFO)
    manager = scaled(store, mode=how)
    crowd = Crowd(manager)
    async with manager:
        await anyio.sleep(2)
        loops = len(manager.health().loops)
        assert (manager.health().workers, manager.health().most_workers) == (2, 16)
        await many(manager, 60)
        await until(lambda: crowd.ended == 60)
        assert crowd.most["q"] == 16
        await until(lambda: manager.health().workers == 2)
        await anyio.sleep(5)
        assert len(manager.health().loops) == loops
        assert manager.health().ok
        # Whoever is left works on.
        await many(manager, 2)
        await until(lambda: crowd.ended == 62)
    steps = decisions(caplog)
    assert steps[:3] == [(2, 4), (4, 8), (8, 16)]
    assert steps[-1][1] == 2
    assert all(after >= before // 2 for before, after in steps)
    tasks = store.all_tasks()
    assert {(task.status, task.attempts, task.interruptions) for task in tasks} == {
        (Status.DONE, 1, 0)
    }


@both
async def test_those_who_are_too_many_finish_what_they_run(
    store: FaultyStore, how: PipelineMode | None
) -> None:
    """Workers leave between two tasks, even where all of them are busy for long."""
    eager = ScalingConfig(least=1, most=8, target_wait=seconds(1), pause_down=seconds(1))
    manager = scaled(store, workers=eager, mode=how)
    crowd = Crowd(manager, length=200)
    async with manager:
        await many(manager, 8)
        await until(lambda: crowd.now["q"] == 8)
        await manager.pause("q")
        for _ in range(100):
            assert crowd.now["q"] == 8
            await anyio.sleep(1)
        await until(lambda: crowd.ended == 8)
        await until(lambda: manager.health().workers == 1)
        await manager.resume("q")
        await many(manager, 1)
        await until(lambda: crowd.ended == 9)
    assert all(task.interruptions == 0 for task in store.all_tasks())


async def test_each_change_waits_until_the_last_one_shows(
    store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    manager = scaled(store)
    Crowd(manager)
    sizes: list[tuple[float, int]] = []
    async with manager:
        await many(manager, 80)
        began = anyio.current_time()
        while anyio.current_time() - began < 200:
            if not sizes or manager.health().workers != sizes[-1][1]:
                sizes.append((anyio.current_time(), manager.health().workers))
            await anyio.sleep(0.1)
    for (earlier, before), (later, after) in pairwise(sizes[1:]):
        assert later - earlier >= (2.8 if after > before else 19.8)
    assert sizes[-1][1] == 2
    assert len(decisions(caplog)) == len(sizes) - 1


async def test_queues_share_the_workers_by_weight_while_they_are_too_few(
    store: FaultyStore,
) -> None:
    manager = scaled(store, QueuePolicy("q", weight=3), QueuePolicy("r", weight=1))
    crowd = Crowd(manager)
    async with manager:
        # Alone, a queue has all of them.
        await many(manager, 32, "r")
        await until(lambda: crowd.now["r"] == 16)
        await many(manager, 100)
        await many(manager, 100, "r")
        await anyio.sleep(30)
        for _ in range(20):
            assert crowd.now["q"] + crowd.now["r"] >= 15
            assert 3 <= crowd.now["r"] <= 5
            await anyio.sleep(1)


async def test_a_queue_with_workers_of_its_own_keeps_them(store: FaultyStore) -> None:
    manager = scaled(store, QueuePolicy("q", workers=3), "r")
    crowd = Crowd(manager)
    async with manager:
        assert (manager.health().workers, manager.health().most_workers) == (5, 19)
        await many(manager, 50)
        await until(lambda: crowd.ended == 50)
        assert (crowd.most["q"], manager.health().workers) == (3, 5)


async def test_an_operators_limit_holds_however_many_workers_there_are(store: FaultyStore) -> None:
    manager = scaled(store)
    crowd = Crowd(manager)
    async with manager:
        await manager.enqueue("q", "t")
        await manager.set_queue_policy("q", workers=5)
        await many(manager, 60)
        await until(lambda: crowd.ended >= 31)
        # More workers than that would do nothing.
        assert manager.health().workers == 5
        await until(lambda: crowd.ended == 61)
    assert crowd.most["q"] == 5


async def test_managers_share_what_waits(store: FaultyStore) -> None:
    """Each alone would take on all that it may."""
    managers = [scaled(store) for _ in range(2)]
    crowd = Crowd(*managers)
    async with managers[0], managers[1]:
        await anyio.sleep(30)
        await many(managers[0], 12)
        await until(lambda: crowd.ended == 12)
        assert all(manager.health().workers <= 8 for manager in managers)


async def test_a_store_that_is_away_changes_nothing(
    store: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*arguments: object, **settings: object) -> None:
        raise AWAY

    manager = scaled(store)
    Crowd(manager)
    async with manager:
        monkeypatch.setattr(store, "count_tasks", away)
        await many(manager, 50)
        await anyio.sleep(30)
        assert manager.health().workers == 2
        assert manager.health().ok
        monkeypatch.undo()
        await until(lambda: manager.health().workers == 16)


async def test_a_stop_while_workers_are_taken_on_loses_nothing(store: FaultyStore) -> None:
    manager = scaled(store)
    Crowd(manager)
    async with manager:
        await many(manager, 50)
        await until(lambda: manager.health().workers == 8)
        await manager.stop(timeout=0.5)
    tasks = store.all_tasks()
    assert {task.status for task in tasks} == {Status.PENDING}
    assert all(task.attempts == 0 for task in tasks)


async def test_claims_that_fail_do_not_keep_workers_from_leaving(store: FaultyStore) -> None:
    manager = scaled(store)
    crowd = Crowd(manager)
    async with manager:
        await many(manager, 40)
        await until(lambda: crowd.ended == 40)
        store.before["claim"] = failing(AWAY)
        await until(lambda: manager.health().workers == 2)
        del store.before["claim"]
        handle = await manager.enqueue("q", "t")
        assert (await settled(store, handle.id)).status is Status.DONE


async def test_what_are_no_bounds_is_refused(store: FaultyStore) -> None:
    for workers in (0, -1, "many", (1, 8), None, True):
        with pytest.raises(ConfigurationError, match="workers"):
            a_manager(store, workers=workers)
    manager = a_manager(store)
    with pytest.raises(ConfigurationError, match="workers"):
        manager.override(workers=0)
    manager.override(workers=SCALING)
