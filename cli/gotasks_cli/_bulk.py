"""Acting on many tasks: say how many, ask, show progress, report."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from gotasks_cli._known import check_found, check_queue
from gotasks_cli._output import Format, confirm, note, print_json
from gotasks_cli._problems import ExitCode
from gotasks_cli._progress import progress
from gotasks_cli._session import Target, with_manager
from gotasks_py import BulkReport, Count, Manager, TaskFilter

Act: TypeAlias = Callable[[Manager, Callable[[BulkReport], None]], Awaitable[BulkReport]]


def act_on_many(
    act: Act,
    wanted: TaskFilter,
    *,
    target: Target,
    verb: str,
    what: str,
    yes: bool,
    output: Format,
) -> ExitCode:
    """Act on the tasks of a filter, after asking; tell how it ended."""
    target = target.resolved()

    async def look(manager: Manager) -> Count:
        await check_queue(manager, wanted.queue)
        count = await manager.count_tasks(wanted)
        await check_found(manager, wanted, count.value or not count.is_exact)
        return count

    count = with_manager(target, look)
    is_nothing = count == Count(0)
    confirm(f"{verb.capitalize()} {_said(count)} {what}?", yes=yes or is_nothing)
    with progress(verb, count.value if count.is_exact else None) as show:

        async def work(manager: Manager) -> BulkReport:
            return await act(manager, lambda report: show(report.changed + report.refused))

        report = with_manager(target, work)
    _print_report(report, count, output)
    return ExitCode.FAILED if report.refused else ExitCode.OK


def _said(count: Count) -> str:
    return str(count.value) if count.is_exact else f"at least {count.value}"


def _print_report(report: BulkReport, count: Count, output: Format) -> None:
    reasons = {str(task_id): reason for task_id, reason in report.reasons.items()}
    if output is Format.JSON:
        print_json({"changed": report.changed, "refused": report.refused, "reasons": reasons})
        return
    found = "" if not count.is_exact else f" of {count.value}"
    note(f"{report.changed}{found} done, {report.refused} refused")
    for task_id, reason in reasons.items():
        note(f"{task_id}: {reason}")
