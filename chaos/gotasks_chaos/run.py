"""One run: start the processes, carry out the plan, let the system come to rest, record it."""

from __future__ import annotations

import os
import platform
import time
import uuid
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import anyio
from bson.codec_options import CodecOptions
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.errors import PyMongoError

from gotasks_chaos import ledger, plan, record
from gotasks_chaos.cluster import Cluster
from gotasks_chaos.counting import counters
from gotasks_chaos.ledger import Ledger
from gotasks_chaos.network import Network, network
from gotasks_chaos.nursery import Nursery
from gotasks_chaos.plan import Fault
from gotasks_chaos.producer import PROBE_SECONDS, ROLL_SECONDS
from gotasks_chaos.profiles import Profile
from gotasks_chaos.record import Mode, Record
from gotasks_chaos.recovery import START_SECONDS
from gotasks_chaos.stage import PROBER, Slot, Stage, patient
from gotasks_chaos.storm import Storm
from gotasks_chaos.work import Setting
from gotasks_chaos.worker import HEALTH_SECONDS
from gotasks_mongostore.local import LocalReplicaSet

DATABASE: Final = "gotasks_chaos"
_TICK_SECONDS: Final = 0.02
_LOOK_SECONDS: Final = 0.2
_AWARE: Final = CodecOptions[dict[str, Any]](tz_aware=True)
_WITHOUT_RESULTS: Final = {"result.filler": 0}
_ACTIVE: Final = {"status": {"$in": ["pending", "running"]}}
_LEAVE_SECONDS: Final = 60.0
"""How long a process may take to leave when asked to, its grace included."""
_PROBE_SECONDS: Final = START_SECONDS + 3 * PROBE_SECONDS + ROLL_SECONDS
"""How long a prober may take: to begin, to try the keys, and to see the workers at work."""
_SLACK_SECONDS: Final = 3.0
_ANSWER_MS: Final = 10_000


class StuckError(Exception):
    """A process did not leave in the time it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be run, on a database of its own or on that at ``uri``."""

    profile: Profile
    mode: Mode
    seed: int
    duration: float
    plan: Sequence[Fault]
    uri: str | None = None


def run(request: Request, folder: Path) -> None:
    """Do the run and leave its evidence in an empty folder.

    Raises:
        StuckError: a process did not leave.
        LedgerError: a ledger could not be written.
        FaketimeError: it takes libfaketime, and that is not installed.
        GotasksError, PyMongoError: of the database, before the storm or after it.
    """
    with ExitStack() as open_things:
        book = Ledger(folder / f"runner{ledger.SUFFIX}")
        uri, cluster = open_things.enter_context(_database(request, book))
        lines = open_things.enter_context(_lines(request, uri))
        client = open_things.enter_context(MongoClient[dict[str, Any]](uri, tz_aware=True))
        one = _Run(request, folder, book, uri, client, lines, cluster)
        open_things.callback(one.drop)
        one.carry_out()


@contextmanager
def _database(request: Request, book: Ledger) -> Generator[tuple[str, Cluster | None]]:
    if request.uri is not None:
        _must_answer(request.uri)
        yield request.uri, None
        return
    with LocalReplicaSet(members=request.profile.members, test_commands=True) as servers:
        cluster = Cluster(servers, book)
        try:
            yield servers.uri, cluster
        finally:
            cluster.abandon()


def _must_answer(uri: str) -> None:
    """Find out soon, and not after what a driver waits by itself, whether anybody is there."""
    with MongoClient[dict[str, Any]](uri, serverSelectionTimeoutMS=_ANSWER_MS) as client:
        client.admin.command("ping")


@contextmanager
def _lines(request: Request, uri: str) -> Generator[Network | None]:
    profile = request.profile
    if not profile.is_proxied or request.uri is not None:
        yield None
        return
    with MongoClient[dict[str, Any]](uri) as client:
        client.admin.command("ping")
        host, port = client.address or ("127.0.0.1", 27017)
    with network(profile.workers + profile.producers, host, port) as laid:
        yield laid


