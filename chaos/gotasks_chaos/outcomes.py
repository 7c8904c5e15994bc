"""Whether what is recorded of an attempt is what happened in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from gotasks_chaos.evidence import ESTIMATE_SECONDS, Asked, Entry, Evidence, Execution, Stored
from gotasks_chaos.finding import Finding
from gotasks_chaos.work import HANG_SECONDS

_KEPT: Final = 20
"""How many entries a task keeps, by the documentation."""


def done_was_done(evidence: Evidence) -> Finding:
    """Check each outcome against the ledger of the execution that it is of."""
    finding = Finding()
    for task in evidence.stored:
        runs = evidence.by_task.get(task.id, ())
        if "done" in {task.status, task.settled_as}:
            finding.look(_undone(task, runs, evidence.offset))
        finding.violations += _invented(task, runs)
        finding.violations += _revived(task, runs)
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


def _undone(task: Stored, runs: Sequence[Execution], offset: float) -> Iterator[str]:
    winner = task.settled_by
    if task.settled_as != task.status:
        yield f"task {task.id} is {task.status}, and attempt {winner} made it {task.settled_as}"
        return
    if task.started_at is None or task.finished_at is None:
        yield f"task {task.id} is done, from {task.started_at} to {task.finished_at}"
    if winner != task.result_token:
        yield f"task {task.id} was settled by {winner}, and its result is of {task.result_token}"
    hows = {run.how for run in runs if run.token == winner}
    if not hows:
        yield f"task {task.id} is done, and the ledger knows nothing of attempt {winner}"
    elif hows != {"returned"}:
        yield f"task {task.id} is done by attempt {winner}, which {', '.join(sorted(hows))}"
    ended = max((run.ended for run in runs if run.token == winner), default=0.0)
    if task.finished_at is not None and task.finished_at < ended + offset - ESTIMATE_SECONDS:
        early = ended + offset - task.finished_at
        yield f"task {task.id} was done {early:.3f} s before attempt {winner} had ended"


def _invented(task: Stored, runs: Sequence[Execution]) -> Iterator[str]:
    """Name what is told of an attempt whose handler had returned, in time and in one piece."""
    for entry in task.errors:
        tried = entry.among(runs)
        if tried and all(run.how == "returned" and not _may_be(entry, run) for run in tried):
            yield (
                f"attempt {entry.attempt} of task {task.id} returned, and is said to have failed: "
                f"{entry.kind}: {entry.message}"
            )


def _may_be(entry: Entry, run: Execution) -> bool:
    """Whether an attempt can have failed so, whatever its handler came to in the end."""
    if entry.kind == "timeout":
        return run.ended - run.began > HANG_SECONDS - ESTIMATE_SECONDS
    return entry.is_lapse


def _revived(task: Stored, runs: Sequence[Execution]) -> Iterator[str]:
    for run in runs:
        if task.finished_at is not None and run.claimed_at > task.finished_at + ESTIMATE_SECONDS:
            late = run.claimed_at - task.finished_at
            yield f"task {task.id} was claimed {late:.3f} s after it was {task.status}"


def no_attempt_runs_twice(evidence: Evidence) -> Finding:
    """Check the starts of each token, and of each attempt by its number."""
    finding = Finding()
    starts = Counter(run.token for run in evidence.executions)
    tasks = {run.token: run.task for run in evidence.executions}
    for token, count in starts.items():
        task = tasks[token]
        wrong = [f"attempt {token} of task {task} was started {count} times"] if count > 1 else []
        finding.look(iter(wrong))
    for task, runs in evidence.by_task.items():
        known = evidence.by_id.get(task)
        again = 0 if known is None else known.interruptions
        number, count = Counter(run.attempt for run in runs).most_common(1)[0]
        if count > 1 + again:
            finding.violations.append(
                f"attempt {number} of task {task} was started {count} times, and not interrupted "
                "as often"
            )
    return finding


def failures_say_why(evidence: Evidence) -> Finding:
    """Check the entries on failed attempts against how many failed."""
    finding = Finding()
    for task in evidence.stored:
        if task.attempts > 1 or task.status == "dead":
            runs = evidence.by_task.get(task.id, ())
            finding.look(_silence(task))
            finding.violations += _falsehoods(task, runs)
    return finding


def _silence(task: Stored) -> Iterator[str]:
    entries = len(task.errors) + task.errors_dropped
    told = {each.attempt for each in task.errors}
    if entries < task.failed:
        yield f"task {task.id} failed {task.failed} attempts and explains {entries}"
    elif not task.errors_dropped and not told.issuperset(range(1, task.failed + 1)):
        yield f"task {task.id} failed {task.failed} attempts and explains {sorted(told)}"
    if task.errors_dropped and len(task.errors) < _KEPT:
        yield f"task {task.id} dropped {task.errors_dropped} entries, and keeps {len(task.errors)}"
    beyond = [each.attempt for each in task.errors if not 1 <= each.attempt <= task.attempts]
    if beyond:
        yield f"task {task.id} explains attempt {beyond[0]}, and counts {task.attempts}"
    repeated = [
        number
        for number, count in Counter(each.attempt for each in task.errors).items()
        if count > 1
    ]
    if repeated:
        yield f"task {task.id} has several outcomes of attempt {repeated[0]}"
    for entry in task.errors:
        # The handlers of the storm name the task in what they raise.
        if (
            not entry.message.strip()
            or not entry.kind
            or (entry.is_intended and task.ref not in entry.message)
        ):
            yield f"task {task.id} says of attempt {entry.attempt} only {entry[1:4]!r}"


def _falsehoods(task: Stored, runs: Sequence[Execution]) -> Iterator[str]:
    """Name entries that say something else than what the ledger saw of their attempts."""
    for entry in task.errors:
        tried = entry.among(runs)
        if not tried:
            continue
        if (
            not entry.is_intended
            and all(run.how == "raised" for run in tried)
            and not any(_may_be(entry, run) for run in tried)
        ):
            yield f"attempt {entry.attempt} of task {task.id} raised, and is told as {entry.kind!r}"
        elif (
            entry.is_lapse
            and not task.interruptions
            and entry.holder not in {run.process for run in tried}
        ):
            yield (
                f"attempt {entry.attempt} of task {task.id} was in {tried[0].process}, and "
                f"its lapse is told of {entry.holder}"
            )
