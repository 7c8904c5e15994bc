"""Every example and the demo run by themselves, and print what they are there to show."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from tests.processes import is_alive

pytestmark = pytest.mark.mongo

EXAMPLES = Path(__file__).parents[2] / "examples"
PARTS = {"demo", "demo_shop", "demo_worker", "throwaway"}

LINES = {
    "simple": ["sending 'hello' to ann@example.org", "sent as <1@ann@example.org>"],
    "scheduled": ["s: half time", "in time, and in order: True", "is cancelled"],
    "retries_and_dead_letters": [
        "busy: talked to busy in attempt 3",
        "voicemail: talked to voicemail in attempt 2",
        "asleep: talked to asleep in attempt 1",
        "wrong: dead after 1 failed: no such number: wrong",
        "malformed: dead after 1 failed",
        "shop: dead after 3 failed: the shop is closed",
        "requeued: talked to shop",
        "its history stays: 3 failed attempts",
    ],
    "unique": ["the same task exists: True", "existing task: True", "a new task: True"],
    "heartbeat": [
        "encode metropolis: attempt 1, still mine: True",
        "block metropolis: attempt 1",
    ],
    "at_most_once": [
        "ann: ConnectionError, no retry",
        "bob: dead, interrupted",
        "started: ['ann', 'bob']",
    ],
    "batch_fan_out": ["fanned out into 200 tasks", "stored: [True, False, True]"],
    "queues": ["{'orders': 30, 'newsletters': 10}", "the first newsletter: urgent"],
    "retention": ["kept for 1.5 s", "its TTL purged it", "kept for 7 days"],
    "sync_callers": [f"shipped order {number}" for number in (1, 2, 3)],
    "transaction": ["attempt 1: the power goes out", "bookings by attempt: [2]", "receipts: 1"],
    "dashboard": ["look at http://127.0.0.1:", "4 queues, tasks done: True"],
    "fastapi_app": ["202 accepted", "'status': 'done'", "404 for an unknown task"],
}

TOLD = [
    "worker anna",
    "worker ben",
    r"enqueued +welcome",
    r"failed +charge \w+ +the bank hung up; next attempt in 0\.4 s",
    r"failed +charge \w+ +the bank hung up; next attempt in 0\.8 s",
    r"refused +report",
    r"returned +report",
    r"settled +20 thumbnails",
    r"settled +invoice \w+ +dead: the printer has no paper",
    r"SIGKILL +catalogue \w+ +(anna|ben) died on page \d+ of 10",
    r"recovered +catalogue \w+ +attempt 2: lease of (anna|ben)\.\S+ expired",
    r"requeued +invoice",
    r"catalogue \w+ +done +2 +1 +pages \d+ to 10",
    "Everything ended as told",
]


# Those that go on until they are told to end.
BOUNDED = {"dashboard": ["--port", "0", "--seconds", "3"]}


def run(name: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "GOTASKS_MONGODB_URI"}
    return subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *BOUNDED.get(name, ())],
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def databases(uri: str) -> set[str]:
    client: MongoClient[dict[str, Any]] = MongoClient(uri)
    with client:
        return set(client.list_database_names())


def processes_that_mention(word: str) -> list[int]:
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if word in (folder / "cmdline").read_text():
                found.append(int(folder.name))
    return found


def told_until_work_is_claimed(demo: subprocess.Popen[str]) -> str:
    assert demo.stdout is not None
    told = ""
    while "claimed" not in told:
        line = demo.stdout.readline()
        assert line, "the demo ended early"
        told += line
    return told


def test_every_example_is_listed() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == PARTS | set(LINES)


@pytest.mark.parametrize("name", LINES)
def test_an_example_shows_what_it_is_for(name: str, uri: str) -> None:
    before = databases(uri)
    ended = run(name, GOTASKS_MONGODB_URI=uri)
    assert ended.returncode == 0, ended.stderr
    for line in LINES[name]:
        assert line in ended.stdout
    assert "Traceback" not in ended.stderr
    assert databases(uri) <= before


@pytest.mark.timeout(150)
def test_the_demo_tells_its_story_and_leaves_nothing_behind(uri: str) -> None:
    ended = run("demo", GOTASKS_MONGODB_URI=uri)
    assert ended.returncode == 0, ended.stderr
    for line in TOLD:
        assert re.search(line, ended.stdout), f"{line}\n{ended.stdout}"
    assert ended.stderr == ""
    assert not [name for name in databases(uri) if name.startswith("gotasks_demo")]


@pytest.mark.timeout(150)
def test_the_demo_brings_its_own_mongodb_and_takes_it_away(tmp_path: Path) -> None:
    ended = run("demo", TMPDIR=str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert "Everything ended as told" in ended.stdout
    assert list(tmp_path.iterdir()) == []
    assert processes_that_mention(str(tmp_path)) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing_behind(number: signal.Signals, uri: str) -> None:
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "demo.py")],
        env=os.environ | {"GOTASKS_MONGODB_URI": uri},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    told = told_until_work_is_claimed(process)
    process.send_signal(number)
    rest, error = process.communicate(timeout=40)
    assert process.returncode == 130
    assert error == "\nThe demo failed: interrupted\n"
    workers = re.findall(r"process (\d+)", told + rest)
    assert len(workers) == 2
    assert not any(is_alive(int(worker)) for worker in workers)
    assert not [name for name in databases(uri) if name.startswith("gotasks_demo")]


def test_the_workers_of_a_demo_that_was_killed_end_too(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "GOTASKS_MONGODB_URI"}
    with subprocess.Popen(
        [sys.executable, str(EXAMPLES / "demo.py")],
        env=environment | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        told = told_until_work_is_claimed(process)
        process.kill()
    workers = [int(number) for number in re.findall(r"process (\d+)", told)]
    deadline = time.monotonic() + 30
    while any(is_alive(worker) for worker in workers) or processes_that_mention(str(tmp_path)):
        assert time.monotonic() < deadline, "something of the demo is still there"
        time.sleep(0.1)
    assert not list(tmp_path.glob("gotasks-mongod-*"))


def test_a_demo_without_a_mongod_says_what_to_do() -> None:
    ended = run("demo", GOTASKS_MONGOD="/nowhere/mongod")
    assert ended.returncode == 1
    assert ended.stderr.startswith("\nThe demo failed: GOTASKS_MONGOD=/nowhere/mongod")
    assert "Traceback" not in ended.stderr
