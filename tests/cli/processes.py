"""Commands as processes of their own, whose words can be waited for."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0


class Process:
    """A running command; what it says on stderr is kept."""

    def __init__(self, *arguments: str, env: Mapping[str, str], cwd: Path = ROOT) -> None:
        path = os.pathsep.join(
            [str(cwd), *(str(ROOT / name) for name in ("", "stores", "dashboard", "cli"))]
        )
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "gotasks_cli", *arguments],
            env={**os.environ, "PYTHONPATH": path, **env},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said = ""
        self._more = threading.Condition()
        self._is_over = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def hear(self, pattern: str, times: int = 1) -> list[str]:
        """Wait until something was said so many times; tell the first group of each."""
        with self._more:
            self._more.wait_for(
                lambda: self._is_over or len(re.findall(pattern, self.said)) >= times, PATIENCE
            )
            found = re.findall(pattern, self.said)
            assert len(found) >= times, f"not heard: {pattern}\n{self.said}"
            return found

    def send(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)

    def wait(self) -> int:
        """Wait for the end; tell the exit code."""
        code = self._popen.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def end(self) -> None:
        self._popen.kill()
        self._popen.wait()
        self._reader.join(PATIENCE)

    def _read(self) -> None:
        assert self._popen.stderr is not None
        with self._popen.stderr as stream:
            for line in stream:
                with self._more:
                    self.said += line
                    self._more.notify_all()
        with self._more:
            self._is_over = True
            self._more.notify_all()


@contextmanager
def started(
    *arguments: str, env: Mapping[str, str] | None = None, cwd: Path = ROOT
) -> Generator[Process]:
    """Start ``gotasks`` with these arguments; it is gone at the end of the block."""
    process = Process(*arguments, env=env or {}, cwd=cwd)
    try:
        yield process
    finally:
        process.end()
