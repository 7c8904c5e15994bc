"""What reaches a supervisor from outside: signals, and changes of the code."""

from __future__ import annotations

import logging
import signal
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import anyio
from watchfiles import PythonFilter, awatch

from gotasks_cli._problems import ExitCode
from gotasks_cli._supervisor import Child, Supervisor

logger = logging.getLogger("gotasks_cli.supervisor")


async def supervise(
    spawn: Callable[[int], Awaitable[Child]],
    processes: int,
    grace: timedelta,
    *,
    watched: Path | None = None,
) -> ExitCode:
    """Keep worker processes running until a signal; start them anew when code changes."""
    supervisor = Supervisor(spawn, grace=grace, waits_for_changes=watched is not None)
    code = int(ExitCode.FAILED)
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as group:

            async def obey() -> None:
                async for number in signals:
                    logger.info("got %s", number.name)
                    supervisor.stop()

            group.start_soon(obey)
            if watched is not None:
                group.start_soon(_reload, supervisor, watched)
            code = await supervisor.run(processes)
            group.cancel_scope.cancel()
    return ExitCode(code)


async def _reload(supervisor: Supervisor, folder: Path) -> None:
    async for changes in awatch(folder, watch_filter=PythonFilter()):
        names = sorted({Path(path).name for _, path in changes})
        logger.info("%s changed, starting anew", ", ".join(names))
        supervisor.reload()
