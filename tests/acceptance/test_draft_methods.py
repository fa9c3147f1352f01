"""docs/protocol/draft.md#initialize to #update-frame: every method and notification of our agent and our client."""

from __future__ import annotations

import asyncio
import os
import re
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest

from dragoman import Agent, Kind, ProtocolError, Proxy, Turn, WorkspaceAccess
from dragoman.dialect.session_table import option_from_value
from dragoman.schema.auth import AuthenticateParams, AuthenticateResult
from dragoman.schema.config import ConfigChoice, SessionConfigOption, SessionMode
from dragoman.schema.content import EmbeddedResource, ResourceLink, TextContent
from dragoman.schema.fs import ReadTextFileParams, WriteTextFileParams
from dragoman.schema.prompt import StopReason, Usage
from dragoman.schema.session import NewSessionParams, SystemPrompt
from dragoman.schema.terminal import CreateTerminalParams, KillTerminalParams, WaitForExitParams
from dragoman.schema.toolcall import ToolKindName
from dragoman.schema.update import AgentMessageChunk, UpdateParams
from dragoman.transport.memory import memory_pair
from tests.acceptance.draft import (
    AGENT,
    CLIENT,
    CREATED,
    SESSION,
    Raw,
    during_turn,
    initialize,
    open_session,
    playing,
    prompted,
    run,
    serving,
    text_prompt,
)

MODES = [SessionMode(id=name, name=name.title()) for name in ("plan", "default", "code")]
OPTIONS = [
    SessionConfigOption(id="autoApprove", name="Approve", type="boolean", current_value=False),
    SessionConfigOption(
        id="model",
        name="Model",
        type="select",
        current_value="small",
        options=[ConfigChoice(value="small", name="Small"), ConfigChoice(value="large", name="Large")],
    ),
    option_from_value("maxTokens", 4096),
]
SLEEP = {"command": "sleep", "args": ["600"]}


def settable() -> Agent:
    """Return an agent with modes and options."""
    return Agent("settable", version="1", dialect="draft", modes=MODES, options=OPTIONS)


def doing(work: Any) -> Agent:
    """Return an agent that does this in every turn."""
    agent = Agent("worker", version="1", dialect="draft")
    agent.prompt(work)
    return agent


def side(**members: Any) -> dict[str, Any]:
    """Return what only the draft can carry, from a typed message."""
    return {"dragoman": members}


# --- 5.1.1 initialize -----------------------------------------------------------------------------------------


@pytest.mark.item("004-15")
async def test_initialize_has_every_field_and_its_meta() -> None:
    """All members of request and answer, `_meta` of both included, come through an interpreter as they were."""
    proxy = Proxy("between", client_dialect="draft", agent_dialect="draft")

    client_end, ours = memory_pair()
    theirs, agent_end = memory_pair()
    client, agent = Raw(client_end), Raw(agent_end)
    standing = asyncio.ensure_future(proxy.serve(ours, theirs))
    asked = initialize(CLIENT, _meta={"traceId": "t-1"})
    id = client.ask("initialize", asked)
    answer = await agent.expect(method="initialize")
    assert answer["params"] == asked
    result = {
        "protocolVersion": 1,
        "agentInfo": {"name": "Claude Agent", "version": "1.0.0"},
        "capabilities": AGENT,
        "_meta": {"build": {"number": 7}},
    }
    agent.reply(answer, result)
    assert (await client.answer(id))["result"] == result
    await client_end.close()
    await standing


@pytest.mark.item("004-15")
@pytest.mark.parametrize("version", [1, 2, 99])
async def test_our_agent_answers_with_the_negotiated_version_and_all_required_fields(version: int) -> None:
    """protocolVersion is an integer that both know: 1, whatever was asked for; a `_meta` disturbs nobody."""

    ours, theirs = memory_pair()
    connection = settable().start_connection(theirs)
    params = initialize(_meta={"experimental": True}) | {"protocolVersion": version}
    result = await Raw(ours).result("initialize", params)
    assert result["protocolVersion"] == 1
    assert result["agentInfo"] == {"name": "settable", "version": "1"}
    assert isinstance(result["capabilities"], dict)
    await connection.close()


# --- 5.1.2 authenticate ---------------------------------------------------------------------------------------


@pytest.mark.item("004-16")
async def test_our_agent_sends_success_with_expiry_and_failure_with_its_text() -> None:
    """A failure is a result with success false and an error text, not a JSON-RPC error; a success may expire."""
    agent = Agent("locked", version="1", dialect="draft")

    @agent.on("authenticate")
    async def authenticate(params: AuthenticateParams) -> AuthenticateResult:
        assert isinstance(params.meta, dict)
        if params.meta["dragoman"]["credentials"] != {"apiKey": "sk-right"}:
            raise ProtocolError(Kind.AUTH_REQUIRED, "this key is not known")
        return AuthenticateResult(meta=side(expiresAt="2026-03-01T00:00:00Z"))

    async with serving(agent) as client:
        wrong = {"method": "api_key", "credentials": {"apiKey": "sk-wrong"}}
        assert await client.result("authenticate", wrong) == {"success": False, "error": "this key is not known"}
        right = {"method": "api_key", "credentials": {"apiKey": "sk-right"}}
        values = {"success": True, "expiresAt": "2026-03-01T00:00:00Z"}
        assert await client.result("authenticate", right) == values


