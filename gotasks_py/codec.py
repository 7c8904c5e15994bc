"""Turn typed values into plain documents that every store keeps alike, and back."""

from __future__ import annotations

import types
from collections.abc import Iterable
from dataclasses import is_dataclass
from functools import lru_cache
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

from pydantic import BaseModel, RootModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import to_json
from typing_extensions import is_typeddict

from gotasks_py._equality import Difference, difference
from gotasks_py._plain import PlainWriter
from gotasks_py._storable import LEAVES, Document, UnstorableError, storable
from gotasks_py.errors import HandlerError, PayloadError, PayloadTooLargeError

__all__ = ["Codec", "Document", "codec_for", "codec_for_value"]

T = TypeVar("T")
_Mode: TypeAlias = Literal["python", "json"]

_WRAPPER: Final = "value"
_MAX_TEXT: Final = 200
_MAX_PROBLEMS: Final = 100

# A plain dump keeps NaN and bytes as they are. The others are for what it cannot do: models
# that do not read their serialization aliases, and serializers that exist for JSON only.
_DUMPS: Final[tuple[tuple[_Mode, bool], ...]] = (
    ("python", True),
    ("python", False),
    ("json", True),
)


class Codec(Generic[T]):
    """Encode and decode the values of one payload or result type.

    Raises:
        HandlerError: pydantic cannot handle the type.
    """

    def __init__(self, annotation: object) -> None:
        self.annotation = annotation
        self.name = _type_name(annotation)
        self._adapter = self._build_adapter()
        self._has_fields = _has_fields(annotation)
        self._plain = PlainWriter(cast("dict[str, object]", self._adapter.core_schema))

    def encode(self, value: object, *, limit: int, what: str = "payload") -> Document:
        """Return the document of a value, which decodes to an equal value.

        The document shares nothing mutable with the value; ``limit`` is in bytes of BSON.

        Raises:
            PayloadError: the value does not fit the type, or would not come back equal.
            PayloadTooLargeError: the document is larger than ``limit``.
        """
        return self.encode_sized(value, limit=limit, what=what)[0]

    def encode_sized(
        self, value: object, *, limit: int, what: str = "payload"
    ) -> tuple[Document, int]:
        """Return what ``encode`` does, and its size in bytes of BSON."""
        valid = self._validated(value)
        document, size = self._proven(valid) or self._tried(valid)
        if size > limit:
            raise PayloadTooLargeError(what, size, limit)
        return document, size

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
        if not _is_wrapper(document):
            return self._read(document)
        candidates: list[object] = [document[_WRAPPER], document]
        if self._is_own(document):
            candidates.reverse()
        try:
            return self._read(candidates[0])
        except PayloadError as problem:
            try:
                return self._read(candidates[1])
            except PayloadError:
                raise problem from None

    def parse(self, value: object) -> T:
        """Return the value that plain data, such as read from JSON, stands for.

        Raises:
            PayloadError: the data does not fit the type.
        """
        return self._read(value)

    def json_schema(self) -> dict[str, Any] | None:
        """Describe the data that :meth:`parse` takes; ``None``: JSON cannot describe it."""
        try:
            return self._adapter.json_schema(by_alias=True, mode="validation")
        except PydanticUserError:
            return None

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
            # The adapter's own method costs more than the validation of a small model.
            valid: T = self._adapter.validator.validate_python(value, by_alias=True, by_name=True)
        except ValidationError as error:
            raise _misfit(error, self.name) from None
        except Exception as error:
            raise _broken("validation", self.name, error) from error
        return valid

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
        except Exception:  # noqa: BLE001, S110  - the first error is the one to report
            pass
        raise _misfit(misfit, self.name) from None

    def _proven(self, valid: T) -> tuple[Document, int] | None:
        """Write what is known to come back equal; ``None``: that takes a trial."""
        written = self._plain.written(valid, _WRAPPER)
        if written is not None and self._plain.is_refusing:
            try:
                self.decode(written[0])
            except PayloadError:
                return None
        return written

    def _tried(self, valid: T) -> tuple[Document, int]:
        """Write it in the first way in which it comes back equal."""
        problems: list[PayloadError] = []
        for mode, by_alias in _DUMPS:
            try:
                document, size = self._stored(valid, mode, by_alias=by_alias)
                self._refuse_losses(valid, document)
            except PayloadError as error:
                problems.append(error)
            except UnstorableError as error:
                path = _dotted(error.path)
                told = [(path, f"the value {error.fault}")]
                problems.append(PayloadError(f"the value {error}", path=path, problems=told))
                if error.is_final:
                    break
            else:
                return document, size
        raise problems[0]

    def _stored(self, valid: T, mode: _Mode, *, by_alias: bool) -> tuple[Document, int]:
        wrapped = False
        try:
            dump: object = self._adapter.dump_python(
                valid, mode=mode, by_alias=by_alias, round_trip=True, warnings=False
            )
            wrapped = not isinstance(dump, dict) or (_is_wrapper(dump) and not self._is_own(dump))
            return storable({_WRAPPER: dump} if wrapped else cast("dict[object, object]", dump))
        except UnstorableError as error:
            if wrapped:
                error.unwrap()
            raise
        except Exception as error:
            raise _broken("serialization", self.name, error) from error

    def _is_own(self, document: dict[Any, object]) -> bool:
        """Whether an object whose only key is ``value`` is this type's, and no wrapper.

        Whoever does not know the type that wrote it cannot tell, so an untyped object of
        that shape is wrapped once more; that is known by its inner ``value``.
        """
        inner = document[_WRAPPER]
        return self._has_fields and not (isinstance(inner, dict) and _is_wrapper(inner))

    def _refuse_losses(self, valid: T, document: Document) -> None:
        read = self.decode(document)
        try:
            lost = difference(valid, read)
        except Exception as error:
            raise _broken("comparison", self.name, error) from error
        if lost is not None:
            raise PayloadError(
                f"the value does not come back equal from storage{_change(lost)}; annotate it "
                f"with its exact type, or leave it out (expected {self.name})",
                path=_dotted(lost.path),
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
def _shared_codec(annotation: object, _spelling: str) -> Codec[Any]:
    return Codec(annotation)


def _has_fields(annotation: object) -> bool:
    """Whether the type alone says which objects are its values."""
    annotation = getattr(annotation, "__value__", annotation)  # of a `type` statement
    origin = get_origin(annotation)
    if origin is Annotated:
        return _has_fields(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return all(map(_has_fields, get_args(annotation)))
    kind = origin or annotation
    if not isinstance(kind, type) or issubclass(kind, RootModel):
        return False
    return issubclass(kind, BaseModel) or is_dataclass(kind) or is_typeddict(kind)


def _is_wrapper(document: dict[Any, object]) -> bool:
    return len(document) == 1 and _WRAPPER in document


def _copy(value: object) -> object:
    if type(value) in LEAVES:
        return value
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    # Drivers read 64-bit integers as a class of their own.
    return int.__int__(value) if isinstance(value, int) else value


def _change(lost: Difference) -> str:
    before, after = type(lost.before).__name__, type(lost.after).__name__
    return "" if before == after else f" ({before} became {after})"


def _misfit(error: ValidationError, name: str) -> PayloadError:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    found = [
        (_dotted(problem["loc"]), _cut(problem["msg"])) for problem in problems[:_MAX_PROBLEMS]
    ]
    (path, message), *others = found
    listed = [message, *(f"{where}: {problem}" for where, problem in others)]
    if len(problems) > _MAX_PROBLEMS:
        listed.append(f"and {len(problems) - _MAX_PROBLEMS} more")
    return PayloadError(f"{'; '.join(listed)} (expected {name})", path=path, problems=found)


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
