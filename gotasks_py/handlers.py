"""Handlers, the types of tasks they serve, and the registry that finds them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, overload

from gotasks_py._signature import Signature, read_signature
from gotasks_py.checks import check_name
from gotasks_py.codec import Codec, codec_for
from gotasks_py.context import TaskContext
from gotasks_py.errors import HandlerError
from gotasks_py.handle import TaskHandle
from gotasks_py.policy import TaskPolicy, TypePolicy
from gotasks_py.store import Session

P = TypeVar("P")
R = TypeVar("R")
Q = TypeVar("Q")
OnConflict: TypeAlias = Literal["raise", "return"]


class TaskType(Generic[P, R]):
    """The address of a type of task: its queue, its name, its payload and its result.

    Declares what producers and workers share without importing each other's code. The
    payload and the result may be anything that pydantic can validate.

    Raises:
        ConfigurationError: an illegal name, or a type that pydantic cannot validate.
    """

    __slots__ = ("name", "payload", "payload_codec", "queue", "result", "result_codec")

    @overload
    def __init__(self: TaskType[Q, Any], queue: str, name: str, payload: type[Q]) -> None: ...

    @overload
    def __init__(self, queue: str, name: str, payload: type[P], result: type[R]) -> None: ...

    @overload
    def __init__(
        self: TaskType[Q, None], queue: str, name: str, payload: type[Q], result: None
    ) -> None: ...

    @overload
    def __init__(
        self: TaskType[Any, Any], queue: str, name: str, payload: object, result: object = ...
    ) -> None: ...

    def __init__(self, queue: str, name: str, payload: object, result: object = Any) -> None:
        check_name("queue", queue)
        check_name("type", name)
        self.queue = queue
        self.name = name
        self.payload = payload
        self.result = result
        self.payload_codec: Codec[P] = codec_for(payload)
        self.result_codec: Codec[R] = codec_for(result)

    def __repr__(self) -> str:
        return f"TaskType({self.queue!r}, {self.name!r}, {self.payload!r}, {self.result!r})"


class Enqueuer(Protocol):
    """Enqueues a task of a known type."""

    async def __call__(  # noqa: D102  - the class says it
        self,
        task_type: TaskType[P, R],
        payload: P,
        policy: TaskPolicy | None,
        *,
        on_conflict: OnConflict,
        session: Session | None,
    ) -> TaskHandle[R]: ...


@dataclass(frozen=True, slots=True)
class Handler(Generic[P, R]):
    """A registered handler: still callable, and a typed way to enqueue its tasks."""

    task_type: TaskType[P, R]
    function: Callable[..., Any]
    signature: Signature = field(repr=False)
    policy: TypePolicy = field(repr=False)
    _enqueue: Enqueuer = field(repr=False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  - whatever the function takes
        """Call the function itself, as if it were not registered."""
        return self.function(*args, **kwargs)

    def arguments(self, context: TaskContext, payload: P) -> tuple[object, ...]:
        """Tell what to call the function with."""
        signature = self.signature
        given = (context,) if signature.takes_context else ()
        return (*given, payload) if signature.takes_payload else given

    async def enqueue(
        self,
        payload: P,
        policy: TaskPolicy | None = None,
        *,
        on_conflict: OnConflict = "raise",
        session: Session | None = None,
    ) -> TaskHandle[R]:
        """Enqueue a task of this type; see ``Manager.enqueue``."""
        return await self._enqueue(
            self.task_type, payload, policy, on_conflict=on_conflict, session=session
        )


class HandlerDecorator(Protocol):
    """Registers the function it decorates; payload and result come from its annotations."""

    @overload
    def __call__(self, function: Callable[[TaskContext, P], Awaitable[R]], /) -> Handler[P, R]: ...
    @overload
    def __call__(self, function: Callable[[P], Awaitable[R]], /) -> Handler[P, R]: ...
    @overload
    def __call__(self, function: Callable[[TaskContext, P], R], /) -> Handler[P, R]: ...
    @overload
    def __call__(self, function: Callable[[P], R], /) -> Handler[P, R]: ...
    @overload
    def __call__(self, function: Callable[[], Awaitable[R]], /) -> Handler[None, R]: ...
    @overload
    def __call__(self, function: Callable[[], R], /) -> Handler[None, R]: ...


TypedFunction: TypeAlias = (
    Callable[[TaskContext, P], Awaitable[R]]
    | Callable[[P], Awaitable[R]]
    | Callable[[TaskContext, P], R]
    | Callable[[P], R]
)


class TypedHandlerDecorator(Protocol[P, R]):
    """Registers the function it decorates for a declared type, which it must fit."""

    def __call__(self, function: TypedFunction[P, R], /) -> Handler[P, R]: ...  # noqa: D102  - the class says it


class Registry:
    """The handlers of one manager, by queue and type."""

    def __init__(self) -> None:
        self._handlers: dict[tuple[str, str], Handler[Any, Any]] = {}

    def add(
        self,
        function: Callable[..., Any],
        address: tuple[str, str] | TaskType[Any, Any],
        policy: TypePolicy,
        enqueue: Enqueuer,
    ) -> Handler[Any, Any]:
        """Register a function for a type.

        Raises:
            HandlerError: the function cannot serve as a handler, or the type has one.
        """
        if isinstance(function, Handler):  # registered for another type too
            function = function.function
        signature = read_signature(function, TaskContext)
        if isinstance(address, TaskType):
            _refuse_misfit(function, signature, address)
            task_type = address
        else:
            task_type = TaskType(*address, signature.payload, signature.result)
        key = (task_type.queue, task_type.name)
        if key in self._handlers:
            msg = (
                f"queue {key[0]!r} has a handler for type {key[1]!r} already: "
                f"{self._handlers[key].function!r}; a type has one handler"
            )
            raise HandlerError(msg)
        handler = Handler(task_type, function, signature, policy, enqueue)
        self._handlers[key] = handler
        return handler

    def find(self, queue: str, name: str) -> Handler[Any, Any] | None:
        """Tell the handler of a type."""
        return self._handlers.get((queue, name))

    def task_types(self) -> tuple[TaskType[Any, Any], ...]:
        """Tell all types that have a handler, by queue and name."""
        return tuple(self._handlers[key].task_type for key in sorted(self._handlers))

    def types(self, queue: str) -> tuple[str, ...]:
        """Tell the types of a queue that have a handler, in a fixed order."""
        return tuple(sorted(name for served, name in self._handlers if served == queue))


def _refuse_misfit(
    function: Callable[..., Any], signature: Signature, task_type: TaskType[Any, Any]
) -> None:
    """Compare classes; what type checkers see beyond them is left to them."""
    taken, given = signature.payload, task_type.payload
    if isinstance(taken, type) and isinstance(given, type) and not issubclass(given, taken):
        msg = (
            f"{function!r} takes a {taken.__name__}, and {task_type!r} has a {given.__name__} as "
            "payload; annotate the payload that the type has"
        )
        raise HandlerError(msg)
