"""Turn typed values into plain documents that every store keeps alike, and back."""

from __future__ import annotations

import types
from collections import deque
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import lru_cache
from operator import attrgetter
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

from pydantic import BaseModel, RootModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import to_json, to_jsonable_python
from typing_extensions import is_typeddict

from gotasks_py.errors import HandlerError, PayloadError, PayloadTooLargeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Document = dict[str, object]

T = TypeVar("T")
_Path = tuple[object, ...]
_Mode = Literal["python", "json"]

_WRAPPER = "value"
# The server allows 180 levels; the rest is left to what a task wraps around its payload.
_MAX_DEPTH = 100
_MAX_TEXT = 200
_MAX_PROBLEMS = 100
_INT32 = 2**31
_INT64 = 2**63
_LEAVES = frozenset({type(None), bool, int, float, str, bytes, datetime})
_BUILTINS = _LEAVES | {list, tuple, dict, set, frozenset, deque}

# A plain dump keeps NaN and bytes as they are. The others are for what it cannot do: models
# that do not read their serialization aliases, and serializers that exist for JSON only.
_DUMPS: tuple[tuple[_Mode, bool], ...] = (("python", True), ("python", False), ("json", True))


class Codec(Generic[T]):
    """Encode and decode the values of one payload or result type.

    Raises:
        HandlerError: pydantic cannot handle the type.
    """

    def __init__(self, annotation: object) -> None:
        self.annotation = annotation
        self.name = _type_name(annotation)
        self._adapter = self._build_adapter()
        self._always_object = _is_always_object(annotation)

    def encode(self, value: object, *, limit: int, what: str = "payload") -> Document:
        """Return the document of a value, which decodes to an equal value.

        The document shares nothing mutable with the value; ``limit`` is in bytes of BSON.

        Raises:
            PayloadError: the value does not fit the type, or would not come back equal.
            PayloadTooLargeError: the document is larger than ``limit``.
        """
        valid = self._validated(value)
        problems: list[PayloadError] = []
        for mode, by_alias in _DUMPS:
            try:
                document, size = self._stored(valid, mode, by_alias=by_alias)
                if size <= limit:
                    self._refuse_losses(valid, document)
                    return document
            except PayloadError as error:
                problems.append(error)
            else:
                raise PayloadTooLargeError(what, size, limit)
        raise problems[0]

    def decode(self, document: object) -> T:
        """Return the value of a document, made of fresh objects each time.

        Raises:
            PayloadError: the document does not fit the type.
        """
        if not isinstance(document, dict):
            raise PayloadError(
                f"the document is of type {type(document).__name__}, not an object; it must hold "
                f"{self.name}, or {{'value': ...}} where that is not an object"
            )
        candidates: list[object] = [document]
        if document.keys() == {_WRAPPER}:
            candidates.insert(1 if self._always_object else 0, document[_WRAPPER])
        problems: list[PayloadError] = []
        for candidate in candidates:
            try:
                return self._read(candidate)
            except PayloadError as error:
                problems.append(error)
        raise problems[0]

    def _build_adapter(self) -> TypeAdapter[T]:
        try:
            # A cast, because an annotation need not be a class.
            adapter = TypeAdapter(cast("type[T]", self.annotation))
        except (PydanticUserError, NameError, TypeError) as error:
            raise HandlerError(
                f"{self.name} cannot be stored: {_cut(str(error))}; use a pydantic model, "
                "a dataclass, a TypedDict or another type that pydantic knows"
            ) from error
        if not adapter.pydantic_complete:
            raise HandlerError(
                f"{self.name} cannot be stored: it refers to a name that is not defined; "
                "define or import that first, or pass the type itself instead of its name"
            )
        return adapter

    def _validated(self, value: object) -> T:
        try:
            return self._adapter.validate_python(value, by_alias=True, by_name=True)
        except ValidationError as error:
            raise _misfit(error, self.name) from None
        except Exception as error:
            raise _broken("validation", self.name, error) from error

    def _read(self, value: object) -> T:
        try:
            # Validators may change what they are given, so they get a copy.
            return self._adapter.validate_python(_copy(value), by_alias=True, by_name=True)
        except ValidationError as error:
            misfit = error
        except Exception as error:
            raise _broken("validation", self.name, error) from error
        try:
            # Strict types take text for a date, or a list for a tuple, from JSON only.
            return self._adapter.validate_json(to_json(value), by_alias=True, by_name=True)
        except ValidationError as error:
            misfit = min(misfit, error, key=ValidationError.error_count)
        except Exception:  # noqa: BLE001, S110 - the first error is the one to report
            pass
        raise _misfit(misfit, self.name) from None

    def _stored(self, valid: T, mode: _Mode, *, by_alias: bool) -> tuple[Document, int]:
        try:
            dump: object = self._adapter.dump_python(
                valid, mode=mode, by_alias=by_alias, round_trip=True, warnings=False
            )
        except Exception as error:
            raise _broken("serialization", self.name, error) from error
        if not isinstance(dump, dict) or (not self._always_object and dump.keys() == {_WRAPPER}):
            return _plain({_WRAPPER: dump}, hidden=1)
        return _plain(dump, hidden=0)

    def _refuse_losses(self, valid: T, document: Document) -> None:
        read = self.decode(document)
        try:
            path = _difference(valid, read)
        except Exception as error:
            raise _broken("comparison", self.name, error) from error
        if path is not None:
            raise PayloadError(
                "the value does not come back equal from storage; annotate it with its exact type, "
                f"or leave it out (expected {self.name})",
                path=_dotted(path),
            )


