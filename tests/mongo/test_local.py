"""The throw-away replica set: real mongods, started, hurt and gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient, WriteConcern
from pymongo.errors import OperationFailure, PyMongoError

from gotasks_mongostore.local import LocalReplicaSet, find_mongod, mongodb_uri
from gotasks_py.errors import ConfigurationError, StoreUnavailableError
from tests.processes import is_alive

pytestmark = pytest.mark.mongo

STORES = Path(__file__).parents[2] / "stores"
JOURNALED = WriteConcern(w="majority", j=True, wtimeout=20_000)

Client = MongoClient[dict[str, Any]]


@pytest.fixture(scope="module")
def single() -> Iterator[LocalReplicaSet]:
    with LocalReplicaSet(test_commands=True) as servers:
        yield servers


@pytest.fixture
def client(single: LocalReplicaSet) -> Iterator[Client]:
    with connect(single.uri) as client:
        yield client


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOTASKS_MONGOD", raising=False)
    monkeypatch.delenv("GOTASKS_MONGODB_URI", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delitem(sys.modules, "fiftyone", raising=False)
    monkeypatch.setattr(sys, "path", [])


def connect(uri: str, timeout_ms: int = 10_000) -> Client:
    return MongoClient(uri, serverSelectionTimeoutMS=timeout_ms)


def insert(client: Client, document: dict[str, Any]) -> None:
    client["demo"].get_collection("things", write_concern=JOURNALED).insert_one(document)


def eventually(condition: Callable[[], bool], seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def program(path: Path) -> Path:
    path.write_text("#!/bin/sh\necho 'cannot open libexample.so.4' >&2\nexit 127\n")
    path.chmod(0o755)
    return path


def test_the_uri_leads_to_a_primary_that_journals_majority_writes(client: Client) -> None:
    insert(client, {"_id": "majority"})

    assert client.primary is not None
    assert client["demo"]["things"].find_one({"_id": "majority"}) == {"_id": "majority"}


def test_it_listens_on_loopback_only(client: Client) -> None:
    options = client.admin.command("getCmdLineOpts")["parsed"]

    assert options["net"]["bindIp"] == "127.0.0.1"
    assert options["net"]["unixDomainSocket"] == {"enabled": False}


def test_test_commands_allow_fail_points(client: Client) -> None:
    fail_point = {"failCommands": ["find"], "errorCode": 8}
    client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=fail_point)

    with pytest.raises(OperationFailure, match="failCommand"):
        client["demo"]["things"].find_one()


@pytest.mark.parametrize("end", [LocalReplicaSet.kill, LocalReplicaSet.terminate])
def test_a_restarted_member_keeps_its_port_and_data(
    single: LocalReplicaSet, client: Client, end: Callable[[LocalReplicaSet, int], None]
) -> None:
    name = end.__name__
    insert(client, {"_id": name})
    before = (single.members[0].port, single.members[0].pid)

    end(single, 0)
    assert not is_alive(before[1])
    single.restart(0)

    assert single.members[0].port == before[0]
    assert single.members[0].pid != before[1]
    assert client["demo"]["things"].count_documents({"_id": name}) == 1


def test_a_member_can_be_ended_twice_but_not_paused_while_it_is_down(
    single: LocalReplicaSet,
) -> None:
    single.kill(0)
    single.kill(0)

    with pytest.raises(ProcessLookupError, match="not running"):
        single.pause(0)
    single.restart(0)


def test_a_paused_member_goes_silent_until_it_is_resumed(
    single: LocalReplicaSet, client: Client
) -> None:
    single.pause(0)
    with connect(single.uri, timeout_ms=300) as impatient, pytest.raises(PyMongoError):
        impatient.admin.command("ping")

    single.resume(0)
    assert client.admin.command("ping")["ok"] == 1


def test_a_paused_member_can_be_terminated(single: LocalReplicaSet) -> None:
    single.pause(0)
    single.terminate(0)
    assert not single.members[0].is_running
    single.restart(0)


def test_three_members_elect_another_primary_when_theirs_is_killed() -> None:
    with LocalReplicaSet(members=3) as servers, connect(servers.uri) as client:
        insert(client, {"_id": 1})
        first = servers.primary()
        servers.kill(first)

        assert servers.primary() != first
        insert(client, {"_id": 2})
        servers.restart(first)
        assert client["demo"]["things"].count_documents({}) == 2


def test_a_standalone_server_has_no_replica_set() -> None:
    with LocalReplicaSet(standalone=True) as servers, connect(servers.uri) as client:
        with pytest.raises(OperationFailure, match="replica set"):
            client["demo"]["things"].watch()
        assert "replicaSet" not in servers.uri


def test_leaving_the_block_leaves_no_process_and_no_file() -> None:
    with LocalReplicaSet() as servers:
        pid = servers.members[0].pid
        with connect(servers.members[0].uri) as client:
            options = client.admin.command("getCmdLineOpts")["parsed"]
        data = Path(options["storage"]["dbPath"])
        assert data.exists()

    assert not is_alive(pid)
    assert not data.parent.exists()


def test_it_outlives_the_thread_that_started_it() -> None:
    servers = LocalReplicaSet()
    thread = threading.Thread(target=servers.__enter__)
    thread.start()
    thread.join()

    try:
        time.sleep(0.5)
        assert servers.members[0].is_running
    finally:
        servers.__exit__(None, None, None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_mongod_outlives_the_process_that_started_it(
    number: signal.Signals, tmp_path: Path
) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{STORES}:{STORES.parent}"}
    with subprocess.Popen(
        [sys.executable, "-m", "gotasks_mongostore.local"],
        env={**environment, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        uri = parent.stdout.readline().strip()
        with connect(uri) as client:
            pid: int = client.admin.command("serverStatus")["pid"]
        parent.send_signal(number)

    assert eventually(lambda: not is_alive(pid))
    assert eventually(lambda: not list(tmp_path.iterdir()))


def test_a_running_server_is_used_before_one_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOTASKS_MONGODB_URI", "mongodb://example/")
    with mongodb_uri() as uri:
        assert uri == "mongodb://example/"


def test_one_is_started_where_no_uri_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOTASKS_MONGODB_URI", raising=False)
    with mongodb_uri() as uri, connect(uri) as client:
        assert client.admin.command("ping")["ok"] == 1


def test_the_configured_mongod_comes_before_the_one_on_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    configured, on_path = program(tmp_path / "mine"), program(tmp_path / "mongod")
    monkeypatch.setenv("PATH", str(tmp_path))

    monkeypatch.delenv("GOTASKS_MONGOD", raising=False)
    assert find_mongod() == on_path
    monkeypatch.setenv("GOTASKS_MONGOD", str(configured))
    assert find_mongod() == configured


def test_the_packaged_mongod_is_found_by_path_and_made_executable(
    nothing_installed: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    packaged = tmp_path / "fiftyone" / "db" / "bin" / "mongod"
    packaged.parent.mkdir(parents=True)
    program(packaged).chmod(0o644)
    (tmp_path / "fiftyone" / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])

    assert find_mongod() == packaged
    assert os.access(packaged, os.X_OK)


def test_nothing_found_names_every_remedy(nothing_installed: None) -> None:
    with pytest.raises(ConfigurationError) as caught:
        find_mongod()

    for remedy in ("pip install 'gotasks-py[local]'", "GOTASKS_MONGOD ", "GOTASKS_MONGODB_URI"):
        assert remedy in str(caught.value)


def test_a_configured_mongod_that_is_missing_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GOTASKS_MONGOD", str(tmp_path / "missing"))
    with pytest.raises(ConfigurationError, match=r"missing is not a program.*pip install"):
        find_mongod()


def test_a_mongod_that_cannot_start_is_reported_with_its_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GOTASKS_MONGOD", str(program(tmp_path / "broken")))
    with pytest.raises(StoreUnavailableError, match=r"broken.*\n.*libexample"), LocalReplicaSet():
        pass


@pytest.mark.parametrize("settings", [{"members": 0}, {"members": 3, "standalone": True}], ids=str)
def test_impossible_sizes_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="at least one"):
        LocalReplicaSet(**settings)
