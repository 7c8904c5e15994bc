"""Where worker and producer processes come from: forked, so that a storm can afford many.

A nursery is a process of its own that has imported everything and has no threads. It reads
orders from its standard input and tells births and deaths on its standard output; when
its input ends, it ends its children. It knows nothing of the plan.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import asdict
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final, Self

import anyio

from gotasks_chaos import producer, worker
from gotasks_chaos.work import Setting
from gotasks_py.errors import StoreUnavailableError

ROLES: Final[Mapping[str, Callable[[Setting], Coroutine[Any, Any, None]]]] = {
    "worker": worker.work,
    "producer": producer.produce,
    "prober": producer.probe,
}


NO_DATABASE: Final = os.EX_TEMPFAIL
"""The exit code of a process that found no database when it started."""


class Nursery:
    """The runner's end: gives birth to processes, sends them signals, hears of their ends."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gotasks_chaos.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=None if environment is None else {**os.environ, **environment},
            # Ctrl-C is for the runner, which then ends what it started.
            start_new_session=True,
        )
        self._told = SimpleQueue[tuple[str, int, float]]()
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc_info: object) -> None:
        # At the end of its input it ends its children, then itself, and so what it tells.
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._listener.join()
        with self._process:
            pass

    def start(self, role: str, setting: Setting) -> None:
        """Start a process; its end will be told under the name in its setting."""
        self._order(["start", role, asdict(setting)])

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal; nothing happens if the process is gone."""
        self._order(["signal", name, number])

    def ended(self) -> list[tuple[str, int, float]]:
        """Tell who ended since the last call: name, exit code (-signal), and when."""
        ends: list[tuple[str, int, float]] = []
        while True:
            try:
                ends.append(self._told.get_nowait())
            except Empty:
                return ends

    def _order(self, order: list[object]) -> None:
        assert self._process.stdin is not None  # noqa: S101  - it was asked for
        self._process.stdin.write(json.dumps(order) + "\n")

    def _listen(self) -> None:
        assert self._process.stdout is not None  # noqa: S101  - it was asked for
        for line in self._process.stdout:
            name, code, at = json.loads(line)
            self._told.put((name, code, at))


class _Mother:
    """The nursery's own loop."""

    def __init__(self) -> None:
        self._children: dict[int, str] = {}
        self._bell, self._ring = os.pipe()
        os.set_blocking(self._ring, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._ring)

    def run(self) -> None:
        rest = b""
        while True:
            ready, _, _ = select.select([0, self._bell], [], [])
            if self._bell in ready:
                os.read(self._bell, 4096)
                self._bury()
            if 0 in ready:
                read = os.read(0, 65_536)
                if not read:
                    break
                *lines, rest = (rest + read).split(b"\n")
                for line in lines:
                    self._obey(json.loads(line))
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)

    def _obey(self, order: list[Any]) -> None:
        match order:
            case ["start", str(role), dict(setting)]:
                self._bear(role, Setting(**setting))
            case ["signal", str(name), int(number)]:
                for pid, each in self._children.items():
                    if each == name:
                        os.kill(pid, number)
            case _:
                msg = f"no order: {order!r}"
                raise ValueError(msg)

    def _bear(self, role: str, setting: Setting) -> None:
        pid = os.fork()
        if pid:
            self._children[pid] = setting.name
            return
        code = 1
        try:
            self._leave_home()
            anyio.run(ROLES[role], setting)
            code = 0
        except StoreUnavailableError:
            code = NO_DATABASE
        except BaseException:
            logging.getLogger("gotasks_chaos").exception("%s failed", setting.name)
        finally:
            os._exit(code)

    def _leave_home(self) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(self._bell)
        os.close(self._ring)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)  # what a child prints is not for the runner's ears

    def _bury(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            name = self._children.pop(pid)
            news = [name, os.waitstatus_to_exitcode(status), time.monotonic()]
            os.write(1, f"{json.dumps(news)}\n".encode())


def show_logs(level: str) -> None:
    """Print log records from a level on; what is not printed is counted all the same."""
    shown = logging.StreamHandler()
    shown.setLevel(level)
    logging.basicConfig(level=min(shown.level, logging.WARNING), handlers=[shown])


def _rest(seconds: float) -> None:
    """Sleep; for CPython's own way fails under libfaketime (EINVAL from clock_nanosleep)."""
    select.select([], [], [], seconds)


if __name__ == "__main__":
    if "FAKETIME" in os.environ:
        time.sleep = _rest  # type: ignore[assignment]  # nobody sleeps for an object
    show_logs(os.environ.get("GOTASKS_CHAOS_LOG", "CRITICAL"))
    _Mother().run()
