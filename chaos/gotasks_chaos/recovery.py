"""Whether everything got well by itself after the storm, and stayed modest during it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from gotasks_chaos.evidence import Evidence, Process, Recovery
from gotasks_chaos.finding import Finding
from gotasks_chaos.ledger import Line
from gotasks_chaos.nursery import NO_DATABASE
from gotasks_chaos.producer import KEYS
from gotasks_chaos.stage import PROBER

RECOVERY_SECONDS: Final = 5.0
"""Until the first claim, from when the new primary's writes are acknowledged on: a starved
machine is given more than the goal, 2 s after the election.
"""
START_SECONDS: Final = 30.0
"""How long a process that runs may take to begin to work, or to find that there is no database."""
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
    finding.violations += _untried(evidence)
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
    if written is None and (recovery.lost_at is not None or recovery.what == "all killed"):
        return  # there may have been no majority yet, or another primary soon after
    if first is not None:
        until, came = recovery.at + first, f"first claim {first:.1f} s after the election"
    elif recovery.lost_at is not None:
        until, came = recovery.lost_at, "no claim before the new primary was lost in its turn"
    else:  # and each storm is followed by work on every key
        yield f"{recovery.what}: no claim came after the election"
        return
    late = _attended(recovery.at + (written or 0.0), until, evidence)
    if late > RECOVERY_SECONDS:
        bare = "no bare write" if written is None else f"a bare write after {written:.1f} s"
        yield f"{recovery.what}: {came}, and {bare}; a worker was there for {late:.1f} s of that"


def _attended(since: float, until: float, evidence: Evidence) -> float:
    """Tell for how many seconds of a span a worker was there that could have claimed something.

    Not while the database was made to fail commands: it is what the storm did.
    """
    failing = [(line.facts["since"], line.facts["until"]) for line in evidence.noted("failing")]
    spans = sorted(
        span
        for process in evidence.processes
        if process.name.startswith("worker") and process.ready_at is not None
        for span in replace(process, gaps=[*process.gaps, *failing]).spans(
            max(since, process.ready_at),
            min(until, process.asked_to_leave or until, process.ended or until),
        )
    )
    seconds = 0.0
    for start, end in spans:
        seconds += max(0.0, end - max(start, since))
        since = max(since, end)
    return seconds


def _untried(evidence: Evidence) -> Iterator[str]:
    """Name the keys and workers that a prober has not tried."""
    if any(process.name.startswith(PROBER) for process in evidence.processes):
        tried = {line.facts["key"] for line in evidence.noted("probe")}
        yield from (f"key {key!r} was not tried" for key in KEYS if key not in tried)
        if any(evidence.noted("calling")) and not any(evidence.noted("roll")):
            yield "no worker was seen at work after the storm"


def _ended_well(process: Process) -> bool:
    """Whether it was killed, left when asked to, or found no database to begin with."""
    if process.was_killed and process.code == -signal.SIGKILL:
        return True
    is_prober = process.name.startswith(PROBER)
    if process.has_left:
        return is_prober or process.asked_to_leave is not None
    if is_prober or process.ready_at is not None:
        return False
    was_asked = process.asked_to_leave is not None
    return process.code == NO_DATABASE or (process.code == -signal.SIGTERM and was_asked)


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
    elif not _ended_well(process):
        yield f"{name} ended by itself with code {process.code}"
    if process.asked_to_leave is not None and process.ended is not None:
        took = process.ran(process.asked_to_leave, process.ended)
        if took > LEAVE_SECONDS:
            yield f"{name} was asked to leave, and was still there after {took:.0f} s"
    if process.ready_at is None and name.startswith("worker"):
        took = process.ran(process.began, process.asked_to_leave or process.ended or process.began)
        if took > START_SECONDS:
            yield f"{name} was not seen at work in {took:.0f} s"
    yield from (f"{name} said: {crash}" for crash in process.crashes)
    if process.complaints:
        yield f"{name} complains when all is calm: {'; '.join(process.complaints)}"
