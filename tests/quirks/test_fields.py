"""What real peers put into their messages, docs/protocol/peers.md#fields, and what becomes of it here."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import Agent, Kind, ProtocolError
from dragoman.schema.base import Unknown
from dragoman.schema.methods import find_method
from dragoman.schema.side import Side
from dragoman.schema.toolcall import TerminalEmbed
from dragoman.schema.update import AgentMessageChunk, SessionInfoUpdate
from dragoman.testing import ScriptedPeer
from tests.quirks.scripted import (
    SESSION,
    agent_served,
    chunk,
    client,
    error,
    in_session,
    open_session,
    prompting,
    result,
    run,
    serve,
    update,
    whole,
)

ALL = {"loadSession": True, "sessionCapabilities": {"list": {}, "resume": {}, "fork": {}, "close": {}, "delete": {}}}


async def receive_frames(*frames: dict[str, Any]) -> Any:
    """The session of our client after these frames were read; none of them may be answered or reported."""
    reports: list[str] = []

    async def part(peer: ScriptedPeer) -> None:
        for frame in frames:
            peer.send(frame)

    async with in_session(whole(part), report=reports.append) as session:
        await session.remote.request("_end", {})
    assert reports == []
    return session


@pytest.mark.parametrize("key", ["modelId", "id"])
async def test_models_are_an_option_and_are_set_in_the_form_of_the_agent(key: str) -> None:
    """docs/protocol/peers.md#models: `models` and session/set_model are gone from the schema and in use; droid needs
    them.
    """
    models = {
        "currentModelId": "$runtime|openai|fake-model(openai)",
        "availableModels": [
            {key: "$runtime|openai|fake-model(openai)", "name": "fake", "description": None},
            {key: "gpt-6.1-sol[low]", "name": "sol", "_meta": {"contextLimit": 1}},
        ],
    }

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "session/new", {"sessionId": SESSION, "models": models})
        asked = await serve(peer, "session/set_model", {})
        assert asked["params"] == {"sessionId": SESSION, "modelId": "gpt-6.1-sol[low]"}

    async with client(part) as agent:
        session = await agent.open_session("/")
        (option,) = session.options
        assert (option.category, option.current_value) == ("model", "$runtime|openai|fake-model(openai)")
        assert [choice.value for choice in option.values][1] == "gpt-6.1-sol[low]"
        await session.set_option(option.id, "gpt-6.1-sol[low]")
        assert [one.current_value for one in session.options] == ["gpt-6.1-sol[low]"]


@pytest.mark.item("003-16")
@pytest.mark.parametrize("dialect", ["v1", "banjo"])
async def test_unknown_members_cause_no_error(dialect: str) -> None:
    """docs/protocol/peers.md#unknown-fields"""
    introduction = {
        "agentCapabilities": {
            **ALL,
            "providers": {},
            "mcpCapabilities": {"acp": True},
            "sessionCapabilities": {**ALL["sessionCapabilities"], "subagents": {}, "title": {}, "systemPrompt": {}},  # type: ignore[dict-item]
        },
        "authMethods": [{"id": "key", "name": "Key", "type": "env_var", "vars": [{"name": "API_KEY"}]}],
    }

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "session/new", {"sessionId": SESSION, "surprise": {"a": [1]}})
        asked = await peer.expect(method="session/prompt")
        peer.send(update("agent_message_chunk", timestamp=1, content={"type": "text", "text": "hi", "odd": 1}))
        peer.send(update("tool_call", toolCallId="c", title="t", name="Write", odd=None))
        peer.send(result(asked, {"stopReason": "cancelled", "usage": None, "odd": 1}))
        asked = await peer.expect(method="session/prompt")
        usage = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3, "cachedReadTokens": 0, "odd": 4}
        peer.send(result(asked, {"stopReason": "end_turn", "usage": usage}))
        resume = {"v1": "session/resume", "banjo": "unstable_resumeSession"}[dialect]
        await serve(peer, resume, {"sessionId": SESSION})

    async with client(part, introduction, dialect=dialect) as agent:
        session = await agent.open_session("/")
        async with session.prompt("go") as turn:
            assert len([one async for one in turn]) == 2
        assert turn.usage is None
        assert session.tool_calls["c"].name == "Write"
        async with session.prompt("go") as turn:
            pass
        assert turn.usage is not None
        assert turn.usage.total_tokens == 3
        await agent.resume_session(session.id, "/")


