"""Values of any kind as JSON that loses nothing, and back.

What JSON or JavaScript would lose is an object with one key that begins with ``$``.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeAlias
from uuid import UUID

Tagged: TypeAlias = Any
"""Plain JSON with tags in it."""

_MOST_EXACT: Final = 2**53 - 1
"""JavaScript knows whole numbers up to this one."""
_DEEPEST: Final = 100
_LONGEST_OTHER: Final = 1_000


class TagError(ValueError):
    """A tag that is none, or a value that does not fit its tag; ``path`` has dots, as a field's."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self._steps: list[str] = []

    def below(self, step: object) -> TagError:
        """Tell what the value is in that it was found in."""
        self._steps.append(str(step))
        return self

    @property
    def path(self) -> str:
        """Where it is; empty for the whole value."""
        return ".".join(reversed(self._steps))


def dumped(value: object) -> bytes:
    """Write JSON that every parser reads, lone surrogates included."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


def moment(value: datetime | None) -> str | None:
    """Write a time: UTC, in milliseconds."""
    return None if value is None else _written(value)


def seconds(value: timedelta | None) -> float | None:
    """Write a length of time."""
    return None if value is None else value.total_seconds()


def tagged(value: object, depth: int = 0) -> Tagged:
    """Write a stored value."""
    if value is None or isinstance(value, bool | str):
        return value
    if not isinstance(value, dict | list | tuple):
        return _scalar(value)
    if depth >= _DEEPEST:
        return _other(value)
    if isinstance(value, dict):
        return _object(value, depth + 1)
    return [tagged(each, depth + 1) for each in value]


def untagged(value: Tagged) -> object:
    """Read what :func:`tagged` wrote.

    Raises:
        TagError: a tag that is none, or a value that does not fit its tag.
    """
    match value:
        case dict():
            tag = _tag_of(value)
            if tag is None:
                return {key: _inside(key, each) for key, each in value.items()}
            return _read(tag, value[tag])
        case list():
            return [_inside(number, each) for number, each in enumerate(value)]
        case _:
            return value


def _inside(step: object, value: Tagged) -> object:
    try:
        return untagged(value)
    except TagError as error:
        raise error.below(step) from error.__cause__


def _written(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _int(value: int) -> Tagged:
    # Drivers read 64-bit integers as a class of their own.
    return int(value) if abs(value) <= _MOST_EXACT else {"$int": str(int(value))}


def _float(value: float) -> Tagged:
    if math.isnan(value):
        return {"$float": "NaN"}
    if math.isinf(value):
        return {"$float": "Infinity" if value > 0 else "-Infinity"}
    # A number without a fraction would come back as a whole one.
    return {"$float": repr(value)} if value.is_integer() else value


def _object(value: Mapping[object, object], depth: int) -> Tagged:
    written = {str(key): tagged(each, depth) for key, each in value.items()}
    return {"$object": written} if _tag_of(written) is not None else written


def _scalar(value: object) -> Tagged:
    for kind, write in _WRITERS:
        if isinstance(value, kind):
            return write(value)
    # The classes of drivers are known by their names: the dashboard knows no driver.
    tag = _TAGS_BY_NAME.get(type(value).__name__)
    return _other(value) if tag is None else {tag: str(value)}


def _other(value: object) -> Tagged:
    try:
        shown = repr(value)
    except (RecursionError, ValueError):
        shown = f"a {type(value).__name__}"
    return {"$other": shown[:_LONGEST_OTHER]}


def _tag_of(value: Mapping[str, object]) -> str | None:
    if len(value) != 1:
        return None
    (key,) = value
    return key if key.startswith("$") else None


def _read(tag: str, value: object) -> object:
    if tag == "$object":
        if not isinstance(value, dict):
            raise _misfit(tag, value)
        return {key: _inside(key, each) for key, each in value.items()}
    read = _READERS.get(tag)
    if read is None:
        known = ", ".join(_READERS)
        msg = f"{tag!r} is no tag; there are {known}, and $object around an object with such a key"
        raise TagError(msg)
    if not isinstance(value, str):
        raise _misfit(tag, value)
    try:
        return read(value)
    except (ValueError, InvalidOperation, binascii.Error) as error:
        raise _misfit(tag, value) from error


def _misfit(tag: str, value: object) -> TagError:
    return TagError(f"{value!r:.100} does not fit the tag {tag}")


def _read_date(text: str) -> datetime:
    read = datetime.fromisoformat(text)
    if read.utcoffset() is None:
        msg = "no time zone"
        raise ValueError(msg)
    return read


def _read_bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


_WRITERS: Final[Sequence[tuple[type, Callable[[Any], Tagged]]]] = (
    (int, _int),
    (float, _float),
    (datetime, lambda value: {"$date": _written(value)}),
    (bytes, lambda value: {"$bytes": base64.b64encode(value).decode("ascii")}),
    (UUID, lambda value: {"$uuid": str(value)}),
    (Decimal, lambda value: {"$decimal": str(value)}),
)
_TAGS_BY_NAME: Final = {"Decimal128": "$decimal", "ObjectId": "$id"}
_READERS: Final[Mapping[str, Callable[[str], object]]] = {
    "$int": int,
    "$float": float,
    "$date": _read_date,
    "$bytes": _read_bytes,
    "$uuid": UUID,
    "$decimal": Decimal,
}
