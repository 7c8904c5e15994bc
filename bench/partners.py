"""Other processes of a benchmark, which are told line by line what to do."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Partner:
    """A process that says lines and is told lines; it ends when there are no more."""

    _process: Process

    async def says(self) -> str:
        """Wait for the next line."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        assert line, "the process has ended before its work"
        return line.decode().strip()

    def go(self) -> None:
        """Tell it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")

    async def leave(self) -> None:
        """End it, and wait until it has."""
        if self._process.returncode is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            await self._process.wait()


@asynccontextmanager
async def partner(module: str, *arguments: object) -> AsyncGenerator[Partner]:
    """Start ``python -m module`` for the block; it has said that it is ready."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    started = Partner(await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE))
    try:
        assert await started.says() == "ready"
        yield started
    finally:
        await started.leave()
