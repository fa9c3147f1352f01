"""The requirements of the Banjo document on the wire: raw frames of both ends, and commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman import Agent, Turn, WorkspaceAccess
from dragoman.schema.config import ConfigChoice, SessionConfigOption, SessionMode
from dragoman.schema.content import EmbeddedResource, ImageContent, ResourceContents, ResourceLink, TextContent
from dragoman.schema.methods import METHODS
from dragoman.schema.permission import PermissionOption
from dragoman.schema.plan import PlanEntry
from dragoman.schema.update import AvailableCommand, ConfigOptionUpdate, UserMessageChunk
from dragoman.testing import ScriptedPeer
from tests.acceptance.official import (
    ALL,
    CWD,
    INFO,
    SESSION,
    begin,
    hello,
    hold,
    introduction,
    prompt,
    run_prompt,
    text,
)
from tests.acceptance.wire import (
    DRAGOMAN,
    Child,
    Json,
    acting,
    agent_played,
    call,
    client_of,
    note,
    result,
    run,
    serve,
)

KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")
MODES = [SessionMode(id=id, name=id) for id in ("default", "plan", "acceptEdits")]


def choice(id: str, *values: str, category: str | None = None) -> SessionConfigOption:
    """Return a select option; the first value is the current one."""
    option = SessionConfigOption(
        id=id,
        name=id.replace("_", " "),
        type="select",
        current_value=values[0],
        options=[ConfigChoice(value=value, name=value) for value in values],
    )
    if category is not None:
        option.category = category
    return option


def banjo(**acts: Any) -> Agent:
    """Return an agent with everything that a Banjo client gets when a session is opened."""
    options = [
        choice("auto_resume", "true", "false"),
        choice("route", "claude", "codex"),
        choice("primary_agent", "claude", "codex"),
        choice("model", "sonnet", "opus", "haiku", category="model"),
    ]
    agent = Agent("banjo", version="0.1.0", dialect="banjo", modes=MODES, options=options, mcp_sse=True)
    agent.prompt(acting(**acts))
    return agent


async def greet(turn: Turn) -> None:
    await turn.say("Hello!")


async def open_session(peer: ScriptedPeer, **more: Json) -> None:
    """Play the agent's part up to an open session."""
    await serve(peer, "initialize", introduction(promptCapabilities={}, sessionCapabilities={}))
    await serve(peer, "session/new", {"sessionId": SESSION, **more})


# --- methods and initialize -----------------------------------------------------------------------------------------


@pytest.mark.item("003-01")
async def test_our_agent_has_every_method_of_the_document() -> None:
    """What the client calls is served, what the agent calls is called, each under the document's name."""

    async def use_all(turn: Turn) -> None:
        await turn.files.write(f"{CWD}/a", await turn.files.read(f"{CWD}/a"))
        async with await turn.terminals.create("ls", cwd=CWD) as terminal:
            await terminal.output()
            await terminal.kill()
            await terminal.wait()
        await turn.ask_permission("May I?")

    agent = banjo(use_all=use_all, hold=hold)
    answers: Json = {
        "fs/read_text_file": {"content": "x"},
        "terminal/create": {"terminalId": "t"},
        "terminal/output": {"output": "", "truncated": False},
        "terminal/wait_for_exit": {"exitCode": 0},
        "session/request_permission": {"outcome": {"outcome": "cancelled"}},
    }

    async with client_of(agent) as peer:
        session = await begin(peer)
        assert "result" in await peer.request(1, "authenticate", {"methodId": "any"})
        assert "result" in await peer.request(2, "session/set_mode", {"sessionId": session, "modeId": "plan"})
        resumed = await peer.request(3, "unstable_resumeSession", {"sessionId": session, "cwd": CWD})
        assert set(resumed["result"]) == {"configOptions", "models", "modes"}
        peer.send(call(4, "session/prompt", prompt(session, "use_all")))
        called: list[str] = []
        while "result" not in (frame := await peer.receive()):
            if "id" in frame:
                called.append(frame["method"])
                peer.send(result(frame, answers.get(frame["method"], {})))
        assert called == [
            "fs/read_text_file",
            "fs/write_text_file",
            "terminal/create",
            "terminal/output",
            "terminal/kill",
            "terminal/wait_for_exit",
            "terminal/release",
            "session/request_permission",
        ]
        peer.send(call(5, "session/prompt", prompt(session, "hold")))
        await peer.expect(method="session/update", params={"update": {"sessionUpdate": "agent_message_chunk"}})
        peer.send(note("session/cancel", {"sessionId": session}))
        await peer.expect(id=5, result={"stopReason": "cancelled"})


