"""JSON as RFC 8259 has it: what is read from arguments, and what is printed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import NoReturn

from gotasks_cli._problems import Problem


def parsed(what: str, text: str) -> object:
    """Read JSON.

    Raises:
        Problem: it is none, or has a number that is none: ``NaN``, ``Infinity``, ``1e999``.
    """
    try:
        return json.loads(text, parse_constant=_refused, parse_float=_finite)
    except ValueError as error:
        raise Problem(f"{what} is not JSON: {error}") from error
    except RecursionError as error:
        raise Problem(f"{what} is not JSON that can be read: it nests too deeply") from error


def dumped(value: object, plain: Callable[[object], object], indent: int | None = None) -> str:
    """Write JSON; of what it does not know, it writes what ``plain`` makes of it.

    Numbers that JSON has no words for are the texts ``"NaN"``, ``"Infinity"`` and
    ``"-Infinity"``: whoever enqueues in Python can store such a float.
    """

    def write(value: object) -> str:
        return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False, default=plain)

    try:
        return write(value)
    except ValueError:
        return write(_worded(value))


def _worded(value: object) -> object:
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Mapping():
            return {key: _worded(each) for key, each in value.items()}
        case list() | tuple():
            return [_worded(each) for each in value]
        case _:
            return value


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number in it")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too large a number")
    return number
