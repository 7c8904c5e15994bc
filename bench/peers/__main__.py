"""``python -m bench.peers``: gotasks_py beside other libraries, in one run on one machine."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CalledProcessError
from tempfile import TemporaryDirectory
from time import monotonic

from bench.peers.catalogue import CONTESTANTS, Contestant
from bench.peers.contest import Outcome, Scale, play
from bench.peers.environments import python_for
from bench.peers.processes import ContestError
from bench.peers.report import Result, write
from bench.peers.servers import MissingServerError, Servers

_TROUBLE = (ContestError, MissingServerError, CalledProcessError)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the contest and print its tables."""
    options = _parser().parse_args(arguments)
    scale = Scale(options.tasks, options.latencies)
    # Servers and workers end with this process. A shell's background jobs ignore SIGINT.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    until = monotonic() + 60 * options.minutes
    try:
        report = _report(options.peers, scale, options.repeats, until)
    except KeyboardInterrupt:
        sys.exit("interrupted")
    print(report)
    if options.output is not None:
        options.output.write_text(f"{report}\n")


def _report(peers: Sequence[Contestant], scale: Scale, repeats: int, until: float) -> str:
    with Servers() as servers:
        able = [each for each in peers if _is_ready(each, servers)]
        outcomes = _rounds(able, servers, scale, repeats, until)
        results = [Result(each, outcomes[each.name]) for each in able if outcomes[each.name]]
        if not results or not results[0].contestant.is_ours:
            sys.exit("gotasks_py itself could not be measured, so there is nothing to compare")
        return write(results, servers.versions, scale)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument(
        "--peers",
        type=_chosen,
        default=CONTESTANTS,
        metavar="NAME,…",
        help=f"who takes part beside gotasks_py: {', '.join(_peers())}",
    )
    parser.add_argument("--tasks", type=_positive, default=20_000, help="how many each round")
    parser.add_argument("--repeats", type=_positive, default=3, help="how many rounds for each")
    parser.add_argument("--latencies", type=_positive, default=200, help="delays per round")
    parser.add_argument("--minutes", type=_positive, default=60, help="begin no round after these")
    parser.add_argument("--output", type=Path, help="a file to write the report to, as well")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def _peers() -> list[str]:
    return [contestant.name for contestant in CONTESTANTS if not contestant.is_ours]


def _chosen(names: str) -> Sequence[Contestant]:
    wanted = {name.strip() for name in names.split(",")}
    if unknown := sorted(wanted - set(_peers())):
        raise argparse.ArgumentTypeError(
            f"unknown: {', '.join(unknown)}; there are {', '.join(_peers())}"
        )
    return [each for each in CONTESTANTS if each.is_ours or each.name in wanted]


def _is_ready(contestant: Contestant, servers: Servers) -> bool:
    """Install and start what a contestant needs; tell why it cannot take part."""
    try:
        python_for(contestant)
        servers.get(contestant.server)
    except _TROUBLE as trouble:
        _tell(f"{contestant.name} cannot take part: {trouble}")
        return False
    return True


def _rounds(
    contestants: Sequence[Contestant], servers: Servers, scale: Scale, repeats: int, until: float
) -> Mapping[str, Sequence[Outcome]]:
    """Play rounds in turns, in alternating order, so that drift of the machine hits all alike."""
    outcomes: dict[str, list[Outcome]] = {each.name: [] for each in contestants}
    failed: set[str] = set()
    with TemporaryDirectory(prefix="gotasks-peers-", dir=_memory()) as folder:
        for number in range(repeats):
            for each in contestants if number % 2 == 0 else reversed(contestants):
                if monotonic() > until or each.name in failed:
                    continue
                try:
                    outcomes[each.name].append(play(each, servers, scale, Path(folder)))
                except _TROUBLE as trouble:
                    failed.add(each.name)
                    _tell(f"round {number + 1}: {trouble}")
                else:
                    _tell(f"round {number + 1}: {each.name}: {outcomes[each.name][-1]}")
    return outcomes


def _memory() -> str | None:
    # The ledger is no part of what is measured, so it does not wait for a disk.
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108  - a folder of its own


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
