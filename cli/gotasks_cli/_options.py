"""The options that commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeAlias

import typer

from gotasks_cli._output import Format
from gotasks_cli._problems import Problem
from gotasks_cli._session import APP_VARIABLE, STORE_VARIABLE

AppOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--app",
        "-a",
        metavar="APP",
        help="The manager to work with, as module:name, or module if its name is manager; "
        f"else {APP_VARIABLE}.",
    ),
]
StoreOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--store",
        "-s",
        metavar="URL",
        help="The store to work with, such as mongodb://host/database?replicaSet=rs0&"
        f"namespace=tasks; else {STORE_VARIABLE}.",
    ),
]
OutputOption: TypeAlias = Annotated[
    Format, typer.Option("--output", "-o", help="How to print what was found.")
]
YesOption: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def a_name(what: str) -> Callable[[str | None], str | None]:
    """Make the check of an argument that nothing can be called that is empty or blank."""

    def checked(given: str | None) -> str | None:
        if given is not None and not given.strip():
            raise Problem(f"{what} is empty")
        return given

    return checked


QueueArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="QUEUE", help="The queue's name.", callback=a_name("QUEUE"))
]
QueueOption: TypeAlias = Annotated[str | None, typer.Option("--queue", "-q", help="Of this queue.")]
TypeOption: TypeAlias = Annotated[str | None, typer.Option("--type", "-t", help="Of this type.")]
LimitOption: TypeAlias = Annotated[
    int, typer.Option("--limit", "-n", min=1, max=1000, help="How many to print at most.")
]
CursorOption: TypeAlias = Annotated[
    str | None, typer.Option(help="Where the page before this one told to go on.")
]
PaceOption: TypeAlias = Annotated[
    int, typer.Option(min=1, help="How many tasks a second, to leave the store time for others.")
]
TaskArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="ID", help="The task's id.", callback=a_name("ID"))
]
