"""Reading the times and spans that options give."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gotasks_cli._problems import Problem


def moment(option: str, text: str) -> datetime:
    """Read a time.

    Raises:
        Problem: it is none, has no time zone, or is out of the range of times in UTC.
    """
    try:
        read = datetime.fromisoformat(text)
    except ValueError as error:
        raise Problem(f"{option} is not a time as ISO 8601 has it: {error}") from error
    if read.utcoffset() is None:
        whole = read.isoformat()  # which tells the hour even of a date, as a zone needs it
        raise Problem(f"{option} needs a time zone: {whole}Z, or {whole}+02:00")
    try:
        return read.astimezone(UTC)
    except OverflowError as error:
        raise Problem(f"{option} is too far away: {text}") from error


def duration(option: str, seconds: float) -> timedelta:
    """Read a span of time.

    Raises:
        Problem: it is longer than a span can be, or no number.
    """
    try:
        return timedelta(seconds=seconds)
    except (OverflowError, ValueError) as error:
        raise Problem(f"{option} is too long or no number: {seconds} seconds") from error
