"""What one write makes of many running tasks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from gotasks_py import lifecycle
from gotasks_py.lifecycle import Failure
from gotasks_py.task import LeaseRef, Status, Task
from tests.lab import HOUR, MINUTE, Lab, ref_of, token_of

pytestmark = pytest.mark.anyio

FAILURE = Failure(1, "worker", "ValueError", "no")


async def some_claimed(lab: Lab, number: int, **fields: object) -> Sequence[Task]:
    await lab.store.insert_many([lab.a_task(**fields) for _ in range(number)])
    tasks = await lab.claim_many(number)
    assert len(tasks) == number
    return tasks


def refs_of(tasks: Sequence[Task]) -> list[LeaseRef]:
    return [ref_of(task) for task in tasks]


async def test_nothing_to_settle_is_nothing_refused(lab: Lab) -> None:
    assert await lab.store.settle_many([], lifecycle.completed(None)) == frozenset()


@pytest.mark.parametrize(
    ("patch", "status"),
    [
        (lifecycle.completed({"value": "$x"}), Status.DONE),
        (lifecycle.retried(FAILURE, MINUTE), Status.PENDING),
        (lifecycle.died(FAILURE), Status.DEAD),
        (lifecycle.snoozed(MINUTE), Status.PENDING),
        (lifecycle.released(), Status.PENDING),
    ],
)
async def test_many_end_as_one_does(lab: Lab, patch: lifecycle.Patch, status: Status) -> None:
    tasks = await some_claimed(lab, 3)
    alone = await lab.claimed()
    await lab.store.settle(ref_of(alone), patch)
    expected = await lab.get(alone.id)

    assert await lab.store.settle_many(refs_of(tasks), patch) == frozenset()

    for task in tasks:
        settled = await lab.get(task.id)
        assert settled.status is status
        for name in ("attempts", "interruptions", "lease", "result"):
            assert getattr(settled, name) == getattr(expected, name)
        assert [error.kind for error in settled.errors] == [error.kind for error in expected.errors]
        assert (settled.due_at is None) == (expected.due_at is None)


async def test_each_gets_its_own_result(lab: Lab) -> None:
    results: list[object] = [
        {"value": 1},
        {"value": "$lease.token"},
        {"$set": {"a.b": "$$NOW"}},
        {"a.b": {"": []}, "$literal": 1},
        None,
        {"value": None},
        {"value": [1.5, True, "x" * 1000]},
        {"value": 1},
    ]
    tasks = await some_claimed(lab, len(results), result="left from before")

    refused = await lab.store.settle_many(refs_of(tasks), lifecycle.completed_each(), results)

    assert refused == frozenset()
    for task, result in zip(tasks, results, strict=True):
        done = await lab.get(task.id)
        assert (done.status, done.result) == (Status.DONE, result)
        assert ("result" in lab.raw(task.id)) == (result is not None)
        assert done.finished_at == done.updated_at
        assert {"lease", "due_at", "reap_at"}.isdisjoint(lab.raw(task.id))


async def test_no_results_at_all_are_no_fields(lab: Lab) -> None:
    tasks = await some_claimed(lab, 2, result="left from before")

    await lab.store.settle_many(refs_of(tasks), lifecycle.completed_each())

    for task in tasks:
        assert (await lab.get(task.id)).status is Status.DONE
        assert "result" not in lab.raw(task.id)


@pytest.mark.parametrize("number", [1, 3])
async def test_a_value_is_needed_for_each(lab: Lab, number: int) -> None:
    tasks = await some_claimed(lab, 2)
    patch = lifecycle.completed_each()

    with pytest.raises(ValueError, match=r"values|argument"):
        await lab.store.settle_many(refs_of(tasks), patch, [{"value": 1}] * number)

    assert await lab.store.is_held(ref_of(tasks[0]))


async def test_the_fence_holds_for_each_task(lab: Lab) -> None:
    await lab.store.insert_many([lab.a_task() for _ in range(6)])
    first = await lab.claim_many()
    lab.pass_time(2 * MINUTE)
    again = await lab.claim_many(3)
    ours, theirs = refs_of(first[3:]), refs_of(first[:3])
    assert [task.id for task in again] == [ref.id for ref in theirs]
    await lab.store.delete(ours[0].id)
    before = [lab.raw(ref.id) for ref in theirs]
    values = [{"value": number} for number in range(6)]

    refused = await lab.store.settle_many([*theirs, *ours], lifecycle.completed_each(), values)

    assert refused == {ref.token for ref in [*theirs, ours[0]]}
    assert [lab.raw(ref.id) for ref in theirs] == before
    assert (await lab.get(ours[1].id)).result == {"value": 4}
    assert (await lab.get(ours[2].id)).result == {"value": 5}


@pytest.mark.parametrize("field", ["queue", "lane", "token"])
async def test_a_name_that_is_not_ours_is_refused(lab: Lab, field: str) -> None:
    (task,) = await some_claimed(lab, 1)
    ref = ref_of(task)
    wrong = {
        "queue": LeaseRef(ref.id, "other", ref.lane, ref.token),
        "lane": LeaseRef(ref.id, ref.queue, 1, ref.token),
        "token": LeaseRef(ref.id, ref.queue, ref.lane, "other"),
    }[field]

    assert await lab.store.settle_many([wrong], lifecycle.completed(None)) == {wrong.token}
    assert await lab.store.is_held(ref)


async def test_what_was_asked_to_stop_is_refused_and_the_rest_is_settled(lab: Lab) -> None:
    asked, other = await some_claimed(lab, 2)
    await lab.store.transition(asked.id, lifecycle.cancel_requested())
    refs = refs_of([asked, other])

    assert await lab.store.settle_many(refs, lifecycle.completed(None)) == {token_of(asked)}
    assert await lab.store.settle_many(refs, lifecycle.cancelled()) == {token_of(other)}

    assert (await lab.get(asked.id)).status is Status.CANCELLED
    assert (await lab.get(other.id)).status is Status.DONE


async def test_a_settlement_counts_when_it_is_repeated(lab: Lab) -> None:
    tasks = await some_claimed(lab, 3)
    refs, values = refs_of(tasks), [{"value": number} for number in range(3)]
    patch = lifecycle.completed_each()
    await lab.store.settle(refs[0], lifecycle.completed(values[0]))
    await lab.store.settle(refs[1], lifecycle.died(FAILURE))

    assert await lab.store.settle_many(refs, patch, values) == {refs[1].token}
    assert await lab.store.settle_many(refs, patch, values) == {refs[1].token}
    assert (await lab.get(tasks[0].id)).result == {"value": 0}
    assert (await lab.get(tasks[1].id)).status is Status.DEAD


async def test_singly_claimed_tasks_and_late_ones_settle_together(lab: Lab) -> None:
    late = await lab.claimed()
    lab.pass_time(2 * MINUTE)
    last = await lab.claimed(priority=1, max_attempts=1)

    refused = await lab.store.settle_many(refs_of([late, last]), lifecycle.released())

    assert refused == frozenset()
    assert sorted([task.id for task in await lab.claim_many()], key=str) == sorted(
        [late.id, last.id], key=str
    )


async def test_what_comes_back_is_claimed_in_its_order(lab: Lab) -> None:
    now = lab.store.clock.now()
    urgent = await some_claimed(lab, 2, priority=9, due_at=now - HOUR)
    await lab.store.insert_many([lab.a_task() for _ in range(4)])
    assert len(await lab.claim_many(1)) == len(await lab.claim_many(1)) == 1

    await lab.store.settle_many(refs_of(urgent), lifecycle.retried(FAILURE, timedelta(0)))

    assert [task.id for task in await lab.claim_many(2)] == [task.id for task in urgent]


async def test_reserved_tasks_are_given_back_together(lab: Lab) -> None:
    for _ in range(3):
        await lab.enqueue(max_attempts=1)
    refs = [ref_of(task) for task in await lab.claim_many()]
    await lab.store.settle(refs[0], lifecycle.started(owner="w", lease=MINUTE))

    for _ in range(2):
        assert await lab.store.settle_many(refs, lifecycle.unreserved()) == {refs[0].token}

    assert {task.id for task in await lab.claim_many()} == {ref.id for ref in refs[1:]}


async def test_a_batch_of_large_results_is_settled(lab: Lab) -> None:
    tasks = await some_claimed(lab, 9)
    results = [{"value": f"{number}" * 2_500_000} for number in range(9)]

    refused = await lab.store.settle_many(refs_of(tasks), lifecycle.completed_each(), results)

    assert refused == frozenset()
    for task, result in zip(tasks, results, strict=True):
        assert (await lab.get(task.id)).result == result
