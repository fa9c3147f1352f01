"""`dragoman translate` as an editor starts it: what outlives its process, and what it says on stderr."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.acceptance.wire import Child, Json

AGENT = """\
import asyncio, sys
from dragoman import Agent
from dragoman.store.sqlite import SqliteStore

agent = Agent("keeper", store=SqliteStore(sys.argv[1]))

@agent.prompt
async def answer(turn):
    await turn.say("noted: " + turn.text)

agent.run()
"""


def hello(cwd: Path) -> dict[str, Json]:
    """Return the initialize of a 2025.1 editor in a folder."""
    return {"protocol_version": "2025.1", "capabilities": {}, "working_directory": str(cwd), "mcp_servers": []}


async def test_a_client_finds_a_session_by_the_id_it_chose_in_a_later_process(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    words = ("translate", "--", sys.executable, str(tmp_path / "agent.py"), str(tmp_path / "kept.db"))
    async with Child(*words) as first:
        await first.request(1, "initialize", hello(tmp_path / "a"))
        await first.request(2, "session/new", {"session_id": "mine"})
        await first.request(3, "session/prompt", {"session_id": "mine", "content": [{"type": "text", "text": "one"}]})
    async with Child(*words) as second:
        await second.request(1, "initialize", hello(tmp_path / "a"))
        loaded = await second.request(2, "session/load", {"session_id": "mine"})
        assert "result" in loaded, loaded
        updates = [each["params"] for each in second.received if each.get("method") == "session/update"]
        assert {each["session_id"] for each in updates} == {"mine"}
        assert "noted: one" in [each["data"].get("text") for each in updates]
        await second.request(3, "session/prompt", {"session_id": "mine", "content": [{"type": "text", "text": "two"}]})
        assert second.received[-2]["params"]["data"] == {"text": "noted: two"}
    async with Child(*words) as elsewhere:  # the same id in another folder is another session
        await elsewhere.request(1, "initialize", hello(tmp_path / "b"))
        assert "error" in await elsewhere.request(2, "session/load", {"session_id": "mine"})
