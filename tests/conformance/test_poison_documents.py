"""A document that a hand has spoilt never stops a queue."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex
from bson.datetime_ms import DatetimeMS

from gotasks_py import lifecycle
from gotasks_py.lifecycle import Failure
from gotasks_py.task import Status, Task, TaskId
from tests.lab import HOUR, MINUTE, SECOND, Lab, a_claim, a_renewal, ref_of, token_of

# Documents are the same whichever driver fetches them: Motor would show nothing new.
both_stores = [pytest.param("memstore"), pytest.param("mongostore", marks=pytest.mark.mongo)]
pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("lab", both_stores, indirect=True)]

SPOILT: list[object] = [
    None,
    True,
    -1,
    2**40,
    1.5,
    math.nan,
    "text",
    "$attempts",
    "",
    [],
    [1, {"token": "x"}],
    {},
    {"token": 1, "owner": 2, "until": 3, "a": {"b": 1}},
    b"\x00",
    datetime(1970, 1, 1, tzinfo=UTC),
    ObjectId(),
    Decimal128("2.5"),
    MinKey(),
    MaxKey(),
    Regex("x"),
    DatetimeMS(2**60),
]
FIELDS = [
    "priority",
    "run_at",
    "status",
    "attempts",
    "max_attempts",
    "interruptions",
    "errors",
    "errors_dropped",
    "lease",
    "payload",
    "result",
    "progress",
    "tags",
    "metadata",
    "timeout_ms",
    "backoff",
    "retry_until",
    "cancel_requested_at",
    "created_at",
    "updated_at",
    "started_at",
    "finished_at",
    "settle_token",
    "released_key",
    "ttl_ms",
    "surprise",
]
BEHIND_ALL_DATES = {("finished_at", kind) for kind in (MaxKey, Regex, DatetimeMS)}
FAILURE = Failure(1, "worker", "E", "no")


async def spoil(lab: Lab, field: str, **fields: object) -> set[TaskId]:
    """Write a task for each kind of value in a field, and one without the field."""
    ids = set[TaskId]()
    for value in SPOILT:
        document = lab.a_task(**fields) | {field: value}
        lab.hand.write(document)
        ids.add(document["_id"])
    document = lab.a_task(**fields)
    document.pop(field, None)
    lab.hand.write(document)
    return ids | {document["_id"]}


async def claim_all(lab: Lab, limit: int) -> list[Task]:
    taken: list[Task] = []
    while (task := await lab.claim()) is not None:
        taken.append(task)
        assert len(taken) <= limit
    return taken


@pytest.mark.parametrize("field", FIELDS)
async def test_a_spoilt_field_stops_neither_its_task_nor_the_queue(lab: Lab, field: str) -> None:
    spoilt = await spoil(lab, field)
    good = {await lab.enqueue() for _ in range(3)}

    taken = await claim_all(lab, len(spoilt) + 3)

    assert {task.id for task in taken} == spoilt | good
    for task in taken:
        assert (task.status, task.queue, task.type) == (Status.RUNNING, "q", "t")
        assert await lab.store.is_held(ref_of(task))
        assert await lab.store.settle(ref_of(task), lifecycle.progressed(1))
    assert (await lab.store.renew([a_renewal(task) for task in taken])).lost == frozenset()
    for task in taken:
        retried = lifecycle.retried(FAILURE, HOUR)
        asked = task.cancel_requested_at is not None or "cancel_requested_at" in lab.raw(task.id)
        assert await lab.store.settle(ref_of(task), retried) or asked


@pytest.mark.parametrize("field", FIELDS)
async def test_a_spoilt_field_does_not_stop_a_claim_of_many(lab: Lab, field: str) -> None:
    spoilt = await spoil(lab, field)
    good = {await lab.enqueue() for _ in range(3)}

    taken = [*await lab.claim_many(5), *await lab.claim_many(100)]

    assert {task.id for task in taken} == spoilt | good
    assert list(await lab.claim_many()) == []
    for task in taken:
        stored = await lab.get(task.id)
        assert (stored.status, token_of(stored)) == (task.status, token_of(task))
        assert stored.attempts == task.attempts
        if task.status is Status.PENDING:
            start = lifecycle.started(owner="me", lease=HOUR)
            assert await lab.store.settle(ref_of(task), start)
    refs = [ref_of(task) for task in taken if "cancel_requested_at" not in lab.raw(task.id)]
    assert await lab.store.settle_many(refs, lifecycle.completed(None)) == frozenset()


@pytest.mark.parametrize("field", ["attempts", "errors", "errors_dropped", "lease", "status"])
async def test_a_lapsed_task_that_was_spoilt_is_taken_over(lab: Lab, field: str) -> None:
    tasks = [await lab.claimed(max_attempts=9) for _ in SPOILT]
    for task, value in zip(tasks, SPOILT, strict=True):
        lab.edit(task.id, **{field: value})
    good = await lab.claimed()
    lab.pass_time(2 * MINUTE)

    taken = await claim_all(lab, len(SPOILT) + 1)

    assert {task.id for task in taken} == {task.id for task in tasks} | {good.id}


@pytest.mark.parametrize(
    "field", ["attempts", "errors", "errors_dropped", "lease", "finished_at", "unique_key"]
)
async def test_a_spoilt_task_is_reaped(lab: Lab, field: str) -> None:
    tasks = [await lab.claimed(max_attempts=1) for _ in SPOILT]
    for task, value in zip(tasks, SPOILT, strict=True):
        lab.edit(task.id, **{field: value})
    lab.pass_time(2 * MINUTE)

    reaped = await lab.store.reap(100)

    assert {task.id for task in reaped} == {task.id for task in tasks}
    assert {task.status for task in reaped} == {Status.DEAD}


@pytest.mark.parametrize("field", ["due_at", "reap_at"])
async def test_what_is_no_time_is_never_due(lab: Lab, field: str) -> None:
    no_times = [value for value in SPOILT if not isinstance(value, datetime)]
    status = "pending" if field == "due_at" else "running"
    for value in no_times:
        document = lab.a_task(status=status)
        del document["due_at"]
        lab.hand.write({**document, field: value})
    good = await lab.enqueue(due_at=lab.store.clock.now() - SECOND)

    taken = await claim_all(lab, 1)

    assert [task.id for task in taken] == [good]
    assert await lab.store.reap(100) == []


@pytest.mark.parametrize("field", ["queue", "type", "lane"])
async def test_a_task_whose_address_is_spoilt_is_passed_over(lab: Lab, field: str) -> None:
    spoilt = await spoil(lab, field)
    good = await lab.enqueue()

    assert [task.id for task in await claim_all(lab, 1)] == [good]
    for task_id in spoilt:
        task = await lab.get(task_id)
        assert task.status is Status.PENDING
        assert await lab.store.transition(task_id, lifecycle.withdrawn()) is not None
        assert await lab.store.delete(task_id)


@pytest.mark.parametrize("lane", [2, 2.0, Int64(2), Decimal128("2"), ["x", 2]])
async def test_a_task_is_settled_in_the_lane_in_which_a_claim_of_all_has_found_it(
    lab: Lab, lane: object
) -> None:
    """The fence names the lane as the store compares it, whatever type a hand gave it."""
    await spoil(lab, "lane")
    await lab.enqueue(lane=lane)
    request = a_claim(lanes=(0, 2, 3))

    task = await lab.claim(request)

    if task is None:  # another type of number is another lane in memory
        assert lab.kind == "memstore"
        return
    assert task.lane == 2
    assert await lab.store.find_claimed(request) == [task]
    assert await lab.store.settle(ref_of(task), lifecycle.completed(None))


@pytest.mark.parametrize("field", FIELDS)
async def test_any_spoilt_document_can_be_read_and_deleted(lab: Lab, field: str) -> None:
    for task_id in await spoil(lab, field, status="dead"):
        task = await lab.get(task_id)
        assert task.id == task_id
        assert hash(task.status)
        assert repr(task)
        assert await lab.store.delete(task_id)


@pytest.mark.parametrize(
    "field", ["finished_at", "attempts", "errors", "released_key", "expires_at", "ttl_ms"]
)
async def test_dead_letters_that_were_spoilt_are_listed_and_come_back(lab: Lab, field: str) -> None:
    ids = set[TaskId]()
    for value in SPOILT:
        # A date among the lifetimes is one, and what sorts behind all dates has yet to end.
        if (field, type(value)) in {("expires_at", datetime), *BEHIND_ALL_DATES}:
            continue
        document = lab.a_task(status="dead")
        del document["due_at"]
        lab.hand.write({**document, "finished_at": document["run_at"], field: value})
        ids.add(document["_id"])

    assert {each async for each in lab.store.dead_ids(queue="q", type="t")} == ids

    for task_id in ids:
        requeued = await lab.store.transition(task_id, lifecycle.requeued(fresh_lifetime=True))
        assert requeued is not None
        assert (requeued.status, requeued.attempts) == (Status.PENDING, 0)


async def test_a_nearly_empty_document_is_a_task(lab: Lab) -> None:
    document: dict[str, Any] = {
        "_id": lab.store.new_id(),
        "queue": "q",
        "lane": 0,
        "type": "t",
        "due_at": lab.store.clock.now() - SECOND,
    }
    lab.hand.write(document)

    task = await lab.claim()

    assert task is not None
    assert (task.id, task.attempts, task.max_attempts) == (document["_id"], 1, 0)
    assert task.is_at_most_once
    assert task.due_at is None
    assert await lab.store.settle(ref_of(task), lifecycle.completed(None))


async def test_unknown_fields_stay_as_they_are(lab: Lab) -> None:
    surprise = {"$set": {"a.b": ["$x", {"": None}]}}
    task = await lab.claimed(surprise=surprise)
    await lab.store.settle(ref_of(task), lifecycle.retried(FAILURE, -SECOND))
    again = await lab.claim()
    assert again is not None
    await lab.store.settle(ref_of(again), lifecycle.completed(None))

    assert lab.raw(task.id)["surprise"] == surprise
