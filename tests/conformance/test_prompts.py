"""What an agent is prompted with: our own words, plain words, or those of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.conformance.prompts import EVERYTHING, PLAIN, read
from dragoman.errors import ConfigFault


def test_plain_words_are_for_purposes_our_agent_has_too() -> None:
    assert PLAIN.keys() <= EVERYTHING.keys()


def test_a_script_replaces_some_words_and_leaves_the_others(tmp_path: Path) -> None:
    file = tmp_path / "words.toml"
    file.write_text('[prompts]\nread = "Look at {file}"\n')
    words = read(str(file))
    assert words["read"] == "Look at {file}"
    assert words["write"] == PLAIN["write"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("prompts = 5", "a script has a table"),
        ("[prompts]\nraed = 'x'", r"prompts\.raed: one of plain"),
        ("[prompts]\nread = 5", r"prompts\.read: not a text"),
        ("[prompts", "Expected"),
    ],
)
def test_a_script_that_cannot_be_used_says_where(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "words.toml"
    file.write_text(text)
    with pytest.raises(ConfigFault, match=says):
        read(str(file))
