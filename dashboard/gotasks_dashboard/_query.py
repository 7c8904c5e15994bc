"""The search language: ``queue:emails status:dead payload.user.id:42``, read into a filter.

What is written is compared as it stands: there are no operators and no patterns to be had,
for the filter has none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field

from gotasks_dashboard._problems import Problem
from gotasks_py import ConfigurationError, Status, TaskFilter
from gotasks_py.inspecting import Literals

PAYLOAD: Final = "payload."
LONGEST: Final = 2_000

QUALIFIERS: Final[Mapping[str, str]] = {
    "queue": "the name of its queue",
    "type": "the name of its type",
    "status": "pending, running, done, dead or cancelled; several with commas between",
    "tag": "one of its tags",
    "id": "its id, 24 hexadecimal digits",
    "key": "its unique key",
    "worker": "running on this manager, or on this worker of it",
    "error": "a piece of the message of one of its errors",
    "fingerprint": "dead of this cause",
    "payload.PATH": "a value in its payload, such as payload.user.id:42",
    "after": "to run at this time or later: 2026-01-31T12:00Z, a date, 2h ago, or now",
    "before": "to run before this time: 2026-01-31T12:00Z, a date, 2h ago, or now",
}

REVEALING: Final = frozenset({"tag", "key", "error", "payload.PATH"})
"""What would tell by what it finds what a task's redaction may hide."""

# As the OpenAPI document says it; it cannot say that no qualifier is given twice.
_HIDDEN: Final = r"\x00-\x1f\x7f-\xa0"
_INSIDE: Final = rf'([^"\\{_HIDDEN}]|\\["\\])*'
_VALUE: Final = rf'("{_INSIDE}"|[^\s"{_HIDDEN}]+)'
_NAME: Final = rf'("[^\s$"\\{_HIDDEN}]{_INSIDE}"|[^\s$"{_HIDDEN}][^\s"{_HIDDEN}]*)'
_STATUS: Final = f"({'|'.join(Status)})"
_DAY: Final = r"[12]\d{3}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
_TIME: Final = rf"(now|\d{{1,4}}[smhdw]|{_DAY}(T([01]\d|2[0-3]):[0-5]\dZ)?)"
_QUALIFIED: Final = "|".join(
    (
        rf"(queue|type|tag|key|worker|error|fingerprint):{_NAME}",
        rf"payload(\.[A-Za-z_]\w*)+:{_VALUE}",
        f"status:{_STATUS}(,{_STATUS})*",
        "(id:)?[0-9a-fA-F]{24}",
        f"(after|before):{_TIME}",
    )
)
SOMETHING: Final = rf"^\s*({_QUALIFIED})(\s+({_QUALIFIED}))*\s*$"
NOTHING: Final = r"^\s*$"

Query: TypeAlias = Annotated[
    str,
    Field(
        description="A search, such as `queue:emails status:dead`.",
        json_schema_extra={"maxLength": LONGEST, "pattern": f"{NOTHING}|{SOMETHING}"},
    ),
]

_FIELDS: Final = {"key": "unique_key", "after": "run_from", "before": "run_before"}
_WORD: Final = re.compile(
    r"""(?P<name>[^\s:"]+):(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s"]*))(?=\s|$)"""
)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_ID: Final = re.compile(r"[0-9a-fA-F]{24}")
_AGO: Final = re.compile(r"(\d{1,6})([smhdw])")
_NEXT: Final = timedelta(milliseconds=1)
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_INT64: Final = 2**63
_LAST_UNIT: Final = 0xFFFF


@dataclass(frozen=True, slots=True)
class Word:
    """One ``name:value``, and where it stands."""

    name: str
    value: str
    is_quoted: bool
    start: int
    end: int

    text: str
    """All that it is a part of."""

    def problem(self, why: str) -> Problem:
        """Refuse it."""
        return misunderstood(why, self.text, self.start, self.end)


def words_of(text: str) -> Sequence[Word]:
    """Divide a text into its words.

    Raises:
        Problem: a piece is no word.
    """
    found: list[Word] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        word = _word_at(text, at)
        found.append(word)
        at = word.end
    return found