def codec_for(annotation: object) -> Codec[Any]:
    """Return the codec of a type; the same one each time where the type is hashable.

    Raises:
        HandlerError: pydantic cannot handle the type.
    """
    try:
        hash(annotation)
    except TypeError:
        return Codec(annotation)
    # Unions that differ only in their order are equal, but validate differently.
    return _shared_codec(annotation, "" if isinstance(annotation, type) else str(annotation))


def codec_for_value(value: object) -> Codec[Any]:
    """Return the codec of the value's own class, for payloads of an unregistered type.

    Raises:
        HandlerError: pydantic cannot handle the class.
    """
    return codec_for(type(value))


@lru_cache(maxsize=1024)
def _shared_codec(annotation: object, _spelling: str) -> Codec[object]:
    return Codec(annotation)


def _is_always_object(annotation: object) -> bool:
    annotation = getattr(annotation, "__value__", annotation)
    origin = get_origin(annotation)
    if origin is Annotated:
        return _is_always_object(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return all(map(_is_always_object, get_args(annotation)))
    kind = origin or annotation
    if not isinstance(kind, type) or issubclass(kind, RootModel):
        return False
    return issubclass(kind, (BaseModel, dict)) or is_dataclass(kind) or is_typeddict(kind)


class _UnstorableError(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.keys: list[object] = []


def _plain(dump: dict[object, object], *, hidden: int) -> tuple[Document, int]:
    walk = _Walk()
    try:
        return walk.document(dump), walk.size
    except _UnstorableError as error:
        path = _dotted(error.keys[::-1][hidden:])
        raise PayloadError(f"the value {error}", path=path) from None


class _Walk:
    """Copies a dump into plain values, and adds up the size of their BSON."""

    __slots__ = ("depth", "size")

    def __init__(self) -> None:
        self.size = 0
        self.depth = 0

    def value(self, item: object) -> object:
        return _WRITERS.get(type(item), _Walk.other)(self, item)

    def document(self, source: dict[object, object]) -> Document:
        result: Document = {}
        self.descend(5)
        for key, item in source.items():
            try:
                name = key if type(key) is str else _key_text(key)
                self.size += 2 + _key_size(name)
                result[name] = _WRITERS.get(type(item), _Walk.other)(self, item)
            except _UnstorableError as error:
                error.keys.append(key)
                raise
        if "$ref" in result and "$id" in result:
            raise _UnstorableError("has '$ref' beside '$id', which drivers read as a DBRef")
        self.depth -= 1
        return result

    def array(self, source: Iterable[object]) -> list[object]:
        result: list[object] = []
        self.descend(5)
        for index, item in enumerate(source):
            try:
                self.size += 2 + len(str(index))
                result.append(_WRITERS.get(type(item), _Walk.other)(self, item))
            except _UnstorableError as error:
                error.keys.append(index)
                raise
        self.depth -= 1
        return result

    def descend(self, size: int) -> None:
        self.size += size
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise _UnstorableError(f"is nested deeper than {_MAX_DEPTH} levels")

    def fixed(self, item: object) -> object:
        self.size += _FIXED_SIZES[type(item)]
        return item

    def integer(self, item: int) -> int:
        if not -_INT64 <= item < _INT64:
            raise _UnstorableError("does not fit into 64 bits; annotate it as str or Decimal")
        self.size += 4 if -_INT32 <= item < _INT32 else 8
        return item

    def text(self, item: str) -> str:
        self.size += 5 + _utf8_size(item)
        return item

    def binary(self, item: bytes) -> bytes:
        self.size += 5 + len(item)
        return item

    def moment(self, item: datetime) -> object:
        try:
            utc = None if item.utcoffset() is None else item.astimezone(UTC)
        except OverflowError:
            utc = None
        if utc is None or utc.microsecond % 1000:
            return self.value(_json_form(item))
        self.size += 8
        return utc

    def other(self, item: object) -> object:
        for base, exact in _EXACT:
            if isinstance(item, base):
                return self.value(exact(item))
        return self.value(_json_form(item))


_WRITERS: dict[type, Callable[..., object]] = {
    type(None): _Walk.fixed,
    bool: _Walk.fixed,
    float: _Walk.fixed,
    int: _Walk.integer,
    str: _Walk.text,
    bytes: _Walk.binary,
    datetime: _Walk.moment,
    dict: _Walk.document,
    **dict.fromkeys((list, tuple, set, frozenset, deque), _Walk.array),
}


def _exact_datetime(moment: datetime) -> datetime:
    return datetime.combine(moment.date(), moment.timetz())


_FIXED_SIZES: dict[type, int] = {type(None): 0, bool: 1, float: 8}
# Subclasses are stored as their base; the comparison decides whether that loses anything.
_EXACT: tuple[tuple[type, Callable[..., object]], ...] = (
    (Enum, attrgetter("value")),
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (bytes, bytes),
    (datetime, _exact_datetime),
    (dict, dict),
    *((kind, list) for kind in (list, tuple, set, frozenset, deque)),
)


def _utf8_size(text: str) -> int:
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise _UnstorableError("contains a lone surrogate, which is not text") from None


def _key_size(name: str) -> int:
    if "\0" in name:
        raise _UnstorableError("has a NUL character in its key")
    return _utf8_size(name)


def _key_text(key: object) -> str:
    if type(key) is int:
        return str(key)
    try:
        return str(next(iter(to_jsonable_python({key: None}))))
    except Exception:  # noqa: BLE001 - keys may be of any class, with its own hash and text
        raise _UnstorableError(f"has a key of type {type(key).__name__}, not text") from None


def _json_form(item: object) -> object:
    kind: type = type(item)
    try:
        form: object = _leaf_adapter(kind).dump_python(item, mode="json", warnings=False)
    except Exception:  # noqa: BLE001 - classes may bring serializers of their own
        form = item
    if type(form) not in _BUILTINS or type(form) is kind:
        raise _UnstorableError(f"is of type {kind.__name__}, which cannot be stored")
    return form


@lru_cache(maxsize=256)
def _leaf_adapter(kind: type) -> TypeAdapter[object]:
    return TypeAdapter(kind)


def _copy(value: object) -> object:
    if type(value) in _LEAVES:
        return value
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    # Drivers read 64-bit integers as a class of their own.
    return int.__int__(value) if isinstance(value, int) else value


def _difference(before: object, after: object) -> _Path | None:
    if before is after:
        return None
    kind = type(after)
    if type(before) is not kind and not _is_stored_as(before, kind):
        return ()
    olds = None if kind in _LEAVES else _members(before)
    if olds is None:
        return None if before == after or (_is_nan(before) and _is_nan(after)) else ()
    news = _members(after) or {}
    if olds.keys() != news.keys():
        return (next(key for key in (*olds, *news) if key not in olds or key not in news),)
    for key, old in olds.items():
        new = news[key]
        path = None if old is new else _difference(old, new)
        if path is not None:
            return (key, *path)
    return None


def _is_stored_as(before: object, kind: type) -> bool:
    if isinstance(before, BaseModel) and issubclass(kind, BaseModel):
        return _generic_origin(type(before)) is _generic_origin(kind)
    return kind in _BUILTINS and isinstance(before, kind)


def _generic_origin(model: type[BaseModel]) -> type[BaseModel]:
    return model.__pydantic_generic_metadata__["origin"] or model


def _is_nan(value: object) -> bool:
    return value != value  # noqa: PLR0124 - also true of Decimal('NaN')


def _members(value: object) -> dict[object, object] | None:
    if isinstance(value, dict):
        return value
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=repr)
    if isinstance(value, (list, tuple, deque)):
        return dict(enumerate(value))
    if isinstance(value, BaseModel):
        return _model_members(value)
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value) if field.compare}
    if isinstance(value, Enum) or not _is_identity_compared(type(value)):
        return None
    return getattr(value, "__dict__", None)


