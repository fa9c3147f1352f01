"""Detection of a peer's dialect (docs/protocol/dialect-matrix.md#detection): clients by their first message, agents by
how they answer ours.

Clients are tried on an Agent of ours, with raw frames. Agents are real processes that understand one dialect only;
what each of them received is read from its own log.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent
from dragoman.dialect import detect
from dragoman.roles.client import dial
from dragoman.roles.proxy import proxy
from dragoman.roles.proxy.proxy import translate
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair
from tests.pairs.peers import HandClient
from tests.pairs.words import WORDS, Json

BOUND = 40.0
STUBBORN = str(Path(__file__).parent / "agents" / "stubborn.py")
INFO = {"name": "hand", "version": "1"}

VERSION = {"protocolVersion", "protocol_version", "working_directory"}

# --- clients --------------------------------------------------------------------------------------------------

OPENINGS: list[tuple[str, str, Json]] = [
    ("v1", "initialize", {"protocolVersion": 1, "clientCapabilities": {}}),
    ("v1", "initialize", {"protocolVersion": 1, "clientCapabilities": {}, "capabilities": {"fs": {"read": True}}}),
    ("v1", "initialize", {"protocolVersion": 1}),
    ("v1", "initialize", {"protocolVersion": "1"}),
    ("v1", "initialize", {"protocolVersion": "2024-11-05", "clientCapabilities": {}}),
    ("v1", "initialize", {"protocolVersion": "2024-11-05"}),
    ("v1", "initialize", {}),
    ("draft", "initialize", {"protocolVersion": 1, "clientInfo": INFO, "capabilities": {"fs": {"read": True}}}),
    ("draft", "initialize", {"protocolVersion": 1, "capabilities": {}}),
    ("2025.1", "initialize", {"protocol_version": "2025.1", "client_info": INFO, "capabilities": {}}),
    ("2025.1", "initialize", {"protocol_version": "2025.1"}),
    ("2025.1", "initialize", {"client_info": INFO, "capabilities": {}, "working_directory": "/", "mcp_servers": []}),
    ("2025.1", "initialize", {"protocol_version": 2025, "working_directory": "/"}),
    ("crow", "initialize", {"protocol_version": 1, "client_capabilities": {}}),
    ("crow", "initialize", {"protocol_version": 1}),
    ("crow", "initialize", {"client_capabilities": {}}),
    # Not initialize: the spelling of the message tells (docs/protocol/dialect-matrix.md#by-other-messages).
    ("v1", "session/new", {"cwd": "/", "mcpServers": []}),
    ("draft", "session/new", {"workingDirectory": "/"}),
    ("2025.1", "session/new", {"session_id": "a", "mode": "ask"}),
    ("v1", "session/prompt", {"sessionId": "a", "prompt": []}),
    ("crow", "session/prompt", {"session_id": "a", "prompt": []}),
    ("2025.1", "session/prompt", {"session_id": "a", "content": []}),
    ("draft", "session/prompt", {"sessionId": "a", "content": []}),
    ("crow", "session/load", {"session_id": "a", "cwd": "/"}),
    ("2025.1", "authenticate", {"type": "token", "token": "t"}),
    ("draft", "authenticate", {"method": "api_key", "credentials": {}}),
    ("crow", "cancel", {"session_id": "a"}),
]


@pytest.mark.parametrize(("name", "method", "params"), OPENINGS)
def test_the_dialect_of_a_client_is_detected_by_its_first_message(name: str, method: str, params: Json) -> None:
    assert detect.dialect_of_client(method, params) == name


def introductions(words: str) -> set[str]:
    """Members of an answer to initialize that tell whose it is."""
    return {"agentCapabilities", "agent_capabilities", "agent_info", "capabilities"} & set(WORDS[words].introduction)


@pytest.mark.parametrize(
    ("name", "method", "params"), [row for row in OPENINGS if row[1] == "initialize" and VERSION & set(row[2])]
)
async def test_an_agent_answers_in_the_dialect_of_the_request(name: str, method: str, params: Json) -> None:
    async with client_of(Agent("any", version="1")) as peer:
        answer = await peer.request(1, method, params)
        assert introductions(name) <= set(answer["result"])


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("session/new", {"cwd": "/", "mcpServers": []}, -32600),
        ("session/new", {"workingDirectory": "/"}, -32006),
        ("session/new", {"session_id": "a"}, -32003),
        ("session/prompt", {"session_id": "a", "prompt": []}, -32600),
        ("session/prompt", {"session_id": "a", "content": []}, -32003),
    ],
)
async def test_a_client_without_initialize_gets_the_error_code_of_its_dialect(
    method: str, params: Json, code: int
) -> None:
    async with client_of(Agent("any", version="1")) as peer:
        error = (await peer.request(1, method, params))["error"]
        assert (error["code"], error["data"]["kind"]) == (code, "invalid_state")


@pytest.mark.parametrize("name", ["v1", "2025.1", "crow", "draft"])
async def test_invalid_lines_before_initialize_do_not_prevent_detection(name: str) -> None:
    async with client_of(Agent("any", version="1")) as peer:
        peer.send(b"Starting up ...")
        peer.send(b'{"half": ')
        peer.send(b"[]")
        answer = await peer.request(1, "initialize", WORDS[name].initialize(True, True, "/"))
        assert introductions(name) <= set(answer["result"])
        assert [received["error"]["code"] for received in peer.received[:-1]] == [-32700, -32700, -32600]


@asynccontextmanager
async def client_of(agent: Agent) -> AsyncIterator[ScriptedPeer]:
    ours, theirs = memory_pair()
    connection = agent.start_connection(theirs, report=lambda _: None)
    try:
        async with asyncio.timeout(BOUND):
            yield ScriptedPeer(ours)
    finally:
        await connection.close()


# --- agents ---------------------------------------------------------------------------------------------------

ANSWERS: list[tuple[str, Json]] = [
    *((name if name != "banjo" else "v1", words.introduction) for name, words in WORDS.items()),
    ("v1", {"protocolVersion": 1}),
    ("v1", {}),
    ("2025.1", {"agent_info": INFO, "capabilities": {}}),
    ("crow", {"protocol_version": 1, "agent_info": INFO}),
]


@pytest.mark.parametrize(("name", "answer"), ANSWERS)
def test_the_dialect_of_an_agent_is_detected_by_its_answer(name: str, answer: Json) -> None:
    assert detect.dialect_of_agent(answer) == name


class Interpreted:
    """A client, the interpreter, and the log of the processes behind it."""

    def __init__(self, client: HandClient, log: Path, reports: list[str]) -> None:
        self.client = client
        self.reports = reports
        self._log = log

    @property
    def processes(self) -> list[list[Any]]:
        """What each process received, in the order in which they were started; its folder first."""
        found: list[list[Any]] = []
        for line in self._log.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if "started" in entry:
                found.append([])
            found[-1].append(entry)
        return found

    def openings(self) -> list[Json]:
        """The initialize that each process got."""
        return [process[1]["params"] for process in self.processes]


@asynccontextmanager
async def interpreted(
    client: str, agent: str, manner: str, folder: Path, probe: str = "ladder", script: str = STUBBORN
) -> AsyncIterator[Interpreted]:
    ours, theirs = memory_pair()
    log = folder / "log"
    reports: list[str] = []
    command = [sys.executable, script, agent, manner, str(log)]
    async with asyncio.timeout(BOUND):
        running = asyncio.create_task(translate(command, detection=probe, report=reports.append, transport=theirs))
        try:
            yield Interpreted(HandClient(ours, WORDS[client]), log, reports)
        finally:
            await ours.close()
            await running


def offered(words: str, params: Json) -> tuple[bool, bool]:
    return WORDS[words].offers(params)


LADDER = ["v1", "draft", "crow", "2025.1"]


@pytest.mark.parametrize("agent", LADDER)
async def test_after_a_refusal_the_next_dialect_is_tried_with_a_new_process(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async with interpreted("v1", agent, "refuse", tmp_path) as met:
        await met.client.open(files=True, terminals=False, cwd=str(tmp_path))
        await met.client.prompt("hi")
        assert len(met.client.events) == 1
        *tried, last = met.openings()
        assert len(tried) == LADDER.index(agent)
        assert offered(agent, last) == (True, False)
        assert met.reports.count(f"client speaks v1, agent speaks {agent}") == 1


@pytest.mark.parametrize("agent", LADDER)
async def test_an_agent_that_answers_in_another_dialect_is_restarted_with_our_capabilities(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async with interpreted("v1", agent, "answer", tmp_path) as met:
        await met.client.open(files=False, terminals=True, cwd=str(tmp_path))
        await met.client.prompt("hi")
        assert len(met.client.events) == 1
        openings = met.openings()
        assert len(openings) == (1 if agent == "v1" else 2)
        assert offered("v1", openings[0]) == (False, True)
        assert offered(agent, openings[-1]) == (False, True)
        assert met.reports.count(f"client speaks v1, agent speaks {agent}") == 1


@pytest.mark.parametrize("agent", LADDER)
async def test_one_message_for_all_dialects_detects_the_dialect_without_a_second_process(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async with interpreted("crow", agent, "refuse", tmp_path, probe="polyglot") as met:
        await met.client.open(files=True, terminals=False, cwd=str(tmp_path))
        await met.client.prompt("hi")
        assert len(met.client.events) == 1
        (opening,) = met.openings()
        assert offered(agent, opening) == (True, False)
        assert opening["protocol_version"] == "2025.1"
        assert met.reports.count(f"client speaks crow, agent speaks {agent}") == 1


async def test_the_error_for_an_unknown_agent_lists_the_dialects_that_were_tried(tmp_path: Path) -> None:
    command = [sys.executable, "-c", DEAF]
    ours, theirs = memory_pair()
    async with asyncio.timeout(BOUND):
        running = asyncio.create_task(translate(command, report=lambda _: None, transport=theirs))
        client = HandClient(ours, WORDS["v1"])
        answer = await client.request("initialize", client.words.initialize(True, True, "/"))
        assert f"({', '.join([*LADDER, 'v2'])}: what?)" in answer["error"]["message"], "the same reason is named once"
        await ours.close()
        await running


async def test_after_one_timeout_the_other_dialects_get_only_a_short_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dial, "RETRY_TIMEOUT", 0.05)
    monkeypatch.setattr(proxy, "START_TIMEOUT", 0.6)
    reports: list[str] = []
    ours, theirs = memory_pair()
    async with asyncio.timeout(BOUND):
        running = asyncio.create_task(
            translate([sys.executable, "-c", "import sys; sys.stdin.read()"], report=reports.append, transport=theirs)
        )
        client = HandClient(ours, WORDS["v1"])
        answer = await client.request("initialize", client.words.initialize(True, True, "/"))
        first, *others = [*LADDER, "v2"]
        assert f"{first}: initialize was not answered within 0.6 s" in answer["error"]["message"]
        assert f"{', '.join(others)}: initialize was not answered within 0.05 s" in answer["error"]["message"]
        assert sum("trying the next dialect" in report for report in reports) == len(LADDER) + 1
        await ours.close()
        await running


DEAF = """
import json, sys
for line in sys.stdin:
    error = {"code": -32602, "message": "what?"}
    print(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "error": error}), flush=True)
