"""``gotasks demo`` and ``gotasks bench``: see it work, and see how fast."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Final

import anyio
import typer

from gotasks_cli._options import OutputOption, StoreOption
from gotasks_cli._output import Format, note, print_record
from gotasks_cli._problems import ExitCode
from gotasks_cli._progress import progress
from gotasks_cli._session import Target, opened, run
from gotasks_py import (
    Controlling,
    Enqueue,
    Fixed,
    Hooks,
    Manager,
    Metering,
    PipelineMode,
    QueuePolicy,
    Reject,
    Retry,
    Status,
    TaskContext,
    TaskEvent,
    TaskFilter,
)

_QUEUE: Final = "gotasks.trial"
_TASKS: Final = 60
_SHOWN_EVERY: Final = 100
_REMOVED_PER_SECOND: Final = 100_000


def demo(*, store: StoreOption = None, output: OutputOption = Format.TABLE) -> ExitCode:
    """Run some tasks that succeed, fail and are tried again, or die; then remove them.

    Without --store in memory. In a store it uses a queue of its own, 'gotasks.trial'.
    """
    told = run(lambda: _demo(Target(store=store or "memory://")))
    print_record(told, output)
    is_fine = told["done"] == _TASKS - _TASKS // 10 and told["dead"] == _TASKS // 10
    return ExitCode.OK if is_fine else ExitCode.FAILED


def bench(
    *,
    store: StoreOption = None,
    tasks: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many tasks.")] = 10_000,
    workers: Annotated[int, typer.Option("--workers", "-w", min=1, help="Tasks at once.")] = 32,
    output: OutputOption = Format.TABLE,
) -> None:
    """Enqueue tasks that do nothing, run them in this process, remove them; tell the rates.

    It uses a queue of its own, 'gotasks.trial', and tells what this machine and that store do
    together at this moment.
    """
    print_record(run(lambda: _bench(Target(store=store), tasks, workers)), output)


@dataclass
class _Finished:
    """How many tasks came to an end, and when all have."""

    total: int
    done: int = 0
    dead: int = 0
    show: Callable[[int], object] = lambda _: None
    all: anyio.Event = field(default_factory=anyio.Event)

    def hooks(self) -> Hooks:
        return Hooks(on_done=self._on_done, on_dead=self._on_dead)

    def _on_done(self, _: TaskEvent) -> None:
        self.done += 1
        self._count()

    def _on_dead(self, _: TaskEvent) -> None:
        self.dead += 1
        self._count()

    def _count(self) -> None:
        ended = self.done + self.dead
        if ended % _SHOWN_EVERY == 0:
            self.show(ended)
        if ended >= self.total:
            self.all.set()


async def _demo(target: Target) -> dict[str, object]:
    finished = _Finished(_TASKS)
    async with _trial(target, finished, workers=8) as manager:

        @manager.handler(_QUEUE, "work", backoff=Fixed(timedelta(milliseconds=100)))
        async def work(context: TaskContext, number: int) -> str:
            await anyio.sleep(random.uniform(0.01, 0.05))  # noqa: S311  - no secret
            if number % 10 == 0:
                raise Reject(f"task {number} never works")
            if number % 3 == 0 and context.attempt == 1:
                raise Retry(f"task {number} works the second time")
            return f"by {context.lease.owner}"

        note(f"{_TASKS} tasks: a tenth never works, a third of the others fails once")
        await manager.enqueue_many(Enqueue(_QUEUE, "work", number) for number in range(_TASKS))
        async with manager:
            await finished.all.wait()
        last = await manager.find_tasks(TaskFilter(queue=_QUEUE, status=Status.DEAD), limit=1)
        causes = [error.message for task in last.tasks for error in task.errors]
    return {"done": finished.done, "dead": finished.dead, "for_example": ", ".join(causes)}


async def _bench(target: Target, tasks: int, workers: int) -> dict[str, object]:
    finished = _Finished(tasks)
    async with _trial(target, finished, workers=workers, mode=PipelineMode()) as manager:

        @manager.handler(_QUEUE, "nothing")
        async def nothing(number: int) -> None:
            """Do nothing."""

        began = time.perf_counter()
        requests = (Enqueue(_QUEUE, "nothing", number) for number in range(tasks))
        with progress("enqueue", tasks) as show:
            await manager.enqueue_many(requests, progress=show)
        enqueued = time.perf_counter()
        with progress("run", tasks) as finished.show:
            async with manager:
                await finished.all.wait()
        ended = time.perf_counter()
    return {
        "tasks": tasks,
        "enqueued_per_second": round(tasks / (enqueued - began)),
        "run_per_second": round(tasks / (ended - enqueued)),
    }


@asynccontextmanager
async def _trial(
    target: Target, finished: _Finished, *, workers: int, mode: PipelineMode | None = None
) -> AsyncGenerator[Manager]:
    """Make a manager of the trial's own queue, and leave nothing of it."""
    async with opened(target) as found:
        manager = Manager(
            found.store,
            queues=[QueuePolicy(_QUEUE)],
            workers=workers,
            mode=mode,
            name="trial",
            hooks=finished.hooks(),
        )
        ours = TaskFilter(queue=_QUEUE, status=list(Status))
        await manager.delete_tasks(ours, per_second=_REMOVED_PER_SECOND)
        try:
            yield manager
        finally:
            with anyio.CancelScope(shield=True):
                await manager.delete_tasks(ours, per_second=_REMOVED_PER_SECOND)
                await _forget(manager)


async def _forget(manager: Manager) -> None:
    """Remove the trial's queue from those that are recorded, unless another trial runs."""
    left = await manager.count_tasks(TaskFilter(queue=_QUEUE), limit=1)
    store = manager.store
    nodes = await store.nodes() if isinstance(store, Metering) else ()
    is_over = not left.value and not any(_QUEUE in node.queues for node in nodes)
    if is_over and isinstance(store, Controlling):
        await store.forget_queue(_QUEUE)
