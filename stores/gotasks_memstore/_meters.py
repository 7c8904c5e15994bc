"""The part of the store in memory that keeps metrics, and knows which managers are there."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from gotasks_memstore._metrics import MetricsDocuments
from gotasks_py.checks import check_names
from gotasks_py.clock import Clock
from gotasks_py.metering import Report
from gotasks_py.metrics import HOUR, Metrics
from gotasks_py.metrics_reading import Period
from gotasks_py.nodes import FirstSight, Leadership, Node


class Meters:
    """Keeps both in documents of the same kind as the MongoDB store."""

    _lock: threading.RLock
    _clock: Clock
    _metrics: MetricsDocuments
    _before_close: list[Callable[[], Awaitable[None]]]

    async def report(self, report: Report) -> None:
        with self._lock:
            self._metrics.apply(report, self._clock.now())

    async def metrics(
        self,
        *,
        queue: str | None = None,
        type: str | None = None,
        since: datetime | timedelta = HOUR,
        until: datetime | None = None,
        hourly: bool = False,
        daily: bool = False,
    ) -> Metrics:
        check_names(queue=queue, type=type)
        period = Period.before(self._clock.now(), since, until, hourly=hourly, daily=daily)
        with self._lock:
            return self._metrics.read(queue, type, period)

    async def nodes(self) -> Sequence[Node]:
        with self._lock:
            return self._metrics.nodes(self._clock.now())

    async def versions(self, since: datetime) -> Sequence[FirstSight]:
        with self._lock:
            return self._metrics.versions(since)

    @contextmanager
    def before_close(self, call: Callable[[], Awaitable[None]]) -> Generator[None]:
        self._before_close.append(call)
        try:
            yield
        finally:
            self._before_close.remove(call)

    async def leader(self, duty: str) -> Leadership | None:
        with self._lock:
            return self._metrics.leader(duty, self._clock.now())
