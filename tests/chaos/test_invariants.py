"""The invariants as a table: each is tried, and tells how much it looked at."""

from __future__ import annotations

from gotasks_chaos.invariants import INVARIANTS
from tests.chaos import (
    test_counting,
    test_leases,
    test_losses,
    test_moments,
    test_outcomes,
    test_recovery,
)
from tests.chaos.histories import evidence

CHECKS = (test_losses, test_outcomes, test_leases, test_moments, test_counting, test_recovery)


def test_every_invariant_has_a_planted_violation() -> None:
    planted = {number for checks in CHECKS for number, _, _ in checks.PLANTED}

    assert planted == {each.number for each in INVARIANTS}


def test_checks_count_what_they_look_at() -> None:
    counts = {each.number: each.check(evidence()).examined for each in INVARIANTS}

    assert counts == {1: 1, 2: 0, 3: 1, 4: 1, 5: 1, 6: 0, 7: 0, 8: 1, 9: 0, 10: 2, 11: 0}
