"""A worker process: real handlers that tell the ledger what they do, before and after."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

import anyio

from gotasks_chaos.ledger import Ledger
from gotasks_chaos.work import THREADED, TIMEOUT_SECONDS, WORK, Job, Receipt, Setting, queue_policy
from gotasks_py import JanitorConfig, Manager, TaskContext

GAP_SECONDS: Final = 0.2
"""An event loop that was silent for longer was not running: blocked, frozen or starved."""

_PULSE_SECONDS: Final = 0.05
_STEP_SECONDS: Final = 0.1
HEALTH_SECONDS: Final = 0.5


class IntendedError(Exception):
    """A failure that its producer asked for."""


async def work(setting: Setting) -> None:
    """Work until told to stop."""
    ledger = setting.book()
    store = await setting.store()
    manager = Manager(
        store,
        queues=[queue_policy()],
        workers=setting.slots,
        lease=timedelta(seconds=setting.lease),
        name=setting.name,
        mode=setting.pipeline,
        janitor=JanitorConfig(reap_interval=timedelta(seconds=setting.reap_interval)),
    )
    _register(manager, ledger, setting.name)
    async with anyio.create_task_group() as watchers:
        watchers.start_soon(_watch_gaps, ledger)
        watchers.start_soon(_report_health, ledger, manager)
        await manager.run(timeout=setting.grace)
        watchers.cancel_scope.cancel()
    await store.aclose()
    ledger.write("left")
    ledger.close()


def _register(manager: Manager, ledger: Ledger, name: str) -> None:
    under_way = set[str]()

    @manager.handler(WORK, timeout=timedelta(seconds=TIMEOUT_SECONDS))
    async def work(ctx: TaskContext, job: Job) -> Receipt:
        under_way.add(ctx.lease.token)
        try:
            with _noted(ledger, ctx, job):
                time.sleep(job.blocking)  # noqa: ASYNC251  - a handler that blocks the event loop
                await anyio.sleep_forever() if ctx.attempt <= job.hangs else None
                await _work_for(job.seconds + (job.again if ctx.attempt > 1 else 0.0))
                return _receipt(ctx, job, name, len(under_way))
        finally:
            under_way.remove(ctx.lease.token)

    @manager.handler(THREADED, timeout=timedelta(seconds=TIMEOUT_SECONDS))
    def threaded(ctx: TaskContext, job: Job) -> Receipt:
        with _noted(ledger, ctx, job):
            time.sleep(job.blocking + job.seconds)
            return _receipt(ctx, job, name)

    assert work.task_type is WORK  # noqa: S101  - both are registered by their decorators
    assert threaded.task_type is THREADED  # noqa: S101


async def _work_for(seconds: float) -> None:
    """Do it in steps: while its process is frozen, no work gets done."""
    while seconds > 0:
        await anyio.sleep(min(seconds, _STEP_SECONDS))
        seconds -= _STEP_SECONDS


def _receipt(ctx: TaskContext, job: Job, worker: str, at_once: int = 1) -> Receipt:
    if ctx.attempt <= job.failures:
        raise IntendedError(job.ref)
    filler = "x" * job.size
    return Receipt(token=ctx.lease.token, worker=worker, at_once=at_once, filler=filler)


@contextmanager
def _noted(ledger: Ledger, ctx: TaskContext, job: Job) -> Generator[None]:
    """Tell the ledger that an execution starts, and how it ends unless its process dies."""
    ledger.write(
        "start",
        task=str(ctx.id),
        token=ctx.lease.token,
        attempt=ctx.attempt,
        ref=job.ref,
        type=ctx.task.type,
        run_at=ctx.task.run_at.timestamp(),
        claimed_at=ctx.task.updated_at.timestamp(),
    )
    how = "stopped"
    try:
        yield
        how = "returned"
    except Exception:
        how = "raised"
        raise
    finally:
        ledger.write("end", task=str(ctx.id), token=ctx.lease.token, how=how)


async def _watch_gaps(ledger: Ledger) -> None:
    before = time.monotonic()
    while True:
        await anyio.sleep(_PULSE_SECONDS)
        now = time.monotonic()
        if now - before > GAP_SECONDS:
            ledger.write("gap", since=before, until=now)
        before = now


class _Records(logging.Handler):
    """Counts what the engine logs, but for what it says of single attempts."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += record.name != "gotasks_py.attempt"


async def _report_health(ledger: Ledger, manager: Manager) -> None:
    records = _Records()
    logging.getLogger("gotasks_py").addHandler(records)
    while True:
        health = manager.health()
        if health.is_running:
            ledger.write(
                "health",
                reasons=list(health.reasons),
                logged=records.count,
                files=len(os.listdir("/proc/self/fd")),  # noqa: PTH208  - names will do
            )
        await anyio.sleep(HEALTH_SECONDS)
