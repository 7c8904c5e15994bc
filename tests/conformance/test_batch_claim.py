"""What a claim of many takes, and what it only reserves."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest

from gotasks_py import lifecycle
from gotasks_py.lifecycle import Failure
from gotasks_py.task import Status, TaskId
from tests.lab import HOUR, MINUTE, SECOND, Lab, a_claim, ref_of, token_of

pytestmark = pytest.mark.anyio

FAILURE = Failure(1, "worker", "ValueError", "no")


async def test_nothing_is_claimed_where_nothing_is(lab: Lab) -> None:
    assert list(await lab.claim_many()) == []


@pytest.mark.parametrize("limit", [0, -1])
async def test_none_are_claimed_where_none_are_asked_for(lab: Lab, limit: int) -> None:
    await lab.enqueue()

    assert list(await lab.claim_many(limit)) == []


async def test_each_task_is_an_attempt_under_a_lease_of_its_own(lab: Lab) -> None:
    due_at = lab.store.clock.now() - HOUR
    ids = [await lab.enqueue(due_at=due_at, payload={"n": number}) for number in range(3)]
    before = lab.store.clock.now()

    tasks = await lab.claim_many(token="token", owner="me", lease=MINUTE)
    after = lab.store.clock.now()

    assert [task.id for task in tasks] == ids
    for number, task in enumerate(tasks):
        assert (task.status, task.attempts, task.payload) == (Status.RUNNING, 1, {"n": number})
        assert task.lease is not None
        assert (task.lease.token, task.lease.owner) == (f"token/{task.id}", "me")
        assert task.lease.token == lifecycle.batch_token("token", task.id)
        assert task.lease.due_at == due_at
        assert task.due_at == task.lease.until
        assert before - SECOND <= task.lease.until - MINUTE <= after + SECOND


async def test_what_comes_back_is_what_is_stored(lab: Lab) -> None:
    """All but the times, which may be estimates."""
    fields: dict[str, object] = {
        "payload": {"a": [1, {"b": "$x"}]},
        "tags": ["x"],
        "unique_key": "k",
        "metadata": {"m": 1},
        "priority": 3,
        "timeout_ms": 500,
    }
    await lab.enqueue(**fields)
    await lab.enqueue(max_attempts=1)

    tasks = await lab.claim_many()

    assert len(tasks) == 2
    for task in tasks:
        stored = await lab.get(task.id)
        assert task.lease is not None
        assert stored.lease is not None
        for name in ("status", "attempts", "payload", "tags", "unique_key", "metadata"):
            assert getattr(task, name) == getattr(stored, name)
        for name in ("priority", "timeout", "run_at", "errors", "interruptions", "created_at"):
            assert getattr(task, name) == getattr(stored, name)
        assert (task.lease.token, task.lease.due_at) == (stored.lease.token, stored.lease.due_at)
        assert abs(task.lease.until - stored.lease.until) < MINUTE
        assert (task.started_at is None) == (stored.started_at is None)


async def test_the_order_is_that_of_single_claims_up_to_the_limit(lab: Lab) -> None:
    now = lab.store.clock.now()
    low = await lab.enqueue(priority=-1, due_at=now - HOUR)
    later = await lab.enqueue(type="u", due_at=now - SECOND)
    first = await lab.enqueue(due_at=now - MINUTE)
    second = await lab.enqueue(type="u", due_at=now - MINUTE)
    high = await lab.enqueue(priority=9)
    then = now + HOUR
    await lab.enqueue(priority=99, run_at=then, due_at=then)

    batches = [await lab.claim_many(2, types=("u", "t")) for _ in range(4)]

    taken = [[task.id for task in batch] for batch in batches]
    assert taken == [[high, first], [second, later], [low], []]


@pytest.mark.parametrize("elsewhere", [{"queue": "other"}, {"type": "other"}, {"lane": 1}])
async def test_what_lives_elsewhere_is_not_touched(lab: Lab, elsewhere: dict[str, object]) -> None:
    document = lab.a_task(**elsewhere)
    await lab.store.insert(document)

    assert list(await lab.claim_many()) == []
    assert lab.raw(document["_id"]) == document


async def test_a_crowd_claims_each_task_once(lab: Lab) -> None:
    await lab.store.insert_many([lab.a_task() for _ in range(200)])
    taken: list[TaskId] = []

    async def work() -> None:
        while tasks := await lab.claim_many(7):
            taken.extend(task.id for task in tasks)
            for task in tasks:
                assert token_of(task) == token_of(await lab.get(task.id))

    async with anyio.create_task_group() as group:
        for _ in range(6):
            group.start_soon(work)
    while left := await lab.claim_many():
        taken.extend(task.id for task in left)

    assert len(taken) == len(set(taken)) == 200


async def test_tasks_with_and_without_a_past_are_claimed_together(lab: Lab) -> None:
    failed = await lab.claimed()
    await lab.store.settle(ref_of(failed), lifecycle.retried(FAILURE, timedelta(0)))
    handed_back = await lab.claimed(priority=1)
    await lab.store.settle(ref_of(handed_back), lifecycle.released())
    lapsed = await lab.claimed(priority=2)
    lab.pass_time(2 * MINUTE)
    new = await lab.enqueue(priority=-1)

    tasks = await lab.claim_many(owner="other")

    assert [task.id for task in tasks] == [lapsed.id, handed_back.id, failed.id, new]
    assert [task.attempts for task in tasks] == [2, 1, 2, 1]
    assert [task.interruptions for task in tasks] == [0, 1, 0, 0]
    kinds = [[error.kind for error in task.errors] for task in tasks]
    assert kinds == [["lease_expired"], [], ["ValueError"], []]
    for task in tasks:
        assert (task.status, token_of(task)) == (
            Status.RUNNING,
            token_of(await lab.get(task.id)),
        )


async def test_a_last_attempt_is_only_reserved(lab: Lab) -> None:
    twice = await lab.claimed(max_attempts=2)
    await lab.store.settle(ref_of(twice), lifecycle.retried(FAILURE, timedelta(0)))
    once = await lab.enqueue(max_attempts=1)

    tasks = await lab.claim_many()

    assert [task.id for task in tasks] == [once, twice.id]
    assert [(task.status, task.attempts) for task in tasks] == [
        (Status.PENDING, 0),
        (Status.PENDING, 1),
    ]
    for task in tasks:
        stored = await lab.get(task.id)
        assert stored.lease is not None
        assert (stored.status, stored.attempts) == (Status.PENDING, task.attempts)
        assert (token_of(task), stored.due_at) == (stored.lease.token, stored.lease.until)
        assert "reap_at" not in lab.raw(task.id)
        assert await lab.store.is_held(ref_of(task)) is False
    assert await lab.claim() is None
    assert list(await lab.claim_many()) == []


async def test_a_reserved_task_is_started_once(lab: Lab) -> None:
    due_at = lab.store.clock.now() - HOUR
    await lab.enqueue(max_attempts=1, due_at=due_at)
    (reserved,) = await lab.claim_many(owner="fetcher")

    assert await lab.store.settle(ref_of(reserved), lifecycle.started(owner="me", lease=HOUR))

    task = await lab.get(reserved.id)
    assert task.lease is not None
    assert (task.status, task.attempts) == (Status.RUNNING, 1)
    assert (task.lease.token, task.lease.owner) == (token_of(reserved), "me")
    assert task.lease.due_at == due_at
    assert task.started_at == task.updated_at
    assert task.started_at is not None
    assert task.lease.until == task.started_at + HOUR
    assert (task.due_at, lab.raw(task.id)["reap_at"]) == (None, task.lease.until)
    assert await lab.store.is_held(ref_of(task))
    lab.pass_time(1000 * HOUR)
    assert list(await lab.claim_many()) == []
    assert await lab.store.settle(ref_of(task), lifecycle.completed({"value": 1}))
    assert (await lab.get(task.id)).status is Status.DONE


async def test_a_start_whose_reply_was_lost_counts_when_repeated(lab: Lab) -> None:
    await lab.enqueue(max_attempts=1)
    (reserved,) = await lab.claim_many()
    start = lifecycle.started(owner="me", lease=HOUR)
    assert await lab.store.settle(ref_of(reserved), start)

    assert await lab.store.settle(ref_of(reserved), start)

    assert (await lab.get(reserved.id)).attempts == 1


async def test_a_reservation_that_lapsed_is_taken_over_without_a_trace(lab: Lab) -> None:
    await lab.enqueue(max_attempts=1)
    (lost,) = await lab.claim_many()
    lab.pass_time(2 * MINUTE)

    (again,) = await lab.claim_many()

    assert (again.id, again.status, again.attempts) == (lost.id, Status.PENDING, 0)
    assert (again.errors, again.interruptions) == ((), 0)
    start = lifecycle.started(owner="me", lease=HOUR)
    assert await lab.store.settle(ref_of(lost), start) is False
    assert await lab.store.settle(ref_of(lost), lifecycle.unreserved()) is False
    assert await lab.store.settle(ref_of(again), start)


async def test_a_reservation_that_lapsed_starts_if_nobody_has_taken_it_over(lab: Lab) -> None:
    await lab.enqueue(max_attempts=1)
    (reserved,) = await lab.claim_many()
    lab.pass_time(2 * MINUTE)

    assert await lab.store.settle(ref_of(reserved), lifecycle.started(owner="me", lease=HOUR))
    assert list(await lab.claim_many()) == []


async def test_a_single_claim_takes_a_lapsed_reservation(lab: Lab) -> None:
    await lab.enqueue(max_attempts=1)
    await lab.claim_many()
    lab.pass_time(2 * MINUTE)

    task = await lab.claim()

    assert task is not None
    assert (task.status, task.attempts, task.errors) == (Status.RUNNING, 1, ())


async def test_a_lapsed_last_but_one_attempt_is_noted_where_the_last_is_reserved(lab: Lab) -> None:
    first = await lab.claimed(max_attempts=2)
    lab.pass_time(2 * MINUTE)

    (reserved,) = await lab.claim_many()

    assert (reserved.id, reserved.status, reserved.attempts) == (first.id, Status.PENDING, 1)
    assert [error.kind for error in reserved.errors] == ["lease_expired"]
    assert not await lab.store.settle(ref_of(first), lifecycle.completed(None))


async def test_a_reservation_is_given_back_at_once(lab: Lab) -> None:
    await lab.enqueue(max_attempts=1)
    (reserved,) = await lab.claim_many()

    assert await lab.store.settle(ref_of(reserved), lifecycle.unreserved())
    assert await lab.store.settle(ref_of(reserved), lifecycle.unreserved())

    task = await lab.get(reserved.id)
    assert (task.status, task.attempts, task.interruptions) == (Status.PENDING, 0, 0)
    assert (task.lease, task.errors, task.due_at) == (None, (), task.updated_at)
    assert not await lab.store.settle(ref_of(reserved), lifecycle.started(owner="w", lease=HOUR))
    (again,) = await lab.claim_many()
    assert again.id == reserved.id


async def test_a_reserved_task_that_is_cancelled_ends_at_once_and_is_not_started(lab: Lab) -> None:
    await lab.enqueue(max_attempts=1, unique_key="k")
    (reserved,) = await lab.claim_many()

    cancelled = await lab.store.transition(reserved.id, lifecycle.withdrawn())

    assert cancelled is not None
    assert (cancelled.status, cancelled.lease, cancelled.due_at) == (Status.CANCELLED, None, None)
    assert not await lab.store.settle(ref_of(reserved), lifecycle.started(owner="w", lease=HOUR))
    assert not await lab.store.settle(ref_of(reserved), lifecycle.unreserved())
    assert (await lab.get(reserved.id)).status is Status.CANCELLED


async def test_a_reserved_task_that_was_deleted_is_not_started(lab: Lab) -> None:
    await lab.enqueue(max_attempts=1)
    (reserved,) = await lab.claim_many()
    await lab.store.delete(reserved.id)

    assert not await lab.store.settle(ref_of(reserved), lifecycle.started(owner="w", lease=HOUR))


async def test_what_is_reserved_cannot_be_settled_and_what_runs_cannot_be_started(
    lab: Lab,
) -> None:
    await lab.enqueue(max_attempts=1)
    (reserved,) = await lab.claim_many()
    running = await lab.claimed()

    assert not await lab.store.settle(ref_of(reserved), lifecycle.completed(None))
    assert await lab.store.settle_many([ref_of(reserved)], lifecycle.released()) == {
        token_of(reserved)
    }
    before = lab.raw(running.id)
    await lab.store.settle(ref_of(running), lifecycle.started(owner="w", lease=HOUR))
    assert not await lab.store.settle(ref_of(running), lifecycle.unreserved())
    assert lab.raw(running.id) == before


async def test_a_batch_whose_reply_was_lost_is_found_by_its_token(lab: Lab) -> None:
    request = a_claim()
    once, often = await lab.enqueue(max_attempts=1), await lab.enqueue()
    await lab.claim_many(request=request)
    await lab.enqueue()
    await lab.claim_many(request=a_claim(token=f"{request.token}1"))

    found = await lab.store.find_claimed(request)

    assert {task.id: (task.status, token_of(task)) for task in found} == {
        once: (Status.PENDING, f"{request.token}/{once}"),
        often: (Status.RUNNING, f"{request.token}/{often}"),
    }


async def test_names_that_look_like_fields_stay_as_they_are(lab: Lab) -> None:
    await lab.enqueue()
    await lab.enqueue(max_attempts=1)

    tasks = await lab.claim_many(token="$lease.token", owner="$$NOW")

    for task in tasks:
        stored = await lab.get(task.id)
        assert stored.lease is not None
        assert (stored.lease.token, stored.lease.owner) == (f"$lease.token/{task.id}", "$$NOW")