@pytest.mark.item("003-01")
async def test_our_client_has_every_method_of_the_document(tmp_path: Path) -> None:
    """It calls the agent under the document's names, unstable_resumeSession included, and serves what it is asked."""
    (tmp_path / "a").write_text("x")

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "initialize", introduction(promptCapabilities={}, sessionCapabilities={}))
        await serve(peer, "authenticate", {})
        await serve(peer, "session/new", {"sessionId": SESSION})
        base = {"sessionId": SESSION}
        asked = await peer.expect(method="session/set_mode")
        assert asked["params"] == {**base, "modeId": "plan"}
        for method, params in (
            ("fs/read_text_file", {"path": str(tmp_path / "a")}),
            ("fs/write_text_file", {"path": str(tmp_path / "b"), "content": "y"}),
        ):
            assert "result" in await peer.request(8, method, {**base, **params})
        made = await peer.request(9, "terminal/create", {**base, "command": "true"})
        for method in ("output", "wait_for_exit", "kill", "release"):
            assert "result" in await peer.request(10, f"terminal/{method}", {**base, **made["result"]})
        peer.send(result(asked, {}))
        asked = await peer.expect(method="session/prompt")
        peer.send(
            note("session/update", {**base, "update": {"sessionUpdate": "agent_message_chunk", "content": text("x")}})
        )
        assert await peer.receive() == note("session/cancel", base)
        peer.send(result(asked, {"stopReason": "cancelled"}))
        resumed = await serve(peer, "unstable_resumeSession", {})
        assert resumed["params"]["sessionId"] == "earlier"

    async with agent_played(part, dialect="banjo", workspace=WorkspaceAccess()) as remote:
        await remote.authenticate("any")
        session = await remote.open_session(str(tmp_path))
        await session.set_mode("plan")
        async with session.prompt("go") as turn:
            async for _ in turn:
                turn.cancel()
        assert turn.stop_reason == "cancelled"
        await remote.resume_session("earlier", str(tmp_path))


@pytest.mark.item("003-02")
def test_initialize_always_has_its_required_members_and_a_missing_capability_is_false() -> None:
    """Names, capabilities and authMethods are there even when empty; a client that names nothing is asked nothing."""

    async def use(turn: Turn) -> None:
        connection = turn.session.connection
        for gate in ("fs.readTextFile", "fs.writeTextFile", "terminal"):
            await turn.say(str(connection.offers(f"client.{gate}")))

    async def serving() -> None:
        async with client_of(banjo(use=use)) as peer:
            params = {"protocolVersion": 1, "clientInfo": INFO, "clientCapabilities": {}}
            answer = (await peer.request(1, "initialize", params))["result"]
            assert {"protocolVersion", "agentInfo", "agentCapabilities", "authMethods"} <= set(answer)
            assert answer["agentInfo"] == {"name": "banjo", "version": "0.1.0"}
            assert answer["authMethods"] == []
            assert answer["agentCapabilities"]["promptCapabilities"] == {
                "image": False,
                "audio": False,
                "embeddedContext": True,
            }
            opened = await peer.request(2, "session/new", {"cwd": CWD})
            updates, _ = await run_prompt(peer, opened["result"]["sessionId"], "use")
            assert [update["content"]["text"] for update in updates] == ["False"] * 3

    async def part(peer: ScriptedPeer) -> None:
        values = {"protocolVersion": 1, "agentInfo": INFO, "agentCapabilities": {"promptCapabilities": {}}}
        asked = await serve(peer, "initialize", {**values, "authMethods": []})
        assert set(asked["params"]) == {"protocolVersion", "clientInfo", "clientCapabilities"}
        assert set(asked["params"]["clientInfo"]) == {"name", "version"}

    async def connecting() -> None:
        async with agent_played(part, dialect="banjo") as remote:
            assert not remote.connection.offers("agent.loadSession")
            assert not remote.connection.offers("agent.promptCapabilities.image")
            assert not remote.connection.offers("agent.mcpCapabilities.sse")

    run(serving())
    run(connecting())


