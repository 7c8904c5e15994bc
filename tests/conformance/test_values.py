"""Values of users are stored as they are, whatever they look like to a database."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gotasks_py import lifecycle
from gotasks_py.lifecycle import Failure
from gotasks_py.task import Status
from tests.lab import MINUTE, Lab, a_renewal, ref_of

pytestmark = pytest.mark.anyio

LOOKS: dict[str, object] = {
    "the path of a field": "$lease.token",
    "a variable": "$$NOW",
    "the root": "$$ROOT",
    "removal": "$$REMOVE",
    "an unknown field": "$5.00",
    "a lone dollar": "$",
    "two dollars": "$$",
    "an unknown variable": "$$foo",
    "a key with a dot": {"a.b": 1},
    "a key with a dollar": {"$x": 1},
    "an operator": {"$literal": 1},
    "a deep operator": {"a": [{"b": {"$add": [1, "$attempts"]}}]},
    "nothing in a document": {},
    "an empty key": {"": 1},
    "nothing in a list": [],
    "paths in a list": ["$_id", {"x": "$$NOW"}],
    "empty text": "",
    "false": False,
    "zero": 0,
    "a long number": 2**63 - 1,
    "a fraction": 0.1,
    "infinity": float("inf"),
    "bytes": b"\x00\x01",
    "text with a NUL": "a\x00b",
    "a time": datetime(2020, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC),
    "nulls": {"a": None, "b": [None]},
    "deep": {"a": {"a": {"a": {"a": {"a": {"a": [[[[{"a": "$a"}]]]]}}}}}},
}


async def test_results_progress_and_payloads_come_back_unchanged(lab: Lab) -> None:
    for look, value in LOOKS.items():
        task = await lab.claimed(payload=value, metadata={"m": value})
        assert (task.payload, task.metadata) == (value, {"m": value}), look

        assert await lab.store.settle(ref_of(task), lifecycle.progressed(value))
        assert (await lab.get(task.id)).progress == value, look

        assert await lab.store.settle(ref_of(task), lifecycle.completed(value))
        done = await lab.get(task.id)
        assert (done.status, done.result, done.progress) == (Status.DONE, value, value), look
        assert isinstance(done.result, type(value)), look


@pytest.mark.parametrize("text", ["$lease.token", "$$NOW", "$", "$$foo", "a.b", "{}", ""])
async def test_names_and_messages_are_text_and_nothing_else(lab: Lab, text: str) -> None:
    await lab.enqueue(tags=[text])
    task = await lab.claim(token=text or "t", owner=text)
    assert task is not None
    assert task.lease is not None
    assert (task.lease.token, task.lease.owner, task.tags) == (text or "t", text, (text,))

    failure = Failure(1, text, text, text, text)
    patch = lifecycle.retried(failure, -MINUTE)
    assert await lab.store.settle(ref_of(task), patch)

    (error,) = (await lab.get(task.id)).errors
    assert (error.worker, error.kind, error.message, error.traceback) == (text,) * 4


@pytest.mark.parametrize("owner", ["$lease.token", "$$NOW", "a.b", "$"])
async def test_the_owner_of_a_lapsed_lease_is_named_as_it_was(lab: Lab, owner: str) -> None:
    await lab.enqueue()
    assert await lab.claim(owner=owner) is not None
    lab.pass_time(2 * MINUTE)

    task = await lab.claim()

    assert task is not None
    (error,) = task.errors
    assert (error.worker, error.message) == (owner, f"lease of {owner} expired")


async def test_a_document_over_a_document_replaces_it(lab: Lab) -> None:
    task = await lab.claimed(result={"old": 1, "both": {"old": 1}})
    await lab.store.settle(ref_of(task), lifecycle.progressed({"a": 1, "deep": {"x": 1}}))
    await lab.store.settle(ref_of(task), lifecycle.progressed({"b": 2, "deep": {"y": 2}}))
    assert (await lab.get(task.id)).progress == {"b": 2, "deep": {"y": 2}}
    await lab.store.settle(ref_of(task), lifecycle.progressed({}))
    assert (await lab.get(task.id)).progress == {}

    result = {"new": 1, "both": {"new": 1}}
    await lab.store.settle(ref_of(task), lifecycle.completed(result))

    assert (await lab.get(task.id)).result == result


async def test_a_new_lease_replaces_the_old_one(lab: Lab) -> None:
    task = await lab.claimed()
    lease = lab.raw(task.id)["lease"]
    assert isinstance(lease, dict)
    lab.edit(task.id, lease={**lease, "left": "over"})
    lab.pass_time(2 * MINUTE)

    assert await lab.claim() is not None

    renewed = lab.raw(task.id)["lease"]
    assert isinstance(renewed, dict)
    assert set(renewed) == {"token", "owner", "until", "due_at"}


async def test_a_new_error_entry_is_not_mixed_with_others(lab: Lab) -> None:
    task = await lab.claimed(errors=[{"message": "old", "extra": 1}])

    failure = Failure(1, "w", "E", "new")
    await lab.store.settle(ref_of(task), lifecycle.died(failure))

    old, new = (await lab.get(task.id)).errors
    assert (old.message, new.message) == ("old", "new")
    errors = lab.raw(task.id)["errors"]
    assert isinstance(errors, list)
    assert set(errors[1]) == {"at", "attempt", "worker", "kind", "message", "traceback"}


async def test_a_renewal_compares_tokens_as_text(lab: Lab) -> None:
    await lab.enqueue()
    task = await lab.claim(token="$lease.token")
    assert task is not None

    renewed = await lab.store.renew([a_renewal(task)])

    assert renewed.lost == frozenset()