@pytest.mark.item("004-16")
async def test_our_client_sends_credentials_and_receives_success_failure_and_expiry() -> None:
    """Method and credentials on the wire; a success false is raised with its text, expiresAt can be read."""

    async def part(agent: Raw) -> None:
        asked = await agent.expect(method="authenticate")
        assert asked["params"] == {"method": "api_key", "credentials": {"apiKey": "sk-1"}}
        agent.reply(asked, {"success": False, "error": "unknown key"})
        asked = await agent.expect(method="authenticate")
        assert asked["params"] == {"method": "oauth2", "credentials": {"accessToken": "t"}}
        agent.reply(asked, {"success": True, "expiresAt": "2026-03-01T00:00:00Z"})

    async with playing(part) as remote:
        with pytest.raises(ProtocolError, match="unknown key") as refused:
            await remote.authenticate("api_key", {"apiKey": "sk-1"})
        assert refused.value.kind == Kind.AUTH_REQUIRED
        params = AuthenticateParams(method_id="oauth2", meta=side(credentials={"accessToken": "t"}))
        result = await remote.request("authenticate", params)
        assert result.meta["dragoman"]["expiresAt"] == "2026-03-01T00:00:00Z"


# --- 5.1.3 session/new ----------------------------------------------------------------------------------------


@pytest.mark.item("004-17")
async def test_our_agent_accepts_every_field_of_session_new() -> None:
    """Folder, servers, system prompt, initial mode and initial options are set when the session is answered for, and
    createdAt is an ISO 8601 time of now."""
    agent = settable()

    async with serving(agent) as client:
        before = datetime.now().astimezone()
        result = await client.result(
            "session/new",
            {
                "workingDirectory": "/home/user/project",
                "mcpServers": [{"name": "fs", "transport": {"type": "stdio", "command": "mcp-fs"}}],
                "systemPrompt": "Be brief.",
                "initialMode": "code",
                "configOptions": {"autoApprove": True, "model": "large", "maxTokens": 9000},
            },
        )
        assert result.keys() >= {"sessionId", "createdAt"}
        assert abs((datetime.fromisoformat(result["createdAt"]) - before).total_seconds()) < 60
        session = agent.sessions[result["sessionId"]]
        assert session.cwd == "/home/user/project"
        assert [server.name for server in session.mcp_servers] == ["fs"]
        assert session.system_prompt == "Be brief."
        assert session.mode == "code"
        loaded = await client.result("session/load", {"sessionId": session.id})
        assert loaded["mode"] == "code"
        assert loaded["configOptions"] == {"autoApprove": True, "model": "large", "maxTokens": 9000}
        assert client.params_of("session/update") == []  # no update of a session before its answer


@pytest.mark.item("004-17")
async def test_a_session_begins_in_the_default_mode_unless_one_is_named() -> None:
    """Though `plan` comes first in the agent's list; and only workingDirectory is required."""
    agent = settable()

    async with serving(agent) as client:
        session = await open_session(client)
        assert agent.sessions[session].mode == "default"
        assert (await client.result("session/load", {"sessionId": session}))["mode"] == "default"
        refused = await client.error("session/new", {"mcpServers": []})
        assert refused["code"] == -32602
        assert (await client.error("session/new", {"workingDirectory": "relative"}))["code"] == -32602


@pytest.mark.item("004-17")
async def test_our_client_sends_every_field_of_session_new() -> None:
    """What our client opens a session with stands in the draft's members, and nowhere else."""

    async def part(agent: Raw) -> None:
        asked = await agent.expect(method="session/new")
        assert asked["params"] == {
            "workingDirectory": "/home/user/project",
            "systemPrompt": "Be brief.",
            "initialMode": "plan",
            "configOptions": {"maxTokens": 9000},
            "mcpServers": [],
        }
        agent.reply(asked, {"sessionId": SESSION, "createdAt": CREATED})
        asked = await agent.expect(method="session/new")
        assert asked["params"] == {"workingDirectory": "/home/user/project", "initialMode": "code"}
        agent.reply(asked, {"sessionId": "sess_2", "createdAt": CREATED})

    async with playing(part) as remote:
        prompt = SystemPrompt(mode="append", content=[TextContent(text="Be brief.")])
        params = NewSessionParams(
            cwd="/home/user/project",
            mcp_servers=[],
            system_prompt=prompt,
            meta=side(initialMode="plan", configOptions={"maxTokens": 9000}),
        )
        result = await remote.request("session/new", params)
        assert result.meta["dragoman"]["createdAt"] == CREATED
        assert result.modes.current_mode_id == "plan"
        session = await remote.open_session("/home/user/project", mode="code")
        assert session.mode == "code"


# --- 5.1.5 session/prompt -------------------------------------------------------------------------------------


