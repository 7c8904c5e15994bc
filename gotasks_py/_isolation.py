"""Runs a coroutine in a context of its own without making a task for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")


class Isolated(Awaitable[T]):
    """Awaits a coroutine whose changes of context variables stay its own.

    A task would do the same at several times the cost, which is more than a short handler
    takes. Whatever the coroutine waits for passes through to the event loop; cancel scopes
    belong to the task, which stays the caller's.
    """

    __slots__ = ("_coroutine", "_run")

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._run: Callable[..., Any] = copy_context().run

    def __await__(self) -> Generator[Any, Any, T]:
        step: Callable[..., Any] = self._coroutine.send
        argument: Any = None
        while True:
            try:
                waited_for = self._run(step, argument)
            except StopIteration as end:
                value: T = end.value
                return value
            try:
                argument = yield waited_for
                step = self._coroutine.send
            except GeneratorExit:
                self._run(self._coroutine.close)
                raise
            except BaseException as error:  # noqa: BLE001  - the coroutine's to handle
                argument, step = error, self._coroutine.throw
