"""What is refused before anything is written, the registry of queues included."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from typing import Any

import pytest

from gotasks_py import (
    ConfigurationError,
    Enqueue,
    GotasksError,
    Manager,
    PartialEnqueueError,
    PayloadError,
    PayloadTooLargeError,
    QueuePolicy,
    TaskPolicy,
    TaskType,
    UnknownQueueError,
)
from tests.lab import Lab

pytestmark = pytest.mark.anyio

NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001  - the mistake
REQUESTS: dict[str, tuple[Any, type[GotasksError]]] = {
    "unknown queue": (Enqueue("nowhere", "work", 1), UnknownQueueError),
    "illegal queue": (Enqueue("$q", "work", 1), ConfigurationError),
    "illegal type": (Enqueue("q", " work", 1), ConfigurationError),
    "wrong payload type": (Enqueue("q", "double", "one"), PayloadError),
    "no round trip": (Enqueue("q", "work", {"a": (1,)}), PayloadError),
    "too large": (Enqueue("q", "work", "x" * 2_000), PayloadTooLargeError),
    "naive": (Enqueue("q", "work", NAIVE), PayloadError),
    "nested naive": (Enqueue("q", "work", {"at": [NAIVE]}), PayloadError),
    "naive metadata": (Enqueue("q", "work", 1, TaskPolicy(metadata={"at": NAIVE})), PayloadError),
    "policy": (Enqueue("q", "work", 1, {"delay": 1}), ConfigurationError),  # type: ignore[arg-type]  # the mistake
}


def a_manager(lab: Lab) -> Manager:
    manager = Manager(lab.store, queues=[QueuePolicy("q")], payload_limit=1_000)

    @manager.handler("q", "double")
    async def double(number: int) -> int:
        return number * 2

    return manager


async def is_untouched(lab: Lab) -> bool:
    return (
        not await lab.store.queues() and await lab.store.next_due("q", ["work", "double"]) is None
    )


@pytest.mark.parametrize("mistake", REQUESTS)
async def test_a_request_is_refused_before_its_queue_is_recorded(lab: Lab, mistake: str) -> None:
    request, error = REQUESTS[mistake]

    with pytest.raises(error):
        await a_manager(lab).enqueue(request.queue, request.type, request.payload, request.policy)

    assert await is_untouched(lab)


async def test_many_that_are_all_refused_leave_no_trace(lab: Lab) -> None:
    manager = a_manager(lab)
    mistakes: list[Any] = [*(request for request, _ in REQUESTS.values()), "no request"]

    with pytest.raises(PartialEnqueueError) as caught:
        await manager.enqueue_many(iter(mistakes))

    errors = [error for _, error in REQUESTS.values()]
    assert caught.value.ids == [None] * (len(errors) + 1)
    assert all(
        isinstance(caught.value.failures[index], error) for index, error in enumerate(errors)
    )
    assert await is_untouched(lab)


async def test_none_at_all_leave_no_trace(lab: Lab) -> None:
    assert await a_manager(lab).enqueue_many([]) == []

    assert await is_untouched(lab)


async def test_one_good_request_behind_many_bad_ones_is_stored(lab: Lab) -> None:
    manager = a_manager(lab)

    def requests() -> Iterator[Enqueue]:
        yield from [Enqueue("q", "double", "one")] * 250
        yield Enqueue("q", "double", 2)

    with pytest.raises(PartialEnqueueError) as caught:
        await manager.enqueue_many(requests())

    assert sorted(caught.value.failures) == list(range(250))
    assert (await manager.get(caught.value.ids[250])).payload == {"value": 2}
    assert list(await lab.store.queues()) == ["q"]


CALLS: dict[str, Callable[[Manager], Awaitable[object]]] = {
    "on_conflict": lambda manager: manager.enqueue("q", "work", 1, on_conflict="ignore"),  # type: ignore[call-overload]  # the mistake
    "task type": lambda manager: manager.enqueue(TaskType("nowhere", "work", int, int), 1),
}


@pytest.mark.parametrize("mistake", CALLS)
async def test_a_call_is_refused_before_anything_is_recorded(lab: Lab, mistake: str) -> None:
    with pytest.raises(GotasksError):
        await CALLS[mistake](a_manager(lab))

    assert await is_untouched(lab)


async def test_a_naive_datetime_is_refused_by_what_it_is(lab: Lab) -> None:
    with pytest.raises(PayloadError, match="naive datetime: 2026-01-01 00:00:00 has no time zone"):
        await a_manager(lab).enqueue("q", "work", NAIVE)
