"""``python -m gotasks_chaos``: run a profile, audit it, and say what was found."""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from gotasks_chaos import plan
from gotasks_chaos.plan import make_plan
from gotasks_chaos.profiles import OF_DATABASE, OF_NETWORK, PROFILES
from gotasks_chaos.report import audit, text, to_document
from gotasks_chaos.run import Request, run
from gotasks_chaos.stage import FaketimeError

_SPAN: Final = re.compile(r"(?P<number>\d+(\.\d+)?)(?P<unit>s|m|h)")
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}
_MODES: Final = ("single", "pipeline")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; tell 1 if an invariant was violated."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        requests = list(_requests(options))
        documents = [_done(request) for request in requests]
    except (FaketimeError, ValueError, OSError) as error:
        parser.error(str(error))
    if options.report is not None:
        options.report.write_text(json.dumps(documents, indent=1))
    return int(any(each["violations"] for one in documents for each in one["invariants"]))


def _done(request: Request) -> dict[str, Any]:
    outcome = run(request)
    document = to_document(outcome, audit(outcome.evidence))
    print(text(document), flush=True)
    return document


def _requests(options: argparse.Namespace) -> Iterator[Request]:
    if options.replay is not None:
        yield from _replayed(json.loads(options.replay.read_text()), options.uri)
        return
    profile = PROFILES[options.profile]
    faults = make_plan(profile, options.seed, options.duration)
    if options.uri is not None and (profile.needs_servers or profile.is_proxied):
        faults = [each for each in faults if each.kind not in OF_DATABASE | OF_NETWORK]
        print("with --uri, faults of the database and of its lines are left to you", flush=True)
    for mode in _MODES if options.mode == "both" else (options.mode,):
        yield Request(
            profile=profile,
            mode=mode,
            seed=options.seed,
            duration=options.duration,
            plan=faults,
            uri=options.uri,
        )


def _replayed(documents: Sequence[dict[str, Any]], uri: str | None) -> Iterator[Request]:
    for document in documents:
        try:
            yield Request(
                profile=PROFILES[document["profile"]],
                mode=document["mode"],
                seed=document["seed"],
                duration=document["duration"],
                plan=plan.from_document(document["plan"]),
                uri=uri,
            )
        except (KeyError, TypeError) as error:
            msg = f"--replay wants a report that --report wrote; this one has no {error}"
            raise ValueError(msg) from error


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
        "--replay", type=Path, metavar="FILE", help="run the plans of a report again"
    )
    parser.add_argument(
        "--uri", help="a replica set of your own; its database gotasks_chaos is written to"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
