"""What a shell is told when somebody presses the tab key."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Terminal


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("gotasks ta", {"task"}),
        ("gotasks task e", {"explain"}),
        ("gotasks queue pa", {"pause"}),
        ("gotasks task list --fin", {"--fingerprint"}),
        ("gotasks task list --status de", {"dead"}),
        ("gotasks task nowhe", set[str]()),
    ],
)
def test_the_shell_is_told_what_may_come_next(
    gotasks: Terminal, typed: str, offered: set[str]
) -> None:
    words = {
        "_GOTASKS_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(typed.count(" ")),
    }
    ended = gotasks(env=dict(words))
    assert (ended.code, ended.err) == (0, "")
    assert set(ended.out.split()) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_can_be_taught_to_a_shell(gotasks: Terminal, shell: str) -> None:
    ended = gotasks(env={"_GOTASKS_COMPLETE": f"source_{shell}"})
    assert ended.code == 0
    assert f"_GOTASKS_COMPLETE=complete_{shell}" in ended.out
