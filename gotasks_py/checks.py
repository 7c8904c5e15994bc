"""What arguments are held against, wherever they come in: names, spans, counts."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Final

from gotasks_py.errors import ConfigurationError

MAX_NAME: Final = 200
SHORTEST_LEASE: Final = timedelta(milliseconds=100)
LONGEST: Final = timedelta(days=365)
MAX_WORKERS: Final = 10_000
"""Of a manager, or of a queue's own pool: each of them is a loop from the start."""
MAX_WEIGHT: Final = 1_000_000


def check_name(what: str, name: object) -> None:
    """Refuse a name that could not be used everywhere: indexes, URLs, terminals.

    Raises:
        ConfigurationError: not 1-200 printable characters, or it starts with ``$``.
    """
    if not isinstance(name, str):
        msg = f"a {what} must be a string, not {name!r}"
        raise ConfigurationError(msg)
    if not name.strip() or name != name.strip() or len(name) > MAX_NAME:
        shown = name if len(name) <= MAX_NAME else f"{name[:20]}… ({len(name)} characters)"
        msg = (
            f"a {what} must have 1 to {MAX_NAME} characters and no space at its ends, not {shown!r}"
        )
        raise ConfigurationError(msg)
    if not name.isprintable() or name.startswith("$"):
        msg = f"a {what} must be printable and must not start with '$', not {name!r}"
        raise ConfigurationError(msg)


def check_names(**names: str | None) -> None:
    """Refuse what is neither a name nor ``None``.

    Raises:
        ConfigurationError: naming what is wrong.
    """
    for what, name in names.items():
        if name is not None:
            check_name(what, name)


def check_duration(
    what: str, value: object, *, minimum: timedelta, maximum: timedelta | None = None
) -> None:
    """Refuse what is not a timedelta within bounds.

    Raises:
        ConfigurationError: naming the bound that was missed.
    """
    if not isinstance(value, timedelta):
        msg = f"{what} must be a timedelta, not {value!r}"
        raise ConfigurationError(msg)
    if value < minimum:
        msg = f"{what} must be at least {minimum}, not {value}"
        raise ConfigurationError(msg)
    if maximum is not None and value > maximum:
        msg = f"{what} must be at most {maximum}, not {value}"
        raise ConfigurationError(msg)


def seconds_of(what: str, value: object) -> float:
    """Read a span that may be given in seconds; what is below zero counts as zero.

    Raises:
        ConfigurationError: neither a timedelta nor a number.
    """
    if isinstance(value, timedelta):
        return max(0.0, value.total_seconds())
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        msg = f"{what} must be a timedelta or a number of seconds, not {value!r}"
        raise ConfigurationError(msg)
    return max(0.0, float(value))


def check_lease(what: str, value: object, *, minimum: timedelta = SHORTEST_LEASE) -> None:
    """Refuse a length that no lease can have.

    Raises:
        ConfigurationError: not a timedelta between ``minimum`` and a year.
    """
    check_duration(what, value, minimum=minimum, maximum=LONGEST)


def check_count(what: str, value: object, *, maximum: int | None = None) -> None:
    """Refuse what is not a whole number from 1 up, and up to ``maximum``.

    Raises:
        ConfigurationError: otherwise.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        msg = f"{what} must be a whole number from 1 up, not {value!r}"
        raise ConfigurationError(msg)
    if maximum is not None and value > maximum:
        msg = f"{what} must be at most {maximum}, not {value}"
        raise ConfigurationError(msg)


def check_moment(what: str, value: object) -> None:
    """Refuse what is not a datetime with a time zone.

    Raises:
        ConfigurationError: otherwise.
    """
    if not isinstance(value, datetime):
        msg = f"{what} must be an aware datetime, not {value!r}"
        raise ConfigurationError(msg)
    if value.utcoffset() is None:
        msg = (
            f"{what} must be an aware datetime, {value} has no time zone; "
            "use datetime.now(UTC) or replace(tzinfo=...)"
        )
        raise ConfigurationError(msg)
