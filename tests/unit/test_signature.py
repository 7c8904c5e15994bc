"""What a handler's signature tells, and which signatures are refused."""

import asyncio
import functools
import inspect
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterator,
)
from contextlib import asynccontextmanager
from types import NoneType
from typing import Any, Generic, Never, NoReturn, ParamSpec, TypeVar

import anyio
import pytest
from pydantic import BaseModel, validate_call

from gotasks_py import TaskContext
from gotasks_py._signature import Signature, read_signature
from gotasks_py.errors import HandlerError
from tests.unit import signature_postponed as postponed
from tests.unit.signature_postponed import Email, Methods

T = TypeVar("T")
U = TypeVar("U")
Q = ParamSpec("Q")
Function = Callable[..., object]


class Namesake(BaseModel):
    """Not the class of that name in the other module."""


class Page(BaseModel, Generic[T]):
    items: list[T]


def read(function: Function) -> Signature:
    return read_signature(function, TaskContext)


def shape(signature: object) -> tuple[bool, bool, object, object]:
    assert isinstance(signature, Signature)
    return (
        signature.is_async,
        signature.takes_context,
        signature.payload if signature.takes_payload else None,
        signature.result,
    )


def refusal(function: Any) -> str:
    with pytest.raises(HandlerError) as caught:
        read(function)
    return str(caught.value)


def logged(function: Callable[Q, T]) -> Callable[Q, T]:
    @functools.wraps(function)
    def wrapper(*args: Q.args, **kwargs: Q.kwargs) -> T:
        return function(*args, **kwargs)

    return wrapper


def a_context() -> Any:
    return None


async def with_both(ctx: TaskContext, payload: Email) -> int:
    return len(payload.to)


async def with_payload(payload: Email) -> int:
    return len(payload.to)


async def with_context(ctx: TaskContext) -> None: ...


async def with_nothing() -> None: ...


async def with_defaults(payload: Email, retries: int = 3, *, loud: bool = False) -> int:
    return retries


def plain(payload: Email) -> int:
    return len(payload.to)


def plain_without_hints() -> None: ...


def returns_coroutine(payload: Email) -> Coroutine[Any, Any, int]:
    return with_payload(payload)


def returns_awaitable(payload: Email) -> Awaitable[int]:
    return with_payload(payload)


def returns_bare_awaitable(payload: Email) -> Awaitable:  # type: ignore[type-arg]  # the point
    return with_payload(payload)


def returns_future(payload: Email) -> asyncio.Future[int]:
    return asyncio.ensure_future(with_payload(payload))


async def never_returns(payload: Email) -> NoReturn:
    raise AssertionError


async def never(payload: Email) -> Never:
    raise AssertionError


async def open_result(payload: Email) -> T: ...  # type: ignore[empty-body]


async def without_result(payload: Email):  # type: ignore[no-untyped-def]  # noqa: ANN201
    ...


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (with_both, (True, True, Email, int)),
        (with_payload, (True, False, Email, int)),
        (with_context, (True, True, None, NoneType)),
        (with_nothing, (True, False, None, NoneType)),
        (with_defaults, (True, False, Email, int)),
        (plain, (False, False, Email, int)),
        (plain_without_hints, (False, False, None, NoneType)),
        (returns_coroutine, (True, False, Email, int)),
        (returns_awaitable, (True, False, Email, int)),
        (returns_bare_awaitable, (True, False, Email, Any)),
        (returns_future, (True, False, Email, int)),
        (never_returns, (True, False, Email, Any)),
        (never, (True, False, Email, Any)),
        (open_result, (True, False, Email, Any)),
        (without_result, (True, False, Email, Any)),
        (lambda: None, (False, False, None, Any)),
        (functools.partial(with_defaults, retries=1), (True, False, Email, int)),
        (functools.partial(with_both, a_context()), (True, False, Email, int)),
        (functools.partial(functools.partial(plain)), (False, False, Email, int)),
        (logged(with_both), (True, True, Email, int)),
        (logged(logged(plain)), (False, False, Email, int)),
        (functools.partial(logged(with_payload)), (True, False, Email, int)),
        (validate_call(with_payload), (True, False, Email, int)),
        (validate_call(plain), (False, False, Email, int)),
        (Methods[Email]().bound, (True, True, Email, int)),
        (Methods.of_class, (True, False, Email, str)),
        (Methods.static, (True, False, Email, str)),
        (Methods.raw_static, (True, True, Email, list[Email])),
        (staticmethod(postponed.send), (True, True, Email, list[Email])),
        (postponed.Callee(), (True, False, Email, str)),
        (postponed.PlainCallee(), (False, False, Email, str)),
        (postponed.Callee().__call__, (True, False, Email, str)),
        (logged(postponed.Callee().__call__), (True, False, Email, str)),
    ],
)
def test_a_handler_tells_its_kind_its_parameters_and_its_types(
    function: Function, expected: tuple[bool, bool, object, object]
) -> None:
    assert shape(read(function)) == expected


