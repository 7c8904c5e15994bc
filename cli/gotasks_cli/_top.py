"""``gotasks top``: queues, rates, managers and running tasks, as they change."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Final

import anyio
import typer
from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gotasks_cli._cluster import orders_of, state_of
from gotasks_cli._options import AppOption, StoreOption
from gotasks_cli._output import cell, console
from gotasks_cli._problems import Problem
from gotasks_cli._session import Target, opened, run
from gotasks_py import (
    Manager,
    Metering,
    Node,
    NodeOrder,
    QueueOverview,
    Status,
    StoreError,
    Task,
    TaskFilter,
)
from gotasks_py.metrics import Counters

_RATES_OVER: Final = timedelta(minutes=5)
_MOST_TASKS: Final = 10
_MIB: Final = 1024 * 1024
_GAP: Final = 2
"""How much rich leaves between two columns."""
_SHORTEST_NAME: Final = 12
"""To how much a name is cut before columns are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What is shown at one moment."""

    at: datetime
    queues: Sequence[QueueOverview]
    rates: Mapping[str, Counters]
    """What was counted of each queue within ``_RATES_OVER``."""
    nodes: Sequence[Node]
    orders: Mapping[str, NodeOrder]
    """What managers were told to do."""
    running: Sequence[Task]


def top(
    *,
    app: AppOption = None,
    store: StoreOption = None,
    interval: Annotated[
        float, typer.Option(min=0.2, metavar="SECONDS", help="How often to look.")
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, and print that.")] = False,
) -> None:
    """Show queues, rates, managers and running tasks, until Ctrl-C.

    Rates are of the last five minutes.
    """
    target = Target(app, store).resolved()
    if not once and not sys.stdout.isatty():
        msg = "standard output is no terminal to show changes on: give --once"
        raise Problem(msg)
    run(lambda: _show(target, interval, once=once))


async def _show(target: Target, interval: float, *, once: bool) -> None:
    screen = console()
    async with opened(target) as manager:
        if once:
            screen.print(view(await snapshot(manager), screen.width))
            return
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with anyio.create_task_group() as group:
                group.start_soon(_refresh, manager, screen, interval)
                async for _ in signals:
                    group.cancel_scope.cancel()


async def _refresh(manager: Manager, screen: Console, interval: float) -> None:
    with Live(console=screen, screen=True, auto_refresh=False) as live:
        while True:
            try:
                shown = view(await snapshot(manager), screen.width)
            except StoreError as error:
                shown = Group(Text(f"{error}; looking again", style="red"))
            live.update(shown, refresh=True)
            await anyio.sleep(interval)


async def snapshot(manager: Manager) -> Snapshot:
    """Look at everything once; each question is bounded."""
    store = manager.store
    queues = await manager.overview()
    page = await manager.find_tasks(
        TaskFilter(status=Status.RUNNING), limit=_MOST_TASKS, newest_first=False
    )
    rates: Mapping[str, Counters] = {}
    nodes: Sequence[Node] = ()
    if isinstance(store, Metering):
        nodes = await store.nodes()
        found = await store.metrics(since=_RATES_OVER)
        rates = {queue.name: found.total(queue.name).counters for queue in queues}
    return Snapshot(
        at=store.clock.now(),
        queues=queues,
        rates=rates,
        nodes=nodes,
        orders=await orders_of(store),
        running=page.tasks,
    )


def view(now: Snapshot, width: int) -> Group:
    """Draw a snapshot; columns for which there is no room are left out, the last ones first."""
    return Group(
        Text(f"gotasks  {now.at:%Y-%m-%d %H:%M:%S}Z  {len(now.nodes)} managers", style="bold"),
        *(
            _fitted(table, width)
            for table in (_queue_table(now), _node_table(now), _task_table(now))
            if table.row_count
        ),
    )


def _queue_table(now: Snapshot) -> Table:
    table = _table(
        "queue",
        "state",
        "due for",
        "pending",
        "scheduled",
        "running",
        "dead",
        "in/s",
        "done/s",
        "failed/s",
    )
    seconds = _RATES_OVER.total_seconds()
    for queue in now.queues:
        counters = now.rates.get(queue.name, Counters())
        table.add_row(
            cell(queue.name),
            cell("open" if queue.pause is None else "paused"),
            cell(queue.oldest_due_age),
            *(
                cell(count)
                for count in (
                    queue.counts.get(Status.PENDING),
                    queue.scheduled,
                    queue.counts.get(Status.RUNNING),
                    queue.counts.get(Status.DEAD),
                )
            ),
            *(
                cell(f"{count / seconds:.1f}")
                for count in (counters.enqueued, counters.done, counters.failed)
            ),
        )
    return table


def _node_table(now: Snapshot) -> Table:
    table = _table("manager", "state", "host", "pid", "running", "loop lag", "MiB", "silent")
    for node in now.nodes:
        table.add_row(
            cell(node.id),
            cell(state_of(now.orders.get(node.id))),
            cell(node.host),
            cell(node.pid),
            cell(f"{node.running}/{node.capacity}"),
            cell(node.loop_lag),
            cell(round(node.rss_bytes / _MIB)),
            cell(now.at - node.beat_at),
        )
    return table


def _task_table(now: Snapshot) -> Table:
    table = _table("running task", "queue", "type", "attempt", "for", "worker")
    for task in now.running:
        table.add_row(
            cell(task.id),
            cell(task.queue),
            cell(task.type),
            cell(f"{task.attempts}/{task.max_attempts}"),
            cell(None if task.started_at is None else now.at - task.started_at),
            cell(None if task.lease is None else task.lease.owner),
        )
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold cyan", pad_edge=False, expand=False)
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table


def _fitted(table: Table, width: int) -> Table:
    columns = table.columns
    widths = [max(cell_len(str(each)) for each in (it.header, *it.cells)) for it in columns]
    first = min(widths[0], _SHORTEST_NAME)
    while len(columns) > 1 and first + sum(widths[1 : len(columns)]) + _gaps(columns) > width:
        columns.pop()
    columns[0].max_width = max(1, width - sum(widths[1 : len(columns)]) - _gaps(columns))
    return table


def _gaps(columns: Sequence[object]) -> int:
    return _GAP * (len(columns) - 1)
