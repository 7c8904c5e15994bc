"""``gotasks top`` on a real terminal, and the trial runs."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import timedelta

import anyio
import pytest
from rich.console import Console

from gotasks_cli import _session
from gotasks_cli._top import snapshot, view
from gotasks_py.metering import Beat, Report
from gotasks_py.nodes import Node
from tests.cli import shop
from tests.cli.conftest import Terminal
from tests.cli.processes import PATIENCE, ROOT
from tests.cli.test_many import store
from tests.cli.test_targets import NEITHER
from tests.cli.test_tasks import EMAIL, spoil

ANSI = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def test_one_look_shows_queues_managers_and_running_tasks(gotasks: Terminal) -> None:
    task_id = gotasks.enqueue("emails", "send", EMAIL)
    now = store().clock.now()
    node = Node(id="m.1", host="h", pid=7, version="1", queues=("emails",), capacity=8, running=1)
    anyio.run(store().report, Report(beat=Beat(node=node, good_for=timedelta(hours=1))))
    quiet = replace(node, id="m.2")
    anyio.run(store().report, Report(beat=Beat(node=quiet, good_for=timedelta(hours=1))))
    assert gotasks("node", "quiet", "m.2").code == 0
    lease = {"token": "secret", "owner": "m.1.1", "until": now}
    spoil(
        task_id, status="running", lease=lease, started_at=now - timedelta(seconds=90), attempts=1
    )
    ended = gotasks("top", "--once")
    assert (ended.code, ended.err) == (0, "")
    assert "2 managers" in ended.out
    assert re.search(r"emails +open", ended.out)
    assert re.search(r"m\.1 +working +h +7 +1/8", ended.out)
    assert re.search(r"m\.2 +quiet +h +7 +1/8", ended.out)
    assert re.search(rf"{task_id} +emails +send +1/3 +[\d.]+ (s|min) +m\.1\.1", ended.out)
    assert "secret" not in ended.out


@pytest.mark.parametrize(
    ("width", "queue", "node", "task"),
    [
        (30, "emails +open", "m.1 +working +h +7", "[0-9a-f]{11,}… +emails"),
        (12, "emails", "m.1", "[0-9a-f]{11}…"),
        (5, "emai…", "m.1", "[0-9a-f]{4}…"),
    ],
)
def test_on_a_narrow_terminal_some_columns_are_left_out(
    gotasks: Terminal, width: int, queue: str, node: str, task: str
) -> None:
    task_id = gotasks.enqueue("emails", "send", EMAIL)
    spoil(task_id, status="running", attempts=1)
    node_here = Node(id="m.1", host="h", pid=7, version="1", capacity=8, running=1)
    anyio.run(store().report, Report(beat=Beat(node=node_here, good_for=timedelta(hours=1))))
    screen = Console(width=width, file=io.StringIO())
    with screen.capture() as shown:
        screen.print(view(anyio.run(snapshot, shop.manager), width))
    lines = shown.get().splitlines()
    assert all(len(line) <= width for line in lines)
    for row in (queue, node, task):
        assert any(re.match(row, line) for line in lines), shown.get()


def test_without_a_terminal_it_looks_once_or_not_at_all(gotasks: Terminal) -> None:
    ended = gotasks("top")
    assert ended.code == 2
    assert "give --once" in ended.err


def test_a_terminal_shows_what_changes_until_ctrl_c() -> None:
    ours, theirs = pty.openpty()
    path = os.pathsep.join(str(ROOT / name) for name in ("", "stores", "cli"))
    with subprocess.Popen(
        [sys.executable, "-m", "gotasks_cli", "top", "--store", "memory://", "--interval", "0.2"],
        env={**os.environ, "PYTHONPATH": path, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=ROOT,
    ) as process:
        os.close(theirs)
        try:
            times = set(frames(ours, 2))
            process.send_signal(signal.SIGINT)
            rest = remaining(ours)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
            os.close(ours)
    assert len(times) == 2
    assert "Traceback" not in rest
    assert "\x1b[?1049l" in rest  # the screen is as it was


def frames(terminal: int, count: int) -> list[str]:
    """Read until the clock has shown so many different times."""
    seen: list[str] = []
    text = ""
    deadline = time.monotonic() + PATIENCE
    while len(seen) < count:
        assert time.monotonic() < deadline, text
        if select.select([terminal], [], [], 1)[0]:
            text += os.read(terminal, 65_536).decode(errors="replace")
            shown = re.findall(r"gotasks  \S+ (\S+)Z  0 managers", ANSI.sub("", text))
            seen = list(dict.fromkeys(shown))
    return seen[:count]


def remaining(terminal: int) -> str:
    """Read until the other side has closed the terminal."""
    text = b""
    while True:
        try:
            more = os.read(terminal, 65_536)
        except OSError:  # how Linux says so
            return text.decode(errors="replace")
        if not more:
            return text.decode(errors="replace")
        text += more


def test_the_demo_runs_in_memory_and_ends_as_told(gotasks: Terminal) -> None:
    ended = gotasks("demo", "-o", "json", env=NEITHER)
    assert ended.code == 0, ended.err
    assert (ended.json["done"], ended.json["dead"]) == (54, 6)
    assert "never works" in ended.json["for_example"]


def test_trials_leave_nothing_of_their_queue(
    gotasks: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_session, "store_for", lambda _: store())
    for trial in (("demo",), ("bench", "--tasks", "10")):
        assert gotasks(*trial, "-s", "memory://", env=NEITHER).code == 0
        assert anyio.run(store().queues) == {}


def test_the_bench_tells_rates_and_leaves_nothing(gotasks: Terminal) -> None:
    ended = gotasks("bench", "--tasks", "500", "-o", "json", "-s", "memory://", env=NEITHER)
    assert ended.code == 0, ended.err
    assert ended.json["tasks"] == 500
    assert ended.json["enqueued_per_second"] > 0
    assert ended.json["run_per_second"] > 0
