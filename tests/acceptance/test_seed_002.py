"""The requirements of the crow document: raw frames of both ends, and commands."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from dragoman import Agent, Kind, ProtocolError, Turn, connect
from dragoman.schema.plan import PlanEntry
from dragoman.schema.toolcall import ToolCallStatus
from dragoman.schema.update import AgentMessageChunk, AgentThoughtChunk, Plan, ToolCallProgress, ToolCallStart
from dragoman.testing import ScriptedPeer
from tests.acceptance.wire import DRAGOMAN, Child, Json, acting, agent_played, call, client_of, note, result, run, serve

CWD = "/path/to/workspace"
SESSION = "7c1d8f0e-5a52-4b5e-9d0a-2f6f3f1f9a10"
HELLO = {
    "protocol_version": 1,
    "client_capabilities": {},
    "client_info": {"name": "crow-ide", "version": "0.1.0"},
}
INTRODUCTION = {
    "protocol_version": 1,
    "agent_capabilities": {
        "prompt_capabilities": {"text": True, "image": True, "resource": True},
        "mcp_capabilities": {"http": False, "sse": False},
        "load_session": True,
    },
    "agent_info": {"name": "crow-acp-server", "title": "Crow ACP Server", "version": "0.1.0"},
}


def prompt(session: str, text: str) -> Json:
    return {"session_id": session, "prompt": [{"type": "text", "text": text}]}


async def begin(peer: ScriptedPeer, cwd: str = CWD) -> str:
    """Initialize and open a session; return its id."""
    await peer.request(1, "initialize", HELLO)
    answer = await peer.request(2, "session/new", {"cwd": cwd, "mcpServers": []})
    return str(answer["result"]["sessionId"])


async def run_prompt(peer: ScriptedPeer, session: str, text: str) -> tuple[list[Json], Json]:
    """Return the updates of one turn and the frame that ends it."""
    start = len(peer.received)
    answer = await peer.request(3, "session/prompt", prompt(session, text))
    return [frame["params"]["update"] for frame in peer.received[start:-1]], answer


def bare(value: Json) -> Json:
    """Remove what crow cannot carry and is therefore side data."""
    return {name: bare(inner) for name, inner in value.items() if name != "_meta"} if isinstance(value, dict) else value


async def open_session(peer: ScriptedPeer) -> None:
    """Play the agent's part up to an open session."""
    await serve(peer, "initialize", INTRODUCTION)
    await serve(peer, "session/new", {"sessionId": SESSION})


async def hold(turn: Turn) -> None:
    await turn.say("Working")
    await asyncio.get_running_loop().create_future()


@pytest.mark.item("002-01")
def test_initialize_is_snake_case_both_ways() -> None:
    """Our agent answers the document's request with each member it shows; our client asks and reads likewise."""
    agent = Agent("crow-acp-server", title="Crow ACP Server", version="0.1.0", image=True, mcp=False)

    async def serving() -> None:
        async with client_of(agent) as peer:
            answer = (await peer.request(1, "initialize", HELLO))["result"]
            assert bare(answer.pop("agent_capabilities")) == INTRODUCTION["agent_capabilities"]
            assert bare(answer) == {name: INTRODUCTION[name] for name in ("protocol_version", "agent_info")}
            assert type(answer["protocol_version"]) is int

    async def part(peer: ScriptedPeer) -> None:
        asked = (await serve(peer, "initialize", INTRODUCTION))["params"]
        assert set(asked) == {"protocol_version", "client_capabilities", "client_info"}
        assert asked["protocol_version"] == 1
        assert asked["client_info"] == {"name": "crow-ide", "version": "0.1.0"}
        assert set(asked["client_capabilities"]) == {"fs", "terminal"}
        assert asked["client_capabilities"]["fs"] == {"read_text_file": False, "write_text_file": False}

    async def connecting() -> None:
        async with agent_played(part, dialect="crow", name="crow-ide", client_version="0.1.0") as remote:
            assert remote.info is not None
            assert remote.info.title == "Crow ACP Server"
            assert remote.capabilities.load_session is True
            prompts, servers = remote.capabilities.prompt_capabilities, remote.capabilities.mcp_capabilities
            assert prompts
            assert servers
            assert (prompts.image, prompts.embedded_context) == (True, True)
            assert (servers.http, servers.sse) == (False, False)

    run(serving())
    run(connecting())


