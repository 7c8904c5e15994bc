"""Whether everything got well by itself after the storm, and stayed modest during it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Final

from gotasks_chaos.evidence import Evidence, Process, Recovery
from gotasks_chaos.finding import Finding
from gotasks_chaos.ledger import Line
from gotasks_chaos.nursery import NO_DATABASE

RECOVERY_SECONDS: Final = 5.0
"""Until the first claim, from when the new primary's writes are acknowledged on: a starved
machine is given more than the goal, 2 s after the election.
"""
PROMPT: Final = frozenset({"primary killed", "primary stepped down", "primary frozen"})
"""A set whose members were all killed has to find itself first."""
LEAVE_SECONDS: Final = 30.0
"""How long a process that runs may take to leave: its grace, and an outage in its last moments."""
FILES: Final = 100
"""How many files, connections among them, a worker may have open."""
RECORDS: Final = 50
RECORDS_PER_SECOND: Final = 1.0
"""How much a process may log, but for single attempts: some for each outage, not each try."""


def it_recovers(evidence: Evidence) -> Finding:
    """Check that the system came to rest, and that every process is well and was modest."""
    finding = Finding()
    for line in evidence.noted("overdue"):
        finding.look(iter([f"{line.facts['what']} waited {line.facts['seconds']:.1f} s"]))
    for line in evidence.noted("probe"):
        facts = line.facts
        wrong = [] if facts["ok"] else [f"key {facts['key']!r} is stuck: {facts['why']}"]
        finding.look(iter(wrong))
    for line in evidence.noted("roll"):
        finding.look(_idleness(line))
    for recovery in evidence.recoveries:
        finding.look(_slowness(recovery, evidence))
    for process in evidence.processes:
        finding.look(_unwell(process))
        finding.look(_excess(process))
    return finding


def _idleness(line: Line) -> Iterator[str]:
    at_once, slots = line.facts["at_once"], line.facts["slots"]
    if at_once < slots:
        does = f"ran {at_once} tasks at a time, of {slots}" if at_once else "ran nothing"
        yield f"{line.facts['worker']} {does}, with more than enough to do after the storm"


def _slowness(recovery: Recovery, evidence: Evidence) -> Iterator[str]:
    first, written = recovery.first_claim, recovery.first_write
    if recovery.what not in PROMPT:
        return
    if first is not None:
        until, came = recovery.at + first, f"first claim {first:.1f} s after the election"
    elif recovery.lost_at is not None:
        until, came = recovery.lost_at, "no claim before the new primary was lost in its turn"
    else:  # and each storm is followed by work on every key
        yield f"{recovery.what}: no claim came after the election"
        return
    late = _attended(recovery.at + (written or 0.0), until, evidence)
    if late > RECOVERY_SECONDS:
        bare = "none" if written is None else f"one after {written:.1f} s"
        yield (
            f"{recovery.what}: {came}, of bare writes {bare}; "
            f"a worker was there for {late:.1f} s of that"
        )


def _attended(since: float, until: float, evidence: Evidence) -> float:
    """Tell for how many seconds of a span a worker was there that could have claimed something."""
    spans = sorted(
        span
        for process in evidence.processes
        if process.name.startswith("worker") and process.ready_at is not None
        for span in process.spans(
            max(since, process.ready_at),
            min(until, process.asked_to_leave or until, process.ended or until),
        )
    )
    seconds = 0.0
    for start, end in spans:
        seconds += max(0.0, end - max(start, since))
        since = max(since, end)
    return seconds


def _could_not_begin(process: Process) -> bool:
    """Whether it found no database, or was told to go before it listened."""
    return process.ready_at is None and process.code in {NO_DATABASE, -signal.SIGTERM}


def _excess(process: Process) -> Iterator[str]:
    lived = (process.ended or process.began) - process.began
    if process.files > FILES:
        yield f"{process.name} had {process.files} files open"
    if process.logged > RECORDS + RECORDS_PER_SECOND * lived:
        yield f"{process.name} logged {process.logged} records in {lived:.0f} s"


def _unwell(process: Process) -> Iterator[str]:
    name = process.name
    if process.ended is None:
        yield f"{name} did not end"
    elif process.code and not process.was_killed and not _could_not_begin(process):
        yield f"{name} ended by itself with code {process.code}"
    if process.asked_to_leave is not None and process.ended is not None:
        took = process.ran(process.asked_to_leave, process.ended)
        if took > LEAVE_SECONDS:
            yield f"{name} was asked to leave, and was still there after {took:.0f} s"
    yield from (f"{name} said: {crash}" for crash in process.crashes)
    if process.complaints:
        yield f"{name} complains when all is calm: {'; '.join(process.complaints)}"
