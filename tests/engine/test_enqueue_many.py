"""Many tasks in one call, several chunks of them on their way at once."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import anyio
import pytest

from gotasks_py import (
    DuplicateTaskError,
    Enqueue,
    Hooks,
    PartialEnqueueError,
    PayloadError,
    StoreUnavailableError,
    TaskHandle,
    TaskPolicy,
)
from gotasks_py._bulk import CHUNK, SLICE
from gotasks_py.errors import ConfigurationError, GotasksError
from gotasks_py.store import TaskDocument
from gotasks_py.testing import VirtualClock
from tests.engine.world import Ears, FaultyStore, a_manager, failing, real_time, seconds

pytestmark = pytest.mark.anyio


class FarStore(FaultyStore):
    """A store whose answers take their time; ``pauses`` are those of the first chunks."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.pauses: list[float] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.sizes: list[int] = []

    async def insert_many(self, documents: Sequence[TaskDocument]) -> Mapping[int, GotasksError]:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        self.sizes.append(len(documents))
        try:
            await anyio.sleep(self.pauses.pop(0) if self.pauses else 1)
            return await super().insert_many(documents)
        finally:
            self.in_flight -= 1


class ForgetfulStore(FaultyStore):
    """A store that keeps nothing."""

    async def insert_many(self, documents: Sequence[TaskDocument]) -> Mapping[int, GotasksError]:
        return {}


@pytest.fixture
def store(anyio_backend: object) -> FarStore:
    return FarStore(clock=None if isinstance(anyio_backend, str) else VirtualClock())


def numbered(count: int) -> Iterator[Enqueue]:
    return (Enqueue("q", "w", number) for number in range(count))


async def payloads(store: FaultyStore, ids: Sequence[object]) -> list[object]:
    stored: list[Any] = [(await store.stored(each)).payload for each in ids if each is not None]
    return [payload["value"] for payload in stored]


async def test_handles_align_whichever_chunk_arrives_first(store: FarStore) -> None:
    store.pauses = [9, 1, 5, 3, 4, 1]
    heard: list[int] = []
    handles = await a_manager(store).enqueue_many(numbered(CHUNK * 6 + 5), progress=heard.append)
    assert await payloads(store, [each.id for each in handles]) == list(range(CHUNK * 6 + 5))
    assert heard == [*range(CHUNK, CHUNK * 6 + 1, CHUNK), CHUNK * 6 + 5]
    assert store.most_in_flight == 4


async def test_failures_align_whichever_chunk_arrives_first(store: FarStore) -> None:
    store.pauses = [9, 1, 5, 3]
    requests: list[Any] = list(numbered(CHUNK * 3))
    wrong = [0, CHUNK - 1, CHUNK, CHUNK * 2 + 7]
    for index in wrong:
        requests[index] = Enqueue("q", "w", 2**64)
    requests[5] = "no request"
    requests[6] = Enqueue(["q"], "w")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(PartialEnqueueError) as raised:
        await a_manager(store).enqueue_many(requests)
    failures = raised.value.failures
    assert sorted(failures) == sorted([*wrong, 5, 6])
    assert all(isinstance(failures[index], PayloadError) for index in wrong)
    assert isinstance(failures[5], ConfigurationError)
    assert isinstance(failures[6], ConfigurationError)
    good = [index for index in range(CHUNK * 3) if index not in failures]
    assert await payloads(store, raised.value.ids) == good
    assert [index for index, each in enumerate(raised.value.ids) if each is not None] == good


@pytest.mark.parametrize("second", [1, CHUNK, CHUNK * 3 + 1])
async def test_of_equal_keys_the_first_wins(store: FarStore, second: int) -> None:
    """Also when its chunk would arrive last."""
    store.pauses = [9]
    requests = list(numbered(CHUNK * 4))
    for index in (0, second):
        requests[index] = Enqueue("q", "w", index, TaskPolicy(unique_key="k"))
    with pytest.raises(PartialEnqueueError) as raised:
        await a_manager(store).enqueue_many(requests)
    (index, error), *others = raised.value.failures.items()
    assert (index, others) == (second, [])
    assert isinstance(error, DuplicateTaskError)
    assert error.existing_id == raised.value.ids[0]


async def test_an_outage_ends_the_sending(store: FarStore) -> None:
    manager = a_manager(store)

    def fail_from_third(documents: Sequence[Any]) -> None:
        if documents[0]["payload"]["value"] >= CHUNK * 2:
            raise StoreUnavailableError("away")

    store.before["insert_many"] = fail_from_third
    heard: list[int] = []
    requests = list(numbered(CHUNK * 20))
    requests[CHUNK * 2] = Enqueue("nowhere", "w")  # a chunk is away in spite of its own mistakes
    with pytest.raises(PartialEnqueueError) as raised:
        await manager.enqueue_many(iter(requests), progress=heard.append)
    assert raised.value.ids[CHUNK * 2 :] == [None] * (CHUNK * 18)
    assert await payloads(store, raised.value.ids[: CHUNK * 2]) == list(range(CHUNK * 2))
    assert sorted(raised.value.failures) == list(range(CHUNK * 2, CHUNK * 20))
    assert "not sent" in str(raised.value.failures[CHUNK * 20 - 1])
    assert len(store.sizes) <= 7
    assert heard == list(range(CHUNK, CHUNK * 20 + 1, CHUNK))


