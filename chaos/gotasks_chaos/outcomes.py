"""Whether what is recorded of an attempt is what happened in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from gotasks_chaos.evidence import Asked, Evidence, Execution, Stored
from gotasks_chaos.finding import Finding

_OF_TIME: Final = frozenset({"lease_expired", "timeout"})
"""Failures that say nothing of what the handler did."""


def done_was_done(evidence: Evidence) -> Finding:
    """Check each outcome against the ledger of the execution that it is of."""
    finding = Finding()
    for task in evidence.stored:
        runs = evidence.by_task.get(task.id, ())
        if task.status == "done":
            finding.look(_undone(task, runs))
        finding.violations += _invented(task, runs)
    for asked in evidence.asked:
        found = evidence.by_ref.get(asked.ref, ())
        finding.violations += _unasked(asked, found)
        if asked.was_cancelled:
            finding.look(_uncancelled(found))
    return finding


def _unasked(asked: Asked, found: Sequence[Stored]) -> Iterator[str]:
    for task in found:
        if task.status == "cancelled" and not asked.was_to_be_cancelled:
            yield f"task {task.id} is cancelled, and nobody asked for that"


def _uncancelled(found: Sequence[Stored]) -> Iterator[str]:
    for task in found:
        if task.status != "cancelled":
            yield f"task {task.id} is {task.status}, and its cancellation was acknowledged"


def _undone(task: Stored, runs: Sequence[Execution]) -> Iterator[str]:
    winner = task.settled_by
    if winner != task.result_token:
        yield f"task {task.id} was settled by {winner}, and its result is of {task.result_token}"
    hows = {run.how for run in runs if run.token == winner}
    if not hows:
        yield f"task {task.id} is done, and the ledger knows nothing of attempt {winner}"
    elif hows != {"returned"}:
        yield f"task {task.id} is done by attempt {winner}, which {', '.join(sorted(hows))}"


def _invented(task: Stored, runs: Sequence[Execution]) -> Iterator[str]:
    """Name what is told of an attempt whose handler had returned, in time and in one piece."""
    returned = {run.attempt: run for run in runs if run.how == "returned" and run.type == "work"}
    for entry in task.errors:
        if entry.attempt in returned and entry.kind not in _OF_TIME:
            yield (
                f"attempt {entry.attempt} of task {task.id} returned, and is said to have failed: "
                f"{entry.kind}: {entry.message}"
            )


def no_attempt_runs_twice(evidence: Evidence) -> Finding:
    """Check the starts of each token."""
    finding = Finding()
    starts = Counter((run.task, run.token) for run in evidence.executions)
    for (task, token), count in starts.items():
        wrong = [f"attempt {token} of task {task} was started {count} times"] if count > 1 else []
        finding.look(iter(wrong))
    return finding


def failures_say_why(evidence: Evidence) -> Finding:
    """Check the entries on failed attempts against how many failed."""
    finding = Finding()
    for task in evidence.stored:
        if task.attempts > 1 or task.status == "dead":
            finding.look(_silence(task))
    return finding


def _silence(task: Stored) -> Iterator[str]:
    failed = task.attempts if task.status == "dead" else task.attempts - 1
    entries = len(task.errors) + task.errors_dropped
    if entries < failed:
        yield f"task {task.id} failed {failed} attempts and explains {entries}"
    repeated = [
        number
        for number, count in Counter(each.attempt for each in task.errors).items()
        if count > 1
    ]
    if repeated:
        yield f"task {task.id} has several outcomes of attempt {repeated[0]}"
    for entry in task.errors:
        # The handlers of the storm name the task in what they raise.
        if not entry.message or (entry.is_intended and task.ref not in entry.message):
            yield f"task {task.id} says of attempt {entry.attempt} only {entry[1:4]!r}"
