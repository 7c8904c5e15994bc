"""What a few of the latest tasks hold: values to complete a search with."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from gotasks_dashboard._desk import Desk
from gotasks_dashboard._query import quoted
from gotasks_py import Status, Task, TaskFilter

DEEPEST: Final = 4
"""How many levels of a payload are gone into."""

_TASKS: Final = 5
_KEYS: Final = 100
_SECONDS: Final = 5.0
_LONGEST: Final = 100
_NAME: Final = re.compile(r'[^\s:".$][^\s:".]*')


async def sampled_keys(desk: Desk, queue: str | None) -> Sequence[str]:
    """Tell the unique keys that the latest active tasks hold."""
    active = TaskFilter(queue=queue, status=[Status.PENDING, Status.RUNNING])

    async def ask() -> Sequence[str]:
        page = await desk.inspected.find_tasks(active, limit=_KEYS)
        return [task.unique_key for task in page.tasks if task.unique_key is not None]

    return await desk.shared(("keys", queue), ask, _SECONDS)


async def sampled_payloads(desk: Desk, queue: str | None, name: str | None) -> Sequence[object]:
    """Tell the payloads of the latest tasks."""
    wanted = TaskFilter(queue=queue, type=name)

    async def ask() -> Sequence[object]:
        page = await desk.inspected.find_tasks(wanted, limit=_TASKS)
        tasks: list[Task | None] = [await desk.store.get(each.id) for each in page.tasks]
        return [task.payload for task in tasks if task is not None]

    return await desk.shared(("payloads", queue, name), ask, _SECONDS)


def paths_of(value: object, prefix: str, depth: int = DEEPEST) -> Iterable[str]:
    """Tell the paths of all that can be searched by in a payload."""
    if not isinstance(value, Mapping):
        return
    for name, inner in value.items():
        if is_searchable(name):
            path = f"{prefix}.{name}"
            yield path
            if depth:
                yield from paths_of(inner, path, depth - 1)


def is_searchable(name: str) -> bool:
    """Whether a path can be written through a field of this name."""
    return _NAME.fullmatch(name) is not None


def value_at(payload: object, path: str) -> str | None:
    """Write what a payload has at a path as a search would; ``None``: nothing to search by."""
    found = payload
    for name in path.split("."):
        if not isinstance(found, Mapping) or name not in found:
            return None
        found = found[name]
    if isinstance(found, str):
        return _text(found) if 0 < len(found) <= _LONGEST and found.isprintable() else None
    return json.dumps(found) if isinstance(found, int | float | None) else None


def _text(value: str) -> str:
    """Write text so that it reads as text, and not as a number."""
    plain = quoted(value)
    if plain.startswith('"'):
        return plain
    try:
        json.loads(plain)
    except ValueError:
        return plain
    return f'"{plain}"'
