"""The environment of an agent that `connect` starts."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest

from dragoman import connect

# Answers initialize with the names of the variables it sees as its own name.
TELLER = """
import json, os, sys
asked = json.loads(sys.stdin.readline())
seen = " ".join(sorted(name for name in os.environ if name.startswith("SEEN_")))
said = {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": seen, "version": "1"}}
print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": said}), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("inherited", "seen"),
    [(True, "SEEN_A SEEN_B SEEN_C"), (["SEEN_A", "SEEN_NOWHERE"], "SEEN_A SEEN_C"), (False, "SEEN_C")],
)
@pytest.mark.item("000-21")
async def test_an_agent_inherits_everything_what_is_listed_or_nothing(
    inherited: bool | Sequence[str], seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEEN_A", "1")
    monkeypatch.setenv("SEEN_B", "1")

    async with connect([sys.executable, "-c", TELLER], inherit_env=inherited, env={"SEEN_C": "1"}) as agent:
        assert agent.info is not None
        assert agent.info.name == seen
