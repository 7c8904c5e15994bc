"""``gotasks worker``: run the manager of an APP."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final

import typer

from gotasks_cli._problems import ExitCode, Problem
from gotasks_cli._session import Target, opened, run

logger = logging.getLogger("gotasks_cli.worker")

_LINE: Final = "%(asctime)s %(levelname)-7s %(process)d %(name)s: %(message)s"


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
    workers: int | None
    grace: timedelta


def worker(
    app: Annotated[
        str,
        typer.Argument(
            metavar="APP", help="The manager, or a function that makes it, as module:name."
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
        int | None,
        typer.Option("--workers", "-w", min=1, help="How many tasks run at once."),
    ] = None,
    grace: Annotated[
        float,
        typer.Option(min=0, metavar="SECONDS", help="How long handlers may finish at a stop."),
    ] = 30.0,
    log_level: Annotated[LogLevel, typer.Option(help="What to log, on standard error.")] = (
        LogLevel.INFO
    ),
) -> None:
    """Run tasks until SIGINT or SIGTERM; a second signal cancels the handlers at once."""
    logging.basicConfig(level=log_level.upper(), format=_LINE)
    work = Work(
        app=app,
        queues=_names(queues),
        workers=workers,
        grace=timedelta(seconds=grace),
    )
    run(lambda: serve(work))


async def serve(work: Work) -> None:
    """Run a manager in this process until it is told to stop.

    Raises:
        Problem: it failed.
    """
    async with opened(Target(app=work.app)) as manager:
        manager.override(queues=work.queues, workers=work.workers)
        await manager.run(work.grace)


def _names(given: Sequence[str] | None) -> Sequence[str] | None:
    if not given:
        return None
    names = [name.strip() for each in given for name in each.split(",")]
    if not all(names):
        msg = f"--queues has an empty name: {','.join(given)!r}"
        raise Problem(msg, ExitCode.USAGE)
    return names
