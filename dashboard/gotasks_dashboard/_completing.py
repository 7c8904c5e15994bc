"""The route that completes a search while it is typed, from what there really is."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field
from typing_extensions import TypedDict

from gotasks_dashboard._dead import DeadQuery, groups_of
from gotasks_dashboard._desk import Desk
from gotasks_dashboard._endpoints import Call, Endpoint, Model, Nothing
from gotasks_dashboard._enqueueing import schema_of
from gotasks_dashboard._overview import overview_of
from gotasks_dashboard._permissions import Permission
from gotasks_dashboard._query import LONGEST, PAYLOAD, index_of, qualifiers_of, quoted, units
from gotasks_dashboard._sampling import (
    DEEPEST,
    is_searchable,
    paths_of,
    sampled_keys,
    sampled_payloads,
    value_at,
)
from gotasks_dashboard._series import past_of
from gotasks_py import ConfigurationError, Status
from gotasks_py.checks import check_name
from gotasks_py.inspecting import Tagging

_MOST: Final = 20
_TAGS_SECONDS: Final = 5.0
_LONGEST_PIECE: Final = 80
_TOKEN: Final = re.compile(r'(?:[^\s"]|"(?:[^"\\]|\\.)*(?:"|$))*', re.DOTALL)
_SPANS: Final = {"30m": "half an hour", "1h": "an hour", "24h": "a day", "7d": "a week"}

Value = tuple[str, str]
"""What could be written, and what to say about it."""


class CompletionQuery(Model):
    """A search that is being typed, and where: in units of UTF-16."""

    q: Annotated[str, Field(max_length=LONGEST)] = ""
    at: Annotated[int, Field(ge=0)] | None = None


class CompletionView(TypedDict):
    """What could stand there."""

    text: str
    label: str
    kind: str
    detail: str


# The names of its fields are no names in Python.
CompletionsView = TypedDict(
    "CompletionsView", {"from": int, "to": int, "items": Sequence[CompletionView]}
)


@dataclass(frozen=True, slots=True)
class _Typed:
    """What stands before the place where somebody types."""

    text: str
    start: int
    end: int
    given: Mapping[str, str]

    @property
    def fragment(self) -> str:
        return self.text[self.start : self.end]

    def name_of(self, qualifier: str) -> str | None:
        """Tell which queue or type is searched, if that is a name by now."""
        given = self.given.get(qualifier)
        try:
            check_name(qualifier, given)
        except ConfigurationError:
            return None
        return given


async def complete(desk: Desk, call: Call[CompletionQuery, Nothing]) -> CompletionsView:
    """Complete a search."""
    text = call.query.q
    at = len(text) if call.query.at is None else index_of(text, call.query.at)
    typed = _typed(text, at)
    items: list[CompletionView]
    name, colon, value = typed.fragment.partition(":")
    if not colon:
        items = await _names(desk, call, typed, name)
    elif name.startswith(PAYLOAD):
        items = await _payload_values(desk, call, typed, name, value)
    else:
        name = name.lower()
        values = await _values(desk, name, value.strip('"'), typed)
        items = [
            {"text": f"{name}:{quoted(each)} ", "label": each, "kind": name, "detail": detail}
            for each, detail in values
        ]
    return {"from": units(text, typed.start), "to": units(text, typed.end), "items": items[:_MOST]}


def _typed(text: str, at: int) -> _Typed:
    given: dict[str, str] = {}
    position = 0
    while position < at:
        if text[position].isspace():
            position += 1
            continue
        found = _TOKEN.match(text, position)
        end = found.end() if found and found.end() > position else position + 1
        if end >= at:
            return _Typed(text, position, at, given)
        name, _, value = text[position:end].partition(":")
        given[name] = value.strip('"')
        position = end
    return _Typed(text, at, at, given)


async def _names(
    desk: Desk, call: Call[Any, Any], typed: _Typed, begun: str
) -> list[CompletionView]:
    found: list[CompletionView] = []
    if begun.startswith(PAYLOAD):
        if _sees_payloads(desk, call):
            known = dict.fromkeys((*_paths(desk, typed), *await _sampled_paths(desk, typed)))
            paths = [path for path in known if path.startswith(begun)]
            found += [_name(path, "a value in the payload") for path in paths]
        return found
    begun = begun.lower()
    for name, hint in qualifiers_of(is_redacted=desk.settings.redact is not None).items():
        written = PAYLOAD if name.startswith(PAYLOAD) else f"{name}:"
        if name.startswith(begun) and (name not in typed.given or name == "status"):
            found.append({"text": written, "label": name, "kind": "name", "detail": hint})
    return found


def _name(path: str, detail: str) -> CompletionView:
    return {"text": f"{path}:", "label": path, "kind": "name", "detail": detail}


def _sees_payloads(desk: Desk, call: Call[Any, Any]) -> bool:
    return Permission.VIEW_PAYLOADS in call.access.permissions and not desk.settings.redact


async def _payloads(desk: Desk, typed: _Typed) -> Sequence[object]:
    return await sampled_payloads(desk, typed.name_of("queue"), typed.name_of("type"))


async def _sampled_paths(desk: Desk, typed: _Typed) -> Sequence[str]:
    payloads = await _payloads(desk, typed)
    return [path for each in payloads for path in paths_of(each, PAYLOAD[:-1])]


async def _payload_values(
    desk: Desk, call: Call[Any, Any], typed: _Typed, name: str, begun: str
) -> list[CompletionView]:
    if not _sees_payloads(desk, call):
        return []
    path = name.removeprefix(PAYLOAD)
    values = dict.fromkeys(value_at(each, path) for each in await _payloads(desk, typed))
    low = begun.strip('"').lower()
    return [
        {"text": f"{name}:{each} ", "label": each, "kind": "payload", "detail": ""}
        for each in values
        if each is not None and low in each.lower()
    ]


def _paths(desk: Desk, typed: _Typed) -> Sequence[str]:
    queue, name = typed.given.get("queue"), typed.given.get("type")
    found: dict[str, None] = {}
    for place in desk.types:
        if queue in {None, place[0]} and name in {None, place[1]}:
            schema = schema_of(desk, *place)
            if schema is not None:
                for path in _paths_in(schema, schema, PAYLOAD[:-1], DEEPEST):
                    found[path] = None
    return list(found)


def _paths_in(
    schema: Mapping[str, Any], root: Mapping[str, Any], prefix: str, depth: int
) -> Iterable[str]:
    ref = schema.get("$ref")
    if isinstance(ref, str):
        schema = root.get("$defs", {}).get(ref.rpartition("/")[2], {})
    for name, inner in schema.get("properties", {}).items():
        if not is_searchable(name):
            continue
        path = f"{prefix}.{name}"
        yield path
        if depth and isinstance(inner, dict):
            yield from _paths_in(inner, root, path, depth - 1)


async def _values(desk: Desk, name: str, begun: str, typed: _Typed) -> Sequence[Value]:
    find = _FINDERS.get(name)
    found = [] if find is None else await find(desk, typed, begun)
    low = begun.lower()
    fitting = [each for each in found if low in each[0].lower()]
    return sorted(fitting, key=lambda each: not each[0].lower().startswith(low))


async def _queues(desk: Desk, _typed: _Typed, _begun: str) -> Sequence[Value]:
    overview = await overview_of(desk)
    return [(each["name"], f"{each['backlog']['value']} due") for each in overview["queues"]]


async def _types(desk: Desk, typed: _Typed, _begun: str) -> Sequence[Value]:
    queue = typed.given.get("queue")
    nodes = await desk.nodes()
    served = {(each, name) for node in nodes for each in node.types for name in node.types[each]}
    past = await past_of(desk, "1h")
    ran = {place for step in past.steps for place in step.activities}
    places = sorted({*served, *ran, *desk.types})
    return [(name, each) for each, name in places if queue in {None, each}]


async def _statuses(_desk: Desk, _typed: _Typed, begun: str) -> Sequence[Value]:
    chosen = begun.lower().split(",")[:-1]
    return [(",".join([*chosen, each.value]), "") for each in Status if each.value not in chosen]


async def _keys(desk: Desk, typed: _Typed, _begun: str) -> Sequence[Value]:
    if desk.settings.redact is not None:
        return []
    keys = await sampled_keys(desk, typed.name_of("queue"))
    return [(each, "") for each in dict.fromkeys(keys)]


async def _messages(desk: Desk, typed: _Typed, _begun: str) -> Sequence[Value]:
    if desk.settings.redact is not None:
        return []
    query = DeadQuery(queue=typed.name_of("queue"), limit=_MOST)
    groups = (await groups_of(desk, query))["groups"]
    lines = [(each["message"].partition("\n")[0][:_LONGEST_PIECE].strip(), each) for each in groups]
    return [
        (line, f"{each['kind']}, {each['count']['value']} dead")
        for line, each in lines
        if line and line.isprintable()
    ]


async def _tags(desk: Desk, _typed: _Typed, begun: str) -> Sequence[Value]:
    store = desk.store
    if not isinstance(store, Tagging) or desk.settings.redact is not None:
        return []

    async def ask() -> Sequence[str]:
        return await store.tags(begun, limit=_MOST)

    return [(each, "") for each in await desk.shared(("tags", begun), ask, _TAGS_SECONDS)]


async def _workers(desk: Desk, _typed: _Typed, _begun: str) -> Sequence[Value]:
    return [(each.id, f"{each.running} running on {each.host}") for each in await desk.nodes()]


async def _causes(desk: Desk, typed: _Typed, _begun: str) -> Sequence[Value]:
    query = DeadQuery(queue=typed.name_of("queue"), limit=_MOST)
    page = await groups_of(desk, query)
    return [(each["fingerprint"], f"{each['kind']}: {each['message']}") for each in page["groups"]]


async def _spans(_desk: Desk, _typed: _Typed, _begun: str) -> Sequence[Value]:
    return [("now", "this moment"), *((span, f"{said} ago") for span, said in _SPANS.items())]


_FINDERS: Final[Mapping[str, Callable[[Desk, _Typed, str], Awaitable[Sequence[Value]]]]] = {
    "queue": _queues,
    "type": _types,
    "status": _statuses,
    "tag": _tags,
    "worker": _workers,
    "key": _keys,
    "error": _messages,
    "fingerprint": _causes,
    "after": _spans,
    "before": _spans,
}

ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="complete",
        summary="Complete a search from what there is",
        handle=complete,
        query=CompletionQuery,
        answer=CompletionsView,
    ),
)
