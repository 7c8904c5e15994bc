"""Which policy applies: task, then type, then queue, then manager."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gotasks_memstore import MemStore
from gotasks_py import (
    ConfigurationError,
    Exponential,
    Fixed,
    Linear,
    Manager,
    QueueChanges,
    QueuePolicy,
    Task,
    TaskPolicy,
)
from gotasks_py.autoscaling import ScalingConfig
from gotasks_py.backoff import to_document
from gotasks_py.checks import MAX_WEIGHT, MAX_WORKERS, check_name
from gotasks_py.policy import Defaults, TypePolicy, attempt_policy, resolve
from gotasks_py.task import Status

T = TypeVar("T")
NOW = datetime(2026, 1, 1, tzinfo=UTC)

counts = st.none() | st.integers(1, 1000)
times = st.none() | st.integers(1, 10**9).map(lambda number: timedelta(milliseconds=number))
backoffs = st.none() | st.builds(Fixed, st.just(timedelta(seconds=1)), jitter=st.floats(0, 1))


def first(*choices: T | None) -> T | None:
    return next((choice for choice in choices if choice is not None), None)


@given(counts, counts, st.integers(1, 1000))
def test_attempts_are_the_tasks_or_the_queues_or_the_managers(
    task: int | None, queue: int | None, manager: int
) -> None:
    fields = resolve(
        TaskPolicy(max_attempts=task),
        QueuePolicy("q", max_attempts=queue),
        Defaults(max_attempts=manager),
        NOW,
    )
    assert fields["max_attempts"] == first(task, queue, manager)


@given(times, times, times, times)
def test_a_timeout_is_the_nearest_one(
    task: timedelta | None,
    kind: timedelta | None,
    queue: timedelta | None,
    manager: timedelta | None,
) -> None:
    policy = attempt_policy(
        a_task(timeout=task),
        TypePolicy(timeout=kind),
        QueuePolicy("q", timeout=queue),
        Defaults(timeout=manager),
    )
    assert policy.timeout == first(task, kind, queue, manager)


@given(backoffs, backoffs, backoffs)
def test_a_backoff_is_the_nearest_one(
    task: Fixed | None, kind: Fixed | None, queue: Fixed | None
) -> None:
    policy = attempt_policy(
        a_task(backoff=task), TypePolicy(backoff=kind), QueuePolicy("q", backoff=queue), Defaults()
    )
    assert policy.backoff == first(task, kind, queue, Exponential())


def test_a_stored_backoff_that_cannot_be_read_is_passed_over() -> None:
    task = Task(id="x", queue="q", type="t", status=Status.RUNNING, backoff={"kind": "odd"})
    policy = attempt_policy(task, TypePolicy(backoff=Linear()), QueuePolicy("q"), Defaults())
    assert policy.backoff == Linear()


@pytest.mark.parametrize(
    ("policy", "run_at", "due_at"),
    [
        (TaskPolicy(), NOW, NOW),
        (TaskPolicy(delay=timedelta(0)), NOW, NOW),
        (TaskPolicy(delay=timedelta(hours=1)), *[NOW + timedelta(hours=1)] * 2),
        (TaskPolicy(run_at=NOW + timedelta(days=1)), *[NOW + timedelta(days=1)] * 2),
        (TaskPolicy(run_at=NOW - timedelta(days=1)), NOW - timedelta(days=1), NOW),
    ],
    ids=["now", "no delay", "delay", "future", "past"],
)
def test_a_task_is_due_at_its_time_but_never_before_now(
    policy: TaskPolicy, run_at: datetime, due_at: datetime
) -> None:
    fields = resolve(policy, QueuePolicy("q"), Defaults(), NOW)
    assert (fields["run_at"], fields["due_at"]) == (run_at, due_at)


@pytest.mark.parametrize("ttl", [None, timedelta(0)])
def test_without_a_lifetime_no_field_says_one(ttl: timedelta | None) -> None:
    """B71: the field is absent, not null."""
    fields = resolve(TaskPolicy(), QueuePolicy("q", ttl=ttl), Defaults(), NOW)
    assert set(fields) == {"priority", "run_at", "due_at", "max_attempts", "tags"}
    assert QueuePolicy("q", ttl=ttl).registered()["ttl_ms"] is None


def test_a_lifetime_counts_from_the_time_the_task_is_due() -> None:
    """B71."""
    policy = TaskPolicy(delay=timedelta(days=3))
    fields = resolve(policy, QueuePolicy("q", ttl=timedelta(days=1)), Defaults(), NOW)
    assert fields["expires_at"] == NOW + timedelta(days=4)
    assert fields["ttl_ms"] == 86_400_000


def test_times_are_cut_to_milliseconds_and_spans_rounded_up() -> None:
    """B37."""
    moment = NOW.replace(microsecond=999_999)
    policy = TaskPolicy(run_at=moment, timeout=timedelta(microseconds=1500), retry_until=moment)
    fields = resolve(policy, QueuePolicy("q"), Defaults(), NOW)
    assert fields["run_at"] == fields["retry_until"] == NOW.replace(microsecond=999_000)
    assert fields["timeout_ms"] == 2


def test_give_up_on_beats_retry_on() -> None:
    policy = TypePolicy(retry_on=(LookupError,), give_up_on=(KeyError,))
    assert policy.is_retryable(IndexError())
    assert not policy.is_retryable(KeyError())
    assert not policy.is_retryable(ValueError())
    assert TypePolicy().is_retryable(ValueError())
    assert not TypePolicy(retry_on=()).is_retryable(ValueError())


def test_only_what_concerns_all_managers_is_registered() -> None:
    one = QueuePolicy("q", max_attempts=3, weight=5, workers=2)
    assert one.registered() == QueuePolicy("q", max_attempts=3).registered()
    assert one.registered() == {
        "ttl_ms": None,
        "max_attempts": 3,
        "timeout_ms": None,
        "backoff": None,
        "lanes": 1,
    }


@pytest.mark.parametrize(("name", "most"), [("workers", MAX_WORKERS), ("weight", MAX_WEIGHT)])
def test_a_queue_cannot_be_given_more_than_a_manager_can_bear(name: str, most: int) -> None:
    """Each worker is a loop from the start: three billion of them end a machine."""
    given: dict[str, Any] = {name: most}
    assert QueueChanges(**given).given == given
    declared = QueuePolicy("q", **given)
    for absurd in (most + 1, 3_000_000_000, 10**20):
        given = {name: absurd}
        with pytest.raises(ConfigurationError, match=f"{name} must be at most {most}, not"):
            QueuePolicy("q", **given)
        with pytest.raises(ConfigurationError, match=f"{name} must be at most {most}, not"):
            QueueChanges(**given)
        recorded = {"changes": given | {"max_attempts": 2}}
        held = QueueChanges.from_document(recorded).of(declared)
        assert (getattr(held, name), held.max_attempts) == (most, 2)


@pytest.mark.parametrize("workers", [MAX_WORKERS + 1, 3_000_000_000])
def test_a_manager_cannot_be_given_more_workers_than_it_can_bear(workers: int) -> None:
    with pytest.raises(ConfigurationError, match="workers must be at most 10000, not"):
        Manager(MemStore(), workers=workers)
    with pytest.raises(ConfigurationError, match="most must be at most 10000, not"):
        ScalingConfig(most=workers)
    manager = Manager(MemStore())
    with pytest.raises(ConfigurationError, match="workers must be at most 10000, not"):
        manager.override(workers=workers)


@given(st.text(max_size=250))
def test_a_name_is_legal_or_refused_with_a_message_that_can_be_shown(name: str) -> None:
    """B40."""
    legal = (
        1 <= len(name) <= 200
        and name == name.strip()
        and name.isprintable()
        and not name.startswith("$")
    )
    if legal:
        check_name("queue", name)
        return
    with pytest.raises(ValueError, match="a queue must") as raised:
        check_name("queue", name)
    assert str(raised.value).isprintable() or "\\" in repr(str(raised.value))


def a_task(timeout: timedelta | None = None, backoff: Fixed | None = None) -> Task:
    stored = None if backoff is None else to_document(backoff)
    return Task(id="x", queue="q", type="t", status=Status.RUNNING, timeout=timeout, backoff=stored)


@pytest.mark.parametrize(
    "policy",
    [
        QueuePolicy("q"),
        QueuePolicy(
            "q",
            ttl=timedelta(days=3),
            max_attempts=4,
            timeout=timedelta(seconds=5),
            backoff=Fixed(timedelta(seconds=7)),
            lanes=3,
        ),
    ],
)
def test_a_recorded_policy_reads_back(policy: QueuePolicy) -> None:
    assert QueuePolicy.from_document("q", policy.recorded_after(None)) == policy


@pytest.mark.parametrize("bad", [-1, 0, True, "7", 10**30, None, {}])
def test_a_spoilt_record_reads_as_not_set(bad: object) -> None:
    names = ("ttl_ms", "max_attempts", "timeout_ms", "backoff", "lanes")
    read = QueuePolicy.from_document("q", dict.fromkeys(names, bad))
    assert (read.ttl, read.timeout, read.backoff) == (None, None, None)
    assert read.max_attempts in {None, 1}


@pytest.mark.parametrize(
    ("of_task", "of_queue", "expected"),
    [
        (None, timedelta(hours=1), timedelta(hours=1)),
        (timedelta(minutes=1), timedelta(hours=1), timedelta(minutes=1)),
        (timedelta(minutes=1), None, timedelta(minutes=1)),
        (timedelta(0), timedelta(hours=1), None),
    ],
)
def test_a_lifetime_of_the_task_comes_before_its_queues(
    of_task: timedelta | None, of_queue: timedelta | None, expected: timedelta | None
) -> None:
    queue = QueuePolicy("q", ttl=of_queue)
    fields = resolve(TaskPolicy(ttl=of_task), queue, Defaults(), NOW)
    assert fields.get("expires_at") == (None if expected is None else NOW + expected)
    assert fields.get("ttl_ms") == (None if expected is None else expected.total_seconds() * 1000)