def test_postponed_annotations_give_the_types_themselves() -> None:
    assert shape(read(postponed.send)) == (True, True, Email, list[Email])
    assert shape(read(postponed.quoted)) == (True, True, Email | None, int)
    assert shape(read(postponed.plain_context)) == (True, True, None, NoneType)


@pytest.mark.parametrize(
    "scenario",
    [
        postponed.local_class,
        postponed.registered_in_a_helper,
        postponed.closed_over,
        postponed.read_in_class_body,
    ],
)
def test_a_class_local_to_the_registering_function_is_found(
    scenario: Callable[[Callable[[Function], object]], tuple[Signature, type]],
) -> None:
    signature, local = scenario(read)

    assert signature.payload is local


def test_a_name_means_what_it_means_in_the_handlers_module_whoever_registers_it() -> None:
    Email = Namesake  # noqa: N806  - a caller's name, which must not be taken

    assert read(postponed.namesake).payload is postponed.Namesake
    assert read(postponed.send).payload is not Email


def test_names_that_only_type_checkers_can_see_are_refused_by_name() -> None:
    for function, name in [
        (postponed.typed_only, "Decimal"),
        (postponed.result_typed_only, "OnlyForCheckers"),
        (postponed.misspelt, "Emial"),
    ]:
        message = refusal(function)
        assert f"{name!r} cannot be found" in message
        assert f"handler {postponed.__name__}:{function.__name__}" in message
        assert "outside `if TYPE_CHECKING`" in message


def test_a_class_that_does_not_exist_yet_is_refused() -> None:
    with pytest.raises(HandlerError, match="'Late' cannot be found"):
        postponed.not_yet_assigned(read)


def test_a_hint_that_nobody_needs_is_not_resolved() -> None:
    assert read(postponed.default_typed_only).payload is Email


def test_a_hint_that_is_no_type_is_refused() -> None:
    assert "is no type" in refusal(postponed.no_type)


def test_type_variables_are_refused_and_their_arguments_are_not() -> None:
    async def subscripted(payload: Page[int]) -> None: ...

    async def open_list(payload: list[T]) -> None: ...

    async def open_page(payload: Page[U]) -> None: ...

    assert read(subscripted).payload == Page[int]
    for function in (postponed.open_payload, open_list, open_page):
        assert "open type" in refusal(function)


def test_generators_are_refused() -> None:
    def generator(payload: Email) -> Iterator[int]:
        yield 1

    async def async_generator(payload: Email) -> AsyncGenerator[int]:
        yield 1

    class Generating:
        def __call__(self, payload: Email) -> Generator[int]:
            yield 1

    for function in (
        generator,
        async_generator,
        functools.partial(generator),
        logged(generator),
        asynccontextmanager(async_generator),
        Generating(),
        Generating().__call__,
    ):
        assert "is a generator" in refusal(function)


def test_a_payload_that_cannot_be_told_is_refused() -> None:
    async def arguments(*args: Email) -> None: ...

    async def keywords(**kwargs: Email) -> None: ...

    async def after_context(ctx: TaskContext, *args: Email) -> None: ...

    async def unannotated(payload) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001

    for function in (arguments, keywords, after_context):
        assert "*args or **kwargs" in refusal(function)
    assert "payload: MyModel" in refusal(unannotated)


def test_a_context_that_is_not_first_is_refused() -> None:
    async def second(payload: Email, ctx: TaskContext) -> None: ...

    async def twice(one: TaskContext, two: TaskContext) -> None: ...

    assert "takes its TaskContext as 'ctx', which is not first" in refusal(second)
    assert "as 'two'" in refusal(twice)


def test_more_than_a_payload_is_refused_by_name() -> None:
    async def three(ctx: TaskContext, payload: Email, more: int, most: int) -> None: ...

    async def unannotated(ctx, payload: Email) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001

    async def keyword(payload: Email, *, loud: bool) -> None: ...

    assert "needs more than a payload: more, most" in refusal(three)
    assert "annotate the first one as TaskContext" in refusal(unannotated)
    assert "needs keyword arguments: loud" in refusal(keyword)


def test_what_is_no_function_is_refused() -> None:
    class WithoutSignature:
        __signature__ = "none"

        def __call__(self) -> None: ...

    assert "is no function" in refusal(Email)
    assert "is no function" in refusal(3)
    assert "no signature that can be read" in refusal(WithoutSignature())


def test_a_wrapper_that_wraps_itself_does_not_hang() -> None:
    async def handle(payload: Email) -> None: ...

    def outer(payload: Email) -> None: ...

    outer.__dict__["raw_function"] = outer
    handle.__dict__["raw_function"] = outer

    assert read(handle).is_async


def test_what_is_called_async_returns_something_to_await() -> None:
    async def results() -> list[object]:
        found = []
        for function in (
            logged(with_payload),
            validate_call(with_payload),
            functools.partial(with_defaults, retries=3),
            postponed.Callee(),
            returns_future,
        ):
            signature = read(function)
            assert signature.is_async
            returned = signature.call(Email(to="abc"))
            assert inspect.isawaitable(returned)
            found.append(await returned)
        return found

    assert anyio.run(results) == [3, 3, 3, "abc", 3]
