"""Writes values whose way to storage and back needs no trial, because it can lose nothing.

A codec proves that a document comes back equal by decoding it and comparing. For models of
plain fields (text, numbers, booleans, ``None``; lists, string-keyed dicts and models of
those) that nothing customizes, the proof is in the types: pydantic dumps each value as
itself and validates it to itself. Of the schema that is found out once, by lists of what is
known to be harmless; of each value while it is written. All else is left to the trial.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from gotasks_py._storable import Document

_Target: TypeAlias = dict[object, object]
Writer: TypeAlias = Callable[[_Target, object, object], int]
"""Puts a value into a container under a key; tells the bytes of BSON that the value takes."""

_Schema: TypeAlias = Mapping[str, Any]

# Together far below what storage allows; and a schema that refers to itself ends here.
_MAX_LEVELS: Final = 40
_MAX_NODES: Final = 1000
_INT32: Final = 2**31
_INT64: Final = 2**63

# What may stand in a schema of each type: nothing of it changes a value of the exact type.
_ALWAYS: Final = frozenset({"type", "metadata", "ref"})
_HARMLESS: Final[Mapping[str, frozenset[str]]] = {
    "any": frozenset(),
    "none": frozenset(),
    "bool": frozenset({"strict"}),
    "int": frozenset({"strict"}),
    "float": frozenset({"strict"}),
    "str": frozenset({"strict"}),
    "literal": frozenset({"expected"}),
    "nullable": frozenset({"schema"}),
    "list": frozenset({"items_schema"}),
    "dict": frozenset({"keys_schema", "values_schema"}),
    # A field that is missing is left to the trial, so defaults play no part.
    "default": frozenset(
        {"schema", "default", "default_factory", "default_factory_takes_data", "validate_default"}
    ),
    "definitions": frozenset({"schema", "definitions"}),
    "definition-ref": frozenset({"schema_ref"}),
    "model": frozenset({"cls", "schema", "config", "custom_init", "root_model", "frozen"}),
    "model-fields": frozenset({"fields", "model_name", "computed_fields"}),
    "model-field": frozenset({"schema", "frozen"}),
}
_HARMLESS_CONFIG: Final = frozenset({"title", "extra_fields_behavior", "from_attributes"})
# These refuse values, among them some that were never validated: one may construct a model
# without, or change it since.
_LENGTHS: Final = frozenset({"min_length", "max_length"})
_BOUNDS: Final = frozenset({"ge", "gt", "le", "lt", "multiple_of"})
_REFUSING: Final[Mapping[str, frozenset[str]]] = {
    "int": _BOUNDS,
    "float": _BOUNDS,
    "str": _LENGTHS | {"pattern"},
    "list": _LENGTHS,
    "dict": _LENGTHS,
}


class _UnprovenError(Exception):
    """A schema or a value of which nothing is known here."""


class PlainWriter:
    """Writes the plain ones among the values of a schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        compiler = _Compiler()
        self._write: Writer | None
        try:
            self._write = compiler.writer(schema)
        except _UnprovenError:
            self._write = None
        self.is_refusing = compiler.is_refusing
        """Whether a document must be validated; if it is accepted, it comes back equal."""

    def written(self, value: object, wrapper: str) -> tuple[Document, int] | None:
        """Return the document of a value, and its size in bytes of BSON; ``None``: try it.

        What is no object is put into one, under the key ``wrapper``.
        """
        if self._write is None:
            return None
        outer: Any = {}
        try:
            size = self._write(outer, wrapper, value)
        except (_UnprovenError, KeyError, UnicodeEncodeError):
            return None
        inner = outer[wrapper]
        if not isinstance(inner, dict):
            return outer, size + 7 + len(wrapper)
        # What looks like a wrapper is not told apart here.
        return None if len(inner) == 1 and wrapper in inner else (inner, size)


class _Compiler:
    """Makes writers of schemas; raises ``_UnprovenError`` where something may change a value."""

    def __init__(self) -> None:
        self.is_refusing = False
        self._definitions: dict[str, _Schema] = {}
        self._nodes = 0

    def writer(self, schema: _Schema, level: int = 0) -> Writer:
        if level > _MAX_LEVELS:
            raise _UnprovenError
        schema = self._bare(schema)
        kind = schema["type"]
        if kind in _LEAVES:
            return _LEAVES[kind]
        if kind == "literal":
            return _literal(schema["expected"])
        if kind == "model":
            return self._model(schema, level)
        part, around = _AROUND[kind]
        if kind == "dict":
            _check_keys(schema.get("keys_schema", _ANY))
        return around(self.writer(schema.get(part, _ANY), level + 1))

    def _bare(self, schema: _Schema) -> _Schema:
        """Take off what is around a schema and changes no value."""
        while True:
            self._check(schema)
            match schema:
                case {"type": "definitions", "schema": inner, "definitions": definitions}:
                    self._definitions |= {each["ref"]: each for each in definitions}
                    schema = inner
                case {"type": "definition-ref", "schema_ref": ref}:
                    schema = self._definitions[ref]
                case {"type": "default", "schema": inner}:
                    schema = inner
                case _:
                    return schema

    def _model(self, schema: _Schema, level: int) -> Writer:
        kind, fields = schema["cls"], schema["schema"]
        _check_model(schema)
        self._check(fields)
        writers: dict[str, Writer] = {}
        for name, field in fields["fields"].items():
            self._check(field)
            if not name.isidentifier():
                raise _UnprovenError
            writers[name] = self.writer(field["schema"], level + 1)
        return _model(kind, writers)

    def _check(self, schema: _Schema) -> None:
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise _UnprovenError
        kind = schema["type"]
        harmless = _HARMLESS.get(kind)
        if harmless is None:
            raise _UnprovenError
        others = schema.keys() - harmless - _ALWAYS
        if others - _REFUSING.get(kind, frozenset()):
            raise _UnprovenError
        self.is_refusing = self.is_refusing or bool(others)


