"""``gotasks enqueue`` and ``gotasks task``: single tasks."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from gotasks_cli._filters import (
    BeforeOption,
    ErrorOption,
    FingerprintOption,
    PayloadOption,
    StatusOption,
    TagOption,
    WorkerOption,
    a_filter,
)
from gotasks_cli._json import parsed
from gotasks_cli._known import check_found, check_queue, listed, no_queue
from gotasks_cli._options import (
    AppOption,
    CursorOption,
    LimitOption,
    OutputOption,
    QueueOption,
    StoreOption,
    TaskArgument,
    TypeOption,
    YesOption,
    a_name,
)
from gotasks_cli._output import (
    Format,
    Record,
    confirm,
    note,
    print_record,
    print_records,
    task_record,
)
from gotasks_cli._problems import ExitCode, Problem, usage_checked
from gotasks_cli._session import Target, with_manager
from gotasks_cli._times import duration, moment
from gotasks_py import GotasksError, Manager, Task, TaskHandle, TaskPage, TaskPolicy

tasks = typer.Typer(help="Look at single tasks, and act on them.")


def enqueue(
    queue: Annotated[
        str,
        typer.Argument(metavar="QUEUE", help="The task's queue.", callback=a_name("QUEUE")),
    ],
    type: Annotated[
        str, typer.Argument(metavar="TYPE", help="The task's type.", callback=a_name("TYPE"))
    ],
    payload: Annotated[
        str,
        typer.Argument(
            metavar="PAYLOAD", help="The payload as JSON; - reads it from standard input."
        ),
    ] = "null",
    *,
    app: AppOption = None,
    store: StoreOption = None,
    delay: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="Run it no sooner than in this.")
    ] = None,
    run_at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Run it no sooner: ISO 8601 with its time zone."),
    ] = None,
    priority: Annotated[int, typer.Option(help="Higher goes first.")] = 0,
    max_attempts: Annotated[
        int | None, typer.Option(min=1, help="How often it may be started; 1: at most once.")
    ] = None,
    unique_key: Annotated[
        str | None, typer.Option(help="Refuse it while another active task holds this key.")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option(help="A word to find it by; may be repeated.")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until it has ended, and print how.")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="Wait no longer than this; else for ever."),
    ] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Store a task to be run.

    With --app its payload is checked against the type's schema before it is stored. With
    --store alone it is stored as given, in the form that a handler's arguments have: where
    task show has {"value": 1}, the handler takes a single value, and is given 1 here.

    With --wait the exit code is 0 when it succeeded, 1 when it did not, and 124 when it had
    not ended within --timeout; it then goes on. In each case the task is printed as it is then.
    """
    if timeout is not None and not wait:
        msg = "--timeout is how long to --wait: give both"
        raise Problem(msg)
    patience = None if timeout is None else duration("--timeout", timeout)
    target = Target(app, store).resolved()
    value = parsed("the payload", sys.stdin.read() if payload == "-" else payload)
    with usage_checked():
        policy = TaskPolicy(
            delay=None if delay is None else duration("--delay", delay),
            run_at=None if run_at is None else moment("--run-at", run_at),
            priority=priority,
            max_attempts=max_attempts,
            unique_key=unique_key,
            tags=tag or (),
        )

    ended: list[GotasksError] = []

    async def work(manager: Manager) -> Record:
        await _check_address(manager, queue, type, target)
        handle = await manager.enqueue(queue, type, value, policy)
        try:
            if wait:
                await handle.result(patience)
        except GotasksError as error:
            ended.append(error)
        return await _as_it_is(handle, ended)

    print_record(with_manager(target, work), output)
    if ended:
        raise ended[0]


