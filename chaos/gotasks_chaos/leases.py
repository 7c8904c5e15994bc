"""Whether a lease lasts, and whether its end is the end of who held it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

from gotasks_chaos.evidence import (
    CLOCK_SECONDS,
    ESTIMATE_SECONDS,
    Entry,
    Evidence,
    Execution,
    Stored,
)
from gotasks_chaos.finding import Finding

ZOMBIE_SECONDS: Final = 0.5
"""How long a handler may go on after its process runs again, to hear of its cancellation."""
THREADED: Final = "threaded"
"""A thread cannot be stopped: for plain functions the window is open until they return."""


def leases_hold(evidence: Evidence) -> Finding:
    """Check each pair of executions of a task, and each lease that ended without an outcome."""
    finding = Finding()
    for runs in evidence.by_task.values():
        for one, other in combinations(runs, 2):
            finding.look(_overlap(one, other, evidence))
    for task in evidence.stored:
        runs = evidence.by_task.get(task.id, ())
        finding.violations += _usurped(task, runs)
        finding.violations += _lapses(task, runs, evidence)
    return finding


def _usurped(task: Stored, runs: Sequence[Execution]) -> Iterator[str]:
    """Name what was recorded by an attempt after another had been claimed."""
    winner = next((run for run in runs if run.token == task.settled_by), None)
    if winner is not None and task.settled_as == task.status:
        later = [run.token for run in runs if run.claimed_at > winner.claimed_at + ESTIMATE_SECONDS]
        if later or winner.attempt < task.attempts:
            taker = later[-1] if later else f"attempt {task.attempts}"
            yield f"task {task.id} was settled by {winner.token}, after {taker} had taken it over"
    for entry in task.errors:
        for run in runs:
            late = entry.at - run.claimed_at
            if run.attempt > entry.attempt and late > ESTIMATE_SECONDS:
                yield (
                    f"attempt {entry.attempt} of task {task.id} is said to have failed "
                    f"{late:.3f} s after attempt {run.attempt} was claimed"
                )


def _overlap(one: Execution, other: Execution, evidence: Evidence) -> Iterator[str]:
    since, until = max(one.began, other.began), min(one.ended, other.ended)
    if until - since <= CLOCK_SECONDS:
        return
    where = f"in {one.process} and {other.process}"
    if not _was_given_up(one, other, evidence):
        yield (
            f"task {one.task} ran twice at a time for {until - since:.3f} s, {where}, and nothing "
            "had ended the first one's lease"
        )
    elif one.type != THREADED:
        live = _lived(one, since, until, evidence)
        if live > ZOMBIE_SECONDS:
            yield f"task {one.task} ran twice at a time for {live:.3f} s while both lived: {where}"


def _was_given_up(one: Execution, other: Execution, evidence: Evidence) -> bool:
    """Whether there is a reason why another was let in while a handler was at it."""
    process, task = evidence.by_process.get(one.process), evidence.by_id.get(one.task)
    if task is None:  # it does not exist, which is bad enough
        return True
    asked = None if process is None else process.asked_to_leave
    if asked is not None and asked < other.began:  # it was handed back
        return True
    kinds = {each.kind for each in task.errors if each.attempt == one.attempt}
    return "lease_expired" in kinds or (one.type == THREADED and "timeout" in kinds)


def _lived(run: Execution, since: float, until: float, evidence: Evidence) -> float:
    process = evidence.by_process.get(run.process)
    return until - since if process is None else process.ran(since, until)


def _lapses(task: Stored, runs: Sequence[Execution], evidence: Evidence) -> Iterator[str]:
    """Name the attempts of a task that were given up too soon, or did not give up."""
    for entry in task.errors:
        run = _ended_by(entry, runs)
        if run is not None:
            yield from _earliness(entry, run, _leased_at(entry, run, task), evidence)
            yield from _afterlife(entry, run, evidence)


def _ended_by(entry: Entry, runs: Sequence[Execution]) -> Execution | None:
    """Tell the execution whose lease ended; none: its process died before it began."""
    if not entry.is_lapse:
        return None
    held = [run for run in entry.among(runs) if run.process == entry.holder]
    return next((run for run in reversed(held) if run.claimed_at <= entry.at), None)


def _leased_at(entry: Entry, run: Execution, task: Stored) -> float:
    """Tell when a lease began, at the earliest.

    The last attempt of a pipeline begins by a write of its own, of which its worker may hear late.
    """
    if entry.attempt == task.attempts and task.started_at is not None:
        return min(run.claimed_at, task.started_at)
    return run.claimed_at


def _earliness(entry: Entry, run: Execution, leased_at: float, evidence: Evidence) -> Iterator[str]:
    lasted = entry.at - leased_at
    if lasted < evidence.lease - ESTIMATE_SECONDS:
        yield (
            f"task {run.task} was taken from {run.process} {lasted:.2f} s after its claim, in the "
            f"midst of a lease of {evidence.lease:g} s"
        )
    elif evidence.is_undisturbed and _was_well(run, entry.at - evidence.offset, evidence):
        has_ended = run.ended < entry.at - evidence.offset
        yield (
            f"task {run.task} was taken from {run.process}, which ran all the while and had "
            f"{run.how if has_ended else 'not ended'}"
        )


def _afterlife(entry: Entry, run: Execution, evidence: Evidence) -> Iterator[str]:
    """Name a handler that nobody stopped although its lease was over."""
    lived = _lived(run, max(run.began, entry.at - evidence.offset), run.ended, evidence)
    if lived > ZOMBIE_SECONDS and run.type != THREADED:
        yield (
            f"task {run.task} went on in {run.process} for {lived:.3f} s after its lease was over, "
            f"until it {run.how}"
        )


def _was_well(run: Execution, until: float, evidence: Evidence) -> bool:
    """Whether a process was there and ran while it held a lease of a task.

    It was at work on it and had to renew the lease, or it had ended and had to be recorded, or it
    left in order and had to hand it back. A lease that ended while its holder stood still may be
    noticed much later, behind a backlog.
    """
    process = evidence.by_process.get(run.process)
    if process is None:
        return False
    ended = until if process.ended is None else process.ended
    if process.has_left:
        until = min(until, ended)
    elif run.how == "died" or ended < until:
        return False
    since, lease = run.claimed_at - evidence.offset, evidence.lease
    return not any(
        start < until
        and (end > until - lease or (end > since and process.ran(start, start + lease) < lease / 2))
        for start, end in process.gaps
    )
