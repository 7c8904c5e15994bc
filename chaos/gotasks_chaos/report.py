"""What a run tells: to people as text, to machines as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any, Final

from gotasks_chaos.evidence import Evidence
from gotasks_chaos.invariants import INVARIANTS
from gotasks_chaos.profiles import PROFILES
from gotasks_chaos.record import Record

FIRST_CLAIM_SECONDS: Final = 2.0
"""The goal for the first claim after an election, on machines that have time for it."""
_SHOWN: Final = 5
"""How many violations of one invariant are printed; the JSON has them all."""


def duplicates(evidence: Evidence) -> tuple[int, int]:
    """Count the retryable tasks, and those whose handler returned more than once."""
    retryable = [task for task in evidence.stored if task.max_attempts > 1]
    doubled = sum(
        sum(run.how == "returned" for run in evidence.by_task.get(task.id, ())) > 1
        for task in retryable
    )
    return len(retryable), doubled


def to_document(run: Record, evidence: Evidence) -> dict[str, Any]:
    """Audit a run, and say everything about it as plain data; ``--replay`` reads it."""
    return {
        **run.model_dump(mode="json"),
        "counts": dict(counts(evidence)),
        "recoveries": [asdict(each) for each in evidence.recoveries],
        "most_files": max((each.files for each in evidence.processes), default=0),
        "most_logged": max((each.logged for each in evidence.processes), default=0),
        "backlog": sum(line.facts["backlog"] for line in evidence.noted("drained")),
        "goals": list(_goals(run, evidence)),
        "invariants": [
            {
                "number": each.number,
                "promise": each.promise,
                "reason": each.reason,
                "query": each.query,
                **asdict(each.check(evidence)),
            }
            for each in INVARIANTS
        ],
    }


_PROMPT: Final = frozenset({"primary killed", "primary stepped down", "primary frozen"})
"""Where all are killed, they have to find themselves first."""


def _goals(run: Record, evidence: Evidence) -> Iterator[dict[str, Any]]:
    """Tell what depends on the machine as well, and is therefore no violation."""
    at_most = PROFILES[run.profile].duplicates
    retryable, doubled = duplicates(evidence)
    if at_most is not None:
        rate = round(100 * doubled / max(1, retryable), 2)
        yield {"what": "duplicates of retryable tasks", "unit": "%", "is": rate, "at_most": at_most}
    firsts = [
        each.first_claim
        for each in evidence.recoveries
        if each.what in _PROMPT and each.first_claim is not None
    ]
    if firsts:
        yield {
            "what": "first claim after an election",
            "unit": "s",
            "is": round(max(firsts), 2),
            "at_most": FIRST_CLAIM_SECONDS,
        }


def counts(evidence: Evidence) -> Iterator[tuple[str, int]]:
    """Count what happened."""
    yield "asked", len(evidence.asked)
    yield from sorted(Counter(each.answer for each in evidence.asked).items())
    yield "stored", len(evidence.stored)
    yield from sorted(Counter(each.status for each in evidence.stored).items())
    yield "executions", len(evidence.executions)
    yield from sorted(Counter(f"executions_{each.how}" for each in evidence.executions).items())
    yield (
        "lease_expired",
        sum(entry.is_lapse for each in evidence.stored for entry in each.errors),
    )
    yield "interruptions", sum(each.interruptions for each in evidence.stored)
    retryable, doubled = duplicates(evidence)
    yield "retryable", retryable
    yield "duplicates", doubled
    yield from sorted(Counter(str(each.facts["kind"]) for each in evidence.noted("fault")).items())


def text(document: Mapping[str, Any]) -> str:
    """Say the same to people."""
    facts = document["counts"]
    rate = 100 * facts["duplicates"] / max(1, facts["retryable"])
    head = (
        f"{document['profile']}, {document['mode']} mode, seed {document['seed']}, "
        f"{document['duration']:g} s"
    )
    lines = [
        head,
        "  " + ", ".join(f"{name} {value}" for name, value in facts.items()),
        (
            f"  duplicates of retryable tasks {rate:.2f} %, {document['backlog']} left by the "
            f"storm, at rest {document['drained_after']:.1f} s after it"
        ),
    ]
    lines += _recovered(document["recoveries"])
    lines += [
        f"  goal {'met' if each['is'] <= each['at_most'] else 'MISSED'}: {each['what']} "
        f"{each['is']:g} {each['unit']}, at most {each['at_most']:g} {each['unit']}"
        for each in document["goals"]
    ]
    for each in document["invariants"]:
        wrong = each["violations"]
        found = "holds" if each["examined"] else "UNTRIED"
        found = f"{len(wrong)} VIOLATIONS" if wrong else found
        lines.append(
            f"  {each['number']:>2} {found}, {each['examined']} examined: {each['promise']}"
        )
        lines += [f"       {message}" for message in wrong[:_SHOWN]]
        if wrong:
            lines.append(f"       why it matters: {each['reason']}; looked at: {each['query']}")
    return "\n".join(lines)


def verdict(documents: Sequence[Mapping[str, Any]]) -> str:
    """Say once more what was violated: of a long log, the end is what is kept."""
    lines = [
        f"VIOLATED: invariant {each['number']} by {document['profile']}, {document['mode']} mode, "
        f"seed {document['seed']}: {message}"
        for document in documents
        for each in document["invariants"]
        for message in each["violations"][:_SHOWN]
    ]
    runs = "1 run" if len(documents) == 1 else f"{len(documents)} runs"
    return "\n".join(lines or [f"nothing was violated in {runs}"])


def _recovered(recoveries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for what in sorted({each["what"] for each in recoveries}):
        of_kind = [each for each in recoveries if each["what"] == what]
        firsts = sorted(each["first_claim"] for each in of_kind if each["first_claim"] is not None)
        if firsts:
            yield (
                f"  {what} {len(of_kind)} times, another elected within "
                f"{max(each['election'] for each in of_kind):.1f} s, first claim after that: "
                f"median {median(firsts):.2f} s, longest {firsts[-1]:.2f} s{_written(of_kind)}"
            )


def _written(recoveries: Sequence[Mapping[str, Any]]) -> str:
    writes = [each["first_write"] for each in recoveries if each["first_write"] is not None]
    if not writes:
        return ""
    return f"; first bare write: median {median(writes):.2f} s, longest {max(writes):.2f} s"
