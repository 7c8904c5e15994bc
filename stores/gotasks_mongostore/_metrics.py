"""The collection ``{namespace}_metrics``: counters, gauges, managers and leaders.

They share a collection so that all that a manager has to tell is one command. Each document
has an end of its own, so retention and silence need one index and no change of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from pymongo import UpdateOne
from pymongo.asynchronous.collection import AsyncCollection

from gotasks_mongostore._driver import Collections, Document
from gotasks_mongostore._indexes import Index, ensure_indexes
from gotasks_py.metering import Beat, Report
from gotasks_py.metrics import Metrics, MetricsDocument
from gotasks_py.metrics_reading import Period, Summing
from gotasks_py.nodes import Candidacy, FirstSight, Leadership, Node

INDEXES: Final = (
    # Windows of a period, of one queue or of all; and the few documents of another kind.
    Index("series", (("kind", 1), ("window_start", 1), ("queue", 1))),
    # Retention, and managers that went silent. Leaders have no end: their terms only grow.
    Index(
        "ttl",
        (("expires_at", 1),),
        {
            "expireAfterSeconds": 0,
            "partialFilterExpression": {"expires_at": {"$exists": True}},
        },
    ),
)

_MILLISECOND: Final = timedelta(milliseconds=1)
OF_NODES: Final = {"kind": "node", "$expr": {"$gt": ["$expires_at", "$$NOW"]}}
"""Managers that are there; index ``series``."""


async def opened(here: Collections) -> AsyncCollection[Document]:
    """Tell the collection, with its indexes: made when first needed, for not everybody does."""
    if not here.has_metrics_indexes:
        await ensure_indexes(here.database, here.metrics, INDEXES)
        here.has_metrics_indexes = True
    return here.metrics


async def write(metrics: AsyncCollection[Document], report: Report) -> None:
    """Write all of a report in one command."""
    writes = [_newest(document) for document in report.counters]
    writes += [_first(document) for document in report.gauges]
    if report.beat is not None:
        writes.append(_beat(report.beat))
        if report.beat.node.version:
            writes.append(_first(FirstSight.of(report.beat.node).to_document()))
    if report.candidacy is not None:
        writes.append(_candidacy(report.candidacy))
    if writes:
        await metrics.bulk_write(writes, ordered=False)


async def read(
    metrics: AsyncCollection[Document],
    queue: str | None,
    type: str | None,
    period: Period,
) -> Metrics:
    """Sum the windows that began in a period."""
    summing = Summing(type=type)
    async for document in _found(metrics, of_period(queue, type, period)):
        summing.add(document)
    return summing.metrics(period)


async def nodes(metrics: AsyncCollection[Document]) -> list[Node]:
    """List the managers that are there. The TTL monitor may be late."""
    found = _found(metrics, OF_NODES)
    return sorted([Node.from_document(each) async for each in found], key=lambda node: node.id)


async def versions(metrics: AsyncCollection[Document], since: datetime) -> list[FirstSight]:
    """List the versions that were first seen from a time on."""
    found = metrics.find(
        {"kind": "version", "window_start": {"$gte": since}},
        sort=[("window_start", 1)],
        hint="series",
    )
    return [FirstSight.from_document(each) async for each in found]


async def leader(metrics: AsyncCollection[Document], duty: str) -> Leadership | None:
    """Tell who leads."""
    found = await metrics.find_one(of_leader(duty))
    return None if found is None else Leadership.from_document(found)


def of_period(queue: str | None, type: str | None, period: Period) -> dict[str, Any]:
    """Match the documents of a period; index ``series``."""
    condition: dict[str, Any] = {
        "kind": {"$in": list(period.kinds)},
        "window_start": {"$gte": period.since, "$lt": period.until},
    }
    if queue is not None:
        condition["queue"] = queue
    if type is not None:
        condition["type"] = {"$in": [type, None]}  # gauges have none
    return condition


def of_leader(duty: str) -> dict[str, Any]:
    """Match who leads a duty; index ``_id_``."""
    return {"_id": {"kind": "leader", "duty": duty}, "$expr": {"$gt": ["$until", "$$NOW"]}}


def _found(
    metrics: AsyncCollection[Document], condition: Mapping[str, object]
) -> AsyncIterator[Document]:
    return metrics.find(condition, hint="series")


def _newest(document: MetricsDocument) -> UpdateOne:
    # A write that was given up may still be carried out, after one that came later.
    is_newer = {"$gte": ["$version", document["version"]]}
    chosen = {"$cond": [is_newer, "$$ROOT", {"$literal": document}]}
    return UpdateOne({"_id": document["_id"]}, [{"$replaceWith": chosen}], upsert=True)


def _first(document: MetricsDocument) -> UpdateOne:
    return UpdateOne({"_id": document["_id"]}, {"$setOnInsert": document}, upsert=True)


def _beat(beat: Beat) -> UpdateOne:
    document = beat.node.to_document()
    times = {"beat_at": "$$NOW", "expires_at": _from_now(beat.good_for)}
    replaced = {"$replaceWith": {"$mergeObjects": [{"$literal": document}, times]}}
    return UpdateOne({"_id": document["_id"]}, [replaced], upsert=True)


def _candidacy(candidacy: Candidacy) -> UpdateOne:
    identity = {"kind": "leader", "duty": candidacy.duty}
    node = {"$literal": candidacy.node}
    is_ours = {"$eq": ["$node", node]}
    is_free = {"$lte": [{"$ifNull": ["$until", "$$NOW"]}, "$$NOW"]}
    is_won = {"$or": [is_ours, is_free]}
    term = {"$ifNull": ["$term", 0]}
    changed = {
        "kind": "leader",
        "duty": {"$literal": candidacy.duty},
        "node": {"$cond": [is_won, node, "$node"]},
        "until": {"$cond": [is_won, _from_now(candidacy.lease), "$until"]},
        "term": {"$cond": [{"$and": [is_won, {"$not": is_ours}]}, {"$add": [term, 1]}, term]},
    }
    return UpdateOne({"_id": identity}, [{"$set": changed}], upsert=True)


def _from_now(span: timedelta) -> Mapping[str, object]:
    return {"$add": ["$$NOW", span // _MILLISECOND]}
