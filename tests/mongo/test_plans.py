"""Every query of the library is served by its index, at volume, as explain tells it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC
from typing import Any

import pytest
from pymongo import MongoClient

from gotasks_mongostore import MongoStore
from gotasks_py import lifecycle
from gotasks_py.controls import NodeOrder
from gotasks_py.errors import DuplicateTaskError
from gotasks_py.lifecycle import Failure
from gotasks_py.policy import QueuePolicy
from gotasks_py.sweeping import Sweeping
from gotasks_py.task import Status
from tests.lab import HOUR, MINUTE, SECOND, RawCollection, a_claim, a_renewal, ref_of
from tests.mongo.recorder import Recorded, explainable, recorded_lab

pytestmark = [pytest.mark.anyio, pytest.mark.mongo, pytest.mark.timeout(180)]

MANY = 20_000
TYPES = tuple(f"t{number}" for number in range(5))
PRIORITIES = (-5, 0, 7)
LAPSED = 50
FAILURE = Failure(1, "worker", "E", "no")


@dataclass(frozen=True)
class Plan:
    """What explain says of one command."""

    keys: int
    documents: int
    stages: frozenset[str]
    indexes: frozenset[str]


@pytest.fixture(scope="session")
def volume(raw_client: MongoClient[dict[str, Any]]) -> Iterator[RawCollection]:
    """Fill a collection: pending, future, of foreign types, finished, many of each."""
    collection = raw_client["gotasks_tests"][f"volume{uuid.uuid4().hex[:8]}"]
    now = raw_client.admin.command("hello")["localTime"]
    for start in range(0, MANY, 10_000):
        collection.insert_many(
            (
                document
                for number in range(start, start + 10_000)
                for document in four_tasks(number, now)
            ),
            ordered=False,
        )
    collection.insert_many(others(now))
    yield collection
    collection.drop()


def four_tasks(number: int, now: Any) -> Iterator[dict[str, Any]]:
    common = {
        "queue": "q",
        "lane": 0,
        "status": "pending",
        "priority": PRIORITIES[number % 3],
        "attempts": 0,
        "max_attempts": 3,
        "errors": [],
    }
    past, future = now - number * SECOND, now + HOUR + number * SECOND
    kind = TYPES[number % 5]
    yield common | {"type": kind, "due_at": past, "run_at": past}
    # A fifth of what is not due yet is of a type of which nothing is due.
    late_kind = kind if number % 5 else "late"
    yield common | {"type": late_kind, "due_at": future, "run_at": future}
    yield common | {"type": f"f{number % 7}", "due_at": past, "run_at": past}
    yield common | {"type": kind, "status": "done", "finished_at": past}


def others(now: Any) -> Iterator[dict[str, Any]]:
    """Yield dead letters, and last attempts that have lapsed and that have not."""
    for number in range(LAPSED):
        common = {"queue": "q", "lane": 0, "priority": 0, "attempts": 1, "max_attempts": 1}
        past = now - number * SECOND
        yield common | {"type": "t1", "status": "dead", "finished_at": past}
        lease = {"token": f"token{number}", "owner": "w"}
        running = common | {"type": "t1", "status": "running", "lease": lease}
        yield running | {"reap_at": past - MINUTE}
        yield running | {"reap_at": now + HOUR}


@pytest.fixture
async def crowded(volume: RawCollection, mongodb: str) -> AsyncIterator[Recorded]:
    async with recorded_lab(mongodb, volume) as recorded:
        yield recorded


def explain(volume: RawCollection, command: dict[str, Any]) -> Plan:
    answer = volume.database.command("explain", explainable(command), verbosity="executionStats")
    stats = answer["executionStats"]
    stages = list(walk(answer["queryPlanner"]["winningPlan"]))
    return Plan(
        stats["totalKeysExamined"],
        stats["totalDocsExamined"],
        frozenset(stage["stage"] for stage in stages),
        frozenset(stage["indexName"] for stage in stages if "indexName" in stage)
        | ({"_id_"} if any(stage["stage"] == "IDHACK" for stage in stages) else set()),
    )


def walk(stage: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield stage
    for child in (stage.get("inputStage"), *stage.get("inputStages", ())):
        if child is not None:
            yield from walk(child)


def assert_plan(plan: Plan, index: str, *, keys: int, documents: int) -> None:
    assert plan.indexes == {index}
    assert not plan.stages & {"SORT", "COLLSCAN"}
    assert plan.keys <= keys
    assert plan.documents <= documents


async def sent_by_claim(
    crowded: Recorded, *types: str, lanes: tuple[int, ...] = (0,)
) -> dict[str, Any]:
    with crowded.recorder.recording() as sent:
        await crowded.lab.claim(types=types, lanes=lanes)
    return sent[0]


@pytest.mark.parametrize("number", [1, 2, 5])
async def test_a_claim_looks_at_two_keys_per_type_and_priority(
    crowded: Recorded, volume: RawCollection, number: int
) -> None:
    command = await sent_by_claim(crowded, *TYPES[:number])

    plan = explain(volume, command)

    assert "priority" not in command["query"]
    limit = 2 * number * len(PRIORITIES)
    assert_plan(plan, "claim", keys=limit, documents=1)
    assert plan.documents == 1


async def test_a_claim_from_the_low_water_mark_looks_at_no_more(
    crowded: Recorded, volume: RawCollection
) -> None:
    commands = [await sent_by_claim(crowded, *TYPES) for _ in range(20)]
    bounded = [command for command in commands if "priority" in command["query"]]

    plan = explain(volume, bounded[0])

    assert_plan(plan, "claim", keys=2 * len(TYPES) * len(PRIORITIES), documents=1)


@pytest.mark.parametrize("types", [("late",), ("late", "never seen"), ("a", "b", "c")])
async def test_a_claim_looks_at_no_document_when_nothing_is_due(
    crowded: Recorded, volume: RawCollection, types: tuple[str, ...]
) -> None:
    command = await sent_by_claim(crowded, *types)

    plan = explain(volume, command)

    assert_plan(plan, "claim", keys=2 * len(types) * len(PRIORITIES), documents=0)


async def test_a_claim_in_an_empty_queue_looks_at_nothing(
    crowded: Recorded, volume: RawCollection
) -> None:
    with crowded.recorder.recording() as sent:
        await crowded.lab.claim(queue="empty", types=TYPES)

    assert_plan(explain(volume, sent[0]), "claim", keys=len(TYPES), documents=0)


@pytest.mark.parametrize("number", [1, 2, 5])
async def test_the_next_due_time_is_one_look_for_each_priority(
    crowded: Recorded, volume: RawCollection, number: int
) -> None:
    types = TYPES[:number]

    with crowded.recorder.recording() as sent:
        due_at = await crowded.lab.store.next_due("q", types)

    condition = {"queue": "q", "type": {"$in": types}, "due_at": {"$exists": True}}
    (earliest,) = volume.find(condition, hint="claim").sort({"due_at": 1}).limit(1)
    assert due_at == earliest["due_at"].replace(tzinfo=UTC)
    assert len(sent) == len(PRIORITIES) + 1
    for command in sent:
        # Of each type the end of the priorities above, and the first entry below.
        assert_plan(explain(volume, command), "claim", keys=2 * number, documents=1)


@pytest.mark.parametrize("number", [1, 2, 5])
async def test_a_claim_of_many_looks_at_what_it_takes(
    crowded: Recorded, volume: RawCollection, number: int
) -> None:
    with crowded.recorder.recording() as sent:
        tasks = await crowded.lab.claim_many(50, types=TYPES[:number])
    assert len(tasks) == 50
    find, update = sent[0], sent[1]
    assert (next(iter(find)), next(iter(update))) == ("find", "update")

    limit = 50 + 2 * number * len(PRIORITIES)
    assert_plan(explain(volume, find), "claim", keys=limit, documents=50 + number)
    assert_plan(explain(volume, update), "_id_", keys=2 * 50 + 1, documents=50)


async def test_a_claim_of_many_from_the_low_water_mark_looks_at_no_more(
    crowded: Recorded, volume: RawCollection
) -> None:
    with crowded.recorder.recording() as sent:
        for _ in range(5):
            await crowded.lab.claim_many(20, types=TYPES)
    bounded = [each for each in sent if "find" in each and "priority" in each["filter"]]

    limit = 20 + 2 * len(TYPES) * len(PRIORITIES)
    assert_plan(explain(volume, bounded[0]), "claim", keys=limit, documents=20 + len(TYPES))


async def test_tasks_of_several_states_are_claimed_and_settled_by_their_ids(
    crowded: Recorded, volume: RawCollection
) -> None:
    lab = crowded.lab
    for number in range(30):
        await lab.enqueue(type="mixed", attempts=number % 3, max_attempts=3 + number % 2)

    with crowded.recorder.recording() as sent:
        tasks = await lab.claim_many(30, types=("mixed",))
        refs = [ref_of(task) for task in tasks if task.status is Status.RUNNING]
        values = [{"value": number} for number in range(len(refs))]
        await lab.store.settle_many(refs, lifecycle.completed_each(), values)
        await lab.store.settle_many(refs, lifecycle.completed_each(), values)

    assert [next(iter(each)) for each in sent] == ["find", "update", "update", "update", "find"]
    assert "$or" in sent[1]["updates"][0]["q"]
    for command in sent[1:]:
        assert_plan(explain(volume, command), "_id_", keys=2 * 30 + 1, documents=30)


async def test_a_claim_of_many_with_nothing_due_looks_at_no_document(
    crowded: Recorded, volume: RawCollection
) -> None:
    with crowded.recorder.recording() as sent:
        assert list(await crowded.lab.claim_many(50, types=("late", "never seen"))) == []

    assert [next(iter(each)) for each in sent] == ["find"]
    keys = 2 * 2 * len(PRIORITIES)
    assert_plan(explain(volume, sent[0]), "claim", keys=keys, documents=0)


async def test_settling_looks_at_one_document(crowded: Recorded, volume: RawCollection) -> None:
    task = await crowded.lab.claim(types=TYPES)
    assert task is not None
    patch = lifecycle.retried(FAILURE, HOUR)

    with crowded.recorder.recording() as sent:
        await crowded.lab.store.settle(ref_of(task), lifecycle.progressed(1))
        await crowded.lab.store.is_held(ref_of(task))
        await crowded.lab.store.settle(ref_of(task), patch)
        await crowded.lab.store.settle(ref_of(task), patch)

    assert [next(iter(command)) for command in sent] == [
        "update",
        "find",
        "update",
        "update",
        "find",
    ]
    for command in sent:
        assert_plan(explain(volume, command), "_id_", keys=1, documents=1)


async def test_renewing_looks_at_the_renewed_alone(
    crowded: Recorded, volume: RawCollection
) -> None:
    tasks = [task for _ in range(20) if (task := await crowded.lab.claim(types=TYPES))]
    await crowded.lab.store.transition(tasks[0].id, lifecycle.cancel_requested())

    with crowded.recorder.recording() as sent:
        await crowded.lab.store.renew([a_renewal(task) for task in tasks])

    assert [next(iter(command)) for command in sent] == ["update", "find", "update"]
    for command in sent:
        assert_plan(explain(volume, command), "_id_", keys=2 * len(tasks) + 1, documents=20)


async def test_reaping_looks_at_what_has_lapsed(crowded: Recorded, volume: RawCollection) -> None:
    with crowded.recorder.recording() as sent:
        while await crowded.lab.store.reap(1):
            pass

    assert len(sent) == 2 * LAPSED + 1
    look, end = sent[:2]
    # All have lapsed and gone by now; so look at some again.
    assert_plan(explain(volume, end), "reap", keys=1, documents=0)
    volume.insert_many(others(crowded.lab.store.clock.now()))
    for command in (look, end):
        assert_plan(explain(volume, command), "reap", keys=2, documents=1)


async def test_looking_for_stuck_tasks_looks_at_those_alone(
    crowded: Recorded, volume: RawCollection
) -> None:
    store = crowded.lab.store
    assert isinstance(store, Sweeping)
    with crowded.recorder.recording() as sent:
        assert await store.rescue(5) == []
    (look,) = sent
    assert_plan(explain(volume, look), "stuck", keys=2, documents=0)
    stuck = [await crowded.lab.enqueue(type="stuck") for _ in range(3)]
    volume.update_many({"_id": {"$in": stuck}}, {"$unset": {"due_at": True}})

    with crowded.recorder.recording() as sent:
        assert {task.id for task in await store.stuck(5)} == set(stuck)
    assert_plan(explain(volume, sent[0]), "stuck", keys=4, documents=3)
    with crowded.recorder.recording() as sent:
        assert len(await store.rescue(5)) == 3
    assert [next(iter(command)) for command in sent] == ["find", *["findAndModify"] * 4]
    assert_plan(explain(volume, sent[1]), "stuck", keys=2, documents=0)
    volume.delete_many({"_id": {"$in": stuck}})


async def test_a_sweep_asks_the_index_once_for_each_queue(
    crowded: Recorded, volume: RawCollection
) -> None:
    store = crowded.lab.store
    assert isinstance(store, MongoStore)
    await store.register_queue(QueuePolicy("q"))
    await store.order_node("m.1", NodeOrder.QUIET)
    with crowded.recorder.recording() as sent:
        assert (await store.sweep(older_than=-HOUR, limit=5)).orders == ("m.1",)
    looks = [each for each in sent if each.get("find") == volume.name]
    assert len(looks) == 1
    assert_plan(explain(volume, looks[0]), "claim", keys=1, documents=0)
    writes = [each for each in sent if {"update", "delete"} & set(each)]
    assert [next(iter(each)) for each in writes] == ["delete"]


async def test_looking_for_a_lost_claim_looks_only_where_its_lease_can_end(
    crowded: Recorded, volume: RawCollection
) -> None:
    # The leases that other tests hold end later than this.
    request = a_claim(types=TYPES, lease=SECOND)

    with crowded.recorder.recording() as sent:
        assert await crowded.lab.store.find_claimed(request) == []

    claim, reap = (explain(volume, command) for command in sent)
    assert_plan(claim, "claim", keys=4 * len(TYPES) * len(PRIORITIES), documents=0)
    assert_plan(reap, "reap", keys=1, documents=0)


@pytest.mark.parametrize(
    ("queue", "kind", "limit"), [("q", "t1", 1), ("q", None, 2), (None, None, 2), ("r", None, 0)]
)
async def test_dead_letters_are_listed_from_their_index(
    crowded: Recorded, volume: RawCollection, queue: str | None, kind: str | None, limit: int
) -> None:
    dead = volume.count_documents({"status": "dead"})

    with crowded.recorder.recording() as sent:
        async for _ in crowded.lab.store.dead_ids(queue=queue, type=kind):
            break

    assert_plan(explain(volume, sent[0]), "dead", keys=limit * dead + 3, documents=limit * dead)


async def test_the_holder_of_a_key_is_one_key_away(
    crowded: Recorded, volume: RawCollection
) -> None:
    future = crowded.lab.store.clock.now() + HOUR
    for number in range(20):
        await crowded.lab.enqueue(unique_key=f"key{number}", type="keyed", due_at=future)

    with crowded.recorder.recording() as sent, pytest.raises(DuplicateTaskError):
        await crowded.lab.enqueue(unique_key="key7", type="keyed", due_at=future)

    assert [next(iter(command)) for command in sent] == ["insert", "find", "find"]
    assert_plan(explain(volume, sent[1]), "_id_", keys=1, documents=1)
    assert_plan(explain(volume, sent[2]), "unique", keys=1, documents=1)


async def test_the_holders_of_many_keys_are_looked_up_together(
    crowded: Recorded, volume: RawCollection
) -> None:
    future = crowded.lab.store.clock.now() + HOUR
    fields = {"type": "keyed", "due_at": future}
    holders = [await crowded.lab.enqueue(unique_key=f"m{number}", **fields) for number in range(20)]
    doubles = [crowded.lab.a_task(unique_key=f"m{number}", **fields) for number in range(20)]

    with crowded.recorder.recording() as sent:
        refused = await crowded.lab.store.insert_many(doubles)

    assert [getattr(refused[number], "existing_id", None) for number in range(20)] == holders
    assert [next(iter(command)) for command in sent] == ["insert", "find", "find"]
    assert_plan(explain(volume, sent[1]), "_id_", keys=40, documents=0)
    assert_plan(explain(volume, sent[2]), "unique", keys=40, documents=20)


async def test_one_task_is_read_withdrawn_and_deleted_by_its_id(
    crowded: Recorded, volume: RawCollection
) -> None:
    task_id = await crowded.lab.enqueue(type="other", due_at=crowded.lab.store.clock.now() + HOUR)

    with crowded.recorder.recording() as sent:
        await crowded.lab.get(task_id)
        await crowded.lab.store.transition(task_id, lifecycle.withdrawn())
        await crowded.lab.store.delete(task_id)

    assert len(sent) == 3
    for command in sent:
        assert_plan(explain(volume, command), "_id_", keys=1, documents=1)


async def test_only_live_work_is_in_the_claim_index(
    crowded: Recorded, volume: RawCollection
) -> None:
    everything = {"queue": {"$gt": ""}, "due_at": {"$exists": True}}
    listed = explain(volume, {"find": volume.name, "filter": everything, "hint": "claim"})

    assert listed.keys <= 3 * MANY + LAPSED + 2
    assert volume.count_documents({"status": "done"}) >= MANY