class _Run:
    def __init__(
        self,
        request: Request,
        folder: Path,
        book: Ledger,
        uri: str,
        client: MongoClient[dict[str, Any]],
        lines: Network | None,
        cluster: Cluster | None,
    ) -> None:
        self._request = request
        self._profile = request.profile
        self._folder = folder
        self._ledger = book
        self._uri = uri
        self._client = client
        self._lines = lines
        self._cluster = cluster
        self._namespace = f"run_{uuid.uuid4().hex[:8]}"
        self._stage = Stage(book, _slots(request.profile), self._start)
        self._storm = Storm(book, self._stage, lines, cluster)
        self._refilled = frozenset({"worker", "producer"})

    def carry_out(self) -> None:
        began_at = server_time(self._client)
        offset = self._clock_offset()
        with self._stage:
            for slot in self._stage.slots:
                if slot.role in self._refilled:
                    self._stage.fill(slot)
            self._storm.schedule(self._request.plan)
            self._work_until(time.monotonic() + self._request.duration)
            self._refilled = frozenset({"worker"})
            drained_after = self._drain()
            self._probe()
            # Until everybody has told once more how it is.
            self._work_until(time.monotonic() + 2 * HEALTH_SECONDS)
            self._ledger.write("calm")
            self._refilled = frozenset()
            self._leave("worker")
        request = self._request
        kept = Record(
            profile=request.profile.name,
            mode=request.mode,
            seed=request.seed,
            duration=request.duration,
            plan=plan.to_document(request.plan),
            began_at=began_at,
            machine=f"{platform.platform()}, {os.cpu_count()} cores",
            versions=self._versions(),
            members=None if self._cluster is None else request.profile.members,
            offset=offset,
            counted=anyio.run(counters, self._uri, DATABASE, self._namespace),
            drained_after=drained_after,
        )
        record.write(self._folder, kept, self._tasks.find({}, _WITHOUT_RESULTS))

    @property
    def _tasks(self) -> Collection[dict[str, Any]]:
        return self._client[DATABASE][self._namespace]

    def _work_until(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            self._turn()

    def _turn(self) -> None:
        self._storm.turn()
        for slot in self._stage.bury():
            if slot.role in self._refilled:  # as a supervisor would
                self._stage.fill(slot)
        time.sleep(_TICK_SECONDS)

    def _start(self, nursery: Nursery, slot: Slot) -> None:
        profile = self._profile
        setting = Setting(
            name=slot.name,
            ledger=str(self._folder / f"{slot.name}{ledger.SUFFIX}"),
            uri=self._uri_of(slot),
            database=DATABASE,
            namespace=self._namespace,
            seed=self._request.seed,
            mode=self._request.mode,
            slots=profile.slots,
            rate=profile.rate,
            peers=self._peers() if slot.role == PROBER else (),
            **asdict(profile.times),
        )
        nursery.start(slot.role, setting)

    def _peers(self) -> list[str]:
        workers = self._stage.of("worker")
        return [each.name for each in workers if each.is_alive and not each.is_leaving]

    def _uri_of(self, slot: Slot) -> str:
        if self._lines is None or slot.role == PROBER:
            return self._uri
        return self._lines.uri(list(self._stage.slots).index(slot))

    # Coming to rest

    def _drain(self) -> float:
        while not self._storm.is_over():  # what was hurt gets whole
            self._turn()
        if self._cluster is not None:
            self._cluster.close()
        self._leave("producer")
        began = time.monotonic()
        backlog = self._tasks.count_documents(_ACTIVE)
        crowd = Crowd(self._profile.workers * self._profile.slots, backlog, began)
        patience = self._patience()
        overdue: dict[object, float] = {}
        while (left := self._tasks.count_documents(_ACTIVE)) and (
            time.monotonic() < crowd.fell_at + self._profile.drain
        ):
            crowd.count(left, time.monotonic())
            self._look()
            if time.monotonic() > crowd.thinned_at + patience:
                late_by = overdue_in(self._tasks, server_time(self._client), patience)
                overdue.update(late_by)
        took = time.monotonic() - began
        self._ledger.write("drained", seconds=took, patience=patience, backlog=backlog)
        for task, seconds in overdue.items():
            self._ledger.write("overdue", what=f"task {task}", seconds=seconds)
        return took

    def _patience(self) -> float:
        """Tell how long a task may wait for somebody to take it over, who has room for it."""
        times = self._profile.times
        lease = times.lease + (times.queue_lease if self._request.mode == "pipeline" else 0.0)
        return lease + times.reap_interval + _SLACK_SECONDS

    def _probe(self) -> None:
        """Take every unique key once more, and see all workers work: nothing may be stuck."""
        (prober,) = self._stage.of(PROBER)
        self._stage.fill(prober)
        self._wait_for(PROBER, _PROBE_SECONDS)
        # Of a roll that nobody answered in time tasks are left.
        patient(_LEAVE_SECONDS, self._is_at_rest, self._look)

    def _is_at_rest(self) -> bool:
        return not self._tasks.count_documents(_ACTIVE)

    def _look(self) -> None:
        self._work_until(time.monotonic() + _LOOK_SECONDS)

    def _leave(self, role: str) -> None:
        for slot in self._stage.of(role):
            if slot.is_alive:
                self._stage.stop(slot)
        self._wait_for(role)

    def _wait_for(self, role: str, seconds: float = _LEAVE_SECONDS) -> None:
        if not patient(seconds, lambda: not self._stage.is_filled(role), self._turn):
            stuck = ", ".join(slot.name for slot in self._stage.of(role) if slot.is_alive)
            msg = f"did not leave within {seconds:g} s: {stuck}"
            raise StuckError(msg)

    # Facts

    def _clock_offset(self) -> float:
        """Tell the server's time minus the monotonic clock, from the quickest of some answers."""
        best = (float("inf"), 0.0)
        for _ in range(10):
            before = time.monotonic()
            now = server_time(self._client).timestamp()
            took = time.monotonic() - before
            best = min(best, (took, now - before - took / 2))
        return best[1]

    def _versions(self) -> dict[str, str]:
        return {
            "python": platform.python_version(),
            "gotasks-py": version("gotasks-py"),
            "pymongo": version("pymongo"),
            "mongod": str(self._client.server_info()["version"]),
        }

    def drop(self) -> None:
        """Leave nothing behind in the database, however the run has ended."""
        with suppress(PyMongoError):
            for name in self._client[DATABASE].list_collection_names():
                if name.startswith(self._namespace):
                    self._client[DATABASE].drop_collection(name)


class Crowd:
    """What is left of a backlog, and whether there is room for all of it.

    How fast a backlog goes depends on the machine: what waits in turn behind others is not stuck.
    ``fell_at`` is when anything was done last, and ``thinned_at`` when it was done last with more
    left than there are ``slots``: from then on a task waits for no other, or nobody does anything.
    """

    def __init__(self, slots: int, left: int, now: float) -> None:
        self._slots = slots
        self._fewest = left
        self.fell_at = self.thinned_at = now

    def count(self, left: int, now: float) -> None:
        """Hear how many are left now."""
        if left >= self._fewest:
            return
        if self._fewest > self._slots:
            self.thinned_at = now
        self._fewest, self.fell_at = left, now


def server_time(client: MongoClient[dict[str, Any]]) -> datetime:
    """Tell what time it is for the server, with its zone: a command's answer has none by itself."""
    answer = client.admin.command("hello", codec_options=_AWARE)
    now: datetime = answer["localTime"]
    return now


def overdue_in(
    tasks: Collection[dict[str, Any]], now: datetime, patience: float
) -> dict[object, float]:
    """Tell which tasks wait for more than ``patience`` seconds to be taken over, and how long."""
    before = now - timedelta(seconds=patience)
    return {
        task["_id"]: (now - task[field]).total_seconds()
        for field in ("due_at", "reap_at")
        for task in tasks.with_options(_AWARE).find({field: {"$lt": before}}, {field: 1})
    }


def _slots(profile: Profile) -> list[Slot]:
    shifts = profile.clock_shifts or (0,)
    return [
        *(Slot("worker", each, shifts[each % len(shifts)]) for each in range(profile.workers)),
        *(Slot("producer", each, shifts[each % len(shifts)]) for each in range(profile.producers)),
        Slot(PROBER, 0),
    ]
