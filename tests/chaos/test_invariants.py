"""The auditor finds every violation that is planted, and none where there is none."""

from __future__ import annotations

from itertools import chain

import pytest

from gotasks_chaos.evidence import Evidence
from gotasks_chaos.invariants import INVARIANTS
from tests.chaos.histories import WALL, evidence, stored
from tests.chaos.planted import counting, leases, losses, moments, outcomes, recovery

CHECKS = (losses, outcomes, leases, moments, counting, recovery)
PLANTED = list(chain.from_iterable(checks.PLANTED for checks in CHECKS))
SOUND = list(chain.from_iterable(checks.SOUND for checks in CHECKS))


def found_in(evidence: Evidence) -> dict[int, list[str]]:
    findings = {each.number: each.check(evidence).violations for each in INVARIANTS}
    return {number: violations for number, violations in findings.items() if violations}


@pytest.mark.parametrize(("number", "message", "planted"), PLANTED)
def test_a_planted_violation_is_found(number: int, message: str, planted: Evidence) -> None:
    assert any(message in each for each in found_in(planted)[number])


@pytest.mark.parametrize(("what", "sound"), SOUND)
def test_no_violation_is_found_where_there_is_none(what: str, sound: Evidence) -> None:
    assert not found_in(sound), what


def test_every_invariant_has_a_planted_violation() -> None:
    assert {number for number, _, _ in PLANTED} == {each.number for each in INVARIANTS}


def test_checks_count_what_they_look_at() -> None:
    counts = {each.number: each.check(evidence()).examined for each in INVARIANTS}

    assert counts == {1: 1, 2: 0, 3: 1, 4: 1, 5: 1, 6: 0, 7: 0, 8: 1, 9: 0, 10: 2, 11: 0}


def test_a_task_that_waits_for_its_next_attempt_has_not_begun_it() -> None:
    waiting = stored(status="pending", run_at=WALL + 9, finished_at=None, settle_token=None)

    assert found_in(evidence(tasks=[waiting])).keys() == {1}
