"""Whether everything happened in its time: no key held by two, nothing started too early."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

from gotasks_chaos.evidence import CLOCK_SECONDS, ESTIMATE_SECONDS, Asked, Evidence, Execution
from gotasks_chaos.finding import Finding
from gotasks_chaos.leases import THREADED
from gotasks_chaos.losses import FINAL


class _Holder(NamedTuple):
    """Who had a unique key, and when: surely from ``since`` on, at the earliest from ``asked``."""

    task: str
    asked: float
    since: float
    until: float


def keys_are_unique(evidence: Evidence) -> Finding:
    """Check each pair of holders of a key, and each refusal for its holder."""
    finding = Finding()
    holders = defaultdict[str, list[_Holder]](list)
    for asked in evidence.asked:
        if asked.key is not None:
            holders[asked.key] += _holders(asked, evidence)
    for key, found in holders.items():
        for one, other in combinations(found, 2):
            finding.look(_shared(key, one, other))
    for asked in evidence.asked:
        if asked.answer == "duplicate":
            finding.look(_unfounded(asked, holders[asked.key] if asked.key is not None else ()))
    finding.violations += [
        f"task {task.id} is {task.status}, and holds {task.held_key!r}"
        for task in evidence.stored
        if task.status in FINAL and task.held_key is not None
    ]
    return finding


def _holders(asked: Asked, evidence: Evidence) -> Iterator[_Holder]:
    for task in evidence.by_ref.get(asked.ref, ()):
        ended = task.finished_at
        until = float("inf") if ended is None else ended - evidence.offset
        # It is known to be there from its first start on, and from its answer.
        known = [run.began for run in evidence.by_task.get(task.id, ())]
        if asked.answer == "ack" and asked.answered_at is not None:
            known.append(asked.answered_at)
        yield _Holder(task.id, asked.at, min(known, default=until), until)


def _shared(key: str, one: _Holder, other: _Holder) -> Iterator[str]:
    seconds = min(one.until, other.until) - max(one.since, other.since)
    if seconds > CLOCK_SECONDS:
        yield f"tasks {one.task} and {other.task} both held {key!r}, for {seconds:.3f} s"


def _unfounded(asked: Asked, holders: Sequence[_Holder]) -> Iterator[str]:
    """Name a refusal at a time when nobody can have held the key.

    A holder's end is of when its last write began, and a starved server may take some time to it.
    """
    until = float("inf") if asked.answered_at is None else asked.answered_at
    if asked.key is None:
        yield f"{asked.ref} was refused as a duplicate, and asked for no key"
    elif not any(
        each.asked < until and each.until > asked.at - ESTIMATE_SECONDS for each in holders
    ):
        yield f"{asked.ref} was refused as a duplicate, and nobody held {asked.key!r}"


def nothing_starts_early(evidence: Evidence) -> Finding:
    """Check every start against the time that the task was to wait for."""
    finding = Finding()
    delays = {
        task.id: asked
        for asked in evidence.asked
        if asked.delay
        for task in evidence.by_ref.get(asked.ref, ())
    }
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
        if early > ESTIMATE_SECONDS:
            yield f"task {run.task} ran {early:.3f} s before the delay that was asked for"


def _hurry(one: Execution, other: Execution, evidence: Evidence) -> Iterator[str]:
    """Name a retry that came before its backoff was over."""
    waited = other.began - one.ended
    is_early = waited < evidence.backoff - CLOCK_SECONDS
    if other.attempt > one.attempt and is_early and _failed(one, evidence):
        yield f"task {one.task} was tried again {waited:.3f} s after attempt {one.attempt} failed"


def _failed(run: Execution, evidence: Evidence) -> bool:
    """Whether it failed, and that was recorded; a thread may go on after its time."""
    entries = evidence.by_id[run.task].errors if run.task in evidence.by_id else ()
    kinds = {each.kind for each in entries if each.attempt == run.attempt and not each.is_lapse}
    if "timeout" in kinds:
        return run.how == "stopped" and run.type != THREADED
    return bool(kinds) and run.how == "raised"
