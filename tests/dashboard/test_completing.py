"""A search is completed from what there really is."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from gotasks_dashboard import Permission, dashboard
from gotasks_dashboard._query import index_of, units
from gotasks_py import Node, QueuePolicy, TaskType
from gotasks_py.metering import Beat, Metering, Report
from tests.dashboard.conftest import Browse, open_to_all, read
from tests.lab import HOUR, Lab

pytestmark = pytest.mark.anyio


class User(BaseModel):
    id: int


class Email(BaseModel):
    user: User
    to: str


EMAIL = TaskType("emails", "send", Email, None)


@pytest.fixture
async def filled(lab: Lab) -> Lab:
    for name in ("emails", "a b"):
        await lab.store.register_queue(QueuePolicy(name))
    await lab.enqueue(queue="emails", tags=["welcome", "week 1", "<b>"])
    users: list[Any] = [{"id": 42, "name": "ann"}, {"id": "42"}, {"id": [42]}]
    for user in users:
        await lab.enqueue(queue="emails", payload={"user": user, "a.b": 1})
    await lab.enqueue(queue="emails", unique_key="k 1", payload={"to": "x"})
    error = {"at": lab.store.clock.now(), "kind": "E", "message": "no"}
    dead = await lab.enqueue(queue="emails")
    lab.edit(dead, "due_at", status="dead", errors=[error], error_fingerprint="f" * 16)
    assert isinstance(lab.store, Metering)
    node = Node(id="m.1", host="h", pid=1, version="1", types={"emails": ["send"], "a b": ["x"]})
    await lab.store.report(Report(beat=Beat(node=node, good_for=HOUR)))
    return lab


def labels(found: Any) -> list[str]:
    return [each["label"] for each in found["items"]]


async def test_values_are_those_that_there_are(filled: Lab, browse: Browse) -> None:
    client = browse(open_to_all(filled.store))
    for typed, expected in (
        ("queue:", ["a b", "emails"]),
        ("queue:mail", ["emails"]),
        ('queue:"a', ["a b", "emails"]),
        ("queue:none", []),
        ("type:", ["x", "send"]),
        ("queue:emails type:", ["send"]),
        ('queue:"a b" type:', ["x"]),
        ("status:d", ["done", "dead", "pending", "cancelled"]),
        ("status:dead,d", ["dead,done"]),
        ("QUEUE:em", ["emails"]),
        ("key:", ["k 1"]),
        ("queue:emails key:no", []),
        ("payload.user.id:", ['"42"', "42"]),
        ("payload.user.name:a", ["ann"]),
        ("payload.user:", []),
        ("payload.us", ["payload.user", "payload.user.id", "payload.user.name"]),
        ("queue:a\x00b fingerprint:f", ["f" * 16]),
        ("tag:we", ["week 1", "welcome"]),
        ("tag:<", ["<b>"]),
        ("worker:", ["m.1"]),
        ("fingerprint:", ["f" * 16]),
        ("after:", ["now", "30m", "1h", "24h", "7d"]),
        ("error:", ["no"]),
        ("error:n", ["no"]),
        ("nonsense:", []),
    ):
        assert labels(await read(client, "/api/complete", q=typed)) == expected, typed


async def test_a_completion_says_what_it_takes_the_place_of(filled: Lab, browse: Browse) -> None:
    client = browse(open_to_all(filled.store))
    found = await read(
        client, "/api/complete", q="tag:😀 queue:a status:dead", at=len("tag:xx queue:a")
    )
    assert (found["from"], found["to"]) == (7, 14)
    assert found["items"][0] == {
        "text": 'queue:"a b" ',
        "label": "a b",
        "kind": "queue",
        "detail": "0 due",
    }


async def test_names_are_completed_once(filled: Lab, browse: Browse) -> None:
    client = browse(open_to_all(filled.store, types=[EMAIL]))
    assert "queue" in labels(await read(client, "/api/complete"))
    assert labels(await read(client, "/api/complete", q="queue:emails st")) == ["status"]
    assert labels(await read(client, "/api/complete", q="queue:emails qu")) == []
    assert labels(await read(client, "/api/complete", q="pay")) == ["payload.PATH"]
    found = await read(client, "/api/complete", q="type:send payload.user")
    assert labels(found) == ["payload.user", "payload.user.id"]


async def test_without_the_permission_payloads_are_not_hinted_at(
    mem_lab: Lab, browse: Browse
) -> None:
    client = browse(dashboard(mem_lab.store, authorize=lambda _: {Permission.VIEW}, types=[EMAIL]))
    await mem_lab.enqueue(payload={"user": {"id": 42}}, unique_key="k")
    for typed in ("payload.", "payload.user.id:"):
        assert labels(await read(client, "/api/complete", q=typed)) == []
    redacting = browse(open_to_all(mem_lab.store, redact=lambda task: task))
    for typed in ("payload.", "payload.user.id:", "key:", "error:"):
        assert labels(await read(redacting, "/api/complete", q=typed)) == []


@pytest.mark.parametrize("typed", ['"', 'tag:"open', ":", "::", "a:b:c", " ", "\\", 'x"y:'])
@pytest.mark.parametrize("at", [0, 1, 99])
async def test_whatever_is_typed_is_no_error(
    mem_lab: Lab, browse: Browse, typed: str, at: int
) -> None:
    found = await read(browse(open_to_all(mem_lab.store)), "/api/complete", q=typed, at=at)
    assert 0 <= found["from"] <= found["to"] <= len(typed)


def test_indexes_are_those_of_javascript() -> None:
    text = "a😀b"
    assert [units(text, index) for index in range(4)] == [0, 1, 3, 4]
    assert [index_of(text, unit) for unit in range(6)] == [0, 1, 1, 2, 3, 3]