@pytest.mark.item("003-03")
@pytest.mark.parametrize("params", [{"methodId": "x"}, {}, {"methodId": 7}, {"anything": [1]}, None, [1, 2], "text"])
async def test_authenticate_accepts_any_params(params: Json) -> None:
    """The answer is {}, from a process, whatever the params are; the session opens all the same."""

    async with Child("agent", "everything", "--dialect", "banjo") as agent:
        await agent.request(1, "initialize", hello())
        assert await agent.request(2, "authenticate", params) == result(2, {})
        assert "result" in await agent.request(3, "session/new", {"cwd": "/"})


# --- sessions -------------------------------------------------------------------------------------------------------


@pytest.mark.item("003-04")
async def test_the_result_of_session_new_has_options_models_and_modes() -> None:
    """cwd is needed and absolute, _meta is welcome, and none of the three lists is empty."""

    async with Child("agent", "everything", "--dialect", "banjo") as agent:
        await agent.request(1, "initialize", hello())
        opened = (await agent.request(2, "session/new", {"cwd": "/", "_meta": {"theirs": 1}}))["result"]
        assert opened["sessionId"]
        assert opened["configOptions"]
        assert opened["modes"]["availableModes"]
        assert opened["models"]["availableModels"]
        for params in ({}, {"cwd": "relative"}, {"cwd": None}, {"cwd": ""}):
            assert (await agent.request(3, "session/new", params))["error"]["code"] == -32602, params


@pytest.mark.item("003-05")
async def test_the_parts_of_a_new_session_have_the_documents_shapes() -> None:
    """SSE servers with headers and environment variables are read; options are select only; models have a state."""
    seen: list[Any] = []

    async def look(turn: Turn) -> None:
        seen.extend(turn.session.mcp_servers)

    agent = banjo(look=look)
    agent.options.append(SessionConfigOption(id="quiet", name="Quiet", type="boolean", current_value=False))
    headers = [{"name": "Authorization", "value": "Bearer x"}]
    servers = [
        {"type": "sse", "name": "far", "url": "https://example.org/sse", "headers": headers},
        {"name": "near", "command": "/bin/mcp", "args": [], "env": [{"name": "KEY", "value": "v"}]},
    ]

    async with client_of(agent) as peer:
        await peer.request(1, "initialize", hello())
        opened = (await peer.request(2, "session/new", {"cwd": CWD, "mcpServers": servers}))["result"]
        for option in opened["configOptions"]:
            assert option["type"] == "select"
            assert isinstance(option["currentValue"], str)
            assert option["currentValue"] in [value["value"] for value in option["options"]]
            assert all({"value", "name"} <= set(value) for value in option["options"])
        models = [{"id": name, "name": name} for name in ("sonnet", "opus", "haiku")]
        assert opened["models"] == {"availableModels": models, "currentModelId": "sonnet"}
        await run_prompt(peer, opened["sessionId"], "look")
        changed = {"sessionId": opened["sessionId"], "configId": "quiet", "value": "true"}
        options = (await peer.request(3, "session/set_config_option", changed))["result"]["configOptions"]
        assert [option["currentValue"] for option in options if option["id"] == "quiet"] == ["true"]
    far, near = seen
    assert (far.name, far.url) == ("far", "https://example.org/sse")
    assert [(header.name, header.value) for header in far.headers] == [("Authorization", "Bearer x")]
    assert [(variable.name, variable.value) for variable in near.env] == [("KEY", "v")]


