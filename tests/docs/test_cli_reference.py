"""The reference of the command line is what the commands say of themselves."""

from __future__ import annotations

from tests.docs import cli_reference


def test_the_reference_is_current() -> None:
    assert cli_reference.page() == cli_reference.PAGE.read_text()


def test_every_option_is_explained() -> None:
    rows = [line for line in cli_reference.page().splitlines() if line.startswith("| `")]
    assert len(rows) > 50
    assert not [row for row in rows if row.endswith("|  |")]
