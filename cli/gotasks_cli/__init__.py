"""The command line ``gotasks``; it needs what the extra ``cli`` installs."""

from __future__ import annotations

import sys

__all__ = ["main"]

_WITHOUT_EXTRA = 3


def main() -> None:
    """Run the command line."""
    try:
        from gotasks_cli._app import app  # noqa: PLC0415  - the extra may not be installed
    except ModuleNotFoundError as error:
        if error.name not in {"rich", "typer", "watchfiles"}:
            raise
        sys.stderr.write(f"gotasks: {error.name} is missing: pip install 'gotasks-py[cli]'\n")
        sys.exit(_WITHOUT_EXTRA)
    app(prog_name="gotasks")
