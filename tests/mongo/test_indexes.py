"""Indexes are made once, by whoever comes first; what stands in the way is told."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest
from pymongo import AsyncMongoClient, MongoClient

from gotasks_mongostore import MongoStore
from gotasks_py.errors import ConfigurationError
from tests.lab import RawCollection, raw_collection
from tests.mongo.recorder import recorded_lab

pytestmark = [pytest.mark.anyio, pytest.mark.mongo]

NAMES = {
    "_id_",
    "claim",
    "reap",
    "stuck",
    "unique",
    "ttl",
    "dead",
    "list",
    "cancelling",
    "errors",
    "tags",
    "released",
}
WHILE_EXPIRING = {"expires_at": {"$exists": True}}


@pytest.fixture
def tasks(raw_client: MongoClient[dict[str, Any]], namespace: str) -> RawCollection:
    return raw_collection(raw_client, namespace)


async def connect(uri: str, tasks: RawCollection) -> None:
    store = await MongoStore.connect(uri, database=tasks.database.name, namespace=tasks.name)
    await store.aclose()


async def test_opening_makes_the_indexes(mongodb: str, tasks: RawCollection) -> None:
    await connect(mongodb, tasks)

    assert set(tasks.index_information()) == NAMES


async def test_opening_again_makes_none(mongodb: str, tasks: RawCollection) -> None:
    await connect(mongodb, tasks)
    before = tasks.index_information()

    async with recorded_lab(mongodb, tasks) as recorded:
        assert [next(iter(command)) for command in recorded.recorder.sent] == ["listIndexes"]

    assert tasks.index_information() == before


async def test_many_may_open_an_empty_namespace_at_once(mongodb: str, tasks: RawCollection) -> None:
    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(connect, mongodb, tasks)

    assert set(tasks.index_information()) == NAMES


async def test_a_changed_lifetime_option_is_put_right_and_said(
    mongodb: str, tasks: RawCollection, caplog: pytest.LogCaptureFixture
) -> None:
    tasks.create_index(
        [("expires_at", 1)],
        name="ttl",
        expireAfterSeconds=86_400,
        partialFilterExpression=WHILE_EXPIRING,
    )

    with caplog.at_level(logging.WARNING, logger="gotasks_py"):
        await connect(mongodb, tasks)

    assert tasks.index_information()["ttl"]["expireAfterSeconds"] == 0
    (record,) = caplog.records
    assert "86400" in record.message
    assert "changing it to 0 s" in record.message


async def test_many_may_put_the_lifetime_right_at_once(mongodb: str, tasks: RawCollection) -> None:
    tasks.create_index(
        [("expires_at", 1)],
        name="ttl",
        expireAfterSeconds=60,
        partialFilterExpression=WHILE_EXPIRING,
    )

    async with anyio.create_task_group() as group:
        for _ in range(6):
            group.start_soon(connect, mongodb, tasks)

    assert tasks.index_information()["ttl"]["expireAfterSeconds"] == 0


@pytest.mark.parametrize(
    ("name", "keys", "options", "found", "needed"),
    [
        ("reap", [("reap_at", -1)], {}, "('reap_at', -1)", "('reap_at', 1)"),
        ("dead", [("queue", 1), ("type", 1), ("finished_at", 1)], {}, "None", "'status': 'dead'"),
        (
            "unique",
            [("queue", 1), ("lane", 1), ("unique_key", 1)],
            {"partialFilterExpression": {"unique_key": {"$exists": True}}},
            "unique: found None",
            "needed True",
        ),
        (
            "claim",
            [("queue", 1), ("due_at", 1)],
            {"partialFilterExpression": {"due_at": {"$exists": True}}},
            "('due_at', 1)]",
            "('priority', -1)",
        ),
        ("ttl", [("expires_at", 1)], {"expireAfterSeconds": 5}, "None", "'expires_at'"),
    ],
)
async def test_another_index_of_the_name_is_refused_with_both_meanings(
    mongodb: str,
    tasks: RawCollection,
    name: str,
    keys: list[tuple[str, int]],
    options: dict[str, Any],
    found: str,
    needed: str,
) -> None:
    tasks.create_index(keys, name=name, **options)
    before = tasks.index_information()[name]

    with pytest.raises(ConfigurationError) as refused:
        await connect(mongodb, tasks)

    message = str(refused.value)
    for said in (repr(name), tasks.full_name, found, needed, "drop it", "namespace="):
        assert said in message
    assert tasks.index_information()[name] == before


async def test_the_same_index_under_another_name_is_refused_by_name(
    mongodb: str, tasks: RawCollection
) -> None:
    tasks.create_index(
        [("reap_at", 1)], name="mine", partialFilterExpression={"reap_at": {"$exists": True}}
    )

    with pytest.raises(ConfigurationError) as refused:
        await connect(mongodb, tasks)

    for said in ("'reap'", "mine", tasks.full_name, "drop that one"):
        assert said in str(refused.value)


async def test_indexes_of_the_user_are_left_alone(mongodb: str, tasks: RawCollection) -> None:
    tasks.create_index([("tags", 1)], name="mine")

    await connect(mongodb, tasks)

    assert set(tasks.index_information()) == NAMES | {"mine"}


async def test_tasks_that_break_uniqueness_are_a_typed_error(
    mongodb: str, tasks: RawCollection
) -> None:
    tasks.insert_many({"queue": "q", "lane": 0, "unique_key": "k"} for _ in range(2))

    with pytest.raises(Exception, match="unique") as refused:
        await connect(mongodb, tasks)

    assert type(refused.value).__module__ == "gotasks_py.errors"


async def test_two_namespaces_share_a_database(
    mongodb: str, raw_client: MongoClient[dict[str, Any]], namespace: str
) -> None:
    async with AsyncMongoClient[Any](mongodb) as client:
        for name in (namespace, f"{namespace}_b"):
            store = MongoStore(client, database="gotasks_tests", namespace=name)
            await store.open()
    other = raw_collection(raw_client, f"{namespace}_b")

    assert set(other.index_information()) == NAMES
    other.drop()