_ANY: Final[_Schema] = {"type": "any"}


def _check_model(schema: _Schema) -> None:
    kind, config = schema["cls"], schema.get("config", {})
    is_plain = (
        schema["schema"]["type"] == "model-fields"
        and not schema.get("custom_init")
        and not schema.get("root_model")
        and not schema["schema"].get("computed_fields")
        and not config.keys() - _HARMLESS_CONFIG
        and config.get("extra_fields_behavior") != "allow"
        # What reading a document back would call, and what reading a field would.
        and kind.__new__ is object.__new__
        and kind.__getattribute__ is object.__getattribute__
        and not kind.__private_attributes__
    )
    if not is_plain:
        raise _UnprovenError


def _check_keys(schema: _Schema) -> None:
    if schema["type"] not in {"any", "str"} or schema.keys() - _ALWAYS:
        raise _UnprovenError


def _model(kind: type, writers: Mapping[str, Writer]) -> Writer:
    count = len(writers)
    overhead = 5 + sum(2 + len(name.encode()) for name in writers)

    def write(target: _Target, key: object, value: object) -> int:
        if type(value) is not kind:
            raise _UnprovenError
        model: Any = value
        state = model.__dict__
        if model.__pydantic_extra__ or model.__pydantic_private__ or len(state) != count:
            raise _UnprovenError
        size = overhead
        document: _Target = {}
        target[key] = document
        for name, item in state.items():
            size += writers[name](document, name, item)
        return size

    return write


def _nullable(inner: Writer) -> Writer:
    def write(target: _Target, key: object, value: object) -> int:
        return _nothing(target, key, value) if value is None else inner(target, key, value)

    return write


def _literal(expected: list[object]) -> Writer:
    words = frozenset(word for word in expected if type(word) is str)
    if len(words) < len(expected):
        raise _UnprovenError

    def write(target: _Target, key: object, value: object) -> int:
        size = _text(target, key, value)
        if value not in words:
            raise _UnprovenError
        return size

    return write


def _list(items: Writer) -> Writer:
    def write(target: _Target, key: object, value: object) -> int:
        if type(value) is not list:
            raise _UnprovenError
        length = len(value)
        size = 5 + 3 * length
        power = 10
        while power < length:  # keys are the digits of the index
            size += length - power
            power *= 10
        array: Any = [None] * length
        target[key] = array
        for index, item in enumerate(value):
            size += items(array, index, item)
        return size

    return write


def _dict(values: Writer) -> Writer:
    def write(target: _Target, key: object, value: object) -> int:
        if type(value) is not dict or ("$ref" in value and "$id" in value):
            raise _UnprovenError
        size = 5
        document: _Target = {}
        target[key] = document
        for name, item in value.items():
            if type(name) is not str or "\0" in name:
                raise _UnprovenError
            size += 2 + (len(name) if name.isascii() else len(name.encode()))
            size += values(document, name, item)
        return size

    return write


def _nothing(target: _Target, key: object, value: object) -> int:
    if value is not None:
        raise _UnprovenError
    target[key] = None
    return 0


def _fixed(kind: type, size: int) -> Writer:
    def write(target: _Target, key: object, value: object) -> int:
        if type(value) is not kind:
            raise _UnprovenError
        target[key] = value
        return size

    return write


def _integer(target: _Target, key: object, value: object) -> int:
    if type(value) is not int or not -_INT64 <= value < _INT64:
        raise _UnprovenError
    target[key] = value
    return 4 if -_INT32 <= value < _INT32 else 8


def _text(target: _Target, key: object, value: object) -> int:
    if type(value) is not str:
        raise _UnprovenError
    target[key] = value
    return 5 + (len(value) if value.isascii() else len(value.encode()))


_boolean: Final = _fixed(bool, 1)
_number: Final = _fixed(float, 8)


def _anything(levels: int) -> Writer:
    writers: dict[type, Writer] = {
        type(None): _nothing,
        bool: _boolean,
        int: _integer,
        float: _number,
        str: _text,
    }
    if levels:
        inner = _anything(levels - 1)
        writers |= {list: _list(inner), dict: _dict(inner)}

    def write(target: _Target, key: object, value: object) -> int:
        return writers[type(value)](target, key, value)

    return write


_LEAVES: Final[Mapping[str, Writer]] = {
    "any": _anything(_MAX_LEVELS),
    "none": _nothing,
    "bool": _boolean,
    "int": _integer,
    "float": _number,
    "str": _text,
}
_AROUND: Final[Mapping[str, tuple[str, Callable[[Writer], Writer]]]] = {
    "nullable": ("schema", _nullable),
    "list": ("items_schema", _list),
    "dict": ("values_schema", _dict),
}
