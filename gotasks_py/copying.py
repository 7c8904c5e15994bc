"""Copying documents: what is stored shares nothing with what others hold."""

from __future__ import annotations

from copy import deepcopy
from datetime import datetime
from typing import Any, Final, TypeVar
from uuid import UUID

T = TypeVar("T")

_UNCHANGING: Final = frozenset({str, int, float, bool, type(None), bytes, datetime, UUID})


def copied(value: T) -> T:
    """Copy a document, or a part of one, with everything in it.

    As :func:`copy.deepcopy`, but several times as fast: it looks for no cycles, which documents
    do not have, and leaves alone what cannot change.
    """
    return _copied(value)  # type: ignore[no-any-return]


def _copied(value: Any) -> Any:  # noqa: ANN401  - whatever a document holds
    kind = type(value)
    if kind in _UNCHANGING:
        return value
    if kind is dict:
        return {name: _copied(each) for name, each in value.items()}
    if kind is list:
        return [_copied(each) for each in value]
    return deepcopy(value)
