"""Enqueuing from the command line, and acting on single tasks."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import anyio
import pytest

from gotasks_memstore import MemStore
from gotasks_py import Status, StoreUnavailableError, TaskFailedError
from tests.cli import shop
from tests.cli.conftest import Terminal
from tests.lab import ManualClock, MemHand

EMAIL = {"to": "a@b.c"}
NOWHERE = "f" * 24


def work_off(task_id: str) -> None:
    """Let the shop's manager run a task to its end."""

    async def run() -> None:
        async with shop.manager as manager:
            handle = await manager.handle(task_id)
            with suppress(TaskFailedError):
                await handle.result(10)

    anyio.run(run)


def spoil(task_id: str, **fields: object) -> None:
    """Write into a stored task by hand."""
    assert isinstance(shop.manager.store, MemStore)
    hand = MemHand(shop.manager.store, ManualClock())
    hand.write({**(hand.read(task_id) or {}), **fields})


def test_an_enqueued_task_has_what_was_asked_for(gotasks: Terminal) -> None:
    ended = gotasks(
        *("enqueue", "emails", "send", '{"to": "a@b.c"}', "--output", "json"),
        *("--priority", "7", "--max-attempts", "2", "--unique-key", "k"),
        *("--tag", "one", "--tag", "two", "--delay", "3600"),
    )
    task = ended.json
    assert (ended.code, ended.err) == (0, "")
    assert task["payload"] == {"to": "a@b.c", "copies": 1}
    assert (task["priority"], task["max_attempts"], task["unique_key"]) == (7, 2, "k")
    assert task["tags"] == ["one", "two"]
    due = datetime.fromisoformat(task["run_at"]) - datetime.now(UTC)
    assert timedelta(minutes=59) < due <= timedelta(hours=1)


def test_a_payload_comes_from_standard_input(gotasks: Terminal) -> None:
    ended = gotasks("enqueue", "reports", "monthly", "-", "-o", "json", stdin='"2026-11"')
    assert ended.json["payload"] == {"value": "2026-11"}


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("emails", "send", '{"to": 5}'), 2, "to: Input should be a valid string"),
        (("emails", "send", "{"), 2, "the payload is not JSON"),
        (("emails", "sned", '{"to": "a"}'), 4, "no handler for 'sned'"),
        (("email", "send", '{"to": "a"}'), 4, "queue 'email' is not declared"),
        (("emails", "send", '{"to": "a"}', "--run-at", "soon"), 2, "--run-at is not a time"),
        (("emails", "send", '{"to": "a"}', "--run-at", "2026-01-01"), 2, "time zone"),
        (("emails", "send", '{"to": "a"}', "--priority", "high"), 2, "--priority"),
        (("emails", "send", '{"to": "a"}', "--priority", str(2**31)), 2, "priority"),
        (("emails", "send", '{"to": "a"}', "--priority", str(-(10**30))), 2, "priority"),
        (("emails", "send", '{"to": "a"}', "--timeout", "1"), 2, "give both"),
        (("emails", "send", '{"to": "a"}', "--wait", "--timeout", "1e30"), 2, "--timeout"),
        (("emails", "send", '{"to": "a"}', "--max-attempts", "0"), 2, "--max-attempts"),
        (("emails", "send", '{"to": "a"}', "--unique-key", "$k"), 2, "must not start with '$'"),
        (("emails",), 2, "Missing argument 'TYPE'"),
        (("", "send", "{}"), 2, "QUEUE is empty"),
        (("emails", " ", "{}"), 2, "TYPE is empty"),
        (("emails", "send", '{"to": NaN}'), 2, "the payload is not JSON: NaN is no number"),
        (
            ("emails", "send", '{"to": -Infinity}'),
            2,
            "the payload is not JSON: -Infinity is no number",
        ),
        (("emails", "send", '{"to": 1e999}'), 2, "the payload is not JSON: 1e999 is too large"),
        (("emails", "send", "[" * 100_000), 2, "it nests too deeply"),
    ],
)
def test_what_cannot_be_enqueued_is_refused_in_one_line(
    gotasks: Terminal, arguments: tuple[str, ...], code: int, says: str
) -> None:
    ended = gotasks("enqueue", *arguments)
    assert ended.code == code, ended.err
    assert says in ended.err
    assert ended.err.startswith("gotasks: ")
    assert ended.err.count("\n") == 1
    assert ended.out == ""
    assert anyio.run(shop.manager.store.queues) == {}


