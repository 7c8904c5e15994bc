"""Telling over HTTP whether a worker is well: ``/live`` and ``/ready``; and asking for it.

A few lines of HTTP, so that a worker needs no web server: one request a connection, GET
alone, and nothing that a client sends is kept.
"""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Annotated, Final

import anyio
import typer
from anyio.abc import SocketListener, SocketStream

from gotasks_cli._output import note
from gotasks_cli._problems import ExitCode, Problem
from gotasks_cli._vitals import Vitals

logger = logging.getLogger("gotasks_cli.health")

_REQUEST_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.5
_MOST_BYTES: Final = 8192
_MOST_AT_ONCE: Final = 64
_MOST_PORT: Final = 65_535


def address_of(option: str, text: str) -> tuple[str, int]:
    """Read HOST:PORT; an IPv6 host stands in brackets.

    Raises:
        Problem: it is none.
    """
    host, _, port = text.rpartition(":")
    is_whole = (host.startswith("[") and host.endswith("]")) or ":" not in host
    number = int(port) if port.isascii() and port.isdecimal() and len(port) <= 5 else -1  # noqa: PLR2004  - digits of a port
    if not host or not is_whole or not 0 <= number <= _MOST_PORT:
        raise Problem(f"{option} must be HOST:PORT, such as 127.0.0.1:8081, not {text!r}")
    return host.strip("[]"), number


def bound(address: tuple[str, int]) -> socket.socket:
    """Take an address to listen at.

    Raises:
        Problem: it cannot be had.
    """
    host, port = address
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        msg = f"{host}:{port} cannot be had: {error.strerror}; choose another by --health"
        raise Problem(msg, ExitCode.UNUSABLE) from error
    listener.setblocking(False)
    return listener


async def serve(listener: socket.socket, look: Callable[[], Vitals]) -> None:
    """Answer requests until cancelled."""
    limiter = anyio.Semaphore(_MOST_AT_ONCE)

    async def answer(stream: SocketStream) -> None:
        # Whoever asked may have gone.
        with (
            suppress(OSError, anyio.BrokenResourceError, anyio.EndOfStream),
            anyio.move_on_after(_REQUEST_SECONDS),
        ):
            async with stream, limiter:
                await stream.send(_response(await _head(stream), look()))

    async with (
        await SocketListener.from_socket(listener) as listening,
        anyio.create_task_group() as group,
    ):
        while True:
            try:
                stream = await listening.accept()
            except OSError as error:  # no more files may be open, say: no reason to end a worker
                logger.warning("cannot answer a probe: %s", error)
                await anyio.sleep(_PAUSE_SECONDS)
            else:
                group.start_soon(answer, stream)


async def _head(stream: SocketStream) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head and len(head) < _MOST_BYTES:
        head += await stream.receive()
    return head


def _response(head: bytes, vitals: Vitals) -> bytes:
    method, _, rest = head.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    known = {b"/live": vitals.is_live, b"/ready": vitals.is_ready}
    body = b""
    if method not in {b"GET", b"HEAD"}:
        status = HTTPStatus.METHOD_NOT_ALLOWED
    elif path not in known:
        status = HTTPStatus.NOT_FOUND
    else:
        status = HTTPStatus.OK if known[path] else HTTPStatus.SERVICE_UNAVAILABLE
        body = json.dumps(asdict(vitals), ensure_ascii=False).encode()
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        *(["Allow: GET, HEAD"] if status is HTTPStatus.METHOD_NOT_ALLOWED else []),
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + (b"" if method == b"HEAD" else body)


def health(
    address: Annotated[
        str, typer.Argument(metavar="HOST:PORT", help="Where the worker was told to answer.")
    ],
    *,
    live: Annotated[
        bool, typer.Option("--live", help="Ask whether to leave it running, not if it is ready.")
    ] = False,
) -> ExitCode:
    """Ask a worker that was started with --health whether it is well, for containers.

    The exit code is 0 when it is, and 1 when it is not or does not answer.
    """
    host, port = address_of("HOST:PORT", address)
    connection = HTTPConnection(host, port, timeout=_REQUEST_SECONDS)
    try:
        connection.request("GET", "/live" if live else "/ready")
        response = connection.getresponse()
        vitals = json.loads(response.read())
        for reason in vitals["reasons"]:
            note(str(reason))
    except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
        note(f"{address} does not say how it is: {error}")
        return ExitCode.FAILED
    finally:
        connection.close()
    return ExitCode.OK if response.status == HTTPStatus.OK else ExitCode.FAILED
