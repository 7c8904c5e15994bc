"""Whether a lease lasts, and whether its end is the end of who held it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

from gotasks_chaos.evidence import Entry, Evidence, Execution, Stored
from gotasks_chaos.finding import Finding

ZOMBIE_SECONDS: Final = 0.5
"""How long a handler may go on after its process runs again, to hear of its cancellation."""
THREADED: Final = "threaded"
"""A thread cannot be stopped: for plain functions the window is open until they return."""
_ESTIMATE_SECONDS: Final = 0.25
"""How far behind the server's time the moment of a claim may be that a worker tells."""


def leases_hold(evidence: Evidence) -> Finding:
    """Check each pair of executions of a task, and each lease that ended without an outcome."""
    finding = Finding()
    for runs in evidence.by_task.values():
        for one, other in combinations(runs, 2):
            finding.look(_overlap(one, other, evidence))
    for task in evidence.stored:
        runs = evidence.by_task.get(task.id, ())
        if task.status == "done" and len(runs) > 1 and runs[-1].token != task.settled_by:
            finding.violations.append(
                f"task {task.id} was settled by {task.settled_by}, after {runs[-1].token} "
                "had taken it over"
            )
        finding.violations += _lapses(task, runs, evidence)
    return finding


def _overlap(one: Execution, other: Execution, evidence: Evidence) -> Iterator[str]:
    since, until = max(one.began, other.began), min(one.ended, other.ended)
    if until - since <= ZOMBIE_SECONDS or one.type == THREADED:
        return
    live = _lived(one, since, until, evidence)
    if live > ZOMBIE_SECONDS:
        yield (
            f"task {one.task} ran twice at a time for {live:.3f} s while both lived: "
            f"in {one.process} and {other.process}"
        )


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
    of_attempt = [
        run
        for run in runs
        if entry.is_lapse and run.attempt == entry.attempt and run.claimed_at <= entry.at
    ]
    return of_attempt[-1] if of_attempt else None


def _leased_at(entry: Entry, run: Execution, task: Stored) -> float:
    """Tell when a lease began, at the earliest.

    The last attempt of a pipeline begins by a write of its own, of which its worker may hear late.
    """
    if entry.attempt == task.attempts and task.started_at is not None:
        return min(run.claimed_at, task.started_at)
    return run.claimed_at


def _earliness(entry: Entry, run: Execution, leased_at: float, evidence: Evidence) -> Iterator[str]:
    lasted = entry.at - leased_at
    if lasted < evidence.lease - _ESTIMATE_SECONDS:
        yield (
            f"task {run.task} was taken from {run.process} {lasted:.2f} s after its claim, in the "
            f"midst of a lease of {evidence.lease:g} s"
        )
    elif evidence.is_undisturbed and _was_well(run, entry.at - evidence.offset, evidence):
        yield (
            f"task {run.task} was taken from {run.process}, which ran all the while and had "
            f"{run.how if run.ended < entry.at - evidence.offset else 'not ended'}"
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

    It was at work on it and had to renew the lease, or it had ended and had to be recorded. A
    lease that ended while its holder stood still may be noticed much later, behind a backlog.
    """
    process = evidence.by_process.get(run.process)
    if run.how == "died" or process is None or (process.ended or until) < until:
        return False
    since, lease = run.claimed_at - evidence.offset, evidence.lease
    return not any(
        start < until
        and (end > until - lease or (end > since and process.ran(start, start + lease) < lease / 2))
        for start, end in process.gaps
    )
