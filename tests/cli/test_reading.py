"""Commands that only look leave no trace, and need no right to write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import anyio
import pytest
from bson import ObjectId
from pymongo import MongoClient

from gotasks_cli import _session
from gotasks_mongostore import MongoStore
from gotasks_py import Manager, QueuePolicy
from gotasks_py.metering import Report
from tests.cli.conftest import Terminal
from tests.cli.test_targets import NEITHER
from tests.mongo.test_open import guarded

__all__ = ["guarded"]

pytestmark = pytest.mark.mongo

LOOKS: Sequence[Sequence[str]] = (
    ("queue", "list"),
    ("task", "list"),
    ("task", "list", "--tag", "t"),
    ("dead", "list"),
    ("node", "list"),
    ("metrics", "show"),
    ("metrics", "show", "--minutes", "20000"),
    ("metrics", "scaling"),
    ("top", "--once"),
)


def url_of(mongodb: str, database: str) -> str:
    address, _, query = mongodb.partition("?")
    return f"{address}{database}?{query}"


def test_looking_into_a_database_that_is_not_there_makes_nothing(
    gotasks: Terminal, mongodb: str, raw_client: MongoClient[dict[str, Any]]
) -> None:
    name = f"typo_{uuid4().hex}"
    url = url_of(mongodb, name)
    task = str(ObjectId())
    for words in LOOKS:
        ended = gotasks(*words, "--store", url, env=NEITHER)
        assert ended.code == 0, (words, ended.err)
    # Nor does what finds nothing to act on.
    for words in (
        ("task", "show", task),
        ("task", "explain", task),
        ("task", "cancel", task),
        ("task", "retry", task),
        ("task", "delete", task, "--yes"),
        ("queue", "show", "q"),
        ("queue", "pause", "q"),
        ("queue", "set", "q", "--weight", "2"),
        ("queue", "purge", "q", "--yes"),
        ("node", "quiet", "m.1"),
        ("enqueue", "q", "t"),
    ):
        ended = gotasks(*words, "--store", url, env=NEITHER)
        assert ended.code == 4, (words, ended.err)
    assert gotasks("doctor", "--store", url, env=NEITHER).code == 1
    for words in (("dead", "requeue", "--yes"), ("dead", "purge", "--yes")):
        assert gotasks(*words, "--store", url, env=NEITHER).code == 0
    assert raw_client[name].list_collection_names() == []


def test_a_user_that_may_only_read_can_look(gotasks: Terminal, guarded: str) -> None:
    url = guarded.replace("//", "//{0}:{0}@") + f"gotasks_tests?namespace=looks_{uuid4().hex}"

    async def fill() -> ObjectId:
        store = MongoStore.from_url(url.format("app"))
        manager = Manager(store, queues=[QueuePolicy("q")])
        handle = await manager.enqueue("q", "t", 1)
        await store.report(Report())
        await store.aclose()
        assert isinstance(handle.id, ObjectId)
        return handle.id

    task = str(anyio.run(fill))
    for words in (
        *LOOKS,
        ("queue", "show", "q"),
        ("task", "show", task),
        ("task", "explain", task),
    ):
        ended = gotasks(*words, "--store", url.format("reader"), env=NEITHER)
        assert ended.code == 0, (words, ended.err)
    refused = gotasks("task", "cancel", task, "--store", url.format("reader"), env=NEITHER)
    assert refused.code == 6
    assert "not authorized" in refused.err


def test_an_index_that_is_missing_is_named_as_the_cause(
    gotasks: Terminal, mongodb: str, namespace: str, raw_client: MongoClient[dict[str, Any]]
) -> None:
    url = f"{url_of(mongodb, 'gotasks_tests')}&namespace={namespace}"
    raw_client["gotasks_tests"][namespace].insert_one({"queue": "q"})
    ended = gotasks("task", "list", "--tag", "t", "--store", url, env=NEITHER)
    assert ended.code == 6
    assert "an index is missing" in ended.err


def test_a_store_that_does_not_answer_is_named_and_given_up(
    gotasks: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_session, "_SAID_AFTER_SECONDS", 0.05)
    url = "mongodb://ann:secret@127.0.0.1:9,127.0.0.1:10/db?serverSelectionTimeoutMS=60000"
    for words in (("queue", "list"), ("doctor",), ("top", "--once"), ("enqueue", "q", "t")):
        ended = gotasks("--connect-timeout", "0.3", *words, "--store", url, env=NEITHER)
        assert ended.code == 6, words
        waiting, problem = ended.err.splitlines()
        assert waiting == "waiting for 127.0.0.1:9,127.0.0.1:10 ..."
        assert "the database did not answer" in problem
        assert "secret" not in ended.err
    patient = {**NEITHER, "GOTASKS_CONNECT_TIMEOUT": "0.2"}
    assert gotasks("queue", "list", "--store", url, env=patient).code == 6
    refused = gotasks("--connect-timeout", "0", "queue", "list", "--store", url, env=NEITHER)
    assert refused.code == 2
    assert "--connect-timeout" in refused.err
