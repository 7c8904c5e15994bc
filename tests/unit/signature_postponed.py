"""Handlers whose annotations are text: the module that test_signature reads them from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel

from gotasks_py import TaskContext

if TYPE_CHECKING:
    from decimal import Decimal
    from numbers import Number as OnlyForCheckers

P = TypeVar("P", bound=BaseModel)
Function = Callable[..., object]


class Email(BaseModel):
    to: str


class Namesake(BaseModel):
    here: bool = True


async def send(ctx: TaskContext, payload: Email) -> list[Email]:
    return [payload]


async def quoted(ctx: "TaskContext", payload: "Email | None") -> "int":  # noqa: UP037  - text in text
    return 1


async def plain_context(ctx: TaskContext) -> None: ...


async def namesake(payload: Namesake) -> None: ...


async def typed_only(payload: Decimal) -> None: ...


async def result_typed_only(payload: Email) -> OnlyForCheckers:
    raise NotImplementedError


async def default_typed_only(payload: Email, other: Decimal | None = None) -> None: ...


async def open_payload(payload: P) -> P:
    return payload


async def misspelt(payload: Emial) -> None: ...  # type: ignore[name-defined]  # noqa: F821


async def no_type(payload: 3 + Email) -> None: ...  # type: ignore[valid-type]  # the point


def local_class(read: Callable[[Function], object]) -> tuple[object, type]:
    """Read a handler where a class local to this function is its payload."""

    class Local(BaseModel):
        x: int

    async def handle(payload: Local) -> Local:
        return payload

    return read(handle), Local


def registered_in_a_helper(read: Callable[[Function], object]) -> tuple[object, type]:
    """Read a handler in a helper that is passed a local class's handler."""

    class Local(BaseModel):
        x: int

    return _helper(read), Local


def _helper(read: Callable[[Function], object]) -> object:
    async def handle(payload: Local) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    return read(handle)


def closed_over(read: Callable[[Function], object]) -> tuple[object, type]:
    """Read a handler that has left the function whose class it names."""

    class Local(BaseModel):
        x: int

    def make() -> Function:
        async def handle(payload: Local) -> Local:
            return Local(x=1)

        return handle

    return read(make()), Local


def not_yet_assigned(read: Callable[[Function], object]) -> object:
    """Read a handler whose payload's class is assigned after it."""

    async def handle(payload: Late) -> Late:
        return Late()

    signature = read(handle)

    class Late(BaseModel): ...

    return signature


class Methods(Generic[P]):
    """A class of handlers."""

    class Inner(BaseModel):
        x: int

    async def bound(self, ctx: TaskContext, payload: Email) -> int:
        return len(payload.to)

    @classmethod
    async def of_class(cls, payload: Email) -> str:
        return payload.to

    @staticmethod
    async def static(payload: Email) -> str:
        return payload.to

    raw_static = staticmethod(send)


class Callee:
    """An object that is called."""

    async def __call__(self, payload: Email) -> str:
        return payload.to


class PlainCallee:
    """A callable object without async."""

    def __call__(self, payload: Email) -> str:
        return payload.to


def read_in_class_body(read: Callable[[Function], object]) -> tuple[object, type]:
    """Read a handler in the body of the class that holds its payload's class."""

    class Handlers:
        class Inner(BaseModel):
            x: int

        async def handle(payload: Inner) -> Any: ...  # type: ignore[misc]  # noqa: N805

        signature = read(handle)

    return Handlers.signature, Handlers.Inner
