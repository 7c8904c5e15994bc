"""``python -m gotasks_chaos``: run a profile, audit it, and say what was found."""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from gotasks_chaos.plan import make_plan
from gotasks_chaos.profiles import PROFILES
from gotasks_chaos.report import audit, text, to_document
from gotasks_chaos.run import Request, run

_SPAN = re.compile(r"(?P<number>\d+(\.\d+)?)(?P<unit>s|m|h)")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_MODES = ("single", "pipeline")


def seconds(text: str) -> float:
    """Read a span such as ``90s``, ``10m`` or ``1h``."""
    match = _SPAN.fullmatch(text)
    if match is None:
        msg = f"not a span such as 90s, 10m or 1h: {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return float(match["number"]) * _UNITS[match["unit"]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; tell 1 if an invariant was violated."""
    options = _parser().parse_args(arguments)
    profile = PROFILES[options.profile]
    modes = _MODES if options.mode == "both" else (options.mode,)
    documents = []
    for mode in modes:
        plan = make_plan(profile, options.seed, options.duration)
        outcome = run(
            Request(
                profile=profile, mode=mode, seed=options.seed, duration=options.duration, plan=plan
            )
        )
        document = to_document(outcome, audit(outcome.evidence))
        print(text(document), flush=True)
        documents.append(document)
    if options.report is not None:
        options.report.write_text(json.dumps(documents, indent=1))
    return int(any(each["violations"] for one in documents for each in one["invariants"]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m gotasks_chaos", description=__doc__)
    names = "; ".join(f"{each.name}: {each.summary}" for each in PROFILES.values())
    parser.add_argument("--profile", choices=list(PROFILES), default="smoke", help=names)
    parser.add_argument("--mode", choices=[*_MODES, "both"], default="both")
    parser.add_argument("--duration", type=seconds, default=seconds("60s"), help="such as 10m")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--report", type=Path, help="write a JSON report there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
