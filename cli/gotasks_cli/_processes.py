"""Worker processes of their own, and what such a process does that has a supervisor."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Final

import anyio
from anyio.abc import Process

from gotasks_cli._scaling import REPORTS
from gotasks_cli._vitals import VITALS
from gotasks_py import Manager

logger = logging.getLogger("gotasks_cli.worker")

SUPERVISED: Final = "GOTASKS_SUPERVISED"
"""Set for worker processes: the number of the worker."""

_MIB: Final = 1024 * 1024
_LOOK_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """A process that was started here; it stops by itself when this one is gone."""

    _process: Process

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def wait(self) -> int:
        """Wait for its end."""
        code = await self._process.wait()
        await self._process.aclose()
        return code

    def stop(self) -> None:
        """Send SIGTERM."""
        with suppress(ProcessLookupError):
            self._process.terminate()

    def kill(self) -> None:
        """Send SIGKILL."""
        with suppress(ProcessLookupError):
            self._process.kill()


async def spawn(
    number: int,
    arguments: Sequence[str],
    reports: int | None = None,
    vitals: int | None = None,
) -> WorkerProcess:
    """Start ``gotasks`` with these arguments.

    The first one may report to a descriptor what its queues want, and each how it is. In a
    session of its own: Ctrl-C in a terminal is for the supervisor, which passes it on.
    """
    told = {VITALS: vitals, REPORTS: reports if number == 1 else None}
    open_to_it = {name: each for name, each in told.items() if each is not None}
    process = await anyio.open_process(
        [sys.executable, "-m", "gotasks_cli", *arguments],
        stdin=PIPE,
        stdout=None,
        stderr=None,
        env={
            **os.environ,
            SUPERVISED: str(number),
            **{name: str(each) for name, each in open_to_it.items()},
        },
        start_new_session=True,
        pass_fds=tuple(open_to_it.values()),
    )
    return WorkerProcess(process)


def stop_with_supervisor() -> None:
    """Let this process finish its tasks when its supervisor is gone: its stdin then ends."""

    def watch() -> None:
        with suppress(OSError):
            while os.read(0, 1024):
                pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="gotasks supervisor watch", daemon=True).start()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """After what a worker process wants a fresh one in its place.

    Not before it has claimed a task: a fresh one that takes too much from the start would
    be replaced for ever, and nothing would be worked on.
    """

    tasks: int | None = None
    memory_mib: int | None = None

    def exceeded(self, tasks: int, memory_bytes: int) -> str | None:
        """Tell the limit that was reached; ``None``: none."""
        if self.tasks is not None and tasks >= self.tasks:
            return f"{tasks} tasks"
        if self.memory_mib is not None and tasks and memory_bytes >= self.memory_mib * _MIB:
            return f"{memory_bytes // _MIB} MiB"
        return None


async def until_exceeded(manager: Manager, limits: Limits) -> str:
    """Wait until a running manager has reached a limit; tell which."""
    while True:
        reached = limits.exceeded(manager.health().claimed_tasks, resident_bytes())
        if reached:
            return reached
        await anyio.sleep(_LOOK_SECONDS)


def resident_bytes() -> int:
    """Tell the memory of this process; zero where that cannot be told."""
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0
