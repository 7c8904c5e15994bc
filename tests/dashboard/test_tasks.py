"""What the API tells of tasks, on every store."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from gotasks_dashboard import Permission, dashboard
from gotasks_py import Manager, QueuePolicy
from tests.dashboard.conftest import Browse, open_to_all, read
from tests.lab import MINUTE, Lab, a_claim

pytestmark = pytest.mark.anyio


async def test_an_overview_counts_and_tells_what_is_due(lab: Lab, browse: Browse) -> None:
    await lab.store.register_queue(QueuePolicy("q"))
    for _ in range(3):
        await lab.enqueue()
    await lab.enqueue(run_at=lab.store.clock.now() + MINUTE, due_at=lab.store.clock.now() + MINUTE)
    await lab.claim()
    client = browse(open_to_all(lab.store))
    found = await read(client, "/api/overview")
    (queue,) = found["queues"]
    for number, search in (("backlog", "before:now"), ("scheduled", "after:now")):
        query = f"queue:q status:pending {search}"
        assert await read(client, "/api/tasks/count", q=query) == queue[number]
        assert len((await read(client, "/api/tasks", q=query))["tasks"]) == queue[number]["value"]
    assert queue["name"] == "q"
    assert queue["counts"]["pending"] == {"value": 3, "is_exact": True}
    assert queue["counts"]["running"] == {"value": 1, "is_exact": True}
    assert queue["backlog"]["value"] == 2
    assert queue["scheduled"]["value"] == 1
    assert queue["oldest_due_seconds"] >= 1
    assert queue["pause"] is None
    assert found["totals"]["pending"]["value"] == 3


async def test_every_task_is_reached_page_by_page(lab: Lab, browse: Browse) -> None:
    await lab.store.register_queue(QueuePolicy("q"))
    made = {str(await lab.enqueue()) for _ in range(7)}
    client = browse(open_to_all(lab.store))
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = await read(client, "/api/tasks", limit=3, sort="oldest", **cursor)
        seen += [task["id"] for task in page["tasks"]]
        if page["cursor"] is None:
            break
        cursor = {"cursor": page["cursor"]}
    assert len(seen) == 7
    assert set(seen) == made


async def test_lists_and_counts_fit_the_search(lab: Lab, browse: Browse) -> None:
    await lab.store.register_queue(QueuePolicy("q"))
    await lab.enqueue(tags=["x"], payload={"user": {"id": 42}})
    wanted = await lab.enqueue(tags=["x", "y z"], payload={"user": {"id": "42"}})
    client = browse(open_to_all(lab.store))
    for search in ('tag:"y z"', 'payload.user.id:"42"', f"id:{wanted}", f"queue:q {wanted}"):
        page = await read(client, "/api/tasks", q=search)
        assert [task["id"] for task in page["tasks"]] == [str(wanted)], search
        assert (await read(client, "/api/tasks/count", q=search))["value"] == 1
    assert (await read(client, "/api/tasks/count", q="tag:x"))["value"] == 2


async def test_lists_never_hold_payloads(lab: Lab, browse: Browse) -> None:
    await lab.store.register_queue(QueuePolicy("q"))
    await lab.enqueue(payload={"secret": "p4yl04d"}, metadata={"also": "p4yl04d"})
    answer = await browse(open_to_all(lab.store)).get("/api/tasks")
    assert answer.status_code == 200
    assert "p4yl04d" not in answer.text


async def test_one_task_is_told_exactly(lab: Lab, browse: Browse) -> None:
    await lab.store.register_queue(QueuePolicy("q"))
    payload = {
        "big": 2**63 - 1,
        "small": -(2**53),
        "exact": 2**53 - 1,
        "nan": math.nan,
        "infinite": -math.inf,
        "one": 1.0,
        "half": 0.5,
        "at": datetime(2026, 1, 31, 12, 0, 0, 5000, tzinfo=UTC),
        "data": b"\x00\xff",
        "tag": {"$int": "no tag"},
        "text": "<script>alert(1)</script>\u2028\x00",
        "": [None, True, {"deep": []}],
    }
    task_id = await lab.enqueue(payload=payload)
    answer = await browse(open_to_all(lab.store)).get(f"/api/tasks/{task_id}")
    found = json.loads(answer.text, parse_constant=pytest.fail)
    assert found["payload"] == {
        "big": {"$int": "9223372036854775807"},
        "small": {"$int": "-9007199254740992"},
        "exact": 2**53 - 1,
        "nan": {"$float": "NaN"},
        "infinite": {"$float": "-Infinity"},
        "one": {"$float": "1.0"},
        "half": 0.5,
        "at": {"$date": "2026-01-31T12:00:00.005Z"},
        "data": {"$bytes": "AP8="},
        "tag": {"$object": {"$int": "no tag"}},
        "text": "<script>alert(1)</script>\u2028\x00",
        "": [None, True, {"deep": []}],
    }
    assert found["explanation"]["reason"] == "no_handler"
    assert [each["what"] for each in found["timeline"]][-1] == "created"
    assert found["can"] == ["cancel", "delete", "clone"]


async def test_a_value_that_is_no_object_is_taken_out_of_its_document(
    lab: Lab, browse: Browse
) -> None:
    task_id = await lab.enqueue(payload={"value": [1, 2]})
    found = await read(browse(open_to_all(lab.store)), f"/api/tasks/{task_id}")
    assert found["payload"] == [1, 2]


async def test_a_running_task_tells_its_worker_but_not_its_token(lab: Lab, browse: Browse) -> None:
    await lab.enqueue(trace={"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"})
    task = await lab.claim(a_claim(token="s3cr3t"))
    assert task is not None
    app = open_to_all(lab.store, trace_url="https://traces.example/{trace_id}")
    answer = await browse(app).get(f"/api/tasks/{task.id}")
    found = answer.json()
    assert found["worker"] == "worker"
    assert found["explanation"]["reason"] == "running"
    assert found["trace_url"] == f"https://traces.example/{'a' * 32}"
    assert "s3cr3t" not in answer.text


@pytest.mark.parametrize("task_id", ["zzz", "0" * 24, "%00", "65f1", "a%2Fb"])
async def test_what_is_not_there_is_a_404_as_a_problem(
    lab: Lab, browse: Browse, task_id: str
) -> None:
    answer = await browse(open_to_all(lab.store)).get(f"/api/tasks/{task_id}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] in {"task_not_found", "not_found"}


async def test_a_task_that_was_spoilt_by_hand_is_shown(lab: Lab, browse: Browse) -> None:
    await lab.store.register_queue(QueuePolicy("q"))
    task_id = await lab.enqueue()
    lab.edit(task_id, payload="text", tags=7, errors=[{"at": "never"}], trace=[1], progress=None)
    client = browse(open_to_all(lab.store))
    found = await read(client, f"/api/tasks/{task_id}")
    assert found["payload"] == "text"
    assert (await read(client, "/api/tasks"))["tasks"][0]["id"] == str(task_id)


async def test_without_the_permission_payloads_are_neither_shown_nor_searched(
    mem_lab: Lab, browse: Browse
) -> None:
    error = {"at": mem_lab.store.clock.now(), "kind": "E", "message": "m", "traceback": "s3cr3t"}
    task_id = await mem_lab.enqueue(
        payload={"k": "s3cr3t"}, result="s3cr3t", progress="s3cr3t", metadata={"k": "s3cr3t"}
    )
    mem_lab.edit(task_id, errors=[error])
    client = browse(dashboard(mem_lab.store, authorize=lambda _: {Permission.VIEW}))
    answer = await client.get(f"/api/tasks/{task_id}")
    assert answer.json()["hidden"] is True
    assert "s3cr3t" not in answer.text
    refused = await client.get("/api/tasks", params={"q": "payload.k:s3cr3t"})
    assert (refused.status_code, refused.json()["permission"]) == (403, "view_payloads")


async def test_what_is_redacted_is_redacted_everywhere(mem_lab: Lab, browse: Browse) -> None:
    def redact(task: Any) -> Any:
        errors = [replace(error, message="…", traceback=None) for error in task.errors]
        return replace(task, payload={"card": "…"} if task.payload else None, errors=errors)

    await mem_lab.store.register_queue(QueuePolicy("q"))
    task_id = await mem_lab.enqueue(payload={"card": "s3cr3t"})
    error = {"at": mem_lab.store.clock.now(), "attempt": 1, "kind": "E", "message": "s3cr3t"}
    mem_lab.edit(
        task_id, "due_at", status="dead", errors=[error], finished_at=mem_lab.store.clock.now()
    )
    client = browse(open_to_all(mem_lab.store, redact=redact))
    answer = await client.get(f"/api/tasks/{task_id}")
    assert answer.json()["payload"] == {"card": "…"}
    assert answer.json()["is_redacted"] is True
    assert "clone" not in answer.json()["can"]
    assert "s3cr3t" not in answer.text
    assert "s3cr3t" not in (await client.get("/api/tasks")).text
    for search in ("payload.card:s3cr3t", "error:s3cr3t", "tag:s3cr3t", "key:s3cr3t"):
        assert (await client.get("/api/tasks", params={"q": search})).status_code == 403
    assert "s3cr3t" not in (await client.get("/api/complete", params={"q": "tag:"})).text
    names = {each["name"] for each in (await read(client, "/api/session"))["qualifiers"]}
    assert names.isdisjoint({"tag", "key", "error", "payload.PATH"})


async def test_refusals_do_not_name_a_unique_key(mem_lab: Lab, browse: Browse) -> None:
    await mem_lab.store.register_queue(QueuePolicy("q"))
    task_id = await mem_lab.enqueue(unique_key="s3cr3t")
    mem_lab.edit(
        task_id,
        "due_at",
        "unique_key",
        status="dead",
        released_key="s3cr3t",
        finished_at=mem_lab.store.clock.now(),
    )
    await mem_lab.enqueue(unique_key="s3cr3t")
    hidden = open_to_all(mem_lab.store, redact=lambda task: replace(task, unique_key=None))
    client = browse(hidden)
    answer = await client.post(f"/api/tasks/{task_id}/requeue", json={})
    assert answer.json()["code"] == "duplicate"
    assert "s3cr3t" not in answer.text
    body = {"action": "requeue", "ids": [str(task_id)]}
    job = (await client.post("/api/jobs", json=body)).json()
    while (found := await read(client, f"/api/jobs/{job['id']}"))["state"] == "running":
        await anyio.sleep(0.01)
    assert found["refused_count"] == 1
    assert "s3cr3t" not in str(found)
    assert "s3cr3t" not in (await client.get("/api/audit")).text


async def test_page_sizes_are_clamped(mem_lab: Lab, browse: Browse) -> None:
    await mem_lab.store.register_queue(QueuePolicy("q"))
    for _ in range(201):
        await mem_lab.enqueue()
    client = browse(open_to_all(mem_lab.store))
    assert len((await read(client, "/api/tasks", limit=10**9))["tasks"]) == 200
    assert len((await read(client, "/api/tasks", limit=-5))["tasks"]) == 1


@pytest.mark.parametrize(
    "query",
    [{"limit": "many"}, {"sort": "random"}, {"cursor": "no"}, {"$where": "1"}, {"cursor": "AAAA"}],
)
async def test_impossible_parameters_are_refused(
    lab: Lab, browse: Browse, query: dict[str, str]
) -> None:
    answer = await browse(open_to_all(lab.store)).get("/api/tasks", params=query)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


async def test_a_manager_will_do_as_well(mem_lab: Lab, browse: Browse) -> None:
    manager = Manager(mem_lab.store, queues=[QueuePolicy("q")])
    task_id = await mem_lab.enqueue()
    found = await read(browse(open_to_all(manager)), f"/api/tasks/{task_id}")
    assert found["schema"] is False
