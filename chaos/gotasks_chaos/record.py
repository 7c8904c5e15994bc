"""What a run leaves in its folder beside the ledgers: what it was, and its tasks as they ended.

A run is audited from its folder alone, at once or at any later time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias, get_args

from bson import json_util
from bson.errors import BSONError
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from gotasks_chaos import plan
from gotasks_chaos.profiles import OF_NETWORK, PROFILES

Mode: TypeAlias = Literal["single", "pipeline"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
_RECORD: Final = "run.json"
_TASKS: Final = "tasks.jsonl"
_OPTIONS: Final = json_util.JSONOptions(tz_aware=True)


class RecordError(Exception):
    """A folder that holds no run, or one that was not written to its end."""


class Planned(BaseModel):
    """What a run needs to be made again."""

    profile: str
    mode: Mode
    seed: int
    duration: float = Field(gt=0, allow_inf_nan=False)
    plan: list[dict[str, object]]

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        for fault in plan.from_document(self.plan):
            if fault.kind in OF_NETWORK and not PROFILES[self.profile].is_proxied:
                msg = f"{self.profile} has no lines to spoil, and is to {fault.kind}"
                raise ValueError(msg)
        return self

    @field_validator("profile")
    @classmethod
    def _is_known(cls, name: str) -> str:
        if name not in PROFILES:
            msg = f"no profile: there are {', '.join(PROFILES)}"
            raise ValueError(msg)
        return name


class Record(Planned):
    """What a run was, and what it measured of itself.

    ``members`` counts the servers that were started for it; none: the set was somebody's own.
    ``offset``: server time minus monotonic time. ``counted``: what the engine's own metrics
    say, by counter. ``drained_after``: how long it took to come to rest. Times are in seconds.
    """

    began_at: datetime
    machine: str
    versions: dict[str, str]
    members: int | None
    offset: float = Field(allow_inf_nan=False)
    counted: dict[str, int]
    drained_after: float


def write(folder: Path, record: Record, tasks: Iterable[Mapping[str, Any]]) -> None:
    """Leave a run to be audited."""
    with (folder / _TASKS).open("w") as kept:
        kept.writelines(f"{json_util.dumps(task)}\n" for task in tasks)
    (folder / _RECORD).write_text(record.model_dump_json(indent=1))


def read(folder: Path) -> Record:
    """Tell what the run of a folder was.

    Raises:
        RecordError: there is none.
    """
    try:
        return Record.model_validate_json((folder / _RECORD).read_bytes())
    except ValidationError as error:
        msg = f"{folder / _RECORD} is no record of a run: {first(error)}"
        raise RecordError(msg) from error
    except OSError as error:
        msg = f"{folder} holds no run that --keep kept: {error}"
        raise RecordError(msg) from error


def first(error: ValidationError) -> str:
    """Tell the first of the faults that were found, in one line."""
    fault = error.errors(include_url=False)[0]
    where = ".".join(str(each) for each in fault["loc"])
    return f"{where}: {fault['msg']}" if where else fault["msg"]


def tasks(folder: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Tell the tasks of a run as the database had them at its end, each with its line's number.

    Raises:
        RecordError: a line cannot be read.
    """
    with (folder / _TASKS).open(errors="replace") as kept:
        for number, line in enumerate(kept, start=1):
            try:
                document = json_util.loads(line, json_options=_OPTIONS)
            except (ValueError, TypeError, BSONError) as error:
                msg = f"line {number} of {folder / _TASKS} is damaged: {error}"
                raise RecordError(msg) from error
            yield number, document


def kept_in(folder: Path) -> list[Path]:
    """Tell the folders of runs in a folder, which may be one itself.

    Raises:
        RecordError: there are none.
    """
    found = sorted(path.parent for path in folder.rglob(_RECORD))
    if not found:
        msg = f"{folder} holds no run that --keep kept"
        raise RecordError(msg)
    return found