@pytest.mark.item("004-19")
async def test_our_agent_accepts_attachments() -> None:
    """Files by path (a relative one is in the working directory), by uri and by value come after the content."""
    got: list[Any] = []

    async def keep(turn: Turn) -> None:
        got.extend(turn.prompt)

    async with serving(doing(keep)) as client:
        attachments = [
            {"name": "auth.ts", "path": "/home/user/project/src/auth.ts", "mimeType": "text/typescript"},
            {"path": "src/b c.ts"},
            {"uri": "https://example.com/spec.md"},
            {"name": "dot.png", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
        ]
        answered = await prompted(client, await open_session(client), "see these", attachments=attachments)
        assert answered["result"]["stopReason"] == "end_turn"
    text, whole, relative, remote, data = got
    assert isinstance(text, TextContent)
    assert isinstance(whole, ResourceLink)
    assert (whole.name, whole.uri) == ("auth.ts", "file:///home/user/project/src/auth.ts")
    assert whole.mime_type == "text/typescript"
    assert isinstance(relative, ResourceLink)
    assert relative.uri == "file:///home/user/project/src/b%20c.ts"
    assert isinstance(remote, ResourceLink)
    assert remote.uri == "https://example.com/spec.md"
    assert isinstance(data, EmbeddedResource)
    assert (data.resource.blob, data.resource.mime_type) == ("iVBORw0KGgo=", "image/png")


@pytest.mark.item("004-19")
@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "error"])
async def test_our_agent_sends_the_stop_reason_and_the_usage(reason: str) -> None:
    """The stop reasons that an agent can give by itself, `error` included, with usage; `cancelled` is 004-14."""

    async def spend(turn: Turn) -> str:
        turn.token_usage = Usage(input_tokens=1500, output_tokens=2300, total_tokens=3800)
        return reason

    async with serving(doing(spend)) as client:
        result = (await prompted(client, await open_session(client)))["result"]
        assert result["stopReason"] == reason
        assert (result["usage"]["inputTokens"], result["usage"]["outputTokens"]) == (1500, 2300)


@pytest.mark.item("004-19")
async def test_our_client_attaches_files_and_reads_every_stop_reason() -> None:
    """Attachments leave in the member of that name, beside the content; all four reasons and usage are read."""
    reasons = ["end_turn", "cancelled", "max_tokens", "error"]
    attachment = {"name": "auth.ts", "path": "/home/user/project/src/auth.ts"}

    async def part(agent: Raw) -> None:
        agent.reply(await agent.expect(method="session/new"), {"sessionId": SESSION, "createdAt": CREATED})
        for reason in reasons:
            asked = await agent.expect(method="session/prompt")
            assert asked["params"] == {**text_prompt(SESSION), "attachments": [attachment]}
            agent.reply(asked, {"stopReason": reason, "usage": {"inputTokens": 3, "outputTokens": 4}})

    async with playing(part) as remote:
        session = await remote.open_session("/home/user/project")
        link = ResourceLink(
            name="auth.ts", uri="file:///home/user/project/src/auth.ts", meta=side(attachment=attachment)
        )
        for reason in reasons:
            async with session.prompt([TextContent(text="go"), link]) as turn:
                pass
            assert turn.stop_reason == reason
            assert turn.usage is not None
            assert (turn.usage.input_tokens, turn.usage.output_tokens) == (3, 4)
    assert {StopReason.END_TURN, StopReason.CANCELLED, StopReason.MAX_TOKENS, StopReason.ERROR} == set(reasons)


# --- 5.1.6 and 5.1.7 modes and options ------------------------------------------------------------------------


@pytest.mark.item("004-20")
async def test_our_agent_sends_the_previous_and_the_new_mode() -> None:
    """Also when the agent itself changed the mode in between; an unknown mode is refused and changes nothing."""
    agent = settable()

    async with serving(agent) as client:
        session = await open_session(client)

        async def change(mode: str) -> Any:
            return await client.result("session/set_mode", {"sessionId": session, "mode": mode})

        assert await change("plan") == {"previousMode": "default", "currentMode": "plan"}
        assert await change("code") == {"previousMode": "plan", "currentMode": "code"}
        agent.sessions[session].set_mode("default")
        assert await change("plan") == {"previousMode": "default", "currentMode": "plan"}
        refused = await client.error("session/set_mode", {"sessionId": session, "mode": "nonsense"})
        assert refused["code"] == -32602
        assert await change("plan") == {"previousMode": "plan", "currentMode": "plan"}


@pytest.mark.item("004-20")
async def test_our_client_sets_a_mode_in_the_form_of_the_draft() -> None:
    """`mode` on the wire, and the session is in the new mode after the answer."""

    async def part(agent: Raw) -> None:
        agent.reply(await agent.expect(method="session/new"), {"sessionId": SESSION, "createdAt": CREATED})
        asked = await agent.expect(method="session/set_mode")
        assert asked["params"] == {"sessionId": SESSION, "mode": "plan"}
        agent.reply(asked, {"previousMode": "default", "currentMode": "plan"})

    async with playing(part) as remote:
        session = await remote.open_session("/home/user/project")
        assert session.mode == "default"
        await session.set_mode("plan")
        assert session.mode == "plan"


VALUES: list[Any] = [True, "large", 8192, 0.5, None, ["a", 1], {"deep": {"er": [None, False]}}]


@pytest.mark.item("004-21")
async def test_our_agent_accepts_any_json_value_for_an_option_and_sends_both_values() -> None:
    """One after the other into a free option; choices and switches tell both values too, and refuse what they lack."""

    async with serving(settable()) as client:
        session = await open_session(client)

        async def change(key: str, value: Any) -> Any:
            return await client.call("session/set_config_option", {"sessionId": session, "key": key, "value": value})

        before: Any = 4096
        for value in VALUES:
            result = (await change("maxTokens", value))["result"]
            assert (result["key"], result["previousValue"], result["currentValue"]) == ("maxTokens", before, value)
            assert type(result["currentValue"]) is type(value)
            before = value
        result = (await change("autoApprove", True))["result"]
        assert (result["previousValue"], result["currentValue"]) == (False, True)
        result = (await change("model", "large"))["result"]
        assert (result["previousValue"], result["currentValue"]) == ("small", "large")
        assert (await change("model", "huge"))["error"]["code"] == -32602
        loaded = await client.result("session/load", {"sessionId": session})
        assert loaded["configOptions"] == {"autoApprove": True, "model": "large", "maxTokens": VALUES[-1]}


