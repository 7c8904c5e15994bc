"""Runs a library inside its own environment: ``python -m bench.peers.kill.host MODULE ROLE``.

A producer (``produce``) answers each line that it reads with one line of JSON; a worker
(``work``) is the library's own. Only the standard library: the project is not installed there.
"""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module
from importlib.metadata import version
from typing import Any, Protocol, cast


class Library(Protocol):
    """What the module of each library has."""

    PACKAGES: tuple[str, ...]

    async def prepare(self) -> None:
        """Connect, and make what the library needs in an empty database."""
        ...

    async def send(self, task: str, seconds: float) -> None:
        """Enqueue a task by this name that takes so long."""
        ...

    async def record(self, task: str) -> tuple[str, str | None]:
        """Tell what is recorded of a task: its state, and the execution whose result it is."""
        ...

    def work(self) -> None:
        """Be the library's own worker, until told to stop."""
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
    await library.prepare()
    _answer({package: version(package) for package in library.PACKAGES})
    while line := await asyncio.to_thread(sys.stdin.readline):
        match line.split():
            case ["send", task, seconds]:
                await library.send(task, float(seconds))
                _answer(None)
            case ["record", task]:
                _answer(await library.record(task))
            case unknown:
                raise ValueError(f"no command: {unknown}")


def _answer(value: Any) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    main()
