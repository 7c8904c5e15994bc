"""Keeps worker processes running: restarts, back-off, signals, another number of them.

It knows processes only as something that can be waited for and told to stop, so that its
rules can be tested without any.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Final, Protocol

import anyio
from anyio.abc import TaskGroup

from gotasks_cli._problems import ExitCode
from gotasks_py import Exponential

logger = logging.getLogger("gotasks_cli.supervisor")

_BACKOFF: Final = Exponential(base=timedelta(milliseconds=500), cap=timedelta(seconds=30), jitter=0)
_STEADY: Final = timedelta(seconds=60)
"""A process that ran for so long has not failed at its start."""
_HOPELESS: Final = frozenset(
    {ExitCode.USAGE, ExitCode.UNUSABLE, ExitCode.NOT_FOUND, ExitCode.REFUSED}
)
"""What another process would end with as well: an unknown queue, or another policy recorded."""
_KILL_AFTER: Final = timedelta(seconds=30)
"""How much longer than its grace a process may take to stop; 25 s where the database is silent."""
_POLITE_STOPS: Final = 2
_FINE: Final = frozenset({ExitCode.OK, ExitCode.RECYCLED, -signal.SIGTERM})


class Child(Protocol):
    """One worker process."""

    @property
    def pid(self) -> int:
        """Its process id."""
        ...

    async def wait(self) -> int:
        """Wait for its end; tell its exit code, or the negated signal."""
        ...

    def stop(self) -> None:
        """Let it finish its tasks; the second time, hand them back at once."""
        ...

    def kill(self) -> None:
        """End it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a process ended that nobody had told to stop."""

    code: int
    lived: timedelta
    crashes: int
    """How many came before it in a row."""
    has_worked: bool
    """Whether any process of this run was ever steady."""


def pause_after(ending: Ending) -> timedelta | None:
    """Tell how long to wait before the next process; ``None``: it is of no use to try."""
    if ending.code == ExitCode.RECYCLED:
        return timedelta(0)
    if ending.code in _HOPELESS and not ending.has_worked:
        return None
    return _BACKOFF(1 if ending.lived >= _STEADY else ending.crashes + 1, None)


@dataclass(eq=False, slots=True)
class _Slot:
    """A place for one process after the other."""

    number: int
    child: Child | None = None
    crashes: int = 0
    is_retired: bool = False
    is_reloaded: bool = False
    changed: anyio.Event = field(default_factory=anyio.Event)

    def stop(self) -> None:
        self.changed.set()
        if self.child is not None:
            self.child.stop()


class Supervisor:
    """Runs a number of processes until it is told to stop."""

    def __init__(
        self,
        spawn: Callable[[int], Awaitable[Child]],
        *,
        grace: timedelta,
        waits_for_changes: bool = False,
    ) -> None:
        self._spawn = spawn
        self._grace = grace
        self._waits_for_changes = waits_for_changes
        self._slots: dict[int, _Slot] = {}
        self._group: TaskGroup | None = None
        self._over = anyio.Event()
        self._stops = 0
        self._has_worked = False
        self._code: int = ExitCode.OK

    @property
    def size(self) -> int:
        """How many processes there are to be."""
        return sum(not slot.is_retired for slot in self._slots.values())

    @property
    def pids(self) -> Mapping[int, int | None]:
        """The process of each number there is to be; ``None``: there is none at the moment."""
        return {
            slot.number: None if slot.child is None else slot.child.pid
            for slot in self._slots.values()
            if not slot.is_retired
        }

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to stop."""
        return bool(self._stops)

    async def run(self, size: int) -> int:
        """Keep so many processes running until a stop; tell the exit code."""
        async with anyio.create_task_group() as group:
            self._group = group
            self.scale(size)
            await self._over.wait()
            group.cancel_scope.cancel()
        return self._code

    def scale(self, size: int) -> None:
        """Go on with another number of processes; those too many finish their tasks."""
        if self._stops or self._group is None:
            return
        for slot in sorted(self._slots.values(), key=lambda each: -each.number):
            if self.size > size and not slot.is_retired:
                slot.is_retired = True
                slot.stop()
                self._kill_later(slot)
        numbers = (number for number in count(1) if number not in self._slots)
        while self.size < size:
            number = next(numbers)
            slot = self._slots[number] = _Slot(number)
            self._group.start_soon(self._keep, slot)

    def reload(self) -> None:
        """Start every process anew, when it has finished its tasks."""
        for slot in self._slots.values():
            if slot.child is not None and not slot.is_reloaded:
                slot.is_reloaded = True
                self._kill_later(slot)
                slot.child.stop()
            slot.changed.set()

    def stop(self) -> None:
        """Stop; the second time at once, the third time by force."""
        self._stops += 1
        for slot in self._slots.values():
            slot.changed.set()
            if slot.child is None:
                continue
            if self._stops > _POLITE_STOPS:
                slot.child.kill()
            else:
                slot.child.stop()
            if self._stops == 1:
                self._kill_later(slot)

    async def _keep(self, slot: _Slot) -> None:
        while not self._stops and not slot.is_retired:
            slot.changed = anyio.Event()
            await self._run_once(slot)
        del self._slots[slot.number]
        if not self._slots:
            self._over.set()

    async def _run_once(self, slot: _Slot) -> None:
        began = anyio.current_time()
        child = slot.child = await self._spawn(slot.number)
        logger.info("worker %d is process %d", slot.number, child.pid)
        if self._stops or slot.is_retired:  # told while it was being made
            child.stop()
            self._kill_later(slot)
        code = await child.wait()
        slot.child = None
        if self._stops or slot.is_retired or slot.is_reloaded:
            slot.is_reloaded = False
            slot.crashes = 0
            if code not in _FINE:
                self._code = self._code or ExitCode.FAILED
                logger.error("worker %d %s while it stopped", slot.number, _told(code))
            return
        lived = timedelta(seconds=anyio.current_time() - began)
        await self._ended(slot, code, lived)

    async def _ended(self, slot: _Slot, code: int, lived: timedelta) -> None:
        self._has_worked |= lived >= _STEADY
        crashes = 0 if lived >= _STEADY else slot.crashes
        ending = Ending(code=code, lived=lived, crashes=crashes, has_worked=self._has_worked)
        pause = pause_after(ending)
        slot.crashes = 0 if code == ExitCode.RECYCLED else crashes + 1
        if pause is not None:
            if pause:
                logger.warning(
                    "worker %d %s, starting it again in %.1f s",
                    slot.number,
                    _told(code),
                    pause.total_seconds(),
                )
            with anyio.move_on_after(pause.total_seconds()):
                await slot.changed.wait()
        elif self._waits_for_changes:
            logger.warning("worker %d %s, waiting for a change", slot.number, _told(code))
            await slot.changed.wait()
        elif not self._stops:
            self._code = code
            self.stop()

    def _kill_later(self, slot: _Slot) -> None:
        assert self._group is not None  # noqa: S101  - there is a slot, so it runs
        if slot.child is not None:
            self._group.start_soon(self._kill, slot, slot.child)

    async def _kill(self, slot: _Slot, child: Child) -> None:
        await anyio.sleep((self._grace + _KILL_AFTER).total_seconds())
        if slot.child is child:
            logger.error("worker %d does not stop, killing process %d", slot.number, child.pid)
            child.kill()


def _told(code: int) -> str:
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
