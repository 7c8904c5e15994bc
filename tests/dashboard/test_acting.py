"""What the API changes, who did it, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import anyio
import httpx
import pytest
from pydantic import BaseModel, Field

from gotasks_dashboard import Permission, _jobs, dashboard
from gotasks_mongostore import MongoStore
from gotasks_py import Manager, Node, QueuePolicy, TaskType
from gotasks_py.errors import StoreError, StoreUnavailableError
from gotasks_py.metering import Beat, Metering, Report
from tests.dashboard.conftest import Browse, everything, open_to_all, read
from tests.lab import HOUR, MINUTE, Lab

pytestmark = pytest.mark.anyio

MISSING = "0" * 24


class Email(BaseModel):
    """Sends an e-mail."""

    to: str
    count: int = Field(default=1, ge=1)


EMAIL = TaskType("q", "send", Email, None)


async def send(client: httpx.AsyncClient, path: str, status: int = 200, **body: Any) -> Any:
    answer = await client.post(f"/api/{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


async def dead(lab: Lab, **fields: Any) -> str:
    """Make a dead letter."""
    now = lab.store.clock.now()
    task_id = await lab.enqueue(**fields)
    lab.edit(task_id, "due_at", "unique_key", status="dead", finished_at=now)
    return str(task_id)


async def until(true: Callable[[], Any]) -> Any:
    while not (found := await true()):
        await anyio.sleep(0.01)
    return found


async def a_node(lab: Lab, node_id: str = "m.1") -> None:
    assert isinstance(lab.store, Metering)
    node = Node(id=node_id, host="h", pid=1, version="1", queues=["q"], capacity=4)
    await lab.store.report(Report(beat=Beat(node=node, good_for=HOUR)))


async def test_one_task_is_brought_back_cancelled_and_deleted(lab: Lab, browse: Browse) -> None:
    await lab.store.register_queue(QueuePolicy("q"))
    task_id = await dead(lab)
    client = browse(open_to_all(lab.store, identify=lambda _: "ann"))
    assert (await send(client, f"tasks/{task_id}/requeue"))["status"] == "pending"
    assert (await send(client, f"tasks/{task_id}/requeue", 409))["state"] == "pending"
    assert (await send(client, f"tasks/{task_id}/cancel"))["status"] == "cancelled"
    assert await send(client, f"tasks/{task_id}/delete") == {"id": task_id}
    assert (await send(client, f"tasks/{task_id}/delete", 404))["code"] == "task_not_found"
    log = (await read(client, "/api/audit"))["entries"]
    assert [(each["action"], each["outcome"]) for each in reversed(log)] == [
        ("requeue", "done"),
        ("requeue", "failed"),
        ("cancel", "done"),
        ("delete", "done"),
        ("delete", "failed"),
    ]
    assert {each["user"] for each in log} == {"ann"}
    assert log[-1]["target"] == {"task": task_id}
    assert (await read(client, "/api/audit", action="cancel", user="ann"))["entries"] == log[2:3]


async def test_a_requeue_that_meets_another_holder_says_which(lab: Lab, browse: Browse) -> None:
    task_id = await dead(lab, unique_key="k")
    lab.edit(lab.store.parse_id(task_id), released_key="k")
    holder = await lab.enqueue(unique_key="k")
    found = await send(browse(open_to_all(lab.store)), f"tasks/{task_id}/requeue", 409)
    assert (found["code"], found["existing_id"]) == ("duplicate", str(holder))


async def test_a_queue_is_paused_resumed_and_changed(lab: Lab, browse: Browse) -> None:
    await lab.store.register_queue(QueuePolicy("a/b"))
    client = browse(open_to_all(lab.store, identify=lambda _: "ann"))
    await send(client, "queues/pause", queue="a/b", for_seconds=60)
    (queue,) = (await read(client, "/api/overview"))["queues"]
    assert queue["pause"]["by"] == "ann"
    assert queue["pause"]["until"] is not None
    await send(client, "queues/resume", queue="a/b")
    await send(client, "queues/policy", queue="a/b", changes={"weight": 3, "timeout_seconds": 1.5})
    (queue,) = (await read(client, "/api/overview"))["queues"]
    assert queue["pause"] is None
    assert (queue["policy"]["weight"], queue["policy"]["timeout_seconds"]) == (3, 1.5)
    assert queue["changed"] == ["timeout", "weight"]
    await send(client, "queues/policy/reset", queue="a/b")
    (queue,) = (await read(client, "/api/overview"))["queues"]
    assert (queue["policy"]["weight"], queue["changed"]) == (1, [])


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("queues/pause", {"queue": "none"}, 404, "unknown_queue"),
        ("queues/pause", {"queue": "q", "until": "2020-01-01T00:00:00Z"}, 400, "bad_request"),
        ("queues/pause", {"queue": "q", "until": "2099-01-01T00:00:00"}, 400, "bad_request"),
        (
            "queues/pause",
            {"queue": "q", "until": "9999-12-31T23:59:59-23:00"},
            400,
            "bad_request",
        ),
        ("queues/pause", {"queue": "q", "for_seconds": 0}, 400, "bad_request"),
        ("queues/policy", {"queue": "q", "changes": {"weight": 10**30}}, 400, "bad_request"),
        ("queues/policy", {"queue": "q", "changes": {"max_attempts": 2**63}}, 400, "bad_request"),
        (
            "queues/policy",
            {"queue": "q", "changes": {"weight": 2, "workers": None}},
            400,
            "bad_request",
        ),
        ("tasks", {"queue": "q", "type": "t", "policy": {"priority": 2**63}}, 400, "bad_request"),
        ("queues/pause", {"queue": "q", "for_seconds": "60"}, 400, "bad_request"),
        (
            "queues/pause",
            {"queue": "q", "for_seconds": 1, "until": "2099-01-01T00:00:00Z"},
            400,
            "bad_request",
        ),
        ("queues/policy", {"queue": "q", "changes": {}}, 400, "bad_request"),
        ("queues/policy", {"queue": "q", "changes": {"weight": 0}}, 400, "bad_request"),
        ("queues/policy", {"queue": "q", "changes": {"lanes": 65}}, 400, "bad_request"),
        ("queues/resume", {"queue": ["q"]}, 400, "bad_request"),
        ("queues/resume", {"queue": {"$ne": ""}}, 400, "bad_request"),
        ("nodes/quiet", {"node": "nobody"}, 404, "unknown_node"),
        ("tasks/zzz/cancel", {}, 404, "task_not_found"),
        (f"tasks/{MISSING}/cancel", {}, 404, "task_not_found"),
        (f"tasks/{MISSING}/cancel", {"force": True}, 400, "bad_request"),
        ("tasks", {"queue": "none", "type": "t"}, 404, "unknown_queue"),
        ("tasks", {"queue": "q", "type": "$t"}, 400, "bad_request"),
        ("tasks", {"queue": "q", "type": "t", "policy": {"tags": [1]}}, 400, "bad_request"),
        ("tasks", {"queue": "q", "type": "t", "payload": {"$int": 1}}, 422, "bad_payload"),
        ("tasks", {"queue": "q", "type": "t", "payload": {"$odd": "1"}}, 422, "bad_payload"),
        ("tasks", {"queue": "q", "type": "t", "payload": {"$date": "now"}}, 422, "bad_payload"),
        ("tasks", {"queue": "q", "type": "t", "payload": 2**70}, 422, "bad_payload"),
        ("jobs", {"action": "requeue"}, 400, "bad_request"),
        ("jobs", {"action": "requeue", "ids": []}, 400, "bad_request"),
        ("jobs", {"action": "requeue", "ids": [MISSING], "query": ""}, 400, "bad_request"),
        ("jobs", {"action": "delete", "query": ""}, 400, "bad_request"),
        ("jobs", {"action": "burn", "query": "queue:q"}, 400, "bad_request"),
        ("jobs", {"action": "delete", "query": "queue"}, 400, "bad_query"),
        ("jobs", {"action": "delete", "ids": ["zzz"]}, 404, "task_not_found"),
        ("jobs", {"action": "delete", "query": "queue:q", "per_second": 0}, 400, "bad_request"),
        ("jobs/none/stop", {}, 404, "job_not_found"),
    ],
)
async def test_what_cannot_be_done_is_refused(
    mem_lab: Lab, browse: Browse, path: str, body: dict[str, Any], status: int, code: str
) -> None:
    await mem_lab.store.register_queue(QueuePolicy("q"))
    answer = await browse(open_to_all(mem_lab.store)).post(f"/api/{path}", json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"1", b"{", b'{"a":NaN}', b"\xff", b"[" * 100_000, b'"' + b"x" * 9]
)
async def test_a_body_that_is_no_json_object_is_refused(
    mem_lab: Lab, browse: Browse, content: bytes
) -> None:
    client = browse(open_to_all(mem_lab.store))
    answer = await client.post(
        "/api/queues/resume", content=content, headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


async def test_a_body_that_never_ends_is_refused(mem_lab: Lab, browse: Browse) -> None:
    client = browse(open_to_all(mem_lab.store))
    answer = await client.post(
        "/api/tasks", content=b" " * (13 << 20), headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")


async def test_managers_are_ordered_about(lab: Lab, browse: Browse) -> None:
    await a_node(lab)
    client = browse(open_to_all(lab.store))
    for order, stored in (("quiet", "quiet"), ("drain", "drain"), ("wake", None)):
        assert await send(client, f"nodes/{order}", node="m.1") == {"node": "m.1"}
        (node,) = (await read(client, "/api/nodes"))["nodes"]
        assert node["order"] == stored


async def test_a_task_is_enqueued_with_exact_values_and_can_be_cloned(
    lab: Lab, browse: Browse
) -> None:
    await lab.store.register_queue(QueuePolicy("q"))
    client = browse(open_to_all(lab.store))
    payload = {
        "big": {"$int": str(2**63 - 1)},
        "one": {"$float": "1.0"},
        "nan": {"$float": "NaN"},
        "at": {"$date": "2026-01-31T12:00:00.005Z"},
        "data": {"$bytes": "AP8="},
        "odd": {"$object": {"$int": "x"}},
        "list": [1, None, "x"],
    }
    policy = {"priority": 3, "tags": ["x"], "delay_seconds": 60, "unique_key": "k"}
    made = await send(client, "tasks", 201, queue="q", type="t", payload=payload, policy=policy)
    found = await read(client, f"/api/tasks/{made['id']}")
    assert found["payload"] == payload
    assert (found["priority"], found["tags"], found["unique_key"]) == (3, ["x"], "k")
    assert found["explanation"]["reason"] == "not_due"
    clone = await send(client, "tasks", 201, queue="q", type="t", payload=found["payload"])
    assert (await read(client, f"/api/tasks/{clone['id']}"))["payload"] == payload
    for value in (None, 5, "text", [1], {"value": 1}, {"value": {"value": 1}}):
        made = await send(client, "tasks", 201, queue="q", type="t", payload=value)
        assert (await read(client, f"/api/tasks/{made['id']}"))["payload"] == value
    again = await send(
        client, "tasks", 409, queue="q", type="t", payload=1, policy={"unique_key": "k"}
    )
    assert again["code"] == "duplicate"


async def test_all_settings_of_a_task_can_be_given_to_its_clone(lab: Lab, browse: Browse) -> None:
    await lab.store.register_queue(QueuePolicy("q"))
    client = browse(open_to_all(lab.store))
    policy = {
        "max_attempts": 7,
        "timeout_seconds": 1.5,
        "retry_until": "2099-01-01T00:00:00.000Z",
        "metadata": {"big": {"$int": str(2**60)}, "at": {"$date": "2026-01-31T12:00:00.000Z"}},
        "backoff": {"kind": "exponential", "base_ms": 50, "cap_ms": 60_000, "factor": 1.5},
        "tags": ["a, b"],
    }
    made = await send(client, "tasks", 201, queue="q", type="t", payload=1, policy=policy)
    first = await read(client, f"/api/tasks/{made['id']}")
    told = {name: first[name] for name in policy}
    assert told == policy | {"backoff": told["backoff"]}
    assert told["backoff"]["base_ms"] == 50
    made = await send(client, "tasks", 201, queue="q", type="t", payload=1, policy=told)
    clone = await read(client, f"/api/tasks/{made['id']}")
    assert {name: clone[name] for name in policy} == told


@pytest.mark.parametrize(
    ("policy", "path"),
    [
        ({"backoff": {"kind": "random"}}, "policy.backoff"),
        ({"backoff": {"kind": "fixed", "delay_ms": 10**30}}, "policy.backoff"),
        ({"backoff": {"kind": "exponential", "factor": "x"}}, "policy.backoff"),
        ({"metadata": {"$date": "2026-01-31T12:00:00Z"}}, "policy.metadata"),
        ({"metadata": {"x": {"$int": "x"}}}, "policy.metadata.x"),
        ({"metadata": [1]}, "policy.metadata"),
        ({"retry_until": "2099-01-01T00:00:00"}, "policy.retry_until"),
    ],
)
async def test_settings_that_make_no_sense_are_named(
    mem_lab: Lab, browse: Browse, policy: dict[str, Any], path: str
) -> None:
    await mem_lab.store.register_queue(QueuePolicy("q"))
    client = browse(open_to_all(mem_lab.store))
    refused = await send(client, "tasks", 400, queue="q", type="t", policy=policy)
    assert [each["path"] for each in refused["errors"]] == [path]


@pytest.mark.parametrize("number", ["1e999", "-1e999"])
async def test_a_number_that_would_be_infinite_is_refused(
    mem_lab: Lab, browse: Browse, number: str
) -> None:
    client = browse(open_to_all(mem_lab.store))
    body = f'{{"queue": "q", "type": "t", "payload": {number}}}'
    answer = await client.post(
        "/api/tasks", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400
    assert "beyond what a number can be" in answer.json()["detail"]


@pytest.mark.parametrize("source", ["manager", "types"])
async def test_a_known_type_has_a_schema_and_holds_payloads_against_it(
    mem_lab: Lab, browse: Browse, source: str
) -> None:
    if source == "manager":
        manager = Manager(mem_lab.store, queues=[QueuePolicy("q")])

        @manager.handler(EMAIL)
        async def _(payload: Email) -> None: ...

        app = open_to_all(manager)
    else:
        await mem_lab.store.register_queue(QueuePolicy("q"))
        app = open_to_all(mem_lab.store, types=[EMAIL])
    client = browse(app)
    found = await read(client, "/api/schema", queue="q", type="send")
    assert found["schema"]["properties"]["to"] == {"title": "To", "type": "string"}
    assert found["description"] == "Sends an e-mail."
    assert await send(client, "tasks/validate", queue="q", type="send", payload={"to": "x"}) == {
        "ok": True
    }
    for path in ("tasks/validate", "tasks"):
        refused = await send(client, path, 422, queue="q", type="send", payload={"count": 0})
        assert [each["path"] for each in refused["errors"]] == ["to", "count"]
    made = await send(client, "tasks", 201, queue="q", type="send", payload={"to": "x"})
    stored = await mem_lab.get(made["id"])
    assert stored.payload == {"to": "x", "count": 1}
    assert (await read(client, f"/api/tasks/{made['id']}"))["schema"] is True


async def test_a_type_that_nobody_knows_here_has_no_schema(mem_lab: Lab, browse: Browse) -> None:
    client = browse(open_to_all(mem_lab.store))
    found = await read(client, "/api/schema", queue="q", type="send")
    assert (found["schema"], found["description"]) == (None, None)
    assert await send(client, "tasks/validate", queue="q", type="t", payload=[1]) == {"ok": True}


async def finished(client: httpx.AsyncClient, job: Any) -> Any:
    async def over() -> Any:
        found = await read(client, f"/api/jobs/{job['id']}")
        return None if found["state"] == "running" else found

    return await until(over)


async def test_all_that_fit_a_search_are_acted_on_in_the_background(
    lab: Lab, browse: Browse
) -> None:
    await lab.store.register_queue(QueuePolicy("q"))
    for number in range(5):
        await dead(lab, tags=["x"] if number < 3 else [])
    client = browse(open_to_all(lab.store, identify=lambda _: "ann"))
    job = await send(client, "jobs", 202, action="requeue", query="queue:q tag:x")
    assert job["total"] == {"value": 3, "is_exact": True}
    assert job["user"] == "ann"
    done = await finished(client, job)
    assert (done["state"], done["changed"], done["refused_count"]) == ("done", 3, 0)
    assert (await read(client, "/api/tasks/count", q="status:dead"))["value"] == 2
    job = await send(client, "jobs", 202, action="cancel", query="status:pending")
    assert (await finished(client, job))["changed"] == 3
    job = await send(client, "jobs", 202, action="delete", query="", everything=True)
    assert (await finished(client, job))["changed"] == 5
    listed = (await read(client, "/api/jobs"))["jobs"]
    assert [each["action"] for each in listed] == ["delete", "cancel", "requeue"]
    log = (await read(client, "/api/audit"))["entries"]
    assert [each["report"]["changed"] for each in log] == [5, 3, 3]
    assert log[-1]["details"] == {"query": "queue:q tag:x", "total": 3}


@pytest.mark.parametrize(
    ("action", "query", "acted"),
    [
        ("delete", "queue:q", 3),
        ("delete", "queue:q status:done,dead,cancelled", 1),
        ("requeue", "queue:q", 1),
        ("requeue", "status:pending", 0),
        ("cancel", "queue:q", 2),
        ("cancel", "status:dead", 0),
    ],
)
async def test_what_an_action_would_do_is_counted_and_then_done(
    lab: Lab, browse: Browse, action: str, query: str, acted: int
) -> None:
    await lab.store.register_queue(QueuePolicy("q"))
    await lab.enqueue()
    await lab.enqueue()
    await dead(lab)
    client = browse(open_to_all(lab.store))
    count = await read(client, "/api/tasks/count", q=query, action=action)
    job = await send(client, "jobs", 202, action=action, query=query)
    assert count == job["total"] == {"value": acted, "is_exact": True}
    assert (await finished(client, job))["changed"] == acted


async def test_whose_job_it_is_and_of_what_takes_the_permission_to_see_the_audit(
    mem_lab: Lab, browse: Browse
) -> None:
    await mem_lab.store.register_queue(QueuePolicy("q"))
    app = dashboard(
        mem_lab.store,
        authorize=lambda request: (
            set(Permission)
            - (set() if request.headers["who"] == "boss" else {Permission.VIEW_AUDIT})
        ),
        identify=lambda request: request.headers["who"],
    )
    ann, bob, boss = browse(app), browse(app), browse(app)
    for client, name in ((ann, "ann"), (bob, "bob"), (boss, "boss")):
        client.headers["who"] = name
    query = "payload.card:42"
    job = await send(ann, "jobs", 202, action="cancel", query=query)
    await finished(ann, job)
    for client, told in ((ann, ("ann", query)), (bob, (None, None)), (boss, ("ann", query))):
        (listed,) = (await read(client, "/api/jobs"))["jobs"]
        found = await read(client, f"/api/jobs/{job['id']}")
        assert listed == found
        assert (found["user"], found["query"]) == told


async def test_chosen_tasks_are_acted_on_and_refusals_are_named(lab: Lab, browse: Browse) -> None:
    await lab.store.register_queue(QueuePolicy("q"))
    waiting, gone = str(await lab.enqueue()), str(lab.store.new_id())
    chosen = [await dead(lab), waiting, gone, await dead(lab)]
    client = browse(open_to_all(lab.store))
    job = await send(client, "jobs", 202, action="requeue", ids=[*chosen, chosen[0]])
    done = await finished(client, job)
    assert (done["state"], done["changed"], done["ids"]) == ("done", 2, 4)
    assert [each["id"] for each in done["refused"]] == [waiting, gone]


async def test_a_job_can_be_stopped_and_is_known_to_other_processes(
    lab: Lab, browse: Browse
) -> None:
    await lab.store.register_queue(QueuePolicy("q"))
    chosen = [await dead(lab) for _ in range(3)]
    client = browse(open_to_all(lab.store))
    other = browse(open_to_all(lab.store))
    job = await send(client, "jobs", 202, action="requeue", ids=chosen, per_second=1)
    assert (await read(other, f"/api/jobs/{job['id']}"))["state"] == "running"
    await until(lambda: changed(client, job))
    await send(client, f"jobs/{job['id']}/stop")
    done = await finished(client, job)
    assert done["state"] == "stopped"
    assert 1 <= done["changed"] < 3
    elsewhere = await finished(other, job)
    assert (elsewhere["state"], elsewhere["changed"]) == ("stopped", done["changed"])
    assert await send(other, f"jobs/{job['id']}/stop") == elsewhere  # it is over
    log = (await read(client, "/api/audit"))["entries"]
    assert [each["action"] for each in log] == ["stop", "requeue"]
    assert log[0]["target"] == {"job": job["id"]}


async def test_a_job_can_be_stopped_from_another_process(
    lab: Lab, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_jobs, "_TOLD_SECONDS", 0.05)
    await lab.store.register_queue(QueuePolicy("q"))
    chosen = [await dead(lab) for _ in range(50)]
    client = browse(open_to_all(lab.store))
    other = browse(open_to_all(lab.store, identify=lambda _: "bob"))
    nobody = browse(dashboard(lab.store, authorize=lambda _: {Permission.VIEW, Permission.DELETE}))
    job = await send(client, "jobs", 202, action="requeue", ids=chosen, per_second=1)
    assert (await send(nobody, f"jobs/{job['id']}/stop", 403))["permission"] == "requeue"
    asked = await send(other, f"jobs/{job['id']}/stop")
    assert (asked["state"], asked["is_stopping"]) == ("running", True)
    done = await finished(client, job)
    assert (done["state"], done["is_stopping"]) == ("stopped", False)
    elsewhere = await finished(other, job)
    assert (elsewhere["state"], elsewhere["is_stopping"]) == ("stopped", False)
    (stop,) = (await read(client, "/api/audit", action="stop"))["entries"]
    assert stop["user"] == "bob"


async def changed(client: httpx.AsyncClient, job: Any) -> bool:
    return bool((await read(client, f"/api/jobs/{job['id']}"))["changed"])


async def test_a_job_that_the_store_fails_says_so(
    mem_lab: Lab, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise StoreUnavailableError("the database did not answer")

    await mem_lab.store.register_queue(QueuePolicy("q"))
    await dead(mem_lab)
    monkeypatch.setattr(mem_lab.store, "transition", away)
    client = browse(open_to_all(mem_lab.store))
    job = await send(client, "jobs", 202, action="requeue", query="queue:q")
    done = await finished(client, job)
    assert (done["state"], done["error"]) == ("failed", "the database did not answer")


@pytest.mark.parametrize("action", ["requeue", "cancel", "delete"])
async def test_a_job_takes_the_permission_of_its_action(
    mem_lab: Lab, browse: Browse, action: str
) -> None:
    others = set(Permission) - {Permission(action)}
    client = browse(dashboard(mem_lab.store, authorize=lambda _: others))
    refused = await send(client, "jobs", 403, action=action, query="queue:q")
    assert refused["permission"] == action


async def test_so_many_jobs_run_at_once_and_no_more(mem_lab: Lab, browse: Browse) -> None:
    chosen = [await dead(mem_lab), await dead(mem_lab)]
    client = browse(open_to_all(mem_lab.store))
    body: dict[str, Any] = {"action": "cancel", "ids": chosen, "per_second": 1}
    begun = [await send(client, "jobs", 202, **body) for _ in range(10)]
    assert (await send(client, "jobs", 429, **body))["code"] == "too_many_jobs"
    for job in begun:
        await send(client, f"jobs/{job['id']}/stop")
        await finished(client, job)
    await finished(client, await send(client, "jobs", 202, **{**body, "per_second": 100}))


async def test_jobs_are_forgotten_after_an_hour(mem_lab: Lab, browse: Browse) -> None:
    client = browse(open_to_all(mem_lab.store))
    await finished(client, await send(client, "jobs", 202, action="cancel", query="queue:q"))
    mem_lab.pass_time(HOUR + MINUTE)
    assert (await read(client, "/api/jobs"))["jobs"] == []


async def test_an_audit_that_cannot_be_written_undoes_nothing(
    mem_lab: Lab, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(_entry: object) -> None:
        raise StoreUnavailableError

    await mem_lab.store.register_queue(QueuePolicy("q"))
    client = browse(open_to_all(mem_lab.store))
    with monkeypatch.context() as outage:
        outage.setattr(mem_lab.store, "audit", away)
        await send(client, "queues/pause", queue="q")
    (queue,) = await mem_lab.store.overview()  # type: ignore[attr-defined]  # memory has it
    assert queue.pause is not None
    # It is written when the store takes it again.
    (entry,) = (await read(client, "/api/audit"))["entries"]
    assert (entry["action"], entry["outcome"]) == ("pause", "done")


async def test_an_entry_that_is_refused_does_not_keep_others_out(
    mem_lab: Lab, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_entry: object) -> None:
        raise StoreError("the document is too large")

    await mem_lab.store.register_queue(QueuePolicy("q"))
    client = browse(open_to_all(mem_lab.store))
    with monkeypatch.context() as refusing:
        refusing.setattr(mem_lab.store, "audit", refuse)
        await send(client, "queues/pause", queue="q")
    await send(client, "queues/resume", queue="q")
    assert [each["action"] for each in (await read(client, "/api/audit"))["entries"]] == ["resume"]


IMPATIENT = timedelta(milliseconds=100)


@pytest.mark.parametrize(
    ("operation", "path", "body", "action"),
    [
        ("get", f"tasks/{MISSING}/cancel", {}, "cancel"),
        ("pause_queue", "queues/pause", {"queue": "q"}, "pause"),
        ("change_queue", "queues/policy/reset", {"queue": "q"}, "reset_policy"),
        ("insert", "tasks", {"queue": "q", "type": "t"}, "enqueue"),
        ("count_tasks", "jobs", {"action": "delete", "query": "queue:q"}, "delete"),
    ],
)
async def test_a_change_that_takes_too_long_is_given_up_and_told_of(
    mem_lab: Lab,
    browse: Browse,
    monkeypatch: pytest.MonkeyPatch,
    operation: str,
    path: str,
    body: dict[str, Any],
    action: str,
) -> None:
    async def hang(*_: object, **__: object) -> None:
        await anyio.sleep_forever()

    await mem_lab.store.register_queue(QueuePolicy("q"))
    monkeypatch.setattr(mem_lab.store, operation, hang)
    client = browse(open_to_all(mem_lab.store, patience=IMPATIENT))
    answer = await client.post(f"/api/{path}", json=body)
    assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
    assert answer.headers["retry-after"] == "2"
    (entry,) = (await read(client, "/api/audit"))["entries"]
    assert (entry["action"], entry["outcome"]) == (action, "failed")
    assert "longer than 0.1 s" in entry["error"]
    is_counted = action == "delete"  # a job has done nothing yet
    assert ("look before you try again" in entry["error"]) is not is_counted
    assert ("may have been done" in answer.json()["detail"]) is not is_counted
    assert (await read(client, "/api/jobs"))["jobs"] == []


async def test_an_audit_that_takes_too_long_holds_nobody_up(
    mem_lab: Lab, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(_entry: object) -> None:
        await anyio.sleep_forever()

    await mem_lab.store.register_queue(QueuePolicy("q"))
    monkeypatch.setattr(mem_lab.store, "audit", hang)
    client = browse(open_to_all(mem_lab.store, patience=IMPATIENT))
    await send(client, "queues/pause", queue="q")
    (queue,) = (await read(client, "/api/overview"))["queues"]
    assert queue["pause"]


async def test_what_fails_unforeseen_is_in_the_audit(
    mem_lab: Lab, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise OverflowError

    await mem_lab.store.register_queue(QueuePolicy("q"))
    monkeypatch.setattr(mem_lab.store, "pause_queue", broken)
    client = browse(open_to_all(mem_lab.store))
    assert (await send(client, "queues/pause", 500, queue="q"))["code"] == "internal"
    (entry,) = (await read(client, "/api/audit"))["entries"]
    assert (entry["action"], entry["outcome"]) == ("pause", "failed")


async def test_names_of_users_are_made_fit_to_be_recorded(mem_lab: Lab, browse: Browse) -> None:
    await mem_lab.store.register_queue(QueuePolicy("q"))
    app = dashboard(mem_lab.store, authorize=everything, identify=lambda _: f"$<b>\n{'x' * 500}\0")
    client = browse(app)
    await send(client, "queues/pause", queue="q")
    (entry,) = (await read(client, "/api/audit"))["entries"]
    assert entry["user"] == f"<b>{'x' * 96}"


async def test_pausing_until_a_time_is_told_as_a_time(mem_lab: Lab, browse: Browse) -> None:
    await mem_lab.store.register_queue(QueuePolicy("q"))
    client = browse(open_to_all(mem_lab.store))
    until_then = (mem_lab.store.clock.now() + timedelta(days=1)).isoformat()
    await send(client, "queues/pause", queue="q", until=until_then)
    (queue,) = (await read(client, "/api/overview"))["queues"]
    assert queue["pause"]["until"] == "2026-01-02T12:00:00.000Z"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"tasks/{MISSING}/cancel", {}),
        ("queues/pause", {"queue": "q"}),
        ("jobs", {"action": "delete", "query": "queue:q"}),
    ],
)
async def test_a_change_in_a_store_that_was_never_reached_is_told_of(
    browse: Browse, path: str, body: dict[str, Any]
) -> None:
    store = MongoStore("mongodb://127.0.0.1:9", database="app")
    try:
        client = browse(open_to_all(store, patience=IMPATIENT))
        answer = await client.post(f"/api/{path}", json=body)
    finally:
        await store.aclose()
    assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
