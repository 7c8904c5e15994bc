"""Steering what runs: ``gotasks queue pause`` and its like, ``gotasks node drain`` and its."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Annotated, TypeAlias

import typer

from gotasks_cli._cluster import metering, nodes
from gotasks_cli._json import parsed
from gotasks_cli._options import AppOption, QueueArgument, StoreOption, YesOption, a_name
from gotasks_cli._output import confirm, note
from gotasks_cli._problems import ExitCode, Problem, usage_checked
from gotasks_cli._queues import queues
from gotasks_cli._session import Target, with_manager
from gotasks_cli._times import duration, moment
from gotasks_py import Manager
from gotasks_py import backoff as backoffs
from gotasks_py.backoff import Backoff

__all__ = ["nodes", "queues"]

NodeArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="NODE",
        help="The manager's id, as gotasks node list tells it.",
        callback=a_name("NODE"),
    ),
]


@queues.command()
def pause(
    queue: QueueArgument,
    *,
    app: AppOption = None,
    store: StoreOption = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Until then: ISO 8601 with its time zone.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--for", min=0.001, metavar="SECONDS", help="For so long.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Who pauses it, for others to read; else user@host.")
    ] = None,
) -> None:
    """Let nobody claim from a queue, until a time or until it is resumed.

    What runs goes on, and what comes due waits.
    """
    if until is not None and seconds is not None:
        msg = "give --until or --for, not both"
        raise Problem(msg)
    end: datetime | timedelta | None = None
    if until is not None:
        end = moment("--until", until)
    elif seconds is not None:
        end = duration("--for", seconds)

    async def work(manager: Manager) -> None:
        with usage_checked():
            await manager.pause(queue, until=end, by=by or _somebody())

    _steer(Target(app, store), work, f"queue {queue!r} is paused")


@queues.command()
def resume(queue: QueueArgument, *, app: AppOption = None, store: StoreOption = None) -> None:
    """Let a queue be claimed from again."""
    _steer(Target(app, store), lambda manager: manager.resume(queue), f"queue {queue!r} is resumed")


@queues.command("set")
def set_policy(
    queue: QueueArgument,
    *,
    app: AppOption = None,
    store: StoreOption = None,
    ttl: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="How long new tasks are kept; 0: for ever."),
    ] = None,
    max_attempts: Annotated[
        int | None, typer.Option(min=1, help="How often new tasks may be started.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(min=0.001, metavar="SECONDS", help="How long an attempt may take."),
    ] = None,
    backoff: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help="How long to wait before the next attempt, as queue show prints it, such as "
            '{"kind": "exponential", "base_ms": 10000, "cap_ms": 3600000}; what is left out has '
            "its default.",
        ),
    ] = None,
    weight: Annotated[
        int | None, typer.Option(min=1, help="Its share of claims among queues of a pool.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="How many of its tasks each manager runs at once.")
    ] = None,
    lanes: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="Into how many lanes new tasks without a key go."),
    ] = None,
    as_declared: Annotated[
        bool, typer.Option("--as-declared", help="Forget what was set before, first.")
    ] = False,
) -> None:
    """Change a queue's policy, whatever its declarations say; every manager follows."""
    changes = {
        "ttl": _span("--ttl", ttl),
        "max_attempts": max_attempts,
        "timeout": _span("--timeout", timeout),
        "backoff": None if backoff is None else _backoff(backoff),
        "weight": weight,
        "workers": workers,
        "lanes": lanes,
    }
    given = {name: value for name, value in changes.items() if value is not None}
    if not given and not as_declared:
        msg = "say what to set, or --as-declared"
        raise Problem(msg)

    async def work(manager: Manager) -> None:
        if as_declared:
            await manager.reset_queue_policy(queue)
        if given:
            with usage_checked():
                await manager.set_queue_policy(queue, **given)  # type: ignore[arg-type]  # each has the type of its name

    _steer(Target(app, store), work, f"queue {queue!r} is set")


@nodes.command()
def quiet(node: NodeArgument, *, app: AppOption = None, store: StoreOption = None) -> None:
    """Let one manager claim nothing more; what it runs goes on."""
    _order(
        Target(app, store), node, lambda manager: manager.quiet_node(node), "told to claim nothing"
    )


@nodes.command()
def wake(node: NodeArgument, *, app: AppOption = None, store: StoreOption = None) -> None:
    """Let a manager that is quiet claim again."""
    _order(Target(app, store), node, lambda manager: manager.wake_node(node), "told to claim again")


@nodes.command()
def drain(
    node: NodeArgument,
    *,
    app: AppOption = None,
    store: StoreOption = None,
    yes: YesOption = False,
) -> None:
    """Let one manager finish what it runs, and stop.

    A supervisor starts another process in its place: stop the supervisor, or use quiet.
    """
    target = Target(app, store).resolved()
    confirm(f"Stop manager {node} when it has finished what it runs?", yes=yes)
    _order(target, node, lambda manager: manager.drain_node(node), "told to finish and stop")


def _order(target: Target, node: str, act: Callable[[Manager], Awaitable[None]], done: str) -> None:
    async def work(manager: Manager) -> None:
        there = [each.id for each in await metering(manager).nodes()]
        if node not in there:
            known = ", ".join(there) or "none"
            msg = f"there is no manager {node!r}; there are {known}"
            raise Problem(msg, ExitCode.NOT_FOUND)
        await act(manager)

    _steer(target, work, f"{node} is {done}")


def _steer(target: Target, act: Callable[[Manager], Awaitable[None]], done: str) -> None:
    with_manager(target, act)
    note(done)


def _span(option: str, seconds: float | None) -> timedelta | None:
    return None if seconds is None else duration(option, seconds)


def _backoff(text: str) -> Backoff:
    document = parsed("--backoff", text)
    found = backoffs.from_document(document) if isinstance(document, dict) else None
    if found is None:
        msg = (
            '--backoff must be such as {"kind": "fixed", "delay_ms": 5000}, or of the kind linear, '
            f"exponential or fibonacci, with base_ms and cap_ms, not {text}"
        )
        raise Problem(msg)
    return found


def _somebody() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user that has no name
        user = "somebody"
    return f"{user}@{socket.gethostname()}"
