"""Which APP or store a command works with, and what is said when there is none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import APP, Terminal

SHOW = ("task", "show", "f" * 24)
NEITHER: dict[str, str | None] = {"GOTASKS_APP": None, "GOTASKS_STORE": None}


@pytest.mark.parametrize(
    ("app", "code", "says"),
    [
        ("nowhere.tasks:manager", 3, "there is no module 'nowhere'"),
        ("tests.cli.nowhere:manager", 3, "there is no module 'tests.cli.nowhere'"),
        ("tests.cli.shop:nobody", 3, "there is no 'nobody' in it"),
        ("tests.cli.shop:not_a_manager", 3, "is of type int, not a Manager or a function that"),
        (
            "tests.cli.shop:three",
            3,
            "tests.cli.shop:three() returned 3, of type int, not a Manager",
        ),
        ("tests.cli.shop:three_later", 3, "three_later() returned 3, of type int, not a Manager"),
        ("tests.cli.shop:broken", 3, "workers must be a whole number from 1 up"),
        ("tests.cli.shop:raising", 3, "cannot be loaded: RuntimeError: no configuration ("),
        ("tests/cli/shop.py", 2, "APP must be module:manager"),
        (":manager", 2, "APP must be module:manager"),
        ("", 2, "say where the tasks are"),
    ],
)
def test_an_app_that_cannot_be_loaded_is_told_in_one_line(
    gotasks: Terminal, app: str, code: int, says: str
) -> None:
    ended = gotasks(*SHOW, "--app", app, env=NEITHER)
    assert ended.code == code
    assert says in ended.err
    assert (ended.out, ended.err.count("\n")) == ("", 1)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import not_installed", "No module named 'not_installed'"),
        ("x = 1 / 0", "ZeroDivisionError: division by zero ("),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("def f(:", "SyntaxError"),
    ],
)
def test_what_an_app_raises_is_told_with_its_place(
    gotasks: Terminal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    says: str,
) -> None:
    (tmp_path / "broken_app.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    ended = gotasks(*SHOW, "--app", "broken_app:manager", env=NEITHER)
    assert ended.code == 3
    assert f"broken_app does not import: {says}" in ended.err or says in ended.err
    assert "broken_app" in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    "app", ["tests.cli.shop", "tests.cli.shop:make", "tests.cli.shop:make_later"]
)
def test_an_app_is_a_manager_or_makes_one(gotasks: Terminal, app: str) -> None:
    assert "no task" in gotasks(*SHOW, "--app", app, env=NEITHER).err


@pytest.mark.parametrize(
    ("url", "code", "says"),
    [
        ("sql://host/db", 3, "no store for sql://; installed packages offer memory://"),
        ("mongodb:/host", 3, "'mongodb:/host' is not the URL of a store"),
        ("memory://name", 3, "memory has no name"),
        ("mongodb://localhost/?replicaSet=rs0", 3, "the URL names no database"),
        ("mongodb://localhost/db?namespace=$x", 3, "must not start with '$'"),
        ("mongodb://localhost:port/db", 3, "cannot read the URI"),
        ("mongodb://h/db?bogus=1&w=1", 3, "MongoDB's URIs have no option 'bogus'"),
        ("mongodb://h/db?namespce=t", 3, "MongoDB's URIs have no option 'namespce'"),
        ("mongodb://h/db?maxPoolSize=x", 3, "option 'maxPoolSize': The value of maxpoolsize must"),
        ("mongodb+srv://nowhere.invalid/db", 6, "nowhere.invalid"),
        ("mongodb://nowhere.invalid/db?serverSelectionTimeoutMS=50", 6, "nowhere.invalid"),
        ("mongodb://127.0.0.1:9/db?serverSelectionTimeoutMS=50", 6, "127.0.0.1:9"),
    ],
)
def test_a_store_that_cannot_be_used_is_told_in_one_line(
    gotasks: Terminal, url: str, code: int, says: str
) -> None:
    ended = gotasks(*SHOW, "--store", url, env=NEITHER)
    assert ended.code == code, ended.err
    assert says in ended.err
    assert (ended.out, ended.err.count("\n")) == ("", 1)


def test_an_option_stands_before_the_environment(gotasks: Terminal) -> None:
    ended = gotasks(*SHOW, "--store", "memory://", env={"GOTASKS_APP": "nowhere:manager"})
    assert ended.code == 4


@pytest.mark.parametrize(
    ("options", "env"),
    [
        (("--app", APP, "--store", "memory://"), NEITHER),
        ((), {"GOTASKS_APP": APP, "GOTASKS_STORE": "memory://"}),
    ],
)
def test_two_places_at_once_are_refused(
    gotasks: Terminal, options: tuple[str, ...], env: dict[str, str | None]
) -> None:
    ended = gotasks(*SHOW, *options, env=env)
    assert ended.code == 2
    assert "give one" in ended.err


def test_without_app_an_unknown_queue_is_refused(gotasks: Terminal) -> None:
    ended = gotasks("enqueue", "q", "t", "--store", "memory://", env=NEITHER)
    assert ended.code == 4
    assert "the store has no queue 'q'; it has none" in ended.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("wroker",), "No such command 'wroker'. Did you mean 'worker'?"),
        (("task",), "Missing command."),
        (("task", "show"), "Missing argument 'ID'."),
        (("task", "show", "x", "-o", "yaml"), "'yaml'"),
        (("worker", APP, "--workers", "0"), "--workers must be a number"),
        (("worker", APP, "--workers", "8..2"), "--workers must be a number"),
        (("worker", APP, "--workers", "many"), "--workers must be a number"),
        (("worker", APP, "--processes", "0"), "--processes must be a number"),
        (("worker", APP, "--processes", "4..2"), "--processes must be a number"),
        (("worker", APP, "--processes", "2.."), "--processes must be a number"),
        (("worker", APP, "--queues", "a,,b"), "--queues has an empty name"),
    ],
)
def test_a_wrong_command_is_told_in_one_line(
    gotasks: Terminal, arguments: tuple[str, ...], says: str
) -> None:
    ended = gotasks(*arguments)
    assert ended.code == 2
    assert says in ended.err
    assert (ended.out, ended.err.count("\n")) == ("", 1)


def test_help_and_version_are_no_errors(gotasks: Terminal) -> None:
    assert gotasks("--help").code == 0
    assert gotasks("--version").out.strip() == "0.1.0"


@pytest.mark.parametrize(
    "arguments",
    [
        ("enqueue", "emails", "send", "{}", "--delay", "1e30"),
        ("queue", "set", "emails", "--timeout", "1e30"),
        ("queue", "set", "emails", "--ttl", "1e30"),
        ("queue", "pause", "emails", "--for", "1e30"),
        ("metrics", "scaling", "--target-wait", "1e300"),
        ("task", "list", "--before", "0001-01-01T00:00:00+14:00"),
        ("worker", APP, "--grace", "1e30"),
    ],
)
def test_a_time_beyond_all_bounds_is_refused(gotasks: Terminal, arguments: tuple[str, ...]) -> None:
    ended = gotasks(*arguments)
    assert ended.code == 2, ended.err
    assert " is too " in ended.err


def test_the_time_zone_that_is_asked_for_is_understood(gotasks: Terminal) -> None:
    ended = gotasks("task", "list", "--before", "2026-01-01")
    assert ended.code == 2
    offered = ended.err.split(": ")[-1].split(",")[0]
    assert gotasks("task", "list", "--before", offered).code == 0


def test_without_app_nothing_is_said_of_code(gotasks: Terminal) -> None:
    ended = gotasks("queue", "show", "nope", "--store", "memory://", env=NEITHER)
    assert ended.code == 4
    assert ended.err == "gotasks: the store has no queue 'nope'; it has none\n"
