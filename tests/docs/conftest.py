"""One throw-away MongoDB for all examples and snippets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gotasks_mongostore.local import mongodb_uri


@pytest.fixture(scope="session")
def uri() -> Iterator[str]:
    with mongodb_uri() as uri:
        yield uri
