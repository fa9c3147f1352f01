"""Requests that are cancelled through the proxy: forwarded if the other dialect has cancellation, answered once.

Only official v1 has `$/cancel_request`. Where the other dialect lacks it, a turn is cancelled with session/cancel, and
for other requests the late answer is dropped. The tests read the frames of both connections, which have separate ids.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Proxy, Turn
from dragoman.engine.connection import Connection
from dragoman.roles.client.dial import Dialer
from dragoman.roles.proxy.relay import Relay
from dragoman.schema.side import Side
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair
from tests.pairs.peers import BOUND, CWD, meeting
from tests.pairs.words import WORDS, Json

TAKE_BACK = "$/cancel_request"
CANCELLED = {"code": -32800, "data": {"kind": "cancelled"}}


def note(method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def call(id: Any, method: str, params: Json) -> Json:
    return {**note(method, params), "id": id}


def reply(asked: Json, result: Json) -> Json:
    return {"jsonrpc": "2.0", "id": asked["id"], "result": result}


class Between:
    """The connections of a client and an agent, and the translator between them."""

    def __init__(self, client: ScriptedPeer, agent: ScriptedPeer, relay: Relay, reports: list[str]) -> None:
        self.client = client
        self.agent = agent
        self.relay = relay
        self.reports = reports

    def check_nothing_is_left(self) -> None:
        """No request is open, no flow is running, and nothing unexpected was received."""
        for connection in (self.relay.client, self.relay.connection_to(Side.AGENT)):
            assert not connection.sender.has_pending_requests(excluding="")
            assert not _flows(connection)
        assert not [text for text in self.reports if "never sent" in text or "failed" in text]


def _flows(connection: Connection) -> list[Any]:
    emulation = connection.sender.emulation
    return [] if emulation is None else [*emulation.outgoing_runs, *emulation.incoming_runs]


@asynccontextmanager
async def between(client: str, agent: str) -> AsyncIterator[Between]:
    """Connect both ends, which the test controls, and open a session."""
    reports: list[str] = []
    ours, theirs = WORDS[client], WORDS[agent]
    front, left = memory_pair()
    back, right = memory_pair()
    relay = Relay(
        front,
        Dialer(back, dialect=agent, cwd=CWD, report=reports.append),
        client_dialect=client,
        report=reports.append,
    )
    running = asyncio.create_task(relay.run())
    async with asyncio.timeout(BOUND):
        met = Between(ScriptedPeer(left), ScriptedPeer(right), relay, reports)
        met.client.send(call("i", "initialize", ours.initialize(True, True, CWD)))
        met.agent.send(reply(await met.agent.expect(method="initialize"), theirs.introduction))
        await met.client.expect(id="i")
        met.client.send(call("n", "session/new", ours.new(CWD, "s")))
        asked = await met.agent.expect(method="session/new")
        met.agent.send(reply(asked, theirs.made(asked["params"].get("session_id", "s"))))
        await met.client.expect(id="n")
        try:
            yield met
        finally:
            await left.close()
            await running


# --- the client cancels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["draft", "crow", "2025.1"])
async def test_a_prompt_is_cancelled_as_a_turn_if_the_dialect_cannot_cancel_requests(agent: str) -> None:
    waiting = Agent("waiting", version="1")

    @waiting.prompt
    async def wait(turn: Turn) -> None:
        await turn.say("waiting")
        await asyncio.get_running_loop().create_future()

    async with meeting("v1", agent, waiting) as met:
        hand = met.client
        await hand.open()
        prompt = hand.ask("session/prompt", hand.words.prompt(hand.session, "go"))
        await hand.event(("says", "waiting"))
        hand.notify(TAKE_BACK, {"requestId": prompt})
        answer = await hand.answer(prompt)
        assert answer["result"]["stopReason"] == "cancelled"
        method = WORDS[agent].cancel("s")[0]
        assert len(met.wire.calls(method)) == 1
        assert met.wire.calls(TAKE_BACK) == []


@pytest.mark.parametrize(("client", "agent"), [("v1", "banjo"), ("banjo", "v1")])
@pytest.mark.parametrize("yields", [True, False])
async def test_a_request_that_an_emulator_follows_is_cancelled_by_the_other_side_s_id(
    client: str, agent: str, yields: bool
) -> None:
    """The agent may cancel or finish the request: its answer is passed on."""

    async with between(client, agent) as met:
        met.client.send(call("load", "session/load", WORDS[client].load("s", CWD)))
        asked = await met.agent.expect(method="session/load")
        assert asked["id"] != "load"
        met.client.send(note(TAKE_BACK, {"requestId": "another"}))
        met.client.send(note(TAKE_BACK, {"requestId": "load"}))
        await met.agent.expect(method=TAKE_BACK, params={"requestId": asked["id"]})
        if yields:
            error = {"code": -32800, "message": "as you like"}
            met.agent.send({"jsonrpc": "2.0", "id": asked["id"], "error": error})
            await met.client.expect(id="load", error={"data": {"kind": "cancelled"}})  # banjo has no number
        else:
            met.agent.send(reply(asked, {}))
            await met.client.expect(id="load", result={})
        met.check_nothing_is_left()


@pytest.mark.parametrize("agent", ["draft", "crow", "2025.1"])
async def test_the_late_answer_to_a_request_that_cannot_be_cancelled_is_dropped(agent: str) -> None:
    async with between("v1", agent) as met:
        met.client.send(call("load", "session/load", WORDS["v1"].load("s", CWD)))
        asked = await met.agent.expect(method="session/load")
        met.client.send(note(TAKE_BACK, {"requestId": "load"}))
        await met.client.expect(id="load", error=CANCELLED)
        met.agent.send(reply(asked, {"status": "ok"}))
        met.check_nothing_is_left()
        met.client.send(call("load", "session/load", WORDS["v1"].load("s", CWD)))  # as if nothing had been
        asked = await met.agent.expect(method="session/load")
        met.agent.send(reply(asked, {"status": "ok"}))
        assert "result" in await met.client.expect(id="load")
        met.check_nothing_is_left()


# --- the agent cancels ----------------------------------------------------------------------------------------

TOOL = {"toolCallId": "t", "title": "rm", "kind": "execute"}
OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]
QUESTION = {"sessionId": "s", "toolCall": TOOL, "options": OPTIONS}


async def test_a_permission_request_to_a_crow_client_ends_when_its_agent_cancels_it() -> None:
    """docs/protocol/peers.md#late-permission-answers: claude cancels its open question; crow asks by an update,
    which cannot be cancelled.
    """

    async with between("crow", "v1") as met:
        for id in (1, 2):  # a question about the same tool call waits for the end of the one before
            met.agent.send(call(id, "session/request_permission", QUESTION))
        await met.client.expect(method="session/update", params={"update": {"@type": "permission_request"}})
        met.agent.send(note(TAKE_BACK, {"requestId": 1}))
        await met.agent.expect(id=1, error=CANCELLED)
        await met.client.expect(method="session/update", params={"update": {"@type": "permission_request"}})
        response = {"session_id": "s", "tool_call_id": "t", "option_id": "no"}
        met.client.send(call(1, "permission_response", response))
        await met.agent.expect(id=2, result={"outcome": {"outcome": "selected", "optionId": "no"}})
        met.check_nothing_is_left()


async def test_a_queued_permission_request_is_not_sent_after_it_is_cancelled() -> None:
    async with between("crow", "v1") as met:
        for id in (1, 2, 3):
            met.agent.send(call(id, "session/request_permission", QUESTION))
        met.agent.send(note(TAKE_BACK, {"requestId": 2}))
        await met.agent.expect(id=2, error=CANCELLED)
        response = {"session_id": "s", "tool_call_id": "t", "option_id": "yes"}
        for id in (1, 3):
            await met.client.expect(method="session/update")
            met.client.send(call(id, "permission_response", response))
            await met.agent.expect(id=id, result={"outcome": {"outcome": "selected", "optionId": "yes"}})
        met.check_nothing_is_left()


@pytest.mark.parametrize("client", ["draft", "crow", "2025.1"])
async def test_a_file_is_dropped_if_its_request_was_cancelled(client: str) -> None:
    async with between(client, "v1") as met:
        met.agent.send(call(7, "fs/read_text_file", WORDS["v1"].read("s", f"{CWD}/note.txt")))
        asked = await met.client.expect(method="fs/read_text_file")
        met.agent.send(note(TAKE_BACK, {"requestId": 7}))
        await met.agent.expect(id=7, error=CANCELLED)
        met.client.send(reply(asked, WORDS[client].content("late")))
        met.agent.send(call(8, "fs/read_text_file", WORDS["v1"].read("s", f"{CWD}/note.txt")))
        asked = await met.client.expect(method="fs/read_text_file")  # and no $/cancel_request before it
        met.client.send(reply(asked, WORDS[client].content("in time")))
        await met.agent.expect(id=8, result={"content": "in time"})
        met.check_nothing_is_left()


async def test_requests_of_an_emulator_are_cancelled_too() -> None:
    """`overwrite: false` is a read before the write: the client gets a cancel for the read that is no longer needed."""

    async with between("v1", "draft") as met:
        write = {"path": f"{CWD}/note.txt", "content": "x", "overwrite": False}
        met.agent.send(call(7, "fs/write_text_file", write))
        asked = await met.client.expect(method="fs/read_text_file")
        met.agent.send(note(TAKE_BACK, {"requestId": 7}))
        await met.client.expect(method=TAKE_BACK, params={"requestId": asked["id"]})
        met.client.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32800, "message": "well"}})
        answer = await met.agent.expect(id=7)
        assert answer["error"]["data"]["kind"] == "cancelled"
        met.check_nothing_is_left()


# --- in the hands of a proxy ----------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["v1", "banjo"])
async def test_cancelling_a_claimed_request_cancels_the_agents_request_whose_answer_ends_it(agent: str) -> None:
    proxy = Proxy(client_dialect="v1", agent_dialect=agent)

    @proxy.from_client("session/load")
    async def load(params: Any, forward: Any) -> Any:
        return await forward(params)

    front, left = memory_pair()
    back, right = memory_pair()
    running = asyncio.create_task(proxy.serve(front, back))
    client, server, words = ScriptedPeer(left), ScriptedPeer(right), WORDS[agent]
    client.send(call("i", "initialize", WORDS["v1"].initialize(True, True, CWD)))
    server.send(reply(await server.expect(method="initialize"), words.introduction))
    await client.expect(id="i")
    client.send(call("load", "session/load", WORDS["v1"].load("s", CWD)))
    asked = await server.expect(method="session/load")
    client.send(note(TAKE_BACK, {"requestId": "load"}))
    taken_back = await server.expect(method=TAKE_BACK, params={"requestId": asked["id"]})
    server.send({"jsonrpc": "2.0", "id": taken_back["params"]["requestId"], "error": {**CANCELLED, "message": "so"}})
    await client.expect(id="load", error=CANCELLED)
    await left.close()
    await running


# --- while another process is started -------------------------------------------------------------------------

# Uses 2025.1 and reports in which folder it was started; never answers initialize in a folder called "deaf".
MOVING = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize" and os.path.basename(os.getcwd()) == "deaf":
        print("begun", file=sys.stderr, flush=True)
        continue
    result = {"status": "ok"}
    if message["method"] == "initialize":
        result = {"agent_info": {"name": os.path.basename(os.getcwd()), "version": "1"}, "capabilities": {}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


async def test_a_cancelled_session_new_in_another_folder_does_not_restart_the_agent(tmp_path: Path) -> None:
    """A 2025.1 agent changes its folder by a restart: the old process stays until the new one runs."""
    home, deaf = tmp_path / "home", tmp_path / "deaf"
    home.mkdir()
    deaf.mkdir()

    front, left = memory_pair()
    begun = asyncio.Event()
    command = [sys.executable, "-c", MOVING]
    dial = Dialer(command, dialect="2025.1", cwd=str(home), report=lambda _: None, stderr=lambda _: begun.set())
    running = asyncio.create_task(Relay(front, dial, client_dialect="v1", report=lambda _: None).run())
    client, words = ScriptedPeer(left), WORDS["v1"]
    async with asyncio.timeout(BOUND):
        answer = await client.request(1, "initialize", words.initialize(True, True, str(home)))
        assert answer["result"]["agentInfo"]["name"] == "home"
        client.send(call(2, "session/new", words.new(str(deaf), "")))
        await begun.wait()
        client.send(note(TAKE_BACK, {"requestId": 2}))
        await client.expect(id=2, error=CANCELLED)
        assert "result" in await client.request(3, "session/new", words.new(str(home), ""))
    await left.close()
    await running
