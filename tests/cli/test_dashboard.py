"""``gotasks dashboard`` as a process of its own."""

from __future__ import annotations

import signal
import socket
import sys

import httpx
import pytest

from tests.cli.conftest import Terminal
from tests.cli.processes import started

APP = "tests.cli.shop:manager"
URL = r"(http://127\.0\.0\.1:\d+/) shows it"


def test_it_is_read_only_unless_told_otherwise_and_stops_on_a_signal() -> None:
    with started("dashboard", "--app", APP, "--port", "0") as command:
        (url,) = command.hear(URL)
        session = httpx.get(f"{url}api/session").json()
        assert session["permissions"] == ["view", "view_payloads", "view_audit"]
        assert session["features"]["schemas"] is True
        assert httpx.get(url, headers={"Host": "rebound.example"}).status_code == 403
        with httpx.stream("GET", f"{url}api/events") as stream:
            assert next(stream.iter_lines()) == "retry: 2000"
            command.send(signal.SIGTERM)
            assert command.wait() == 0


def test_with_actions_it_changes_things() -> None:
    with started("dashboard", "--app", APP, "--port", "0", "--actions") as command:
        (url,) = command.hear(URL)
        own = {"X-Gotasks": "1", "Origin": url.rstrip("/")}
        task = {"queue": "emails", "type": "send", "payload": {"to": "a@b.c"}}
        made = httpx.post(f"{url}api/tasks", json=task, headers=own)
        assert made.status_code == 201
        found = httpx.get(f"{url}api/tasks/{made.json()['id']}").json()
        assert found["payload"] == {"to": "a@b.c", "copies": 1}


def test_a_port_that_is_taken_is_told(gotasks: Terminal) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ended = gotasks("dashboard", "--app", APP, "--port", port)
    assert ended.code == 3
    assert f"port {port} cannot be had" in ended.err


def test_without_the_extra_it_says_what_to_install(
    gotasks: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    ended = gotasks("dashboard", "--app", APP)
    assert ended.code == 3
    assert "pip install 'gotasks-py[dashboard]'" in ended.err
