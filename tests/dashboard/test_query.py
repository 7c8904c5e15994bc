"""The search language: what is written is what is meant, and nothing else can be written."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gotasks_dashboard._problems import Problem
from gotasks_dashboard._query import filter_of, quoted, words_of, written
from gotasks_py import Status, TaskFilter
from tests.lab import START


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", TaskFilter()),
        ("queue:a/b type:send", TaskFilter(queue="a/b", type="send")),
        ("status:dead,done", TaskFilter(status=["dead", "done"])),
        ("status:dead status:done", TaskFilter(status=["dead", "done"])),
        ('tag:"a \\"b\\" \\\\"', TaskFilter(tag='a "b" \\')),
        ("key:k worker:m.1", TaskFilter(unique_key="k", worker="m.1")),
        ("error:a:b", TaskFilter(error="a:b")),
        ("65f1c0ffee65f1c0ffee0123", TaskFilter(id="65f1c0ffee65f1c0ffee0123")),
        ("payload.user.id:42", TaskFilter(payload={"user.id": 42})),
        ('payload.zip:"042"', TaskFilter(payload={"zip": "042"})),
        ("payload.a:null payload.b:true", TaskFilter(payload={"a": None, "b": True})),
        ("payload.a:1.5 payload.b:x", TaskFilter(payload={"a": 1.5, "b": "x"})),
        ("payload.a:NaN payload.b:[1]", TaskFilter(payload={"a": "NaN", "b": "[1]"})),
        ("payload.a:.*", TaskFilter(payload={"a": ".*"})),
        ("after:2h", TaskFilter(run_from=START - timedelta(hours=2))),
        ("before:now", TaskFilter(run_before=START + timedelta(milliseconds=1))),
        ("before:2026-01-01T12:00Z", TaskFilter(run_before=START)),
        ("before:2026-01-01T12:00", TaskFilter(run_before=START)),
    ],
)
def test_a_search_reads_as_a_filter(text: str, wanted: TaskFilter) -> None:
    assert filter_of(text, START) == wanted


@pytest.mark.parametrize(
    ("text", "at", "length", "why"),
    [
        ("queue:a hello", 8, 5, "tag:hello"),
        ("colour:red", 0, 10, "no qualifier"),
        ("queue:a queue:b", 8, 7, "twice"),
        ('tag:"open', 0, 9, "ends with"),
        ("queue:", 0, 6, "needs a value"),
        ("status:gone", 0, 11, "pending"),
        ("queue:q status:", 8, 7, "needs a value: pending"),
        ("status:,", 0, 8, "needs a value"),
        ("😀 x", 0, 2, "name:value"),
        ("tag:😀 x", 7, 1, "name:value"),
        ("payload.$where:1", 0, 16, "path"),
        ("payload.a..b:1", 0, 14, "path"),
        ("payload.a:99999999999999999999", 0, 30, "64 bits"),
        ("after:yesterday", 0, 15, "a time is"),
        ("after:999999w", 0, 13, "before all time"),
        ("queue:$where", 0, 12, "start with"),
    ],
)
def test_what_cannot_be_understood_is_pointed_at(text: str, at: int, length: int, why: str) -> None:
    with pytest.raises(Problem) as caught:
        filter_of(text, START)
    problem = caught.value
    assert (problem.status, problem.code) == (400, "bad_query")
    errors: Any = problem.more["errors"]
    assert (errors[0]["at"], errors[0]["length"]) == (at, length)
    assert why in str(problem)


@given(st.text(min_size=1))
def test_a_value_that_is_written_reads_as_itself(value: str) -> None:
    (word,) = words_of(f"tag:{quoted(value)}")
    assert word.value == value


def test_a_search_is_written_as_it_is_read() -> None:
    text = written(queue="a b", fingerprint="f")
    assert text == 'queue:"a b" fingerprint:f'


@given(st.text())
def test_no_text_makes_anything_but_a_filter_or_a_problem(text: str) -> None:
    with suppress(Problem):
        found = filter_of(text, START)
        assert found.statuses <= set(Status)
        assert all(isinstance(each, str | int | float | None) for each in found.payload.values())
