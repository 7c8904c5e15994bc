"""Pausing, changing and draining from the command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import anyio
import pytest

from gotasks_py.metering import Beat, Report
from gotasks_py.nodes import Node
from tests.cli import shop
from tests.cli.conftest import Terminal
from tests.cli.test_many import store
from tests.cli.test_tasks import EMAIL

HOUR = timedelta(hours=1)


def state(gotasks: Terminal) -> str:
    shown = gotasks("queue", "show", "emails", "-o", "json").json
    by = "" if shown["paused_by"] is None else f" by {shown['paused_by']}"
    until = "" if shown["paused_until"] is None else f" until {shown['paused_until']}"
    return f"{shown['state']}{until}{by}"


def test_a_queue_is_paused_and_resumed(gotasks: Terminal) -> None:
    gotasks.enqueue("emails", "send", EMAIL)
    ended = gotasks("queue", "pause", "emails", "--by", "ann")
    assert (ended.code, ended.err) == (0, "queue 'emails' is paused\n")
    assert state(gotasks) == "paused by ann"
    assert gotasks("queue", "resume", "emails").code == 0
    assert state(gotasks) == "open"


def test_a_pause_has_an_end_and_an_author(gotasks: Terminal) -> None:
    gotasks.enqueue("emails", "send", EMAIL)
    end = datetime.now(UTC) + HOUR
    assert gotasks("queue", "pause", "emails", "--until", end.isoformat()).code == 0
    assert state(gotasks).startswith(f"paused until {end:%Y-%m-%dT%H:%M:%S}.")
    assert gotasks("queue", "pause", "emails", "--for", "60").code == 0
    assert "paused until" in state(gotasks)


def test_a_policy_is_changed_and_as_declared_again(gotasks: Terminal) -> None:
    gotasks.enqueue("emails", "send", EMAIL)
    assert (
        gotasks("queue", "set", "emails", "--max-attempts", "9", "--ttl", "60", "--lanes", "4").code
        == 0
    )
    changed = gotasks.enqueue("emails", "send", EMAIL)
    assert gotasks("task", "show", changed, "-o", "json").json["max_attempts"] == 9
    backoff = {"kind": "linear", "jitter": 0.0, "base_ms": 1000, "cap_ms": 5000}
    assert gotasks("queue", "set", "emails", "--backoff", json.dumps(backoff)).code == 0
    shown = gotasks("queue", "show", "emails", "-o", "json").json
    assert shown["policy"]["backoff"] == backoff
    assert "backoff" in shown["changed"]
    assert gotasks("queue", "set", "emails", "--as-declared").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("queue", "pause", "nowhere"), 4, "'nowhere'"),
        (("queue", "resume", "nowhere"), 4, "'nowhere'"),
        (("queue", "set", "nowhere", "--weight", "2"), 4, "'nowhere'"),
        (("queue", "pause", "emails", "--until", "2020-01-01T00:00Z"), 2, "in the past"),
        (("queue", "pause", "emails", "--until", "2020-01-01"), 2, "needs a time zone"),
        (("queue", "pause", "emails", "--for", "1", "--until", "x"), 2, "not both"),
        (("queue", "set", "emails"), 2, "say what to set"),
        (("queue", "set", "emails", "--weight", "0"), 2, "--weight"),
        (("queue", "set", "emails", "--lanes", "65"), 2, "--lanes"),
        (("queue", "set", "emails", "--backoff", "fixed"), 2, "--backoff is not JSON"),
        (("queue", "set", "emails", "--backoff", "[]"), 2, "--backoff must be such as"),
        (("queue", "set", "emails", "--backoff", '{"kind": "slow"}'), 2, "not {"),
        (("queue", "set", "emails", "--backoff", '{"kind": "fixed", "base_ms": 1}'), 2, "not {"),
        (("node", "quiet", "m.1"), 4, "there is no manager 'm.1'; there are none"),
        (("node", "wake", "m.1"), 4, "there is no manager 'm.1'"),
        (("node", "drain", "m.1", "--yes"), 4, "there is no manager 'm.1'"),
        (("node", "drain", "m.1"), 2, "give --yes"),
    ],
)
def test_what_cannot_be_steered_is_refused_in_one_line(
    gotasks: Terminal, arguments: tuple[str, ...], code: int, says: str
) -> None:
    ended = gotasks(*arguments)
    assert ended.code == code, ended.err
    assert says in ended.err
    assert (ended.out, ended.err.count("\n")) == ("", 1)


@pytest.mark.parametrize(
    ("command", "order"), [("quiet", "quiet"), ("drain", "drain"), ("wake", None)]
)
def test_a_node_is_given_orders(gotasks: Terminal, command: str, order: str | None) -> None:
    node = Node(id="m.1", host="h", pid=7, version="1")
    anyio.run(store().report, Report(beat=Beat(node=node, good_for=HOUR)))
    assert gotasks("node", "quiet", "m.1").code == 0
    yes = ("--yes",) if command == "drain" else ()
    assert gotasks("node", command, "m.1", *yes).code == 0
    (listed,) = gotasks("node", "list", "-o", "json").json
    assert listed["state"] == (order or "working")
    orders = anyio.run(store().node_orders)
    assert orders.get("m.1") == order


def test_a_drained_manager_ends() -> None:
    async def run() -> bool:
        manager = shop.make()
        async with anyio.create_task_group() as group:
            group.start_soon(manager.run)
            while not manager.health().is_running:
                await anyio.sleep(0.001)
            await manager.drain_node(manager.id)
            with anyio.fail_after(20):
                while manager.health().is_running:
                    await anyio.sleep(0.001)
        return True

    assert anyio.run(run)


def test_a_queue_shows_what_was_changed(gotasks: Terminal) -> None:
    gotasks.enqueue("emails", "send", EMAIL)
    before = gotasks("queue", "show", "emails", "-o", "json").json
    assert (before["policy"], before["changed"]) == ({"lanes": 1}, [])
    gotasks("queue", "set", "emails", "--workers", "2", "--weight", "3")
    shown = gotasks("queue", "show", "emails", "-o", "json").json
    assert shown["policy"] == {"lanes": 1, "weight": 3, "workers": 2}
    assert shown["changed"] == ["weight", "workers"]
    assert '"workers": 2' in gotasks("queue", "show", "emails").out
