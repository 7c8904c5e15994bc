"""A MongoDB store in one line."""

from __future__ import annotations

import pytest

from gotasks_mongostore._urls import parts_of
from gotasks_py import ConfigurationError


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("mongodb://h/db", ("mongodb://h/db", "db", None)),
        ("mongodb://h/db?namespace=jobs", ("mongodb://h/db", "db", "jobs")),
        (
            "mongodb://u:p%2F@a:1,[::1]:2/my%20db?replicaSet=rs0&namespace=a%2Fb&tls=true",
            ("mongodb://u:p%2F@a:1,[::1]:2/my%20db?replicaSet=rs0&tls=true", "my db", "a/b"),
        ),
        ("mongodb+srv://h/db?w=1", ("mongodb+srv://h/db?w=1", "db", None)),
        ("mongodb://h/db?namespace=", ("mongodb://h/db", "db", "")),
    ],
)
def test_the_drivers_part_is_left_as_it_is(url: str, parts: tuple[str, str, str | None]) -> None:
    assert parts_of(url) == parts


@pytest.mark.parametrize("url", ["mongodb://h", "mongodb://h/", "mongodb://h/?replicaSet=rs0"])
def test_a_url_without_a_database_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="names no database"):
        parts_of(url)
