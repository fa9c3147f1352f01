"""docs/protocol/draft.md#glossary: its terms are in our glossary and in the names of the code."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ARCHITECTURE = Path(__file__).parents[2] / "ARCHITECTURE.md"

# The appendix's words, and where the code has a thing of that name.
WORDS = {
    "agent": "dragoman.Agent",
    "client": "dragoman.roles.client.remote_agent",
    "session": "dragoman.roles.agent.session.Session",
    "tool call": "dragoman.session.toolcall.ToolCall",
    "mcp": "dragoman.schema.mcp",
    "capability": "dragoman.engine.peer_info",
    "mode": "dragoman.schema.config.SessionMode",
}


@pytest.mark.item("004-81")
@pytest.mark.parametrize("word", WORDS)
def test_each_term_of_the_appendix_is_in_our_glossary_and_names_its_code(word: str) -> None:
    glossary = ARCHITECTURE.read_text().partition("## Glossary")[2].lower()
    assert re.search(rf"\b{word}\b", glossary), f"the glossary does not have {word!r}"
    module, _, name = WORDS[word].rpartition(".")
    try:
        importlib.import_module(WORDS[word])
    except ModuleNotFoundError:
        assert hasattr(importlib.import_module(module), name)
