"""Several questions at once: in order, some at a time, and with errors that stay plain."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

import anyio
import pytest

from gotasks_mongostore._cancellation import Once
from gotasks_mongostore._gathering import gathered
from gotasks_py.errors import StoreUnavailableError

pytestmark = pytest.mark.anyio


async def test_answers_come_in_the_order_of_the_questions_and_few_are_asked_at_once() -> None:
    now, most = 0, 0

    async def ask(number: int) -> int:
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(10 - number % 3):
            await anyio.lowlevel.checkpoint()
        now -= 1
        return number

    assert await gathered([partial(ask, number) for number in range(20)]) == list(range(20))
    assert 2 <= most <= 4
    assert await gathered([]) == []


async def test_the_first_error_is_raised_as_it_is_and_nothing_more_is_asked() -> None:
    asked = list[int]()

    async def ask(number: int) -> int:
        asked.append(number)
        await anyio.lowlevel.checkpoint()
        raise StoreUnavailableError(f"no answer to {number}")

    with pytest.raises(StoreUnavailableError, match="no answer to 0"):
        await gathered([partial(ask, number) for number in range(20)])
    assert len(asked) == 4


async def test_who_is_cancelled_and_not_told_again_gets_no_answer() -> None:
    ended = list[str]()

    async def ask() -> int:
        await anyio.sleep_forever()
        return 1

    async def operation() -> list[int]:
        # As PyMongo's wait for a server does when the server comes at that moment.
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return await gathered([ask] * 8)

    async def run() -> None:
        try:
            await Once(operation())
        except BaseException as error:
            ended.append(type(error).__name__)
            raise
        ended.append("answered")

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()

    assert ended == ["CancelledError"]


async def test_a_question_hears_of_one_cancellation_and_ends_in_its_own_time() -> None:
    heard = list[str]()

    async def ask() -> int:
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            heard.append("cancelled")
            for _ in range(3):
                await asyncio.sleep(0.001)
            heard.append("unwound")
            raise
        return 1

    with anyio.move_on_after(0.01) as scope:
        await gathered([ask])
    assert scope.cancelled_caught
    assert heard == ["cancelled", "unwound"]
