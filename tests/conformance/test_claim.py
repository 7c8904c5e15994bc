"""Which task a claim takes, and what it makes of it."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest

from gotasks_py import lifecycle
from gotasks_py.lifecycle import Failure
from gotasks_py.task import Status, TaskId
from tests.lab import HOUR, MINUTE, SECOND, Lab, ManualClock, a_claim, ref_of, token_of

pytestmark = pytest.mark.anyio

FAILURE = Failure(1, "worker", "ValueError", "no")


async def claim_all(lab: Lab) -> list[TaskId]:
    return await claim_some(lab, 10_000)


async def claim_some(lab: Lab, number: int) -> list[TaskId]:
    taken: list[TaskId] = []
    while len(taken) < number and (task := await lab.claim()) is not None:
        taken.append(task.id)
    return taken


async def test_nothing_is_claimed_where_nothing_is(lab: Lab) -> None:
    assert await lab.claim() is None


async def test_a_claim_is_an_attempt_under_a_lease(lab: Lab) -> None:
    task_id = await lab.enqueue()

    task = await lab.claim(token="token", owner="me", lease=MINUTE)

    assert task is not None
    assert (task.id, task.status, task.attempts) == (task_id, Status.RUNNING, 1)
    assert task.lease is not None
    assert (task.lease.token, task.lease.owner) == ("token", "me")
    assert task.started_at == task.updated_at
    assert task.started_at is not None
    assert task.lease.until == task.due_at == task.started_at + MINUTE
    assert await lab.get(task_id) == task


async def test_the_lease_tells_since_when_the_task_was_due(lab: Lab) -> None:
    due_at = lab.store.clock.now() - HOUR

    task = await lab.claimed(due_at=due_at)

    assert task.lease is not None
    assert task.lease.due_at == due_at


async def test_a_claimed_task_is_not_claimed_again(lab: Lab) -> None:
    await lab.claimed()

    assert await lab.claim() is None


async def test_a_future_task_is_claimed_once_its_time_has_come(lab: Lab) -> None:
    then = lab.store.clock.now() + HOUR
    task_id = await lab.enqueue(run_at=then, due_at=then)

    assert await lab.claim() is None
    lab.pass_time(HOUR + SECOND)

    assert [task_id] == await claim_all(lab)


async def test_higher_priority_goes_first_then_the_due_time_then_the_id(lab: Lab) -> None:
    now = lab.store.clock.now()
    low = await lab.enqueue(priority=-1, due_at=now - HOUR)
    later = await lab.enqueue(due_at=now - SECOND)
    first = await lab.enqueue(due_at=now - MINUTE)
    second = await lab.enqueue(due_at=now - MINUTE)
    high = await lab.enqueue(priority=2**31 - 1)
    lowest = await lab.enqueue(priority=-(2**31), due_at=now - HOUR)

    assert await claim_all(lab) == [high, first, second, later, low, lowest]


async def test_the_order_holds_across_types(lab: Lab) -> None:
    now = lab.store.clock.now()
    ids = [
        await lab.enqueue(type=f"t{number % 3}", due_at=now - MINUTE + number * SECOND)
        for number in range(9)
    ]
    types = ("t2", "t0", "t1")

    taken = [task.id for _ in ids if (task := await lab.claim(types=types)) is not None]

    assert taken == ids


async def test_a_future_task_in_front_hides_nothing(lab: Lab) -> None:
    then = lab.store.clock.now() + HOUR
    await lab.enqueue(priority=9, run_at=then, due_at=then)
    ready = await lab.enqueue(priority=0)

    assert await claim_all(lab) == [ready]


@pytest.mark.parametrize("elsewhere", [{"queue": "other"}, {"type": "other"}, {"lane": 1}])
async def test_what_lives_elsewhere_is_not_touched(lab: Lab, elsewhere: dict[str, object]) -> None:
    document = lab.a_task(**elsewhere)
    await lab.store.insert(document)

    assert await lab.claim() is None
    assert lab.raw(document["_id"]) == document


async def test_no_types_claim_nothing(lab: Lab) -> None:
    await lab.enqueue()

    assert await lab.claim(types=()) is None


async def test_any_legal_name_works(lab: Lab) -> None:
    for name in ("a/b", "ü", "a.b", "..", "__proto__", "a b", "%2F", "🦀", "a$b", "x" * 200):
        task_id = await lab.enqueue(queue=name, type=name, unique_key=name)

        task = await lab.claim(queue=name, types=(name,), owner=name)

        assert task is not None
        assert (task.id, task.queue, task.type, task.unique_key) == (task_id, name, name, name)
        assert task.lease is not None
        assert task.lease.owner == name


async def test_each_claim_bears_its_own_token(lab: Lab) -> None:
    await lab.enqueue()
    await lab.enqueue()

    one, other = await lab.claim(token="one"), await lab.claim(token="other")

    assert one is not None
    assert other is not None
    assert (token_of(one), token_of(other)) == ("one", "other")


async def test_a_crowd_claims_each_task_once(lab: Lab) -> None:
    await lab.store.insert_many([lab.a_task() for _ in range(60)])
    taken: list[TaskId] = []

    async def work() -> None:
        taken.extend(await claim_all(lab))

    async with anyio.create_task_group() as group:
        for _ in range(12):
            group.start_soon(work)

    assert len(taken) == len(set(taken)) == 60


async def test_a_lapsed_lease_is_taken_over_with_a_trace(lab: Lab) -> None:
    first = await lab.claimed()
    lab.pass_time(2 * MINUTE)

    second = await lab.claim(owner="other")

    assert second is not None
    assert (second.id, second.attempts, second.status) == (first.id, 2, Status.RUNNING)
    assert token_of(second) != token_of(first)
    (error,) = second.errors
    assert (error.attempt, error.worker, error.kind) == (1, "worker", "lease_expired")
    assert error.message == "lease of worker expired"
    assert error.traceback is None
    assert error.at == second.started_at


async def test_a_lease_that_runs_is_not_taken_over(lab: Lab) -> None:
    await lab.claimed()
    lab.pass_time(MINUTE - 10 * SECOND)

    assert await lab.claim() is None


async def test_a_last_attempt_is_never_claimed_again(lab: Lab) -> None:
    first = await lab.claimed(max_attempts=2)
    assert "reap_at" not in lab.raw(first.id)
    lab.pass_time(2 * MINUTE)
    second = await lab.claim()
    assert second is not None
    assert second.lease is not None

    assert second.due_at is None
    assert lab.raw(second.id)["reap_at"] == second.lease.until
    lab.pass_time(1000 * HOUR)
    assert await lab.claim() is None


async def test_a_task_that_may_run_once_is_never_claimed_twice(lab: Lab) -> None:
    task = await lab.claimed(max_attempts=1)
    assert task.is_last_attempt

    lab.pass_time(1000 * HOUR)

    assert await lab.claim() is None
    assert (await lab.get(task.id)).attempts == 1


async def test_errors_of_lapsed_leases_are_bounded_and_counted(lab: Lab) -> None:
    task_id = await lab.enqueue(max_attempts=1000)
    for _ in range(24):
        assert await lab.claim() is not None
        lab.pass_time(2 * MINUTE)

    task = await lab.get(task_id)
    assert (task.attempts, len(task.errors), task.errors_dropped) == (24, 20, 3)
    assert [error.attempt for error in task.errors] == list(range(4, 24))


async def test_a_claim_whose_reply_was_lost_is_found_by_its_token(lab: Lab) -> None:
    request = a_claim()
    task = await lab.claimed()
    assert await lab.store.find_claimed(request) == []

    await lab.enqueue()
    other = await lab.claim(request)

    assert other is not None
    assert await lab.store.find_claimed(request) == [other]
    assert other.id != task.id


async def test_a_lost_claim_of_a_last_attempt_is_found_too(lab: Lab) -> None:
    await lab.enqueue(max_attempts=1)
    request = a_claim()
    task = await lab.claim(request)

    assert task is not None
    assert await lab.store.find_claimed(request) == [task]


async def test_a_claim_that_is_over_is_not_found(lab: Lab) -> None:
    request = a_claim()
    await lab.enqueue()
    task = await lab.claim(request)
    assert task is not None
    lab.pass_time(2 * MINUTE)
    assert await lab.claim() is not None

    assert await lab.store.find_claimed(request) == []


async def test_new_work_of_every_kind_is_claimed_in_order_while_others_are(lab: Lab) -> None:
    """Whatever a store remembers of the head of a queue, it overlooks nothing."""
    now = lab.store.clock.now()
    await lab.store.insert_many([lab.a_task(priority=5) for _ in range(3)])
    assert await lab.claim() is not None
    assert await lab.claim() is not None
    older = await lab.enqueue(priority=5, due_at=now - HOUR)
    lower = await lab.enqueue(priority=1, due_at=now - HOUR)
    higher = await lab.enqueue(priority=7, due_at=now - timedelta(days=1))

    taken = await claim_all(lab)

    assert len(taken) == 4
    assert taken[:2] == [higher, older]
    assert taken[3] == lower


async def test_urgent_work_that_comes_back_goes_first(lab: Lab) -> None:
    """Whether it was requeued, handed back, or claimed before anything else was."""
    dead, handed_back = await lab.claimed(priority=9), await lab.claimed(priority=8)
    await lab.store.settle(ref_of(dead), lifecycle.died(FAILURE))
    await lab.store.insert_many([lab.a_task() for _ in range(6)])
    assert await lab.claim() is not None
    assert await lab.claim() is not None

    await lab.store.transition(dead.id, lifecycle.requeued(fresh_lifetime=True))
    first = await claim_some(lab, 1)
    assert await lab.claim() is not None
    await lab.store.settle(ref_of(handed_back), lifecycle.released())
    second = await claim_some(lab, 1)

    assert (first, second) == ([dead.id], [handed_back.id])


async def test_urgent_work_goes_first_once_its_time_has_come(lab: Lab) -> None:
    then = lab.store.clock.now() + timedelta(milliseconds=300)
    urgent = await lab.enqueue(priority=9, run_at=then, due_at=then)
    await lab.store.insert_many([lab.a_task() for _ in range(1_000)])

    taken: list[TaskId] = []
    while lab.store.clock.now() <= then:
        taken += await claim_some(lab, 1)
        if isinstance(lab.store.clock, ManualClock):
            lab.pass_time(timedelta(milliseconds=100))
    taken += await claim_some(lab, 1)

    assert urgent in taken


async def test_a_claim_of_several_lanes_takes_the_first_of_them_all(lab: Lab) -> None:
    now = lab.store.clock.now()
    ids = [
        await lab.enqueue(lane=lane, due_at=now - MINUTE + number * SECOND)
        for number, lane in enumerate((2, 0, 1, 2, 0))
    ]
    urgent = await lab.enqueue(lane=1, priority=1)
    elsewhere = await lab.enqueue(lane=3, priority=9)

    taken = [await lab.claim(lanes=(0, 1, 2)) for _ in range(7)]

    assert [task and task.id for task in taken] == [urgent, *ids, None]
    assert [task and task.lane for task in taken] == [1, 2, 0, 1, 2, 0, None]
    assert (await lab.get(elsewhere)).attempts == 0


async def test_a_lost_claim_of_several_lanes_is_found_by_its_token(lab: Lab) -> None:
    request, last = a_claim(lanes=(0, 1, 2)), a_claim(lanes=(0, 1, 2))
    task_id = await lab.enqueue(lane=1)
    last_id = await lab.enqueue(lane=2, max_attempts=1)
    assert await lab.store.find_claimed(request) == []

    assert await lab.claim(request) is not None
    assert await lab.claim(last) is not None

    for each, lane, expected in ((request, 1, task_id), (last, 2, last_id)):
        (found,) = await lab.store.find_claimed(each)
        assert (found.id, found.lane) == (expected, lane)
        assert await lab.store.is_held(ref_of(found))


async def test_sweeps_over_all_lanes_and_claims_of_one_overlook_nothing(lab: Lab) -> None:
    """What claims of one lane remember of its head is not what a sweep has found."""
    await lab.store.insert_many([lab.a_task(lane=number % 3) for number in range(30)])
    taken: list[TaskId] = []

    for number in range(30):
        lanes = (0, 1, 2) if number % 4 == 0 else (number % 3,)
        task = await lab.claim(lanes=lanes)
        if task is not None:
            taken.append(task.id)
    while (task := await lab.claim(lanes=(0, 1, 2))) is not None:
        taken.append(task.id)

    assert len(taken) == len(set(taken)) == 30
