"""One scenario for one subject: two workers, a task that takes a while, and a signal."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Event
from typing import Final

from bench.peers.kill import witness
from bench.peers.kill.catalogue import Subject
from bench.peers.kill.verdict import Execution, Observation, Recorded, Scenario, executions
from bench.peers.ledger import VARIABLE
from bench.peers.processes import ContestError, Host, environment_for
from gotasks_chaos.ledger import read

_VICTIM: Final = "victim"
_TASK_SECONDS: Final = 4.0
_START_SECONDS: Final = 40.0
_MIDWAY_SECONDS: Final = 0.5
_RESUMED_SECONDS: Final = 15.0
_TICK_SECONDS: Final = 1.0
_WARM_UP_TICK_SECONDS: Final = 0.2
_LOOK_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Scene:
    """Where and how long.

    Args:
        url: Of an empty database.
        folder: For the ledger and the logs; of this scene alone.
        deadline: After how many seconds a silent worker counts as gone.
        settle: How many seconds to wait for what may still happen.
        stopping: Ends the scene once it is set.
    """

    subject: Subject
    url: str
    folder: Path
    deadline: int = witness.DEADLINE_SECONDS
    settle: float = 3.0
    stopping: Event = field(default_factory=Event)


def play(scene: Scene, scenario: Scenario) -> tuple[Observation, Mapping[str, str]]:
    """Play a scenario; tell what was seen, and the library's versions.

    Raises:
        ContestError: a process ended that should not, no worker started the task, or the scene was
            ended.
    """
    with ExitStack() as stack:
        stage = _Stage(scene, stack)
        stage.warm_up()
        first = stage.start_victim()
        signalled = time.monotonic()
        before, resumed = _ACTS[scenario](stage, first)
        stage.settle()
        seen = stage.executions()
        after = stage.record()
        stage.kill_all()
    observation = Observation(
        scenario=scenario,
        executions=seen,
        signalled=signalled,
        before=before,
        resumed=resumed,
        after=after,
    )
    return observation, stage.versions


_Resumed = tuple[Recorded | None, float | None]
"""What was recorded before a worker was resumed, and when that was; nothing where none was."""


class _Stage:
    """The processes of a scene. Small tasks keep coming, as in a queue that is in use."""

    def __init__(self, scene: Scene, stack: ExitStack) -> None:
        self._patience = scene.subject.patience
        self._settle = scene.settle
        self._stopping = scene.stopping
        self._ledger = scene.folder / "ledger"
        self._ledger.touch()
        environment = environment_for(scene.url, scene.subject.setting)
        environment |= {
            VARIABLE: str(self._ledger),
            witness.WORKER: "producer",
            witness.DEADLINE: str(scene.deadline),
        }

        def host(name: str) -> Host:
            subject = scene.subject
            log = scene.folder / f"{name}.log"
            program = "bench.peers.kill.host"
            return Host(subject.contestant, program, subject.module, environment, log)

        self._host = host("producer")
        self._producer = stack.enter_context(self._host.run("produce"))
        self.versions: Mapping[str, str] = self._host.answer(self._producer)
        self._hosts = {name: host(name) for name in ("a", "b")}
        self._workers = {
            name: stack.enter_context(each.run("work", **{witness.WORKER: name}))
            for name, each in self._hosts.items()
        }
        self._numbers = count()
        # Workers that start to a backlog may be busy for a while with taking it for a wreck.
        self._next_tick = time.monotonic() + scene.settle
        self._tick_seconds = _WARM_UP_TICK_SECONDS

    def warm_up(self) -> None:
        """Wait until either worker has run a task."""
        if not self._wait(lambda: self._active() == set(self._workers), _START_SECONDS):
            idle = next(iter(set(self._workers) - self._active()))
            raise self._hosts[idle].error("had a worker that ran nothing")
        self._tick_seconds = _TICK_SECONDS

    def start_victim(self) -> Execution:
        """Enqueue the task, and wait until it is on its way."""
        self._host.ask(self._producer, f"send {_VICTIM} {_TASK_SECONDS}")
        if not self._wait(lambda: bool(self.executions()), _START_SECONDS):
            raise self._host.error("did not start the task")
        self._rest(_MIDWAY_SECONDS)
        return self.executions()[0]

    def signal(self, worker: str, number: signal.Signals, *, family: bool) -> None:
        """Signal a worker's first process, or all of them."""
        with suppress(ProcessLookupError):
            (os.killpg if family else os.kill)(self._workers[worker].pid, number)

    def wait_for_another(self, first: Execution) -> None:
        """Wait until an execution other than the first comes to its end, within patience."""
        self._wait(
            lambda: any(each.returned and each.name != first.name for each in self.executions()),
            self._patience,
        )

    def wait_for_end(self, first: Execution, seconds: float) -> None:
        """Wait until the first execution ends in whichever way."""
        self._wait(lambda: any(e.name == first.name and e.how for e in self.executions()), seconds)

    def wait_for_departure(self, worker: str) -> None:
        """Wait until a worker has ended and some execution has returned, within patience."""
        process = self._workers[worker]
        self._wait(
            lambda: process.poll() is not None and any(e.returned for e in self.executions()),
            self._patience,
        )

    def settle(self) -> None:
        """Let happen what may still happen."""
        self._rest(self._settle)

    def record(self) -> Recorded:
        """Ask what the library has recorded of the task."""
        return Recorded(*self._host.ask(self._producer, f"record {_VICTIM}"))

    def executions(self) -> Sequence[Execution]:
        """Read the executions of the task."""
        return executions(read(self._ledger), _VICTIM)

    def kill_all(self) -> None:
        """End the workers at once: nothing more is to be seen."""
        for name in self._workers:
            self.signal(name, signal.SIGKILL, family=True)

    def _active(self) -> set[str]:
        return {line.facts["worker"] for line in read(self._ledger) if line.event == "start"}

    def _rest(self, seconds: float) -> None:
        self._wait(lambda: False, seconds)

    def _wait(self, until: Callable[[], bool], seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not until():
            now = time.monotonic()
            if now >= end:
                return False
            if now >= self._next_tick:
                self._next_tick = now + self._tick_seconds
                self._host.ask(self._producer, f"send tick-{next(self._numbers)} 0.1")
            if self._stopping.wait(_LOOK_SECONDS):
                raise ContestError("the scene was ended before its time")
        return True


def _sigkill(stage: _Stage, first: Execution) -> _Resumed:
    stage.signal(first.worker, signal.SIGKILL, family=True)
    stage.wait_for_another(first)
    return None, None


def _sigterm(stage: _Stage, first: Execution) -> _Resumed:
    # To the first process alone, as containers are stopped.
    stage.signal(first.worker, signal.SIGTERM, family=False)
    stage.wait_for_departure(first.worker)
    return None, None


def _zombie(stage: _Stage, first: Execution) -> _Resumed:
    stage.signal(first.worker, signal.SIGSTOP, family=True)
    stage.wait_for_another(first)
    stage.settle()
    before, resumed = stage.record(), time.monotonic()
    stage.signal(first.worker, signal.SIGCONT, family=True)
    stage.wait_for_end(first, _RESUMED_SECONDS)
    return before, resumed


_ACTS: Final[Mapping[Scenario, Callable[[_Stage, Execution], _Resumed]]] = {
    Scenario.SIGKILL: _sigkill,
    Scenario.SIGTERM: _sigterm,
    Scenario.ZOMBIE: _zombie,
}