URI = "file:///path/to/file.zig#L42:50"
BLOCKS: list[Json] = [
    {"type": "text", "text": "Explain"},
    {"type": "image", "data": "aWE=", "mimeType": "image/png"},
    {"type": "audio", "data": "aWE=", "mimeType": "audio/wav"},
    {"type": "resource", "resource": {"uri": URI, "text": "const a = 1;", "mimeType": "text/x-zig"}},
    {"type": "resource", "resource": {"uri": "file:///a.bin", "blob": "AAE="}},
    {
        "type": "resource_link",
        "uri": "file:///b.zig",
        "name": "b.zig",
        "title": "B",
        "description": "Another file",
        "size": 12,
        "mimeType": "text/x-zig",
    },
]


@pytest.mark.item("003-06")
def test_prompts_may_contain_every_content_block() -> None:
    """Our agent's author gets each block, lines and bytes of resources included; our client says them the same way."""
    seen: list[Any] = []
    agent = Agent("a", dialect="banjo", image=True, audio=True)

    @agent.prompt
    async def look(turn: Turn) -> None:
        seen.extend(turn.prompt)

    async def serving() -> None:
        async with client_of(agent) as peer:
            session = await begin(peer)
            answer = await peer.request(3, "session/prompt", {"sessionId": session, "prompt": BLOCKS})
            assert answer == result(3, {"stopReason": "end_turn"})

    run(serving())
    assert (seen[0].text, seen[1].mime_type, seen[2].mime_type) == ("Explain", "image/png", "audio/wav")
    assert (seen[3].resource.uri, seen[3].resource.text) == (URI, "const a = 1;")
    assert (seen[4].resource.form, seen[4].resource.blob) == ("blob", "AAE=")
    assert (seen[5].name, seen[5].title, seen[5].size) == ("b.zig", "B", 12)

    async def part(peer: ScriptedPeer) -> None:
        await open_session(peer)
        asked = await serve(peer, "session/prompt", {"stopReason": "end_turn"})
        assert asked["params"]["prompt"] == [BLOCKS[0], BLOCKS[1], BLOCKS[3], BLOCKS[5]]

    async def connecting() -> None:
        async with agent_played(part, dialect="banjo") as remote:
            session = await remote.open_session(CWD)
            contents = ResourceContents(uri=URI, text="const a = 1;", mime_type="text/x-zig")
            link = ResourceLink(
                uri="file:///b.zig",
                name="b.zig",
                title="B",
                description="Another file",
                size=12,
                mime_type="text/x-zig",
            )
            image = ImageContent(data="aWE=", mime_type="image/png")
            await session.ask([TextContent(text="Explain"), image, EmbeddedResource(resource=contents), link])

    run(connecting())


REASONS = ("end_turn", "cancelled", "max_tokens", "max_turn_requests", "auth_required", "refusal")


@pytest.mark.item("003-07")
def test_a_turn_stops_for_one_of_six_reasons() -> None:
    """Our agent says and our client understands all six, auth_required among them."""
    agent = Agent("a", dialect="banjo")

    @agent.prompt
    async def stop(turn: Turn) -> str:
        return turn.text

    async def serving() -> None:
        async with client_of(agent) as peer:
            session = await begin(peer)
            for reason in REASONS:
                assert (await run_prompt(peer, session, reason))[1]["result"] == {"stopReason": reason}

    async def part(peer: ScriptedPeer) -> None:
        await open_session(peer)
        for reason in REASONS:
            await serve(peer, "session/prompt", {"stopReason": reason})

    async def connecting() -> None:
        async with agent_played(part, dialect="banjo") as remote:
            session = await remote.open_session(CWD)
            for reason in REASONS:
                async with session.prompt("go") as turn:
                    await turn.wait()
                assert turn.stop_reason == reason

    run(serving())
    run(connecting())


