"""Which tasks a command is about, as options."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn, TypeAlias

import typer

from gotasks_cli._json import parsed
from gotasks_cli._problems import Problem, usage_checked
from gotasks_cli._times import moment
from gotasks_py import Status, TaskFilter
from gotasks_py.inspecting import Literals

StatusOption: TypeAlias = Annotated[
    list[Status] | None, typer.Option("--status", help="In this status; may be repeated.")
]
TagOption: TypeAlias = Annotated[str | None, typer.Option(help="With this tag.")]
WorkerOption: TypeAlias = Annotated[
    str | None, typer.Option(help="Running on this manager, or on this worker of it.")
]
PayloadOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH=VALUE",
        help="With this value in the payload, such as user.id=7; may be repeated. A value that "
        "is JSON (a number, true, null, a text in quotes) is read as such.",
    ),
]
ErrorOption: TypeAlias = Annotated[
    str | None, typer.Option(metavar="TEXT", help="With this in the message of an error.")
]
FingerprintOption: TypeAlias = Annotated[
    str | None, typer.Option(help="Dead of this cause, as gotasks dead list tells it.")
]
BeforeOption: TypeAlias = Annotated[
    str | None, typer.Option(metavar="TIME", help="To run before this: ISO 8601 with time zone.")
]


def a_filter(
    *,
    queue: str | None = None,
    type: str | None = None,
    status: Sequence[Status] | None = None,
    tag: str | None = None,
    unique_key: str | None = None,
    worker: str | None = None,
    payload: Sequence[str] | None = None,
    error: str | None = None,
    fingerprint: str | None = None,
    before: str | None = None,
) -> TaskFilter:
    """Make the filter of what was given.

    Raises:
        Problem: something was given that nothing can be compared with.
    """
    with usage_checked():
        return TaskFilter(
            queue=queue,
            type=type,
            status=status or None,
            tag=tag,
            unique_key=unique_key,
            worker=worker,
            payload=dict(map(_payload_value, payload or ())),
            error=error,
            fingerprint=fingerprint,
            run_before=None if before is None else moment("--before", before),
        )


def _payload_value(given: str) -> tuple[str, Literals]:
    path, separator, text = given.partition("=")
    if not separator or not path:
        raise Problem(f"--payload must be PATH=VALUE, such as user.id=7, not {given!r}")
    try:
        json.loads(text, parse_constant=_is_text)
    except ValueError:
        return path, text
    value: Any = parsed(f"--payload {given!r}", text)
    return path, value


def _is_text(constant: str) -> NoReturn:
    raise ValueError(constant)
