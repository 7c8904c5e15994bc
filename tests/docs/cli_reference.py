"""Writes docs/cli.md from the commands themselves.

``python -m tests.docs.cli_reference`` after a change of the command line.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from typer.main import get_command

from gotasks_cli._app import app
from gotasks_cli._problems import MEANINGS

PAGE: Final = Path(__file__).parents[2] / "docs" / "cli.md"

_HEAD: Final = """\
# Command line

<!-- Written by tests/docs/cli_reference.py; a test compares the two. -->

`pip install 'gotasks-py[cli]'` brings `gotasks`.

```sh
gotasks worker shop.tasks:manager --processes 4     # run tasks
gotasks enqueue emails send '{"to": "ann@example.org"}' --app shop.tasks:manager
export GOTASKS_STORE='mongodb://localhost:27017/myapp?replicaSet=rs0'
gotasks queue list                                  # how is it going?
gotasks dead list                                   # what died, and of what
gotasks doctor                                      # what is wrong, and the remedy
```

Commands that work on tasks are told where these are in one of two ways. `--app module:name`, or
`GOTASKS_APP`, imports your manager, or calls a function, async or not, that makes it, and checks
payloads against its types; `module` alone is `module:manager`. `--store URL`, or
`GOTASKS_STORE`, needs none of your code: `mongodb://host/DATABASE?replicaSet=rs0&namespace=tasks`,
with whatever else MongoDB's own URIs take. Other packages can offer stores by entry points in the
group `gotasks.stores`: the scheme, and a function that makes a store of a URL. An option counts
before a variable; to give both an APP and a URL is refused. A store that has not answered after two
seconds is named on standard error, and given up after five: `gotasks --connect-timeout SECONDS
COMMAND`, or `GOTASKS_CONNECT_TIMEOUT`, says otherwise.

Commands that look write nothing: neither a collection nor an index is made, so a mistake in the
name of a database leaves no trace there, and a user with the role `read` may look.

Results go to standard output, as a table or, with `-o json`, for programs; everything else goes to
standard error. Times are then texts in UTC, spans are seconds, bytes are base64, and numbers that
JSON has no words for are the texts `"NaN"`, `"Infinity"` and `"-Infinity"`. JSON in arguments is
strict: it has no such numbers, nor any that is too large to keep, as `1e999`.

What cannot be undone is asked for first, unless `--yes` says so; without a terminal to ask on it is
refused. `gotasks --install-completion` teaches your shell the commands.

## Exit codes

When something is wrong, standard error has one line that says what, and the exit code is:

| code | meaning |
|---|---|
"""
_READERS: Final = """
The code is that of the work, whether its output is read to the end or not: where a reader has gone
(`gotasks task list | head -1`), the rest is dropped, and a command that did its work ends with 0.
Output that cannot be written, as on a full disk, is code 1.
"""


def page() -> str:
    """Make the page."""
    codes = "".join(f"| {int(code)} | {meaning} |\n" for code, meaning in MEANINGS.items())
    command: Any = get_command(app)
    context = command.make_context("gotasks", [], resilient_parsing=True)
    return _HEAD + codes + _READERS + "".join(_sections(command, context, "gotasks"))


def _sections(command: Any, context: Any, name: str) -> Iterator[str]:
    children = getattr(command, "commands", {})
    if not children:
        yield _section(command, context, name)
    for child_name, child in children.items():
        inner = child.make_context(child_name, [], parent=context, resilient_parsing=True)
        yield from _sections(child, inner, f"{name} {child_name}")


def _section(command: Any, context: Any, name: str) -> str:
    usage = " ".join(command.collect_usage_pieces(context))
    rows = [
        f"| `{_cell(record[0])}` | {_cell(record[1])} |\n"
        for parameter in command.get_params(context)
        if parameter.name != "help" and (record := parameter.get_help_record(context))
    ]
    return (
        f"\n## {name}\n\n{command.help}\n\n```\n{name} {usage}\n```\n\n"
        f"| option | meaning |\n|---|---|\n{''.join(rows)}"
    )


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
