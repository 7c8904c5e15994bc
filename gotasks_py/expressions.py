"""The small language in which the life cycle says what a field becomes.

An expression is plain data over the document as it was. memstore evaluates it, mongostore
renders it for the server; what a kind of expression means is told here, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True)
class Value:
    """A value taken as it is, whatever it looks like."""

    value: object


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the document as it was, by dotted path; absent stays absent."""

    path: str


@dataclass(frozen=True, slots=True)
class Number:
    """A field that counts; anything but a number counts as 0."""

    path: str


@dataclass(frozen=True, slots=True)
class Now:
    """The store's time, plus a span."""

    plus: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Moment:
    """A field that is a time; anything else counts as the store's time."""

    path: str


@dataclass(frozen=True, slots=True)
class Later:
    """The store's time plus as many milliseconds as a field says."""

    path: str


@dataclass(frozen=True, slots=True)
class Sum:
    """A number moved by a constant, never below 0."""

    number: Number
    plus: int


@dataclass(frozen=True, slots=True)
class Text:
    """Pieces of text joined; a field that is neither text nor an id reads as ``?``."""

    pieces: tuple[str | Field, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A document made of named expressions."""

    fields: Mapping[str, Expression]


@dataclass(frozen=True, slots=True)
class Appended:
    """A list field with one more entry, cut to its latest ``keep``."""

    path: str
    entry: Expression
    keep: int


@dataclass(frozen=True, slots=True)
class Overflow:
    """How many entries a list field loses when one is appended: 0 or 1."""

    path: str
    keep: int


@dataclass(frozen=True, slots=True)
class Added:
    """A counting field plus another expression that is a number."""

    number: Number
    plus: Expression


@dataclass(frozen=True, slots=True)
class Removed:
    """No value: the field goes away."""


@dataclass(frozen=True, slots=True)
class Each:
    """The value that came with this task, where one patch goes to many; ``None``: no value.

    It stands for a whole field, never inside another expression.
    """


@dataclass(frozen=True, slots=True)
class Has:
    """The field holds something."""

    path: str


@dataclass(frozen=True, slots=True)
class Equals:
    """The field holds just this value."""

    path: str
    value: str


@dataclass(frozen=True, slots=True)
class AtLeast:
    """One number is not below another."""

    left: Sum | Number
    right: Number


Condition: TypeAlias = Has | Equals | AtLeast


@dataclass(frozen=True, slots=True)
class If:
    """One expression or another, by what the document was."""

    condition: Condition
    then: Expression
    otherwise: Expression


Expression: TypeAlias = (
    Value
    | Field
    | Number
    | Now
    | Moment
    | Later
    | Sum
    | Text
    | Record
    | Appended
    | Overflow
    | Added
    | Removed
    | If
)

REMOVED: Final = Removed()
NOW: Final = Now()
