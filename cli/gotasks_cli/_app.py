"""The commands, put together."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from gotasks_cli import (
    _cluster,
    _dashboard,
    _dead,
    _demo,
    _doctor,
    _health,
    _steering,
    _tasks,
    _top,
    _worker,
)
from gotasks_cli._problems import OneLineGroup
from gotasks_cli._session import CONNECT_SECONDS, set_connect_timeout

app = typer.Typer(
    cls=OneLineGroup,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(version("gotasks-py"))
        raise typer.Exit


@app.callback()
def root(
    *,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            is_eager=True,
            callback=_print_version,
        ),
    ] = False,
    connect_timeout: Annotated[
        float,
        typer.Option(
            min=0.001,
            metavar="SECONDS",
            envvar="GOTASKS_CONNECT_TIMEOUT",
            help="How long the store may take to answer; a worker waits as its store does.",
        ),
    ] = CONNECT_SECONDS,
) -> None:
    """Run, watch and repair background tasks."""
    del show_version  # which was acted on when it was read
    set_connect_timeout(connect_timeout)


app.command()(_worker.worker)
app.command()(_tasks.enqueue)
app.command()(_top.top)
app.command()(_dashboard.dashboard)
app.command()(_doctor.doctor)
app.command()(_health.health)
app.command()(_demo.demo)
app.command()(_demo.bench)
app.add_typer(_tasks.tasks, name="task")
app.add_typer(_steering.queues, name="queue")
app.add_typer(_dead.dead, name="dead")
app.add_typer(_steering.nodes, name="node")
app.add_typer(_cluster.metrics, name="metrics")
