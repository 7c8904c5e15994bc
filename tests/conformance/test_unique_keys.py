"""At most one active task of a queue holds a key."""

from __future__ import annotations

import pytest

from gotasks_py import lifecycle
from gotasks_py.errors import DuplicateTaskError
from gotasks_py.lifecycle import Failure
from gotasks_py.task import Status
from tests.lab import MINUTE, SECOND, Lab, ref_of

pytestmark = pytest.mark.anyio

FAILURE = Failure(1, "worker", "E", "no")


async def assert_held_by(lab: Lab, holder: object, key: str = "k") -> None:
    with pytest.raises(DuplicateTaskError) as refused:
        await lab.enqueue(unique_key=key)
    assert refused.value.existing_id == holder
    assert (refused.value.queue, refused.value.unique_key) == ("q", key)


async def test_a_second_task_with_the_key_is_refused_and_not_stored(lab: Lab) -> None:
    holder = await lab.enqueue(unique_key="k")
    second = lab.a_task(unique_key="k", type="other")

    with pytest.raises(DuplicateTaskError) as refused:
        await lab.store.insert(second)

    assert refused.value.existing_id == holder
    assert await lab.store.get(second["_id"]) is None


async def test_tasks_without_a_key_do_not_collide(lab: Lab) -> None:
    first, second = await lab.enqueue(), await lab.enqueue()

    assert (await lab.get(first)).id != (await lab.get(second)).id


async def test_keys_of_different_queues_do_not_collide(lab: Lab) -> None:
    ids = [
        await lab.enqueue(unique_key="k"),
        await lab.enqueue(unique_key="k", queue="other"),
        await lab.enqueue(unique_key="K"),
    ]

    assert [(await lab.get(each)).unique_key for each in ids] == ["k", "k", "K"]


async def test_a_key_is_held_while_the_task_is_active(lab: Lab) -> None:
    task = await lab.claimed(unique_key="k")
    await assert_held_by(lab, task.id)

    await lab.store.settle(ref_of(task), lifecycle.retried(FAILURE, MINUTE))
    await assert_held_by(lab, task.id)

    lab.pass_time(2 * MINUTE)
    again = await lab.claim()
    assert again is not None
    await lab.store.settle(ref_of(again), lifecycle.released())
    await assert_held_by(lab, task.id)


async def test_a_lapsed_lease_lets_go_of_no_key(lab: Lab) -> None:
    task = await lab.claimed(unique_key="k")
    lab.pass_time(2 * MINUTE)
    await assert_held_by(lab, task.id)

    assert await lab.claim() is not None
    await assert_held_by(lab, task.id)


@pytest.mark.parametrize("end", ["done", "dead", "cancelled", "withdrawn", "reaped"])
async def test_a_final_task_frees_its_key_and_remembers_it(lab: Lab, end: str) -> None:
    task_id = await lab.enqueue(unique_key="k", max_attempts=1)
    if end == "withdrawn":
        await lab.store.transition(task_id, lifecycle.withdrawn())
    else:
        task = await lab.claim()
        assert task is not None
        if end == "done":
            await lab.store.settle(ref_of(task), lifecycle.completed(None))
        elif end == "dead":
            await lab.store.settle(ref_of(task), lifecycle.died(FAILURE))
        elif end == "cancelled":
            await lab.store.transition(task_id, lifecycle.cancel_requested())
            await lab.store.settle(ref_of(task), lifecycle.cancelled())
        else:
            lab.pass_time(2 * MINUTE)
            assert len(await lab.store.reap(10)) == 1

    finished = await lab.get(task_id)
    assert finished.status.is_final
    assert finished.unique_key == "k"
    assert lab.raw(task_id)["released_key"] == "k"
    assert "unique_key" not in lab.raw(task_id)
    await lab.enqueue(unique_key="k")


async def test_a_task_without_a_key_remembers_none(lab: Lab) -> None:
    task = await lab.claimed()

    await lab.store.settle(ref_of(task), lifecycle.completed(None))

    assert {"unique_key", "released_key"}.isdisjoint(lab.raw(task.id))


async def test_the_key_comes_back_with_a_requeue(lab: Lab) -> None:
    task = await lab.claimed(unique_key="k")
    await lab.store.settle(ref_of(task), lifecycle.died(FAILURE))

    requeued = await lab.store.transition(task.id, lifecycle.requeued(fresh_lifetime=False))

    assert requeued is not None
    assert requeued.unique_key == "k"
    assert "released_key" not in lab.raw(task.id)
    await assert_held_by(lab, task.id)


async def test_a_requeue_whose_key_is_taken_is_refused_and_changes_nothing(lab: Lab) -> None:
    task = await lab.claimed(unique_key="k")
    await lab.store.settle(ref_of(task), lifecycle.died(FAILURE))
    holder = await lab.enqueue(unique_key="k")
    before = lab.raw(task.id)

    with pytest.raises(DuplicateTaskError) as refused:
        await lab.store.transition(task.id, lifecycle.requeued(fresh_lifetime=False))

    assert refused.value.existing_id == holder
    assert refused.value.unique_key == "k"
    assert lab.raw(task.id) == before


async def test_of_two_dead_letters_with_one_key_one_comes_back(lab: Lab) -> None:
    dead = list[object]()
    for _ in range(2):
        task = await lab.claimed(unique_key="k")
        await lab.store.settle(ref_of(task), lifecycle.died(FAILURE))
        dead.append(task.id)
    requeue = lifecycle.requeued(fresh_lifetime=False)
    assert await lab.store.transition(dead[0], requeue) is not None

    with pytest.raises(DuplicateTaskError) as refused:
        await lab.store.transition(dead[1], requeue)

    assert refused.value.existing_id == dead[0]
    assert (await lab.get(dead[1])).status is Status.DEAD


@pytest.mark.parametrize("key", ["$k", "a.b", "", " ", "🦀", "x" * 200])
async def test_a_key_may_look_like_anything(lab: Lab, key: str) -> None:
    """Names are checked before a store sees them; a store takes what it is given."""
    task = await lab.claimed(unique_key=key)
    await assert_held_by(lab, task.id, key)

    await lab.store.settle(ref_of(task), lifecycle.died(FAILURE))
    requeued = await lab.store.transition(task.id, lifecycle.requeued(fresh_lifetime=False))

    assert requeued is not None
    assert lab.raw(task.id)["unique_key"] == key
    assert await lab.claim() is not None
    lab.pass_time(SECOND)
