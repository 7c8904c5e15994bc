"""The route that tells what the store stands on, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import anyio
from typing_extensions import TypedDict

from gotasks_dashboard._desk import Desk
from gotasks_dashboard._endpoints import Call, Endpoint, Nothing
from gotasks_dashboard._overview import GAUGES_DUTY
from gotasks_dashboard._values import moment
from gotasks_py import Finding, Leadership, Measurements, Measuring, StoreUnavailableError
from gotasks_py.examining import examined
from gotasks_py.patience import patience

_KEPT_SECONDS: Final = 30.0
_PATIENCE_SECONDS: Final = 20.0
"""The doctor asks many small questions, one after the other."""
_OPERATION_SECONDS: Final = 5.0


class FindingView(TypedDict):
    """What one check of the doctor has found."""

    severity: str
    check: str
    message: str
    remedy: str


class CollectionView(TypedDict):
    """How large a collection is."""

    name: str
    documents: int
    bytes: int
    storage_bytes: int
    index_bytes: int


class IndexView(TypedDict):
    """How large an index is, and how often it was used since the server has started."""

    collection: str
    name: str
    keys: Sequence[tuple[str, int]]
    bytes: int
    uses: int


class PlanView(TypedDict):
    """Whether a query is served by its index."""

    query: str
    index: str
    is_served: bool


class OplogView(TypedDict):
    """How far back the log of changes reaches."""

    window_seconds: float
    used: float


class LeaderView(TypedDict):
    """Who does a duty for everybody."""

    duty: str
    node: str
    term: int
    until: str


class SystemView(TypedDict):
    """What the store stands on."""

    at: str
    store: str
    findings: Sequence[FindingView]
    collections: Sequence[CollectionView]
    indexes: Sequence[IndexView]
    plans: Sequence[PlanView]
    oplog: OplogView | None
    leaders: Sequence[LeaderView]


async def system(desk: Desk, call: Call[Nothing, Nothing]) -> SystemView:
    """Tell what the store stands on, and what is wrong with it."""
    del call

    async def ask() -> SystemView:
        try:
            with anyio.fail_after(_PATIENCE_SECONDS), patience(_OPERATION_SECONDS):
                return await _system(desk)
        except TimeoutError as error:
            msg = f"the store took longer than {_PATIENCE_SECONDS:g} s"
            raise StoreUnavailableError(msg) from error

    return await desk.answers.get("system", _KEPT_SECONDS, ask, lambda _: True)


async def _system(desk: Desk) -> SystemView:
    store = desk.store
    findings = await examined(store, desk.queues)
    measured = await store.measure() if isinstance(store, Measuring) else Measurements()
    leader = await desk.metering.leader(GAUGES_DUTY) if desk.metering else None
    oplog = measured.oplog
    return {
        "at": moment(store.clock.now()) or "",
        "store": type(store).__name__,
        "findings": [_finding(each) for each in findings],
        "collections": [
            {
                "name": each.name,
                "documents": each.documents,
                "bytes": each.bytes,
                "storage_bytes": each.storage_bytes,
                "index_bytes": each.index_bytes,
            }
            for each in measured.collections
        ],
        "indexes": [
            {
                "collection": each.collection,
                "name": each.name,
                "keys": [(name, order) for name, order in each.keys],
                "bytes": each.bytes,
                "uses": each.uses,
            }
            for each in measured.indexes
        ],
        "plans": [
            {"query": each.query, "index": each.index, "is_served": each.is_served}
            for each in measured.plans
        ],
        "oplog": None
        if oplog is None
        else {"window_seconds": oplog.window.total_seconds(), "used": round(oplog.used, 4)},
        "leaders": [] if leader is None else [_leader(leader)],
    }


def _finding(finding: Finding) -> FindingView:
    return {
        "severity": finding.severity.value,
        "check": finding.check,
        "message": finding.message,
        "remedy": finding.remedy,
    }


def _leader(leader: Leadership) -> LeaderView:
    return {
        "duty": leader.duty,
        "node": leader.node,
        "term": leader.term,
        "until": moment(leader.until) or "",
    }


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="system",
        summary="What the store stands on, and what is wrong with it",
        handle=system,
        answer=SystemView,
    ),
)
