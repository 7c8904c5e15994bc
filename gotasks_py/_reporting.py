"""Writes what a manager counts, and that it is there: one write, now and then."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final

import anyio
from anyio.lowlevel import checkpoint

from gotasks_py._meter import Meter, new_id
from gotasks_py.clock import Clock
from gotasks_py.errors import GotasksError
from gotasks_py.event_loops import spawn_detached
from gotasks_py.metering import Beat, Metering, Report
from gotasks_py.metrics import MetricsConfig, MetricsDocument
from gotasks_py.nodes import Candidacy
from gotasks_py.store import Store
from gotasks_py.task import EPOCH

logger = logging.getLogger("gotasks_py.metrics")

_LAST_WRITE_SECONDS: Final = 2.0


@dataclass(slots=True, kw_only=True, eq=False)
class Reporter:
    """Reports for one manager, whether or not it is started.

    A manager that is started reports in its rounds of duties. One that is not has nobody to
    do so: a task of its own then reports for as long as there is something to tell, and a
    last time when the event loop or the store is closed.
    """

    store: Metering
    meter: Meter
    config: MetricsConfig
    clock: Clock
    reported_at: datetime = EPOCH
    """When the store last took a report of the run that is on; at first, when that began."""
    _turn: anyio.Lock = field(default_factory=anyio.Lock)
    _is_attended: bool = False
    _is_to_begin: bool = False
    _is_led: bool = False

    def __post_init__(self) -> None:
        self.meter.woken = self._attend

    async def report(
        self,
        *,
        beat: Beat | None = None,
        gauges: Sequence[MetricsDocument] = (),
        latest: Sequence[MetricsDocument] = (),
        candidacy: Candidacy | None = None,
    ) -> None:
        """Write everything that was counted and is not written, and what comes with it.

        Raises:
            StoreError: the database refused, or did not answer; to be told the next time.
        """
        async with self._turn:
            unwritten = self.meter.unwritten()
            report = Report(
                counters=[*(document for _, document in unwritten), *latest],
                gauges=gauges,
                beat=beat,
                candidacy=candidacy,
            )
            if not report.is_empty:
                await self.store.report(report)
                self.reported_at = self.clock.now()
                self.meter.wrote(unwritten)

    async def report_last(self, beat: Beat | None = None) -> None:
        """Write what is left before the end, which waits for a moment only."""
        with anyio.move_on_after(_LAST_WRITE_SECONDS, shield=True):
            try:
                await self.report(beat=beat)
            except GotasksError as error:
                # Such as a client that was closed without closing the store first.
                logger.info("the last metrics could not be written: %s", error)

    @property
    def silent_since(self) -> datetime | None:
        """Since when the manager that leads counts as gone, as nothing of it is written."""
        gone_at = self.reported_at + self.config.silence
        return self.reported_at if self._is_led and self.clock.now() > gone_at else None

    def forked(self) -> None:
        """Notice that nobody reports in this process yet."""
        self._turn = anyio.Lock()
        self._is_attended = self._is_led = False

    def begin(self, manager: str) -> None:
        """Notice that a manager has started, which reports by itself."""
        self._is_led = True
        self.reported_at = self.clock.now()
        self.meter.named(manager)

    def end(self, manager: str) -> None:
        """Notice that it has ended; what is counted from here on goes under another id."""
        self._is_led = False
        self.meter.named(manager)

    def _attend(self) -> None:
        if not (self._is_attended or self._is_led):
            self._is_attended = self._is_to_begin = True
            # At once: the store may be closed before the task has begun.
            closing = ExitStack()
            closing.enter_context(self.store.before_close(self.report_last))
            spawn_detached(partial(self._report_on, closing), "gotasks_py metrics")

    async def attended(self) -> None:
        """Let the task begin that reports: one that is cancelled before has no last word."""
        if self._is_to_begin:
            await checkpoint()

    async def _report_on(self, closing: ExitStack) -> None:
        self._is_to_begin = False
        try:
            with closing:
                while not (self._is_led or self.meter.is_empty):
                    await anyio.sleep(self.config.interval.total_seconds())
                    if not self._is_led:
                        await self._try()
        finally:
            self._is_attended = False
            if not (self._is_led or self.meter.is_empty):
                await self.report_last()

    async def _try(self) -> None:
        try:
            await self.report()
        except GotasksError as error:
            logger.debug("metrics could not be written, trying on: %s", error)


@dataclass(frozen=True, slots=True)
class Books:
    """What a manager counts with, and what writes that down; ``None``: nothing does."""

    name: str
    meter: Meter
    reporter: Reporter | None

    @classmethod
    def opened(cls, store: Store, name: str, config: MetricsConfig | None) -> Books:
        """Begin to count for a manager."""
        if config is None or not isinstance(store, Metering):
            unread = Meter(store.clock, config or MetricsConfig(), name, is_kept=False)
            return cls(name, unread, None)
        meter = Meter(store.clock, config, new_id(name))
        return cls(
            name, meter, Reporter(store=store, meter=meter, config=config, clock=store.clock)
        )

    async def attended(self) -> None:
        """See to it that what was counted will be written, whatever comes next."""
        if self.reporter is not None:
            await self.reporter.attended()

    def forked(self) -> None:
        """Begin anew in another process, where none of the tasks of this one run."""
        self.meter.forked(new_id(self.name))
        if self.reporter is not None:
            self.reporter.forked()
