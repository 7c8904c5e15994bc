"""What handlers tell while they run, on disk before they go on.

Only the standard library: this is imported inside each peer's own environment. The lines are
those of the chaos harness, which reads them.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

from bench.peers.ledger import VARIABLE

WORKER: Final = "GOTASKS_BENCH_WORKER"
DEADLINE: Final = "GOTASKS_BENCH_DEADLINE"
DEADLINE_SECONDS: Final = int(os.environ.get(DEADLINE, "10"))
"""What leases, visibility timeouts and heartbeat deadlines are set to, so that none waits long."""
_STEP_SECONDS: Final = 0.05


def execute(task: str, seconds: float) -> str:
    """Be a handler that takes so long, or a moment if another execution came before.

    The time is slept in small steps: what was frozen has as much to do as before it was.

    Returns:
        The name of this execution, which is to be recorded as the task's result.
    """
    with _witnessed(task, seconds) as (name, steps):
        for _ in range(steps):
            time.sleep(_STEP_SECONDS)
    return name


async def execute_async(task: str, seconds: float) -> str:
    """Do as `execute` does, but await."""
    with _witnessed(task, seconds) as (name, steps):
        for _ in range(steps):
            await asyncio.sleep(_STEP_SECONDS)
    return name


@contextmanager
def _witnessed(task: str, seconds: float) -> Generator[tuple[str, int]]:
    steps = 1 if _has_started(task) else round(seconds / _STEP_SECONDS)
    worker = os.environ[WORKER]
    name = f"{worker}-{uuid4().hex[:8]}"
    _write("start", task=task, run=name, worker=worker)
    how = "stopped"
    try:
        yield name, steps
        how = "returned"
    finally:
        _write("end", task=task, run=name, how=how)


def _has_started(task: str) -> bool:
    ledger = _ledger()
    return ledger.exists() and f'"start",{{"task":"{task}"' in ledger.read_text()


def _write(event: str, **facts: str) -> None:
    line = json.dumps([time.monotonic(), event, facts], separators=(",", ":"))
    file = os.open(_ledger(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(file, f"{line}\n".encode())
        os.fdatasync(file)
    finally:
        os.close(file)


def _ledger() -> Path:
    return Path(os.environ[VARIABLE])
