"""Runs a library inside its own environment: ``python -m bench.peers.host MODULE produce|work``.

A producer answers each line that it reads with one line of JSON; the runner is at the other
end. Only the standard library: the project is not installed there.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from importlib import import_module
from importlib.metadata import version
from random import uniform
from time import monotonic, monotonic_ns, perf_counter, sleep
from typing import Any, Final, Protocol, cast

from bench.peers.ledger import Ledger, from_environment

_LOOK_SECONDS: Final = 0.001
_PATIENCE_SECONDS: Final = 15.0


class Library(Protocol):
    """What the module of each library has."""

    PACKAGES: tuple[str, ...]

    async def prepare(self) -> None:
        """Connect, and make what the library needs in an empty database."""
        ...

    async def enqueue_many(self, numbers: range) -> None:
        """Enqueue a task for each number, in the fastest way that the library offers."""
        ...

    async def enqueue_one(self, number: int) -> None:
        """Enqueue one task, as a web server would."""
        ...

    def work(self) -> None:
        """Be one worker process with the library's best settings, until told to stop."""
        ...


def main() -> None:
    """Produce for the runner, or work."""
    module, role = sys.argv[1:]
    library = cast("Library", import_module(module))
    if role == "work":
        library.work()
    else:
        asyncio.run(_produce(library))


async def _produce(library: Library) -> None:
    ledger = from_environment()
    await library.prepare()
    _answer({package: version(package) for package in library.PACKAGES})
    async for command, *arguments in _commands():
        if command == "fill":
            _answer(await _fill(library, int(arguments[0])))
        else:
            times, seconds = arguments
            _answer(await _delays(library, ledger, int(times), float(seconds)))


async def _commands() -> AsyncIterator[list[str]]:
    while line := await asyncio.to_thread(sys.stdin.readline):
        yield line.split()


def _answer(value: Any) -> None:
    print(json.dumps(value), flush=True)


async def _fill(library: Library, number: int) -> float:
    began = perf_counter()
    await library.enqueue_many(range(number))
    return perf_counter() - began


async def _delays(library: Library, ledger: Ledger, times: int, seconds: float) -> list[float]:
    """Enqueue to an idle worker, one at a time; tell the delays until the starts in ms."""
    delays: list[float] = []
    until = monotonic() + seconds
    while len(delays) < times and monotonic() < until:
        await asyncio.sleep(uniform(0.01, 0.03))  # until it is idle, and at no fixed phase
        seen = len(ledger)
        began = monotonic_ns()
        await library.enqueue_one(-1)
        delays.append((_wait_for(ledger, seen) - began) / 1e6)
    return delays


def _wait_for(ledger: Ledger, seen: int) -> int:
    until = monotonic() + _PATIENCE_SECONDS
    while len(ledger) == seen:
        if monotonic() > until:
            raise TimeoutError(f"a lone task did not start within {_PATIENCE_SECONDS:g} s")
        sleep(_LOOK_SECONDS)
    return ledger.entries(seen)[0].started_ns


if __name__ == "__main__":
    main()
