"""Whether worker processes are well: what each says of itself, and what that comes to.

A process that has a supervisor tells it once a second, by lines through a pipe that all of
them share. One that says nothing for a while has its event loop blocked, or is stopped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

import anyio

from gotasks_py import Manager
from gotasks_py.health import Health

VITALS: Final = "GOTASKS_VITALS"
"""Set for worker processes that are to say how they are: the file descriptor to write to."""

_TELL_SECONDS: Final = 1.0
SILENCE_SECONDS: Final = 10.0
"""A process that has said nothing for so long is not well."""
_MOST_REASONS: Final = 4
_LONGEST_REASON: Final = 400
"""So that a line is written in one piece, whoever else writes: pipes promise 4096 bytes."""
_READ_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class Vitals:
    """Whether to leave a process running, whether it does its work, and why not."""

    is_live: bool
    is_ready: bool
    reasons: Sequence[str] = ()


class Staffed(Protocol):
    """Knows the worker processes that there are to be."""

    @property
    def pids(self) -> Mapping[int, int | None]:
        """The process of each number; ``None``: there is none at the moment."""
        ...

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to stop."""
        ...


def vitals_of(health: Health) -> Vitals:
    """Tell how a manager is that is running, or was."""
    return Vitals(health.is_alive, health.ok, health.reasons)


async def tell(manager: Manager) -> None:
    """Tell the supervisor, again and again, how this process is."""
    descriptor = int(os.environ[VITALS])
    os.set_blocking(descriptor, False)
    while True:
        health = manager.health()
        if health.is_running:  # before, it is starting; after, it is about to end
            with suppress(BlockingIOError, BrokenPipeError):
                os.write(descriptor, line_of(os.getpid(), vitals_of(health)))
        await anyio.sleep(_TELL_SECONDS)


@dataclass(slots=True)
class Board:
    """What the processes of a supervisor have said last."""

    staff: Staffed
    now: Callable[[], float] = anyio.current_time
    _said: dict[int, tuple[Vitals, float]] = field(default_factory=dict[int, tuple[Vitals, float]])
    _rest: bytes = b""

    async def listen(self, descriptor: int) -> None:
        """Take in what processes say, until cancelled."""
        while True:
            await anyio.wait_readable(descriptor)
            self.hear(os.read(descriptor, _READ_BYTES))

    def hear(self, said: bytes) -> None:
        """Take in a piece of what processes say."""
        *lines, self._rest = (self._rest + said).split(b"\n")
        for line in lines:
            pid, *vitals = json.loads(line)
            self._said[pid] = (Vitals(*vitals), self.now())
        there = set(self.staff.pids.values())
        self._said = {pid: said for pid, said in self._said.items() if pid in there}

    def look(self) -> Vitals:
        """Tell how all processes are together."""
        each = {number: self._vitals(pid) for number, pid in self.staff.pids.items()}
        stopping = ["the supervisor was told to stop"] if self.staff.is_stopping else []
        return Vitals(
            is_live=all(vitals.is_live for vitals in each.values()),
            is_ready=bool(each) and not stopping and all(v.is_ready for v in each.values()),
            reasons=[
                *stopping,
                *(
                    f"worker {number}: {reason}"
                    for number, vitals in sorted(each.items())
                    for reason in vitals.reasons
                ),
            ],
        )

    def _vitals(self, pid: int | None) -> Vitals:
        if pid is None:
            # The supervisor sees to that; another one would do no better.
            return Vitals(is_live=True, is_ready=False, reasons=["it ended, and starts again"])
        if pid not in self._said:
            return Vitals(is_live=True, is_ready=False, reasons=[f"process {pid} is starting"])
        vitals, at = self._said[pid]
        silence = self.now() - at
        if silence > SILENCE_SECONDS:
            reason = f"process {pid} has said nothing for {silence:.0f} s"
            return Vitals(is_live=False, is_ready=False, reasons=[reason])
        return vitals


def line_of(pid: int, vitals: Vitals) -> bytes:
    """Make the line by which a process tells how it is."""
    reasons = [_brief(each) for each in vitals.reasons[:_MOST_REASONS]]
    return json.dumps([pid, vitals.is_live, vitals.is_ready, reasons]).encode() + b"\n"


def _brief(reason: str) -> str:
    """Shorten a reason, and leave out what takes more than two bytes."""
    brief = reason[:_LONGEST_REASON]
    return "".join(each if each.isascii() and each.isprintable() else "?" for each in brief)
