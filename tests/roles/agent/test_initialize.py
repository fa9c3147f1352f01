"""Each method that a client handles adds the capability that gates it, and no other."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import Agent, Turn
from dragoman.schema.fs import DirectoryEntry, ListDirectoryResult
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side
from dragoman.testing import connect_in_memory, memory_pair
from tests.roles.raw_client import Raw
from tests.roles.translated_pair import CWD, run

GATED = sorted(name for (side, name), row in METHODS.items() if side is Side.CLIENT and row.gate.startswith("client."))
PARTS = {"terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release", "fs/unwatch"}
PARTS |= {"elicitation/complete"}


def offered_capabilities(on: dict[str, Any], dialect: str = "v1") -> set[str]:
    """Return the gates that are open for an agent."""
    agent = Agent("looking")
    seen: set[str] = set()

    @agent.prompt
    async def look(turn: Turn) -> None:
        rows = [row for (side, _), row in METHODS.items() if side is Side.CLIENT and row.gate.startswith("client.")]
        seen.update(row.gate for row in rows if turn.session.connection.offers(row.gate))

    async def main() -> None:
        async with connect_in_memory(agent, dialect=dialect, on=on) as remote:
            await (await remote.open_session(CWD)).ask("look")

    run(main())
    return seen


@pytest.mark.parametrize("method", [name for name in GATED if name not in PARTS])
def test_a_method_that_is_served_is_advertised(method: str) -> None:
    gate = METHODS[Side.CLIENT, method].gate
    assert gate in offered_capabilities({method: lambda _: None})
    assert gate not in offered_capabilities({})


@pytest.mark.parametrize("method", sorted(PARTS))
def test_a_method_that_only_works_with_another_adds_no_capability(method: str) -> None:
    assert offered_capabilities({method: lambda _: None}) == set()


@pytest.mark.parametrize("dialect", ["v1", "draft"])
async def test_an_agent_lists_a_directory_through_a_custom_handler(dialect: str) -> None:
    agent = Agent("lister")

    @agent.prompt
    async def look(turn: Turn) -> None:
        found = await turn.files.list(turn.session.cwd)
        await turn.say(", ".join(entry.name for entry in found.entries))

    listing = ListDirectoryResult(entries=[DirectoryEntry(name="virtual.txt", type="file")])
    async with connect_in_memory(agent, dialect=dialect, on={"fs/list_directory": lambda _: listing}) as remote:
        assert await (await remote.open_session(CWD)).ask("look") == "virtual.txt"


@pytest.mark.parametrize("members", [{"clientCapabilities": {}}, {"info": {"name": "c", "version": "1"}}])
@pytest.mark.parametrize("version", [-1, 65_536])
async def test_a_number_that_is_no_version_is_refused_and_the_next_initialize_is_answered(
    version: int, members: Any
) -> None:
    ours, theirs = memory_pair()
    connection = Agent("versioned").start_connection(theirs)
    client = Raw(ours)
    try:
        error = await client.error("initialize", {"protocolVersion": version, **members})
        answer = await client.result("initialize", {"protocolVersion": 65_535, "clientCapabilities": {}})
    finally:
        await connection.close()
    assert error["code"] == -32602
    assert error["message"] == f"protocolVersion must be from 0 to 65535, not {version}"
    assert answer["protocolVersion"] == 1
