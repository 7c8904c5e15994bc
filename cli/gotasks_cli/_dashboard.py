"""``gotasks dashboard``: the dashboard on this machine, for whoever sits at it."""

from __future__ import annotations

import socket
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Final

import anyio
import typer

from gotasks_cli._options import AppOption, StoreOption
from gotasks_cli._output import note
from gotasks_cli._problems import ExitCode, Problem
from gotasks_cli._session import Target, with_manager
from gotasks_py import Manager
from gotasks_py.signals import stop_signals

if TYPE_CHECKING:
    from uvicorn import Server

_HOST: Final = "127.0.0.1"
_GRACE_SECONDS: Final = 1


def dashboard(
    *,
    app: AppOption = None,
    store: StoreOption = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8080,
    actions: Annotated[
        bool,
        typer.Option("--actions", help="Let everybody on this machine change things, too."),
    ] = False,
) -> None:
    """Look at queues and tasks in a browser on this machine.

    It answers this machine alone. For others, mount it in an application that knows who they
    are: see docs/dashboard.md. With an APP, tasks can be enqueued by forms.
    """
    _check_installed()

    async def serve(manager: Manager) -> None:
        with _listening(port) as listener:
            await _serve(manager, listener, actions=actions)

    with_manager(Target(app, store), serve)


def _check_installed() -> None:
    try:
        for name in ("starlette", "uvicorn"):
            import_module(name)
    except ModuleNotFoundError as error:
        msg = f"{error.name} is missing: pip install 'gotasks-py[dashboard]'"
        raise Problem(msg, ExitCode.UNUSABLE) from error


@contextmanager
def _listening(port: int) -> Generator[socket.socket]:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_HOST, port))
        except OSError as error:
            msg = f"port {port} cannot be had: {error.strerror}; choose another by --port"
            raise Problem(msg, ExitCode.UNUSABLE) from error
        yield listener


async def _serve(manager: Manager, listener: socket.socket, *, actions: bool) -> None:
    import uvicorn  # noqa: PLC0415  - the extra may not be installed

    from gotasks_dashboard import Permission, local_only  # noqa: PLC0415  - as above
    from gotasks_dashboard import dashboard as dashboard_of  # noqa: PLC0415  - as above

    class Quiet(uvicorn.Server):
        """Leaves signals to this command."""

        @contextmanager
        def capture_signals(self) -> Generator[None]:
            yield

    authorize = local_only(*Permission) if actions else None
    config = uvicorn.Config(
        dashboard_of(manager, authorize=authorize),
        lifespan="off",
        log_level="warning",
        # Streams of changes have no end of their own.
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    server = Quiet(config)
    async with anyio.create_task_group() as group:
        group.start_soon(_stop_on_signals, server)
        note(f"http://{_HOST}:{listener.getsockname()[1]}/ shows it, until Ctrl-C")
        await server.serve(sockets=[listener])
        group.cancel_scope.cancel()


async def _stop_on_signals(server: Server) -> None:
    with anyio.open_signal_receiver(*stop_signals()) as received:
        async for _ in received:
            server.should_exit = True
