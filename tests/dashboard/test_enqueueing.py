"""What is said of tasks that are enqueued: in the audit, and of what does not fit."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import httpx
import pytest

from gotasks_py import QueuePolicy, TaskType
from gotasks_py.errors import StoreUnavailableError
from tests.dashboard.conftest import Browse, open_to_all, read
from tests.lab import Lab

pytestmark = pytest.mark.anyio

OPTIONS = {
    "priority": 3,
    "delay_seconds": 1.5,
    "run_at": None,
    "backoff": {"kind": "fixed", "delay_ms": {"$int": "5000"}},
    "metadata": {"secret": "m"},
    "tags": ["secret tag"],
    "unique_key": "secret key",
}


async def post(client: httpx.AsyncClient, status: int, **body: Any) -> Any:
    answer = await client.post("/api/tasks", json={"queue": "q", "type": "t", **body})
    assert answer.status_code == status, answer.text
    return answer.json()


async def latest(client: httpx.AsyncClient) -> Any:
    return (await read(client, "/api/audit"))["entries"][0]


async def test_the_audit_says_which_task_was_enqueued_and_how(lab: Lab, browse: Browse) -> None:
    await lab.store.register_queue(QueuePolicy("q"))
    client = browse(open_to_all(lab.store))
    plain = (await post(client, 201))["id"]
    entry = await latest(client)
    assert entry["target"] == {"queue": "q", "type": "t", "task": plain}
    assert entry["details"] == {}
    full = (await post(client, 201, policy=OPTIONS))["id"]
    entry = await latest(client)
    assert (entry["target"]["task"], entry["outcome"]) == (full, "done")
    details = entry["details"]
    assert json.loads(details.pop("backoff")) == OPTIONS["backoff"]
    assert details == {
        "priority": 3,
        "delay_seconds": 1.5,
        "tags": ["secret tag"],
        "unique_key": "secret key",
    }


async def test_the_audit_tells_nothing_that_is_redacted(mem_lab: Lab, browse: Browse) -> None:
    await mem_lab.store.register_queue(QueuePolicy("q"))
    client = browse(open_to_all(mem_lab.store, redact=lambda task: task))
    await post(client, 201, policy=OPTIONS)
    assert "secret" not in json.dumps(await latest(client))


async def test_a_task_whose_outcome_is_not_known_is_named(
    mem_lab: Lab, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*_: object, **__: object) -> None:
        raise StoreUnavailableError("no answer", task_id="65f1c0ffee65f1c0ffee0123")

    await mem_lab.store.register_queue(QueuePolicy("q"))
    monkeypatch.setattr(mem_lab.store, "insert", lost)
    client = browse(open_to_all(mem_lab.store))
    problem = await post(client, 503)
    assert "no answer" in problem["detail"]
    assert "look before you try again" in problem["detail"]
    entry = await latest(client)
    assert (entry["outcome"], entry["target"]["task"]) == ("failed", "65f1c0ffee65f1c0ffee0123")


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        ({"n": {"$int": "abc"}}, "n"),
        ({"list": [1, {"m": {"$gt": 1}}]}, "list.1.m"),
        ({"$object": {"$x": {"$date": 5}}}, "$x"),
        ({"$int": "abc"}, ""),
    ],
)
async def test_a_tag_that_is_none_is_told_where_it_is(
    mem_lab: Lab, browse: Browse, payload: Any, path: str
) -> None:
    await mem_lab.store.register_queue(QueuePolicy("q"))
    problem = await post(browse(open_to_all(mem_lab.store)), 422, payload=payload)
    assert [each["path"] for each in problem["errors"]] == [path]


@pytest.mark.parametrize(
    ("policy", "path", "message"),
    [
        ({"tags": "red"}, "policy.tags", "an array is needed"),
        ({"metadata": []}, "policy.metadata", "an object is needed"),
        ({"metadata": {"a": {"$int": "x"}}}, "policy.metadata.a", "does not fit the tag"),
        ("none", "policy", "an object is needed"),
        ({"run_at": 5}, "policy.run_at", "a time such as"),
        ({"retry_until": "1790000000"}, "policy.retry_until", "a time such as"),
    ],
)
async def test_kinds_of_values_are_called_as_json_calls_them(
    mem_lab: Lab, browse: Browse, policy: Any, path: str, message: str
) -> None:
    await mem_lab.store.register_queue(QueuePolicy("q"))
    problem = await post(browse(open_to_all(mem_lab.store)), 400, policy=policy)
    (error,) = problem["errors"]
    assert (error["path"], message in error["message"]) == (path, True), error


async def test_all_options_that_do_not_fit_are_told_at_once(mem_lab: Lab, browse: Browse) -> None:
    await mem_lab.store.register_queue(QueuePolicy("q"))
    client = browse(open_to_all(mem_lab.store))
    policy = {
        "delay_seconds": -1,
        "priority": 1.5,
        "unique_key": "k" * 600,
        "tags": ["a", "$a"],
        "backoff": {"kind": "fixed", "delay_ms": -1},
        "metadata": {"a": {"$int": "x"}, "b": 1},
    }
    problem = await post(client, 400, policy=policy)
    paths = [each["path"] for each in problem["errors"]]
    assert paths == [f"policy.{'metadata.a' if name == 'metadata' else name}" for name in policy]
    both = {"delay_seconds": 1, "run_at": "2026-01-01T00:00:00Z"}
    problem = await post(client, 400, policy=both)
    assert [each["path"] for each in problem["errors"]] == ["policy.run_at"]
    for path in ("/api/tasks", "/api/tasks/validate"):
        body = {"queue": "q", "type": "t", "policy": {"tags": ["$a"]}}
        assert (await client.post(path, json=body)).status_code == 400


@pytest.mark.parametrize(
    ("kind", "payload", "message"),
    [
        (datetime, "2026-01-31T12:00", "has no time zone; write it as 2026-01-31T12:00:00Z"),
        (int, {"$int": str(2**63)}, "it may be from -2^63 to 2^63 - 1"),
    ],
)
async def test_who_types_a_payload_is_told_what_to_type(
    mem_lab: Lab, browse: Browse, kind: type, payload: Any, message: str
) -> None:
    await mem_lab.store.register_queue(QueuePolicy("q"))
    known: TaskType[Any, None] = TaskType("q", "t", kind, None)
    client = browse(open_to_all(mem_lab.store, types=[known]))
    (error,) = (await post(client, 422, payload=payload))["errors"]
    assert message in error["message"]
    assert "datetime.now" not in error["message"]
    assert "annotate" not in error["message"]


@pytest.mark.parametrize("inner", ['"queue": "p"', '"payload": {"a": 1, "b": 2, "a": 3}'])
async def test_a_name_that_is_given_twice_is_refused(
    mem_lab: Lab, browse: Browse, inner: str
) -> None:
    await mem_lab.store.register_queue(QueuePolicy("q"))
    answer = await browse(open_to_all(mem_lab.store)).post(
        "/api/tasks",
        content=f'{{"queue": "q", "type": "t", {inner}}}',
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 400
    assert "is given twice" in answer.json()["detail"]
