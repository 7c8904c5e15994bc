"""Sketches: right within their bound, whatever they hold, and exact to add."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gotasks_py.sketch import RELATIVE_ERROR, LatencySketch

# A timedelta is whole microseconds, so what is shorter than 100 of them is rounded by more.
DURATIONS = st.lists(st.floats(1e-4, 1e7), min_size=1, max_size=200)
PARTS = st.sampled_from([0.0, 0.01, 0.5, 0.9, 0.95, 0.99, 1.0])


def exact(durations: list[float], part: float) -> float:
    return sorted(durations)[max(1, math.ceil(part * len(durations))) - 1]


@given(DURATIONS, PARTS)
def test_a_quantile_is_right_within_the_bound(durations: list[float], part: float) -> None:
    found = LatencySketch.of(durations).quantile(part)
    assert found is not None
    # Half a microsecond is what a timedelta rounds away.
    expected = pytest.approx(exact(durations, part), rel=RELATIVE_ERROR * 1.001, abs=6e-7)
    assert found.total_seconds() == expected


@given(DURATIONS, DURATIONS)
def test_merged_sketches_are_the_sketch_of_everything(
    first: list[float], second: list[float]
) -> None:
    merged = LatencySketch.of(first)
    merged.merge(LatencySketch.of(second))
    together = LatencySketch.of([*first, *second])
    assert merged.buckets == together.buckets
    assert merged.total_seconds == pytest.approx(together.total_seconds)


@given(DURATIONS)
def test_a_sketch_comes_back_from_its_document(durations: list[float]) -> None:
    sketch = LatencySketch.of(durations)
    assert LatencySketch.from_document(sketch.to_document()) == sketch


def test_an_empty_sketch_has_no_quantiles() -> None:
    sketch = LatencySketch()
    assert (sketch.p50, sketch.p95, sketch.p99, sketch.mean) == (None, None, None, None)
    assert sketch.count == 0


def test_percentiles_of_a_known_distribution() -> None:
    sketch = LatencySketch.of(number / 1000 for number in range(1, 1001))
    found = [each.total_seconds() for each in (sketch.p50, sketch.p95, sketch.p99) if each]
    assert found == pytest.approx([0.5, 0.95, 0.99], rel=0.02)
    assert sketch.mean == timedelta(seconds=0.5005)


@pytest.mark.parametrize("seconds", [0.0, -1.0, 1e-9])
def test_what_no_clock_can_tell_counts_as_a_microsecond(seconds: float) -> None:
    sketch = LatencySketch.of([seconds, seconds])
    assert sketch.count == 2
    assert sketch.p99 is not None
    assert sketch.p99 <= timedelta(microseconds=1)


def test_what_is_longer_than_a_century_counts_as_one() -> None:
    found = LatencySketch.of([1e300]).p50
    assert found is not None
    assert found > timedelta(days=36_000)


def test_counts_below_bounds_are_cumulative() -> None:
    sketch = LatencySketch.of([0.01, 0.1, 0.1, 1.0, 10.0])
    assert sketch.counts_below([0.05, 0.5, 5.0, 50.0]) == [1, 3, 4, 5]


@pytest.mark.parametrize("part", [-0.1, 1.1, math.nan])
def test_a_part_that_is_none_is_refused(part: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        LatencySketch.of([1.0]).quantile(part)


@pytest.mark.parametrize(
    "document",
    [
        None,
        7,
        {},
        {"buckets": "1", "counts": [1], "total_seconds": 1.0},
        {"buckets": b"", "counts": b"", "total_seconds": math.nan},
        {"buckets": b"\x01\0\0\0", "counts": b"\x01\0\0\0", "total_seconds": 1.0},
        {"buckets": b"\x01\0\0\0", "counts": b"\xff" * 8, "total_seconds": 1.0},
        {"buckets": b"\xff\xff\xff\x7f", "counts": b"\x01" + b"\0" * 7, "total_seconds": 1.0},
    ],
)
def test_a_spoilt_document_counts_as_nothing(document: object) -> None:
    sketch = LatencySketch.from_document(document)
    assert (sketch.count, sketch.total_seconds) == (0, 0)
