"""The prompts for an agent: slash commands, default prompts, or those of a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.harness.peer import PROCESS
from dragoman.conformance.harness.settings import AgentSettings
from dragoman.conformance.prompts import EVERYTHING, PLAIN, fill_prompt, read_script
from dragoman.conformance.verdict import Inconclusive
from dragoman.errors import ConfigFault

ROOT = Path(__file__).parents[2]


def test_default_prompts_are_for_purposes_of_our_agent() -> None:
    assert PLAIN.keys() <= EVERYTHING.keys()


def test_the_documentation_names_every_purpose() -> None:
    page = (ROOT / "docs" / "check.md").read_text(encoding="utf-8")
    chapter = page.partition("## Agents with a model")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", chapter)) | set(re.findall(r"^(\w+) +=", chapter, re.MULTILINE))
    assert EVERYTHING.keys() <= named


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


def test_braces_in_a_prompt_are_text_unless_they_name_a_path() -> None:
    prompt = 'Write {"a": {}} and {other} to {new} in {dir}, like {file}; f"{x!r}" {'
    filled = fill_prompt(prompt, file="/w/f", new="/w/n", dir="/w")
    assert filled == 'Write {"a": {}} and {other} to /w/n in /w, like /w/f; f"{x!r}" {'


def agent_with_script(folder: Path, **prompts: str) -> AgentUnderTest:
    """Return an agent under test that nothing is sent to."""
    channel: Any = None
    settings = AgentSettings(script={**PLAIN, **prompts})
    return AgentUnderTest(channel, "v1", PROCESS, workspace=str(folder), settings=settings)


def test_an_agent_is_prompted_with_the_braces_of_its_script(tmp_path: Path) -> None:
    agent = agent_with_script(tmp_path, read='Read {file} as {"json": {}}')
    assert agent.prompt_for("read") == f'Read {tmp_path}/notes.txt as {{"json": {{}}}}'


def test_what_an_agent_did_not_do_names_the_prompt_to_add(tmp_path: Path) -> None:
    agent = agent_with_script(tmp_path)
    with pytest.raises(Inconclusive, match=r"^the agent is slow$"):
        agent.assume(None, "the agent is slow")
    agent.prompt_for("read")
    with pytest.raises(Inconclusive, match=r"^no tool call came; add a prompt for 'read' with --script$"):
        agent.assume(None, "no tool call came")
    with pytest.raises(
        Inconclusive, match=r"^no prompt makes this agent do it; add a prompt for 'form' with --script$"
    ):
        agent.prompt_for("form")