@pytest.mark.item("003-15")
def test_each_stop_reason_has_its_documented_cause(tmp_path: Path) -> None:
    """Finished, too many tokens, too many requests, refused, cancelled: on the wire, and as the command's exit code."""

    async def talk() -> None:
        async with Child("agent", "everything", "--dialect", "banjo") as agent:
            await agent.request(1, "initialize", hello({}))
            session = (await agent.request(2, "session/new", {"cwd": "/"}))["result"]["sessionId"]
            for words, reason in (
                ("/echo done", "end_turn"),
                ("/error max_tokens", "max_tokens"),
                ("/error max_turn_requests", "max_turn_requests"),
                ("/error refusal", "refusal"),
            ):
                answer = await agent.request(3, "session/prompt", prompt(session, words))
                assert answer["result"]["stopReason"] == reason
            agent.send(call(4, "session/prompt", prompt(session, "/slow 300")))
            while (await agent.receive())["params"]["update"].get("status") != "in_progress":
                pass
            agent.send(note("session/cancel", {"sessionId": session}))
            assert (await agent.until(4))[-1]["result"]["stopReason"] == "cancelled"

    async def exit_code(words: str) -> int | None:
        command = [*DRAGOMAN, "agent", "everything", "--dialect", "banjo"]
        async with Child("run", "--dialect", "banjo", "--prompt", words, "--", *command, cwd=tmp_path) as ran:
            return (await ran.end())[0]

    run(talk())
    for words, code in (("/echo x", 0), ("/error refusal", 3), ("/error max_tokens", 4)):
        assert run(exit_code(words)) == code


@pytest.mark.item("003-09")
async def test_the_mode_is_set_by_modeid_or_by_the_older_mode() -> None:
    """Both are answered with {} and change the mode; where both are said, modeId counts."""

    async def respond(turn: Turn) -> None:
        await turn.say(str(turn.session.mode))

    async with client_of(banjo(respond=respond)) as peer:
        session = await begin(peer)
        for said_, mode in (
            ({"modeId": "plan"}, "plan"),
            ({"mode": "acceptEdits"}, "acceptEdits"),
            ({"modeId": "default", "mode": "plan"}, "default"),
        ):
            answer = await peer.request(3, "session/set_mode", {"sessionId": session, **said_})
            assert answer == result(3, {})
            assert (await run_prompt(peer, session, "respond"))[0][-1]["content"]["text"] == mode
        assert "error" in await peer.request(4, "session/set_mode", {"sessionId": session})


@pytest.mark.item("003-10")
def test_a_model_is_set_and_every_model_change_is_sent() -> None:
    """set_model is answered with {}; current_model_update tells of a change by the client and of one by the agent."""

    async def change(turn: Turn) -> None:
        await turn.set_option("model", "haiku")

    async def serving() -> None:
        async with client_of(banjo(change=change)) as peer:
            session = await begin(peer)
            start = len(peer.received)
            chosen = {"sessionId": session, "modelId": "opus"}
            assert await peer.request(3, "session/set_model", chosen) == result(3, {})
            received = [frame["params"] for frame in peer.received[start:-1]]
            update = {"sessionUpdate": "current_model_update", "currentModelId": "opus"}
            assert received == [{"sessionId": session, "update": update}]
            updates, _ = await run_prompt(peer, session, "change")
            assert updates[-1] == {"sessionUpdate": "current_model_update", "currentModelId": "haiku"}
            wrong = await peer.request(4, "session/set_model", {"sessionId": session, "modelId": "none"})
            assert wrong["error"]["code"] == -32602

    models = {
        "availableModels": [{"id": "sonnet", "name": "Sonnet"}, {"id": "opus", "name": "Opus"}],
        "currentModelId": "sonnet",
    }

    async def part(peer: ScriptedPeer) -> None:
        await open_session(peer, models=models)
        asked = await peer.expect(method="session/set_model")
        assert asked["params"] == {"sessionId": SESSION, "modelId": "opus"}
        peer.send(result(asked, {}))
        asked = await peer.expect(method="session/prompt")
        update = {"sessionUpdate": "current_model_update", "currentModelId": "sonnet"}
        peer.send(note("session/update", {"sessionId": SESSION, "update": update}))
        peer.send(result(asked, {"stopReason": "end_turn"}))

    async def connecting() -> None:
        async with agent_played(part, dialect="banjo") as remote:
            session = await remote.open_session(CWD)
            (option,) = session.options
            assert (option.category, option.current_value) == ("model", "sonnet")
            await session.set_option(option.id, "opus")
            assert session.options[0].current_value == "opus"
            async with session.prompt("go") as turn:
                (update,) = [update async for update in turn]
            assert isinstance(update, ConfigOptionUpdate)
            assert session.options[0].current_value == "sonnet"

    run(serving())
    run(connecting())


