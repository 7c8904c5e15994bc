"""How each queue is, once a window: looked up by one manager for all.

Whoever leads looks; to look on every manager would be right, but wasted. Two that believe to
lead do no harm: the first gauges of a window are kept.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol

from gotasks_py._loads import load_of, run_times
from gotasks_py.autoscaling import wanted_workers
from gotasks_py.clock import Clock
from gotasks_py.errors import StoreError
from gotasks_py.inspecting import Inspecting, QueueOverview
from gotasks_py.metering import Metering
from gotasks_py.metrics import (
    Gauges,
    MetricsConfig,
    MetricsDocument,
    daily_gauges_document,
    gauges_document,
    hourly_gauges_document,
)
from gotasks_py.nodes import Candidacy, Leadership
from gotasks_py.task import EPOCH

logger = logging.getLogger("gotasks_py.metrics")

DUTY: Final = "gauges"


class Gauged(Metering, Inspecting, Protocol):
    """A store that keeps metrics and can be looked at."""


class Looked(NamedTuple):
    """How queues are, as it is stored: of a window, and of the hour and day that it is in."""

    gauges: Sequence[MetricsDocument] = ()
    latest: Sequence[MetricsDocument] = ()


@dataclass(slots=True, kw_only=True)
class Gauger:
    """Looks at the queues for as long as this manager leads."""

    store: Gauged
    config: MetricsConfig
    node: str
    clock: Clock
    _leader: Leadership | None = None
    _looked: datetime = EPOCH

    @property
    def candidacy(self) -> Candidacy | None:
        """The wish to lead on, or to lead where nobody does."""
        if self._leader is not None and self._leader.node != self.node:
            return None
        return Candidacy(duty=DUTY, node=self.node, lease=self.config.silence)

    async def gauges(self) -> Looked:
        """Tell how each queue is, if that is this manager's to tell and not told yet."""
        now = self.clock.now()
        window = self.config.window_of(now)
        leads = self._leader is not None and self._leader.node == self.node
        if not leads or window <= self._looked:
            return Looked()
        try:
            overviews = await self.store.overview()
            times = await run_times(self.store)
        except StoreError as error:
            # That the manager is there is to be said all the same.
            logger.warning("cannot look at the queues, trying again: %s", error)
            return Looked()
        self._looked = window
        found = [self._gauges(each, window, now, times.get(each.name)) for each in overviews]
        retention = self.config.retention
        return Looked(
            [gauges_document(each, retention) for each in found],
            [
                make(each, retention)
                for each in found
                for make in (hourly_gauges_document, daily_gauges_document)
            ],
        )

    async def learn(self) -> None:
        """Ask who leads."""
        self._leader = await self.store.leader(DUTY)

    def _gauges(
        self, overview: QueueOverview, window: datetime, now: datetime, run_time: timedelta | None
    ) -> Gauges:
        return Gauges(
            start=window,
            length=self.config.window,
            queue=overview.name,
            at=now,
            counts={status: count.value for status, count in overview.counts.items()},
            oldest_due_age=overview.oldest_due_age or timedelta(0),
            is_paused=overview.pause is not None and overview.pause.holds(now),
            wanted_workers=wanted_workers(load_of(overview, run_time), self.config.target_wait),
            is_capped=not all(count.is_exact for count in overview.counts.values()),
        )


def gauger_for(store: Metering, config: MetricsConfig, node: str, clock: Clock) -> Gauger | None:
    """Make one for a store that can be looked at; ``None`` for one that cannot."""
    if not isinstance(store, Inspecting):
        return None
    return Gauger(store=store, config=config, node=node, clock=clock)
