"""Changes are told as they happen: soon, together, and at a cost that does not grow."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from gotasks_dashboard import Permission, _live, dashboard
from gotasks_dashboard._live import SHORTEST_SECONDS
from gotasks_py import Manager, QueuePolicy
from gotasks_py.controls import Controlling
from gotasks_py.errors import StoreUnavailableError
from tests.dashboard.conftest import Browse, everything, open_to_all, read
from tests.dashboard.streams import Stream, streaming
from tests.lab import Lab

pytestmark = pytest.mark.anyio


async def settled(stream: Stream) -> Any:
    """Read what every stream begins with."""
    name, first = await stream.next()
    assert (name, first["changed"]["everything"]) == ("update", True)
    return first


async def test_a_stream_begins_with_everything(lab: Lab) -> None:
    await lab.store.register_queue(QueuePolicy("q"))
    await lab.enqueue()
    async with streaming(open_to_all(lab.store)) as stream:
        first = await settled(stream)
    assert first["overview"]["queues"][0]["counts"]["pending"]["value"] == 1
    assert stream.status == 200


async def test_what_others_do_is_told(lab: Lab, browse: Browse) -> None:
    await lab.store.register_queue(QueuePolicy("q"))
    assert isinstance(lab.store, Controlling)
    app = open_to_all(lab.store)
    async with streaming(app) as stream:
        await settled(stream)
        task_id = await lab.enqueue()
        await stream.until_changed("queues", "q")
        page = await read(browse(app), "/api/tasks")
        assert [each["id"] for each in page["tasks"]] == [str(task_id)]
        await lab.store.pause_queue("q", by="bob")
        while True:
            told = await stream.until_changed("queues", "q")
            if told["overview"] and told["overview"]["queues"][0]["pause"]:
                break
        assert told["overview"]["queues"][0]["pause"]["by"] == "bob"


async def test_what_nobody_tells_of_is_seen_by_the_next_look(mem_lab: Lab) -> None:
    await mem_lab.store.register_queue(QueuePolicy("q"))
    await mem_lab.enqueue()
    async with streaming(open_to_all(mem_lab.store)) as stream:
        await settled(stream)
        await mem_lab.claim()
        while True:
            told = await stream.until_changed("queues", "q")
            (queue,) = told["overview"]["queues"]
            if queue["counts"]["running"]["value"]:
                break
        assert (queue["name"], queue["counts"]["running"]["value"]) == ("q", 1)


async def test_what_is_done_here_is_told_to_all(mem_lab: Lab, browse: Browse) -> None:
    await mem_lab.store.register_queue(QueuePolicy("q"))
    task_id = str(await mem_lab.enqueue())
    app = open_to_all(mem_lab.store)
    client = browse(app)
    async with streaming(app) as one, streaming(app) as two:
        await settled(one)
        await settled(two)
        await client.post(f"/api/tasks/{task_id}/cancel", json={})
        for stream in (one, two):
            await stream.until_changed("ids", task_id)
        job = (await client.post("/api/jobs", json={"action": "delete", "query": "queue:q"})).json()
        states: set[str] = set()
        async for _, told in one.events():
            states |= {each["state"] for each in told["jobs"] if each["id"] == job["id"]}
            if "done" in states:
                break
        assert await mem_lab.store.get(task_id) is None


async def test_a_flood_is_told_twice_a_second_at_most(mem_lab: Lab) -> None:
    await mem_lab.store.register_queue(QueuePolicy("q"))
    async with streaming(open_to_all(mem_lab.store)) as stream:
        await settled(stream)
        began = anyio.current_time()
        told = 0
        with anyio.move_on_after(4 * SHORTEST_SECONDS):
            async with anyio.create_task_group() as group:

                async def flood() -> None:
                    while True:
                        for _ in range(20):
                            await mem_lab.enqueue()
                        await anyio.sleep(0.005)

                group.start_soon(flood)
                async for _, data in stream.events():
                    told += 1
                    assert len(data["changed"]["ids"]) <= 200
        assert 1 <= told <= (anyio.current_time() - began) / SHORTEST_SECONDS + 1


async def test_nothing_is_looked_at_while_nobody_looks(
    mem_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    ask = mem_lab.store.overview  # type: ignore[attr-defined]  # memory has it

    async def overview(queue: str | None = None) -> Any:
        nonlocal asked
        asked += 1
        return await ask(queue)

    monkeypatch.setattr(mem_lab.store, "overview", overview)
    await mem_lab.store.register_queue(QueuePolicy("q"))
    app = open_to_all(mem_lab.store)
    async with streaming(app) as stream:
        await settled(stream)
    await anyio.sleep(0.1)
    before = asked
    await mem_lab.enqueue()
    await anyio.sleep(2 * SHORTEST_SECONDS)
    assert asked == before
    async with streaming(app) as stream:
        again = await settled(stream)
        assert again["overview"]["queues"][0]["counts"]["pending"]["value"] == 1


async def test_a_store_that_is_away_is_told_of_and_so_is_its_return(
    mem_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(_queue: str | None = None) -> Any:
        raise StoreUnavailableError("the database did not answer")

    await mem_lab.store.register_queue(QueuePolicy("q"))
    async with streaming(open_to_all(mem_lab.store)) as stream:
        await settled(stream)
        with monkeypatch.context() as patched:
            patched.setattr(mem_lab.store, "overview", away)
            await mem_lab.enqueue()
            name, problem = await stream.next()
            while name == "update":  # of what was before
                name, problem = await stream.next()
            assert (name, problem["code"], problem["status"]) == (
                "problem",
                "store_unavailable",
                503,
            )
        await mem_lab.enqueue()
        while name == "problem":
            name, update = await stream.next()
            if name == "update":
                assert update["overview"]["queues"][0]["counts"]["pending"]["value"] == 2


async def test_a_store_that_is_slow_is_told_of_while_it_is_waited_for(
    mem_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_live, "_SLOW_SECONDS", 0.01)
    await mem_lab.store.register_queue(QueuePolicy("q"))
    ask = mem_lab.store.overview  # type: ignore[attr-defined]  # memory has it
    answers = anyio.Event()
    async with streaming(open_to_all(mem_lab.store)) as stream:
        await settled(stream)

        async def slow(queue: str | None = None) -> Any:
            await answers.wait()
            return await ask(queue)

        monkeypatch.setattr(mem_lab.store, "overview", slow)
        name, problem = await stream.next()
        while name == "update":  # of what was before
            name, problem = await stream.next()
        assert (name, problem["code"]) == ("problem", "store_unavailable")
        assert "this is how it was before" in problem["detail"]
        answers.set()
        name, told = await stream.next()
        assert (name, told["changed"]["everything"]) == ("update", True)


async def test_why_a_store_does_not_answer_stays_told(
    mem_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_live, "_SLOW_SECONDS", 0.01)
    monkeypatch.setattr(_live, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(_live, "SHORTEST_SECONDS", 0.01)
    await mem_lab.store.register_queue(QueuePolicy("q"))
    async with streaming(open_to_all(mem_lab.store)) as stream:
        await settled(stream)

        async def away(_queue: str | None = None) -> Any:
            await anyio.sleep(0.05)
            raise StoreUnavailableError("connection refused")

        monkeypatch.setattr(mem_lab.store, "overview", away)
        told = [await stream.next() for _ in range(5)]
        why = [problem["detail"] for name, problem in told if name == "problem"]
        assert why[-2:] == ["connection refused"] * 2
        first = why.index("connection refused")
        assert set(why[first:]) == {"connection refused"}, why


async def test_a_permission_that_is_withdrawn_ends_the_stream(
    mem_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    granted = {Permission.VIEW}
    monkeypatch.setattr("gotasks_dashboard._events._JUDGED_SECONDS", 0.0)
    monkeypatch.setattr("gotasks_dashboard._events._ALIVE_SECONDS", 0.05)
    app = dashboard(mem_lab.store, authorize=lambda _: granted)
    async with streaming(app) as stream:
        await settled(stream)
        granted.clear()
        async for _ in stream.events():
            pass
        assert stream.ended


async def test_a_stream_ends_some_day(mem_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gotasks_dashboard._events._LONGEST_SECONDS", 0.1)
    monkeypatch.setattr("gotasks_dashboard._events._ALIVE_SECONDS", 0.02)
    async with streaming(open_to_all(mem_lab.store)) as stream:
        await settled(stream)
        async for _ in stream.events():
            pass
        assert stream.ended


async def test_so_many_look_and_no_more(
    mem_lab: Lab, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gotasks_dashboard._events._MOST_LOOKERS", 1)
    app = open_to_all(mem_lab.store)
    async with streaming(app) as stream:
        await settled(stream)
        answer = await browse(app).get("/api/events")
    assert (answer.status_code, answer.json()["code"]) == (503, "too_many_streams")


async def test_a_manager_that_works_in_the_same_program_shares_the_feed(mem_lab: Lab) -> None:
    manager = Manager(mem_lab.store, queues=[QueuePolicy("q")])

    @manager.handler("q", "t")
    async def _(payload: dict[str, int]) -> None: ...

    app = dashboard(manager, authorize=everything)
    async with manager, streaming(app) as stream:
        first = await settled(stream)
        assert first["overview"]["health"]["stream"]["state"] in {"following", "polling"}
        handle = await manager.enqueue("q", "t", {"n": 1})
        await handle.result(timeout=5)
        await stream.until_changed("queues", "q")


async def test_a_stream_tells_whose_job_it_is_to_those_who_may_know(
    mem_lab: Lab, browse: Browse
) -> None:
    await mem_lab.store.register_queue(QueuePolicy("q"))
    app = dashboard(
        mem_lab.store,
        authorize=lambda request: {Permission.VIEW, Permission.CANCEL},
        identify=lambda request: request.headers.get("who"),
    )
    client = browse(app)
    client.headers["who"] = "ann"
    async with streaming(app) as stream:
        await settled(stream)
        body = {"action": "cancel", "query": "queue:q"}
        assert (await client.post("/api/jobs", json=body)).json()["user"] == "ann"
        jobs: list[Any] = []
        while not jobs:
            _, told = await stream.next()
            jobs = told["jobs"]
    assert (jobs[0]["user"], jobs[0]["query"]) == (None, None)


async def test_asking_for_the_head_of_a_stream_ends(mem_lab: Lab, browse: Browse) -> None:
    with anyio.fail_after(5):
        answer = await browse(open_to_all(mem_lab.store)).head("/api/events")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"].startswith("text/event-stream")