async def test_one_chunk_that_fails_does_not_end_the_sending(store: FarStore) -> None:
    def fail_first(documents: Sequence[Any]) -> None:
        if documents[0]["payload"]["value"] == 0:
            raise GotasksError("refused")

    store.before["insert_many"] = fail_first
    with pytest.raises(PartialEnqueueError) as raised:
        await a_manager(store).enqueue_many(numbered(CHUNK * 3))
    assert sorted(raised.value.failures) == list(range(CHUNK))
    assert len(store.all_tasks()) == CHUNK * 2


async def test_a_cancelled_call_tells_of_stored_tasks_only(store: FarStore) -> None:
    manager = a_manager(store, hooks=(ears := Ears()).hooks())
    store.pauses = [1, 1, 1, 1, 100]
    heard: list[int] = []
    with anyio.move_on_after(50) as scope:
        await manager.enqueue_many(numbered(CHUNK * 10), progress=heard.append)
    assert scope.cancelled_caught
    assert heard == [CHUNK, CHUNK * 2, CHUNK * 3, CHUNK * 4]
    stored = {task.id for task in store.all_tasks()}
    assert {event.task.id for event in ears.of("on_enqueue")} <= stored
    assert len(ears.events) == CHUNK * 4
    await anyio.sleep(1000)
    assert store.in_flight == 0
    assert len(store.all_tasks()) == len(stored)


async def test_what_progress_raises_loses_nothing(
    store: FarStore, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[int] = []

    def progress(done: int) -> None:
        calls.append(done)
        raise ValueError("the bar is broken")

    handles = await a_manager(store).enqueue_many(numbered(CHUNK * 3), progress=progress)
    assert len(handles) == len(store.all_tasks()) == CHUNK * 3
    assert calls == [CHUNK]
    assert "progress of enqueue_many failed" in caplog.text


async def test_what_a_generator_raises_ends_the_call_when_the_rest_has_arrived(
    store: FarStore,
) -> None:
    def requests() -> Iterator[Enqueue]:
        yield from numbered(CHUNK * 2)
        raise LookupError("the source is broken")

    with pytest.raises(LookupError, match="the source is broken"):
        await a_manager(store).enqueue_many(requests())
    assert len(store.all_tasks()) == CHUNK * 2


async def test_a_bug_of_a_store_is_raised_as_it_is(store: FarStore) -> None:
    store.before["insert_many"] = failing(RuntimeError("a bug"), times=1)
    with pytest.raises(RuntimeError, match="a bug"):
        await a_manager(store).enqueue_many(numbered(CHUNK * 3))
    assert store.in_flight == 0


async def test_a_generator_is_read_no_further_than_what_is_in_flight(store: FarStore) -> None:
    read: list[int] = []

    def requests() -> Iterator[Enqueue]:
        for number in range(CHUNK * 20):
            read.append(number)
            yield Enqueue("q", "w", number)

    async with anyio.create_task_group() as group:
        group.start_soon(a_manager(store).enqueue_many, requests())
        await anyio.sleep(0.5)
        assert len(read) == CHUNK * 5
        group.cancel_scope.cancel()


async def test_chunks_of_large_payloads_are_small(store: FarStore) -> None:
    large = Enqueue("q", "w", "x" * 2**17)
    await a_manager(store).enqueue_many([large] * 250)
    assert store.sizes == [SLICE, SLICE, 50]


async def test_tasks_of_one_call_run_in_their_order(store: FarStore) -> None:
    started: list[int] = []
    manager = a_manager(store, workers=1)

    @manager.handler("q", "w")
    async def work(number: int) -> None:
        started.append(number)

    handles: list[TaskHandle[Any]] = await manager.enqueue_many(numbered(50))
    async with manager:
        await handles[-1].result(timeout=100)
    assert started == list(range(50))


async def test_policies_that_differ_are_not_mixed_up(store: FarStore) -> None:
    def policy(number: int) -> TaskPolicy:
        return TaskPolicy(priority=number % 7, delay=seconds(number), metadata={"n": number})

    handles = await a_manager(store).enqueue_many(
        Enqueue("q", "w", number, policy(number)) for number in range(SLICE * 2)
    )
    for number, handle in enumerate(handles):
        task = await store.stored(handle.id)
        assert (task.priority, task.metadata) == (number % 7, {"n": number})
        assert task.run_at == task.created_at + seconds(number)


async def test_every_hook_is_told_of_every_task(store: FarStore) -> None:
    heard: list[object] = []

    async def hear(event: Any) -> None:
        heard.append(event.task.payload["value"])

    manager = a_manager(store, hooks=Hooks(on_enqueue=hear))
    await manager.enqueue_many(numbered(CHUNK + 5))
    assert heard == list(range(CHUNK + 5))


@real_time
async def test_a_long_call_keeps_no_documents() -> None:
    """Twenty thousand payloads of 4 KiB, of which five chunks are there at a time."""
    manager = a_manager(ForgetfulStore())
    text: Callable[[int], str] = f"{{:{4096}}}".format
    tracemalloc.start(1)
    try:
        handles = await manager.enqueue_many(Enqueue("q", "w", text(n)) for n in range(20_000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(handles) == 20_000
    assert peak < 40 * 2**20
