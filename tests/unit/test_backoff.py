"""Backoffs: bounded at any attempt, and stored as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gotasks_py import ConfigurationError, Exponential, Fibonacci, Fixed, Linear
from gotasks_py.backoff import MAX_DELAY, bounded, from_document, to_document
from tests.lab import spelled

spans = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=1000))
milliseconds = st.integers(0, MAX_DELAY // timedelta(milliseconds=1)).map(
    lambda number: timedelta(milliseconds=number)
)
jitters = st.floats(0, 1)
factors = st.floats(1, 1e12)
attempts = st.integers(-5, 10**9)
growing = st.one_of(
    st.builds(Linear, base=spans, cap=spans, jitter=jitters),
    st.builds(Exponential, base=spans, cap=spans, factor=factors, jitter=jitters),
    st.builds(Fibonacci, base=spans, cap=spans, jitter=jitters),
)


@given(growing, attempts)
def test_a_delay_stays_between_zero_and_its_cap(
    backoff: Linear | Exponential | Fibonacci, attempt: int
) -> None:
    """B50: whatever the attempt, the factor and the base."""
    delay = backoff(attempt, ValueError())
    assert timedelta(0) <= delay <= min(backoff.cap, MAX_DELAY) + timedelta(microseconds=1)


@given(st.builds(Fixed, spans, jitter=jitters), attempts)
def test_a_fixed_delay_loses_its_jitter_at_most(backoff: Fixed, attempt: int) -> None:
    most = min(backoff.delay, MAX_DELAY)
    assert most * (1 - backoff.jitter) - timedelta(microseconds=1) <= backoff(attempt) <= most


@given(growing, st.integers(1, 2000))
def test_without_jitter_a_delay_never_shrinks(
    backoff: Linear | Exponential | Fibonacci, attempt: int
) -> None:
    steady = type(backoff)(base=backoff.base, cap=backoff.cap, jitter=0)
    assert steady(attempt) <= steady(attempt + 1)


@pytest.mark.parametrize("factor", [2, 10])
@pytest.mark.parametrize("attempt", [47, 1100, 10**6, 10**300])
def test_numbers_that_overflow_reach_the_cap(factor: float, attempt: int) -> None:
    """B50: 2.0 ** 1024 raises where it is not looked after."""
    cap = timedelta(hours=1)
    assert Exponential(timedelta(seconds=1), cap=cap, factor=factor, jitter=0)(attempt) == cap
    linear = min(timedelta(seconds=min(attempt, 10_000)), cap)
    assert Linear(timedelta(seconds=1), cap=cap, jitter=0)(attempt) == linear
    assert Fibonacci(timedelta(seconds=1), cap=cap, jitter=0)(attempt) == cap


@pytest.mark.parametrize("kind", [Linear, Exponential, Fibonacci])
def test_no_base_is_no_delay(kind: type[Linear | Exponential | Fibonacci]) -> None:
    assert kind(base=timedelta(0))(1000) == timedelta(0)


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (Linear(jitter=0), [10, 20, 30, 40, 50]),
        (Exponential(jitter=0), [10, 20, 40, 80, 160]),
        (Exponential(factor=1, jitter=0), [10, 10, 10, 10, 10]),
        (Fibonacci(jitter=0), [10, 10, 20, 30, 50]),
        (Fixed(jitter=0), [30, 30, 30, 30, 30]),
        (Exponential(base=timedelta(hours=2), jitter=0), [3600] * 5),
    ],
    ids=spelled,
)
def test_the_series_are_what_their_names_say(backoff: Fixed | Linear, expected: list[int]) -> None:
    assert [backoff(attempt).total_seconds() for attempt in range(1, 6)] == expected


@given(
    st.one_of(
        st.builds(Fixed, milliseconds, jitter=jitters),
        st.builds(Linear, base=milliseconds, cap=milliseconds, jitter=jitters),
        st.builds(Exponential, base=milliseconds, cap=milliseconds, factor=factors, jitter=jitters),
        st.builds(Fibonacci, base=milliseconds, cap=milliseconds, jitter=jitters),
    )
)
def test_a_stored_backoff_reads_back_equal(backoff: Fixed | Linear) -> None:
    assert from_document(to_document(backoff)) == backoff


class Mine(Fixed):
    """Only code can hold what this adds."""


@pytest.mark.parametrize(
    "backoff", [Mine(), lambda attempt, error: timedelta(0), 5, None], ids=spelled
)
def test_what_is_not_built_in_cannot_be_stored(backoff: Any) -> None:
    with pytest.raises(ConfigurationError, match="cannot be stored with a task or a queue"):
        to_document(backoff)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"kind": "unknown"},
        {"kind": ["fixed"]},
        {"kind": "fixed", "delay_ms": "soon"},
        {"kind": "fixed", "delay_ms": None},
        {"kind": "fixed", "delay_ms": -5},
        {"kind": "fixed", "delay_ms": 10**30},
        {"kind": "fixed", "jitter": 7},
        {"kind": "fixed", "jitter": "much"},
        {"kind": "fixed", "other": 1},
        {"kind": "exponential", "factor": 0},
        {"kind": "exponential", "factor": "x"},
    ],
    ids=spelled,
)
def test_a_document_edited_by_hand_reads_as_none(document: Mapping[str, object]) -> None:
    assert from_document(document) is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: Fixed(timedelta(seconds=-1)),
        lambda: Fixed(5),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        lambda: Fixed(jitter=-0.1),
        lambda: Fixed(jitter=1.1),
        lambda: Fixed(jitter=float("nan")),
        lambda: Linear(base=timedelta(seconds=-1)),
        lambda: Linear(cap=timedelta(seconds=-1)),
        lambda: Exponential(factor=0.9),
        lambda: Exponential(factor=float("inf")),
        lambda: Exponential(factor=float("nan")),
    ],
)
def test_senseless_settings_are_refused(make: Any) -> None:
    with pytest.raises(ConfigurationError):
        make()


def test_a_custom_delay_is_checked_and_clamped() -> None:
    assert bounded(timedelta(seconds=5)) == timedelta(seconds=5)
    assert bounded(timedelta.max) == MAX_DELAY
    for delay in (timedelta(seconds=-1), 5, None, float("nan")):
        with pytest.raises(ConfigurationError, match="a backoff's delay must"):
            bounded(delay)