@pytest.mark.item("004-21", "004-72")
@pytest.mark.parametrize("value", VALUES, ids=repr)
async def test_our_client_sets_any_json_value(value: Any) -> None:
    """`key` and the value itself on the wire; what the agent says it is now is the option's value."""

    async def part(agent: Raw) -> None:
        agent.reply(await agent.expect(method="session/new"), {"sessionId": SESSION, "createdAt": CREATED})
        asked = await agent.expect(method="session/set_config_option")
        assert asked["params"] == {"sessionId": SESSION, "key": "maxTokens", "value": value}
        assert type(asked["params"]["value"]) is type(value)
        agent.reply(asked, {"key": "maxTokens", "previousValue": 1, "currentValue": 2})

    async with playing(part) as remote:
        session = await remote.open_session("/home/user/project")
        await session.set_option("maxTokens", value)
        [option] = [option for option in session.options if option.id == "maxTokens"]
        assert isinstance(option.meta, dict)
        assert option.meta["dragoman"]["value"] == 2


# --- 5.2.1 session/request_permission (that scopes last comes with the grants) --------------------------------

OPERATIONS = {
    "read": "file_read",
    "edit": "file_write",
    "delete": "file_delete",
    "execute": "terminal_execute",
    "fetch": "network_access",
    "other": "mcp_tool",
}


async def test_our_agent_asks_for_each_of_the_six_operations_with_resource_and_reason() -> None:
    """The question as the table says it; each answer, with any scope, is a yes or a no to the author."""
    answers: list[bool] = []

    async def ask(turn: Turn) -> None:
        for kind in OPERATIONS:
            name = cast(ToolKindName, kind)
            tool = turn.tool("Work", kind=name, input={"command": "c", "url": "c"}, paths=[f"/p/{kind}"])
            async with tool as call:
                answers.append(bool(await call.ask_permission("because it must be")))

    scopes: list[Any] = [
        {"granted": True, "scope": "once"},
        {"granted": True, "remember": True, "scope": "session"},
        {"granted": True, "remember": True, "scope": "workspace"},
        {"granted": True, "remember": True, "scope": "always"},
        {"granted": True},
        {"granted": False},
    ]
    async with serving(doing(ask)) as client:
        client.answers["session/request_permission"] = lambda _: scopes.pop(0)
        session = await open_session(client)
        await prompted(client, session)
        asked = client.params_of("session/request_permission")
        assert [params["operation"] for params in asked] == list(OPERATIONS.values())
        calls = [data["id"] for data in client.updates("tool_call")]
        for params, call in zip(asked, calls, strict=True):
            assert params["sessionId"] == session
            assert params["resource"] in {"c", *(f"/p/{kind}" for kind in OPERATIONS)}
            assert (params["reason"], params["toolCallId"]) == ("because it must be", call)
    assert answers == [True] * 5 + [False]


@pytest.mark.parametrize(
    ("chosen", "answer"),
    [
        ("once", {"granted": True, "scope": "once"}),
        ("session", {"granted": True, "remember": True, "scope": "session"}),
        ("workspace", {"granted": True, "remember": True, "scope": "workspace"}),
        ("always", {"granted": True, "remember": True, "scope": "always"}),
        ("deny", {"granted": False}),
    ],
)
async def test_our_clients_user_chooses_the_scope_of_a_permission(tmp_path: Path, chosen: str, answer: Any) -> None:
    """Every operation is put to the user with the four scopes and a no; the answer is the draft's."""
    seen: list[Any] = []

    def permission(params: Any) -> str:
        seen.append([option.option_id for option in params.options])
        return chosen

    async def part(agent: Raw) -> None:
        for operation in OPERATIONS.values():
            params = {"sessionId": SESSION, "operation": operation, "resource": "/x", "reason": "why"}
            assert await agent.result("session/request_permission", params) == answer

    await during_turn(tmp_path, part, permission=permission)
    assert seen == [["once", "session", "workspace", "always", "deny"]] * 6


# --- 5.2.2 fs/read_text_file ----------------------------------------------------------------------------------


@pytest.mark.item("004-23", "004-72")
async def test_our_client_reads_with_encoding_and_line_range(tmp_path: Path) -> None:
    """Lines count from 1 and endLine is included; the answer names the encoding, all lines and whether it was cut."""
    text = "één\ntwee\ndrie\nvier\n"
    (tmp_path / "utf8.txt").write_text(text, encoding="utf-8")
    (tmp_path / "latin.txt").write_text(text, encoding="latin-1")
    (tmp_path / "wide.txt").write_text(text, encoding="utf-16")

    async def part(agent: Raw) -> None:
        async def read(name: str, **members: Any) -> Any:
            return await agent.call("fs/read_text_file", {"path": str(tmp_path / name), **members})

        whole = {"content": text, "totalLines": 4, "truncated": False}
        assert (await read("utf8.txt"))["result"] == {**whole, "encoding": "utf-8"}
        assert (await read("latin.txt", encoding="latin-1"))["result"] == {**whole, "encoding": "latin-1"}
        assert (await read("wide.txt", encoding="utf-16"))["result"] == {**whole, "encoding": "utf-16"}
        first = (await read("utf8.txt", startLine=1, endLine=1))["result"]
        assert first == {"content": "één", "encoding": "utf-8", "totalLines": 4, "truncated": True}
        middle = (await read("latin.txt", encoding="latin-1", startLine=2, endLine=3))["result"]
        assert middle == {"content": "twee\ndrie", "encoding": "latin-1", "totalLines": 4, "truncated": True}
        rest = (await read("utf8.txt", startLine=3))["result"]
        assert rest == {"content": "drie\nvier\n", "encoding": "utf-8", "totalLines": 4, "truncated": False}
        head = (await read("utf8.txt", endLine=2))["result"]
        assert head == {"content": "één\ntwee", "encoding": "utf-8", "totalLines": 4, "truncated": True}
        assert (await read("latin.txt"))["error"]["code"] == -32602  # it is no UTF-8, and nothing is guessed
        assert (await read("utf8.txt", encoding="no-such"))["error"]["code"] == -32602
        assert (await read("missing.txt"))["error"]["code"] == -32004

    await during_turn(tmp_path, part, workspace=WorkspaceAccess())


