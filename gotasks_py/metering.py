"""What a store may offer beside: to keep metrics, and to know which managers are there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

from gotasks_py.metrics import HOUR, Metrics, MetricsDocument
from gotasks_py.nodes import Candidacy, FirstSight, Leadership, Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A manager says that it is there, and for how long to take its word; zero: it leaves."""

    node: Node
    good_for: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that one manager has to tell, in one write.

    ``counters`` take the place of what the same manager wrote of the same window, unless
    that is of a higher version: whatever is sent twice, or arrives late, changes nothing.
    ``gauges`` count only where a window has none yet.
    """

    counters: Sequence[MetricsDocument] = ()
    gauges: Sequence[MetricsDocument] = ()
    beat: Beat | None = None
    candidacy: Candidacy | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell."""
        return not (self.counters or self.gauges or self.beat or self.candidacy)


@runtime_checkable
class Metering(Protocol):
    """Keeps metrics and the registry of managers."""

    async def report(self, report: Report) -> None:
        """Write everything in a report, in one write that may be repeated.

        Raises:
            StoreError: the database refused, or did not answer.
        """
        ...

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
        """Read the windows that began in a period, summed across managers.

        ``since`` is a time, or a span that ends at ``until``; default one hour. ``until`` is
        left out of the period; default now. ``hourly`` reads windows of an hour, which
        managers write as well, from the full hour before ``since`` on: for long periods, of
        which there are sixty times as many windows of a minute. ``daily`` reads windows of a
        day, of UTC, in the same way: for a week or a month.

        Raises:
            ConfigurationError: a time without a zone, a name that cannot be one, or
                ``hourly`` and ``daily`` at once.
            StoreError: the database refused, or did not answer.
        """
        ...

    async def nodes(self) -> Sequence[Node]:
        """List the managers that are there, by the store's clock, in order of their ids.

        Raises:
            StoreError: the database refused, or did not answer.
        """
        ...

    def before_close(self, call: Callable[[], Awaitable[None]]) -> AbstractContextManager[None]:
        """While the block lasts, have something called before the store closes.

        That is: when :meth:`Store.aclose` is called on the event loop of the block.
        """
        ...

    async def versions(self, since: datetime) -> Sequence[FirstSight]:
        """List the versions of managers that were first seen from a time on, in that order.

        Raises:
            StoreError: the database refused, or did not answer.
        """
        ...

    async def leader(self, duty: str) -> Leadership | None:
        """Tell who leads a duty; ``None``: nobody does.

        Raises:
            StoreError: the database refused, or did not answer.
        """
        ...
