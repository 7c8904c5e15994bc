"""Opening a store: what a server, a user, a client or an event loop can be unfit for."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, cast

import anyio
import anyio.abc
import pytest
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import AsyncMongoClient, MongoClient
from pymongo.asynchronous.database import AsyncDatabase

from gotasks_mongostore import MongoStore
from gotasks_mongostore.local import LocalReplicaSet
from gotasks_py import Manager, QueuePolicy, lifecycle
from gotasks_py.errors import (
    ConfigurationError,
    GotasksError,
    StoreError,
    StorePermissionError,
    StoreUnavailableError,
)
from gotasks_py.task import LeaseRef
from tests.lab import Lab, raw_collection, ref_of
from tests.mongo.recorder import Recorder

pytestmark = [pytest.mark.anyio, pytest.mark.mongo]

DATABASE = "gotasks_tests"
SILENT = "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=300"


@pytest.fixture(scope="module")
def standalone() -> Iterator[str]:
    with LocalReplicaSet(standalone=True) as servers:
        yield servers.uri


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    """Start a server with users: ``app`` may write, ``reader`` read, ``nobody`` nothing."""
    with LocalReplicaSet(standalone=True, arguments=("--auth",)) as servers:
        with MongoClient[dict[str, Any]](servers.uri) as client:
            client.admin.command("createUser", "root", pwd="root", roles=["root"])
        with MongoClient[dict[str, Any]](as_user(servers.uri, "root")) as client:
            for name, roles in (("app", ["readWrite"]), ("reader", ["read"]), ("nobody", [])):
                client[DATABASE].command("createUser", name, pwd=name, roles=roles)
        yield servers.uri


def as_user(uri: str, name: str, password: str | None = None) -> str:
    source = "admin" if name == "root" else DATABASE
    return uri.replace("//", f"//{name}:{password or name}@") + f"?authSource={source}"


async def test_a_server_that_does_not_answer_is_reported_in_its_own_time() -> None:
    started = time.monotonic()

    with pytest.raises(StoreUnavailableError) as refused:
        await MongoStore.connect(SILENT, database=DATABASE)

    assert time.monotonic() - started < 3
    assert "did not answer" in str(refused.value)
    assert "127.0.0.1:9" in str(refused.value)
    assert "check that it runs" in str(refused.value)
    assert refused.value.__cause__ is not None


async def test_the_operation_timeout_bounds_a_patient_uri() -> None:
    uri = "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=60000"
    started = time.monotonic()

    with pytest.raises(StoreUnavailableError):
        await MongoStore.connect(
            uri, database=DATABASE, operation_timeout=timedelta(milliseconds=300)
        )

    assert time.monotonic() - started < 3


async def test_a_server_that_listens_and_says_nothing_is_reported_in_time() -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0) as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        uri = f"mongodb://127.0.0.1:{port}/?serverSelectionTimeoutMS=300"

        with anyio.fail_after(10), pytest.raises(StoreUnavailableError):
            await MongoStore.connect(uri, database=DATABASE)


async def test_every_operation_reports_a_server_that_does_not_answer() -> None:
    store = MongoStore(SILENT, database=DATABASE, operation_timeout=timedelta(milliseconds=100))
    ref = LeaseRef(store.new_id(), "q", 0, "token")

    for operation in (
        store.open(),
        store.queues(),
        store.register_queue(QueuePolicy("q")),
        store.set_queue_policy(QueuePolicy("q")),
        store.get(store.new_id()),
        store.delete(store.new_id()),
        store.settle(ref, lifecycle.completed(None)),
        store.is_held(ref),
        store.transition(store.new_id(), lifecycle.withdrawn()),
        store.reap(1),
    ):
        with pytest.raises(StoreUnavailableError):
            await operation
    await store.aclose()


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("", "URI"),
        ("postgres://localhost", "mongodb://"),
        ("mongodb://", "URI"),
        ("mongodb://localhost:port", "cannot read the URI: Port"),
        ("mongodb://user:p@ss@localhost", "sername and password"),
    ],
)
async def test_a_uri_that_cannot_be_read_says_why(uri: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match="(?i)" + said):
        await MongoStore.connect(uri, database=DATABASE)


@pytest.mark.parametrize("name", ["", " ", "$x", "a\x00b", "x" * 300])
async def test_names_that_no_collection_can_have_are_refused(mongodb: str, name: str) -> None:
    with pytest.raises(ConfigurationError):
        MongoStore(mongodb, database=name)
    with pytest.raises(ConfigurationError):
        MongoStore(mongodb, database=DATABASE, namespace=name)


@pytest.mark.parametrize("database", ["a.b", "a b", "a/b", "x" * 100, "admin.$cmd"])
async def test_a_database_name_that_the_server_refuses_is_a_typed_error(
    mongodb: str, database: str
) -> None:
    with pytest.raises((ConfigurationError, StoreError)):
        await MongoStore.connect(mongodb, database=database)


@pytest.mark.parametrize("namespace", [".tasks", "tasks.", "a..b", "system.tasks"])
def test_a_namespace_that_is_no_name_for_a_collection_is_refused(namespace: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot name a collection"):
        MongoStore(SILENT, database=DATABASE, namespace=namespace)


async def test_a_blocking_client_is_refused_with_the_right_one_named(mongodb: str) -> None:
    with MongoClient[Any](mongodb) as client, pytest.raises(ConfigurationError) as refused:
        MongoStore(cast("Any", client), database=DATABASE)

    assert "AsyncMongoClient" in str(refused.value)
    assert "MongoClient" in str(refused.value)


@pytest.mark.parametrize("client", [None, 7, object(), b"mongodb://localhost"])
async def test_what_is_no_client_is_refused(client: object) -> None:
    with pytest.raises(ConfigurationError, match="AsyncMongoClient"):
        MongoStore(cast("Any", client), database=DATABASE)


@pytest.mark.parametrize("bad", [timedelta(0), timedelta(seconds=-1), 5, None])
async def test_an_absurd_operation_timeout_is_refused(mongodb: str, bad: object) -> None:
    with pytest.raises(ConfigurationError, match="operation_timeout"):
        MongoStore(mongodb, database=DATABASE, operation_timeout=cast("Any", bad))


async def test_a_wrong_password_is_a_permission_error(guarded: str) -> None:
    with pytest.raises(StorePermissionError) as refused:
        await MongoStore.connect(as_user(guarded, "app", "wrong"), database=DATABASE)

    for said in ("Authentication failed", "user", "password", "authSource", "readWrite"):
        assert said in str(refused.value)


@pytest.mark.parametrize("name", ["reader", "nobody"])
async def test_a_user_without_rights_is_told_so_before_anything_is_written(
    guarded: str, name: str
) -> None:
    with pytest.raises(StorePermissionError) as refused:
        await MongoStore.connect(as_user(guarded, name), database=DATABASE, namespace="none")

    assert "not authorized" in str(refused.value)
    assert "readWrite" in str(refused.value)
    with MongoClient[Any](as_user(guarded, "root")) as client:
        assert "none" not in client[DATABASE].list_collection_names()


async def test_no_login_at_all_is_a_permission_error(guarded: str) -> None:
    with pytest.raises(StorePermissionError):
        await MongoStore.connect(guarded, database=DATABASE)


async def test_a_user_that_may_read_and_write_its_database_needs_no_more(guarded: str) -> None:
    store = await MongoStore.connect(as_user(guarded, "app"), database=DATABASE)
    await store.register_queue(QueuePolicy("q"))
    lab = Lab(store, cast("Any", None), "mongostore")

    task = await lab.claimed()

    assert await store.settle(ref_of(task), lifecycle.completed(None))
    await store.aclose()


async def test_a_user_that_lost_its_rights_is_told_so_at_each_operation(guarded: str) -> None:
    store = MongoStore(as_user(guarded, "reader"), database=DATABASE)

    with pytest.raises(StorePermissionError):
        await store.insert(
            {"_id": store.new_id(), "queue": "q", "type": "t", "status": "pending", "lane": 0}
        )
    with pytest.raises(StorePermissionError):
        await store.delete(store.new_id())
    await store.aclose()


async def test_a_standalone_server_works_and_says_once_what_it_lacks(
    standalone: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="gotasks_py"):
        store = await MongoStore.connect(standalone, database=DATABASE)
        for _ in range(3):
            await store.open()
        lab = Lab(store, cast("Any", None), "mongostore")
        task = await lab.claimed(unique_key="k")
        assert await store.settle(ref_of(task), lifecycle.completed({"a": 1}))
        await store.aclose()

    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "not a replica set" in warnings[0].message


async def test_a_replica_set_has_nothing_to_warn_of(
    mongodb: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="gotasks_py"):
        store = await MongoStore.connect(mongodb, database=DATABASE, namespace=namespace)
        await store.aclose()

    assert caplog.records == []


@pytest.mark.parametrize("wire_version", [9, 12])
async def test_a_server_older_than_five_is_refused(
    mongodb: str, namespace: str, monkeypatch: pytest.MonkeyPatch, wire_version: int
) -> None:
    real = AsyncDatabase[Any].command

    async def command(self: Any, name: Any, *arguments: Any, **options: Any) -> Any:
        answer = await real(self, name, *arguments, **options)
        return {**answer, "maxWireVersion": wire_version} if name == "hello" else answer

    monkeypatch.setattr(AsyncDatabase, "command", command)

    with pytest.raises(ConfigurationError) as refused:
        await MongoStore.connect(mongodb, database=DATABASE, namespace=namespace)

    assert "MongoDB 5.0 or newer" in str(refused.value)
    assert str(wire_version) in str(refused.value)


async def test_a_store_that_is_opened_by_many_at_once_checks_the_server_once(
    mongodb: str, raw_client: MongoClient[dict[str, Any]], namespace: str
) -> None:
    recorder = Recorder()
    async with AsyncMongoClient[Any](mongodb, event_listeners=[recorder]) as client:
        store = MongoStore(client, database=DATABASE, namespace=namespace)
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(store.open)

    names = [next(iter(command)) for command in recorder.sent]
    assert names.count("listIndexes") == 1
    assert names.count("createIndexes") == 1


async def test_a_closed_store_opens_again(mongodb: str, namespace: str) -> None:
    store = MongoStore(mongodb, database=DATABASE, namespace=namespace)
    await store.open()
    await store.aclose()
    await store.aclose()

    assert await store.queues() == {}
    await store.aclose()


async def test_a_store_leaves_the_users_client_open(mongodb: str, namespace: str) -> None:
    async with AsyncMongoClient[Any](mongodb) as client:
        store = MongoStore(client, database=DATABASE, namespace=namespace)
        await store.open()
        await store.aclose()

        assert (await client.admin.command("ping"))["ok"] == 1


async def test_a_client_that_the_user_closed_is_a_typed_error(mongodb: str, namespace: str) -> None:
    client = AsyncMongoClient[Any](mongodb)
    store = MongoStore(client, database=DATABASE, namespace=namespace)
    await store.open()
    await client.close()

    with pytest.raises(GotasksError, match=r"(?i)close"):
        await store.get(store.new_id())


async def test_the_time_is_not_known_before_a_store_is_opened(mongodb: str) -> None:
    store = MongoStore(mongodb, database=DATABASE)

    with pytest.raises(ConfigurationError, match="open"):
        store.clock.now()


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_another_event_loop_than_asyncios_is_refused(mongodb: str) -> None:
    store = MongoStore(mongodb, database=DATABASE)

    with pytest.raises(ConfigurationError, match="asyncio"):
        await store.open()
    with pytest.raises(ConfigurationError, match="MemStore"):
        await store.get(store.new_id())


def test_a_store_made_from_a_uri_lives_through_several_event_loops(
    mongodb: str, namespace: str
) -> None:
    store = MongoStore(mongodb, database=DATABASE, namespace=namespace)
    manager = Manager(store, queues=[QueuePolicy("q")])

    async def enqueue() -> str:
        handle = await manager.enqueue("q", "t", {"n": 1})
        task = await manager.get(handle.id)
        await store.aclose()
        return str(task.status)

    assert [asyncio.run(enqueue()) for _ in range(3)] == ["pending"] * 3


def test_a_store_made_from_a_client_says_so_in_a_second_event_loop(
    mongodb: str, namespace: str
) -> None:
    async def make() -> tuple[AsyncMongoClient[Any], MongoStore]:
        client = AsyncMongoClient[Any](mongodb)
        store = MongoStore(client, database=DATABASE, namespace=namespace)
        await store.open()
        await client.close()
        return client, store

    _, store = asyncio.run(make())

    async def use() -> None:
        await store.queues()

    with pytest.raises(ConfigurationError, match="another event loop") as refused:
        asyncio.run(use())
    assert "URI" in str(refused.value)


def test_a_motor_client_says_so_in_a_second_event_loop(mongodb: str, namespace: str) -> None:
    async def make() -> MongoStore:
        client = AsyncIOMotorClient[Any](mongodb)
        store = MongoStore(client, database=DATABASE, namespace=namespace)
        await store.open()
        client.close()
        return store

    store = asyncio.run(make())

    async def use() -> None:
        await store.queues()

    with pytest.raises(ConfigurationError, match="another event loop"):
        asyncio.run(use())


FORK = """
import asyncio, os, sys
from gotasks_mongostore import MongoStore
from gotasks_py import Manager, QueuePolicy

uri, namespace = sys.argv[1:]
store = MongoStore(uri, database="gotasks_tests", namespace=namespace)
manager = Manager(store, queues=[QueuePolicy("q")])

async def enqueue(name):
    handle = await manager.enqueue("q", name, os.getpid())
    assert (await manager.get(handle.id)).payload == {"value": os.getpid()}
    await store.aclose()

asyncio.run(enqueue("before the fork"))
if (child := os.fork()) == 0:
    asyncio.run(enqueue("in the child"))
    os._exit(0)
asyncio.run(enqueue("after the fork"))
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_a_store_made_from_a_uri_works_on_both_sides_of_a_fork(
    mongodb: str, raw_client: MongoClient[dict[str, Any]], namespace: str
) -> None:
    # Since 3.12 Python warns of a fork where threads run, as those of the driver may.
    quiet = ["-W", "ignore:This process:DeprecationWarning"]
    program = [sys.executable, *quiet, "-c", FORK, mongodb, namespace]

    ended = subprocess.run(program, capture_output=True, text=True, timeout=40, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")
    kinds = raw_collection(raw_client, namespace).distinct("type")
    assert kinds == ["after the fork", "before the fork", "in the child"]
