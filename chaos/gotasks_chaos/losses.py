"""Whether every task is there, is started as often as it may be, and comes to its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gotasks_chaos.evidence import Asked, Evidence, Execution, Stored
from gotasks_chaos.finding import Finding
from gotasks_chaos.leases import THREADED

FINAL: Final = frozenset({"done", "dead", "cancelled"})


def nothing_is_lost(evidence: Evidence) -> Finding:
    """Check every line that asks for a task against the tasks that carry its reference."""
    finding = Finding()
    known = {each.id: each for each in evidence.stored}
    for asked in evidence.asked:
        finding.look(_loss(asked, known, evidence.by_ref.get(asked.ref, ())))
    asked_for = {asked.ref for asked in evidence.asked}
    finding.violations += [
        f"task {task.id} exists, and no producer asked for {task.ref}"
        for task in evidence.stored
        if task.ref not in asked_for
    ]
    finding.violations += [
        f"task {task} was started in {runs[0].process}, and does not exist"
        for task, runs in evidence.by_task.items()
        if task not in known
    ]
    return finding


def _loss(asked: Asked, known: dict[str, Stored], found: Sequence[Stored]) -> Iterator[str]:
    if len(found) > 1:
        yield f"{asked.ref} was asked for once and exists {len(found)} times"
    if asked.answer == "ack" and (asked.task not in known or not found):
        yield f"task {asked.task} was acknowledged and is gone"
    elif found and asked.task not in {None, found[0].id}:
        yield f"{asked.ref} was told of task {asked.task}, and is task {found[0].id}"
    if asked.answer in {"duplicate", "refused"} and found:
        yield f"{asked.ref} was answered with {asked.answer}, and task {found[0].id} exists"
    if asked.answer == "refused":
        yield f"{asked.ref} was refused: {asked.why}"
    for task in found:
        if task.status not in FINAL:
            yield f"task {task.id} is still {task.status}"


def once_is_once(evidence: Evidence) -> Finding:
    """Check the starts of each task that may be attempted once."""
    finding = Finding()
    once = {asked.ref for asked in evidence.asked if asked.once}
    for task in evidence.stored:
        if task.max_attempts == 1:
            finding.look(_repetition(task, evidence))
        elif task.ref in once:
            wrong = f"task {task.id} was to be attempted once, and allows {task.max_attempts}"
            finding.look(iter([wrong]))
    return finding


def _repetition(task: Stored, evidence: Evidence) -> Iterator[str]:
    runs = evidence.by_task.get(task.id, ())
    if len(runs) > 1:
        yield f"task {task.id} of one attempt was started {len(runs)} times"
    if evidence.is_graceful and task.status == "dead" and not runs:
        yield f"task {task.id} of one attempt is dead, and was never started"


def attempts_are_counted(evidence: Evidence) -> Finding:
    """Check the starts of each task against what it counts."""
    finding = Finding()
    for task in evidence.stored:
        runs = evidence.by_task.get(task.id, ())
        finding.look(_miscount(task, runs, evidence))
        if evidence.is_graceful:
            finding.look(_waste(task, runs, evidence))
    return finding


def _waste(task: Stored, runs: Sequence[Execution], evidence: Evidence) -> Iterator[str]:
    """Name what must not happen while processes are only stopped in order."""
    if sum(run.how == "returned" and not _outlasted(run, evidence) for run in runs) > 1:
        yield f"task {task.id} was done twice, and nothing but orderly stops happened"
    for entry in task.errors:
        if entry.is_lapse:
            yield f"task {task.id} lost its lease, and nothing but orderly stops happened"
        elif entry.kind == "interrupted" and any(
            _outlasted(run, evidence) for run in entry.among(runs)
        ):
            continue
        elif not entry.is_intended and entry.kind != "timeout":
            yield f"attempt {entry.attempt} of task {task.id} was burnt: {entry.kind}"


def _outlasted(run: Execution, evidence: Evidence) -> bool:
    """Whether a handler was at it when the grace of its process was over."""
    process = evidence.by_process.get(run.process)
    if process is None or process.asked_to_leave is None:
        return False
    return run.ended > process.asked_to_leave + evidence.grace


def _miscount(task: Stored, runs: Sequence[Execution], evidence: Evidence) -> Iterator[str]:
    counts = f"counts {task.attempts} attempts and {task.interruptions} interruptions"
    if len(runs) > task.attempts + task.interruptions:
        yield f"task {task.id} was started {len(runs)} times, and {counts}"
    elif len(runs) - task.attempts > sum(_may_be_interrupted(run, evidence) for run in runs):
        yield f"task {task.id} was started {len(runs)} times, interrupted less often, and {counts}"
    highest = max((run.attempt for run in runs), default=0)
    if highest > task.attempts + task.interruptions:
        yield f"attempt {highest} of task {task.id} was started, and it {counts}"
    if task.attempts > task.max_attempts:
        yield f"task {task.id} counts {task.attempts} attempts of {task.max_attempts}"
    if task.status == "dead" and task.attempts < task.max_attempts:
        yield f"task {task.id} died at attempt {task.attempts} of {task.max_attempts}"


def _may_be_interrupted(run: Execution, evidence: Evidence) -> bool:
    """Whether its process was asked to leave while it was at it; a thread goes on after that."""
    process = evidence.by_process.get(run.process)
    if process is None or process.asked_to_leave is None or run.ended < process.asked_to_leave:
        return False
    return run.how == "stopped" or run.type == THREADED