@pytest.mark.item("002-02")
def test_session_new_is_camel_case() -> None:
    """cwd and mcpServers go in, a sessionId comes out; that of our agent is a UUID."""
    agent = Agent("a", mcp=False)

    async def where(turn: Turn) -> None:
        (server,) = turn.session.mcp_servers
        await turn.say(f"{turn.session.cwd} {server.name}")

    agent.prompt(acting(where=where))
    servers = [{"name": "files", "command": "/opt/files", "args": [], "env": []}]

    async def serving() -> None:
        async with client_of(agent) as peer:
            await peer.request(1, "initialize", HELLO)
            answer = await peer.request(2, "session/new", {"cwd": CWD, "mcpServers": servers})
            assert list(answer["result"]) == ["sessionId"]
            session = answer["result"]["sessionId"]
            assert str(UUID(session)) == session
            updates, _ = await run_prompt(peer, session, "where")
            assert updates == [{"@type": "agent_message_text", "text": f"{CWD} files"}]

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "initialize", INTRODUCTION)
        asked = await serve(peer, "session/new", {"sessionId": SESSION})
        assert asked["params"] == {"cwd": CWD, "mcpServers": []}

    async def connecting() -> None:
        async with agent_played(part, dialect="crow") as remote:
            assert (await remote.open_session(CWD)).id == SESSION

    run(serving())
    run(connecting())


@pytest.mark.item("002-03", "002-07")
def test_a_prompt_its_updates_and_its_result_have_three_spellings() -> None:
    """session_id in the prompt, sessionId and "@type" in updates, which have no id; stop_reason in the answer."""
    agent = Agent("a")

    async def talk_(turn: Turn) -> None:
        await turn.think("Let me think")
        await turn.say("I'm doing well")

    agent.prompt(acting(talk=talk_))

    async def serving() -> None:
        async with client_of(agent) as peer:
            session = await begin(peer)
            peer.send(call(3, "session/prompt", prompt(session, "talk")))
            frames = [await peer.receive() for _ in range(3)]
            assert frames == [
                note(
                    "session/update",
                    {"sessionId": session, "update": {"@type": "agent_thought_text", "text": "Let me think"}},
                ),
                note(
                    "session/update",
                    {"sessionId": session, "update": {"@type": "agent_message_text", "text": "I'm doing well"}},
                ),
                result(3, {"stop_reason": "end_turn"}),
            ]
            assert ["id" in frame for frame in frames] == [False, False, True]

    async def part(peer: ScriptedPeer) -> None:
        await open_session(peer)
        asked = await peer.expect(method="session/prompt")
        assert asked["params"] == prompt(SESSION, "Hello, how are you?")
        update = {"@type": "agent_message_text", "text": "I'm doing well"}
        peer.send(note("session/update", {"sessionId": SESSION, "update": update}))
        peer.send(result(asked, {"stop_reason": "end_turn"}))

    async def connecting() -> None:
        async with agent_played(part, dialect="crow") as remote:
            session = await remote.open_session(CWD)
            async with session.prompt("Hello, how are you?") as turn:
                (update,) = [update async for update in turn]
            assert isinstance(update, AgentMessageChunk)
            assert turn.stop_reason == "end_turn"

    run(serving())
    run(connecting())


