"""``gotasks queue``: whole queues."""

from __future__ import annotations

import typer

from gotasks_cli._bulk import act_on_many
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
from gotasks_py import Manager, QueueOverview, Status
from gotasks_py.controls import QueueChanges

queues = typer.Typer(help="Look at whole queues, and act on them.")


@queues.command("list")
def list_queues(
    *,
    app: AppOption = None,
    store: StoreOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Print how every queue is doing. Counts end at a bound: 10000+ are at least so many."""
    found = with_manager(Target(app, store), lambda manager: manager.overview())
    print_records([_row(each) for each in found], output)


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
        recorded = (await manager.store.queues()).get(queue, {})
        changes = QueueChanges.from_document(recorded).to_document()
        held = {
            name: value for name, value in found.policy.registered().items() if value is not None
        }
        return {**_row(found), "policy": {**held, **changes}, "changed": list(changes)}

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


def _row(queue: QueueOverview) -> Record:
    counts = {status.value: queue.counts.get(status) for status in Status}
    return {
        "queue": queue.name,
        "state": "open" if queue.pause is None else "paused",
        "paused_until": None if queue.pause is None else queue.pause.until,
        "paused_by": None if queue.pause is None else queue.pause.by,
        "oldest_due": queue.oldest_due_age,
        **counts,
        "scheduled": queue.scheduled,
    }
