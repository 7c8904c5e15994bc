"""``gotasks doctor``: each thing that can be wrong is found, with what to do about it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import anyio
import pytest
from pymongo import MongoClient

from gotasks_mongostore import MongoStore
from gotasks_mongostore.local import LocalReplicaSet
from gotasks_py import NodeOrder, QueuePolicy
from gotasks_py.metering import Beat, Report
from gotasks_py.nodes import Node
from tests.cli.conftest import Terminal
from tests.cli.test_many import store
from tests.cli.test_targets import NEITHER
from tests.cli.test_tasks import EMAIL, spoil
from tests.mongo.test_open import guarded

HOUR = timedelta(hours=1)


def found(gotasks: Terminal, *options: str, code: int, **settings: Any) -> dict[str, list[str]]:
    """Run the doctor; tell the findings that are not well, by check."""
    ended = gotasks("doctor", "-o", "json", *options, **settings)
    assert ended.code == code, (ended.out, ended.err)
    findings: dict[str, list[str]] = {}
    for each in ended.json:
        if each["is"] != "ok":
            assert each["remedy"]
            findings.setdefault(each["check"], []).append(each["found"])
    return findings


def a_node(*types: str) -> None:
    node = Node(id="m.1", host="h", pid=7, version="1", queues=("emails",), types={"emails": types})
    anyio.run(store().report, Report(beat=Beat(node=node, good_for=HOUR)))


def test_a_store_without_tasks_is_well(gotasks: Terminal) -> None:
    assert found(gotasks, code=0) == {}


def test_a_queue_that_nobody_works_on_is_found(gotasks: Terminal) -> None:
    due = store().clock.now() - HOUR
    spoil(gotasks.enqueue("emails", "send", EMAIL), due_at=due, run_at=due)
    (said,) = found(gotasks, code=1)["stuck tasks"]
    assert said == "a task of queue 'emails' has been due for 60.0 min"
    a_node("send")
    ended = gotasks("doctor")
    assert ended.code == 0
    assert "too few workers" in ended.out


def test_a_type_that_nobody_handles_is_found(gotasks: Terminal) -> None:
    gotasks.enqueue("emails", "send", EMAIL)
    a_node("other")
    (said,) = found(gotasks, code=1)["stuck tasks"]
    assert "tasks of type 'send', and no manager handles it" in said


def test_running_tasks_that_lost_their_worker_are_found(gotasks: Terminal) -> None:
    task_id = gotasks.enqueue("emails", "send", EMAIL)
    lease = {"token": "t", "owner": "w", "until": store().clock.now() - HOUR}
    spoil(task_id, status="running", lease=lease, due_at=store().clock.now() + HOUR)
    (said,) = found(gotasks, code=1)["stuck tasks"]
    assert "1 running tasks of queue 'emails' have lost their worker" in said
    assert task_id in said


def test_tasks_that_nothing_would_move_are_found_and_left(gotasks: Terminal) -> None:
    task_id = gotasks.enqueue("emails", "send", EMAIL)
    spoil(task_id, due_at=None)
    (said,) = found(gotasks, code=1)["stuck tasks"]
    assert said.startswith("1 tasks have neither a time to be claimed nor one to be ended")
    assert f"such as {task_id} of queue 'emails'" in said
    assert gotasks("task", "show", task_id, "-o", "json").json["due_at"] is None


__all__ = ["guarded"]


@pytest.fixture
def place(mongodb: str, namespace: str, raw_client: MongoClient[dict[str, Any]]) -> tuple[str, Any]:
    """Tell a URL, and the collection behind it, with all that a store makes."""
    address, _, query = mongodb.partition("?")
    url = f"{address.rstrip('/')}/gotasks_tests?{query}&namespace={namespace}"

    async def make() -> None:
        store = MongoStore.from_url(url)
        await store.open()
        await store.aclose()

    anyio.run(make)
    return url, raw_client["gotasks_tests"][namespace]


@pytest.mark.mongo
def test_a_replica_set_is_well(gotasks: Terminal, place: tuple[str, Any]) -> None:
    url, _ = place
    findings = found(gotasks, "--store", url, env=NEITHER, code=0)
    # How far the oplog reaches back depends on what other tests have written.
    assert set(findings) <= {"oplog"}
    checks = [
        each["check"] for each in gotasks("doctor", "-s", url, "-o", "json", env=NEITHER).json
    ]
    assert checks == [
        "server version",
        "rights",
        "replica set",
        "concerns",
        "clock",
        "oplog",
        "indexes",
        "plans",
        "stuck tasks",
    ]


@pytest.mark.mongo
def test_what_is_wrong_with_the_indexes_is_found_and_not_mended(
    gotasks: Terminal, place: tuple[str, Any]
) -> None:
    url, tasks = place
    tasks.create_index([("queue", 1), ("created_at", 1)], name="rival")
    (rival,) = found(gotasks, "--store", url, env=NEITHER, code=0)["indexes"]
    assert "'rival'" in rival
    tasks.drop_index("claim")
    tasks.drop_index("reap")
    tasks.create_index([("reap_at", -1)], name="reap")
    findings = found(gotasks, "--store", url, env=NEITHER, code=1)
    assert [said.split(" of ")[0] for said in findings["indexes"]] == [
        "'claim'",
        "'reap'",
        "'rival'",
    ]
    assert any("claim" in said for said in findings["plans"])
    assert "claim" not in tasks.index_information()
    assert findings["stuck tasks"] == ["not looked at, until the above is mended"]


@pytest.mark.mongo
def test_what_is_wrong_with_metrics_and_orders_is_found(
    gotasks: Terminal, place: tuple[str, Any]
) -> None:
    url, tasks = place

    async def use() -> None:
        store = MongoStore.from_url(url)
        await store.register_queue(QueuePolicy("q"))
        node = Node(id="m.1", host="h", pid=7, version="1")
        await store.report(Report(beat=Beat(node=node, good_for=HOUR)))
        await store.order_node("m.1", NodeOrder.QUIET)
        await store.aclose()

    anyio.run(use)
    assert set(found(gotasks, "--store", url, env=NEITHER, code=0)) <= {"oplog"}
    metrics = tasks.database[f"{tasks.name}_metrics"]
    metrics.drop_index("series")
    metrics.create_index([("expires_at", -1)], name="rival")
    tasks.database[f"{tasks.name}_queues"].drop_index("ttl")
    tasks.database[f"{tasks.name}_queues"].create_index([("expires_at", -1)], name="ttl")
    findings = found(gotasks, "--store", url, env=NEITHER, code=1)
    said = " ".join(findings["indexes"])
    assert f"'ttl' of {tasks.full_name}_queues is not the library's" in said
    assert f"'series' of {tasks.full_name}_metrics is missing" in said
    assert f"'rival' of {tasks.full_name}_metrics begins with 'expires_at'" in said
    assert [each.partition(":")[0] for each in findings["plans"]] == [
        "metrics",
        "metrics of a queue",
        "managers",
    ]


@pytest.mark.mongo
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("reader", "may not insert, update, remove, createIndex in gotasks_tests.tasks"),
        ("nobody", "not authorized on gotasks_tests"),
        ("", "requires authentication"),
        ("app:wrong", "Authentication failed"),
    ],
)
def test_a_user_without_rights_is_told_what_is_missing(
    gotasks: Terminal, guarded: str, name: str, says: str
) -> None:
    user, _, password = name.partition(":")
    login = f"{user}:{password or user}@" if user else ""
    url = guarded.replace("//", f"//{login}") + "gotasks_tests"
    ended = gotasks("doctor", "-o", "json", "--store", url, env=NEITHER)
    assert (ended.code, ended.err) == (1, "")
    rights = [each for each in ended.json if each["is"] == "error" and each["check"] == "rights"]
    assert rights
    assert says in rights[0]["found"]
    assert all("readWrite" in each["remedy"] for each in rights)


@pytest.mark.mongo
def test_a_user_that_may_do_what_managers_do_is_well(gotasks: Terminal, guarded: str) -> None:
    url = guarded.replace("//", "//app:app@") + "gotasks_tests"
    findings = gotasks("doctor", "-o", "json", "--store", url, env=NEITHER).json
    (rights,) = [each for each in findings if each["check"] == "rights"]
    assert (rights["is"], rights["found"]) == ("ok", "user 'app' may do all that managers do")


@pytest.mark.mongo
def test_a_standalone_server_is_found(gotasks: Terminal) -> None:
    with LocalReplicaSet(standalone=True) as server:
        url = f"{server.uri}shop"
        findings = found(gotasks, "--store", url, env=NEITHER, code=1)
    assert findings["replica set"][0].startswith("a standalone server")
    assert len(findings["indexes"]) >= 5


def test_a_server_that_is_down_is_one_line(gotasks: Terminal) -> None:
    url = "mongodb://127.0.0.1:9/db?serverSelectionTimeoutMS=50"
    ended = gotasks("doctor", "--store", url, env=NEITHER)
    assert (ended.code, ended.out, ended.err.count("\n")) == (6, "", 1)
