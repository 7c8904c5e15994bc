"""One round of one contestant: fill the queue, drain it, then see how soon a lone task starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.peers import ledger as ledgers
from bench.peers.catalogue import Contestant
from bench.peers.environments import ROOT, python_for
from bench.peers.ledger import Ledger
from bench.peers.servers import Servers

_STALL_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.02
_LATENCY_SECONDS: Final = 10.0


class ContestError(Exception):
    """A contestant's process ended or stalled; its log says more."""


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
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "stores")]),
        "GOTASKS_BENCH_URL": servers.get(contestant.server).fresh(),
        "GOTASKS_BENCH_VARIANT": contestant.variant,
        ledgers.VARIABLE: str(folder / "ledger"),
    }
    host = _Host(contestant, environment, folder / "log")
    number = scale.share(contestant)
    with host.run("produce") as producer:
        versions = _answer(producer, host)
        enqueued = number / _ask(producer, host, f"fill {number}")
        with host.run("work") as worker:
            _drain(ledger, number, worker, host)
            entries = ledger.entries()
            delays = _ask(producer, host, f"delays {scale.latencies} {_LATENCY_SECONDS}")
    ledger.close()
    starts = [entry.started_ns for entry in entries]
    seconds = (max(starts) - min(starts)) / 1e9
    twice = len(entries) - len({entry.number for entry in entries})
    return Outcome(enqueued, number / seconds, tuple(delays), twice, versions)


@dataclass(frozen=True, slots=True)
class _Host:
    contestant: Contestant
    environment: Mapping[str, str]
    log: Path

    @contextmanager
    def run(self, role: str) -> Generator[subprocess.Popen[str]]:
        """Run a process of the library, and end it with its children."""
        python = python_for(self.contestant)
        with self.log.open("w") as log:
            process = subprocess.Popen(
                [python, "-m", "bench.peers.host", self.contestant.module, role],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if role == "produce" else log,
                stderr=log,
                cwd=ROOT,
                env=self.environment,
                text=True,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            _end(process)

    def error(self, what: str) -> ContestError:
        """Make an error that shows the end of the log."""
        tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
        return ContestError(f"{self.contestant.name} {what}; its log ends with:\n{tail}")


def _end(process: subprocess.Popen[str]) -> None:
    # The group is of its own making, so that workers of workers end, too.
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


def _ask(producer: subprocess.Popen[str], host: _Host, command: str) -> Any:
    assert producer.stdin is not None
    producer.stdin.write(f"{command}\n")
    producer.stdin.flush()
    return _answer(producer, host)


def _answer(producer: subprocess.Popen[str], host: _Host) -> Any:
    assert producer.stdout is not None
    line = producer.stdout.readline()
    if not line:
        raise host.error("ended before it answered")
    return json.loads(line)


def _drain(ledger: Ledger, number: int, worker: subprocess.Popen[str], host: _Host) -> None:
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