@pytest.mark.item("003-11")
@pytest.mark.parametrize("option", ["auto_resume", "route", "primary_agent"])
async def test_the_answer_to_setting_an_option_has_every_option(option: str) -> None:
    """The three options of the document are declared and set like any other; only the one is another afterwards."""

    async with client_of(banjo()) as peer:
        session = await begin(peer)
        before = {o["id"]: o["currentValue"] for o in peer.received[-1]["result"]["configOptions"]}
        value = "false" if option == "auto_resume" else "codex"
        params = {"sessionId": session, "configId": option, "value": value}
        options = (await peer.request(3, "session/set_config_option", params))["result"]["configOptions"]
        assert {o["id"]: o["currentValue"] for o in options} == {**before, option: value}
        assert {"auto_resume", "route", "primary_agent"} <= set(before)
        for wrong in ({"configId": "none"}, {"value": "none"}):
            answer = await peer.request(4, "session/set_config_option", {**params, **wrong})
            assert answer["error"]["code"] == -32602


# --- turns ----------------------------------------------------------------------------------------------------------


@pytest.mark.item("003-12")
def test_a_permission_request_has_the_tool_call_and_four_kinds_of_options() -> None:
    """Our agent asks so and understands both outcomes; our client answers a question with all four kinds."""
    options = [PermissionOption(option_id=f"o_{kind}", name=kind, kind=kind) for kind in KINDS]

    async def ask(turn: Turn) -> None:
        async with turn.tool("Run ls", kind="execute", input={"command": "ls"}, id="call_1") as tool:
            answer = await tool.ask_permission(options=options)
        await turn.say(f"{answer.kind} {bool(answer)}")

    async def serving() -> None:
        async with client_of(banjo(ask=ask)) as peer:
            session = await begin(peer)
            for outcome, shown in (
                ({"outcome": "selected", "optionId": "o_allow_always"}, "allow_always True"),
                ({"outcome": "selected", "optionId": "o_reject_always"}, "reject_always False"),
                ({"outcome": "cancelled"}, "cancelled False"),
            ):
                peer.send(call(3, "session/prompt", prompt(session, "ask")))
                while (frame := await peer.receive()).get("method") != "session/request_permission":
                    pass
                params = frame["params"]
                assert params["options"] == [{"optionId": f"o_{kind}", "name": kind, "kind": kind} for kind in KINDS]
                tool = params["toolCall"]
                assert (tool["toolCallId"], tool["title"], tool["kind"]) == ("call_1", "Run ls", "execute")
                assert tool["rawInput"] == {"command": "ls"}
                peer.send(result(frame, {"outcome": outcome}))
                while "result" not in (frame := await peer.receive()):
                    last = frame["params"]["update"]
                assert last["content"]["text"] == shown

    async def part(peer: ScriptedPeer) -> None:
        await open_session(peer)
        asked = await peer.expect(method="session/prompt")
        offered = [{"kind": kind, "name": kind, "optionId": f"o_{kind}"} for kind in KINDS]
        params = {"sessionId": SESSION, "toolCall": {"toolCallId": "c"}, "options": offered}
        for outcome in ({"outcome": "selected", "optionId": "o_allow_always"}, {"outcome": "cancelled"}):
            assert await peer.request(9, "session/request_permission", params) == result(9, {"outcome": outcome})
        peer.send(result(asked, {"stopReason": "end_turn"}))

    async def connecting() -> None:
        answers = iter(["o_allow_always", None])
        async with agent_played(part, dialect="banjo", permission=lambda _: next(answers)) as remote:
            await (await remote.open_session(CWD)).ask("go")

    run(serving())
    run(connecting())


