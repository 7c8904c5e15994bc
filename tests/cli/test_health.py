"""``gotasks worker --health``: what probes are told, of one process and of several."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import time
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any

import anyio
import pytest
from anyio import to_thread

from gotasks_cli._health import address_of, bound, serve
from gotasks_cli._problems import Problem
from gotasks_cli._vitals import SILENCE_SECONDS, Board, Vitals, line_of
from tests.cli.conftest import APP, Terminal
from tests.cli.processes import PATIENCE, started

ADDRESS = r"http://127\.0\.0\.1:(\d+)/live"


@dataclass
class Staff:
    """Processes that there are to be."""

    pids: dict[int, int | None] = field(default_factory=dict[int, int | None])
    is_stopping: bool = False


def ask(port: int, path: str, method: str = "GET") -> tuple[int, Any]:
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request(method, path)
        response = connection.getresponse()
        body = response.read()
        return response.status, json.loads(body) if body else None


def until(port: int, path: str, status: int) -> Any:
    """Ask until the answer is this one; tell what it says."""
    ends = time.monotonic() + PATIENCE
    while (answer := ask(port, path))[0] != status:
        assert time.monotonic() < ends, answer
        time.sleep(0.05)
    return answer[1]


def test_what_processes_say_comes_to_one_answer() -> None:
    now = 100.0
    staff = Staff({1: 11, 2: 12})
    board = Board(staff, now=lambda: now)
    assert board.look() == Vitals(
        is_live=True,
        is_ready=False,
        reasons=["worker 1: process 11 is starting", "worker 2: process 12 is starting"],
    )
    well = line_of(11, Vitals(is_live=True, is_ready=True))
    unready = line_of(12, Vitals(is_live=True, is_ready=False, reasons=["claims fail"]))
    said = well + unready
    for piece in (said[:7], said[7:50], said[50:]):  # as pipes may tear it apart
        board.hear(piece)
    assert board.look() == Vitals(is_live=True, is_ready=False, reasons=["worker 2: claims fail"])
    board.hear(line_of(12, Vitals(is_live=True, is_ready=True)))
    assert board.look() == Vitals(is_live=True, is_ready=True, reasons=[])

    staff.pids[2] = None
    assert board.look().reasons == ["worker 2: it ended, and starts again"]
    assert board.look().is_live
    staff.pids[2] = 13  # of whom nothing was heard, whatever the one before had said
    assert board.look().reasons == ["worker 2: process 13 is starting"]
    board.hear(line_of(13, Vitals(is_live=False, is_ready=False, reasons=["leases lapse"])))
    assert board.look() == Vitals(is_live=False, is_ready=False, reasons=["worker 2: leases lapse"])

    now += SILENCE_SECONDS + 1
    board.hear(line_of(13, Vitals(is_live=True, is_ready=True)))
    assert board.look() == Vitals(
        is_live=False, is_ready=False, reasons=["worker 1: process 11 has said nothing for 11 s"]
    )
    board.hear(well)
    staff.is_stopping = True
    assert board.look() == Vitals(
        is_live=True, is_ready=False, reasons=["the supervisor was told to stop"]
    )


def test_where_there_is_no_process_yet_nothing_is_ready() -> None:
    vitals = Board(Staff(), now=lambda: 0.0).look()
    assert (vitals.is_live, vitals.is_ready) == (True, False)


def test_what_a_process_says_fits_into_one_write() -> None:
    reasons = ['"\\' * 10_000, "\0\n" * 10_000, "\N{CJK UNIFIED IDEOGRAPH-4E00}" * 10_000] * 9
    line = line_of(2**22, Vitals(is_live=False, is_ready=False, reasons=reasons))
    assert len(line) < 4096
    assert line.count(b"\n") == 1
    board = Board(Staff({1: 2**22}), now=lambda: 0.0)
    board.hear(line)
    assert not board.look().is_live


@pytest.mark.anyio
async def test_probes_are_answered() -> None:
    vitals = [Vitals(is_live=True, is_ready=False, reasons=["claims fail"])]
    listener = bound(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    async def asked(*words: str) -> tuple[int, Any]:
        return await to_thread.run_sync(lambda: ask(port, *words))

    async def raw(said: bytes) -> bytes:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(said)
            await stream.send_eof()
            answer = b""
            try:
                while True:
                    answer += await stream.receive()
            except anyio.EndOfStream:
                return answer

    async with anyio.create_task_group() as group:
        group.start_soon(serve, listener, lambda: vitals[0])
        told = {"is_live": True, "is_ready": False, "reasons": ["claims fail"]}
        assert await asked("/live") == (200, told)
        assert await asked("/ready") == (503, told)
        assert await asked("/ready?verbose") == (503, told)
        assert await asked("/live", "HEAD") == (200, None)
        assert await asked("/") == (404, None)
        assert await asked("/live", "POST") == (405, None)
        assert (await raw(b"\0\r\n\r\n")).startswith(b"HTTP/1.1 405 ")
        assert (await raw(b"GET /live " + b"x" * 10_000)).startswith(b"HTTP/1.1 200 ")
        assert await raw(b"GET /live HT") == b""  # and went away
        vitals[0] = Vitals(is_live=False, is_ready=False)
        assert (await asked("/live"))[0] == 503
        group.cancel_scope.cancel()


@pytest.mark.anyio
async def test_a_connection_that_cannot_be_had_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    listener = bound(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    accept = socket.socket.accept
    left = [OSError(errno.EMFILE, "Too many open files")]

    def accept_in_the_end(self: socket.socket) -> Any:
        if left:
            raise left.pop()
        return accept(self)

    monkeypatch.setattr(socket.socket, "accept", accept_in_the_end)
    async with anyio.create_task_group() as group:
        group.start_soon(serve, listener, lambda: Vitals(is_live=True, is_ready=True))
        assert (await to_thread.run_sync(lambda: ask(port, "/live")))[0] == 200
        group.cancel_scope.cancel()
    assert "cannot answer a probe: [Errno 24] Too many open files" in caplog.text


@pytest.mark.parametrize(
    "text", ["", "8081", "host", "host:", ":8081", "host:x", "host:65536", "::1:80", "h:²"]
)
def test_an_address_that_is_none_is_refused(gotasks: Terminal, text: str) -> None:
    with pytest.raises(Problem) as refused:
        address_of("--health", text)
    assert "--health must be HOST:PORT" in str(refused.value)
    ended = gotasks("worker", APP, f"--health={text}")
    assert (ended.code, "HOST:PORT" in ended.err) == (2, True)


def test_an_address_is_read() -> None:
    assert address_of("--health", "0.0.0.0:80") == ("0.0.0.0", 80)  # noqa: S104  - never bound
    assert address_of("--health", "[::1]:0") == ("::1", 0)


def test_a_port_that_is_taken_is_told_before_anything_starts(gotasks: Terminal) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = gotasks("worker", APP, "--health", f"127.0.0.1:{port}")
    assert ended.code == 3
    assert f"127.0.0.1:{port} cannot be had" in ended.err


def test_one_process_tells_how_it_is(gotasks: Terminal) -> None:
    with started("worker", APP, "--health", "127.0.0.1:0") as worker:
        port = int(worker.hear(ADDRESS)[0])
        assert until(port, "/ready", 200) == {"is_live": True, "is_ready": True, "reasons": []}
        assert ask(port, "/live")[0] == 200
        for options in ((), ("--live",)):
            assert gotasks("health", f"127.0.0.1:{port}", *options).code == 0
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0
    ended = gotasks("health", f"127.0.0.1:{port}")
    assert ended.code == 1
    assert f"127.0.0.1:{port} does not say how it is" in ended.err
    assert gotasks("health", "nowhere").code == 2


def test_a_supervisor_tells_how_all_its_processes_are(gotasks: Terminal) -> None:
    with started("worker", APP, "--processes", "2", "--health", "127.0.0.1:0") as worker:
        port = int(worker.hear(ADDRESS)[0])
        until(port, "/ready", 200)
        _, second = worker.hear(r"worker \d is process (\d+)", 2)
        os.kill(int(second), signal.SIGKILL)
        said = until(port, "/ready", 503)
        assert said["is_live"]
        assert len(said["reasons"]) == 1
        ended = gotasks("health", f"127.0.0.1:{port}")
        assert ended.code in {0, 1}
        until(port, "/ready", 200)
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0
