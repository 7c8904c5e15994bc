"""Reading stored fields: what is of the wrong kind reads as absent."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from gotasks_py.task import EPOCH


def text(value: object) -> str:
    """Read a text; empty if it is none."""
    return value if isinstance(value, str) else ""


def texts(value: object) -> tuple[str, ...]:
    """Read a list of texts, leaving out what is none."""
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def number(value: object) -> float:
    """Read a finite number; zero if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return value if math.isfinite(value) else 0


def whole(value: object) -> int:
    """Read a whole number, which shells write as a double; zero if it is none."""
    return int(number(value))


def moment(value: object) -> datetime:
    """Read a time; the epoch if it is none."""
    return value if isinstance(value, datetime) else EPOCH


def milliseconds(value: object) -> timedelta:
    """Read a span; zero if it is none, or none that a program can hold."""
    try:
        return timedelta(milliseconds=number(value))
    except OverflowError:
        return timedelta(0)