@pytest.mark.item("004-23", "004-72")
async def test_our_agent_reads_with_encoding_and_line_range() -> None:
    """startLine and endLine, both counted, and the encoding are on the wire; the result's other members can be read."""
    got: list[Any] = []

    async def read(turn: Turn) -> None:
        got.append(await turn.files.read("/home/user/project/a.txt"))
        got.append(await turn.files.read("/home/user/project/a.txt", line=5, limit=3))
        params = ReadTextFileParams(
            session_id=turn.session.id, path="/home/user/project/b.txt", meta=side(encoding="latin-1")
        )
        got.append((await turn.session.request("fs/read_text_file", params)).meta["dragoman"])

    async with serving(doing(read)) as client:
        values = {"content": "x", "encoding": "latin-1", "totalLines": 9, "truncated": True}
        client.answers["fs/read_text_file"] = lambda _: values
        await prompted(client, await open_session(client))
        assert client.params_of("fs/read_text_file") == [
            {"path": "/home/user/project/a.txt"},
            {"path": "/home/user/project/a.txt", "startLine": 5, "endLine": 7},
            {"path": "/home/user/project/b.txt", "encoding": "latin-1"},
        ]
    assert got[:2] == ["x", "x"]
    assert got[2] == {"encoding": "latin-1", "totalLines": 9, "truncated": True}


# --- 5.2.3 fs/write_text_file ---------------------------------------------------------------------------------


@pytest.mark.item("004-24", "004-72")
async def test_our_client_writes_with_encoding_directories_and_overwrite(tmp_path: Path) -> None:
    """bytesWritten counts bytes of the encoding, created tells a new file; folders are made only when asked for, and
    an existing file is left alone when overwrite is false."""

    async def part(agent: Raw) -> None:
        async def write(name: str, content: str, **members: Any) -> Any:
            params = {"path": str(tmp_path / name), "content": content, **members}
            return await agent.call("fs/write_text_file", params)

        assert (await write("a.txt", "één"))["result"] == {"bytesWritten": 5, "created": True}
        assert (tmp_path / "a.txt").read_bytes() == "één".encode()
        assert (await write("a.txt", "één", encoding="latin-1"))["result"] == {"bytesWritten": 3, "created": False}
        assert (tmp_path / "a.txt").read_bytes() == "één".encode("latin-1")
        assert (await write("new/deep/b.txt", "x"))["error"]["code"] == -32004
        assert not (tmp_path / "new").exists()
        made = await write("new/deep/b.txt", "x", createDirectories=True)
        assert made["result"] == {"bytesWritten": 1, "created": True}
        assert (tmp_path / "new/deep/b.txt").read_text() == "x"
        refused = await write("a.txt", "lost", overwrite=False)
        assert refused["error"]["code"] == -32602
        assert "exists" in refused["error"]["message"]
        assert (tmp_path / "a.txt").read_bytes() == "één".encode("latin-1")
        fresh = await write("c.txt", "kept", overwrite=False)
        assert fresh["result"] == {"bytesWritten": 4, "created": True}
        assert (await write("c.txt", "over", overwrite=True))["result"] == {"bytesWritten": 4, "created": False}
        assert (await write("d.txt", "€", encoding="latin-1"))["error"]["code"] == -32602
        assert not (tmp_path / "d.txt").exists()

    await during_turn(tmp_path, part, workspace=WorkspaceAccess())


@pytest.mark.item("004-24", "004-72")
async def test_our_agent_writes_with_encoding_directories_and_overwrite() -> None:
    """Path and content alone for a plain write; the other members when the author gives them; both results read."""
    got: list[Any] = []

    async def write(turn: Turn) -> None:
        await turn.files.write("/home/user/project/a.txt", "text")
        params = WriteTextFileParams(
            session_id=turn.session.id,
            path="/home/user/project/b.txt",
            content="text",
            meta=side(encoding="latin-1", createDirectories=True, overwrite=False),
        )
        got.append((await turn.session.request("fs/write_text_file", params)).meta["dragoman"])

    async with serving(doing(write)) as client:
        client.answers["fs/write_text_file"] = lambda _: {"bytesWritten": 4, "created": True}
        await prompted(client, await open_session(client))
        assert client.params_of("fs/write_text_file") == [
            {"path": "/home/user/project/a.txt", "content": "text"},
            {
                "path": "/home/user/project/b.txt",
                "content": "text",
                "encoding": "latin-1",
                "createDirectories": True,
                "overwrite": False,
            },
        ]
    assert got == [{"bytesWritten": 4, "created": True}]


# --- 5.2.4 to 5.2.8 terminals: our client's -------------------------------------------------------------------


def pushes(agent: Raw) -> None:
    """Receive pushed output."""
    agent.answers["terminal/output"] = lambda _: {"received": True}


