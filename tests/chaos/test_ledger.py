"""The ledger keeps what it was told, and says when it cannot be trusted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gotasks_chaos import ledger
from gotasks_chaos.ledger import Ledger, LedgerError, read

KILLED = """
import itertools, sys
from pathlib import Path
from gotasks_chaos.ledger import Ledger
book = Ledger(Path(sys.argv[1]))
for number in itertools.count():
    book.write("n", number=number)
    print(number, flush=True)
"""

GIVING_UP = """
from pathlib import Path
from gotasks_chaos.ledger import Ledger, leave
try:
    Ledger(Path("/dev/full"), give_up=leave).write("n")
except BaseException:
    pass
print("went on")
"""


def test_what_was_written_is_read_in_order(tmp_path: Path) -> None:
    book = Ledger(tmp_path / "a")
    before = time.monotonic()
    book.write("start", task="1", reasons=["ü", "a\nb"])
    book.write("end")
    book.close()

    first, second = read(tmp_path / "a")

    assert (first.event, first.facts) == ("start", {"task": "1", "reasons": ["ü", "a\nb"]})
    assert (second.event, second.facts) == ("end", {})
    assert before <= first.at <= second.at <= time.monotonic()


def test_a_second_writer_appends(tmp_path: Path) -> None:
    for number in range(2):
        book = Ledger(tmp_path / "a")
        book.write("n", number=number)
        book.close()

    assert [line.facts["number"] for line in read(tmp_path / "a")] == [0, 1]


def test_lines_of_threads_do_not_mix(tmp_path: Path) -> None:
    book = Ledger(tmp_path / "a")
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: book.write("n", number=n, filler="x" * 500), range(200)))

    assert {line.facts["number"] for line in read(tmp_path / "a")} == set(range(200))


def test_what_was_written_is_on_disk_when_write_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = list[str]()

    def fdatasync(file: int) -> None:
        del file
        synced.append((tmp_path / "a").read_text())

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    Ledger(tmp_path / "a").write("n")

    assert [json.loads(line)[1] for line in synced] == ["n"]


def test_a_killed_writer_leaves_all_that_it_was_sure_of(tmp_path: Path) -> None:
    root = Path(ledger.__file__).parents[1]
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "a")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    ) as process:
        assert process.stdout is not None
        sure = [int(process.stdout.readline()) for _ in range(50)]
        process.send_signal(signal.SIGKILL)

    kept = [line.facts["number"] for line in read(tmp_path / "a")]
    assert kept[: len(sure)] == sure


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('[1.0,"n",{}]\n[2.0,"n",{"num')

    assert [line.at for line in read(tmp_path / "a")] == [1.0]


def test_a_full_disk_is_said_to_be_one() -> None:
    with pytest.raises(LedgerError, match="/dev/full cannot be written: No space left"):
        Ledger(Path("/dev/full")).write("n")


def test_half_a_line_is_a_full_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", lambda _file, line: len(line) - 1)

    with pytest.raises(LedgerError, match="No space left"):
        Ledger(tmp_path / "a").write("n")


def test_a_process_without_a_ledger_ends_before_its_engine_hears_of_it() -> None:
    root = Path(ledger.__file__).parents[1]
    ended = subprocess.run(
        [sys.executable, "-c", GIVING_UP],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(root)},
    )

    assert (ended.returncode, ended.stdout) == (ledger.NO_LEDGER, "")
    assert ended.stderr == "/dev/full cannot be written: No space left on device\n"


@pytest.mark.parametrize("damaged", ['[2.0,"n",{"num', "", '["n",{}]', "nonsense"])
def test_damage_elsewhere_is_refused(tmp_path: Path, damaged: str) -> None:
    (tmp_path / "a").write_text(f'[1.0,"n",{{}}]\n{damaged}\n[3.0,"n",{{}}]\n')

    with pytest.raises(LedgerError, match="line 2 of"):
        list(read(tmp_path / "a"))
