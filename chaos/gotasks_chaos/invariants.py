"""What must hold after any storm: each invariant with its number, its reason and its check.

A check is a query over the :class:`~gotasks_chaos.evidence.Evidence`: it tells how many
cases it looked at and describes each that is wrong.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Final, TypeAlias

from gotasks_chaos.counting import counters_are_true
from gotasks_chaos.evidence import Asked, Evidence, Execution, Stored
from gotasks_chaos.finding import Finding
from gotasks_chaos.lapses import early_lapses
from gotasks_chaos.recovery import it_recovers

FINAL: Final = frozenset({"done", "dead", "cancelled"})
CLOCK_SECONDS: Final = 0.02
"""How far two readings of one clock may lie apart: the audit knows it to the round trip."""
_OF_TIME: Final = frozenset({"lease_expired", "timeout"})
"""Failures that say nothing of what the handler did."""
_ESTIMATE_SECONDS: Final = 0.25
"""How far behind the server's time a producer may be that had to wait for its turn to ask."""


Check: TypeAlias = Callable[[Evidence], Finding]


@dataclass(frozen=True, slots=True)
class Invariant:
    """A promise, why it matters, and the check that holds the engine to it."""

    number: int
    promise: str
    reason: str
    check: Check


def _nothing_is_lost(evidence: Evidence) -> Finding:
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
    if asked.answer in {"duplicate", "refused"} and found:
        yield f"{asked.ref} was answered with {asked.answer}, and task {found[0].id} exists"
    if asked.answer == "refused":
        yield f"{asked.ref} was refused: {asked.why}"
    for task in found:
        if task.status not in FINAL:
            yield f"task {task.id} is still {task.status}"


def _once_is_once(evidence: Evidence) -> Finding:
    finding = Finding()
    for task in evidence.stored:
        if task.max_attempts == 1:
            finding.look(_repetition(task, evidence))
    return finding


def _repetition(task: Stored, evidence: Evidence) -> Iterator[str]:
    runs = evidence.by_task.get(task.id, ())
    if len(runs) > 1:
        yield f"task {task.id} of one attempt was started {len(runs)} times"
    if evidence.is_graceful and task.status == "dead" and not runs:
        yield f"task {task.id} of one attempt is dead, and was never started"


def _attempts_are_counted(evidence: Evidence) -> Finding:
    finding = Finding()
    for task in evidence.stored:
        runs = evidence.by_task.get(task.id, ())
        finding.look(_miscount(task, len(runs)))
        if evidence.is_graceful:
            finding.look(_waste(task, runs))
    return finding


def _waste(task: Stored, runs: Sequence[Execution]) -> Iterator[str]:
    """Name what must not happen while processes are only stopped in order."""
    if sum(run.how == "returned" for run in runs) > 1:
        yield f"task {task.id} was done twice, and nothing but orderly stops happened"
    if any(entry.is_lapse for entry in task.errors):
        yield f"task {task.id} lost its lease, and nothing but orderly stops happened"


def _miscount(task: Stored, runs: int) -> Iterator[str]:
    if runs > task.attempts + task.interruptions:
        yield (
            f"task {task.id} was started {runs} times, and counts {task.attempts} attempts and "
            f"{task.interruptions} interruptions"
        )
    if task.attempts > task.max_attempts:
        yield f"task {task.id} counts {task.attempts} attempts of {task.max_attempts}"
    if task.status == "dead" and task.attempts < task.max_attempts:
        yield f"task {task.id} died at attempt {task.attempts} of {task.max_attempts}"


def _done_was_done(evidence: Evidence) -> Finding:
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
    winner = _settled_by(task)
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


def _settled_by(task: Stored) -> str | None:
    return task.settle_token and task.settle_token.rpartition("/")[0]


def _no_attempt_runs_twice(evidence: Evidence) -> Finding:
    finding = Finding()
    starts = Counter((run.task, run.token) for run in evidence.executions)
    for (task, token), count in starts.items():
        wrong = [f"attempt {token} of task {task} was started {count} times"] if count > 1 else []
        finding.look(iter(wrong))
    return finding


def _keys_are_unique(evidence: Evidence) -> Finding:
    finding = Finding()
    holders = defaultdict[str, list[tuple[float, float, str]]](list)
    for asked in evidence.asked:
        if asked.key is None or asked.answer != "ack" or asked.answered_at is None:
            continue
        for task in evidence.by_ref.get(asked.ref, ()):
            ended = task.finished_at
            until = float("inf") if ended is None else ended - evidence.offset
            holders[asked.key].append((asked.answered_at, until, task.id))
    for key, spans in holders.items():
        for (since, until, one), (later, end, other) in combinations(spans, 2):
            finding.look(_shared(key, (one, other), min(until, end) - max(since, later)))
    return finding


def _shared(key: str, tasks: tuple[str, str], seconds: float) -> Iterator[str]:
    if seconds > CLOCK_SECONDS:
        yield f"tasks {tasks[0]} and {tasks[1]} both held {key!r}, for {seconds:.3f} s"