@pytest.mark.item("004-25", "004-72")
async def test_our_client_starts_a_command_with_args_folder_environment_and_timeout(tmp_path: Path) -> None:
    """Each argument stays one, cwd may be relative to the working directory, env is a map, the pid is that of the
    process; what runs longer than the timeout in milliseconds is ended."""
    (tmp_path / "sub").mkdir()

    async def part(agent: Raw) -> None:
        pushes(agent)
        created = await agent.result(
            "terminal/create",
            {
                "command": "sh",
                "args": ["-c", 'echo "$1|$WORD|$(pwd)|$$"', "sh", "two words"],
                "cwd": "sub",
                "env": {"WORD": "a b"},
            },
        )
        terminal = {"terminalId": created["terminalId"]}
        assert (await agent.result("terminal/wait_for_exit", terminal))["exitCode"] == 0
        printed = "".join(params["data"] for params in agent.params_of("terminal/output"))
        assert printed.strip().split("|") == ["two words", "a b", str(tmp_path / "sub"), str(created["pid"])]
        limited = await agent.result("terminal/create", {**SLEEP, "timeout": 50})
        assert Path("/proc", str(limited["pid"])).exists()
        ended = await agent.result("terminal/wait_for_exit", {"terminalId": limited["terminalId"]})
        assert ended == {"exitCode": 143, "signal": "SIGTERM", "timedOut": True}
        assert (await agent.error("terminal/create", {"command": "no-such-command-here"}))["code"] == -32004

    await during_turn(tmp_path, part, workspace=WorkspaceAccess())


