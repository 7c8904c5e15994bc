"""The part of the store on MongoDB that keeps metrics, and knows which managers are there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from gotasks_mongostore import _metrics
from gotasks_mongostore._driver import Connection
from gotasks_mongostore._part import Part
from gotasks_py.checks import check_names
from gotasks_py.metering import Report
from gotasks_py.metrics import HOUR, Metrics
from gotasks_py.metrics_reading import Period
from gotasks_py.nodes import FirstSight, Leadership, Node


class Meters(Part):
    """Keeps both in the collection of metrics, whose indexes it makes when it is first used."""

    _connection: Connection

    async def report(self, report: Report) -> None:
        if report.is_empty:
            return
        await self.open()
        with self._operations.bounded("write metrics") as here:
            await _metrics.write(await _metrics.opened(here), report)

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
        await self.reach()
        period = Period.before(self.clock.now(), since, until, hourly=hourly, daily=daily)
        with self._operations.bounded("read metrics") as here:
            return await _metrics.read(here.metrics, queue, type, period)

    async def nodes(self) -> Sequence[Node]:
        await self.reach()
        with self._operations.bounded("list the managers") as here:
            return await _metrics.nodes(here.metrics)

    async def versions(self, since: datetime) -> Sequence[FirstSight]:
        await self.reach()
        with self._operations.bounded("list the versions of managers") as here:
            return await _metrics.versions(here.metrics, since)

    @contextmanager
    def before_close(self, call: Callable[[], Awaitable[None]]) -> Generator[None]:
        calls = self._connection.collections().before_close
        calls.append(call)
        try:
            yield
        finally:
            calls.remove(call)

    async def leader(self, duty: str) -> Leadership | None:
        await self.reach()
        with self._operations.bounded("ask who leads") as here:
            return await _metrics.leader(here.metrics, duty)
