"""The time limit at the end of a run."""

from __future__ import annotations

import anyio
import pytest

from gotasks_py._closing import Closing
from gotasks_py.errors import StoreUnavailableError
from tests.engine.world import seconds

pytestmark = pytest.mark.anyio


@pytest.fixture
def closing(anyio_backend: object) -> Closing:
    return Closing(seconds(5))


async def test_nothing_is_limited_before_it_has_begun(closing: Closing) -> None:
    began = anyio.current_time()
    with closing.in_time():
        await anyio.sleep(3600)
    assert anyio.current_time() - began == pytest.approx(3600)


async def test_what_is_under_way_has_its_time_from_the_beginning_on(closing: Closing) -> None:
    async def begin() -> None:
        await anyio.sleep(100)
        closing.begin()
        await anyio.sleep(1)
        closing.begin()  # which changes nothing any more

    began = anyio.current_time()
    async with anyio.create_task_group() as group:
        group.start_soon(begin)
        with pytest.raises(StoreUnavailableError, match="did not answer"), closing.in_time():
            await anyio.sleep(3600)
        assert anyio.current_time() - began == pytest.approx(105)


async def test_what_follows_has_time_of_its_own(closing: Closing) -> None:
    closing.begin()
    await anyio.sleep(10)
    with closing.in_time():
        await anyio.sleep(4)
    with pytest.raises(StoreUnavailableError), closing.in_time():
        await anyio.sleep(6)


async def test_a_cancellation_from_outside_stays_one(closing: Closing) -> None:
    with anyio.move_on_after(1) as outer, closing.in_time():
        await anyio.sleep(3600)
    assert outer.cancelled_caught


async def test_errors_pass(closing: Closing) -> None:
    with pytest.raises(LookupError), closing.in_time():
        raise LookupError


async def test_it_is_quiet_when_the_last_has_ended(closing: Closing) -> None:
    async def ask(length: float) -> None:
        with closing.in_time():
            await anyio.sleep(length)

    async def wait() -> None:
        await closing.quiet()
        assert anyio.current_time() - began == pytest.approx(3)

    await closing.quiet()
    began = anyio.current_time()
    async with anyio.create_task_group() as group:
        for length in (1, 3, 2):
            group.start_soon(ask, length)
        await anyio.sleep(0.5)
        closing.begin()
        for _ in range(2):
            group.start_soon(wait)