async def test_a_reason_in_session_cancel_is_accepted() -> None:
    """docs/protocol/peers.md#unknown-fields: acp.el says why it cancels."""
    agent = Agent("quiet", version="1")

    @agent.prompt
    async def answer(turn: Any) -> None:
        await turn.ask_permission("wait")

    async with agent_served(agent) as peer:
        session = await open_session(peer)
        peer.send(prompting(session))
        await peer.expect(method="session/request_permission")
        why = {"sessionId": session, "reason": "User cancelled"}
        peer.send({"jsonrpc": "2.0", "method": "session/cancel", "params": why})
        await peer.expect(method="$/cancel_request")
        await peer.expect(id="prompt", result={"stopReason": "cancelled"})


@pytest.mark.parametrize(
    ("method", "refusal"),
    [
        ("session/resume", {"code": -32601, "message": "Method not found"}),
        ("session/load", {"code": -32603, "message": "No previous sessions found"}),
        ("session/load", {"code": -32602, "message": "Session s1 is already loaded"}),
    ],
)
async def test_an_advertised_method_may_be_refused_and_the_session_continues(
    method: str, refusal: dict[str, Any]
) -> None:
    """docs/protocol/peers.md#offered-but-missing"""

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "session/new", {"sessionId": SESSION})
        peer.send(error(await peer.expect(method=method), refusal))
        asked = await peer.expect(method="session/prompt")
        peer.send(chunk("alive"))
        peer.send(result(asked, {"stopReason": "end_turn"}))

    async with client(part, {"agentCapabilities": ALL}) as agent:
        session = await agent.open_session("/")
        with pytest.raises(ProtocolError) as caught:
            await (agent.load_session if method == "session/load" else agent.resume_session)(session.id, "/")
        assert caught.value.code == refusal["code"]
        assert await session.ask("go") == "alive"


DIFF = {"type": "diff", "path": "/a", "oldText": None, "newText": "x"}


@pytest.mark.parametrize(
    "frame",
    [
        update("tool_call", toolCallId="c", title="t", content=[DIFF]),
        update("tool_call", toolCallId="c", title="t", content=[{**DIFF, "oldText": "", "_meta": {"kind": "add"}}]),
        update("tool_call", toolCallId="c", title="t", locations=[{"path": "/a", "line": None}]),
        update("tool_call", toolCallId="c", title="t", locations=[{"path": "/a", "line": 0}]),
        update("tool_call", toolCallId="c", title="t", rawInput=None, content=None, kind=None, status=None),
        update("tool_call_update", toolCallId="c", title=None, locations=None),
        update("available_commands_update", availableCommands=[{"name": "a", "description": "b", "input": None}]),
        update("usage_update", used=1, size=2, cost=None),
        update("session_info_update", title=None, updatedAt=None),
    ],
)
def test_null_members_count_as_absent(frame: dict[str, Any]) -> None:
    """docs/protocol/peers.md#nulls"""
    session = run(receive_frames(frame))
    assert len(session.updates_outside_turns) == 1
    assert not isinstance(session.updates_outside_turns[0], Unknown)


