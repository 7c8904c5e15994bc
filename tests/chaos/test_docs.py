"""What the docs say of storms and promises is what the code has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gotasks_chaos.invariants import INVARIANTS
from gotasks_chaos.profiles import PROFILES

ROOT = Path(__file__).parents[2]
CHAOS = (ROOT / "docs/chaos.md").read_text()
GUARANTEES = (ROOT / "docs/guarantees.md").read_text()
PROOFS = GUARANTEES[GUARANTEES.index("## What proves it") :]
TESTS = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))


def plain(promise: str) -> str:
    return promise.lower().replace("≤", "<=").replace("`", "")


def test_every_profile_is_described() -> None:
    assert re.findall(r"^\| `(\w+)` \|", CHAOS, re.MULTILINE) == list(PROFILES)


def test_every_invariant_is_described() -> None:
    rows = re.findall(r"^\| (\d+) \| ([^|]+?) \| ([^|]+?) \|$", CHAOS, re.MULTILINE)

    assert [(int(number), plain(promise), plain(query)) for number, promise, query in rows] == [
        (each.number, plain(each.promise), plain(each.query)) for each in INVARIANTS
    ]


def test_every_invariant_proves_a_promise() -> None:
    cells = re.findall(r"^\| [^|]+ \| ([\d, ]+) \|", PROOFS, re.MULTILINE)

    assert {int(number) for cell in cells for number in cell.split(",")} == {
        each.number for each in INVARIANTS
    }


@pytest.mark.parametrize("name", re.findall(r"`(test_\w+)`", PROOFS))
def test_every_test_that_is_named_exists(name: str) -> None:
    assert f"def {name}(" in TESTS


@pytest.mark.parametrize("path", re.findall(r"`(tests/[\w/.]+)`", PROOFS + CHAOS))
def test_every_file_that_is_named_exists(path: str) -> None:
    assert (ROOT / path).exists()
