"""Several questions at once: in order, some at a time, and with errors that stay plain."""

from __future__ import annotations

from functools import partial

import anyio
import pytest

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


async def test_questions_are_cancelled_with_who_asks() -> None:
    cancelled = list[int]()

    async def ask(number: int) -> int:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(number)
        return number

    with anyio.move_on_after(0.01) as scope:
        await gathered([partial(ask, number) for number in range(8)])
    assert scope.cancelled_caught
    assert sorted(cancelled) == [0, 1, 2, 3]
