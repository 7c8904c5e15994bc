"""``python -m bench``: every benchmark, or those that are named."""

from __future__ import annotations

import argparse
import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from time import perf_counter
from typing import Final

from pymongo import AsyncMongoClient

from bench import (
    decay,
    draining,
    encoding,
    enqueueing,
    flatness,
    growth,
    lanes,
    latency,
    managers,
    memory,
    pipelining,
    reading,
)
from bench.measuring import Row, table
from bench.scene import DATABASE, Document, Scene
from gotasks_mongostore.local import mongodb_uri

BENCHMARKS: Final[Mapping[str, Callable[[Scene], AsyncIterator[Row]]]] = {
    "enqueue": enqueueing.run,
    "drain": draining.run,
    "pipeline": pipelining.run,
    "latency": latency.run,
    "decay": decay.run,
    "lanes": lanes.run,
    "codec": encoding.run,
    "memory": memory.run,
}
AT_SCALE: Final[Mapping[str, Callable[[Scene], AsyncIterator[Row]]]] = {
    "flatness": flatness.run,
    "growth": growth.run,
    "managers": managers.run,
    "reading": reading.run,
}
"""Those that take minutes each."""

_ALL: Final = {**BENCHMARKS, **AT_SCALE}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run benchmarks and print their table."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(_ALL)}")
    parser.add_argument("--scale", action="store_true", help="those that take minutes each")
    parser.add_argument("--quick", action="store_true", help="a smoke run; its figures mean little")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(_ALL))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(_ALL)}")
    names = options.names or list(AT_SCALE if options.scale else BENCHMARKS)
    with mongodb_uri() as uri:
        asyncio.run(_run(uri, names, quick=options.quick))


async def _run(uri: str, names: Sequence[str], *, quick: bool) -> None:
    async with AsyncMongoClient[Document](uri) as client:
        scene = Scene(uri, client, quick)
        for name in names:
            began = perf_counter()
            rows = [row async for row in _ALL[name](scene)]
            print(f"{name}, in {perf_counter() - began:.0f} s\n\n{table(rows)}\n", flush=True)
        await client.drop_database(DATABASE)


if __name__ == "__main__":
    logging.getLogger("gotasks_py").setLevel(logging.ERROR)
    main()
