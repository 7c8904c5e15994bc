"""One round of one contestant: fill the queue, drain it, then see how soon a lone task starts."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from bench.peers import ledger as ledgers
from bench.peers.catalogue import Contestant
from bench.peers.ledger import Ledger
from bench.peers.processes import Host, environment_for
from bench.peers.servers import Servers

_STALL_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.02
_LATENCY_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Scale:
    """How much to do in a round."""

    tasks: int = 20_000
    latencies: int = 200

    def share(self, contestant: Contestant) -> int:
        """Tell how many tasks a contestant gets."""
        return max(10, round(self.tasks * contestant.share))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one round has measured."""

    enqueued_per_second: float
    drained_per_second: float
    delays_ms: tuple[float, ...]
    ran_twice: int
    versions: Mapping[str, str]

    def __str__(self) -> str:
        return (
            f"enqueued {self.enqueued_per_second:.0f}/s, drained {self.drained_per_second:.0f}/s, "
            f"p50 {median(self.delays_ms):.1f} ms"
        )


def play(contestant: Contestant, servers: Servers, scale: Scale, folder: Path) -> Outcome:
    """Play one round on an empty database.

    Raises:
        ContestError: a process ended early, or no task was run for a while.
    """
    ledger = Ledger(folder / "ledger")
    ledger.clear()
    url = servers.get(contestant.server).fresh()
    environment = environment_for(url, contestant.variant) | {
        ledgers.VARIABLE: str(folder / "ledger")
    }
    host = Host(contestant, "bench.peers.host", contestant.module, environment, folder / "log")
    number = scale.share(contestant)
    with host.run("produce") as producer:
        versions = host.answer(producer)
        enqueued = number / host.ask(producer, f"fill {number}")
        with host.run("work") as worker:
            _drain(ledger, number, worker, host)
            entries = ledger.entries()
            delays = host.ask(producer, f"delays {scale.latencies} {_LATENCY_SECONDS}")
    ledger.close()
    starts = [entry.started_ns for entry in entries]
    seconds = (max(starts) - min(starts)) / 1e9
    twice = len(entries) - len({entry.number for entry in entries})
    return Outcome(enqueued, number / seconds, tuple(delays), twice, versions)


def _drain(ledger: Ledger, number: int, worker: subprocess.Popen[str], host: Host) -> None:
    """Wait until each task has started; rather by numbers than by count, if any runs twice."""
    seen, since = 0, time.monotonic()
    while seen < number or len({entry.number for entry in ledger.entries()}) < number:
        time.sleep(_LOOK_SECONDS)
        if len(ledger) != seen:
            seen, since = len(ledger), time.monotonic()
        elif worker.poll() is not None:
            raise host.error(f"ended after {seen} of {number} tasks")
        elif time.monotonic() - since > _STALL_SECONDS:
            raise host.error(f"stalled after {seen} of {number} tasks")