ENTRIES: list[Json] = [
    {"content": "Analyze the request", "priority": "high", "status": "completed"},
    {"content": "Execute tool: terminal", "priority": "medium", "status": "in_progress"},
]
UPDATES: list[Json] = [
    {"@type": "agent_thought_text", "text": "The user is asking"},
    {"@type": "agent_message_text", "text": "Here's the answer"},
    {
        "@type": "tool_call_start",
        "tool_call_id": "call_1",
        "title": "terminal",
        "kind": "execute",
        "status": "in_progress",
    },
    {"@type": "tool_call_update", "tool_call_id": "call_1", "status": "completed"},
    {"@type": "plan_update", "entries": ENTRIES},
]


@pytest.mark.item("002-04")
def test_the_five_updates_are_sent_and_read() -> None:
    """Our agent says all five in the document's words; the document's five reach the reader of our client's turn."""
    agent = Agent("a")

    async def all_(turn: Turn) -> None:
        await turn.think("The user is asking")
        await turn.say("Here's the answer")
        async with turn.tool("terminal", kind="execute", id="call_1"):
            pass
        await turn.plan(*(PlanEntry(**entry) for entry in ENTRIES))

    agent.prompt(acting(all=all_))

    async def serving() -> None:
        async with client_of(agent) as peer:
            updates, _ = await run_prompt(peer, await begin(peer), "all")
            start = {**UPDATES[2], "status": "pending"}
            working = {**UPDATES[3], "status": "in_progress"}
            assert [bare(update) for update in updates] == [*UPDATES[:2], start, working, *UPDATES[3:]]

    async def part(peer: ScriptedPeer) -> None:
        await open_session(peer)
        asked = await peer.expect(method="session/prompt")
        for update in UPDATES:
            peer.send(note("session/update", {"sessionId": SESSION, "update": update}))
        peer.send(result(asked, {"stop_reason": "end_turn"}))

    async def connecting() -> None:
        async with agent_played(part, dialect="crow") as remote:
            session = await remote.open_session(CWD)
            async with session.prompt("go") as turn:
                thought, message, start, progress, plan = [update async for update in turn]
            assert isinstance(thought, AgentThoughtChunk)
            assert isinstance(message, AgentMessageChunk)
            assert isinstance(start, ToolCallStart)
            assert (start.tool_call_id, start.title, start.kind, start.status) == (
                "call_1",
                "terminal",
                "execute",
                "in_progress",
            )
            assert isinstance(progress, ToolCallProgress)
            assert (progress.tool_call_id, progress.status) == ("call_1", "completed")
            assert isinstance(plan, Plan)
            assert [(e.content, e.priority, e.status) for e in plan.entries] == [tuple(e.values()) for e in ENTRIES]

    run(serving())
    run(connecting())


@pytest.mark.item("002-05")
async def test_loading_a_session_sends_its_complete_history_first(tmp_path: Path) -> None:
    """What another process of the client would see is what was said: both sides' texts, tool calls, the plan."""

    async with Child("agent", "everything", "--dialect", "crow") as agent:
        await agent.request(1, "initialize", HELLO)
        opened = await agent.request(2, "session/new", {"cwd": str(tmp_path), "mcpServers": []})
        session = opened["result"]["sessionId"]
        seen: list[Json] = []
        for id, words in enumerate(("/think about it", "/plan", "/tour", "one two three four five six"), start=3):
            agent.send(call(id, "session/prompt", prompt(session, words)))
            *frames, _ = await agent.until(id)
            seen.append({"@type": "user_message_text", "text": words})
            seen += [frame["params"]["update"] for frame in frames]
        agent.send(call(9, "session/load", {"session_id": session, "cwd": str(tmp_path)}))
        *frames, answer = await agent.until(9)
        assert "error" not in answer
        assert {frame["params"]["sessionId"] for frame in frames} == {session}
        assert state([frame["params"]["update"] for frame in frames]) == state(seen)
        assert len(state(seen)["texts"]) == 10
        assert state(seen)["plan"]
        assert state(seen)["calls"]


