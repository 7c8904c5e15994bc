"""Metrics, managers and leaders in memory, with the semantics of the MongoDB store."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TypeAlias

from gotasks_py.copying import copied
from gotasks_py.metering import Beat, Report
from gotasks_py.metrics import Metrics, MetricsDocument
from gotasks_py.metrics_reading import Period, Summing
from gotasks_py.nodes import Candidacy, FirstSight, Leadership, Node

_Key: TypeAlias = tuple[tuple[str, object], ...]


class MetricsDocuments:
    """The documents of the collection ``{namespace}_metrics``. The caller holds the lock."""

    def __init__(self) -> None:
        self._by_key: dict[_Key, MetricsDocument] = {}
        # Numbered, for keys of several kinds cannot be put in order.
        self._expiring: list[tuple[datetime, int, _Key]] = []
        self._numbers = itertools.count()

    def apply(self, report: Report, now: datetime) -> None:
        """Write all of a report."""
        self._purge(now)
        for document in report.counters:
            before = self._by_key.get(_key(document))
            if before is None or before["version"] < document["version"]:
                self._put(document)
        for document in report.gauges:
            if _key(document) not in self._by_key:
                self._put(document)
        if report.beat is not None:
            self._beat(report.beat, now)
        if report.candidacy is not None:
            self._elect(report.candidacy, now)

    def read(self, queue: str | None, type: str | None, period: Period) -> Metrics:
        """Sum the windows that began in a period."""
        summing = Summing(type=type)
        for document in self._by_key.values():
            if period.holds(document) and queue in {None, document["queue"]}:
                summing.add(document)
        return summing.metrics(period)

    def nodes(self, now: datetime) -> list[Node]:
        """List the managers that are there."""
        self._purge(now)
        found = [Node.from_document(document) for document in self._of("node")]
        return sorted(found, key=lambda node: node.id)

    def versions(self, since: datetime) -> list[FirstSight]:
        """List the versions that were first seen from a time on."""
        found = map(FirstSight.from_document, self._of("version"))
        return sorted((each for each in found if each.at >= since), key=lambda each: each.at)

    def leader(self, duty: str, now: datetime) -> Leadership | None:
        """Tell who leads."""
        found = self._by_key.get(_key({"_id": {"kind": "leader", "duty": duty}}))
        if found is None or found["until"] <= now:
            return None
        return Leadership.from_document(found)

    def _beat(self, beat: Beat, now: datetime) -> None:
        times = {"beat_at": now, "expires_at": now + beat.good_for}
        self._put({**beat.node.to_document(), **times})
        sight: MetricsDocument = FirstSight.of(beat.node).to_document()
        if beat.node.version and _key(sight) not in self._by_key:
            self._put(sight)

    def _elect(self, candidacy: Candidacy, now: datetime) -> None:
        identity = {"kind": "leader", "duty": candidacy.duty}
        before = self._by_key.get(_key({"_id": identity}), {"term": 0, "node": None, "until": now})
        is_ours = before["node"] == candidacy.node
        if is_ours or before["until"] <= now:
            self._put(
                {
                    "_id": identity,
                    **identity,
                    "node": candidacy.node,
                    "term": before["term"] + (not is_ours),
                    "until": now + candidacy.lease,
                }
            )

    def _of(self, *kinds: str) -> Iterator[MetricsDocument]:
        return (each for each in self._by_key.values() if each["kind"] in kinds)

    def _put(self, document: MetricsDocument) -> None:
        key = _key(document)
        self._by_key[key] = copied(document)
        if (expires_at := document.get("expires_at")) is not None:
            heapq.heappush(self._expiring, (expires_at, next(self._numbers), key))

    def _purge(self, now: datetime) -> None:
        while self._expiring and self._expiring[0][0] <= now:
            *_, key = heapq.heappop(self._expiring)
            # It may have been written again since, for longer.
            expires_at = self._by_key.get(key, {}).get("expires_at")
            if expires_at is not None and expires_at <= now:
                del self._by_key[key]


def _key(document: Mapping[str, MetricsDocument]) -> _Key:
    return tuple(sorted(document["_id"].items()))