def filter_of(text: str, now: datetime) -> TaskFilter:
    """Read a text into a filter; a span of time is one ago.

    Raises:
        Problem: it cannot be understood; it says where, and what can be written.
    """
    if len(text) > LONGEST:
        raise misunderstood(f"a search has {LONGEST} characters at most", text, LONGEST, len(text))
    given: dict[str, Any] = {}
    payload: dict[str, Literals] = {}
    for word in words_of(text):
        if word.name.startswith(PAYLOAD):
            _put(payload, word.name.removeprefix(PAYLOAD), _literal(word), word)
        elif word.name == "status":
            chosen = [each for each in word.value.split(",") if each]
            if not chosen:
                raise word.problem(f"status: needs a value: {', '.join(Status)}")
            given["status"] = [*given.get("status", []), *chosen]
        elif word.name not in QUALIFIERS:
            raise word.problem(f"{word.name!r} is no qualifier; there are {', '.join(QUALIFIERS)}")
        else:
            value = _moment(word, now) if word.name in {"after", "before"} else word.value
            _put(given, _FIELDS.get(word.name, word.name), value, word)
    try:
        return TaskFilter(**given, payload=payload)
    except ConfigurationError as error:
        raise misunderstood(str(error), text, 0, len(text)) from error


def qualifiers_of(*, is_redacted: bool) -> Mapping[str, str]:
    """Tell by what can be searched, with a hint for each."""
    hidden = REVEALING if is_redacted else frozenset[str]()
    return {name: hint for name, hint in QUALIFIERS.items() if name not in hidden}


def written(**parts: str) -> str:
    """Write a search, quoting what has to be."""
    return " ".join(f"{name}:{quoted(value)}" for name, value in parts.items())


def quoted(value: str) -> str:
    """Write a value so that it reads as itself."""
    if value and re.fullmatch(r'[^\s"\\]+', value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def misunderstood(why: str, text: str, start: int, end: int) -> Problem:
    """Refuse a part of a search."""
    at = units(text, start)
    place = {"path": "q", "message": why, "at": at, "length": max(0, units(text, end) - at)}
    return Problem(400, "bad_query", why, errors=[place])


def units(text: str, index: int) -> int:
    """Tell an index as JavaScript counts: in units of UTF-16."""
    return index + sum(ord(each) > _LAST_UNIT for each in text[:index])


def index_of(text: str, unit: int) -> int:
    """Tell the index of a unit of UTF-16; one inside of a pair is that of its character."""
    at = 0
    for index, each in enumerate(text):
        at += 2 if ord(each) > _LAST_UNIT else 1
        if at > unit:
            return index
    return len(text)


def _word_at(text: str, at: int) -> Word:
    found = _WORD.match(text, at)
    if found is not None:
        inner = found["quoted"]
        value = found["plain"] if inner is None else _ESCAPED.sub(r"\1", inner)
        return Word(found["name"], value, inner is not None, at, found.end(), text)
    end = at
    while end < len(text) and not text[end].isspace():
        end += 1
    bare = text[at:end]
    if _ID.fullmatch(bare):
        return Word("id", bare, is_quoted=False, start=at, end=end, text=text)
    if '"' in bare:
        why = 'a quoted value ends with ", and a space follows'
        raise misunderstood(why, text, at, len(text))
    hint = f"tag:{bare}" if bare.isprintable() and ":" not in bare else "tag:x"
    why = f"a search is made of name:value, such as {hint} or error:{hint[4:]}"
    raise misunderstood(why, text, at, end)


def _put(into: dict[str, Any], name: str, value: object, word: Word) -> None:
    if name in into:
        raise word.problem(f"{word.name!r} is given twice, and both would have to fit")
    if word.value == "" and not word.is_quoted:
        raise word.problem(f"{word.name}: needs a value")
    into[name] = value


def _literal(word: Word) -> Literals:
    if word.is_quoted:
        return word.value
    try:
        value: object = json.loads(word.value, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return word.value
    if isinstance(value, int) and not isinstance(value, bool) and not -_INT64 <= value < _INT64:
        raise word.problem("no payload holds a whole number of more than 64 bits")
    return value if isinstance(value, str | int | float | bool | None) else word.value


def _no_constant(name: str) -> object:
    raise ValueError(name)  # NaN is no JSON


def _moment(word: Word, now: datetime) -> datetime:
    if word.value == "now":
        return now + _NEXT  # what is to run at this very moment is due, and no longer to come
    if ago := _AGO.fullmatch(word.value):
        try:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        except OverflowError as error:
            raise word.problem("that is before all time") from error
    try:
        read = datetime.fromisoformat(word.value)
        return read.replace(tzinfo=UTC) if read.utcoffset() is None else read.astimezone(UTC)
    except OverflowError as error:
        raise word.problem("in UTC that lies beyond the years 1 to 9999") from error
    except ValueError as error:
        why = "a time is 2026-01-31T12:00Z, 2026-01-31, now, or a span such as 30m, 2h or 7d"
        raise word.problem(why) from error
