"""One run: start the processes, carry out the plan, let the system come to rest, audit."""

from __future__ import annotations

import heapq
import platform
import signal
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from pymongo import MongoClient
from pymongo.collection import Collection

from gotasks_chaos import ledger
from gotasks_chaos.evidence import Evidence, gather
from gotasks_chaos.ledger import Ledger
from gotasks_chaos.nursery import Nursery
from gotasks_chaos.plan import Fault
from gotasks_chaos.profiles import FaultKind, Profile
from gotasks_chaos.work import Setting
from gotasks_mongostore.local import LocalReplicaSet

DATABASE: Final = "gotasks_chaos"
_TICK_SECONDS: Final = 0.02
_ACTIVE: Final = {"status": {"$in": ["pending", "running"]}}
_LEAVE_SECONDS: Final = 30.0
"""How long a process may take to leave when asked to, its grace included."""


class StuckError(Exception):
    """The system did not come to rest, or a process did not leave, in the time it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be run."""

    profile: Profile
    mode: str
    seed: int
    duration: float
    plan: list[Fault]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run left to look at."""

    request: Request
    evidence: Evidence
    versions: dict[str, str]
    drained_after: float


@dataclass(slots=True)
class _Slot:
    """A place for a worker or a producer, filled again when its process dies."""

    role: str
    number: int
    name: str = ""
    is_alive: bool = False
    is_frozen: bool = False


def run(request: Request) -> Outcome:
    """Do the run and gather its evidence."""
    with (
        TemporaryDirectory(prefix="gotasks-chaos-") as folder,
        LocalReplicaSet() as servers,
        MongoClient[dict[str, Any]](servers.uri, tz_aware=True) as client,
    ):
        return _Run(request, Path(folder), servers.uri, client).carry_out()


class _Run:
    def __init__(
        self, request: Request, folder: Path, uri: str, client: MongoClient[dict[str, Any]]
    ) -> None:
        self._request = request
        self._profile = request.profile
        self._folder = folder
        self._uri = uri
        self._client = client
        self._namespace = f"run_{uuid.uuid4().hex[:8]}"
        self._ledger = Ledger(folder / f"runner{ledger.SUFFIX}")
        self._births = count()
        self._slots = [
            *(_Slot("worker", number) for number in range(self._profile.workers)),
            *(_Slot("producer", number) for number in range(self._profile.producers)),
        ]
        self._is_storming = True
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._nursery: Nursery

    @property
    def _tasks(self) -> Collection[dict[str, Any]]:
        return self._client[DATABASE][self._namespace]

    def carry_out(self) -> Outcome:
        offset = self._clock_offset()
        with Nursery() as self._nursery:
            for slot in self._slots:
                self._fill(slot)
            began = time.monotonic()
            for fault in self._request.plan:
                self._at(began + fault.at, partial(self._inflict, fault))
            self._work_until(began + self._request.duration)
            self._is_storming = False
            drained_after = self._drain()
            self._leave("worker")
        self._ledger.write("calm")
        evidence = gather(
            self._folder, self._tasks, offset=offset, is_graceful=self._profile.is_graceful
        )
        return Outcome(
            request=self._request,
            evidence=evidence,
            versions=self._versions(),
            drained_after=drained_after,
        )

    # What happens when

    def _at(self, when: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (when, next(self._order), action))

    def _work_until(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            self._turn()

    def _turn(self) -> None:
        while self._agenda and self._agenda[0][0] <= time.monotonic():
            heapq.heappop(self._agenda)[2]()
        self._bury()
        time.sleep(_TICK_SECONDS)

    def _bury(self) -> None:
        for name, code, at in self._nursery.ended():
            self._ledger.write("ended", process=name, code=code, at=at)
            for slot in self._slots:
                if slot.name == name:
                    slot.is_alive = slot.is_frozen = False
                    # As a supervisor would. Producers have nothing to do after the storm.
                    if self._is_storming or (slot.role == "worker" and not self._is_leaving):
                        self._fill(slot)

    _is_leaving = False

    def _fill(self, slot: _Slot) -> None:
        slot.name = f"{slot.role}-{slot.number}-{next(self._births)}"
        slot.is_alive = True
        profile = self._profile
        self._ledger.write("born", process=slot.name)
        self._nursery.start(
            slot.role,
            Setting(
                name=slot.name,
                ledger=str(self._folder / f"{slot.name}{ledger.SUFFIX}"),
                uri=self._uri,
                database=DATABASE,
                namespace=self._namespace,
                seed=self._request.seed,
                mode=self._request.mode,
                slots=profile.slots,
                rate=profile.rate,
                lease=profile.lease,
                queue_lease=profile.queue_lease,
                reap_interval=profile.reap_interval,
                grace=profile.grace,
            ),
        )

    # Faults

    def _inflict(self, fault: Fault) -> None:
        role = "producer" if fault.kind is FaultKind.KILL_PRODUCER else "worker"
        slots = [slot for slot in self._slots if slot.role == role]
        slot = slots[fault.target % len(slots)]
        self._ledger.write("fault", kind=fault.kind, process=slot.name, seconds=fault.seconds)
        match fault.kind:
            case FaultKind.KILL_WORKER | FaultKind.KILL_PRODUCER:
                self._ledger.write("killing", process=slot.name)
                self._nursery.signal(slot.name, signal.SIGKILL)
            case FaultKind.STOP_WORKER:
                self._nursery.signal(slot.name, signal.SIGTERM)
            case FaultKind.FREEZE_WORKER:
                self._freeze(slot, fault.seconds)

    def _freeze(self, slot: _Slot, seconds: float) -> None:
        if slot.is_frozen or not slot.is_alive:
            return
        slot.is_frozen = True
        name = slot.name
        self._ledger.write("freezing", process=name)
        self._nursery.signal(name, signal.SIGSTOP)
        self._at(time.monotonic() + seconds, lambda: self._thaw(slot, name))

    def _thaw(self, slot: _Slot, name: str) -> None:
        self._ledger.write("thawing", process=name)
        self._nursery.signal(name, signal.SIGCONT)
        if slot.name == name:
            slot.is_frozen = False

    # Coming to rest

    def _drain(self) -> float:
        began = time.monotonic()
        while self._agenda:  # what was frozen is to thaw
            self._turn()
        self._leave("producer")
        deadline = time.monotonic() + self._profile.drain
        while self._tasks.count_documents(_ACTIVE, limit=1):
            self._work_until(time.monotonic() + 0.2)
            if time.monotonic() > deadline:
                break  # what is left is for the audit to name
        return time.monotonic() - began

    def _leave(self, role: str) -> None:
        self._is_leaving = role == "worker"
        leaving = [slot for slot in self._slots if slot.role == role]
        for slot in leaving:
            self._nursery.signal(slot.name, signal.SIGTERM)
        deadline = time.monotonic() + _LEAVE_SECONDS
        while any(slot.is_alive for slot in leaving):
            self._turn()
            if time.monotonic() > deadline:
                stuck = ", ".join(slot.name for slot in leaving if slot.is_alive)
                msg = f"did not leave within {_LEAVE_SECONDS:g} s of SIGTERM: {stuck}"
                raise StuckError(msg)

    # Facts

    def _clock_offset(self) -> float:
        """Tell the server's time minus the monotonic clock, from the quickest of some answers."""
        best = (float("inf"), 0.0)
        for _ in range(10):
            before = time.monotonic()
            now = self._client.admin.command("hello")["localTime"].timestamp()
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
