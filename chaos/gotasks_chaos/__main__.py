"""``python -m gotasks_chaos``: run a profile, audit it, and say what was found."""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory, mkdtemp
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter, ValidationError
from pymongo.errors import PyMongoError

from gotasks_chaos import plan, record
from gotasks_chaos.gathering import gather
from gotasks_chaos.ledger import LedgerError
from gotasks_chaos.plan import Fault, make_plan
from gotasks_chaos.profiles import OF_DATABASE, OF_NETWORK, PROFILES
from gotasks_chaos.record import MODES, Planned, RecordError
from gotasks_chaos.report import text, to_document, verdict
from gotasks_chaos.run import Request, StuckError, run
from gotasks_chaos.stage import FaketimeError
from gotasks_py.errors import GotasksError

_SPAN: Final = re.compile(r"(?P<number>[0-9]+(\.[0-9]+)?)(?P<unit>s|m|h)")
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST_SECONDS: Final = 24 * 3600.0
_REPORT: Final = TypeAdapter(Annotated[list[Planned], Field(min_length=1)])


_REFUSALS: Final = (
    FaketimeError,
    StuckError,
    LedgerError,
    RecordError,
    GotasksError,
    PyMongoError,
    ValueError,
    OSError,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; tell 1 if an invariant was violated."""
    parser = _parser()
    options = parser.parse_args(arguments)
    documents: list[dict[str, Any]] = []
    try:
        for document in _documents(options):
            print(text(document), flush=True)
            documents.append(document)
            _report(options.report, documents)
    except KeyboardInterrupt:
        _conclude(documents)
        print("interrupted: what was under way was not audited", file=sys.stderr)
        return 128 + signal.SIGINT
    except _REFUSALS as error:
        _conclude(documents)
        parser.error(str(error).partition(", Timeout: ")[0])
    _conclude(documents)
    return int(any(map(_is_violated, documents)))


def _conclude(documents: Sequence[Mapping[str, Any]]) -> None:
    if documents:
        print(verdict(documents), flush=True)


def _report(path: Path | None, documents: Sequence[Mapping[str, Any]]) -> None:
    if path is not None:
        path.write_text(json.dumps(documents, indent=1))


def _interrupted(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _documents(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    if options.audit is not None:
        _report(options.report, [])
        for folder in record.kept_in(options.audit):
            yield to_document(record.read(folder), gather(folder))
        return
    requests = list(_requests(options))
    _report(options.report, [])  # whether it can be written is found out before the run
    for request in requests:
        print(
            f"{request.profile.name}, {request.mode} mode, seed {request.seed} begins", flush=True
        )
        with _folder(request, options.keep) as folder:
            run(request, folder)
            document = to_document(record.read(folder), gather(folder))
            yield document
            if options.keep is None and _is_violated(document):
                _save(folder)


def _is_violated(document: Mapping[str, Any]) -> bool:
    return any(each["violations"] for each in document["invariants"])


def _save(folder: Path) -> None:
    """Keep the evidence although nobody asked: the same plan may not violate anything again."""
    try:
        saved = copytree(folder, mkdtemp(prefix="gotasks-chaos-violated-"), dirs_exist_ok=True)
    except OSError as error:
        print(f"the evidence could not be kept: {error}", file=sys.stderr, flush=True)
    else:
        print(f"the evidence is kept in {saved}", flush=True)


@contextmanager
def _folder(request: Request, keep: Path | None) -> Generator[Path]:
    if keep is None:
        with TemporaryDirectory(prefix="gotasks-chaos-") as folder:
            yield Path(folder)
        return
    kept = keep / f"{request.profile.name}-{request.mode}-{request.seed}"
    kept.mkdir(parents=True)
    yield kept


def _requests(options: argparse.Namespace) -> Iterator[Request]:
    if options.replay is not None:
        yield from _replayed(options.replay, options.uri)
        return
    profile = PROFILES[options.profile]
    faults = make_plan(profile, options.seed, options.duration)
    for mode in MODES if options.mode == "both" else (options.mode,):
        yield Request(
            profile=profile,
            mode=mode,
            seed=options.seed,
            duration=options.duration,
            plan=_possible(faults, options.uri),
            uri=options.uri,
        )


def _replayed(report: Path, uri: str | None) -> Iterator[Request]:
    try:
        runs = _REPORT.validate_json(report.read_bytes())
    except ValidationError as error:
        msg = (
            f"--replay wants a report that --report wrote; {report} is none: {record.first(error)}"
        )
        raise ValueError(msg) from error
    for each in runs:
        yield Request(
            profile=PROFILES[each.profile],
            mode=each.mode,
            seed=each.seed,
            duration=each.duration,
            plan=_possible(plan.from_document(each.plan), uri),
            uri=uri,
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
    seconds = float(match["number"]) * _UNITS[match["unit"]]
    if not 0 < seconds <= _LONGEST_SECONDS:
        msg = f"a storm lasts for some time, and for a day at most: not {span!r}"
        raise argparse.ArgumentTypeError(msg)
    return seconds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m gotasks_chaos", description=__doc__)
    names = "; ".join(f"{each.name}: {each.summary}" for each in PROFILES.values())
    parser.add_argument("--profile", choices=list(PROFILES), default="smoke", help=names)
    parser.add_argument("--mode", choices=[*MODES, "both"], default="both")
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
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--audit",
        type=Path,
        metavar="FOLDER",
        help="run nothing, but audit what --keep kept there",
    )
    instead.add_argument(
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
