"""Reads what a handler takes and returns from its signature, and refuses what cannot run."""

from __future__ import annotations

import functools
import inspect
import sys
from collections import ChainMap
from collections.abc import (
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from dataclasses import dataclass
from types import FrameType, FunctionType, MethodType, NoneType, SimpleNamespace
from typing import (
    Any,
    Final,
    Never,
    NoReturn,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from gotasks_py.errors import HandlerError

_POSITIONAL: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)
_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_MISSING: Final = inspect.Parameter.empty
_Locals: TypeAlias = MutableMapping[str, Any]


@dataclass(frozen=True, slots=True)
class Signature:
    """What a handler takes and returns.

    ``payload`` is ``NoneType`` for a handler without a payload, ``result`` is ``Any`` for
    one without a return annotation.
    """

    call: Callable[..., object]
    is_async: bool
    takes_context: bool
    takes_payload: bool
    payload: object
    result: object


def read_signature(function: Callable[..., object], context_type: type) -> Signature:
    """Read the signature of a handler: ``(payload)``, ``(ctx, payload)``, ``(ctx)`` or ``()``.

    Call it from where the handler is defined: hints may name that scope's local classes.

    Raises:
        HandlerError: it cannot be a handler, or a hint cannot be resolved.
    """
    layers = list(_layers(function))
    _refuse_unrunnable(function, layers)
    hints = _Hints(function, layers)
    context, payload = _roles(function, hints, context_type)
    is_async, result = _outcome(layers, hints)
    return Signature(
        call=function,
        is_async=is_async,
        takes_context=context is not None,
        takes_payload=payload is not None,
        payload=NoneType if payload is None else _payload_type(function, payload, hints),
        result=result,
    )


def _layers(function: object) -> Iterator[object]:
    """Yield the callable and what it wraps, from the outside in."""
    seen: set[int] = set()
    pending = [function]
    while pending:
        layer = pending.pop()
        if id(layer) not in seen:
            seen.add(id(layer))
            yield layer
            pending.extend(_wrapped(layer))


def _wrapped(layer: object) -> Sequence[object]:
    """Tell what the layer calls, the most telling one last."""
    if isinstance(layer, functools.partial):
        return [layer.func]
    if isinstance(layer, (MethodType, staticmethod)):
        return [layer.__func__]
    own = getattr(layer, "__dict__", {})
    inner = [own[name] for name in ("raw_function", "__wrapped__") if name in own]
    if isinstance(layer, FunctionType) or inspect.isroutine(layer) or not callable(layer):
        return inner
    return [*inner, type(layer).__call__]


def _refuse_unrunnable(function: object, layers: Sequence[object]) -> None:
    if isinstance(function, type) or not callable(function):
        raise _error(function, "is no function", "register a function or a callable object")
    for layer in layers:
        if inspect.isgeneratorfunction(layer) or inspect.isasyncgenfunction(layer):
            raise _error(
                function,
                "is a generator, whose body would not run when it is called",
                "return one result instead of yielding",
            )


class _Hints:
    """Resolves annotations, postponed ones too, where the handler was defined."""

    def __init__(self, function: Callable[..., object], layers: Sequence[object]) -> None:
        self._function = function
        try:
            self.signature = inspect.signature(function)
        except (TypeError, ValueError) as error:
            raise _error(
                function, f"has no signature that can be read ({error})", "wrap it in a function"
            ) from error
        plain = [layer for layer in layers if isinstance(layer, FunctionType)]
        self._globals: dict[str, Any] = plain[-1].__globals__ if plain else {}
        lexical, calling = _frames_locals(plain[-1]) if plain else ([], [])
        self._lexical = ChainMap(*map(_closure, plain), *lexical)
        # Callers' names come last: theirs may mean something else.
        self._all = ChainMap(*self._lexical.maps, self._globals, *calling)

    def resolved(self, hint: object) -> object:
        if hint is _MISSING:
            return _MISSING
        try:
            try:
                return self._evaluated(hint, self._lexical)
            except NameError:
                return self._evaluated(hint, self._all)
        except NameError as error:
            raise _error(
                self._function,
                f"has the annotation {hint!r}, in which {error.name!r} cannot be found",
                "import it where the handler is defined, outside `if TYPE_CHECKING`",
            ) from error
        except Exception as error:
            raise _error(
                self._function, f"has the annotation {hint!r}, which is no type: {error}", "mend it"
            ) from error

    def _evaluated(self, hint: object, names: Mapping[str, Any]) -> object:
        holder = SimpleNamespace(__annotations__={"hint": hint})
        found: object = get_type_hints(holder, self._globals, names, include_extras=True)["hint"]
        return found


def _closure(function: FunctionType) -> _Locals:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    found: dict[str, Any] = {}
    for name, cell in cells:
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def _frames_locals(function: FunctionType) -> tuple[list[_Locals], list[_Locals]]:
    """Tell the local names of the scopes around the function, and of its module's other callers."""
    qualname = function.__qualname__
    around = {qualname[:end] for end, character in enumerate(qualname) if character == "."}
    lexical: list[_Locals] = []
    calling: list[_Locals] = []
    # Classes local to the defining function are only there.
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if frame.f_globals is function.__globals__:
            found = lexical if frame.f_code.co_qualname in around else calling
            # A copy: in CPython 3.13 it would be a view that keeps the frame alive.
            found.append(dict(frame.f_locals))
        frame = frame.f_back
    return lexical, calling


def _roles(
    function: Callable[..., object], hints: _Hints, context_type: type
) -> tuple[inspect.Parameter | None, inspect.Parameter | None]:
    """Tell which parameter is the context and which the payload."""
    parameters = list(hints.signature.parameters.values())
    given = [each for each in parameters if each.kind in _POSITIONAL]
    contexts = [
        each for index, each in enumerate(given) if _is_context(each, index, hints, context_type)
    ]
    if contexts and contexts != given[:1]:
        raise _error(
            function,
            f"takes its {context_type.__name__} as {contexts[-1].name!r}, which is not first",
            f"use (ctx: {context_type.__name__}, payload: ...)",
        )
    rest = given[len(contexts) :]
    _refuse_unfillable(function, parameters, rest)
    surplus = [each.name for each in rest[1:] if each.default is _MISSING]
    if surplus:
        raise _error(
            function,
            f"needs more than a payload: {', '.join(surplus)}",
            f"put them into the payload's model, give them defaults, or annotate the first one as "
            f"{context_type.__name__} if it is that",
        )
    return (contexts[0] if contexts else None), (rest[0] if rest else None)


def _refuse_unfillable(
    function: object, parameters: Sequence[inspect.Parameter], payloads: Sequence[inspect.Parameter]
) -> None:
    named = [
        each.name
        for each in parameters
        if each.kind is inspect.Parameter.KEYWORD_ONLY and each.default is _MISSING
    ]
    if named:
        raise _error(function, f"needs keyword arguments: {', '.join(named)}", "give them defaults")
    if not payloads and any(each.kind in _VARIADIC for each in parameters):
        raise _error(
            function,
            "takes its payload as *args or **kwargs, so the payload's type cannot be told",
            "name and annotate one payload parameter",
        )


def _is_context(
    parameter: inspect.Parameter, index: int, hints: _Hints, context_type: type
) -> bool:
    try:
        hint = hints.resolved(parameter.annotation)
    except HandlerError:
        # Nobody fills what has a default, so its hint may be for type checkers only.
        if index and parameter.default is not _MISSING:
            return False
        raise
    return hint is context_type or get_origin(hint) is context_type


def _payload_type(
    function: Callable[..., object], payload: inspect.Parameter, hints: _Hints
) -> object:
    hint = hints.resolved(payload.annotation)
    if hint is _MISSING:
        raise _error(
            function,
            f"does not say what type its payload {payload.name!r} is",
            f"annotate it, for instance {payload.name}: MyModel, or {payload.name}: Any",
        )
    if _has_type_variable(hint):
        raise _error(
            function, f"has the open type {hint!r} as payload", "name the types that it stands for"
        )
    return hint


def _has_type_variable(hint: object) -> bool:
    # Subscripted pydantic models are classes, whose arguments typing does not see.
    generic = getattr(hint, "__pydantic_generic_metadata__", None) or {"args": ()}
    arguments = (*get_args(hint), *generic["args"])
    return isinstance(hint, TypeVar) or any(map(_has_type_variable, arguments))


def _outcome(layers: Sequence[object], hints: _Hints) -> tuple[bool, object]:
    hint = hints.resolved(hints.signature.return_annotation)
    is_async = any(inspect.iscoroutinefunction(layer) for layer in layers)
    kind = get_origin(hint) or hint
    if isinstance(kind, type) and issubclass(kind, Awaitable):
        is_async, hint = True, (get_args(hint) or (Any,))[-1]
    is_open = hint in (_MISSING, Never, NoReturn) or _has_type_variable(hint)
    return is_async, Any if is_open else hint


def _error(function: object, problem: str, remedy: str) -> HandlerError:
    target = function.func if isinstance(function, functools.partial) else function
    module = getattr(target, "__module__", type(target).__module__)
    name = getattr(target, "__qualname__", type(target).__qualname__)
    return HandlerError(f"handler {module}:{name} {problem}; {remedy}")