def _nothing_starts_early(evidence: Evidence) -> Finding:
    finding = Finding()
    delays = {asked.task: asked for asked in evidence.asked if asked.task and asked.delay}
    for run in evidence.executions:
        finding.look(_earliness(run, delays.get(run.task), evidence.offset))
    for runs in evidence.by_task.values():
        for one, other in pairwise(runs):
            finding.look(_hurry(one, other, evidence))
    for task in evidence.stored:
        # One that waits for its next attempt still tells when the last one started.
        is_waiting = task.status in {"pending", "cancelled"}
        if not is_waiting and task.started_at is not None and task.started_at < task.run_at:
            early = task.run_at - task.started_at
            finding.violations.append(
                f"task {task.id} was claimed {early:.3f} s before its time, by the server's clock"
            )
    return finding


def _earliness(run: Execution, asked: Asked | None, offset: float) -> Iterator[str]:
    if run.began + offset < run.run_at - CLOCK_SECONDS:
        early = run.run_at - run.began - offset
        yield f"task {run.task} was started {early:.3f} s before its time"
    if asked is not None and run.attempt == 1:
        # The delay counts from the call, by what its process knows of the server's time.
        early = asked.at + asked.delay - run.began
        slack = (asked.answered_at or asked.at) - asked.at + _ESTIMATE_SECONDS
        if early > slack:
            yield f"task {run.task} ran {early:.3f} s before the delay that was asked for"


def _hurry(one: Execution, other: Execution, evidence: Evidence) -> Iterator[str]:
    """Name a retry that came before its backoff was over."""
    waited = other.began - one.ended
    if one.how == "raised" and waited < evidence.backoff and not _lapsed(one, evidence):
        yield f"task {one.task} was tried again {waited:.3f} s after attempt {one.attempt} failed"


def _lapsed(run: Execution, evidence: Evidence) -> bool:
    """Whether an attempt's outcome was never recorded."""
    entries = evidence.by_id[run.task].errors if run.task in evidence.by_id else ()
    return not any(each.attempt == run.attempt and not each.is_lapse for each in entries)


def _overlaps_are_excused(evidence: Evidence) -> Finding:
    finding = Finding()
    for runs in evidence.by_task.values():
        for one, other in combinations(runs, 2):
            finding.look(_overlap(one, other, evidence))
    for task in evidence.stored:
        runs = evidence.by_task.get(task.id, ())
        if task.status == "done" and len(runs) > 1 and runs[-1].token != _settled_by(task):
            finding.violations.append(
                f"task {task.id} was settled by {_settled_by(task)}, after {runs[-1].token} "
                "had taken it over"
            )
        finding.violations += early_lapses(task, runs, evidence)
    return finding


ZOMBIE_SECONDS: Final = 0.5
"""How long a handler may go on after its process runs again, to hear of its cancellation."""


def _overlap(one: Execution, other: Execution, evidence: Evidence) -> Iterator[str]:
    since, until = max(one.began, other.began), min(one.ended, other.ended)
    # A thread cannot be stopped: for plain functions the window is open until they return.
    if until - since <= ZOMBIE_SECONDS or one.type == "threaded":
        return
    process = evidence.by_process.get(one.process)
    gaps = process.gaps if process else ()
    excused = sum(max(0.0, min(until, end) - max(since, start)) for start, end in _merged(gaps))
    live = until - since - excused
    if live > ZOMBIE_SECONDS:
        yield (
            f"task {one.task} ran twice at a time for {live:.3f} s while both lived: "
            f"in {one.process} and {other.process}"
        )


def _merged(gaps: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for start, end in sorted(gaps):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _failures_say_why(evidence: Evidence) -> Finding:
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
        is_intended = entry.kind.endswith("IntendedError")
        if not entry.message or (is_intended and task.ref not in entry.message):
            yield f"task {task.id} says of attempt {entry.attempt} only {entry[1:4]!r}"


INVARIANTS: Final[Sequence[Invariant]] = (
    Invariant(
        1,
        "every acknowledged task is final in the end; an unclear one exists at most once",
        "what was promised to a producer is kept",
        _nothing_is_lost,
    ),
    Invariant(
        2,
        "a task of one attempt is started at most once, and orderly stops waste none",
        "some effects must not be repeated, whatever happens",
        _once_is_once,
    ),
    Invariant(
        3,
        "starts <= attempts + interruptions, attempts <= max_attempts; orderly stops burn none",
        "a limit that is not counted right is none",
        _attempts_are_counted,
    ),
    Invariant(
        4,
        "done means that the attempt that settled it returned, with its result; cancelled stays so",
        "an outcome is never invented or mixed up",
        _done_was_done,
    ),
    Invariant(
        5,
        "no attempt is started twice",
        "the token of a claim is a fence for outside systems only if it is used once",
        _no_attempt_runs_twice,
    ),
    Invariant(
        6,
        "two live executions of a task never overlap, and the loser records nothing",
        "only what cannot be stopped, a frozen process or a thread, may be a zombie",
        _overlaps_are_excused,
    ),
    Invariant(
        7,
        "at most one active task holds a unique key",
        "that is what a unique key is for",
        _keys_are_unique,
    ),
    Invariant(
        8,
        "nothing starts before its run_at, by the server's clock",
        "the clocks of workers and producers do not matter",
        _nothing_starts_early,
    ),
    Invariant(
        9,
        "metrics never count more than happened, and without kills they count it all",
        "numbers that are wrong are worse than none",
        counters_are_true,
    ),
    Invariant(
        10,
        "after the storm everything gets well by itself",
        "nobody restarts a queue at night",
        it_recovers,
    ),
    Invariant(
        11,
        "every attempt that failed says why, once",
        "a task that is tried again or dead can be understood",
        _failures_say_why,
    ),
)
