"""Whether leases last: none ends before its time, nor while its holder lives and renews it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gotasks_chaos.evidence import Entry, Evidence, Execution, Stored

_ESTIMATE_SECONDS: Final = 0.25
"""How far behind the server's time the moment of a claim may be that a worker tells."""


def early_lapses(task: Stored, runs: Sequence[Execution], evidence: Evidence) -> Iterator[str]:
    """Name the attempts of a task that were given up too soon."""
    for entry in task.errors:
        run = _ended_by(entry, runs)
        if run is not None:
            yield from _earliness(entry, run, _leased_at(entry, run, task), evidence)


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


def _was_well(run: Execution, until: float, evidence: Evidence) -> bool:
    """Whether a process was there and ran all through its last lease of a task.

    It was at work on it and had to renew the lease, or it had ended and had to be recorded.
    """
    process = evidence.by_process.get(run.process)
    if run.how == "died" or process is None or (process.ended or until) < until:
        return False
    return not any(start < until and end > until - evidence.lease for start, end in process.gaps)
