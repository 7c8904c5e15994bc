"""Every look at many tasks is served by an index and bounded, as explain tells it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from bson.codec_options import CodecOptions, DatetimeConversion
from pymongo import MongoClient

from gotasks_mongostore import MongoStore
from gotasks_py import Status, TaskFilter
from tests.lab import RawCollection
from tests.mongo.recorder import Recorded, explainable, recorded_lab

pytestmark = [pytest.mark.anyio, pytest.mark.mongo]

MANY = 20_000
WINDOW = 2_000
STATUSES = ("pending", "done", "done", "dead")
QUEUES = ("q", "r")
CAUSES = 10


# Bounds of an index may be dates that Python has none of.
_ANY_DATE: CodecOptions[dict[str, Any]] = CodecOptions(
    datetime_conversion=DatetimeConversion.DATETIME_AUTO
)


@pytest.fixture(scope="module")
def volume(raw_client: MongoClient[dict[str, Any]]) -> Iterator[RawCollection]:
    database = raw_client["gotasks_tests"]
    collection = database[f"inspected{uuid.uuid4().hex[:8]}"]
    queues = database[f"{collection.name}_queues"]
    now = raw_client.admin.command("hello")["localTime"]
    collection.insert_many((a_task(number, now) for number in range(MANY)), ordered=False)
    queues.insert_many([{"_id": name} for name in QUEUES])
    yield collection
    collection.drop()
    queues.drop()


def a_task(number: int, now: datetime) -> dict[str, Any]:
    status = STATUSES[number % 4]
    run_at = now + timedelta(seconds=number - MANY // 2)
    task: dict[str, Any] = {
        "queue": QUEUES[number // 4 % 2],
        "lane": 0,
        "type": f"t{number % 5}",
        "status": status,
        "priority": 0,
        "payload": {"n": number},
        "run_at": run_at,
        "tags": ["even"] if number % 2 == 0 else [],
    }
    if status == "pending":
        return task | {"due_at": run_at, "unique_key": f"k{number}"}
    if status == "dead":
        task |= {"error_fingerprint": f"{number % CAUSES:016x}", "released_key": f"old{number % 7}"}
    return task | {"finished_at": run_at}


@pytest.fixture
async def crowded(volume: RawCollection, mongodb: str) -> AsyncIterator[Recorded]:
    async with recorded_lab(mongodb, volume) as recorded:
        yield recorded


def store_of(crowded: Recorded) -> MongoStore:
    assert isinstance(crowded.lab.store, MongoStore)
    return crowded.lab.store


def plans(volume: RawCollection, sent: list[dict[str, Any]]) -> Iterator[tuple[str, int, int]]:
    """Tell of each command on tasks its index, and how many keys and documents it looks at."""
    for command in sent:
        if volume.name not in command.values():
            continue
        answer = volume.database.command(
            "explain", explainable(command), verbosity="executionStats", codec_options=_ANY_DATE
        )
        inner = answer["stages"][0]["$cursor"] if "stages" in answer else answer
        stages = list(walk(inner["queryPlanner"]["winningPlan"]))
        assert not {stage["stage"] for stage in stages} & {"COLLSCAN", "SORT"}
        (index,) = {stage["indexName"] for stage in stages if "indexName" in stage}
        stats = inner["executionStats"]
        yield index, stats["totalKeysExamined"], stats["totalDocsExamined"]


def walk(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "stage" in plan:
        yield plan
    for value in plan.values():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                yield from walk(each)


@pytest.mark.parametrize(
    ("wanted", "index", "scans"),
    [
        (TaskFilter(), "list", 10),
        (TaskFilter(queue="q"), "list", 5),
        (TaskFilter(queue="q", status="done"), "list", 1),
        (TaskFilter(tag="even"), "tags", 1),
        (TaskFilter(fingerprint=f"{3:016x}"), "errors", 2),
    ],
)
@pytest.mark.parametrize("newest_first", [True, False])
async def test_a_page_is_what_it_shows(
    crowded: Recorded,
    volume: RawCollection,
    wanted: TaskFilter,
    index: str,
    scans: int,
    newest_first: bool,
) -> None:
    store = store_of(crowded)
    page = await store.find_tasks(wanted, newest_first=newest_first)
    with crowded.recorder.recording() as sent:
        await store.find_tasks(wanted, cursor=page.cursor, newest_first=newest_first)

    found = list(plans(volume, sent))

    assert found
    for used, keys, documents in found:
        assert (used, documents <= 51, keys <= 51 + 2 * scans) == (index, True, True)


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (TaskFilter(type="nothing"), "list"),
        (TaskFilter(payload={"n": -1}), "list"),
        (TaskFilter(error="nothing"), "list"),
        (TaskFilter(worker="nobody"), "list"),
        (TaskFilter(tag="even", queue="r", status="running"), "tags"),
    ],
)
async def test_a_search_looks_through_windows(
    crowded: Recorded, volume: RawCollection, wanted: TaskFilter, index: str
) -> None:
    with crowded.recorder.recording() as sent:
        await store_of(crowded).find_tasks(wanted)

    for used, keys, documents in plans(volume, sent):
        assert (used, documents <= WINDOW, keys <= WINDOW + 50) == (index, True, True)


async def test_a_key_is_looked_up(crowded: Recorded, volume: RawCollection) -> None:
    with crowded.recorder.recording() as sent:
        answer = volume.find_one({"unique_key": {"$exists": True}}) or {}
        page = await store_of(crowded).find_tasks(TaskFilter(unique_key=answer["unique_key"]))

    assert len(page.tasks) == 1
    sorted_in_memory = [each for each in sent if each.get("hint") == "unique"]
    others = [each for each in sent if each.get("hint") != "unique"]
    assert [used for used, *_ in plans(volume, others)] == ["released"]
    (lookup,) = sorted_in_memory
    # The few holders of one key are put in order; there is one for each queue at most.
    lookup["pipeline"] = [stage for stage in lookup["pipeline"] if "$sort" not in stage]
    ((used, keys, documents),) = plans(volume, [lookup])
    assert (used, documents, keys <= 10) == ("unique", 1, True)


async def test_counts_and_overviews_read_keys_alone(
    crowded: Recorded, volume: RawCollection
) -> None:
    store = store_of(crowded)
    with crowded.recorder.recording() as sent:
        await store.count_tasks(TaskFilter(status="done"), limit=100)
        await store.count_tasks(TaskFilter(queue="q"), limit=100)
        await store.overview()

    found = list(plans(volume, sent))

    assert len(found) == 2 + 2 * 7
    assert {used for used, *_ in found} == {"list"}
    assert all(documents <= 1 for _, _, documents in found)
    assert all(keys <= 110 for _, keys, _ in found[:2])


async def test_what_scaling_asks_of_a_queue_is_two_looks_at_its_index(
    crowded: Recorded, volume: RawCollection
) -> None:
    store = store_of(crowded)
    due = TaskFilter(queue="q", status=Status.PENDING, run_before=store.clock.now())
    with crowded.recorder.recording() as sent:
        counted = await store.count_tasks(due, limit=100)
        await store.find_tasks(due, limit=1, newest_first=False)
    assert str(counted) == "100+"
    count, first = list(plans(volume, sent))
    assert count[0] == first[0] == "list"
    assert count[1] <= 102
    assert first[1] <= 3
    assert first[2] <= 2


async def test_a_group_of_dead_letters_is_one_look_and_one_count(
    crowded: Recorded, volume: RawCollection
) -> None:
    with crowded.recorder.recording() as sent:
        page = await store_of(crowded).dead_groups()

    found = list(plans(volume, sent))

    assert sum(group.count.value for group in page.groups) == MANY // 4
    assert {used for used, *_ in found} == {"errors"}
    looks = [keys for _, keys, documents in found if documents]
    assert looks == [1] * len(page.groups)


async def test_what_is_being_cancelled_is_empty_at_no_cost(
    crowded: Recorded, volume: RawCollection
) -> None:
    with crowded.recorder.recording() as sent:
        assert await store_of(crowded).cancelling() == frozenset()

    assert list(plans(volume, sent)) == [("cancelling", 0, 0)]
