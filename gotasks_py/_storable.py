"""Copies a dump into the plain values that every store keeps, and tells the size of their BSON."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from enum import Enum
from functools import lru_cache
from typing import Any, Final, TypeAlias

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

Document: TypeAlias = dict[str, object]

LEAVES: Final = frozenset({type(None), bool, int, float, str, bytes, datetime})
BUILTINS: Final = LEAVES | {list, tuple, dict, set, frozenset, deque}

# The server allows 180 levels; the rest is left to what a task wraps around its payload.
MAX_DEPTH: Final = 100
_INT32: Final = 2**31
_INT64: Final = 2**63


class UnstorableError(Exception):
    """A value that no store keeps; ``path`` leads to it.

    ``is_final``: it must not be stored in another form either. ``fault``: the message to whoever
    has typed the value, and writes no code.
    """

    def __init__(self, message: str, *, fault: str = "", is_final: bool = False) -> None:
        super().__init__(message)
        self.fault = fault or message
        self.is_final = is_final
        self._keys: list[object] = []

    def within(self, key: object) -> None:
        """Add the key of the container that the walk leaves."""
        self._keys.append(key)

    def unwrap(self) -> None:
        """Leave the outermost key out of the path: it is no part of the value."""
        self._keys.pop()

    @property
    def path(self) -> list[object]:
        return self._keys[::-1]


def storable(dump: dict[object, object]) -> tuple[Document, int]:
    """Return a copy of the dump made of plain values, and its size in bytes of BSON.

    What is not plain is stored as its base class or as its JSON; whether that loses
    anything is for a comparison to find.

    Raises:
        UnstorableError: something in it has no plain form.
    """
    walk = _Walk()
    return walk.document(dump), walk.size


class _Walk:
    __slots__ = ("depth", "size")

    def __init__(self) -> None:
        self.size = 0
        self.depth = 0

    def document(self, source: dict[object, object]) -> Document:
        result: Document = {}
        self.enter()
        for key, item in source.items():
            try:
                name = key if type(key) is str else _key_text(key)
                self.size += 2 + _key_size(name)
                result[name] = _WRITERS.get(type(item), _Walk.other)(self, item)
            except UnstorableError as error:
                error.within(key)
                raise
        if "$ref" in result and "$id" in result:
            raise UnstorableError("has '$ref' beside '$id', which drivers read as a DBRef")
        self.depth -= 1
        return result

    def array(self, source: Iterable[object]) -> list[object]:
        result: list[object] = []
        self.enter()
        for index, item in enumerate(source):
            try:
                self.size += 2 + len(str(index))
                result.append(_WRITERS.get(type(item), _Walk.other)(self, item))
            except UnstorableError as error:
                error.within(index)
                raise
        self.depth -= 1
        return result

    def enter(self) -> None:
        self.size += 5
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UnstorableError(f"is nested deeper than {MAX_DEPTH} levels")

    def nothing(self, item: None) -> None:
        return item

    def boolean(self, item: bool) -> bool:  # noqa: FBT001  - the value to store
        self.size += 1
        return item

    def integer(self, item: int) -> int:
        if not -_INT64 <= item < _INT64:
            raise UnstorableError(
                "does not fit into 64 bits; annotate it as str or Decimal",
                fault="does not fit into 64 bits; it may be from -2^63 to 2^63 - 1",
            )
        self.size += 4 if -_INT32 <= item < _INT32 else 8
        return item

    def number(self, item: float) -> float:
        self.size += 8
        return item

    def text(self, item: str) -> str:
        self.size += 5 + _utf8_size(item)
        return item

    def binary(self, item: bytes) -> bytes:
        self.size += 5 + len(item)
        return item

    def moment(self, item: datetime) -> object:
        """Store a time as a date where a date can hold it, which is in milliseconds."""
        _refuse_naive(item)
        try:
            utc: datetime | None = item.astimezone(UTC)
        except OverflowError:
            utc = None
        if utc is None or utc.microsecond % 1000:
            return self.text(str(_json_form(item)))
        self.size += 8
        return utc

    def other(self, item: object) -> object:
        plain = _plain(item)
        return _WRITERS[type(plain)](self, plain)


_WRITERS: Final[dict[type, Callable[..., object]]] = {
    type(None): _Walk.nothing,
    bool: _Walk.boolean,
    int: _Walk.integer,
    float: _Walk.number,
    str: _Walk.text,
    bytes: _Walk.binary,
    datetime: _Walk.moment,
    dict: _Walk.document,
    **dict.fromkeys((list, tuple, set, frozenset, deque), _Walk.array),
}


def _member_value(member: Enum) -> object:
    return _plain(member.value)


def _exact_datetime(moment: datetime) -> datetime:
    return datetime.combine(moment.date(), moment.timetz())


_EXACT: tuple[tuple[Any, Callable[..., object]], ...] = (
    (Enum, _member_value),
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    ((bytes, bytearray), bytes),
    (datetime, _exact_datetime),
    (dict, dict),
    ((list, tuple, set, frozenset, deque), list),
)


def _plain(item: object) -> object:
    if type(item) in BUILTINS:
        return item
    for bases, exact in _EXACT:
        if isinstance(item, bases):
            return exact(item)
    return _json_form(item)


def _json_form(item: object) -> object:
    kind: type = type(item)
    try:
        form: object = _adapter(kind).dump_python(item, mode="json", warnings=False)
    except Exception:  # noqa: BLE001  - classes may bring serializers of their own
        form = item
    if type(form) not in BUILTINS:
        raise UnstorableError(f"is of type {kind.__name__}, which cannot be stored")
    return form


@lru_cache(maxsize=256)
def _adapter(kind: type) -> TypeAdapter[object]:
    return TypeAdapter(kind)


def _refuse_naive(moment: datetime) -> None:
    if moment.utcoffset() is None:
        raise UnstorableError(
            f"is a naive datetime: {moment} has no time zone; use datetime.now(UTC) or "
            "replace(tzinfo=...)",
            fault=f"has no time zone; write it as {moment.isoformat()}Z, or +01:00 for Z",
            is_final=True,
        )


def _utf8_size(text: str) -> int:
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise UnstorableError("contains a lone surrogate, which is not text") from None


def _key_size(name: str) -> int:
    if "\0" in name:
        raise UnstorableError("has a NUL character in its key")
    return _utf8_size(name)


def _key_text(key: object) -> str:
    if type(key) is int:
        return str(key)
    if isinstance(key, datetime):
        _refuse_naive(key)
    try:
        return str(next(iter(to_jsonable_python({key: None}))))
    except Exception:  # noqa: BLE001  - keys may be of any class, with its own hash and text
        raise UnstorableError(f"has a key of type {type(key).__name__}, not text") from None
