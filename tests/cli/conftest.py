"""The command line as users see it, in this process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from typer.testing import CliRunner

from gotasks_cli._app import app
from tests.cli import shop

APP = "tests.cli.shop:manager"


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Terminal:
    """Runs commands, by default on the shop."""

    def __init__(self) -> None:
        self._runner = CliRunner(env={"GOTASKS_APP": APP, "GOTASKS_STORE": None})

    def __call__(
        self, *arguments: str, stdin: str = "", env: dict[str, str | None] | None = None
    ) -> Ended:
        ended = self._runner.invoke(app, arguments, input=stdin, env=env, prog_name="gotasks")
        return Ended(ended.exit_code, ended.stdout, ended.stderr)

    def enqueue(self, queue: str, type: str, payload: object, *more: str) -> str:
        """Enqueue, and tell the id."""
        ended = self("enqueue", queue, type, json.dumps(payload), "-o", "json", *more)
        assert ended.code == 0, ended.err
        return str(ended.json["id"])


@pytest.fixture
def gotasks(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setattr(shop, "manager", shop.make())
    return Terminal()
