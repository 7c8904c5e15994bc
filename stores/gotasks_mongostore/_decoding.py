"""Reading many documents at once, at a quarter of what the driver takes for their times.

The driver moves each time into its zone with calls of Python (measured with four times in a
document: 20 µs of 25). Read without a zone, they cost nothing, and one call each adds it.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pymongo.asynchronous.collection import AsyncCollection

from gotasks_mongostore._driver import Document


def without_zones(tasks: AsyncCollection[Document]) -> AsyncCollection[Document]:
    """Let a collection be read without time zones, for :func:`in_utc` to add."""
    options = tasks.codec_options.with_options(tz_aware=False, tzinfo=None)
    return tasks.with_options(codec_options=options)


def in_utc(document: dict[str, object]) -> None:
    """Say of all times of a document, wherever they are in it, that they are in UTC."""
    for name, value in document.items():
        if isinstance(value, datetime):
            document[name] = value.replace(tzinfo=UTC)
        elif isinstance(value, dict):
            in_utc(value)
        elif isinstance(value, list):
            _all_in_utc(value)


def _all_in_utc(values: list[object]) -> None:
    for index, value in enumerate(values):
        if isinstance(value, datetime):
            values[index] = value.replace(tzinfo=UTC)
        elif isinstance(value, dict):
            in_utc(value)
        elif isinstance(value, list):
            _all_in_utc(value)
