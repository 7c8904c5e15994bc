"""Dead letters come back; nothing else does."""

from __future__ import annotations

import anyio
import pytest

from gotasks_py import lifecycle
from gotasks_py.lifecycle import Failure
from gotasks_py.task import Status, Task
from tests.lab import HOUR, MINUTE, SECOND, Lab, ref_of

pytestmark = pytest.mark.anyio

FAILURE = Failure(1, "worker", "E", "no")
REQUEUE = lifecycle.requeued(fresh_lifetime=False)
REQUEUE_FRESH = lifecycle.requeued(fresh_lifetime=True)


async def a_dead(lab: Lab, **fields: object) -> Task:
    await lab.enqueue(**fields)
    task = await lab.claim(
        queue=str(fields.get("queue", "q")), types=(str(fields.get("type", "t")),)
    )
    assert task is not None
    assert await lab.store.settle(ref_of(task), lifecycle.died(FAILURE))
    return await lab.get(task.id)


async def listed(lab: Lab, queue: str | None = None, type: str | None = None) -> list[object]:
    return [task_id async for task_id in lab.store.dead_ids(queue=queue, type=type)]


async def test_a_dead_letter_starts_over_with_its_history(lab: Lab) -> None:
    dead = await a_dead(lab, payload={"n": 7}, max_attempts=1, tags=["x"])
    lab.edit(dead.id, progress={"percent": 3}, retry_until=dead.created_at)

    requeued = await lab.store.transition(dead.id, REQUEUE)

    assert requeued is not None
    assert (requeued.status, requeued.attempts, requeued.payload) == (Status.PENDING, 0, {"n": 7})
    assert (requeued.errors, requeued.tags) == (dead.errors, ("x",))
    assert requeued.run_at == requeued.due_at == requeued.updated_at
    assert (requeued.result, requeued.progress, requeued.retry_until) == (None, None, None)
    assert requeued.finished_at is None
    again = await lab.claim()
    assert again is not None
    assert (again.id, again.attempts) == (dead.id, 1)


async def test_the_last_holder_cannot_settle_what_came_back(lab: Lab) -> None:
    task = await lab.claimed()
    patch = lifecycle.died(FAILURE)
    await lab.store.settle(ref_of(task), patch)
    await lab.store.transition(task.id, REQUEUE)

    assert await lab.store.settle(ref_of(task), patch) is False


@pytest.mark.parametrize("status", ["pending", "running", "done", "cancelled"])
async def test_only_dead_letters_come_back(lab: Lab, status: str) -> None:
    task_id = await lab.enqueue()
    if status == "cancelled":
        await lab.store.transition(task_id, lifecycle.withdrawn())
    elif status != "pending":
        task = await lab.claim()
        assert task is not None
        if status == "done":
            await lab.store.settle(ref_of(task), lifecycle.completed(None))
    before = lab.raw(task_id)
    assert before["status"] == status

    assert await lab.store.transition(task_id, REQUEUE) is None

    assert lab.raw(task_id) == before


async def test_a_missing_task_does_not_come_back(lab: Lab) -> None:
    assert await lab.store.transition(lab.store.new_id(), REQUEUE) is None


async def test_of_two_requeues_at_once_one_wins(lab: Lab) -> None:
    dead = await a_dead(lab)
    won = list[Task | None]()

    async def requeue() -> None:
        won.append(await lab.store.transition(dead.id, REQUEUE))

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(requeue)

    assert sum(task is not None for task in won) == 1


async def test_a_requeue_keeps_the_end_of_life(lab: Lab) -> None:
    end = lab.store.clock.now() + HOUR
    dead = await a_dead(lab, expires_at=end, ttl_ms=7_200_000)

    requeued = await lab.store.transition(dead.id, REQUEUE)

    assert requeued is not None
    assert requeued.expires_at == end


async def test_a_fresh_lifetime_counts_from_now(lab: Lab) -> None:
    dead = await a_dead(lab, expires_at=lab.store.clock.now() + HOUR, ttl_ms=7_200_000)

    requeued = await lab.store.transition(dead.id, REQUEUE_FRESH)

    assert requeued is not None
    assert requeued.expires_at == requeued.updated_at + 2 * HOUR


async def test_a_fresh_lifetime_of_a_task_without_one_stays_none(lab: Lab) -> None:
    dead = await a_dead(lab)

    assert await lab.store.transition(dead.id, REQUEUE_FRESH) is not None

    assert "expires_at" not in lab.raw(dead.id)


async def test_dead_letters_are_listed_by_queue_and_type_oldest_first(lab: Lab) -> None:
    first = await a_dead(lab)
    lab.pass_time(MINUTE)
    other_type = await a_dead(lab, type="u")
    lab.pass_time(MINUTE)
    other_queue = await a_dead(lab, queue="r")
    lab.pass_time(MINUTE)
    last = await a_dead(lab)
    await lab.enqueue()
    done = await lab.claimed()
    await lab.store.settle(ref_of(done), lifecycle.completed(None))
    lab.pass_time(SECOND)

    assert await listed(lab, "q", "t") == [first.id, last.id]
    assert set(await listed(lab, "q")) == {first.id, other_type.id, last.id}
    assert set(await listed(lab, None, "t")) == {first.id, other_queue.id, last.id}
    assert set(await listed(lab)) == {first.id, other_type.id, other_queue.id, last.id}
    assert await listed(lab, "none") == []


async def test_what_dies_while_the_list_is_read_is_not_in_it(lab: Lab) -> None:
    for _ in range(3):
        await a_dead(lab)
    lab.pass_time(SECOND)
    seen = 0

    async for _ in lab.store.dead_ids(queue="q", type=None):
        seen += 1
        await a_dead(lab)
        assert seen <= 3

    assert seen == 3