"""


# --- the folder of a 2025.1 agent -----------------------------------------------------------------------------


def folders(met: Interpreted) -> list[str]:
    """Where each process runs, which is also what its initialize said."""
    found = []
    for started, opening, *_ in met.processes:
        folder = opening["params"].get("working_directory", started["started"])
        assert folder == started["started"]
        found.append(started["started"])
    return found


async def open_at(client: HandClient, folder: Path) -> str:
    answer = await client.request("session/new", client.words.new(str(folder), ""))
    return client.words.opened(answer["result"], "")


async def where(client: HandClient, session: str) -> str:
    """The folder of the process that serves this session, as it says itself."""
    client.events.clear()
    await client.request("session/prompt", client.words.prompt(session, "where are you?"))
    return str(client.events[0][1])


@pytest.mark.parametrize("client", ["v1", "crow", "draft"])
async def test_a_2025_agent_restarts_once_in_another_folder_and_further_folders_get_their_own_process(
    client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, one, two = (tmp_path / name for name in ("home", "one", "two"))
    for folder in (home, one, two):
        folder.mkdir()
    monkeypatch.chdir(home)

    async with interpreted(client, "2025.1", "answer", tmp_path) as met:
        hand = met.client
        await hand.request("initialize", hand.words.initialize(True, True, str(home)))
        found_out = len(met.processes)
        assert set(folders(met)) == {str(home)}  # begun with our own folder
        first = await open_at(hand, one)
        second = await open_at(hand, one)
        third = await open_at(hand, two)
        assert folders(met)[found_out:] == [str(one), str(two)]
        assert [await where(hand, session) for session in (first, second, third)] == [
            f"in {one}",
            f"in {one}",
            f"in {two}",
        ]
        assert len({first, second, third}) == 3


async def test_a_2025_agent_is_not_restarted_for_sessions_in_our_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async with interpreted("v1", "2025.1", "answer", tmp_path) as met:
        hand = met.client
        await hand.request("initialize", hand.words.initialize(True, True, ""))
        found_out = len(met.processes)
        assert await where(hand, await open_at(hand, tmp_path)) == f"in {tmp_path}"
        assert len(met.processes) == found_out


@pytest.mark.parametrize("client", ["v1", "2025.1"])
async def test_a_restarted_2025_agent_runs_the_same_file(
    client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, one = tmp_path / "home", tmp_path / "one"
    for folder in (home, one):
        folder.mkdir()
    (home / "agent.py").write_text(f"import runpy\nrunpy.run_path({STUBBORN!r}, run_name='__main__')\n")
    monkeypatch.chdir(home)

    async with interpreted(client, "2025.1", "answer", tmp_path, script="agent.py") as met:
        hand = met.client
        await hand.request("initialize", hand.words.initialize(True, True, str(one)))
        answer = await hand.request("session/new", hand.words.new(str(one), "mine"))
        assert await where(hand, hand.words.opened(answer["result"], "mine")) == f"in {one}"


async def test_a_2025_client_sets_the_folder_of_a_2025_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, place = tmp_path / "home", tmp_path / "place"
    for folder in (home, place):
        folder.mkdir()
    monkeypatch.chdir(home)

    async with interpreted("2025.1", "2025.1", "answer", tmp_path) as met:
        hand = met.client
        await hand.request("initialize", hand.words.initialize(True, True, str(place)))
        answer = await hand.request("session/new", hand.words.new("", "mine"))
        assert await where(hand, hand.words.opened(answer["result"], "mine")) == f"in {place}"
