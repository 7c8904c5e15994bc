"""Encoding and decoding one payload, beside pydantic's own dump and validation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from timeit import timeit
from typing import Any

from pydantic import TypeAdapter

from bench.measuring import Row, in_turns
from bench.scene import A_NOTE, Note, Scene
from gotasks_py.codec import codec_for

_LIMIT = 8 * 2**20


@dataclass
class Point:
    """The smallest dataclass."""

    x: int
    y: int


async def run(scene: Scene) -> AsyncIterator[Row]:
    """Measure small values of several kinds, and a list of a hundred."""
    for name, kind, value in (
        ("model", Note, A_NOTE),
        ("dataclass", Point, Point(1, 2)),
        ("100 models", list[Note], [A_NOTE] * 100),
        ("untyped dict", dict[str, Any], {"a": 1, "b": ["x", None], "c": {"d": 1.5}}),
    ):
        async for row in _compared(scene, name, kind, value):
            yield row


async def _compared(scene: Scene, name: str, kind: Any, value: object) -> AsyncIterator[Row]:
    codec, adapter = codec_for(kind), TypeAdapter[Any](kind)
    document, dump = codec.encode(value, limit=_LIMIT), adapter.dump_python(value)
    for verb, ours, raw in (
        ("encode", lambda: codec.encode(value, limit=_LIMIT), lambda: adapter.dump_python(value)),
        ("decode", lambda: codec.decode(document), lambda: adapter.validate_python(dump)),
    ):
        contestants = {"ours": _timed(scene, ours), "raw": _timed(scene, raw)}
        samples = await in_turns(scene.rounds, contestants)
        yield Row(f"{verb} {name}", "µs", samples["ours"], samples["raw"])


def _timed(scene: Scene, call: Callable[[], object]) -> Callable[[], Awaitable[float]]:
    async def microseconds() -> float:
        number = scene.scaled(1000)
        return timeit(call, number=number) / number * 1e6

    return microseconds