def _is_identity_compared(kind: type) -> bool:
    return all("__eq__" not in vars(base) for base in kind.__mro__ if base is not object)


def _model_members(model: BaseModel) -> dict[object, object]:
    state = model.__dict__
    members: dict[object, object] = {
        name: state[name] for name in model.__pydantic_fields__ if name in state
    }
    members.update(model.__pydantic_extra__ or {})
    for name, value in (model.__pydantic_private__ or {}).items():
        # Locks and the like are never equal and hold nothing that could be stored.
        is_opaque = _is_identity_compared(type(value)) and not hasattr(value, "__dict__")
        members[name] = type(value) if is_opaque else value
    return members


def _misfit(error: ValidationError, name: str) -> PayloadError:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    (path, message), *others = [
        (_dotted(problem["loc"]), _cut(problem["msg"])) for problem in problems[:_MAX_PROBLEMS]
    ]
    listed = [message, *(f"{where}: {problem}" for where, problem in others)]
    if len(problems) > _MAX_PROBLEMS:
        listed.append(f"and {len(problems) - _MAX_PROBLEMS} more")
    return PayloadError(f"{'; '.join(listed)} (expected {name})", path=path)


def _broken(stage: str, name: str, error: Exception) -> PayloadError:
    return PayloadError(f"{stage} as {name} raised {type(error).__name__}")


def _dotted(path: Iterable[object]) -> str:
    return _cut(".".join(map(str, path)))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"


def _type_name(annotation: object) -> str:
    if isinstance(annotation, type) and not get_args(annotation):
        return _cut(annotation.__qualname__)
    return _cut(str(annotation))