def state(updates: list[Json]) -> Json:
    """Return the state after updates: messages as whole texts, tool calls as they ended, the latest plan."""
    texts: list[tuple[str, str]] = []
    calls: dict[str, Json] = {}
    plan: Json = None
    last = ""
    for update in updates:
        kind = update["@type"]
        if kind.endswith("_text"):
            if kind == last:
                texts[-1] = (kind, texts[-1][1] + update["text"])
            else:
                texts.append((kind, update["text"]))
        elif kind == "plan_update":
            plan = update["entries"]
        else:
            calls[update["tool_call_id"]] = {**calls.get(update["tool_call_id"], {}), **bare(update), "@type": ""}
        last = kind if kind.endswith("_text") else last
    return {"texts": texts, "calls": calls, "plan": plan}


@pytest.mark.item("002-05")
async def test_our_client_has_the_complete_history_when_load_returns() -> None:
    """The replay comes before the answer, and the conversation's state is rebuilt from it."""

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "initialize", INTRODUCTION)
        asked = await peer.expect(method="session/load")
        assert asked["params"] == {"session_id": SESSION, "cwd": CWD}
        for update in [{"@type": "user_message_text", "text": "list the folder"}, *UPDATES]:
            peer.send(note("session/update", {"sessionId": SESSION, "update": update}))
        peer.send(result(asked, {}))

    async with agent_played(part, dialect="crow") as remote:
        session = await remote.load_session(SESSION, CWD)
        assert [type(update).__name__ for update in session.updates_outside_turns] == [
            "UserMessageChunk",
            "AgentThoughtChunk",
            "AgentMessageChunk",
            "ToolCallStart",
            "ToolCallProgress",
            "Plan",
        ]
        assert session.tool_calls["call_1"].status == ToolCallStatus.COMPLETED


@pytest.mark.item("002-06")
def test_cancel_is_a_request_and_is_answered() -> None:
    """Our agent answers it and ends the turn as cancelled; our client sends it with an id."""
    agent = Agent("a")
    agent.prompt(acting(hold=hold))

    async def serving() -> None:
        async with client_of(agent) as peer:
            session = await begin(peer)
            peer.send(call(3, "session/prompt", prompt(session, "hold")))
            await peer.expect(method="session/update")
            peer.send(call(5, "cancel", {"session_id": session}))
            frames = [await peer.receive(), await peer.receive()]
            assert result(5, {}) in frames
            assert result(3, {"stop_reason": "cancelled"}) in frames
            assert await peer.request(6, "cancel", {"session_id": session}) == result(6, {})  # nothing runs: no harm

    async def part(peer: ScriptedPeer) -> None:
        await open_session(peer)
        asked = await peer.expect(method="session/prompt")
        cancel = await peer.receive()
        assert cancel == call(cancel["id"], "cancel", {"session_id": SESSION})
        peer.send(result(cancel, {}))
        peer.send(result(asked, {"stop_reason": "cancelled"}))

    async def connecting() -> None:
        async with agent_played(part, dialect="crow") as remote:
            session = await remote.open_session(CWD)
            async with session.prompt("go") as turn:
                turn.cancel()
            assert turn.stop_reason == "cancelled"

    run(serving())
    run(connecting())


@pytest.mark.item("002-08")
async def test_a_turn_stops_for_one_of_three_reasons() -> None:
    """end_turn and cancelled as they are, error for a turn that the author ends so; nothing else is ever said."""
    agent = Agent("a")

    @agent.prompt
    async def stop(turn: Turn) -> str | None:
        if turn.text == "cancelled":
            await hold(turn)
        return turn.text

    async with client_of(agent) as peer:
        session = await begin(peer)
        for reason, shown in (
            ("end_turn", "end_turn"),
            ("error", "error"),
            ("auth_required", "error"),
            ("max_tokens", "end_turn"),
            ("refusal", "end_turn"),
        ):
            answer = (await run_prompt(peer, session, reason))[1]["result"]
            assert answer["stop_reason"] == shown
            if reason != shown:  # the true reason is not lost
                assert answer["_meta"]["dragoman"]["stopReason"] == reason
        peer.send(call(4, "session/prompt", prompt(session, "cancelled")))
        await peer.expect(method="session/update")
        await peer.request(5, "cancel", {"session_id": session})
        frame = peer.received[-2] if "result" in peer.received[-2] else await peer.receive()
        assert frame == result(4, {"stop_reason": "cancelled"})


