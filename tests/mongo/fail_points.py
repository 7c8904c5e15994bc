"""Servers that fail some commands, of one application's clients only."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure


@contextmanager
def failing_commands(
    client: MongoClient[dict[str, Any]], app: str, *commands: str, times: int = 1, **how: Any
) -> Generator[None]:
    """Make a server fail the next commands of these names, of this ``app`` and nobody else."""
    data = {"failCommands": list(commands), "appName": app, **how}
    mode = {"times": times}
    try:
        client.admin.command("configureFailPoint", "failCommand", mode=mode, data=data)
    except OperationFailure:
        pytest.skip("the server allows no fail points")
    try:
        yield
    finally:
        client.admin.command("configureFailPoint", "failCommand", mode="off")