async def test_null_members_of_results_count_as_absent() -> None:
    """docs/protocol/peers.md#nulls"""
    option = {"id": "m", "name": "M", "description": None, "type": "select", "currentValue": "a", "category": None}
    choices = [{"value": "a", "name": "A", "description": None}]

    async def part(peer: ScriptedPeer) -> None:
        opened = {"sessionId": SESSION, "modes": None, "configOptions": [{**option, "options": choices}], "_meta": None}
        await serve(peer, "session/new", opened)
        listed = {"sessions": [{"sessionId": "a", "cwd": "/", "title": None, "updatedAt": None}], "nextCursor": None}
        await serve(peer, "session/list", listed)
        await serve(peer, "session/prompt", {"stopReason": "end_turn", "usage": None})

    async with client(part, {"agentCapabilities": ALL, "agentInfo": None, "authMethods": None}) as agent:
        session = await agent.open_session("/")
        assert agent.info is None
        assert [choice.value for choice in session.options[0].values] == ["a"]
        page = await agent.list_sessions()
        assert [one.session_id for one in page.sessions] == ["a"]
        assert not page.next_cursor
        assert await session.ask("go") == ""


@pytest.mark.parametrize(
    "introduction",
    [
        {},
        {"agentCapabilities": {}},
        {"agentCapabilities": {"mcpCapabilities": {}, "promptCapabilities": {}, "sessionCapabilities": {}}},
        {"agentCapabilities": {"loadSession": False}, "agentInfo": {"name": "a", "version": "1"}},
    ],
)
async def test_an_agent_may_answer_initialize_with_almost_no_members(introduction: dict[str, Any]) -> None:
    """docs/protocol/peers.md#absent-members"""

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "session/new", {"sessionId": SESSION})

    async with client(part, introduction) as agent:
        await agent.open_session("/")
        with pytest.raises(ProtocolError) as caught:
            await agent.load_session("x", "/")
        assert caught.value.kind == Kind.CAPABILITY_UNSUPPORTED


@pytest.mark.parametrize(
    "introduction",
    [{}, {"clientCapabilities": {}}, {"clientCapabilities": {"fs": {}, "auth": {}}}, {"clientCapabilities": None}],
)
async def test_a_client_may_send_initialize_with_almost_no_members(introduction: dict[str, Any]) -> None:
    """docs/protocol/peers.md#absent-members: no capabilities are none, and such a client is not asked for files."""
    agent = Agent("reader", version="1")

    @agent.prompt
    async def answer(turn: Any) -> None:
        await turn.say(str(turn.terminals.uses_client))

    async with agent_served(agent, introduction) as peer:
        peer.send(prompting(await open_session(peer)))
        await peer.expect(params={"update": {"content": {"text": "False"}}})


@pytest.mark.parametrize(
    "meta", [{}, {"field_meta": {"a": 1}}, {"terminal-auth": {"command": "x"}}, {"claudeCode": {"toolName": "Read"}}]
)
def test_meta_is_kept_on_every_object(meta: dict[str, Any]) -> None:
    """docs/protocol/peers.md#meta-shapes"""
    chunk = update("agent_message_chunk", _meta=meta, content={"type": "text", "text": "x", "_meta": meta})
    chunk["params"]["_meta"] = meta
    session = run(receive_frames(chunk))
    (received,) = session.updates_outside_turns
    assert received.meta == meta
    assert received.content.meta == meta


def test_an_unknown_terminal_is_shown_and_not_looked_up() -> None:
    """docs/protocol/peers.md#foreign-terminals: codex names its own call where a terminal's id is due."""
    block = {"type": "terminal", "terminalId": "call_1", "_meta": {"terminal_info": {"cwd": "/"}}}
    session = run(receive_frames(update("tool_call", toolCallId="call_1", title="ls", content=[block])))
    (content,) = session.tool_calls["call_1"].content
    assert isinstance(content, TerminalEmbed)
    assert content.terminal_id == "call_1"