@pytest.mark.item("003-13")
async def test_the_eight_updates_and_the_content_of_tool_calls() -> None:
    """All eight by sessionUpdate, with the key members of the document's table; a plan's entries have ids."""

    async def all_(turn: Turn) -> None:
        await turn.say("Hello!")
        await turn.send_update(UserMessageChunk(content=TextContent(text="you said")))
        await turn.think("Hm.")
        async with turn.tool("Edit a", kind="edit", input={"path": "/a"}, id="call_1") as tool:
            await tool.add_text("done")
            await tool.add_diff("/a", "old", "new")
            await tool.add_terminal("term_1")
            await tool.finish(output={"ok": True})
        await turn.plan(PlanEntry(content="Look", priority="high", status="pending"))
        await turn.set_commands(AvailableCommand(name="version", description="Which build"))
        await turn.set_mode("plan")

    async with client_of(banjo(all=all_)) as peer:
        updates, _ = await run_prompt(peer, await begin(peer), "all")
        assert [update["sessionUpdate"] for update in updates] == [
            "agent_message_chunk",
            "user_message_chunk",
            "agent_thought_chunk",
            "tool_call",
            "tool_call_update",
            "tool_call_update",
            "tool_call_update",
            "tool_call_update",
            "plan",
            "available_commands_update",
            "current_mode_update",
        ]
        message, user, thought, start = updates[:4]
        assert [update["content"] for update in (message, user, thought)] == [
            text("Hello!"),
            text("you said"),
            text("Hm."),
        ]
        assert {name: start[name] for name in ("toolCallId", "title", "kind", "status", "rawInput")} == {
            "toolCallId": "call_1",
            "title": "Edit a",
            "kind": "edit",
            "status": "pending",
            "rawInput": {"path": "/a"},
        }
        assert updates[6]["content"] == [
            {"type": "content", "content": text("done")},
            {"type": "diff", "path": "/a", "oldText": "old", "newText": "new"},
            {"type": "terminal", "terminalId": "term_1"},
        ]
        assert (updates[7]["status"], updates[7]["rawOutput"]) == ("completed", {"ok": True})
        (entry,) = updates[8]["entries"]
        assert {name: entry[name] for name in ("id", "content", "status")} == {
            "id": "1",
            "content": "Look",
            "status": "pending",
        }
        assert updates[9]["availableCommands"] == [{"name": "version", "description": "Which build"}]
        assert updates[10]["currentModeId"] == "plan"


@pytest.mark.item("003-08", "003-17")
async def test_updates_are_sent_during_a_turn_and_cancel_ends_it() -> None:
    """The first update arrives although the turn never ends by itself; cancel ends it, with its own stop reason."""

    async with client_of(banjo(hold=hold)) as peer:
        session = await begin(peer)
        peer.send(call(3, "session/prompt", prompt(session, "hold")))
        update = await peer.receive()
        assert update == note(
            "session/update",
            {"sessionId": session, "update": {"sessionUpdate": "agent_message_chunk", "content": text("Working")}},
        )
        peer.send(note("session/cancel", {"sessionId": session}))
        assert await peer.receive() == result(3, {"stopReason": "cancelled"})


