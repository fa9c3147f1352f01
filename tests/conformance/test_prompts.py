"""The prompts for an agent: slash commands, default prompts, or those of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.conformance.prompts import EVERYTHING, PLAIN, read_script
from dragoman.errors import ConfigFault


def test_default_prompts_are_for_purposes_of_our_agent() -> None:
    assert PLAIN.keys() <= EVERYTHING.keys()


def test_a_script_replaces_some_prompts_and_keeps_the_others(tmp_path: Path) -> None:
    file = tmp_path / "words.toml"
    file.write_text('[prompts]\nread = "Look at {file}"\n')
    words = read_script(str(file))
    assert words["read"] == "Look at {file}"
    assert words["write"] == PLAIN["write"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("prompts = 5", "a script has a table"),
        ("[prompts]\nraed = 'x'", r"prompts\.raed: one of plain"),
        ("[prompts]\nread = 5", r"prompts\.read: not a string"),
        ("[prompts", "Expected"),
    ],
)
def test_a_wrong_script_is_reported_with_its_position(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "words.toml"
    file.write_text(text)
    with pytest.raises(ConfigFault, match=says):
        read_script(str(file))
