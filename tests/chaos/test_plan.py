"""A plan depends on nothing but its profile, its seed and its duration."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest

from gotasks_chaos.plan import Fault, from_document, make_plan, to_document
from gotasks_chaos.profiles import PROFILES, FaultKind, Profile, Rhythm

KILLS = Rhythm(FaultKind.KILL_WORKER, (1.0, 2.0))
FREEZES = Rhythm(FaultKind.FREEZE_WORKER, (3.0, 4.0), (0.5, 1.5))
PROFILE = Profile(name="p", summary="", rhythms=(KILLS, FREEZES))


def of_kind(plan: list[Fault], kind: FaultKind) -> list[Fault]:
    return [fault for fault in plan if fault.kind is kind]


def test_the_same_seed_makes_the_same_plan() -> None:
    assert make_plan(PROFILE, 7, 60) == make_plan(PROFILE, 7, 60)
    assert make_plan(PROFILE, 7, 60) != make_plan(PROFILE, 8, 60)


def test_a_plan_keeps_its_rhythms_and_its_end() -> None:
    plan = make_plan(PROFILE, 7, 60)
    kills = [fault.at for fault in of_kind(plan, FaultKind.KILL_WORKER)]

    assert plan == sorted(plan)
    assert all(1 <= late - early <= 2 for early, late in itertools.pairwise(kills))
    assert 1 <= kills[0] <= 2
    assert 58 <= kills[-1] < 60
    assert all(0.5 <= each.seconds <= 1.5 for each in of_kind(plan, FaultKind.FREEZE_WORKER))


def test_a_rhythm_more_leaves_the_others_as_they_were() -> None:
    fewer = make_plan(replace(PROFILE, rhythms=(KILLS,)), 7, 60)

    assert of_kind(make_plan(PROFILE, 7, 60), FaultKind.KILL_WORKER) == fewer


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_has_a_plan_that_survives_json(name: str) -> None:
    plan = make_plan(PROFILES[name], 1, 600)

    assert {fault.kind for fault in plan} == {each.kind for each in PROFILES[name].rhythms}
    assert from_document(json.loads(json.dumps(to_document(plan)))) == plan


@pytest.mark.parametrize(
    "entry", [{}, {"at": 1, "kind": "storm", "target": 1, "seconds": 0}, {"at": "soon"}]
)
def test_what_is_no_plan_is_refused(entry: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not a"):
        from_document([entry])
