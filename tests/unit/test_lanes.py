"""Which lane a task is given, and which lanes a pool claims from."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gotasks_py import ConfigurationError, QueuePolicy
from gotasks_py._rotation import LaneRotation
from gotasks_py.lanes import MAX_LANES, Lanes, lane_of_key

counts = st.integers(1, MAX_LANES)
keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)


def a_rotation(size: int) -> LaneRotation:
    """Make a rotation that knows of work."""
    rotation = LaneRotation(lambda: size)
    rotation.choose(0)
    return rotation


def a_turn(rotation: LaneRotation, now: float = 0) -> tuple[int, ...]:
    lanes = rotation.choose(now)
    with rotation.claiming(lanes):
        return lanes


@pytest.mark.parametrize("lanes", [0, -1, MAX_LANES + 1, True, 1.5, "2", None])
def test_a_number_of_lanes_is_refused_that_is_not_one_to_the_most(lanes: object) -> None:
    with pytest.raises(ConfigurationError, match="lanes"):
        QueuePolicy("q", lanes=lanes)  # type: ignore[arg-type]


@given(counts, st.lists(counts, max_size=5), keys)
def test_a_key_keeps_its_lane_and_claims_cover_every_lane(
    first: int, changes: list[int], key: str
) -> None:
    lanes = Lanes.first(first)
    lane = lanes.lane_for(key)
    for count in changes:
        lanes = lanes.changed(count)
        assert lanes.lane_for(key) == lane < lanes.most
        assert lanes.lane_for(None) < count <= lanes.most
        assert Lanes.from_document(lanes.to_document()) == lanes


def test_a_lane_of_a_key_is_the_same_in_every_version() -> None:
    """Another lane would let a second holder of the key in."""
    assert [lane_of_key(key, 16) for key in ("", "a", "user:1", "ü")] == [4, 15, 2, 7]


def test_keys_and_tasks_without_one_spread_evenly() -> None:
    lanes = Lanes.first(16)
    keyed = Counter(lanes.lane_for(f"user:{number}") for number in range(16_000))
    others = Counter(lanes.lane_for(None) for _ in range(16_000))
    for spread in (keyed, others):
        assert set(spread) == set(range(16))
        assert 800 < min(spread.values()) <= max(spread.values()) < 1200


@pytest.mark.parametrize("spoilt", [None, True, 0, -3, 2.5, "x", [], {}])
def test_what_a_hand_has_spoilt_reads_as_one_lane(spoilt: object) -> None:
    names = ("lanes", "keyed_lanes", "most_lanes")
    assert Lanes.from_document(dict.fromkeys(names, spoilt)) == Lanes()
    assert Lanes.from_document({}) == Lanes()


def test_a_hand_cannot_make_claims_endless() -> None:
    assert Lanes.from_document({"most_lanes": 10**9}).most == MAX_LANES


def test_with_one_lane_there_is_nothing_to_choose() -> None:
    rotation = LaneRotation()
    for _ in range(3):
        assert a_turn(rotation) == rotation.all == (0,)
        rotation.found_nothing((0,), 9)


@given(st.integers(2, MAX_LANES), st.integers(1, 4))
def test_each_lane_with_work_gets_its_turn(size: int, rounds: int) -> None:
    rotation = a_rotation(size)

    turns = Counter(a_turn(rotation) for _ in range(size * rounds))

    assert turns == {(lane,): rounds for lane in range(size)}


@given(st.integers(2, 16), st.integers(1, 64))
def test_claimers_meet_only_when_there_are_more_of_them_than_lanes(
    size: int, claimers: int
) -> None:
    rotation = a_rotation(size)
    chosen = Counter[tuple[int, ...]]()

    with ExitStack() as claims:
        for _ in range(claimers):
            lanes = rotation.choose(0)
            claims.enter_context(rotation.claiming(lanes))
            chosen[lanes] += 1

    assert max(chosen.values()) == -(-claimers // size)


def test_pools_go_through_the_lanes_in_different_orders() -> None:
    orders = set[tuple[tuple[int, ...], ...]]()
    for _ in range(3):
        rotation = a_rotation(16)
        orders.add(tuple(a_turn(rotation) for _ in range(16)))
    assert len(orders) > 1


def test_a_lane_without_work_is_left_out_until_its_time() -> None:
    rotation = a_rotation(3)
    rotation.found_nothing((1,), until=10)

    assert {a_turn(rotation, now=9) for _ in range(6)} == {(0,), (2,)}
    assert (1,) in {a_turn(rotation, now=10) for _ in range(3)}


def test_where_no_lane_is_better_than_another_all_are_asked() -> None:
    rotation = a_rotation(3)
    for lane in range(3):
        rotation.found_nothing((lane,), until=10)
    assert a_turn(rotation) == (0, 1, 2)

    rotation.found((0, 1, 2), 1)

    assert [a_turn(rotation) for _ in range(2)] == [(1,), (1,)]


def test_a_claim_of_all_lanes_leads_on_in_the_lane_where_it_found_work() -> None:
    rotation = a_rotation(8)
    rotation.found(rotation.all, 5)

    assert a_turn(rotation) == (5,)


def test_after_nothing_was_found_anywhere_the_first_claim_is_of_all_lanes() -> None:
    rotation = a_rotation(3)
    rotation.found_nothing((0, 1, 2), until=10)
    rotation.forget()

    assert a_turn(rotation) == (0, 1, 2)
    assert sorted(a_turn(rotation) for _ in range(3)) == [(0,), (1,), (2,)]


def test_the_number_of_lanes_may_change_at_any_time() -> None:
    size = 1
    rotation = LaneRotation(lambda: size)
    for size in (2, 5, 1, 3):
        assert {lane for _ in range(20) for lane in a_turn(rotation)} == set(range(size))
