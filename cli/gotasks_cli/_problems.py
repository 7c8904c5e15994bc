"""What a command ends with: an exit code, and one line on stderr when something is wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, Final

import typer
from typer.core import TyperGroup

from gotasks_cli._streams import UnwritableError, maybe_unread
from gotasks_py import (
    ConfigurationError,
    DuplicateTaskError,
    GotasksError,
    InvalidStateError,
    PayloadError,
    QueueConflictError,
    ResultTimeoutError,
    StoreError,
    TaskNotFoundError,
    UnknownQueueError,
)

TRACEBACK: Final = "GOTASKS_TRACEBACK"


class ExitCode(IntEnum):
    """How a command ended."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNUSABLE = 3
    NOT_FOUND = 4
    REFUSED = 5
    UNAVAILABLE = 6
    INTERNAL = 70
    RECYCLED = 75
    TIMED_OUT = 124
    INTERRUPTED = 130


MEANINGS: Final[Mapping[ExitCode, str]] = {
    ExitCode.OK: "it did what it was told",
    ExitCode.FAILED: "it ran, and what it looked at or worked on is not well",
    ExitCode.USAGE: "an option, an argument or a payload is wrong; nothing was done",
    ExitCode.UNUSABLE: "APP or the store cannot be loaded, or is configured wrongly",
    ExitCode.NOT_FOUND: "there is no such task, queue, type or node",
    ExitCode.REFUSED: "the state of the task or queue does not allow it",
    ExitCode.UNAVAILABLE: "the store did not answer, or refused",
    ExitCode.INTERNAL: f"an error in the program; `{TRACEBACK}=1` shows where",
    ExitCode.RECYCLED: "a worker process has reached its limit; only its supervisor sees this",
    ExitCode.TIMED_OUT: "what was waited for had not ended in the time that was given",
    ExitCode.INTERRUPTED: "Ctrl-C",
}


class Problem(typer.TyperException):
    """Ends the command with a line on stderr."""

    def __init__(self, message: str, code: ExitCode = ExitCode.USAGE) -> None:
        super().__init__(message)
        self.exit_code = code


# The first that fits counts.
_CODES: Final[Sequence[tuple[type[GotasksError], ExitCode]]] = (
    (UnknownQueueError, ExitCode.NOT_FOUND),
    (TaskNotFoundError, ExitCode.NOT_FOUND),
    (QueueConflictError, ExitCode.REFUSED),
    (DuplicateTaskError, ExitCode.REFUSED),
    (InvalidStateError, ExitCode.REFUSED),
    (PayloadError, ExitCode.USAGE),
    (ResultTimeoutError, ExitCode.TIMED_OUT),
    (ConfigurationError, ExitCode.UNUSABLE),
    (StoreError, ExitCode.UNAVAILABLE),
)


def code_for(error: GotasksError) -> ExitCode:
    """Tell how a command ends that meets this error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.FAILED)


@contextmanager
def usage_checked() -> Generator[None]:
    """Take a setting that is refused for an option that is wrong."""
    try:
        yield
    except ConfigurationError as error:
        if type(error) is not ConfigurationError:  # an unknown queue, say
            raise
        raise Problem(str(error)) from error


class OneLineGroup(TyperGroup):
    """Runs commands so that whatever is wrong becomes one line and a documented exit code."""

    def main(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  - the signature is typer's
        """Run, then exit."""
        kwargs["standalone_mode"] = False
        with maybe_unread():
            code = ExitCode.OK
            try:
                result = super().main(*args, **kwargs)
                code = ExitCode(result) if isinstance(result, int) else ExitCode.OK
                sys.stdout.flush()
            except Exception as error:
                if os.environ.get(TRACEBACK):
                    raise
                code, message = _described(error)
                sys.stdout.flush()  # what was found so far stands before what was wrong then
                sys.stderr.write(f"gotasks: {' '.join(message.split())}\n")
        sys.exit(int(code))


def _described(error: Exception) -> tuple[ExitCode, str]:
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    match error:
        case typer.TyperException():
            return ExitCode(error.exit_code), error.format_message()
        case typer.Abort():
            return ExitCode.INTERRUPTED, "stopped, nothing was done"
        case UnwritableError():
            return ExitCode.FAILED, str(error)
        case GotasksError():
            return code_for(error), str(error)
        case _:
            return ExitCode.INTERNAL, f"{type(error).__name__}: {error}; {TRACEBACK}=1 shows where"
