"""``gotasks node`` and ``gotasks metrics``: who is there, and what has been done."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated

import typer

from gotasks_cli._known import check_found, check_queue
from gotasks_cli._options import AppOption, OutputOption, QueueOption, StoreOption, TypeOption
from gotasks_cli._output import Format, Names, Percentiles, Record, cell, note, print_records
from gotasks_cli._problems import ExitCode, Problem, usage_checked
from gotasks_cli._session import Target, with_manager
from gotasks_cli._times import duration
from gotasks_py import Manager, TaskFilter
from gotasks_py.autoscaling import wanted_workers
from gotasks_py.controls import Controlling, NodeOrder
from gotasks_py.metering import Metering
from gotasks_py.metrics import LATENCIES, Activity, Metrics
from gotasks_py.nodes import Node
from gotasks_py.sketch import LatencySketch

nodes = typer.Typer(help="Look at the managers that run somewhere.")
metrics = typer.Typer(help="Look at what has been done.")

_MIB = 1024 * 1024
_BY_THE_MINUTE = timedelta(hours=2)
_BY_THE_HOUR = timedelta(days=1)
"""Of how long windows of a minute or an hour are read; beyond that, those of a day."""


@nodes.command("list")
def list_nodes(
    *,
    app: AppOption = None,
    store: StoreOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Print the managers that are there, as they last said of themselves.

    The state is what a manager was told: quiet, drain, or nothing, so that it is working.
    """

    async def work(manager: Manager) -> list[Record]:
        found = await metering(manager).nodes()
        orders = await orders_of(manager.store)
        now = manager.store.clock.now()
        return [
            {
                **_node_row(node, orders.get(node.id)),
                "up": now - node.started_at,
                "silent": now - node.beat_at,
            }
            for node in found
        ]

    print_records(with_manager(Target(app, store), work), output)


@metrics.command()
def show(
    *,
    app: AppOption = None,
    store: StoreOption = None,
    queue: QueueOption = None,
    type: TypeOption = None,
    minutes: Annotated[
        float, typer.Option(min=1, max=60 * 24 * 365, help="Of so long until now.")
    ] = 60.0,
    output: OutputOption = Format.TABLE,
) -> None:
    """Print what happened to tasks of each queue and type, on all managers together.

    Of more than two hours, it begins at a full hour; of more than a day, at a full day of UTC.

    Times are the 50th, 95th and 99th percentile: of the wait from due to claimed, of the run
    of handlers, and from the enqueue to the success.
    """

    async def work(manager: Manager) -> Metrics:
        with usage_checked():
            wanted = TaskFilter(queue=queue, type=type)
            since = timedelta(minutes=minutes)
            found = await metering(manager).metrics(
                queue=queue,
                type=type,
                since=since,
                hourly=_BY_THE_MINUTE < since <= _BY_THE_HOUR,
                daily=since > _BY_THE_HOUR,
            )
        if not found.by_type():
            await check_queue(manager, queue)
        await check_found(manager, wanted, found.by_type())
        return found

    found = with_manager(Target(app, store), work)
    if minutes > _BY_THE_MINUTE / timedelta(minutes=1):
        note(f"since {cell(found.since)}")
    rows = [_activity_row(*key, activity) for key, activity in sorted(found.by_type().items())]
    print_records(rows, output)


@metrics.command()
def scaling(
    *,
    app: AppOption = None,
    store: StoreOption = None,
    target_wait: Annotated[
        float,
        typer.Option(min=0.001, metavar="SECONDS", help="For how long what is due may wait."),
    ] = 5.0,
    output: OutputOption = Format.TABLE,
) -> None:
    """Print how many workers each queue wants, for autoscalers of any kind."""
    span = duration("--target-wait", target_wait)
    found = with_manager(Target(app, store), lambda manager: manager.loads())
    rows = [
        {
            "queue": load.queue,
            "due": load.due,
            "running": load.running,
            "oldest_due": load.oldest_due_age,
            "run_time": load.run_time,
            "wanted_workers": wanted_workers(load, span),
        }
        for load in found
    ]
    print_records(rows, output)


def metering(manager: Manager) -> Metering:
    """Tell the part of a manager's store that keeps metrics.

    Raises:
        Problem: it has none.
    """
    store = manager.store
    if not isinstance(store, Metering):
        msg = f"{type(store).__name__} keeps neither metrics nor nodes"
        raise Problem(msg, ExitCode.UNUSABLE)
    return store


async def orders_of(store: object) -> Mapping[str, NodeOrder]:
    """Tell what managers were told to do, by their ids."""
    return await store.node_orders() if isinstance(store, Controlling) else {}


def state_of(order: NodeOrder | None) -> str:
    """Tell in a word what a manager does that was told this."""
    return "working" if order is None else order.value


def _node_row(node: Node, order: NodeOrder | None) -> Record:
    return {
        "node": node.id,
        "host": node.host,
        "pid": node.pid,
        "version": node.version,
        "state": state_of(order),
        "queues": Names(node.queues),
        "types": Names(
            f"{queue}/{type}" for queue, types in sorted(node.types.items()) for type in types
        ),
        "running": node.running,
        "capacity": node.capacity,
        "loop_lag": node.loop_lag,
        "memory_mib": round(node.rss_bytes / _MIB),
    }


def _activity_row(queue: str, type: str, activity: Activity) -> Record:
    counters = activity.counters
    return {
        "queue": queue,
        "type": type,
        "enqueued": counters.enqueued,
        "claimed": counters.claimed,
        "done": counters.done,
        "failed": counters.failed,
        "retried": counters.retried,
        "dead": counters.dead,
        "cancelled": counters.cancelled,
        "requeued": counters.requeued,
        "snoozed": counters.snoozed,
        "rescued": counters.rescued,
        "interrupted": counters.interrupted,
        "lease_lost": counters.lease_lost,
        **{name: _percentiles(getattr(activity, name)) for name in LATENCIES},
    }


def _percentiles(sketch: LatencySketch) -> Percentiles:
    return Percentiles(sketch.p50, sketch.p95, sketch.p99)
