"""What a store tells of all managers, as totals that only rise: what bridges pass on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from gotasks_py.errors import ConfigurationError
from gotasks_py.metering import Metering
from gotasks_py.metrics import Activity, Gauges
from gotasks_py.nodes import Node

_HORIZON: Final = timedelta(minutes=10)
"""How late a manager may write what it counted, and it still is noticed."""

TypeKey: TypeAlias = tuple[str, str]
"""A queue and a type."""


class StoreTotals:
    """Counters begin with the last ten minutes, and rise with what all managers write.

    Raises:
        ConfigurationError: the store keeps no metrics.
    """

    def __init__(self, store: object) -> None:
        if not isinstance(store, Metering):
            msg = f"store must be one that keeps metrics, such as MongoStore(...), not {store!r}"
            raise ConfigurationError(msg)
        self._store = store
        self._settled: dict[TypeKey, Activity] = {}
        self._recent: dict[tuple[datetime, timedelta, str, str], Activity] = {}
        self.gauges: Mapping[str, Gauges] = {}
        """The latest of each queue."""
        self.nodes: Sequence[Node] = ()
        """The managers that are there."""

    async def refresh(self) -> None:
        """Read what is new.

        Raises:
            StoreError: the database refused, or did not answer.
        """
        metrics = await self._store.metrics(since=_HORIZON)
        nodes = await self._store.nodes()
        read = {
            (each.start, each.length, each.queue, each.type): each.activity
            for each in metrics.windows
        }
        for key in self._recent.keys() - read.keys():
            _, _, queue, name = key
            settled = self._settled.setdefault((queue, name), Activity())
            settled.merge(self._recent[key])
        self._recent, self.gauges, self.nodes = read, metrics.latest(), nodes

    def totals(self) -> Mapping[TypeKey, Activity]:
        """Sum what was read so far, for each queue and type."""
        totals: dict[TypeKey, Activity] = {}
        for key, activity in self._settled.items():
            totals.setdefault(key, Activity()).merge(activity)
        for (_, _, queue, name), activity in self._recent.items():
            totals.setdefault((queue, name), Activity()).merge(activity)
        return totals

    def recent(self) -> Mapping[TypeKey, Activity]:
        """Sum what happened in the last ten minutes, for each queue and type."""
        recent: dict[TypeKey, Activity] = {}
        for (_, _, queue, name), activity in self._recent.items():
            recent.setdefault((queue, name), Activity()).merge(activity)
        return recent
