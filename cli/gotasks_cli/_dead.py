"""``gotasks dead``: dead letters, by what they died of."""

from __future__ import annotations

from typing import Annotated

import typer

from gotasks_cli._bulk import act_on_many
from gotasks_cli._filters import (
    BeforeOption,
    ErrorOption,
    FingerprintOption,
    TagOption,
    a_filter,
)
from gotasks_cli._known import check_queue
from gotasks_cli._options import (
    AppOption,
    CursorOption,
    LimitOption,
    OutputOption,
    PaceOption,
    QueueOption,
    StoreOption,
    TypeOption,
    YesOption,
)
from gotasks_cli._output import Format, note, print_records
from gotasks_cli._problems import ExitCode, usage_checked
from gotasks_cli._session import Target, with_manager
from gotasks_py import DeadPage, Manager, Status, TaskFilter
from gotasks_py.checks import check_name

dead = typer.Typer(help="Look at dead letters, bring them back, or remove them.")


@dead.command("list")
def list_dead(
    *,
    app: AppOption = None,
    store: StoreOption = None,
    queue: QueueOption = None,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Print the dead letters, grouped by the fingerprint of what they died of."""

    async def work(manager: Manager) -> DeadPage:
        with usage_checked():  # the cursor, the name
            if queue is not None:
                check_name("queue", queue)
            await check_queue(manager, queue)
            return await manager.dead_letters(queue, limit=limit, cursor=cursor)

    page = with_manager(Target(app, store), work)
    rows = [
        {
            "count": group.count,
            "queue": group.queue,
            "fingerprint": group.fingerprint,
            "kind": group.kind,
            "message": group.message,
            "latest": group.latest.id,
        }
        for group in page.groups
    ]
    print_records(rows, output)
    if page.cursor is not None:
        note(f"there are more: --cursor {page.cursor}")


@dead.command()
def requeue(
    *,
    app: AppOption = None,
    store: StoreOption = None,
    queue: QueueOption = None,
    type: TypeOption = None,
    tag: TagOption = None,
    error: ErrorOption = None,
    fingerprint: FingerprintOption = None,
    before: BeforeOption = None,
    fresh_lifetime: Annotated[
        bool, typer.Option("--fresh-lifetime", help="Start their time to live anew, too.")
    ] = False,
    per_second: PaceOption = 2000,
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> ExitCode:
    """Bring dead letters back: those of a filter, or all."""
    wanted = _wanted(queue, type, tag, error, fingerprint, before)
    return act_on_many(
        lambda manager, tell: manager.requeue_tasks(
            wanted, fresh_lifetime=fresh_lifetime, per_second=per_second, progress=tell
        ),
        wanted,
        target=Target(app, store),
        verb="requeue",
        what="dead letters",
        yes=yes,
        output=output,
    )


@dead.command()
def purge(
    *,
    app: AppOption = None,
    store: StoreOption = None,
    queue: QueueOption = None,
    type: TypeOption = None,
    tag: TagOption = None,
    error: ErrorOption = None,
    fingerprint: FingerprintOption = None,
    before: BeforeOption = None,
    per_second: PaceOption = 2000,
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> ExitCode:
    """Remove dead letters for good: those of a filter, or all."""
    wanted = _wanted(queue, type, tag, error, fingerprint, before)
    return act_on_many(
        lambda manager, tell: manager.delete_tasks(wanted, per_second=per_second, progress=tell),
        wanted,
        target=Target(app, store),
        verb="delete",
        what="dead letters",
        yes=yes,
        output=output,
    )


def _wanted(
    queue: str | None,
    type: str | None,
    tag: str | None,
    error: str | None,
    fingerprint: str | None,
    before: str | None,
) -> TaskFilter:
    return a_filter(
        queue=queue,
        type=type,
        status=[Status.DEAD],
        tag=tag,
        error=error,
        fingerprint=fingerprint,
        before=before,
    )
