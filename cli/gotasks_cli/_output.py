"""Printing what was found: tables for people, JSON for programs."""

from __future__ import annotations

import base64
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gotasks_cli._json import dumped
from gotasks_cli._problems import Problem
from gotasks_py import Count, Task
from gotasks_py.wording import span

Record: TypeAlias = Mapping[str, object]

_WIDE: Final = 10_000
"""Columns of a table that is not for a screen: nothing is cut or wrapped."""


class Format(StrEnum):
    """How to print."""

    TABLE = "table"
    JSON = "json"


class Percentiles(NamedTuple):
    """How long things took: the 50th, 95th and 99th percentile."""

    p50: timedelta | None
    p95: timedelta | None
    p99: timedelta | None


class Names(tuple[str, ...]):
    """Names that a table shows side by side, and JSON as an array."""

    __slots__ = ()


def print_records(records: Sequence[Record], output: Format) -> None:
    """Print records, each with the same fields."""
    if output is Format.JSON:
        print_json([_for_json(each) for each in records])
        return
    if not records:
        note("nothing found")
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in records[0]:
        table.add_column(name, justify="right" if _is_numeric(records, name) else "left")
    for each in records:
        table.add_row(*(cell(value) for value in each.values()))
    _print_table(table)


def print_record(record: Record, output: Format) -> None:
    """Print the fields of one record, one in each line."""
    if output is Format.JSON:
        print_json(_for_json(record))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    for name, value in record.items():
        if value not in (None, (), [], {}):
            table.add_row(Text(name), cell(value))
    _print_table(table)


def print_json(value: object) -> None:
    """Print a value as JSON, in lines of its own."""
    sys.stdout.write(dumped(value, _plain, indent=2) + "\n")


def note(message: str) -> None:
    """Say something that is not the result: on stderr."""
    sys.stderr.write(f"{message}\n")


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something cannot be undone.

    Raises:
        Problem: nobody is there to be asked.
        Abort: the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        msg = f"{question} Nobody is there to answer: give --yes"
        raise Problem(msg)
    typer.confirm(question, abort=True, err=True)


def console() -> Console:
    """Make a console for results."""
    return Console(width=None if sys.stdout.isatty() else _WIDE, soft_wrap=False)


def task_record(task: Task) -> Record:
    """Tell all fields of a task but its lease's token, which would let its reader settle it."""
    lease = task.lease
    return {
        "id": task.id,
        "queue": task.queue,
        "type": task.type,
        "status": task.status,
        "priority": task.priority,
        "attempts": task.attempts,
        "max_attempts": task.max_attempts,
        "interruptions": task.interruptions,
        "unique_key": task.unique_key,
        "tags": list(task.tags),
        "metadata": task.metadata,
        "lane": task.lane,
        "run_at": task.run_at,
        "due_at": task.due_at,
        "created_at": task.created_at,
        "updated_at": task.updated_at,
        "started_at": task.started_at,
        "finished_at": task.finished_at,
        "expires_at": task.expires_at,
        "cancel_requested_at": task.cancel_requested_at,
        "lease": None if lease is None else {"owner": lease.owner, "until": lease.until},
        "payload": task.payload,
        "result": task.result,
        "progress": task.progress,
        "errors_dropped": task.errors_dropped,
        "errors": [
            {
                "at": error.at,
                "attempt": error.attempt,
                "worker": error.worker,
                "kind": error.kind,
                "message": error.message,
            }
            for error in task.errors
        ],
    }


def cell(value: object) -> Text:
    """Show a value in a table; nothing in it is taken for markup or control."""
    match value:
        case None | []:
            shown = ""
        case str():
            shown = value
        case datetime():
            shown = f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + "Z"
        case timedelta():
            shown = span(value)
        case Percentiles():
            shown = " / ".join(span(each) for each in value if each is not None)
        case Names():
            shown = ", ".join(value)
        case Mapping() | list() | tuple():
            shown = dumped(value, _plain)
        case _:
            shown = str(value)
    return Text("".join(each if each.isprintable() else _escaped(each) for each in shown))


def _print_table(table: Table) -> None:
    screen = console()
    with screen.capture() as captured:
        screen.print(table)
    for line in captured.get().splitlines():
        sys.stdout.write(line.rstrip() + "\n")


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _is_numeric(records: Sequence[Record], name: str) -> bool:
    values = [each[name] for each in records if each[name] is not None]
    return bool(values) and all(
        isinstance(value, int | float | timedelta | Count) for value in values
    )


def _for_json(record: Record) -> Record:
    return {
        name: value._asdict() if isinstance(value, Percentiles) else value
        for name, value in record.items()
    }


def _plain(value: object) -> object:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case timedelta():
            return value.total_seconds()
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case Mapping():
            return dict(value)
        case Count():
            return {"value": value.value, "is_exact": value.is_exact}
        case _:
            return str(value)
