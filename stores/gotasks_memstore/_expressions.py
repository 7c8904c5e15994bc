"""Evaluates the expressions of a lifecycle patch over a document in memory."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Final, assert_never

from gotasks_py.copying import copied
from gotasks_py.expressions import (
    Added,
    Appended,
    AtLeast,
    Condition,
    Each,
    Equals,
    Expression,
    Field,
    Has,
    If,
    Later,
    Moment,
    Now,
    Number,
    Overflow,
    Record,
    Removed,
    Sum,
    Text,
    Value,
)
from gotasks_py.lifecycle import Patch
from gotasks_py.store import TaskDocument

_ABSENT: Final = object()


def apply(patch: Patch, document: TaskDocument, now: datetime, each: object = None) -> TaskDocument:
    """Make the document that a patch turns this one into."""
    came_along = _ABSENT if each is None else each
    values = {
        path: came_along if isinstance(change, Each) else _evaluate(change, document, now)
        for path, change in patch.changes.items()
    }
    changed = copied(document)
    for path, value in values.items():
        _assign(changed, path, value)
    return changed


def field(document: object, path: str) -> object:
    """Read a dotted path; ``_ABSENT`` where it leads nowhere."""
    for name in path.split("."):
        if not isinstance(document, dict) or name not in document:
            return _ABSENT
        document = document[name]
    return document


def has(document: TaskDocument, path: str) -> bool:
    """Whether the path leads to something."""
    return field(document, path) not in (_ABSENT, None)


def _assign(document: TaskDocument, path: str, value: object) -> None:
    *parents, name = path.split(".")
    target: dict[str, object] = document
    for parent in parents:
        nested = target.setdefault(parent, {})
        assert isinstance(nested, dict)  # noqa: S101  - patches only descend into the lease
        target = nested
    if value is _ABSENT:
        target.pop(name, None)
    else:
        target[name] = copied(value)


def _evaluate(expression: Expression, document: TaskDocument, now: datetime) -> object:  # noqa: C901, PLR0911, PLR0912  - one case per kind of expression
    match expression:
        case Value(value):
            return value
        case Field(path):
            return field(document, path)
        case Number() | Sum():
            return _number(expression, document)
        case Now(plus):
            return now + _whole_milliseconds(plus)
        case Moment(path):
            value = field(document, path)
            return value if isinstance(value, datetime) else now
        case Later(path):
            return now + timedelta(milliseconds=_number(Number(path), document))
        case Text(pieces):
            return "".join(_text(piece, document) for piece in pieces)
        case Record(fields):
            values = {name: _evaluate(each, document, now) for name, each in fields.items()}
            return {name: value for name, value in values.items() if value is not _ABSENT}
        case Appended(path, entry, keep):
            return [*_entries(document, path), _evaluate(entry, document, now)][-keep:]
        case Overflow(path, keep):
            return int(len(_entries(document, path)) >= keep)
        case Added(number, plus):
            more = _evaluate(plus, document, now)
            return _number(number, document) + (more if isinstance(more, int) else 0)
        case Removed():
            return _ABSENT
        case If(condition, then, otherwise):
            chosen = then if _holds(condition, document) else otherwise
            return _evaluate(chosen, document, now)
        case _:
            assert_never(expression)


def _holds(condition: Condition, document: TaskDocument) -> bool:
    match condition:
        case Has(path):
            return has(document, path)
        case Equals(path, value):
            return field(document, path) == value
        case AtLeast(left, right):
            return _number(left, document) >= _number(right, document)
        case _:
            assert_never(condition)


def _number(expression: Number | Sum, document: TaskDocument) -> int:
    if isinstance(expression, Sum):
        return max(0, _number(expression.number, document) + expression.plus)
    value = field(document, expression.path)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if math.isfinite(value) else 0


def _whole_milliseconds(span: timedelta) -> timedelta:
    millisecond = timedelta(milliseconds=1)
    return round(span / millisecond) * millisecond


def _text(piece: str | Field, document: TaskDocument) -> str:
    if isinstance(piece, str):
        return piece
    value = field(document, piece.path)
    return value if isinstance(value, str) else "?"


def _entries(document: TaskDocument, path: str) -> list[object]:
    value = field(document, path)
    return value if isinstance(value, list) else []
