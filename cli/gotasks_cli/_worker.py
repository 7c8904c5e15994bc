"""``gotasks worker``: run the manager of an APP, in this process or in several."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import partial
from pathlib import Path
from socket import socket
from typing import Annotated, Final

import anyio
import typer

from gotasks_cli._health import address_of, bound
from gotasks_cli._health import serve as serve_health
from gotasks_cli._problems import ExitCode, Problem
from gotasks_cli._processes import (
    SUPERVISED,
    Limits,
    spawn,
    stop_with_supervisor,
    until_exceeded,
)
from gotasks_cli._scaling import REPORTS, report
from gotasks_cli._session import Target, opened, run
from gotasks_cli._supervising import supervise
from gotasks_cli._times import duration
from gotasks_cli._vitals import VITALS, Vitals, tell, vitals_of
from gotasks_py import Manager
from gotasks_py.autoscaling import ScalingConfig
from gotasks_py.checks import MAX_WORKERS

logger = logging.getLogger("gotasks_cli.worker")

_LINE: Final = "%(asctime)s %(levelname)-7s %(process)d %(name)s: %(message)s"
_MOST_PROCESSES: Final = 256


class LogLevel(StrEnum):
    """What to log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one worker process does."""

    app: str
    queues: Sequence[str] | None
    workers: str | None
    grace: timedelta
    target_wait: timedelta
    limits: Limits
    log_level: LogLevel

    def arguments(self) -> Sequence[str]:
        """Tell the command line that makes another process do it."""
        options = {
            "--queues": None if self.queues is None else ",".join(self.queues),
            "--workers": self.workers,
            "--grace": self.grace.total_seconds(),
            "--target-wait": self.target_wait.total_seconds(),
            "--max-tasks": self.limits.tasks,
            "--max-memory": self.limits.memory_mib,
            "--log-level": self.log_level,
        }
        given = [(name, str(value)) for name, value in options.items() if value is not None]
        return ["worker", self.app, *(part for option in given for part in option)]


def worker(
    app: Annotated[
        str,
        typer.Argument(
            metavar="APP",
            help="The manager, or a function (async or not) that makes it, as module:name, or "
            "module if its name is manager.",
        ),
    ],
    *,
    queues: Annotated[
        list[str] | None,
        typer.Option(
            "--queues", "-q", help="Work on these queues alone; comma-separated or repeated."
        ),
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option(
            "--workers",
            "-w",
            metavar="N|MIN..MAX",
            help="How many tasks each process runs at once; between two bounds, by what waits in "
            "its queues; else APP's.",
        ),
    ] = None,
    processes: Annotated[
        str,
        typer.Option(
            "--processes",
            "-p",
            metavar="N|MIN..MAX",
            help="How many processes to run; between two bounds, by what waits in the queues.",
        ),
    ] = "1",
    target_wait: Annotated[
        float,
        typer.Option(
            min=0.001, metavar="SECONDS", help="Scale so that what is due waits no longer."
        ),
    ] = 5.0,
    grace: Annotated[
        float,
        typer.Option(min=0, metavar="SECONDS", help="How long handlers may finish at a stop."),
    ] = 30.0,
    max_tasks: Annotated[
        int | None,
        typer.Option(min=1, help="Replace a process that has claimed so many tasks, no more."),
    ] = None,
    max_memory: Annotated[
        int | None,
        typer.Option(min=1, metavar="MIB", help="Replace a process that takes so much memory."),
    ] = None,
    reload: Annotated[
        bool,
        typer.Option("--reload", help="Start anew when Python files here change; to develop."),
    ] = False,
    health: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Tell there over HTTP, at /live and /ready, how all processes are; 0: any port.",
        ),
    ] = None,
    log_level: Annotated[LogLevel, typer.Option(help="What to log, on standard error.")] = (
        LogLevel.INFO
    ),
) -> ExitCode:
    """Run tasks until SIGINT, SIGTERM or SIGHUP; a second one hands unfinished ones back at once.

    SIGHUP, of a terminal that is closed, is left alone where it is ignored, as under nohup.

    With several processes, --max-tasks, --max-memory or --reload, a supervisor starts
    processes that end by themselves again, passes signals on, and ends them by force at the
    third one.
    """
    logging.basicConfig(level=log_level.upper(), format=_LINE)
    if workers is not None:
        _bounds("--workers", workers, MAX_WORKERS)
    work = Work(
        app=app,
        queues=_names(queues),
        workers=workers,
        grace=duration("--grace", grace),
        target_wait=duration("--target-wait", target_wait),
        limits=Limits(tasks=max_tasks, memory_mib=max_memory),
        log_level=log_level,
    )
    scaling = _scaling(processes, target_wait)
    if SUPERVISED in os.environ:
        stop_with_supervisor()
        return run(lambda: serve(work))
    with ExitStack() as stack:
        listener = None if health is None else stack.enter_context(_listening(health))
        if scaling.most == 1 and work.limits == Limits() and not reload:
            return run(lambda: serve(work, listener))
        watched = Path.cwd() if reload else None
        start = partial(spawn, arguments=work.arguments())
        return run(lambda: supervise(start, scaling, work.grace, watched=watched, health=listener))


async def serve(work: Work, health: socket | None = None) -> ExitCode:
    """Run a manager in this process until it is told to stop, or wants another process.

    Raises:
        Exception: it failed.
    """
    reached: list[str] = []
    running: list[Manager] = []
    async with anyio.create_task_group() as group:
        if health is not None:
            group.start_soon(serve_health, health, partial(_vitals, running))
        async with opened(Target(app=work.app), is_patient=True) as manager:
            manager.override(
                queues=work.queues, workers=_workers(work), max_tasks=work.limits.tasks
            )
            running.append(manager)
            group.start_soon(_recycle, manager, work, reached)
            if REPORTS in os.environ:
                group.start_soon(report, manager, work.target_wait)
            if VITALS in os.environ:
                group.start_soon(tell, manager)
            await manager.run(work.grace)
            group.cancel_scope.cancel()
    return ExitCode.RECYCLED if reached else ExitCode.OK


def _vitals(running: Sequence[Manager]) -> Vitals:
    health = running[0].health() if running else None
    if health is None or not health.is_running:
        return Vitals(is_live=True, is_ready=False, reasons=["the manager is not running yet"])
    return vitals_of(health)


@contextmanager
def _listening(health: str) -> Generator[socket]:
    with bound(address_of("--health", health)) as listener:
        host, port = listener.getsockname()[:2]
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        logger.info("http://%s/live and /ready tell how this worker is", address)
        yield listener


async def _recycle(manager: Manager, work: Work, reached: list[str]) -> None:
    if work.limits != Limits():
        reached.append(await until_exceeded(manager, work.limits))
        logger.info("this process has reached its limit: %s", reached[0])
        await manager.stop(work.grace)


def _names(given: Sequence[str] | None) -> Sequence[str] | None:
    if not given:
        return None
    names = [name.strip() for each in given for name in each.split(",")]
    if not all(names):
        raise Problem(f"--queues has an empty name: {','.join(given)!r}")
    return names


def _workers(work: Work) -> int | ScalingConfig | None:
    if work.workers is None:
        return None
    least, most = _bounds("--workers", work.workers, MAX_WORKERS)
    if ".." not in work.workers:
        return most
    return ScalingConfig(least=least, most=most, target_wait=work.target_wait)


def _scaling(processes: str, target_wait: float) -> ScalingConfig:
    least, most = _bounds("--processes", processes, _MOST_PROCESSES)
    return ScalingConfig(least=least, most=most, target_wait=duration("--target-wait", target_wait))


def _bounds(option: str, given: str, limit: int) -> tuple[int, int]:
    bounds = re.fullmatch(r"([0-9]{1,5})(?:\.\.([0-9]{1,5}))?", given)
    least, most = (int(bounds[1]), int(bounds[2] or bounds[1])) if bounds else (0, 0)
    if not 1 <= least <= most <= limit:
        msg = f"{option} must be a number from 1 to {limit}, or two as in 2..8, not {given!r}"
        raise Problem(msg)
    return least, most