@pytest.mark.item("002-08")
@pytest.mark.parametrize("reason", ["end_turn", "cancelled", "error"])
async def test_our_client_reads_the_three_stop_reasons(reason: str) -> None:
    """Each of them is the stop reason of the turn."""

    async def part(peer: ScriptedPeer) -> None:
        await open_session(peer)
        await serve(peer, "session/prompt", {"stop_reason": reason})

    async with agent_played(part, dialect="crow") as remote:
        session = await remote.open_session(CWD)
        async with session.prompt("go") as turn:
            await turn.wait()
        assert turn.stop_reason == reason


@pytest.mark.item("002-09")
@pytest.mark.parametrize("answer", ["allow_once", "reject_once"])
async def test_an_agent_asks_permission_by_an_update_before_the_tool_runs(tmp_path: Path, answer: str) -> None:
    """The question names tool call, arguments and options, one of them primary; the tool waits for the response."""

    async with Child("agent", "everything", "--dialect", "crow") as agent:
        await agent.request(1, "initialize", HELLO)
        opened = await agent.request(2, "session/new", {"cwd": str(tmp_path), "mcpServers": []})
        session = opened["result"]["sessionId"]
        agent.send(call(3, "session/prompt", prompt(session, "/run touch made")))
        while (update := (await agent.receive())["params"]["update"])["@type"] != "permission_request":
            assert not (tmp_path / "made").exists()
        assert (update["title"], update["arguments"]) == ("Run touch made", "touch made")
        options = update["permission_options"]
        assert {"id", "title"} <= set(options[0])
        assert [option.get("is_primary", False) for option in options] == [True, False, False]
        response = {"session_id": session, "tool_call_id": update["tool_call_id"], "option_id": answer}
        agent.send(note("permission_response", response))
        *frames, ended = await agent.until(3)
        assert ended["result"] == {"stop_reason": "end_turn"}
        final = [frame["params"]["update"] for frame in frames if "status" in frame["params"]["update"]][-1]
        assert final["tool_call_id"] == update["tool_call_id"]
        assert final["status"] == ("completed" if answer == "allow_once" else "failed")
    assert (tmp_path / "made").exists() == (answer == "allow_once")


@pytest.mark.item("002-09")
@pytest.mark.parametrize(("permission", "chosen"), [("allow", "approve"), ("deny", "reject")])
async def test_our_client_answers_the_permission_request_of_the_document(permission: str, chosen: str) -> None:
    """permission_response names session, tool call and option, and has no id."""
    question = {
        "@type": "permission_request",
        "tool_call_id": "call_1",
        "title": "terminal",
        "arguments": "ls -la",
        "permission_options": [
            {"id": "approve", "title": "Approve", "is_primary": True},
            {"id": "reject", "title": "Reject"},
        ],
    }

    async def part(peer: ScriptedPeer) -> None:
        await open_session(peer)
        asked = await peer.expect(method="session/prompt")
        peer.send(note("session/update", {"sessionId": SESSION, "update": question}))
        params = {"session_id": SESSION, "tool_call_id": "call_1", "option_id": chosen}
        assert await peer.receive() == note("permission_response", params)
        peer.send(result(asked, {"stop_reason": "end_turn"}))

    async with agent_played(part, dialect="crow", permission=permission) as remote:
        await (await remote.open_session(CWD)).ask("go")


