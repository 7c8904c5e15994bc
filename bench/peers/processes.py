"""Processes that run a library inside its own environment, and end with their children."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.peers.catalogue import Contestant
from bench.peers.environments import ROOT, python_for

_STOP_SECONDS: Final = 10.0


class ContestError(Exception):
    """A contestant's process ended or stalled; its log says more."""


@dataclass(frozen=True, slots=True)
class Host:
    """Starts processes of one library.

    Args:
        program: The module that is run there: it is told the library's module and a role.
        module: The library's.
        log: Of the process that was started last.
    """

    contestant: Contestant
    program: str
    module: str
    environment: Mapping[str, str]
    log: Path

    @contextmanager
    def run(self, role: str, **environment: str) -> Generator[subprocess.Popen[str]]:
        """Run a process of the library, and end it with its children."""
        python = python_for(self.contestant)
        with self.log.open("w") as log:
            process = subprocess.Popen(
                [python, "-m", self.program, self.module, role],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if role == "produce" else log,
                stderr=log,
                cwd=ROOT,
                env={**self.environment, **environment},
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

    def ask(self, producer: subprocess.Popen[str], command: str) -> Any:
        """Send a producer a line, and wait for its answer.

        Raises:
            ContestError: it ended instead.
        """
        assert producer.stdin is not None
        with suppress(BrokenPipeError):  # what it said last says more
            producer.stdin.write(f"{command}\n")
            producer.stdin.flush()
        return self.answer(producer)

    def answer(self, producer: subprocess.Popen[str]) -> Any:
        """Wait for a producer's next answer.

        Raises:
            ContestError: it ended instead.
        """
        assert producer.stdout is not None
        line = producer.stdout.readline()
        if not line:
            raise self.error("ended before it answered")
        return json.loads(line)


def environment_for(url: str, variant: str) -> dict[str, str]:
    """Tell a library's processes where they find this project's modules, and what to use."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "stores")]),
        "GOTASKS_BENCH_URL": url,
        "GOTASKS_BENCH_VARIANT": variant,
    }


def _end(process: subprocess.Popen[str]) -> None:
    # The group is of its own making, so that workers of workers end, too.
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.close()
