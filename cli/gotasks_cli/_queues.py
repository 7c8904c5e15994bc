"""``gotasks queue``: whole queues."""

from __future__ import annotations

from collections.abc import Callable

import typer

from gotasks_cli._bulk import act_on_many
from gotasks_cli._cluster import orders_of
from gotasks_cli._filters import BeforeOption, StatusOption, TagOption, a_filter
from gotasks_cli._options import (
    AppOption,
    OutputOption,
    PaceOption,
    QueueArgument,
    StoreOption,
    TypeOption,
    YesOption,
)
from gotasks_cli._output import Format, Record, print_record, print_records
from gotasks_cli._problems import ExitCode
from gotasks_cli._session import Target, with_manager
from gotasks_py import Manager, Metering, QueueOverview, Status
from gotasks_py.controls import QueueChanges

queues = typer.Typer(help="Look at whole queues, and act on them.")


@queues.command("list")
def list_queues(
    *,
    app: AppOption = None,
    store: StoreOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Print how every queue is doing. Counts end at a bound: 10000+ are at least so many.

    The capacity is how many tasks of the queue all managers that work on it can run at once;
    queues may share workers.
    """

    async def work(manager: Manager) -> list[Record]:
        capacity = await _capacities(manager)
        return [_row(each, capacity(each.name)) for each in await manager.overview()]

    print_records(with_manager(Target(app, store), work), output)


@queues.command()
def show(
    queue: QueueArgument,
    *,
    app: AppOption = None,
    store: StoreOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Print how one queue is doing, and its policy as the store has it.

    Of the policy, "changed" lists what queue set has set; the rest is as declared. Weight and
    workers are each manager's own, and shown only where they were set.
    """

    async def work(manager: Manager) -> Record:
        (found,) = await manager.overview(queue)
        capacity = await _capacities(manager)
        recorded = (await manager.store.queues()).get(queue, {})
        changes = QueueChanges.from_document(recorded).to_document()
        held = {
            name: value for name, value in found.policy.registered().items() if value is not None
        }
        return {
            **_row(found, capacity(queue)),
            "policy": {**held, **changes},
            "changed": list(changes),
        }

    print_record(with_manager(Target(app, store), work), output)


@queues.command()
def purge(
    queue: QueueArgument,
    *,
    app: AppOption = None,
    store: StoreOption = None,
    type: TypeOption = None,
    status: StatusOption = None,
    tag: TagOption = None,
    before: BeforeOption = None,
    per_second: PaceOption = 2000,
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> ExitCode:
    """Remove a queue's tasks for good: final ones, unless --status names others."""
    chosen = status or [each for each in Status if each.is_final]
    wanted = a_filter(queue=queue, type=type, status=chosen, tag=tag, before=before)
    return act_on_many(
        lambda manager, tell: manager.delete_tasks(wanted, per_second=per_second, progress=tell),
        wanted,
        target=Target(app, store),
        verb="delete",
        what=f"tasks of queue {queue!r} that are {' or '.join(chosen)}",
        yes=yes,
        output=output,
    )


async def _capacities(manager: Manager) -> Callable[[str], int | None]:
    """Look how many tasks of a queue can run at once; ``None``: the store does not know."""
    store = manager.store
    if not isinstance(store, Metering):
        return lambda _: None
    nodes, orders = await store.nodes(), await orders_of(store)
    claiming = [node for node in nodes if node.id not in orders]
    return lambda queue: sum(node.workers.get(queue, 0) for node in claiming)


def _row(queue: QueueOverview, capacity: int | None) -> Record:
    counts = {status.value: queue.counts.get(status) for status in Status}
    return {
        "queue": queue.name,
        "state": "open" if queue.pause is None else "paused",
        "paused_until": None if queue.pause is None else queue.pause.until,
        "paused_by": None if queue.pause is None else queue.pause.by,
        "oldest_due": queue.oldest_due_age,
        **counts,
        "capacity": capacity,
        "scheduled": queue.scheduled,
    }
