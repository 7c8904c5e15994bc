"""Every Python snippet in the papers and docs runs.

Fences of a page run in order in one namespace, on one event loop, with ``await`` at the top
level. A fence with a title is a file: a program that must exit with 0, or a test for pytest.
``DOCUMENTED_URI`` stands for the reader's MongoDB; here it becomes the tests' own.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any
from uuid import uuid4

import pytest
from pymongo import MongoClient

pytestmark = pytest.mark.mongo

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
DOCUMENTED_URI = "mongodb://localhost:27017/?replicaSet=rs0"
FENCE = re.compile(
    r'^```python(?: title="(?P<title>[^"]+)")?\n(?P<code>.*?)^```$', re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Snippet:
    page: Path
    line: int
    title: str | None
    code: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def here(self, uri: str, database: str) -> str:
        """Tell the code with the tests' own MongoDB in place of the reader's."""
        return self.code.replace(DOCUMENTED_URI, uri).replace('"myapp"', f'"{database}"')

    def compiled(self, uri: str, database: str) -> CodeType:
        # As many lines as in the page, so that a traceback points into it.
        source = "\n" * self.line + self.here(uri, database)
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(source, str(self.page), "exec", flags, dont_inherit=True)
        assert isinstance(code, CodeType)
        return code


def snippets_of(page: Path) -> list[Snippet]:
    text = page.read_text()
    return [
        Snippet(page, text.count("\n", 0, match.start()) + 1, match["title"], match["code"])
        for match in FENCE.finditer(text)
    ]


SNIPPETS = [snippet for page in PAGES for snippet in snippets_of(page)]
PROGRAMS = [snippet for snippet in SNIPPETS if snippet.title]
RUNNING_PAGES = sorted({snippet.page for snippet in SNIPPETS if not snippet.title})


def test_all_python_is_found() -> None:
    fences = sum(page.read_text().count("```py") for page in PAGES)
    assert len(SNIPPETS) == fences
    assert len(SNIPPETS) >= 15


@pytest.fixture
def database(uri: str) -> Iterator[str]:
    """Name a database of the test's own, dropped at its end."""
    name = f"gotasks_docs_{uuid4().hex[:12]}"
    yield name
    client: MongoClient[dict[str, Any]] = MongoClient(uri)
    with client:
        client.drop_database(name)


@pytest.mark.parametrize("page", RUNNING_PAGES, ids=lambda page: page.name)
def test_the_snippets_of_a_page_run(page: Path, uri: str, database: str) -> None:
    # Annotations of functions are resolved in the module that they say they are from.
    namespace: dict[str, Any] = {"__name__": "__main__"}

    async def run() -> None:
        for snippet in snippets_of(page):
            if snippet.title is None:
                result = eval(snippet.compiled(uri, database), namespace)  # noqa: S307  - what our docs say
                if inspect.isawaitable(result):
                    await result

    asyncio.run(run())


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_program_runs(program: Snippet, uri: str, database: str, tmp_path: Path) -> None:
    assert program.title is not None
    path = tmp_path / program.title
    path.write_text(program.here(uri, database))
    command = [sys.executable, "-W", "error"]
    if program.title.startswith("test_"):
        command += ["-m", "pytest", "-p", "no:randomly", "--rootdir", str(tmp_path)]
    ended = subprocess.run(
        [*command, str(path)],
        cwd=tmp_path,
        env=os.environ | {"GOTASKS_MONGODB_URI": uri},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, f"{program}\n{ended.stdout}\n{ended.stderr}"
    assert ended.stdout