def test_a_task_is_waited_for_and_how_it_ended_is_the_exit_code(
    gotasks: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("enqueue", "emails", "send", json.dumps(EMAIL), "--wait")
    ended = gotasks(*words, "--timeout", "0")
    assert ended.code == 124
    assert "pending" in ended.err
    late = gotasks(*words, "--timeout", "0", "-o", "json")
    assert (late.code, late.json["status"]) == (124, "pending")
    ends: dict[str, object] = {"status": "done", "result": {"value": "sent"}}

    async def inserted(insert: Any, document: Any, **settings: Any) -> None:
        await insert({**document, **ends, "finished_at": document["created_at"]}, **settings)

    insert = shop.manager.store.insert
    monkeypatch.setattr(shop.manager.store, "insert", partial(inserted, insert))
    done = gotasks(*words, "-o", "json")
    assert (done.code, done.json["result"]) == (0, {"value": "sent"})
    for status in ("dead", "cancelled"):
        ends["status"] = status
        ended = gotasks(*words, "-o", "json")
        assert ended.code == 1
        assert (ended.json["status"], len(ended.json["id"])) == (status, 24)
        assert f"is {status}" in ended.err


def test_a_task_that_cannot_be_read_again_is_told_by_its_id(
    gotasks: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def get(task_id: object) -> None:
        raise StoreUnavailableError("the store has gone")

    monkeypatch.setattr(shop.manager.store, "get", get)
    ended = gotasks("enqueue", "emails", "send", json.dumps(EMAIL), "--wait", "-o", "json")
    assert ended.code == 6
    assert ended.err == "gotasks: the store has gone\n"
    (stored,) = anyio.run(shop.manager.find_tasks).tasks
    told = {"id": str(stored.id), "queue": "emails", "type": "send", "status": None}
    assert ended.json == told


def test_numbers_that_json_has_no_words_for_are_told_as_texts(gotasks: Terminal) -> None:
    task_id = gotasks.enqueue("emails", "send", EMAIL)
    odd = [float("nan"), {"x": float("inf")}, -float("inf"), 1.5]
    spoil(task_id, payload={"value": odd}, progress=float("nan"))
    ended = gotasks("task", "show", task_id, "-o", "json")
    told = json.loads(ended.out, parse_constant=pytest.fail)
    assert told["payload"] == {"value": ["NaN", {"x": "Infinity"}, "-Infinity", 1.5]}
    assert told["progress"] == "NaN"
    assert '["NaN", {"x": "Infinity"}, "-Infinity", 1.5]' in gotasks("task", "show", task_id).out


def test_a_second_task_of_a_key_is_refused(gotasks: Terminal) -> None:
    first = gotasks.enqueue("emails", "send", EMAIL, "--unique-key", "k")
    ended = gotasks("enqueue", "emails", "send", '{"to": "x"}', "--unique-key", "k")
    assert ended.code == 5
    assert first in ended.err


def test_show_prints_a_table_without_what_is_not_set(gotasks: Terminal) -> None:
    task_id = gotasks.enqueue("emails", "send", {"to": "a@b.c\x1b[31m [bold]"})
    ended = gotasks("task", "show", task_id)
    lines = dict(line.split(maxsplit=1) for line in ended.out.splitlines())
    assert ended.code == 0
    assert (lines["id"], lines["queue"], lines["status"]) == (task_id, "emails", "pending")
    assert lines["payload"] == '{"to": "a@b.c\\u001b[31m [bold]", "copies": 1}'
    assert "unique_key" not in lines


def test_a_table_never_sends_control_characters_to_the_terminal(gotasks: Terminal) -> None:
    task_id = gotasks.enqueue("emails", "send", EMAIL)
    spoil(task_id, progress="\x1b[2J[red]50 %")
    assert "\\x1b[2J[red]50 %" in gotasks("task", "show", task_id).out


def test_a_dead_letter_is_retried(gotasks: Terminal) -> None:
    task_id = gotasks.enqueue("reports", "monthly", "2026-11")
    work_off(task_id)
    dead = gotasks("task", "show", task_id, "-o", "json").json
    assert dead["status"] == Status.DEAD
    assert dead["errors"][0]["message"] == "no figures for 2026-11"
    ended = gotasks("task", "retry", task_id, "-o", "json")
    assert (ended.code, ended.json["status"], ended.json["attempts"]) == (0, "pending", 0)
    again = gotasks("task", "retry", task_id)
    assert again.code == 5
    assert "only a dead task can be requeued" in again.err


def test_a_task_is_cancelled_once(gotasks: Terminal) -> None:
    task_id = gotasks.enqueue("emails", "send", EMAIL)
    assert gotasks("task", "cancel", task_id, "-o", "json").json["status"] == "cancelled"
    assert gotasks("task", "cancel", task_id).code == 5


def test_a_task_is_deleted_when_somebody_says_so(gotasks: Terminal) -> None:
    task_id = gotasks.enqueue("emails", "send", EMAIL)
    asked = gotasks("task", "delete", task_id)
    assert (asked.code, gotasks("task", "show", task_id).code) == (2, 0)
    assert "give --yes" in asked.err
    assert gotasks("task", "delete", task_id, "--yes").code == 0
    assert gotasks("task", "show", task_id).code == 4


def test_explain_says_why_a_task_is_not_running(gotasks: Terminal) -> None:
    task_id = gotasks.enqueue("emails", "send", EMAIL)
    assert "no manager says that it is there" in gotasks("task", "explain", task_id).out
    gotasks("queue", "pause", "emails", "--by", "ann")
    ended = gotasks("task", "explain", task_id, "-o", "json")
    told = {name: ended.json[name] for name in ("id", "status", "reason", "by", "until")}
    assert (ended.code, told) == (
        0,
        {"id": task_id, "status": "pending", "reason": "queue_paused", "by": "ann", "until": None},
    )
    assert ended.json["because"].startswith("queue 'emails' was paused by ann at ")


@pytest.mark.parametrize("command", ["show", "explain", "retry", "cancel", "delete"])
def test_an_empty_id_is_none(gotasks: Terminal, command: str) -> None:
    ended = gotasks("task", command, "")
    assert (ended.code, ended.err) == (2, "gotasks: ID is empty\n")


@pytest.mark.parametrize("command", ["show", "explain", "retry", "cancel"])
@pytest.mark.parametrize("task_id", [NOWHERE, "x", '{"$ne": 1}'])
def test_an_unknown_id_is_not_found(gotasks: Terminal, command: str, task_id: str) -> None:
    ended = gotasks("task", command, task_id)
    assert (ended.code, ended.out) == (4, "")
    assert ended.err.startswith(f"gotasks: no task {task_id}")


def test_a_lease_token_is_shown_to_nobody(gotasks: Terminal) -> None:
    task_id = gotasks.enqueue("emails", "send", EMAIL)
    spoil(task_id, lease={"token": "secret", "owner": "w", "until": datetime.now(UTC)})
    shown = gotasks("task", "show", task_id, "-o", "json")
    assert json.loads(shown.out)["lease"]["owner"] == "w"
    assert "secret" not in shown.out
