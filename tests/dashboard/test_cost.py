"""What dashboards cost the database: bounded, served by indexes, and hardly more for many."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import anyio
import httpx
import pytest
from pymongo import MongoClient

from gotasks_dashboard import _desk
from gotasks_dashboard._cache import SharedAnswers
from gotasks_dashboard._table import ENDPOINTS
from gotasks_py.errors import StoreUnavailableError
from tests.dashboard.conftest import Browse, open_to_all, read
from tests.dashboard.streams import streaming
from tests.lab import Lab, RawCollection
from tests.mongo.recorder import Recorded, recorded_lab
from tests.mongo.test_inspection_plans import QUEUES, a_task, plans

pytestmark = pytest.mark.anyio

MANY = 4_000
SEARCHES = [
    "",
    "queue:q",
    "queue:q status:dead,done",
    "tag:even",
    f"fingerprint:{3:016x}",
    "queue:q type:t1",
    "queue:q payload.n:17",
    "error:nothing",
    "before:1h status:done",
    "status:pending before:now",
    "queue:q status:pending after:now",
]
PAGES = [
    *(f"/api/tasks?q={search}" for search in SEARCHES),
    *(f"/api/tasks/count?q={search}" for search in SEARCHES),
    "/api/overview",
    "/api/dead",
    "/api/nodes",
    "/api/metrics?range=1h",
    "/api/types",
    "/api/types/detail?queue=q&type=t1",
    "/api/complete?q=tag:e",
    "/api/complete?q=queue:",
    "/api/audit",
]


@pytest.fixture(scope="module")
def volume(raw_client: MongoClient[dict[str, Any]]) -> Iterator[RawCollection]:
    database = raw_client["gotasks_tests"]
    collection = database[f"shown{uuid.uuid4().hex[:8]}"]
    now = raw_client.admin.command("hello")["localTime"]
    collection.insert_many((a_task(number, now) for number in range(MANY)), ordered=False)
    database[f"{collection.name}_queues"].insert_many([{"_id": name} for name in QUEUES])
    yield collection
    for suffix in ("", "_queues", "_metrics", "_audit"):
        database.drop_collection(f"{collection.name}{suffix}")


@pytest.fixture
async def crowded(volume: RawCollection, mongodb: str) -> AsyncIterator[Recorded]:
    async with recorded_lab(mongodb, volume) as recorded:
        yield recorded


async def opened(client: httpx.AsyncClient) -> None:
    """Do what a dashboard does that goes from panel to panel."""
    for path in PAGES:
        answer = await client.get(path)
        assert answer.status_code == 200, f"{path}: {answer.text}"


@pytest.mark.mongo
async def test_every_read_is_bounded_and_served_by_an_index(
    crowded: Recorded, volume: RawCollection, browse: Browse
) -> None:
    client = browse(open_to_all(crowded.lab.store))
    (task,) = (await read(client, "/api/tasks", limit=1))["tasks"]
    with crowded.recorder.recording() as sent:
        await opened(client)
        await read(client, f"/api/tasks/{task['id']}")
        all_sent = list(sent)
    assert len(all_sent) > len(PAGES)
    for command in all_sent:
        assert 0 < command["maxTimeMS"] <= 5_000, command
    # One task is looked up by its id, of which no plan names an index.
    searches = [each for each in all_sent if [*each.get("filter", ())] != ["_id"]]
    served = list(plans(volume, searches))
    assert {index for index, *_ in served} == {"list", "tags", "errors"}
    assert all(documents <= 2_000 for _, _, documents in served)


@pytest.mark.mongo
async def test_the_doctor_is_bounded_too(crowded: Recorded, browse: Browse) -> None:
    with crowded.recorder.recording() as sent:
        await read(browse(open_to_all(crowded.lab.store)), "/api/system")
        bounds = [command["maxTimeMS"] for command in sent]
    assert bounds
    assert all(0 < bound <= 5_000 for bound in bounds)


@pytest.mark.mongo
async def test_twenty_dashboards_cost_little_more_than_one(
    crowded: Recorded, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Time stands still: however slow the machine, all are asked within a moment.
    monkeypatch.setattr(_desk, "SharedAnswers", lambda _: SharedAnswers(lambda: 0.0))
    numbers: list[int] = []
    for many in (1, 20):
        app = open_to_all(crowded.lab.store)
        with crowded.recorder.recording() as sent:
            async with anyio.create_task_group() as group:
                for _ in range(many):
                    group.start_soon(opened, browse(app))
            numbers.append(len(sent))
    assert numbers[1] <= 3 * numbers[0]


@pytest.mark.mongo
async def test_twenty_streams_cost_little_more_than_one(crowded: Recorded) -> None:
    numbers: list[int] = []
    for many in (1, 20):
        app = open_to_all(crowded.lab.store)
        with crowded.recorder.recording() as sent:
            async with AsyncExitStack() as stack:
                streams = [await stack.enter_async_context(streaming(app)) for _ in range(many)]
                for stream in streams:
                    await stream.next()
                await anyio.sleep(2.5)
            numbers.append(len(sent))
    assert numbers[1] <= 3 * numbers[0]


async def test_one_asks_for_all_who_wait_and_errors_are_not_kept() -> None:
    now, asked = 0.0, 0
    answers = SharedAnswers(lambda: now)

    async def ask() -> int:
        nonlocal asked
        asked += 1
        await anyio.sleep(0.01)
        if asked == 1:
            raise StoreUnavailableError
        return asked

    async def get() -> int:
        return await answers.get("key", 1.0, ask, lambda _: True)

    with pytest.raises(StoreUnavailableError):
        await get()
    found: list[int] = []

    async def wait() -> None:
        found.append(await get())

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(wait)
    assert found == [2] * 5
    now = 0.5
    assert await get() == 2
    answers.forget(0.5)
    assert await get() == 2
    answers.forget(1.0)
    assert await get() == 3
    now = 2.0
    assert await get() == 4


async def test_only_so_many_answers_are_kept() -> None:
    answers = SharedAnswers(lambda: 0.0)
    asked: list[int] = []

    async def ask(key: int) -> int:
        async def answer() -> int:
            asked.append(key)
            return key

        return await answers.get(key, 1.0, answer, lambda _: True)

    for key in range(501):
        await ask(key)
    await ask(500)
    await ask(0)
    assert asked == [*range(501), 0]


async def test_a_store_that_takes_too_long_is_given_up(
    mem_lab: Lab, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def overview(_queue: str | None = None) -> Sequence[Any]:
        await anyio.sleep_forever()
        return ()

    monkeypatch.setattr(mem_lab.store, "overview", overview)
    client = browse(open_to_all(mem_lab.store, patience=timedelta(milliseconds=100)))
    answer = await client.get("/api/overview")
    assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
    assert answer.headers["retry-after"] == "2"


def test_every_read_of_the_api_is_looked_at_here() -> None:
    looked_at = {path.partition("?")[0].removeprefix("/api/") for path in PAGES}
    elsewhere = {"tasks/{id}", "system", "events", "session", "openapi.json", "schema"}
    elsewhere |= {"jobs", "jobs/{id}"}
    reads = {each.path for each in ENDPOINTS if each.method == "GET"}
    assert reads == looked_at | elsewhere


async def test_those_who_wait_for_an_answer_share_its_failure() -> None:
    answers = SharedAnswers(lambda: 0.0)
    asked, told = 0, 0
    hanging = anyio.Event()

    async def ask() -> int:
        nonlocal asked
        asked += 1
        await hanging.wait()
        raise StoreUnavailableError

    async def look() -> None:
        nonlocal told
        with pytest.raises(StoreUnavailableError):
            await answers.get("key", 1.0, ask, lambda _: True)
        told += 1

    async with anyio.create_task_group() as group:
        for _ in range(6):
            group.start_soon(look)
        await anyio.wait_all_tasks_blocked()
        hanging.set()
    assert (asked, told) == (1, 6)
    await look()
    assert asked == 2
