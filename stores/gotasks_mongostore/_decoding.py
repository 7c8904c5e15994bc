"""Reading many documents at once, at a fraction of what the driver takes for their times.

The driver moves each time into its zone with calls of Python (measured with four times in a
document: 6.5 µs of 10). Read without a zone they cost nothing, and most of a batch are equal:
tasks that were enqueued together share them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, cast

from pymongo.asynchronous.collection import AsyncCollection

from gotasks_mongostore._driver import Document


def without_zones(tasks: AsyncCollection[Document]) -> AsyncCollection[Document]:
    """Let a collection be read without time zones, for :func:`all_in_utc` to add."""
    options = tasks.codec_options.with_options(tz_aware=False, tzinfo=None)
    return tasks.with_options(codec_options=options)


def all_in_utc(documents: Iterable[dict[str, object]]) -> None:
    """Say of all times of documents, wherever they are in them, that they are in UTC."""
    zone = _Zone()
    for document in documents:
        zone.put_on(document)


class _Zone:
    def __init__(self) -> None:
        self._known: dict[datetime, datetime] = {}

    def put_on(self, document: dict[str, object]) -> None:
        for name, value in document.items():
            kind = type(value)
            if kind is datetime:
                document[name] = self._aware(cast("datetime", value))
            elif kind in _CONTAINERS:
                self._put_within(value)

    def _put_within(self, container: object) -> None:
        if isinstance(container, dict):
            self.put_on(container)
        elif isinstance(container, list):
            for index, value in enumerate(container):
                if isinstance(value, datetime):
                    container[index] = self._aware(value)
                else:
                    self._put_within(value)

    def _aware(self, value: datetime) -> datetime:
        aware = self._known.get(value)
        if aware is None:
            aware = self._known[value] = value.replace(tzinfo=UTC)
        return aware


# What the driver reads documents and arrays as; all else that it reads is a leaf.
_CONTAINERS: Final = frozenset({dict, list})
