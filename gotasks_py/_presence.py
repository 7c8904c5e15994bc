"""The duty of saying that a manager is there, how it is doing and what it has done."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import anyio

from gotasks_py._gauging import Gauger, gauger_for
from gotasks_py._meter import new_id
from gotasks_py._reporting import Reporter
from gotasks_py._running import RunningTasks
from gotasks_py.clock import Clock
from gotasks_py.metering import Beat
from gotasks_py.nodes import Node

_NAP_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """Reports for a manager that is started."""

    id: str
    reporter: Reporter
    running: RunningTasks
    capacity: Callable[[], int]
    workers: Callable[[], Mapping[str, int]]
    weights: Callable[[], Mapping[str, int]]
    types: Mapping[str, Sequence[str]]
    clock: Clock
    version: str
    started_at: datetime = field(init=False)
    gauger: Gauger | None = field(init=False)

    def __post_init__(self) -> None:
        reporter = self.reporter
        gauger = gauger_for(reporter.store, reporter.config, self.id, self.clock)
        object.__setattr__(self, "gauger", gauger)
        object.__setattr__(self, "started_at", self.clock.now())
        self.reporter.begin(self.id)

    async def report(self) -> bool:
        """Say it once more."""
        node = self._node(await self._loop_lag())
        beat = Beat(node=node, good_for=self.reporter.config.silence)
        gauger = self.gauger
        if gauger is None:
            await self.reporter.report(beat=beat)
        else:
            looked = await gauger.gauges()
            await self.reporter.report(
                beat=beat,
                gauges=looked.gauges,
                latest=looked.latest,
                candidacy=gauger.candidacy,
            )
            await gauger.learn()
        return False

    async def leave(self) -> None:
        """Say that the manager is gone, and what is left to say of it."""
        node = self._node(timedelta(0))
        await self.reporter.report_last(Beat(node=node, good_for=timedelta(0)))
        self.reporter.end(new_id(self.id.rpartition(".")[0]))

    def _node(self, loop_lag: timedelta) -> Node:
        return Node(
            id=self.id,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=self.version,
            queues=tuple(self.types),
            types=self.types,
            workers=self.workers(),
            weights=self.weights(),
            capacity=self.capacity(),
            running=len(self.running.by_token),
            loop_lag=loop_lag,
            rss_bytes=_rss_bytes(),
            started_at=self.started_at,
        )

    async def _loop_lag(self) -> timedelta:
        began = self.clock.monotonic()
        await anyio.sleep(_NAP_SECONDS)
        late = self.clock.monotonic() - began - _NAP_SECONDS
        return timedelta(seconds=max(0.0, late))


def _rss_bytes() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        # Elsewhere than on Linux only the peak is known; macOS tells it in bytes.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return pages * resource.getpagesize()


def _installed_version() -> str:
    try:
        return version("gotasks-py")
    except PackageNotFoundError:
        return ""


INSTALLED_VERSION: Final = _installed_version()
