"""Asking several questions at once: one after the other, most of the time is on the way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import anyio

from gotasks_py.errors import GotasksError

T = TypeVar("T")

_AT_ONCE: Final = 4
"""Few, for claims and heartbeats share the connections."""


async def gathered(questions: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Ask all of them, some at a time; the answers come in the order of the questions.

    Raises:
        GotasksError: the first that one of them raised; what is not asked yet is not asked then.
    """
    answers: dict[int, T] = {}
    errors: list[GotasksError] = []
    turns = anyio.Semaphore(_AT_ONCE)

    async def ask(number: int, question: Callable[[], Awaitable[T]]) -> None:
        try:
            async with turns:
                if not errors:
                    answers[number] = await question()
        except GotasksError as error:  # plain, not as a group
            errors.append(error)

    async with anyio.create_task_group() as group:
        for number, question in enumerate(questions):
            group.start_soon(ask, number, question)
    if errors:
        raise errors[0]
    return [answers[number] for number in range(len(questions))]
