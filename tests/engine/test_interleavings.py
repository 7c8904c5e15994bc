"""Several managers on one store, under seeded random timing, crashes and lost replies.

What must hold whatever happens: no task is lost, none that may run once runs twice, and the
result that is stored belongs to the attempt that settled the task.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest

from gotasks_py import (
    Fixed,
    JanitorConfig,
    Manager,
    Snooze,
    Status,
    StoreUnavailableError,
    TaskContext,
    TaskPolicy,
)
from gotasks_py.task import TaskId
from tests.engine.world import FaultyStore, a_manager, seconds

pytestmark = pytest.mark.anyio

MANAGERS = 3
TASKS = 60


class Storm:
    """One run: what was started, and by whom, as the handlers saw it."""

    def __init__(self, store: FaultyStore, seed: int) -> None:
        self.store = store
        self.random = random.Random(seed)
        self.starts: Counter[TaskId] = Counter()
        self.tokens: dict[TaskId, list[str]] = {}
        self.running: Counter[TaskId] = Counter()
        self.is_calm = False
        for name in ("claim", "find_claimed", "settle", "renew", "reap"):
            store.before[name] = self.trouble
            store.after[name] = self.trouble

    def trouble(self, *arguments: object) -> None:
        if not self.is_calm and self.random.random() < 0.1:
            raise StoreUnavailableError("the wire is cut")

    def manager(self) -> Manager:
        manager = a_manager(
            self.store,
            workers=4,
            lease=seconds(2),
            backoff=Fixed(seconds(1)),
            janitor=JanitorConfig(reap_interval=seconds(1)),
        )
        manager.handler("q", "work")(self.work)
        return manager

    async def work(self, ctx: TaskContext, number: int) -> str:
        self.starts[ctx.id] += 1
        self.tokens.setdefault(ctx.id, []).append(ctx.lease.token)
        await anyio.sleep(self.random.choice([0, 0.01, 0.3, 1.5, 4]))
        chance = self.random.random()
        if chance < 0.15:
            raise ValueError
        if chance < 0.2 and not ctx.task.is_at_most_once:
            raise Snooze(seconds(0.5))
        if chance < 0.25:
            # Longer than the lease, and deaf to its loss.
            with anyio.CancelScope(shield=True):
                await anyio.sleep(3)
        return ctx.lease.token

    async def blow(self, ids: list[TaskId]) -> None:
        """Run managers, each stopped now and then as a deploy or a crash would."""
        async with anyio.create_task_group() as group:
            for _ in range(MANAGERS):
                group.start_soon(self.live)
            await anyio.sleep(60)
            self.is_calm = True
            with anyio.fail_after(3600):
                while not all([(await self.store.stored(each)).status.is_final for each in ids]):
                    await anyio.sleep(1)
            group.cancel_scope.cancel()

    async def live(self) -> None:
        while True:
            manager = self.manager()
            await manager.start()
            try:
                await anyio.sleep(self.random.uniform(1, 20))
            finally:
                with anyio.CancelScope(shield=True):
                    await manager.stop(timeout=self.random.choice([0, 0.5, 5]))


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_happens_nothing_is_lost_and_nothing_done_twice(
    store: FaultyStore, seed: int
) -> None:
    storm = Storm(store, seed)
    producer = a_manager(store)
    once: set[TaskId] = set()
    ids: list[Any] = []
    for number in range(TASKS):
        attempts = storm.random.choice([1, 1, 3, 50])
        delay = seconds(storm.random.choice([0, 0, 5, 30]))
        policy = TaskPolicy(max_attempts=attempts, delay=delay)
        handle = await producer.enqueue("q", "work", number, policy)
        ids.append(handle.id)
        if attempts == 1:
            once.add(handle.id)
    await storm.blow(ids)

    tasks = [await store.stored(task_id) for task_id in ids]
    assert {task.status for task in tasks} <= {Status.DONE, Status.DEAD}
    assert {task_id: storm.starts[task_id] for task_id in once if storm.starts[task_id] > 1} == {}
    for task in tasks:
        tokens = storm.tokens.get(task.id, [])
        assert len(set(tokens)) == len(tokens)
        assert task.attempts <= task.max_attempts
        assert task.lease is None
        assert task.due_at is None
        if task.status is Status.DONE:
            # Later claims would have another token: the result is the settling attempt's.
            assert task.result == {"value": tokens[-1]}
        else:
            assert task.errors


@pytest.mark.parametrize("seed", range(4))
async def test_unique_keys_hold_while_tasks_come_and_go(store: FaultyStore, seed: int) -> None:
    chance = random.Random(seed)
    active: Counter[str] = Counter()
    most: Counter[str] = Counter()
    managers = [a_manager(store, workers=4, max_attempts=1) for _ in range(MANAGERS)]

    async def work(key: str) -> None:
        active[key] += 1
        most[key] = max(most[key], active[key])
        await anyio.sleep(chance.random())
        active[key] -= 1
        if chance.random() < 0.3:
            raise ValueError

    async def produce(manager: Manager) -> None:
        for _ in range(100):
            key = chance.choice("abc")
            policy = TaskPolicy(unique_key=key)
            await manager.enqueue("q", "work", key, policy, on_conflict="return")
            await anyio.sleep(chance.random() / 5)
            if chance.random() < 0.1:
                await manager.requeue_dead()

    async with AsyncExitStack() as stack:
        for manager in managers:
            manager.handler("q", "work")(work)
            await stack.enter_async_context(manager)
        async with anyio.create_task_group() as group:
            for manager in managers:
                group.start_soon(produce, manager)
    assert set(most.values()) == {1}
