"""Read what a handler takes and returns from its signature, and refuse what cannot be run."""

from __future__ import annotations

import functools
import inspect
import sys
from collections import ChainMap
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from types import FunctionType, MethodType, SimpleNamespace, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Never,
    NoReturn,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from gotasks_py.errors import HandlerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import FrameType

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Signature:
    """What a handler takes and returns.

    ``payload`` is ``NoneType`` for a handler without a payload, ``result`` is ``Any``
    for one without a return annotation.
    """

    call: Callable[..., object]
    is_async: bool
    takes_context: bool
    payload: object
    result: object


def read_signature(function: Callable[..., object], context_type: type) -> Signature:
    """Return the signature of a handler: ``(payload)``, ``(ctx, payload)``, ``(ctx)`` or ``()``.

    Call it from where the handler is defined: hints may name that scope's local classes.

    Raises:
        HandlerError: it cannot be a handler, or a hint cannot be resolved.
    """
    layers = list(_layers(function))
    _refuse_unrunnable(function, layers)
    reader = _Reader(function, layers, context_type)
    takes_context, payload = reader.parameters()
    is_async, result = reader.outcome()
    return Signature(function, is_async, takes_context, payload, result)


def _layers(function: object) -> Iterator[object]:
    """Yield the callable and what it wraps, from the outside in."""
    seen: set[int] = set()
    pending = [function]
    while pending:
        layer = pending.pop()
        if id(layer) in seen:
            continue
        seen.add(id(layer))
        yield layer
        pending.extend(_wrapped(layer))


def _wrapped(layer: object) -> Sequence[object]:
    """Return what the layer calls, the most telling one last."""
    if isinstance(layer, functools.partial):
        return [layer.func]
    if isinstance(layer, MethodType):
        return [layer.__func__]
    own = getattr(layer, "__dict__", {})
    inner = [own[name] for name in ("raw_function", "__wrapped__") if name in own]
    if isinstance(layer, FunctionType) or not callable(layer) or inspect.isroutine(layer):
        return inner
    return [*inner, type(layer).__call__]
