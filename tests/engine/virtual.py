"""An asyncio event loop in virtual time: what trio's MockClock does, for asyncio."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Jumps to the next timer whenever nothing is ready. Not for use with threads."""

    def __init__(self) -> None:
        self._jumper = _Jumper()
        super().__init__(self._jumper)

    def time(self) -> float:
        return self._jumper.jumped


class _Jumper(selectors.BaseSelector):
    def __init__(self) -> None:
        self.jumped = 0.0
        self._real = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return self._real.select(timeout)
        ready = self._real.select(0)
        if not ready:
            self.jumped += timeout
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()
