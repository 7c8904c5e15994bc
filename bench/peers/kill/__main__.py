"""``python -m bench.peers.kill``: what becomes of a task whose worker is killed or frozen."""

from __future__ import annotations

import argparse
import json
import platform
import signal
import sys
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from subprocess import CalledProcessError
from tempfile import TemporaryDirectory, mkdtemp
from threading import Event
from typing import Final

from bench.peers.catalogue import ServerKind
from bench.peers.environments import python_for
from bench.peers.kill.catalogue import SUBJECTS, Subject
from bench.peers.kill.report import Played, to_document, write
from bench.peers.kill.scene import Scene, play
from bench.peers.kill.verdict import Observation, Scenario
from bench.peers.processes import ContestError
from bench.peers.servers import MissingServerError, Servers

_TROUBLE: Final = (ContestError, MissingServerError, CalledProcessError)
_LANES: Final[Sequence[ServerKind]] = (
    "mongodb",
    "mongodb",
    "postgresql",
    "redis",
    "redis",
    "redis",
)
"""Scenes are mostly waiting: these are played side by side, each lane with servers of its own."""


@dataclass(slots=True)
class _Work:
    """What the lanes share."""

    folder: Path
    queues: Mapping[ServerKind, SimpleQueue[tuple[Subject, Scenario]]]
    stopping: Event = field(default_factory=Event)
    seen: dict[str, list[Observation]] = field(default_factory=dict[str, list[Observation]])
    package_versions: dict[str, Mapping[str, str]] = field(
        default_factory=dict[str, Mapping[str, str]]
    )
    server_versions: dict[ServerKind, str] = field(default_factory=dict[ServerKind, str])


def main(arguments: Sequence[str] | None = None) -> None:
    """Play the scenes and print their table."""
    options = _parser().parse_args(arguments)
    # Servers and workers end with this process. A shell's background jobs ignore SIGINT.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        with _folder(options.logs) as folder:
            work = _play(options.subjects, options.scenarios, options.repeats, folder)
    except KeyboardInterrupt:
        sys.exit("interrupted")
    results = [
        Played(each, work.package_versions[each.name], work.seen[each.name])
        for each in options.subjects
        if each.name in work.seen
    ]
    print(_heading(work.server_versions), write(results), sep="\n\n")
    if options.report is not None:
        options.report.write_text(f"{json.dumps(to_document(results), indent=1)}\n")
    if len(results) < len(options.subjects):
        sys.exit(1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.peers.kill", description=__doc__)
    parser.add_argument(
        "--subjects",
        type=_chosen,
        default=SUBJECTS,
        metavar="NAME,…",
        help=f"who takes part: {', '.join(each.name for each in SUBJECTS)}",
    )
    parser.add_argument(
        "--scenarios",
        type=_scenarios,
        default=list(Scenario),
        metavar="NAME,…",
        help=f"what is done: {', '.join(Scenario)}",
    )
    parser.add_argument("--repeats", type=_positive, default=1, help="how often each is played")
    parser.add_argument("--logs", type=Path, help="a folder to keep ledgers and logs in")
    parser.add_argument("--report", type=Path, help="a file for everything that was seen, as JSON")
    return parser


def _chosen(names: str) -> Sequence[Subject]:
    wanted = {name.strip() for name in names.split(",")}
    if unknown := sorted(wanted - {each.name for each in SUBJECTS}):
        known = ", ".join(each.name for each in SUBJECTS)
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are {known}")
    return [each for each in SUBJECTS if each.name in wanted]


def _scenarios(names: str) -> Sequence[Scenario]:
    try:
        return [Scenario(name.strip()) for name in names.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; there are {', '.join(Scenario)}") from None


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


@contextmanager
def _folder(logs: Path | None) -> Generator[Path]:
    if logs is not None:
        logs.mkdir(parents=True, exist_ok=True)
        yield logs
        return
    with TemporaryDirectory(prefix="gotasks-kill-") as folder:
        yield Path(folder)


def _play(
    subjects: Sequence[Subject], scenarios: Sequence[Scenario], repeats: int, folder: Path
) -> _Work:
    work = _Work(folder, {kind: SimpleQueue() for kind in _LANES})
    for subject in filter(_is_installed, subjects):
        for scenario in [*scenarios] * repeats:
            work.queues[subject.contestant.server].put((subject, scenario))
    with ThreadPoolExecutor(len(_LANES)) as pool:
        try:
            for lane in [pool.submit(_lane, kind, work) for kind in _LANES]:
                lane.result()
        finally:
            work.stopping.set()
    return work


def _is_installed(subject: Subject) -> bool:
    """Install what a subject needs; tell why it cannot take part."""
    try:
        python_for(subject.contestant)
    except CalledProcessError as trouble:
        _tell(f"{subject.name} cannot take part: {trouble}")
        return False
    return True


def _lane(kind: ServerKind, work: _Work) -> None:
    """Play the scenes that live on a kind of server, one after the other."""
    with Servers() as servers:
        while not work.stopping.is_set():
            try:
                subject, scenario = work.queues[kind].get_nowait()
            except Empty:
                break
            _scene(subject, scenario, servers, work)
        work.server_versions.update(servers.versions)


def _scene(subject: Subject, scenario: Scenario, servers: Servers, work: _Work) -> None:
    folder = Path(mkdtemp(prefix=f"{subject.name}-{scenario}-", dir=work.folder))
    try:
        url = servers.get(subject.contestant.server).fresh()
        observation, versions = play(Scene(subject, url, folder, stopping=work.stopping), scenario)
    except _TROUBLE as trouble:
        _tell(f"{subject.name}, {scenario}: {trouble}")
        return
    work.package_versions[subject.name] = versions
    work.seen.setdefault(subject.name, []).append(observation)
    _tell(f"{subject.name}, {scenario}: {observation}")


def _heading(servers: Mapping[ServerKind, str]) -> str:
    return (
        f"{datetime.now(UTC):%Y-%m-%d}; {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}. Servers: {'; '.join(sorted(servers.values()))}."
    )


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
