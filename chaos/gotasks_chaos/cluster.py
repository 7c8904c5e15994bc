"""The database under a run: a replica set of its own that can be hurt, or somebody's cluster."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Event
from typing import Any, Final

from pymongo import MongoClient
from pymongo.errors import PyMongoError
from pymongo.write_concern import WriteConcern

from gotasks_chaos.ledger import Ledger
from gotasks_chaos.profiles import FaultKind
from gotasks_mongostore.local import LocalReplicaSet
from gotasks_py.errors import StoreUnavailableError

logger = logging.getLogger("gotasks_chaos")

_FAIL_POINTS: Final[Mapping[FaultKind, Mapping[str, object]]] = {
    # The work is done, and what says so is lost.
    FaultKind.LOSE_REPLIES: {
        "writeConcernError": {"code": 91, "errmsg": "shutting down"},
        "errorLabels": ["RetryableWriteError"],
    },
    FaultKind.CLOSE_CONNECTIONS: {"closeConnection": True},
    FaultKind.FAIL_WRITE_CONCERN: {"writeConcernError": {"code": 64, "errmsg": "waited in vain"}},
}
_COMMANDS: Final = ("insert", "update", "findAndModify", "find", "getMore")
_WRITES: Final = ("insert", "update", "findAndModify")
_CHANCE: Final = 0.3
_ELECTION_SECONDS: Final = 120.0
"""Some ten are usual where all servers start at once; a starved machine is given more."""
_WRITE_MS: Final = 30_000
_WITNESSES: Final = 4


class Cluster:
    """Hurts a local replica set, one fault at a time, on a thread of its own.

    A fault of the database takes as long as it takes, an election or a start of a server,
    and meanwhile other faults go on.
    """

    def __init__(self, servers: LocalReplicaSet, ledger: Ledger) -> None:
        self._servers = servers
        self._ledger = ledger
        self._thread = ThreadPoolExecutor(1, "cluster")
        self._witnesses = ThreadPoolExecutor(_WITNESSES, "witness")
        self._begun: list[Future[None]] = []
        self._is_abandoned = Event()
        self.faults: Mapping[FaultKind, Callable[[float], None]] = {
            **{kind: partial(self._fail, kind) for kind in _FAIL_POINTS},
            FaultKind.KILL_PRIMARY: self._kill_primary,
            FaultKind.STEP_DOWN: self._step_down,
            FaultKind.FREEZE_PRIMARY: self._freeze_primary,
            FaultKind.RESTART_ALL: self._restart_all,
        }

    def hurt(self, kind: FaultKind, seconds: float) -> None:
        """Begin a fault, after those that are under way."""
        self._begun.append(self._thread.submit(self.faults[kind], seconds))

    def is_busy(self) -> bool:
        """Whether a fault is under way or to come."""
        return not all(fault.done() for fault in self._begun)

    def close(self) -> None:
        """Wait for the last fault to end.

        Raises:
            Exception: a fault could not be carried out.
        """
        self._thread.shutdown(wait=True)
        self._witnesses.shutdown(wait=True)
        for fault in self._begun:
            fault.result()

    def abandon(self) -> None:
        """Leave out what is to come, and end what is under way; nothing if all has ended."""
        self._is_abandoned.set()
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._witnesses.shutdown(wait=True, cancel_futures=True)

    def _kill_primary(self, seconds: float) -> None:
        victim = self._victim()
        self._servers.kill(victim)
        try:
            self._note("primary killed", victim)
            self._see_election(victim)
            self._is_abandoned.wait(seconds)
        finally:  # the next fault is to find all of them
            self._servers.restart(victim)
            self._note("member back", victim)

    def _freeze_primary(self, seconds: float) -> None:
        victim = self._victim()
        self._servers.pause(victim)
        try:
            self._note("primary frozen", victim)
            self._see_election(victim)
            self._is_abandoned.wait(seconds)
        finally:
            self._servers.resume(victim)
            self._note("member back", victim)

    def _step_down(self, seconds: float) -> None:
        victim = self._victim()
        with self._admin(victim) as client, suppress(PyMongoError):
            client.admin.command("replSetStepDown", max(1, round(seconds)), force=True)
        self._note("primary stepped down", victim)
        self._see_election(None)  # it may be elected again

    def _restart_all(self, seconds: float) -> None:
        members = range(len(self._servers.members))
        for member in members:
            self._servers.kill(member)
        self._note("all killed", -1)
        time.sleep(seconds)
        for member in members:
            self._servers.members[member].start()
        self._see_election(None)

    def _fail(self, kind: FaultKind, seconds: float) -> None:
        is_write = kind is not FaultKind.CLOSE_CONNECTIONS
        data = {"failCommands": _WRITES if is_write else _COMMANDS, **_FAIL_POINTS[kind]}
        with self._admin(self._servers.primary()) as client:
            began = time.monotonic()
            client.admin.command(
                "configureFailPoint",
                "failCommand",
                mode={"activationProbability": _CHANCE},
                data=data,
            )
            time.sleep(seconds)
            client.admin.command("configureFailPoint", "failCommand", mode="off")
        self._ledger.write("failing", since=began, until=time.monotonic())

    def _victim(self) -> int:
        """Choose the primary, when every member has what it has, or half a minute has passed.

        One that is rolling back what it alone had cannot vote, and waits for who has gone: with
        the primary away there would be two missing of three, and no majority for minutes.
        """
        with suppress(PyMongoError):
            self._write(self._servers.primary(), len(self._servers.members))
        return self._servers.primary()

    def _see_election(self, former: int | None) -> None:
        """Wait until another than ``former`` is primary, and note when."""
        deadline = time.monotonic() + _ELECTION_SECONDS
        while time.monotonic() < deadline and not self._is_abandoned.is_set():
            for index, member in enumerate(self._servers.members):
                if index != former and member.is_running and self._is_primary(index):
                    self._note("elected", index)
                    self._witnesses.submit(self._see_write, index)
                    return
            time.sleep(0.02)
        msg = f"no new primary within {_ELECTION_SECONDS:g} s"
        raise StoreUnavailableError(msg)

    def _see_write(self, primary: int) -> None:
        """Note when a bare write is acknowledged: no claim can be, before the database is able."""
        with suppress(PyMongoError):
            self._write(primary, "majority")
            self._note("written", primary)

    def _write(self, primary: int, acknowledged_by: int | str) -> None:
        concern = WriteConcern(acknowledged_by, wtimeout=_WRITE_MS)
        with self._admin(primary) as client:
            database = client["gotasks_chaos"]
            database.get_collection("witnessed", write_concern=concern).insert_one({})

    def _is_primary(self, index: int) -> bool:
        with suppress(PyMongoError), self._admin(index) as client:
            return bool(client.admin.command("hello").get("isWritablePrimary"))
        return False

    def _admin(self, index: int) -> MongoClient[dict[str, Any]]:
        return MongoClient(
            self._servers.members[index].uri,
            serverSelectionTimeoutMS=1_000,
            connectTimeoutMS=1_000,
            appname="gotasks_chaos",
        )

    def _note(self, what: str, member: int) -> None:
        self._ledger.write("database", what=what, member=member)
