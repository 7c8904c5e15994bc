"""The processes of a run: their places, their births and their ends."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from gotasks_chaos.ledger import NO_LEDGER, Ledger, LedgerError
from gotasks_chaos.nursery import Nursery

PROBER: Final = "prober"
_LIBRARIES: Final = "*/faketime/libfaketimeMT.so.1"


class FaketimeError(Exception):
    """The library that shifts clocks is not installed."""


@dataclass(slots=True)
class Slot:
    """A place for a worker or a producer, filled again when its process dies."""

    role: str
    number: int
    shift: int = 0
    name: str = ""
    is_alive: bool = False
    is_frozen: bool = False
    is_leaving: bool = False


class Stage:
    """Fills slots with processes, and tells the ledger of every birth and end.

    ``start`` starts the process of a slot in a nursery.
    """

    def __init__(
        self, ledger: Ledger, slots: Sequence[Slot], start: Callable[[Nursery, Slot], None]
    ) -> None:
        self.slots = slots
        self._ledger = ledger
        self._start = start
        self._births = count()
        self._nurseries: Mapping[int, Nursery] = {}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._nurseries = {
            shift: self._open.enter_context(Nursery(environment(shift)))
            for shift in sorted({slot.shift for slot in self.slots})
        }
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()

    def of(self, role: str) -> list[Slot]:
        """Tell the slots of a role."""
        return [slot for slot in self.slots if slot.role == role]

    def is_filled(self, role: str) -> bool:
        """Whether any process of a role lives."""
        return any(slot.is_alive for slot in self.of(role))

    def fill(self, slot: Slot) -> None:
        """Start a process there."""
        slot.name = f"{slot.role}-{slot.number}-{next(self._births)}"
        slot.is_alive, slot.is_frozen, slot.is_leaving = True, False, False
        self._ledger.write("born", process=slot.name, shift=slot.shift)
        self._start(self._nurseries[slot.shift], slot)

    def bury(self) -> list[Slot]:
        """Take note of those that ended; tell their places.

        Raises:
            LedgerError: one of them could not write its own.
        """
        emptied: list[Slot] = []
        for nursery in self._nurseries.values():
            for name, code, at in nursery.ended():
                self._ledger.write("ended", process=name, code=code, at=at)
                if code == NO_LEDGER:
                    msg = f"{name} could not write its ledger: is the disk full?"
                    raise LedgerError(msg)
                emptied += [slot for slot in self.slots if slot.name == name]
        for slot in emptied:
            slot.is_alive = slot.is_frozen = False
        return emptied

    def kill(self, slot: Slot) -> None:
        """End its process as a crash would."""
        self._ledger.write("killing", process=slot.name)
        self._signal(slot, signal.SIGKILL)

    def stop(self, slot: Slot) -> None:
        """Ask its process to leave, once: a second signal can end it in its last breath."""
        if slot.is_leaving:
            return
        slot.is_leaving = True
        self._ledger.write("stopping", process=slot.name)
        self._signal(slot, signal.SIGTERM)

    def freeze(self, slot: Slot) -> None:
        """Let its process not run."""
        slot.is_frozen = True
        self._ledger.write("freezing", process=slot.name)
        self._signal(slot, signal.SIGSTOP)

    def thaw(self, slot: Slot) -> None:
        """Let its process go on."""
        slot.is_frozen = False
        self._ledger.write("thawing", process=slot.name)
        self._signal(slot, signal.SIGCONT)

    def _signal(self, slot: Slot, number: signal.Signals) -> None:
        self._nurseries[slot.shift].signal(slot.name, number)


def environment(shift: int) -> Mapping[str, str] | None:
    """Tell the environment in which clocks are off by so many seconds.

    Raises:
        FaketimeError: it takes libfaketime, and that is not installed.
    """
    if not shift:
        return None
    library = next(Path("/usr/lib").glob(_LIBRARIES), None)
    if library is None:
        msg = "shifted clocks need libfaketime (Debian: apt-get install faketime)"
        raise FaketimeError(msg)
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME": f"{shift:+d}s",
        # Otherwise timed waits hang.
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def patient(seconds: float, is_over: Callable[[], bool], turn: Callable[[], None]) -> bool:
    """Do turns until something is over; tell whether it was in time."""
    deadline = time.monotonic() + seconds
    while not is_over():
        if time.monotonic() > deadline:
            return False
        turn()
    return True
