"""What becomes of a command whose output nobody reads, or that cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.processes import ROOT

MANY = """
import anyio
from gotasks_memstore import MemStore
from gotasks_py import Enqueue, Manager, QueuePolicy

async def make():
    manager = Manager(MemStore(), queues=[QueuePolicy("q")])
    await manager.enqueue_many(Enqueue("q", "t") for _ in range(1000))
    return manager
"""


def ended(
    folder: Path,
    *arguments: str,
    stdout: int,
    stderr: int = subprocess.PIPE,
    program: Sequence[str] = (sys.executable, "-m", "gotasks_cli"),
) -> tuple[int, str]:
    (folder / "many.py").write_text(MANY)
    path = os.pathsep.join(str(ROOT / name) for name in ("", "stores", "dashboard", "cli"))
    done = subprocess.run(
        [*program, *arguments],
        env={**os.environ, "PYTHONPATH": path, "GOTASKS_APP": "many:make"},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr or ""


@pytest.fixture
def unread() -> int:
    """The end of a pipe to write to that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("task", "list", "--limit", "1000"), 0),
        (("task", "list", "-o", "json", "--limit", "1000"), 0),
        (("enqueue", "q", "t"), 0),
        (("top", "--once"), 0),
        (("--help",), 0),
        (("--version",), 0),
        # What the work came to still is what counts.
        (("enqueue", "q", "t", "--wait", "--timeout", "0"), 124),
    ],
)
def test_work_is_done_whether_anybody_reads_of_it_or_not(
    tmp_path: Path, unread: int, arguments: tuple[str, ...], code: int
) -> None:
    found, said = ended(tmp_path, *arguments, stdout=unread)
    os.close(unread)
    assert found == code, said
    assert "Broken" not in said
    assert said.count("\n") == (1 if code else 0), said


def test_a_problem_that_nobody_reads_has_its_code(tmp_path: Path, unread: int) -> None:
    found, _ = ended(tmp_path, "task", "show", "x", stdout=unread, stderr=unread)
    os.close(unread)
    assert found == 4


def test_the_first_lines_are_read_and_no_more(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    head = [sys.executable, "-c", "import sys; sys.stdin.readline()"]
    with subprocess.Popen(head, stdin=reading) as process:
        os.close(reading)
        found, said = ended(tmp_path, "task", "list", "--limit", "1000", stdout=writing)
        os.close(writing)
        assert process.wait() == 0
    assert found == 0, said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    found, said = ended(tmp_path, "task", "list", stdout=full)
    os.close(full)
    assert found == 1
    assert said.endswith("gotasks: the result cannot be written: No space left on device\n")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("arguments", "code"), [("enqueue q t", 0), ("task show x", 4), ("task list -o json", 0)]
)
def test_streams_that_are_closed_change_no_code(
    tmp_path: Path, closed: str, arguments: str, code: int
) -> None:
    program = [f"{sys.executable} -m gotasks_cli {arguments} {closed}"]
    found, said = ended(tmp_path, program=["sh", "-c", *program], stdout=subprocess.PIPE)
    assert (found, "Traceback" in said) == (code, False), said
