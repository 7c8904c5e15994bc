"""What follows from how an attempt ended, as a table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gotasks_py import Fixed, Lease, PayloadError, Reject, Retry, Snooze, Status, Task
from gotasks_py._running import StopReason
from gotasks_py._verdict import (
    Cancelled,
    Dead,
    Expired,
    Failing,
    Judge,
    Lost,
    Raised,
    Released,
    Retrying,
    Snoozed,
    Stopped,
    Unstorable,
    Verdict,
    patch_for,
    text_of,
)
from gotasks_py.policy import AttemptPolicy, TypePolicy

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SOON = timedelta(seconds=7)


def judge(*, attempts: int = 1, of: int = 3, started: bool = True, **settings: Any) -> Judge:
    task = Task(
        id="x",
        queue="q",
        type="t",
        status=Status.RUNNING,
        attempts=attempts,
        max_attempts=of,
        lease=Lease("t", "worker.1", NOW),
        retry_until=settings.pop("retry_until", None),
    )
    return Judge(
        task=task,
        kind=TypePolicy(**settings),
        policy=AttemptPolicy(timeout=SOON, backoff=Fixed(SOON, jitter=0)),
        handler_started=started,
    )


FIRST, LAST, ONCE = judge(), judge(attempts=3), judge(of=1)
PICKY = judge(give_up_on=(KeyError, TimeoutError))


@pytest.mark.parametrize(
    ("judge", "ending", "verdict", "kind"),
    [
        (FIRST, Raised(ValueError()), Retrying, "ValueError"),
        (LAST, Raised(ValueError()), Dead, "ValueError"),
        (ONCE, Raised(ValueError()), Dead, "ValueError"),
        (PICKY, Raised(KeyError()), Dead, "KeyError"),
        (FIRST, Raised(Retry()), Retrying, "retry"),
        (LAST, Raised(Retry()), Dead, "retry"),
        (PICKY, Raised(Retry()), Retrying, "retry"),
        (FIRST, Raised(Reject("no")), Dead, "rejected"),
        (LAST, Raised(Snooze(SOON)), Snoozed, None),
        (ONCE, Raised(Snooze(SOON)), Snoozed, None),
        (FIRST, Raised(PayloadError("bad")), Retrying, "PayloadError"),
        (judge(started=False), Raised(PayloadError("bad")), Retrying, "invalid_payload"),
        (FIRST, Raised(KeyboardInterrupt()), Retrying, "KeyboardInterrupt"),
        (FIRST, Unstorable(PayloadError("big")), Dead, "unstorable_result"),
        (FIRST, Stopped(StopReason.TIMEOUT), Retrying, "timeout"),
        (LAST, Stopped(StopReason.TIMEOUT), Dead, "timeout"),
        (PICKY, Stopped(StopReason.TIMEOUT), Dead, "timeout"),
        (FIRST, Stopped(StopReason.LEASE_LOST), Lost, None),
        (ONCE, Stopped(StopReason.LEASE_LOST), Lost, None),
        (FIRST, Stopped(StopReason.CANCELLED), Cancelled, None),
        (FIRST, Stopped(StopReason.SHUTDOWN), Released, None),
        (LAST, Stopped(StopReason.SHUTDOWN), Released, None),
        (ONCE, Stopped(StopReason.SHUTDOWN), Dead, "interrupted"),
        (judge(of=1, started=False), Stopped(StopReason.SHUTDOWN), Released, None),
        (FIRST, Expired(), Dead, "expired"),
    ],
)
def test_each_ending_has_its_verdict(
    judge: Judge, ending: Failing, verdict: type[Verdict], kind: str | None
) -> None:
    found = judge.judge(ending, NOW)
    assert isinstance(found, verdict)
    if isinstance(found, Retrying | Dead):
        assert found.failure.kind == kind
        assert found.failure.worker == "worker.1"
        assert found.failure.attempt == judge.task.attempts
    else:
        assert kind is None
    assert (patch_for(found) is None) == isinstance(found, Lost)


@pytest.mark.parametrize(
    ("seconds", "is_retried"), [(100, True), (7, True), (6.999, False), (-1, False)]
)
def test_a_retry_that_would_start_too_late_is_not_made(seconds: float, is_retried: bool) -> None:
    until = NOW + timedelta(seconds=seconds)
    verdict = judge(retry_until=until).judge(Raised(ValueError("x")), NOW)
    assert isinstance(verdict, Retrying if is_retried else Dead)


class HostileError(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt

    __repr__ = __str__


class LongError(Exception):
    def __str__(self) -> str:
        return "m" * 50_000


def test_a_text_is_found_for_every_exception() -> None:
    assert text_of(ValueError("said")) == "said"
    assert text_of(HostileError()) == "<HostileError that cannot be printed>"


def test_messages_and_traces_are_cut_and_storable() -> None:
    def deep(level: int) -> None:
        if level:
            deep(level - 1)
        raise LongError("\ud800")

    with pytest.raises(LongError) as raised:
        deep(300)
    verdict = FIRST.judge(Raised(raised.value), NOW)
    assert isinstance(verdict, Retrying)
    assert len(verdict.failure.message) <= 2_001
    assert verdict.failure.traceback is not None
    assert len(verdict.failure.traceback) <= 8_001
    assert verdict.failure.traceback.encode()


def test_an_error_that_was_never_raised_has_no_trace() -> None:
    verdict = FIRST.judge(Raised(ValueError("x")), NOW)
    assert isinstance(verdict, Retrying)
    assert verdict.failure.traceback is None