@tasks.command("list")
def list_tasks(
    *,
    app: AppOption = None,
    store: StoreOption = None,
    queue: QueueOption = None,
    type: TypeOption = None,
    status: StatusOption = None,
    tag: TagOption = None,
    unique_key: Annotated[str | None, typer.Option(help="With this unique key.")] = None,
    worker: WorkerOption = None,
    payload: PayloadOption = None,
    error: ErrorOption = None,
    fingerprint: FingerprintOption = None,
    before: BeforeOption = None,
    oldest_first: Annotated[
        bool, typer.Option("--oldest-first", help="By the time to run, the oldest first.")
    ] = False,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Print the tasks that fit all options, without their payloads, the newest first."""
    wanted = a_filter(
        queue=queue,
        type=type,
        status=status,
        tag=tag,
        unique_key=unique_key,
        worker=worker,
        payload=payload,
        error=error,
        fingerprint=fingerprint,
        before=before,
    )

    async def work(manager: Manager) -> TaskPage:
        await check_queue(manager, wanted.queue)
        with usage_checked():  # the cursor
            page = await manager.find_tasks(
                wanted, limit=limit, cursor=cursor, newest_first=not oldest_first
            )
        await check_found(manager, wanted, page.tasks)
        return page

    page = with_manager(Target(app, store), work)
    print_records([_row(each) for each in page.tasks], output)
    if page.cursor is not None:
        note(f"there are more: --cursor {page.cursor}")


@tasks.command()
def show(
    task_id: TaskArgument,
    *,
    app: AppOption = None,
    store: StoreOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Print all fields of a task."""
    _print_after(lambda manager: manager.get(task_id), app, store, output)


@tasks.command()
def explain(
    task_id: TaskArgument,
    *,
    app: AppOption = None,
    store: StoreOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Say why a task is not running, or where it runs."""
    found = with_manager(Target(app, store), lambda manager: manager.explain(task_id))
    record = {
        "id": found.task.id,
        "queue": found.task.queue,
        "type": found.task.type,
        "status": found.task.status,
        "reason": found.reason,
        "because": found.sentence,
        "until": found.until,
        "by": found.by,
    }
    print_record(record, output)


@tasks.command()
def retry(
    task_id: TaskArgument,
    *,
    app: AppOption = None,
    store: StoreOption = None,
    fresh_lifetime: Annotated[
        bool, typer.Option("--fresh-lifetime", help="Start its time to live anew, too.")
    ] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Bring a dead letter back: its attempts start over."""
    _print_after(
        lambda manager: manager.requeue(task_id, fresh_lifetime=fresh_lifetime), app, store, output
    )


@tasks.command()
def cancel(
    task_id: TaskArgument,
    *,
    app: AppOption = None,
    store: StoreOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Cancel a task: a pending one at once, a running one by its next heartbeat."""
    _print_after(lambda manager: manager.cancel(task_id), app, store, output)


@tasks.command()
def delete(
    task_id: TaskArgument,
    *,
    app: AppOption = None,
    store: StoreOption = None,
    yes: YesOption = False,
) -> None:
    """Remove a task in any state; if it is running, its outcome will be refused."""
    target = Target(app, store).resolved()
    confirm(f"Delete task {task_id} for good?", yes=yes)
    with_manager(target, lambda manager: manager.delete(task_id))
    note(f"deleted {task_id}")


def _print_after(
    act: Callable[[Manager], Awaitable[Task]],
    app: str | None,
    store: str | None,
    output: Format,
) -> None:
    print_record(task_record(with_manager(Target(app, store), act)), output)


def _row(task: Task) -> Record:
    last = task.errors[-1] if task.errors else None
    return {
        "id": task.id,
        "queue": task.queue,
        "type": task.type,
        "status": task.status,
        "attempts": task.attempts,
        "max_attempts": task.max_attempts,
        "priority": task.priority,
        "run_at": task.run_at,
        "worker": None if task.lease is None else task.lease.owner,
        "unique_key": task.unique_key,
        "tags": list(task.tags),
        "last_error": None if last is None else f"{last.kind}: {last.message}",
    }


async def _as_it_is(handle: TaskHandle[object], ended: list[GotasksError]) -> Record:
    """Tell all of a task that was stored, or what is known of it if it cannot be read."""
    try:
        return task_record(await handle.task())
    except GotasksError as error:
        ended.append(error)
        return {"id": handle.id, "queue": handle.queue, "type": handle.type, "status": None}


async def _check_address(manager: Manager, queue: str, type: str, target: Target) -> None:
    """Refuse what nobody knows: such a task would wait for ever."""
    if target.store is not None:
        recorded = await manager.store.queues()
        if queue not in recorded:
            raise no_queue(queue, sorted(recorded))
    known = manager.types(queue)
    if known and type not in known:
        msg = f"{target.app} has no handler for {type!r} in queue {queue!r}; it has {listed(known)}"
        raise Problem(msg, ExitCode.NOT_FOUND)