def test_an_unknown_kind_of_update_is_delivered_unchanged_and_not_answered() -> None:
    """docs/protocol/peers.md#unknown-updates, docs/protocol/peers.md#sdk-unknown-update"""
    session = run(receive_frames(update("brand_new_update_kind", stuff=[1, {"a": None}]), chunk("after")))
    unknown, after = session.updates_outside_turns
    assert isinstance(unknown, Unknown)
    assert (unknown.tag, unknown.raw["stuff"]) == ("brand_new_update_kind", [1, {"a": None}])
    assert isinstance(after, AgentMessageChunk)


def test_unknown_content_is_delivered_unchanged() -> None:
    """docs/protocol/peers.md#unknown-updates"""
    session = run(receive_frames(update("agent_message_chunk", content={"type": "hologram", "data": 1})))
    (received,) = session.updates_outside_turns
    assert isinstance(received.content, Unknown)
    assert received.content.tag == "hologram"


URL = "https://agentclientprotocol.com/protocol/session-modes#agent"


@pytest.mark.parametrize(
    "session_id", ["ses_e1f74f042ffe94LUmHgIQTu0T2", "2611151854-9cS2PP", "excellent-taupe-hound", "0", "", "a b/ü\n"]
)
async def test_ids_may_be_any_text(session_id: str) -> None:
    """docs/protocol/peers.md#id-texts: sessions of all shapes, modes that are URLs, values with brackets and bars."""
    modes = {"currentModeId": URL, "availableModes": [{"id": URL, "name": "A"}, {"id": URL + "2", "name": "B"}]}
    option = {"id": "$runtime|openai", "name": "R", "type": "select", "currentValue": "a[low]", "options": []}

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "session/new", {"sessionId": session_id, "modes": modes, "configOptions": [option]})
        asked = await serve(peer, "session/set_mode", {})
        assert asked["params"] == {"sessionId": session_id, "modeId": URL + "2"}
        asked = await serve(peer, "session/set_config_option", {"configOptions": [option]})
        assert asked["params"] == {"sessionId": session_id, "configId": "$runtime|openai", "value": "b[low]"}
        asked = await peer.expect(method="session/prompt", params={"sessionId": session_id})
        peer.send(chunk("yes", session_id))
        peer.send(result(asked, {"stopReason": "end_turn"}))

    async with client(part) as agent:
        session = await agent.open_session("/")
        await session.set_mode(URL + "2")
        await session.set_option("$runtime|openai", "b[low]")
        assert await session.ask("go") == "yes"


async def test_a_session_list_with_missing_members_is_read() -> None:
    """docs/protocol/peers.md#session-lists: times without a zone, sessions of other folders, _meta."""
    listed = [
        {"sessionId": "a", "cwd": "/one", "updatedAt": "2026-11-15T18:54:12.624176"},
        {"sessionId": "b", "cwd": "/two", "updatedAt": "2026-11-15T18:54:12Z", "_meta": {"size": 1}},
        {"sessionId": "c", "cwd": "/two", "odd": True},
    ]

    async def part(peer: ScriptedPeer) -> None:
        asked = await serve(peer, "session/list", {"sessions": listed, "_meta": {}})
        assert asked["params"] == {}
        await serve(peer, "session/list", {"sessions": []})

    async with client(part, {"agentCapabilities": ALL}) as agent:
        page = await agent.list_sessions()
        assert [(one.session_id, one.cwd) for one in page.sessions] == [("a", "/one"), ("b", "/two"), ("c", "/two")]
        assert page.sessions[0].updated_at == "2026-11-15T18:54:12.624176"
        assert (await agent.list_sessions(cwd="/two")).sessions == []