@pytest.mark.item("002-10")
async def test_logs_go_to_stderr_while_stdout_has_messages_only(tmp_path: Path) -> None:
    """Also where an agent has much to complain about: lines that are no JSON, answers nobody asked for."""

    async with Child("agent", "everything", "--dialect", "crow") as agent:
        await agent.request(1, "initialize", HELLO)
        agent.send(b"this is no JSON")
        agent.send(result(77, {}))
        opened = await agent.request(2, "session/new", {"cwd": str(tmp_path), "mcpServers": []})
        assert "result" in opened
        status, rest, aside = await agent.end()
        assert status == 0
        for line in [*(line.decode() for line in agent.lines), *rest.splitlines()]:
            assert json.loads(line)["jsonrpc"] == "2.0"
        assert "not a message" in aside
        assert "never sent" in aside


@pytest.mark.item("002-11")
async def test_several_sessions_run_at_once_and_do_not_mix(tmp_path: Path) -> None:
    """Three sessions of one process, each a UUID and with a turn of its own open; each history is its own."""

    command = [*DRAGOMAN, "agent", "everything", "--dialect", "crow"]
    async with connect(command, dialect="crow", cwd=str(tmp_path)) as agent:
        sessions = [await agent.open_session(str(tmp_path)) for _ in range(3)]
        assert len({UUID(session.id) for session in sessions}) == 3
        turns = [session.prompt("/slow 300") for session in sessions]
        for turn in turns:
            await turn.__aenter__()
            async for _ in turn:
                break
        assert not any(turn.is_over for turn in turns)  # all three are under way
        for turn in turns:
            turn.cancel()
            assert (await turn.wait()).stop_reason == "cancelled"
        texts = [f"/echo word {number}" for number in range(3)]
        answers = await asyncio.gather(*(session.ask(text) for session, text in zip(sessions, texts, strict=True)))
        assert answers == ["word 0", "word 1", "word 2"]
        for number, session in enumerate(sessions):
            again = await agent.load_session(session.id, str(tmp_path))
            history = repr(list(again.updates_outside_turns))
            assert [f"word {other}" in history for other in range(3)] == [other == number for other in range(3)]


@pytest.mark.item("002-12")
async def test_invalid_params_list_every_error() -> None:
    """-32602 with one entry in data.errors for each fault, which names its place."""
    agent = Agent("a")

    async with client_of(agent) as peer:
        session = await begin(peer)
        wrong = await peer.request(3, "session/new", {"cwd": 7, "mcpServers": "none"})
        assert wrong["error"]["code"] == -32602
        assert {fault["path"] for fault in wrong["error"]["data"]["errors"]} == {"cwd", "mcpServers"}
        assert all(fault["message"] for fault in wrong["error"]["data"]["errors"])
        missing = await peer.request(4, "session/prompt", {})
        assert missing["error"]["code"] == -32602
        assert len(missing["error"]["data"]["errors"]) == 2
        blocks = {"session_id": session, "prompt": [{"type": "text"}, {"type": "text", "text": 5}]}
        deep = await peer.request(5, "session/prompt", blocks)
        assert deep["error"]["code"] == -32602
        assert {fault["path"] for fault in deep["error"]["data"]["errors"]} == {"prompt[0].text", "prompt[1].text"}


@pytest.mark.item("002-12")
async def test_our_client_raises_the_listed_errors_for_the_caller() -> None:
    """The error of an agent arrives as its kind, with data.errors as it was said."""
    faults = [{"loc": ["session_id"], "msg": "field required"}]

    async def part(peer: ScriptedPeer) -> None:
        await open_session(peer)
        asked = await peer.expect(method="session/prompt")
        fault: Any = {"code": -32602, "message": "Invalid params", "data": {"errors": faults}}
        peer.send({"jsonrpc": "2.0", "id": asked["id"], "error": fault})

    async with agent_played(part, dialect="crow") as remote:
        session = await remote.open_session(CWD)
        with pytest.raises(ProtocolError) as caught:
            await session.ask("go")
        assert caught.value.kind == Kind.INVALID_PARAMS
        assert caught.value.data == {"errors": faults}
