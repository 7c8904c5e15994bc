"""The options that commands share."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from gotasks_cli._output import Format
from gotasks_cli._session import APP_VARIABLE, STORE_VARIABLE

AppOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--app",
        "-a",
        metavar="APP",
        help=f"The manager to work with, as module:manager; else {APP_VARIABLE}.",
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
TaskArgument: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="The task's id.")]
