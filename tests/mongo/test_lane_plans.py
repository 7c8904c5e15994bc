"""Claims over many lanes are served by their index in order, as explain tells it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import UTC
from typing import Any

import pytest
from pymongo import MongoClient

from tests.lab import HOUR, MINUTE, SECOND, RawCollection, a_claim
from tests.mongo.recorder import Recorded, recorded_lab
from tests.mongo.test_plans import PRIORITIES, TYPES, assert_plan, explain

pytestmark = [pytest.mark.anyio, pytest.mark.mongo]

LANES = tuple(range(16))
SCANS = len(LANES) * len(TYPES)
MANY = 24_000


@pytest.fixture(scope="module")
def volume(raw_client: MongoClient[dict[str, Any]]) -> Iterator[RawCollection]:
    """Fill 16 lanes, each with 5 types and 3 priorities, due and to come."""
    collection = raw_client["gotasks_tests"][f"lanes{uuid.uuid4().hex[:8]}"]
    now = raw_client.admin.command("hello")["localTime"]
    collection.insert_many(
        {
            "queue": "q",
            "lane": number % 16,
            "type": TYPES[number // 16 % 5],
            "priority": PRIORITIES[number // 80 % 3],
            "status": "pending",
            "attempts": 0,
            "max_attempts": 3,
            "due_at": now + HOUR if number // 240 % 2 else now - number * SECOND,
        }
        for number in range(MANY)
    )
    yield collection
    collection.drop()


@pytest.fixture
async def crowded(volume: RawCollection, mongodb: str) -> AsyncIterator[Recorded]:
    async with recorded_lab(mongodb, volume) as recorded:
        yield recorded


@pytest.mark.parametrize("queue", ["q", "empty"])
async def test_a_claim_of_all_lanes_is_merged_in_order(
    crowded: Recorded, volume: RawCollection, queue: str
) -> None:
    with crowded.recorder.recording() as sent:
        task = await crowded.lab.claim(queue=queue, types=TYPES, lanes=LANES)

    assert (task is None) == (queue == "empty")
    (command,) = sent
    plan = explain(volume, command)
    assert_plan(plan, "claim", keys=2 * SCANS * len(PRIORITIES), documents=1)
    assert "SORT_MERGE" in plan.stages


async def test_a_claim_of_one_lane_of_many_looks_at_no_other(
    crowded: Recorded, volume: RawCollection
) -> None:
    with crowded.recorder.recording() as sent:
        for _ in range(3):
            assert await crowded.lab.claim(types=TYPES, lanes=(7,)) is not None

    for command in sent:
        plan = explain(volume, command)
        assert_plan(plan, "claim", keys=2 * len(TYPES) * len(PRIORITIES), documents=1)


async def test_a_claim_divided_is_merged_in_each_part(
    crowded: Recorded, volume: RawCollection
) -> None:
    types = (*(f"none{number}" for number in range(15)), *TYPES)

    with crowded.recorder.recording() as sent:
        assert await crowded.lab.claim(queue="empty", types=types, lanes=LANES) is None

    assert len(sent) == 2
    for command in sent:
        plan = explain(volume, command | {"query": command["query"] | {"queue": "q"}})
        assert_plan(plan, "claim", keys=2 * 200 * len(PRIORITIES), documents=1)


@pytest.mark.parametrize("others", [0, 15])
async def test_the_next_due_time_of_all_lanes_is_one_look_for_each_priority(
    crowded: Recorded, volume: RawCollection, others: int
) -> None:
    types = (*(f"none{number}" for number in range(others)), *TYPES)

    with crowded.recorder.recording() as sent:
        due_at = await crowded.lab.store.next_due("q", types, LANES)

    (earliest,) = volume.find({"due_at": {"$exists": True}}).sort({"due_at": 1}).limit(1)
    assert due_at == earliest["due_at"].replace(tzinfo=UTC)
    parts = 2 if others else 1
    assert parts < len(sent) <= parts * (len(PRIORITIES) + 1)
    for command in sent:
        scans = len(types) * len(LANES)
        assert_plan(explain(volume, command), "claim", keys=2 * scans, documents=1)


async def test_a_lost_claim_of_all_lanes_is_looked_for_only_where_its_lease_can_end(
    crowded: Recorded, volume: RawCollection
) -> None:
    request = a_claim(types=TYPES, lanes=LANES, lease=MINUTE)

    with crowded.recorder.recording() as sent:
        assert await crowded.lab.store.find_claimed(request) == []

    claim, reap = (explain(volume, command) for command in sent)
    # Other tests hold a few leases that end within the same minute.
    assert_plan(claim, "claim", keys=4 * SCANS * len(PRIORITIES) + 100, documents=100)
    assert_plan(reap, "reap", keys=1, documents=0)