@pytest.mark.item("004-26")
async def test_our_client_pushes_output_while_the_command_runs_each_stream_by_its_name(tmp_path: Path) -> None:
    """The agent asks for nothing: what is written to stdout and stderr arrives labeled while the command still waits
    for us, and the rest before the answer to the wait."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)

    async def part(agent: Raw) -> None:
        pushes(agent)
        line = "echo out; echo err >&2; read _ < gate; echo last"
        created = await agent.result("terminal/create", {"command": "sh", "args": ["-c", line]})
        values: dict[str, str] = {}
        while values != {"stdout": "out\n", "stderr": "err\n"}:
            push = await agent.wait_for_call("terminal/output")
            assert push["params"].keys() == {"terminalId", "data", "stream"}
            assert push["params"]["terminalId"] == created["terminalId"]
            values[push["params"]["stream"]] = values.get(push["params"]["stream"], "") + push["params"]["data"]
            agent.reply(push, {"received": True})
        assert Path("/proc", str(created["pid"])).exists()
        await asyncio.to_thread(gate.write_text, "go\n")
        ended = await agent.result("terminal/wait_for_exit", {"terminalId": created["terminalId"]})
        assert ended == {"exitCode": 0}
        last = agent.params_of("terminal/output")[-1]
        assert (last["data"], last["stream"]) == ("last\n", "stdout")

    await during_turn(tmp_path, part, workspace=WorkspaceAccess())


@pytest.mark.item("004-26")
async def test_an_agent_that_ignores_pushed_output_causes_no_error(tmp_path: Path) -> None:
    """Pushes that are refused, or never answered, hold nothing up."""

    async def part(agent: Raw) -> None:
        created = await agent.result("terminal/create", {"command": "echo", "args": ["hello"]})
        id = agent.ask("terminal/wait_for_exit", {"terminalId": created["terminalId"]})
        await agent.wait_for_call("terminal/output")  # and no answer
        assert (await agent.answer(id))["result"] == {"exitCode": 0}
        created = await agent.result("terminal/create", {"command": "echo", "args": ["again"]})
        assert (await agent.result("terminal/wait_for_exit", {"terminalId": created["terminalId"]}))["exitCode"] == 0

    await during_turn(tmp_path, part, workspace=WorkspaceAccess())


@pytest.mark.item("004-27")
async def test_our_client_stops_waiting_after_the_timeout_and_reports_it(tmp_path: Path) -> None:
    """timedOut is true, the command runs on, and a later wait tells how it really ended."""

    async def part(agent: Raw) -> None:
        pushes(agent)
        created = await agent.result("terminal/create", SLEEP)
        terminal = {"terminalId": created["terminalId"]}
        waited = await agent.result("terminal/wait_for_exit", {**terminal, "timeout": 20})
        assert waited["timedOut"] is True
        assert isinstance(waited["exitCode"], int)
        assert Path("/proc", str(created["pid"])).exists()
        await agent.result("terminal/kill", terminal)
        ended = await agent.result("terminal/wait_for_exit", {**terminal, "timeout": 60_000})
        assert ended == {"exitCode": 143, "signal": "SIGTERM"}
        quick = await agent.result("terminal/create", {"command": "sh", "args": ["-c", "exit 7"]})
        assert await agent.result("terminal/wait_for_exit", {"terminalId": quick["terminalId"]}) == {"exitCode": 7}

    await during_turn(tmp_path, part, workspace=WorkspaceAccess())


@pytest.mark.item("004-28")
async def test_our_client_kills_with_the_named_signal_or_sigterm_or_by_force(tmp_path: Path) -> None:
    """How the command ended shows which signal it got; killed is false when nothing was left to kill."""
    stubborn = {"command": "sh", "args": ["-c", "trap '' TERM; echo ready; while :; do sleep 600 & wait; done"]}

    async def part(agent: Raw) -> None:
        pushes(agent)

        async def ended_by(command: Any, **members: Any) -> Any:
            created = await agent.result("terminal/create", command)
            terminal = {"terminalId": created["terminalId"]}
            if command is stubborn:
                agent.reply(await agent.wait_for_call("terminal/output"), {"received": True})
            assert await agent.result("terminal/kill", {**terminal, **members}) == {"killed": True}
            ended = await agent.result("terminal/wait_for_exit", terminal)
            assert await agent.result("terminal/kill", terminal) == {"killed": False}
            return ended

        assert await ended_by(SLEEP) == {"exitCode": 143, "signal": "SIGTERM"}
        assert await ended_by(SLEEP, signal="SIGHUP") == {"exitCode": 129, "signal": "SIGHUP"}
        assert await ended_by(SLEEP, signal="SIGINT") == {"exitCode": 130, "signal": "SIGINT"}
        assert await ended_by(stubborn, force=True) == {"exitCode": 137, "signal": "SIGKILL"}
        created = await agent.result("terminal/create", SLEEP)
        nonsense = {"terminalId": created["terminalId"], "signal": "SIGNONSENSE"}
        assert (await agent.error("terminal/kill", nonsense))["code"] == -32602

    await during_turn(tmp_path, part, workspace=WorkspaceAccess())


@pytest.mark.item("004-29")
async def test_our_client_ends_a_running_command_when_its_terminal_is_released(tmp_path: Path) -> None:
    """released is true, the process is gone, and the id is no longer known."""

    async def part(agent: Raw) -> None:
        pushes(agent)
        created = await agent.result("terminal/create", SLEEP)
        terminal = {"terminalId": created["terminalId"]}
        assert await agent.result("terminal/release", terminal) == {"released": True}
        assert not Path("/proc", str(created["pid"])).exists()
        for method in ("terminal/release", "terminal/kill", "terminal/wait_for_exit"):
            assert (await agent.error(method, terminal))["code"] == -32004

    await during_turn(tmp_path, part, workspace=WorkspaceAccess())


# --- 5.2.4 to 5.2.8 terminals: our agent in a client's --------------------------------------------------------


class Terminals:
    """The terminals of a raw client, which push their output as soon as they are created."""

    def __init__(self, client: Raw, *printed: tuple[str, str]) -> None:
        self.client = client
        self.printed = printed
        client.answers |= {
            "terminal/create": self.create,
            "terminal/wait_for_exit": lambda _: {"exitCode": 3, "signal": "SIGTERM"},
            "terminal/kill": lambda _: {"killed": True},
            "terminal/release": lambda _: {"released": True},
        }

    def create(self, _: Any) -> Any:
        """Answer first, because a terminal must be known before it pushes."""
        asyncio.get_running_loop().call_soon(self.push)
        return {"terminalId": "term_abc", "pid": 4242}

    def push(self) -> None:
        for stream, data in self.printed:
            self.client.ask("terminal/output", {"terminalId": "term_abc", "data": data, "stream": stream})


@pytest.mark.item("004-25", "004-27", "004-28", "004-29", "004-72")
async def test_our_agent_sends_every_member_of_the_terminal_requests() -> None:
    """create with args, cwd, env and timeout, wait with timeout, kill with signal and force, release: exactly the
    draft's members; pid, signal and timedOut of the answers can be read."""
    got: dict[str, Any] = {}

    async def work_in_terminal(turn: Turn) -> None:
        session = turn.session
        params = CreateTerminalParams(
            session_id=session.id, command="npm", args=["test"], cwd="/home/user/project", meta=side(timeout=30000)
        )
        created = await session.request("terminal/create", params)
        got["pid"] = created.meta["dragoman"]["pid"]
        wait = WaitForExitParams(session_id=session.id, terminal_id=created.terminal_id, meta=side(timeout=500))
        got["late"] = (await session.request("terminal/wait_for_exit", wait)).meta["dragoman"]["timedOut"]
        for members in ({"signal": "SIGINT"}, {"force": True}):
            kill = KillTerminalParams(session_id=session.id, terminal_id=created.terminal_id, meta=side(**members))
            await session.request("terminal/kill", kill)
        async with await turn.terminals.create("ls", env={"A": "1", "B": "two"}) as terminal:
            await terminal.kill()
            got["ended"] = await terminal.wait()

    async with serving(doing(work_in_terminal)) as client:
        Terminals(client)
        late = {"exitCode": -1, "timedOut": True}
        ended = {"exitCode": 143, "signal": "SIGTERM"}
        client.answers["terminal/wait_for_exit"] = lambda params: late if "timeout" in params else ended
        answered = await prompted(client, await open_session(client))
        assert answered["result"]["stopReason"] == "end_turn", answered
        assert client.params_of("terminal/create") == [
            {"command": "npm", "args": ["test"], "cwd": "/home/user/project", "timeout": 30000},
            {"command": "ls", "args": [], "env": {"A": "1", "B": "two"}},
        ]
        terminal = {"terminalId": "term_abc"}
        assert {**terminal, "timeout": 500} in client.params_of("terminal/wait_for_exit")
        assert client.params_of("terminal/kill") == [
            {**terminal, "signal": "SIGINT"},
            {**terminal, "force": True},
            terminal,  # SIGTERM goes without saying
        ]
        assert client.params_of("terminal/release") == [terminal]
    assert got == {"pid": 4242, "late": True, "ended": 143}


