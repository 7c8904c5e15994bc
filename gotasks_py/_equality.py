"""Compares a value with what came back from storage, more strictly than ``==`` does."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import TypeAlias

from pydantic import BaseModel

from gotasks_py._storable import BUILTINS, LEAVES

_Members: TypeAlias = dict[object, object]


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two values differ first, and the values there."""

    path: tuple[object, ...]
    before: object
    after: object


def difference(before: object, after: object) -> Difference | None:
    """Find the first difference; ``None``: equal, and of the same types all the way down.

    NaN equals itself. A subclass of a built-in class equals the plain value that it is
    stored as. Objects without ``__eq__`` are compared by their attributes.
    """
    kind = type(after)
    if type(before) is not kind and not _is_stored_as(before, kind):
        return Difference((), before, after)
    olds = None if kind in LEAVES else _members(before)
    if olds is None:
        are_equal = before == after or (_is_nan(before) and _is_nan(after))
        return None if are_equal else Difference((), before, after)
    return _among_members(olds, _members(after) or {})


def _among_members(olds: _Members, news: _Members) -> Difference | None:
    if olds.keys() != news.keys():
        key = next(key for key in (*olds, *news) if key not in olds or key not in news)
        return Difference((key,), olds.get(key), news.get(key))
    for key, old in olds.items():
        new = news[key]
        found = None if old is new else difference(old, new)
        if found is not None:
            return Difference((key, *found.path), found.before, found.after)
    return None


def _is_stored_as(before: object, kind: type) -> bool:
    if isinstance(before, BaseModel) and issubclass(kind, BaseModel):
        return _generic_origin(type(before)) is _generic_origin(kind)
    return kind in BUILTINS and isinstance(before, kind)


def _generic_origin(model: type[BaseModel]) -> type[BaseModel]:
    return model.__pydantic_generic_metadata__["origin"] or model


def _is_nan(value: object) -> bool:
    return value != value  # noqa: PLR0124  - also true of Decimal('NaN')


def _members(value: object) -> _Members | None:
    """Tell what a value consists of; ``None`` for what is compared as a whole."""
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


def _model_members(model: BaseModel) -> _Members:
    state = model.__dict__
    members: _Members = {name: state[name] for name in model.__pydantic_fields__ if name in state}
    members.update(model.__pydantic_extra__ or {})
    for name, value in (model.__pydantic_private__ or {}).items():
        # Locks and the like are never equal and hold nothing that could be stored.
        is_opaque = _is_identity_compared(type(value)) and not hasattr(value, "__dict__")
        members[name] = type(value) if is_opaque else value
    return members
