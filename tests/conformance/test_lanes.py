"""A queue of several lanes: nothing is stranded, keys stay unique, order holds within a lane."""

from __future__ import annotations

from collections import defaultdict

import pytest

from gotasks_py import Enqueue, Manager, QueuePolicy, TaskPolicy, lifecycle
from gotasks_py.errors import DuplicateTaskError
from gotasks_py.lanes import Lanes
from gotasks_py.lifecycle import Failure
from gotasks_py.task import Status, Task, TaskId
from tests.lab import MINUTE, SECOND, Lab, ref_of

pytestmark = pytest.mark.anyio

FAILURE = Failure(1, "worker", "E", "no")


async def a_producer(lab: Lab, lanes: int) -> Manager:
    """Change the queue's lanes, and make a manager that knows it."""
    policy = QueuePolicy("q", lanes=lanes)
    await lab.store.set_queue_policy(policy)
    return Manager(lab.store, queues=[policy])


async def drained(lab: Lab) -> list[Task]:
    """Claim from all lanes until there is nothing."""
    lanes = Lanes.from_document((await lab.store.queues())["q"])
    tasks = list[Task]()
    while (task := await lab.claim(lanes=tuple(range(lanes.most)))) is not None:
        tasks.append(task)
    return tasks


async def test_tasks_are_spread_over_the_lanes(lab: Lab) -> None:
    producer = await a_producer(lab, 4)

    await producer.enqueue_many(Enqueue("q", "t", number) for number in range(60))

    by_lane = defaultdict[int, list[TaskId]](list)
    for task in await drained(lab):
        by_lane[task.lane].append(task.id)
    assert set(by_lane) == {0, 1, 2, 3}
    assert sum(map(len, by_lane.values())) == 60


async def test_with_one_lane_every_task_is_in_lane_0(lab: Lab) -> None:
    producer = await a_producer(lab, 1)
    for number in range(5):
        await producer.enqueue("q", "t", number, TaskPolicy(unique_key=f"k{number}"))
        await producer.enqueue("q", "t", number)

    assert {task.lane for task in await drained(lab)} == {0}


async def test_order_holds_within_a_lane(lab: Lab) -> None:
    now = lab.store.clock.now()
    expected = defaultdict[int, list[TaskId]](list)
    for number in range(24):
        lane, priority = number % 3, -(number // 12)
        due_at = now - MINUTE + number * SECOND
        task_id = await lab.enqueue(lane=lane, priority=priority, due_at=due_at)
        expected[lane].append(task_id)
    taken = defaultdict[int, list[TaskId]](list)

    for number in range(24):
        lanes = (0, 1, 2) if number % 5 == 0 else (number % 3,)
        task = await lab.claim(lanes=lanes)
        if task is not None:
            taken[task.lane].append(task.id)
    while (task := await lab.claim(lanes=(0, 1, 2))) is not None:
        taken[task.lane].append(task.id)

    assert taken == expected


@pytest.mark.parametrize("changes", [(1, 16), (16, 1), (8, 3, 16), (2, 1, 2)])
async def test_a_key_stays_unique_and_nothing_is_stranded_while_lanes_change(
    lab: Lab, changes: tuple[int, ...]
) -> None:
    names = [f"k{number}" for number in range(20)]
    ids = set[TaskId]()
    for number, lanes in enumerate(changes):
        producer = await a_producer(lab, lanes)
        for name in names:
            policy = TaskPolicy(unique_key=name)
            if number == 0:
                ids.add((await producer.enqueue("q", "t", 0, policy)).id)
                continue
            with pytest.raises(DuplicateTaskError) as refused:
                await producer.enqueue("q", "t", 0, policy)
            assert refused.value.existing_id in ids
        handles = await producer.enqueue_many(Enqueue("q", "t", n) for n in range(40))
        ids |= {handle.id for handle in handles}

    taken = await drained(lab)

    assert len(taken) == len(ids) == 20 + 40 * len(changes)
    assert {task.id for task in taken} == ids


async def test_a_dead_letter_takes_its_key_again_in_its_lane(lab: Lab) -> None:
    producer = await a_producer(lab, 8)
    policy = TaskPolicy(unique_key="k")
    dead_id = (await producer.enqueue("q", "t", 0, policy)).id
    (task,) = await drained(lab)
    assert await lab.store.settle(ref_of(task), lifecycle.died(FAILURE))
    producer = await a_producer(lab, 2)
    holder = await producer.enqueue("q", "t", 1, policy)

    with pytest.raises(DuplicateTaskError) as refused:
        await producer.requeue(dead_id)

    assert refused.value.existing_id == holder.id
    (task,) = await drained(lab)
    assert await lab.store.settle(ref_of(task), lifecycle.completed(None))
    requeued = await producer.requeue(dead_id)
    assert (requeued.status, requeued.lane) == (Status.PENDING, task.lane)
    assert [each.id for each in await drained(lab)] == [dead_id]


async def test_a_lease_of_any_lane_is_renewed_lapses_and_is_reaped(lab: Lab) -> None:
    lanes = tuple(range(4))
    for lane in lanes:
        await lab.enqueue(lane=lane, max_attempts=1 + lane % 2)
    tasks = [task for _ in lanes if (task := await lab.claim(lanes=lanes))]
    assert sorted(task.lane for task in tasks) == [0, 1, 2, 3]
    for task in tasks:
        assert await lab.store.is_held(ref_of(task))
        assert await lab.store.settle(ref_of(task), lifecycle.progressed(1))

    lab.pass_time(2 * MINUTE)

    assert {task.lane for task in await lab.store.reap(10)} == {0, 2}
    again = [await lab.claim(lanes=lanes) for _ in range(3)]
    assert {task and task.lane for task in again} == {1, 3, None}
