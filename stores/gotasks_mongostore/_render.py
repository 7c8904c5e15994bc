"""Renders lifecycle patches as aggregation pipelines for the server.

Everything that comes from a user passes through ``$literal``: in a pipeline update a value
such as ``"$lease.token"`` would otherwise be read as a field.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TypeAlias, assert_never

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

Pipeline: TypeAlias = list[Mapping[str, object]]


def render(patch: Patch, each: object = "$$REMOVE") -> Pipeline:
    """Write a patch as one ``$set`` stage, in which all fields read the document as it was.

    ``each`` is the server's expression for the value that comes with a task.
    """
    return [
        {
            "$set": {
                path: each if isinstance(change, Each) else _render(change)
                for path, change in patch.changes.items()
            }
        }
    ]


def _render(expression: Expression) -> object:  # noqa: C901, PLR0911, PLR0912  - one case per kind of expression
    match expression:
        case Value(value):
            return {"$literal": value}
        case Field(path):
            return f"${path}"
        case Number() | Sum():
            return _number(expression)
        case Now(plus):
            return {"$add": ["$$NOW", _milliseconds(plus)]} if plus else "$$NOW"
        case Moment(path):
            return {"$cond": [{"$eq": [{"$type": f"${path}"}, "date"]}, f"${path}", "$$NOW"]}
        case Later(path):
            return {"$add": ["$$NOW", _number(Number(path))]}
        case Text(pieces):
            return {"$concat": [_text(piece) for piece in pieces]}
        case Record(fields):
            # A plain document would be merged into what the field holds; an operator's replaces it.
            return {"$mergeObjects": [{name: _render(each) for name, each in fields.items()}]}
        case Appended(path, entry, keep):
            grown = {"$concatArrays": [_entries(path), [_render(entry)]]}
            return {"$slice": [grown, -keep]}
        case Overflow(path, keep):
            return {"$cond": [{"$gte": [{"$size": _entries(path)}, keep]}, 1, 0]}
        case Added(number, plus):
            return {"$add": [_number(number), _render(plus)]}
        case Removed():
            return "$$REMOVE"
        case If(condition, then, otherwise):
            return {"$cond": [_condition(condition), _render(then), _render(otherwise)]}
        case _:
            assert_never(expression)


def _condition(condition: Condition) -> object:
    match condition:
        case Has(path):
            return {"$gt": [f"${path}", None]}
        case Equals(path, value):
            return {"$eq": [f"${path}", {"$literal": value}]}
        case AtLeast(left, right):
            return {"$gte": [_number(left), _number(right)]}
        case _:
            assert_never(condition)


def _number(expression: Number | Sum) -> object:
    if isinstance(expression, Sum):
        return {"$max": [0, {"$add": [_number(expression.number), expression.plus]}]}
    field = f"${expression.path}"
    # What else a hand could have written would fail $add, and so every claim.
    is_number = {"$in": [{"$type": field}, ["int", "long", "double"]]}
    whole = {"$convert": {"input": field, "to": "long", "onError": 0, "onNull": 0}}
    return {"$cond": [is_number, whole, 0]}


def _text(piece: str | Field) -> object:
    if isinstance(piece, str):
        return {"$literal": piece}
    field = f"${piece.path}"
    is_readable = {"$in": [{"$type": field}, ["string", "objectId"]]}
    return {"$cond": [is_readable, {"$toString": field}, "?"]}


def _entries(path: str) -> object:
    return {"$cond": [{"$isArray": f"${path}"}, f"${path}", []]}


def _milliseconds(span: timedelta) -> int:
    return round(span / timedelta(milliseconds=1))
