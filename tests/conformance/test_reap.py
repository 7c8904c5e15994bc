"""The janitor ends what nobody may claim again."""

from __future__ import annotations

import anyio
import pytest

from gotasks_py import lifecycle
from gotasks_py.task import Status, Task
from tests.lab import MINUTE, SECOND, Lab, a_renewal, ref_of

pytestmark = pytest.mark.anyio


async def test_a_lapsed_last_attempt_becomes_a_dead_letter(lab: Lab) -> None:
    task = await lab.claimed(max_attempts=1)
    lab.pass_time(2 * MINUTE)

    (reaped,) = await lab.store.reap(10)

    assert (reaped.id, reaped.status, reaped.attempts) == (task.id, Status.DEAD, 1)
    (error,) = reaped.errors
    assert (error.kind, error.attempt, error.worker) == ("lease_expired", 1, "worker")
    assert error.message == "lease of worker expired"
    assert reaped.finished_at == reaped.updated_at == error.at
    assert {"lease", "reap_at", "due_at"}.isdisjoint(lab.raw(task.id))
    assert await lab.get(task.id) == reaped


async def test_what_still_has_a_lease_or_attempts_is_left(lab: Lab) -> None:
    await lab.claimed(max_attempts=1)
    await lab.enqueue(max_attempts=2)
    lapsed = await lab.claim(lease=SECOND)
    assert lapsed is not None
    lab.pass_time(MINUTE / 2)

    assert await lab.store.reap(10) == []
    assert (await lab.get(lapsed.id)).status is Status.RUNNING


async def test_a_renewed_task_is_left(lab: Lab) -> None:
    task = await lab.claimed(max_attempts=1)
    lab.pass_time(2 * MINUTE)
    assert (await lab.store.renew([a_renewal(task)])).lost == frozenset()

    assert await lab.store.reap(10) == []


async def test_a_finished_task_is_left(lab: Lab) -> None:
    task = await lab.claimed(max_attempts=1)
    await lab.store.settle(ref_of(task), lifecycle.completed(None))
    lab.pass_time(2 * MINUTE)

    assert await lab.store.reap(10) == []


async def test_at_most_the_limit_is_reaped_at_once(lab: Lab) -> None:
    await lab.store.insert_many([lab.a_task(max_attempts=1) for _ in range(5)])
    while await lab.claim() is not None:
        pass
    lab.pass_time(2 * MINUTE)

    assert [len(await lab.store.reap(2)) for _ in range(4)] == [2, 2, 1, 0]
    assert await lab.store.reap(0) == []


async def test_the_longest_lapsed_goes_first(lab: Lab) -> None:
    tasks = list[Task]()
    for minutes in (3, 1, 2):
        await lab.enqueue(max_attempts=1)
        task = await lab.claim(lease=minutes * MINUTE)
        assert task is not None
        tasks.append(task)
    lab.pass_time(10 * MINUTE)

    reaped = [task.id for _ in range(3) for task in await lab.store.reap(1)]

    assert reaped == [tasks[1].id, tasks[2].id, tasks[0].id]


async def test_two_janitors_reap_each_task_once(lab: Lab) -> None:
    await lab.store.insert_many([lab.a_task(max_attempts=1) for _ in range(8)])
    while await lab.claim() is not None:
        pass
    lab.pass_time(2 * MINUTE)
    reaped = list[object]()

    async def reap() -> None:
        reaped.extend(task.id for task in await lab.store.reap(100))

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(reap)

    assert len(reaped) == len(set(reaped)) == 8


async def test_a_reaped_task_can_come_back(lab: Lab) -> None:
    task = await lab.claimed(max_attempts=1, unique_key="k")
    lab.pass_time(2 * MINUTE)
    await lab.store.reap(10)

    requeued = await lab.store.transition(task.id, lifecycle.requeued(fresh_lifetime=False))

    assert requeued is not None
    assert (requeued.attempts, requeued.unique_key) == (0, "k")
    again = await lab.claim()
    assert again is not None
    assert [error.kind for error in again.errors] == ["lease_expired"]
