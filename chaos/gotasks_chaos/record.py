"""What a run leaves in its folder beside the ledgers: what it was, and its tasks as they ended.

A run is audited from its folder alone, at once or at any later time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from bson import json_util
from pydantic import BaseModel, Field, ValidationError, field_validator

from gotasks_chaos.profiles import PROFILES

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
    offset: float
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
    except (OSError, ValidationError) as error:
        msg = f"{folder} holds no run that --keep kept: {error}"
        raise RecordError(msg) from error


def tasks(folder: Path) -> Iterator[dict[str, Any]]:
    """Tell the tasks of a run as the database had them at its end."""
    with (folder / _TASKS).open() as kept:
        for line in kept:
            yield json_util.loads(line, json_options=_OPTIONS)


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
