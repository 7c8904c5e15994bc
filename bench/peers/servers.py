"""The servers that queues live on: on 127.0.0.1, with their data in a folder that goes away."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Self

from pymongo import MongoClient

from bench.peers.catalogue import ServerKind
from gotasks_mongostore.local import LocalReplicaSet

_PATIENCE_SECONDS: Final = 30.0
_DEBIAN: Final[Mapping[str, str]] = {"redis-server": "redis-server", "postgres": "postgresql"}


class MissingServerError(Exception):
    """A server's program is not there and cannot be installed from here."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server.

    Args:
        fresh: Drops what the last round left and tells the URL of an empty database.
    """

    version: str
    fresh: Callable[[], str]


class Servers:
    """Starts each server when it is first asked for; all stop with the ``with`` block."""

    def __init__(self) -> None:
        self._running: dict[ServerKind, Server] = {}
        self._cleanup = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    @property
    def versions(self) -> Mapping[ServerKind, str]:
        """The version of each server that was started."""
        return {kind: server.version for kind, server in self._running.items()}

    def get(self, kind: ServerKind) -> Server:
        """Tell the server, and start it where it does not run yet.

        Raises:
            MissingServerError: its program is not there.
        """
        if kind not in self._running:
            start = {"redis": _redis, "postgresql": _postgresql, "mongodb": _mongodb}[kind]
            self._running[kind] = self._cleanup.enter_context(start())
        return self._running[kind]


@contextmanager
def _redis() -> Generator[Server]:
    program = _program("redis-server")
    port = _free_port()

    def fresh() -> str:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"FLUSHALL SYNC\r\n")
            assert connection.recv(64).startswith(b"+OK")
        return f"redis://127.0.0.1:{port}/0"

    with TemporaryDirectory(prefix="gotasks-redis-") as folder:
        address = ["--bind", "127.0.0.1", "--port", str(port), "--dir", folder]
        with _process([str(program), *address], Path(folder), port):
            yield Server(f"Redis {_version(program)}", fresh)


@contextmanager
def _postgresql() -> Generator[Server]:
    program = _program("postgres")
    port = _free_port()
    numbers = count()

    def run(name: str, *arguments: str) -> None:
        where = ("--host=127.0.0.1", f"--port={port}", "--username=postgres")
        command = [str(program.with_name(name)), *where, *arguments]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)

    def fresh() -> str:
        number = next(numbers)
        run("dropdb", "--if-exists", "--force", f"bench_{number - 1}")
        run("createdb", f"bench_{number}")
        return f"postgresql://postgres@127.0.0.1:{port}/bench_{number}"

    with TemporaryDirectory(prefix="gotasks-postgresql-") as folder:
        user = _unprivileged_user()
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        _initdb(program.with_name("initdb"), folder, user)
        address = ["-h", "127.0.0.1", "-p", str(port), "-k", folder]
        with _process([str(program), "-D", f"{folder}/data", *address], Path(folder), port, user):
            yield Server(f"PostgreSQL {_version(program)}", fresh)


@contextmanager
def _mongodb() -> Generator[Server]:
    with LocalReplicaSet() as servers, MongoClient[dict[str, object]](servers.uri) as client:

        def fresh() -> str:
            for name in set(client.list_database_names()) - {"admin", "config", "local"}:
                client.drop_database(name)
            return servers.uri

        yield Server(f"MongoDB {client.server_info()['version']}", fresh)


def _initdb(program: Path, folder: str, user: pwd.struct_passwd | None) -> None:
    subprocess.run(
        [program, f"--pgdata={folder}/data", "--username=postgres", "--auth=trust"],
        check=True,
        stdout=subprocess.DEVNULL,
        user=user and user.pw_uid,
        group=user and user.pw_gid,
        cwd=folder,
    )


@contextmanager
def _process(
    command: Sequence[str], folder: Path, port: int, user: pwd.struct_passwd | None = None
) -> Generator[None]:
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            user=user and user.pw_uid,
            group=user and user.pw_gid,
            start_new_session=True,  # Ctrl-C is for this process, which then stops that one
        )
    try:
        _wait_for(process, port, log)
        yield
    finally:
        process.send_signal(signal.SIGINT)  # PostgreSQL: do not wait for clients to leave
        try:
            process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise MissingServerError(
                    f"{log.parent.name} did not start:\n{log.read_text()}"
                ) from None
            time.sleep(0.05)
        else:
            return


def _free_port() -> int:
    with socket.socket() as reservation:
        reservation.bind(("127.0.0.1", 0))
        port: int = reservation.getsockname()[1]
    return port


def _program(name: str) -> Path:
    found = _find(name)
    if found is None:
        _install(_DEBIAN[name])
        found = _find(name)
    if found is None:
        raise MissingServerError(f"no {name} found: install Debian's package {_DEBIAN[name]}")
    return found


def _find(name: str) -> Path | None:
    # Debian keeps PostgreSQL's own programs off PATH; initdb has to be beside it.
    packaged = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    on_path = shutil.which(name)
    return packaged[-1] if packaged else Path(on_path) if on_path else None


def _install(package: str) -> None:
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        raise MissingServerError(f"install Debian's package {package}, for instance by apt-get")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", package]):
        command = [apt, "--quiet", *arguments]
        subprocess.run(command, check=True, stdout=sys.stderr, env=environment)


def _unprivileged_user() -> pwd.struct_passwd | None:
    # PostgreSQL refuses to run as root; Debian's package makes this user.
    return pwd.getpwnam("postgres") if os.geteuid() == 0 else None


def _version(program: Path) -> str:
    shown = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
    number = re.search(r"\d+(\.\d+)+", shown.stdout)
    return number.group() if number else shown.stdout.strip()