def test_empty_chunks_are_delivered() -> None:
    """docs/protocol/peers.md#empty-chunks: qwen and fast-agent send them for their _meta; warnings come as text of the
    agent.
    """
    empty = update("agent_message_chunk", content={"type": "text", "text": ""}, _meta={"usage": {"tokens": 1}})
    session = run(receive_frames(chunk("Model metadata not found\n"), empty))
    assert [one.content.text for one in session.updates_outside_turns] == ["Model metadata not found\n", ""]
    assert session.updates_outside_turns[1].meta == {"usage": {"tokens": 1}}


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_history_arrives_before_the_answer_and_commands_after_it(method: str) -> None:
    """docs/protocol/peers.md#replay: also from agents that replay when they are only to resume; also for a session we
    have open.
    """

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "session/new", {"sessionId": SESSION})
        asked = await peer.expect(method=method)
        peer.send(update("user_message_chunk", content={"type": "text", "text": "q"}))
        peer.send(update("tool_call", toolCallId="c", title="t", status="completed"))
        peer.send(chunk("a"))
        peer.send(result(asked, {}))
        peer.send(update("available_commands_update", availableCommands=[{"name": "x", "description": ""}]))
        await serve(peer, "_end", {})

    async with client(part, {"agentCapabilities": ALL}) as agent:
        await agent.open_session("/")
        session = await (agent.load_session if method == "session/load" else agent.resume_session)(SESSION, "/")
        await agent.request("_end", {})
        kinds = [type(one).__name__ for one in session.updates_outside_turns]
        assert kinds == ["UserMessageChunk", "ToolCallStart", "AgentMessageChunk", "AvailableCommandsUpdate"]
        assert session.tool_calls["c"].status == "completed"
        assert [command.name for command in session.commands] == ["x"]


async def test_our_agent_replays_on_load_and_not_on_resume() -> None:
    """docs/protocol/peers.md#replay"""
    agent = Agent("talker", version="1")

    @agent.prompt
    async def answer(turn: Any) -> None:
        await turn.say("a")

    async with agent_served(agent) as peer:
        session = await open_session(peer)
        peer.send(prompting(session, text="q"))
        await peer.expect(params={"update": {"content": {"text": "a"}}})
        await peer.expect(id="prompt")
        params = {"sessionId": session, "cwd": "/", "mcpServers": []}
        peer.send({"jsonrpc": "2.0", "id": 1, "method": "session/resume", "params": params})
        await peer.expect(id=1, result={})
        peer.send({"jsonrpc": "2.0", "id": 2, "method": "session/load", "params": params})
        await peer.expect(params={"update": {"sessionUpdate": "user_message_chunk", "content": {"text": "q"}}})
        await peer.expect(params={"update": {"sessionUpdate": "agent_message_chunk", "content": {"text": "a"}}})
        await peer.expect(id=2, result={})


def test_an_update_may_have_only_meta() -> None:
    """docs/protocol/peers.md#info-with-only-meta: codex tells the state of its thread so; known values stay."""
    session = run(
        receive_frames(
            update("session_info_update", title="kept"),
            update("session_info_update", _meta={"codex": {"threadStatus": "active"}}),
            update("tool_call", toolCallId="guardian_assessment:1", title="Guardian Review", kind="think"),
        )
    )
    assert session.title == "kept"
    assert isinstance(session.updates_outside_turns[1], SessionInfoUpdate)
    assert session.tool_calls["guardian_assessment:1"].kind == "think"


STABLE = {
    Side.AGENT: [
        "initialize", "authenticate", "logout", "session/new", "session/load", "session/list", "session/delete",
        "session/resume", "session/close", "session/set_mode", "session/set_config_option", "session/prompt",
        "session/cancel", "$/cancel_request",
    ],
    Side.CLIENT: [
        "session/request_permission", "session/update", "fs/read_text_file", "fs/write_text_file", "terminal/create",
        "terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release", "elicitation/create",
        "elicitation/complete", "$/cancel_request",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("side", "name"), [(side, name) for side, names in STABLE.items() for name in names])
def test_every_stable_method_of_v1_has_a_row(side: Side, name: str) -> None:
    """docs/protocol/peers.md#stable-methods"""
    row = find_method(side, name)
    assert row is not None
    assert row.stability == "stable"
