"""A replica set is hurt as asked, tells what happened to it, and is whole again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bson import ObjectId
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from gotasks_chaos.cluster import Cluster
from gotasks_chaos.ledger import Ledger, read
from gotasks_chaos.profiles import OF_DATABASE, FaultKind
from gotasks_mongostore.local import LocalReplicaSet

pytestmark = [pytest.mark.mongo, pytest.mark.timeout(180)]

BRIEFLY = 0.2


@pytest.fixture(scope="module")
def three() -> Iterator[LocalReplicaSet]:
    with LocalReplicaSet(members=3, test_commands=True) as servers:
        yield servers


class Hurt:
    """A cluster and its ledger."""

    def __init__(self, servers: LocalReplicaSet, folder: Path) -> None:
        self.book = folder / "runner.ledger"
        self.servers = servers
        self.cluster = Cluster(servers, Ledger(self.book))

    def by(self, *kinds: FaultKind) -> list[tuple[str, int]]:
        """Inflict faults; tell what was noted: what, and of which member."""
        for kind in kinds:
            self.cluster.hurt(kind, BRIEFLY)
        self.cluster.close()
        assert not self.cluster.is_busy()
        return self.told()

    def told(self) -> list[tuple[str, int]]:
        """Tell what was noted so far."""
        return [(line.facts["what"], line.facts["member"]) for line in read(self.book)]


@pytest.fixture
def hurt(three: LocalReplicaSet, tmp_path: Path) -> Hurt:
    return Hurt(three, tmp_path)


def sorted_out(told: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Put last when it could be written to, whatever came first."""
    return sorted(told, key=lambda each: each[0] == "written")


def write(servers: LocalReplicaSet) -> None:
    with MongoClient[dict[str, Any]](servers.uri, w="majority") as client:
        client["demo"]["things"].insert_one({})


def await_write(uri: str) -> None:
    """Wait until a write waits for all members."""
    of_witness = {"$match": {"ns": "gotasks_chaos.witnessed", "command.insert": "witnessed"}}
    with MongoClient[dict[str, Any]](uri) as client:
        while not list(client.admin.aggregate([{"$currentOp": {}}, of_witness])):
            pass


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (FaultKind.KILL_PRIMARY, "primary killed"),
        (FaultKind.FREEZE_PRIMARY, "primary frozen"),
    ],
)
def test_a_primary_is_lost_and_another_elected(hurt: Hurt, kind: FaultKind, what: str) -> None:
    before = hurt.servers.primary()

    (lost, (elected, after), *back, written) = sorted_out(hurt.by(kind))

    assert lost == (what, before)
    assert (elected, after != before) == ("elected", True)
    assert back == [("member back", before)]
    assert written == ("written", after)
    assert all(member.is_running for member in hurt.servers.members)
    write(hurt.servers)


def test_a_primary_is_hurt_when_all_others_have_what_it_has(hurt: Hurt) -> None:
    """Otherwise two of three may be missing, of which one is known to be hurt."""
    primary = hurt.servers.primary()
    behind = (primary + 1) % 3
    hurt.servers.pause(behind)
    try:
        hurt.cluster.hurt(FaultKind.KILL_PRIMARY, BRIEFLY)
        await_write(hurt.servers.members[primary].uri)
        assert hurt.told() == []
    finally:
        hurt.servers.resume(behind)

    assert hurt.by()[0] == ("primary killed", primary)
    write(hurt.servers)


def test_what_is_to_come_is_left_out_when_a_run_is_given_up(hurt: Hurt) -> None:
    for _ in range(3):
        hurt.cluster.hurt(FaultKind.STEP_DOWN, BRIEFLY)

    hurt.cluster.abandon()

    assert not hurt.cluster.is_busy()
    assert [what for what, _ in hurt.told()].count("primary stepped down") <= 1
    hurt.cluster.abandon()
    write(hurt.servers)


def test_a_primary_comes_back_when_a_run_is_given_up(hurt: Hurt) -> None:
    primary = hurt.servers.primary()
    hurt.cluster.hurt(FaultKind.KILL_PRIMARY, 100.0)
    while not hurt.told():
        time.sleep(0.02)  # until the process is gone

    hurt.cluster.abandon()

    assert ("member back", primary) in hurt.told()
    assert all(member.is_running for member in hurt.servers.members)
    hurt.servers.primary()
    write(hurt.servers)


def test_all_servers_are_killed_and_start_again(hurt: Hurt) -> None:
    pids = {member.pid for member in hurt.servers.members}

    (lost, (elected, _), _) = hurt.by(FaultKind.RESTART_ALL)

    assert (lost, elected) == (("all killed", -1), "elected")
    assert not pids & {member.pid for member in hurt.servers.members}
    write(hurt.servers)


def test_faults_wait_for_each_other(hurt: Hurt) -> None:
    told = hurt.by(FaultKind.STEP_DOWN, FaultKind.STEP_DOWN)

    told = [each for each in told if each[0] != "written"]  # which may have been in vain
    assert [what for what, _ in told] == ["primary stepped down", "elected"] * 2


@pytest.mark.parametrize(
    ("kind", "is_done"),
    [
        (FaultKind.LOSE_REPLIES, True),
        (FaultKind.FAIL_WRITE_CONCERN, True),
        (FaultKind.CLOSE_CONNECTIONS, False),
    ],
)
def test_commands_fail_for_a_while(hurt: Hurt, kind: FaultKind, *, is_done: bool) -> None:
    failed = list[ObjectId]()
    with MongoClient[dict[str, Any]](hurt.servers.uri, retryWrites=False, w="majority") as client:
        things = client["demo"][kind]
        hurt.cluster.hurt(kind, 1.0)
        while hurt.cluster.is_busy():
            thing = {"_id": ObjectId()}
            try:
                things.insert_one(thing)
            except PyMongoError:
                failed.append(thing["_id"])
        hurt.cluster.close()
        there = {thing["_id"] for thing in things.find({})}

    # A lost reply is one to work that was done; a connection that is closed may come before it.
    assert failed
    assert (set(failed) <= there) or not is_done
    (told,) = read(hurt.book)
    assert told.event == "failing"
    assert told.facts["until"] - told.facts["since"] >= 1.0
    write(hurt.servers)


def test_every_fault_of_a_database_is_known(hurt: Hurt) -> None:
    assert set(hurt.cluster.faults) == OF_DATABASE
