"""What reaches a supervisor from outside: signals, and changes of the code."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from socket import socket
from typing import Protocol

import anyio
from watchfiles import PythonFilter, awatch

from gotasks_cli._health import serve
from gotasks_cli._problems import ExitCode
from gotasks_cli._scaling import follow
from gotasks_cli._supervisor import Child, Supervisor
from gotasks_cli._vitals import Board
from gotasks_py.autoscaling import ScalingConfig
from gotasks_py.signals import stop_signals

logger = logging.getLogger("gotasks_cli.supervisor")


class Spawn(Protocol):
    """Starts a worker process, which may tell by file descriptors what it wants and how it is."""

    async def __call__(self, number: int, *, reports: int | None, vitals: int | None) -> Child:
        """Start the process of a number."""
        ...


async def supervise(
    spawn: Spawn,
    scaling: ScalingConfig,
    grace: timedelta,
    *,
    watched: Path | None = None,
    health: socket | None = None,
) -> ExitCode:
    """Keep worker processes running until a signal; start them anew when code changes.

    How they are is told to whoever asks at the socket ``health``.
    """
    code = int(ExitCode.FAILED)
    with (
        _pipe() as (reports_in, reports_out),
        _pipe() as (vitals_in, vitals_out),
        anyio.open_signal_receiver(*stop_signals()) as signals,
    ):
        reports = reports_out if scaling.least < scaling.most else None
        vitals = None if health is None else vitals_out
        supervisor = Supervisor(
            partial(spawn, reports=reports, vitals=vitals),
            grace=grace,
            waits_for_changes=watched is not None,
        )
        async with anyio.create_task_group() as group:
            group.start_soon(_obey, signals, supervisor)
            if watched is not None:
                group.start_soon(_reload, supervisor, watched)
            if reports is not None:
                group.start_soon(follow, reports_in, supervisor, scaling)
            if health is not None:
                board = Board(supervisor)
                group.start_soon(board.listen, vitals_in)
                group.start_soon(serve, health, board.look)
            code = await supervisor.run(scaling.least)
            group.cancel_scope.cancel()
    return ExitCode(code)


@contextmanager
def _pipe() -> Generator[tuple[int, int]]:
    ends = os.pipe()
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


async def _obey(signals: AsyncIterator[signal.Signals], supervisor: Supervisor) -> None:
    async for number in signals:
        logger.info("got %s", number.name)
        supervisor.stop()


async def _reload(supervisor: Supervisor, folder: Path) -> None:
    async for changes in awatch(folder, watch_filter=PythonFilter()):
        names = sorted({Path(path).name for _, path in changes})
        logger.info("%s changed, starting anew", ", ".join(names))
        supervisor.reload()
