"""The tables: what was measured, and what each contestant did for it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from typing import Final

from bench.measuring import Sample
from bench.peers.catalogue import DURABILITY, Contestant, ServerKind
from bench.peers.contest import Outcome, Scale

_SERVER_NAMES: Final[Mapping[ServerKind, str]] = {
    "redis": "Redis",
    "postgresql": "PostgreSQL",
    "mongodb": "MongoDB",
}


@dataclass(frozen=True, slots=True)
class Result:
    """All rounds of one contestant."""

    contestant: Contestant
    outcomes: Sequence[Outcome]

    @property
    def enqueue(self) -> Sample:
        """Tasks enqueued per second, in each round."""
        return Sample([outcome.enqueued_per_second for outcome in self.outcomes])

    @property
    def drain(self) -> Sample:
        """Tasks run per second, in each round."""
        return Sample([outcome.drained_per_second for outcome in self.outcomes])

    @property
    def p50(self) -> Sample:
        """The median delay of each round, in ms."""
        return Sample([median(outcome.delays_ms) for outcome in self.outcomes])

    @property
    def p99(self) -> Sample:
        """The 99th percentile of each round's delays, in ms."""
        return Sample([_percentile_99(outcome.delays_ms) for outcome in self.outcomes])


def write(results: Sequence[Result], servers: Mapping[ServerKind, str], scale: Scale) -> str:
    """Write the report of a run in Markdown; the first of the results is the yardstick."""
    parts = [
        "\n".join(_heading(servers, scale)),
        table(_measured(results)),
        table(_compared(results)),
    ]
    if twice := [result for result in results if any(o.ran_twice for o in result.outcomes)]:
        names = ", ".join(result.contestant.title for result in twice)
        parts.append(f"Some tasks ran twice without any crash: {names}.")
    return "\n\n".join(parts)


def _heading(servers: Mapping[ServerKind, str], scale: Scale) -> Iterable[str]:
    load = "/".join(f"{each:.1f}" for each in os.getloadavg())
    yield (
        f"{datetime.now(UTC):%Y-%m-%d}; {os.cpu_count()} CPUs ({processor()}), "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}; "
        f"load at the end {load}."
    )
    yield f"{scale.tasks} tasks, less for slow ones; {scale.latencies} delays; medians of rounds."
    yield "Servers: " + "; ".join(servers.values()) + "."


def _measured(results: Sequence[Result]) -> Iterable[tuple[str, ...]]:
    ours = results[0]
    yield (
        "",
        "on",
        "enqueue/s",
        "ratio",
        "drain/s",
        "ratio",
        "p50 ms",
        "p99 ms",
        "ratio of p50",
        "rounds",
    )
    for result in results:
        yield (
            result.contestant.title,
            _SERVER_NAMES[result.contestant.server],
            str(result.enqueue),
            _ratio(result.enqueue, ours.enqueue),
            str(result.drain),
            _ratio(result.drain, ours.drain),
            f"{result.p50.median:.1f}",
            f"{result.p99.median:.1f}",
            _ratio(result.p50, ours.p50),
            str(len(result.outcomes)),
        )


def _compared(results: Sequence[Result]) -> Iterable[tuple[str, ...]]:
    yield (
        "",
        "versions",
        "acknowledges",
        "a task whose worker is killed",
        "waits for the disk",
        "result stored",
    )
    for result in results:
        contestant = result.contestant
        yield (
            contestant.title,
            ", ".join(f"{name} {at}" for name, at in result.outcomes[0].versions.items()),
            contestant.settled,
            contestant.after_crash,
            DURABILITY[contestant.server],
            contestant.result,
        )


def table(lines: Iterable[tuple[str, ...]]) -> str:
    """Write lines as a table in Markdown; the first is its head."""
    head, *rest = lines
    rule = tuple("---" for _ in head)
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *rest))


def _ratio(theirs: Sample, ours: Sample) -> str:
    return f"{theirs.median / ours.median:.2f}"


def _percentile_99(values: Sequence[float]) -> float:
    return quantiles(values, n=100, method="inclusive")[98] if len(values) > 1 else values[0]


def processor() -> str:
    """Name the kind of CPU."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