@pytest.mark.item("003-16")
def test_unknown_fields_are_ignored() -> None:
    """In every message of a client and of an agent, at every depth, next to _meta."""
    odd: Json = {"futureField": {"deep": [1, None]}, "_meta": {"theirs": True}}

    async def serving() -> None:
        async with client_of(banjo(greet=greet)) as peer:
            capabilities = {**ALL, "fs": {**ALL["fs"], **odd}, **odd}  # type: ignore[dict-item]
            answer = await peer.request(1, "initialize", {**hello(capabilities), **odd})
            assert "result" in answer
            opened = await peer.request(2, "session/new", {"cwd": CWD, **odd})
            session = opened["result"]["sessionId"]
            mode = {"sessionId": session, "modeId": "plan", **odd}
            assert await peer.request(3, "session/set_mode", mode) == result(3, {})
            params = {"sessionId": session, "prompt": [{**text("greet"), **odd}], **odd}
            assert await peer.request(4, "session/prompt", params) == result(4, {"stopReason": "end_turn"})

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "initialize", {**introduction(promptCapabilities=odd, **odd), **odd})
        await serve(peer, "session/new", {"sessionId": SESSION, **odd})
        asked = await peer.expect(method="session/prompt")
        update = {"sessionUpdate": "agent_message_chunk", "content": {**text("Hello!"), **odd}, **odd}
        peer.send(note("session/update", {"sessionId": SESSION, "update": update, **odd}))
        peer.send(result(asked, {"stopReason": "end_turn", **odd}))

    async def connecting() -> None:
        async with agent_played(part, dialect="banjo") as remote:
            assert await (await remote.open_session(CWD)).ask("go") == "Hello!"

    run(serving())
    run(connecting())


@pytest.mark.item("003-18")
def test_the_two_error_codes_of_the_document_have_their_documented_cause() -> None:
    """-32000 where a login is needed, -32001 for another version of the protocol; our client reads them so."""
    agent = Agent("a", dialect="banjo", auth_required=True)

    @agent.authenticate("login")
    def check(_: Any) -> None: ...

    async def serving() -> None:
        async with client_of(agent) as peer:
            for version in (0, 2, 99):
                answer = await peer.request(1, "initialize", {**hello(), "protocolVersion": version})
                assert answer["error"]["code"] == -32001
            await peer.request(2, "initialize", hello())
            assert (await peer.request(3, "session/new", {"cwd": CWD}))["error"]["code"] == -32000
            await peer.request(4, "authenticate", {})
            assert "result" in await peer.request(5, "session/new", {"cwd": CWD})

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "initialize", introduction(promptCapabilities={}))
        asked = await peer.expect(method="session/new")
        peer.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32000, "message": "Log in"}})

    async def connecting() -> None:
        async with agent_played(part, dialect="banjo") as remote:
            with pytest.raises(dragoman.ProtocolError) as caught:
                await remote.open_session(CWD)
            assert caught.value.kind == dragoman.Kind.AUTH_REQUIRED

    run(serving())
    run(connecting())


@pytest.mark.item("003-26")
async def test_no_editing_of_messages_or_history_is_offered() -> None:
    """No method of any dialect, nothing announced by an agent, and no call of the public API edits what was said."""
    words = ("edit", "history", "rewind", "undo", "replay", "truncate", "regenerate", "amend", "message")
    methods = [name for _, name in METHODS if any(word in name for word in words)]
    assert methods == ["mcp/message", "mcp/message"]  # MCP's own messages
    public = [name for owner in (dragoman.ClientSession, dragoman.RemoteAgent) for name in vars(owner)]
    assert not [name for name in public if any(word in name.lower() for word in ("edit", "rewind", "undo", "amend"))]

    async with Child("agent", "everything", "--dialect", "banjo") as agent:
        capabilities = (await agent.request(1, "initialize", hello()))["result"]["agentCapabilities"]
        assert not [name for name in capabilities["sessionCapabilities"] if any(word in name for word in words)]
        session = (await agent.request(2, "session/new", {"cwd": "/"}))["result"]["sessionId"]
        for id, method in enumerate(("session/edit_message", "session/rewind", "session/truncate"), start=3):
            answer = await agent.request(id, method, {"sessionId": session, "index": 0, "messageId": "m"})
            assert answer["error"]["code"] == -32601