@pytest.mark.item("004-26")
async def test_our_agent_accepts_pushed_output_of_both_streams() -> None:
    """Each push is answered with received, and the author sees the text; a terminal nobody knows is not received."""
    got: list[str] = []

    async def look(turn: Turn) -> None:
        async with await turn.terminals.create("npm", ["test"]) as terminal:
            await terminal.wait()
            got.append((await terminal.output()).output)

    async with serving(doing(look)) as client:
        Terminals(client, ("stdout", "ok\n"), ("stderr", "1 warning\n"))
        # Only when everything was pushed does the command end.
        taken: list[Any] = []

        def is_wait(message: Any) -> bool:
            return bool(message.get("method") == "terminal/wait_for_exit")

        session = await open_session(client)
        id = client.ask("session/prompt", text_prompt(session))
        waits: list[Any] = []
        while len(taken) < 2:
            message = await client.until(lambda m: is_wait(m) or m.get("result") == {"received": True})
            (waits if is_wait(message) else taken).append(message)
        for message in waits:
            client.reply(message, {"exitCode": 0})
        assert (await client.answer(id))["result"]["stopReason"] == "end_turn"
        unknown = {"terminalId": "term_unknown", "data": "x"}
        assert await client.result("terminal/output", unknown) == {"received": False}
    assert got == ["ok\n1 warning\n"]


# --- 6 notifications ------------------------------------------------------------------------------------------

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


@pytest.mark.item("004-30")
async def test_an_update_has_a_session_a_type_and_data_and_may_have_a_timestamp() -> None:
    """Our agent's frames have the three required members; with a time, also a timestamp, in ISO 8601."""

    async def speak(turn: Turn) -> None:
        await turn.say("no time")
        chunk = AgentMessageChunk(content=TextContent(text="timed"))
        params = UpdateParams(session_id=turn.session.id, update=chunk, meta=side(timestamp=turn.session.updated_at))
        turn.session.connection.notify("session/update", params)

    async with serving(doing(speak)) as client:
        session = await open_session(client)
        await prompted(client, session)
        plain, timed = client.params_of("session/update")
        assert plain == {"sessionId": session, "type": "agent_message_chunk", "data": {"content": "no time"}}
        assert ISO.fullmatch(timed.pop("timestamp"))
        assert timed == {"sessionId": session, "type": "agent_message_chunk", "data": {"content": "timed"}}


@pytest.mark.item("004-30")
def test_a_timestamp_passes_a_translator() -> None:
    """A proxy that reads updates of any type gives the timestamp on, and our client takes such updates as any other."""
    frames = [
        {"sessionId": SESSION, "type": "agent_message_chunk", "data": {"content": "a"}, "timestamp": CREATED},
        {"sessionId": SESSION, "type": "plan", "data": {"planId": "p", "steps": []}, "timestamp": CREATED},
        {"sessionId": SESSION, "type": "agent_message_chunk", "data": {"content": "b"}},
    ]
    proxy = Proxy("between", client_dialect="draft", agent_dialect="draft")
    times: list[Any] = []

    @proxy.from_agent("session/update")
    async def claimed(params: Any, forward: Any) -> None:
        times.append((params.meta or {}).get("dragoman", {}).get("timestamp"))
        await forward(params)

    async def between() -> None:
        client_end, ours = memory_pair()
        theirs, agent_end = memory_pair()
        client, agent = Raw(client_end), Raw(agent_end)
        standing = asyncio.ensure_future(proxy.serve(ours, theirs))
        id = client.ask("initialize", initialize())
        agent.reply(await agent.expect(method="initialize"), {"protocolVersion": 1, "capabilities": AGENT})
        await client.answer(id)
        for frame in frames:
            agent.notify("session/update", frame)
        assert [(await client.expect(method="session/update"))["params"] for _ in frames] == frames
        await client_end.close()
        await standing

    async def part(agent: Raw) -> None:
        for frame in frames:
            agent.notify("session/update", frame)

    run(between())
    assert times == [CREATED, CREATED, None]
    played = run(during_turn("/", part))
    assert [type(update).__struct_config__.tag for update in played.updates] == [
        "agent_message_chunk",
        "plan",
        "agent_message_chunk",
    ]


@pytest.mark.item("004-31")
def test_a_cancel_may_have_a_reason() -> None:
    """Our client says the reason it is given, and none otherwise; our agent's author can read it."""
    reasons: list[str | None] = []

    async def wait(turn: Turn) -> None:
        await turn.say("busy")
        try:
            await asyncio.Event().wait()
        finally:
            reasons.append(turn.cancel_reason)

    async def agent_side() -> None:
        async with serving(doing(wait)) as client:
            session = await open_session(client)
            for cancel in ({"reason": "user_requested"}, {}):
                id = client.ask("session/prompt", text_prompt(session))
                await client.wait_for_call("session/update")
                client.notify("session/cancel", {"sessionId": session, **cancel})
                assert (await client.answer(id))["result"] == {"stopReason": "cancelled"}

    async def client_side() -> None:
        async def part(agent: Raw) -> None:
            agent.reply(await agent.expect(method="session/new"), {"sessionId": SESSION, "createdAt": CREATED})
            for params in ({"sessionId": SESSION, "reason": "user_requested"}, {"sessionId": SESSION}):
                asked = await agent.expect(method="session/prompt")
                cancel = await agent.expect(method="session/cancel")
                assert cancel == {"jsonrpc": "2.0", "method": "session/cancel", "params": params}
                agent.reply(asked, {"stopReason": "cancelled"})

        async with playing(part) as remote:
            session = await remote.open_session("/")
            for reason in ("user_requested", None):
                async with session.prompt("go") as turn:
                    turn.cancel(reason)
                assert turn.stop_reason == "cancelled"

    run(agent_side())
    assert reasons == ["user_requested", None]
    run(client_side())
