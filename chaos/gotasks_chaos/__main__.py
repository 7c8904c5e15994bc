"""``python -m gotasks_chaos``: run a profile, audit it, and say what was found."""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, field_validator
from pymongo.errors import PyMongoError

from gotasks_chaos import plan
from gotasks_chaos.plan import Fault, make_plan
from gotasks_chaos.profiles import OF_DATABASE, OF_NETWORK, PROFILES
from gotasks_chaos.report import audit, text, to_document
from gotasks_chaos.run import Request, StuckError, run
from gotasks_chaos.stage import FaketimeError
from gotasks_py.errors import GotasksError

_SPAN: Final = re.compile(r"(?P<number>[0-9]+(\.[0-9]+)?)(?P<unit>s|m|h)")
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}
Mode: TypeAlias = Literal["single", "pipeline"]
_MODES: Final[tuple[Mode, ...]] = get_args(Mode)


class Replayed(BaseModel):
    """What a report says of one run that another needs to be the same."""

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


_REPORT: Final = TypeAdapter(Annotated[list[Replayed], Field(min_length=1)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; tell 1 if an invariant was violated."""
    parser = _parser()
    options = parser.parse_args(arguments)
    documents: list[dict[str, Any]] = []
    try:
        requests = list(_requests(options))
        for request in requests:
            if options.report is not None:  # which is found out before the run, not after it
                options.report.write_text(json.dumps(documents, indent=1))
            documents.append(_done(request))
        if options.report is not None:
            options.report.write_text(json.dumps(documents, indent=1))
    except KeyboardInterrupt:
        print("interrupted: nothing was audited", file=sys.stderr)
        return 128 + signal.SIGINT
    except (FaketimeError, StuckError, GotasksError, PyMongoError, ValueError, OSError) as error:
        parser.error(str(error).partition(", Timeout: ")[0])
    return int(any(each["violations"] for one in documents for each in one["invariants"]))


def _interrupted(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _done(request: Request) -> dict[str, Any]:
    print(f"{request.profile.name}, {request.mode} mode, seed {request.seed} begins", flush=True)
    outcome = run(request)
    document = to_document(outcome, audit(outcome.evidence))
    print(text(document), flush=True)
    return document


def _requests(options: argparse.Namespace) -> Iterator[Request]:
    if options.replay is not None:
        yield from _replayed(options.replay, options.uri, options.keep)
        return
    profile = PROFILES[options.profile]
    faults = make_plan(profile, options.seed, options.duration)
    for mode in _MODES if options.mode == "both" else (options.mode,):
        yield Request(
            profile=profile,
            mode=mode,
            seed=options.seed,
            duration=options.duration,
            plan=_possible(faults, options.uri),
            uri=options.uri,
            keep=options.keep,
        )


def _replayed(report: Path, uri: str | None, keep: Path | None) -> Iterator[Request]:
    try:
        runs = _REPORT.validate_json(report.read_bytes())
    except ValidationError as error:
        msg = f"--replay wants a report that --report wrote; {report} is none: {error}"
        raise ValueError(msg) from error
    for each in runs:
        yield Request(
            profile=PROFILES[each.profile],
            mode=each.mode,
            seed=each.seed,
            duration=each.duration,
            plan=_possible(plan.from_document(each.plan), uri),
            uri=uri,
            keep=keep,
        )


def _possible(faults: Sequence[Fault], uri: str | None) -> list[Fault]:
    """Leave out what is not done to somebody's own database."""
    left = [each for each in faults if uri is None or each.kind not in OF_DATABASE | OF_NETWORK]
    if len(left) < len(faults):
        print("with --uri, faults of the database and of its lines are left to you", flush=True)
    return left


def _seconds(span: str) -> float:
    match = _SPAN.fullmatch(span)
    if match is None:
        msg = f"not a span such as 90s, 10m or 1h: {span!r}"
        raise argparse.ArgumentTypeError(msg)
    return float(match["number"]) * _UNITS[match["unit"]]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m gotasks_chaos", description=__doc__)
    names = "; ".join(f"{each.name}: {each.summary}" for each in PROFILES.values())
    parser.add_argument("--profile", choices=list(PROFILES), default="smoke", help=names)
    parser.add_argument("--mode", choices=[*_MODES, "both"], default="both")
    parser.add_argument(
        "--duration",
        type=_seconds,
        default=60.0,
        help="of the storm in each mode, such as 90s or 10m; default 60s",
    )
    parser.add_argument(
        "--seed", type=int, default=random.randrange(1_000_000), help="of the plan; default: any"
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write a JSON report there")
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="keep the ledgers and tasks of each run there, in a folder that must not exist yet",
    )
    parser.add_argument(
        "--replay", type=Path, metavar="FILE", help="run the plans of a report again"
    )
    parser.add_argument(
        "--uri",
        default=os.environ.get("GOTASKS_MONGODB_URI"),
        help="a replica set of your own; its database gotasks_chaos is written to; default: "
        "GOTASKS_MONGODB_URI, or servers that are started for the run",
    )
    return parser


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _interrupted)
    sys.exit(main())
