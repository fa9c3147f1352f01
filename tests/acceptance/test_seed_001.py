"""The requirements of the overview of official v1: raw frames of both ends, and commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Kind, ProtocolError, Turn, WorkspaceAccess
from dragoman.schema.auth import AuthMethod
from dragoman.schema.config import SessionMode
from dragoman.schema.initialize import AgentCapabilities, ClientCapabilities
from dragoman.schema.plan import PlanEntry
from dragoman.schema.update import AgentMessageChunk, AvailableCommand
from dragoman.testing import ScriptedPeer
from tests.acceptance.official import (
    ALL,
    CWD,
    SESSION,
    begin,
    hello,
    hold,
    introduction,
    open_session,
    prompt,
    run_prompt,
    text,
)
from tests.acceptance.wire import Child, Json, acting, agent_played, call, client_of, note, result, run, serve

MODES = [SessionMode(id="ask", name="Ask"), SessionMode(id="code", name="Code")]


async def greet(turn: Turn) -> None:
    await turn.say("Hello!")


@pytest.mark.item("001-01")
async def test_requests_are_answered_under_their_id_and_notifications_are_not() -> None:
    """Ids come back as they were, whatever they are; what has no id gets no answer; both ends send both kinds."""
    agent = Agent("a", version="1")

    async def read(turn: Turn) -> None:
        await turn.say(await turn.files.read(f"{CWD}/a"))

    agent.prompt(acting(read=read))

    async with client_of(agent) as peer:
        answer = await peer.request(0, "initialize", hello())
        assert set(answer) == {"jsonrpc", "id", "result"}
        opened = await peer.request("a text", "session/new", {"cwd": CWD, "mcpServers": []})
        session = opened["result"]["sessionId"]
        peer.send(note("session/cancel", {"sessionId": session}))
        peer.send(note("_example/unknown", {}))
        peer.send(call(7, "session/prompt", prompt(session, "read")))
        asked = await peer.receive()  # the next thing said is no answer to a notification
        assert set(asked) == {"jsonrpc", "id", "method", "params"}
        assert asked["method"] == "fs/read_text_file"
        peer.send(result(asked, {"content": "text"}))
        update = await peer.receive()
        assert set(update) == {"jsonrpc", "method", "params"}
        assert await peer.receive() == result(7, {"stopReason": "end_turn"})
        assert {frame["jsonrpc"] for frame in peer.received} == {"2.0"}


@pytest.mark.item("001-02")
async def test_the_whole_flow_runs_from_initialize_to_the_stop_reason(tmp_path: Path) -> None:
    """One process: initialize, authenticate, new session, a turn with updates, a question and a file, cancel, load."""

    async with Child("agent", "everything") as agent:
        await agent.request(1, "initialize", hello())
        assert await agent.request(2, "authenticate", {"methodId": "any"}) == result(2, {})
        session = (await agent.request(3, "session/new", {"cwd": str(tmp_path), "mcpServers": []}))["result"][
            "sessionId"
        ]
        agent.send(call(4, "session/prompt", prompt(session, "/write note.txt hello")))
        seen: list[str] = []
        while True:
            frame = await agent.receive()
            seen.append(frame.get("method", "answer"))
            if frame.get("method") == "session/request_permission":
                chosen = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
                agent.send(result(frame, chosen))
            elif frame.get("method") == "fs/write_text_file":
                assert frame["params"] == {
                    "sessionId": session,
                    "path": str(tmp_path / "note.txt"),
                    "content": "hello",
                }
                agent.send(result(frame, {}))
            elif frame.get("method") == "fs/read_text_file":
                agent.send({"jsonrpc": "2.0", "id": frame["id"], "error": {"code": -32002, "message": "none"}})
            elif "method" not in frame:
                break
        assert frame == result(4, {"stopReason": "end_turn"})
        assert seen.index("session/update") < seen.index("session/request_permission")
        assert seen.index("session/request_permission") < seen.index("fs/write_text_file")
        agent.send(call(5, "session/prompt", prompt(session, "/slow 300")))
        await agent.receive()
        agent.send(note("session/cancel", {"sessionId": session}))
        assert (await agent.until(5))[-1] == result(5, {"stopReason": "cancelled"})
        agent.send(call(6, "session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}))
        *shown, answer = await agent.until(6)
        kinds = [frame["params"]["update"]["sessionUpdate"] for frame in shown]
        assert kinds[0] == "user_message_chunk"
        assert "tool_call" in kinds
        assert "result" in answer


@pytest.mark.item("001-03")
async def test_a_minimal_agent_has_the_four_required_methods() -> None:
    """An author who wrote nothing but the prompt function serves initialize, authenticate, session/new and prompt."""
    agent = Agent("a")
    agent.prompt(greet)

    async with client_of(agent) as peer:
        introduced = (await peer.request(1, "initialize", hello()))["result"]
        assert introduced["protocolVersion"] == 1
        assert await peer.request(2, "authenticate", {"methodId": "any"}) == result(2, {})
        opened = await peer.request(3, "session/new", {"cwd": CWD, "mcpServers": []})
        assert set(opened["result"]) == {"sessionId"}
        answer = await peer.request(4, "session/prompt", prompt(opened["result"]["sessionId"], "hi"))
        assert answer == result(4, {"stopReason": "end_turn"})


@pytest.mark.item("001-04")
@pytest.mark.parametrize("is_open", [True, False])
def test_session_load_exists_where_it_was_announced(is_open: bool) -> None:
    """Our agent serves it, or answers that there is no such method; our client sends it, or refuses to."""
    agent = Agent("a", version="1", capabilities=None if is_open else AgentCapabilities(load_session=False))
    agent.prompt(greet)
    params = {"sessionId": SESSION, "cwd": CWD, "mcpServers": []}

    async def serving() -> None:
        async with client_of(agent) as peer:
            capabilities = (await peer.request(1, "initialize", hello()))["result"]["agentCapabilities"]
            assert capabilities.get("loadSession", False) is is_open
            session = (await peer.request(2, "session/new", {"cwd": CWD, "mcpServers": []}))["result"]["sessionId"]
            answer = await peer.request(3, "session/load", {**params, "sessionId": session})
            assert answer.get("error", {}).get("code") == (None if is_open else -32601)

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "initialize", introduction(loadSession=is_open))
        if is_open:
            assert (await serve(peer, "session/load", {}))["params"] == params
        assert await peer.expect(method="_done")  # had anything else been sent, it would come first

    async def connecting() -> None:
        async with agent_played(part) as remote:
            if is_open:
                await remote.load_session(SESSION, CWD)
            else:
                with pytest.raises(ProtocolError) as caught:
                    await remote.load_session(SESSION, CWD)
                assert caught.value.kind == Kind.CAPABILITY_UNSUPPORTED
            remote.notify("_done", {})

    run(serving())
    run(connecting())


@pytest.mark.item("001-04")
@pytest.mark.parametrize("modes", [MODES, []])
async def test_session_set_mode_exists_where_there_are_modes(modes: list[SessionMode]) -> None:
    """The answer is {} and the mode another; without modes there is no such method, and unknown modes are refused."""
    agent = Agent("a", version="1", modes=modes)

    async def respond(turn: Turn) -> None:
        await turn.say(str(turn.session.mode))

    agent.prompt(acting(respond=respond))

    async with client_of(agent) as peer:
        session = await begin(peer)
        shown = peer.received[-1]["result"].get("modes")
        answer = await peer.request(3, "session/set_mode", {"sessionId": session, "modeId": "code"})
        if not modes:
            assert shown is None
            assert answer["error"]["code"] == -32601
            return
        assert shown == {
            "currentModeId": "ask",
            "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}],
        }
        assert answer == result(3, {})
        assert (await run_prompt(peer, session, "respond"))[0][-1]["content"]["text"] == "code"
        unknown = await peer.request(4, "session/set_mode", {"sessionId": session, "modeId": "fly"})
        assert unknown["error"]["code"] == -32602


@pytest.mark.item("001-05")
async def test_our_client_cancels_by_a_notification_and_expects_no_answer() -> None:
    """The frame has no id; the turn ends with the answer to its prompt."""

    async def part(peer: ScriptedPeer) -> None:
        await open_session(peer)
        asked = await peer.expect(method="session/prompt")
        assert await peer.receive() == note("session/cancel", {"sessionId": SESSION})
        peer.send(result(asked, {"stopReason": "cancelled"}))

    async with agent_played(part) as remote:
        session = await remote.open_session(CWD)
        async with session.prompt("go") as turn:
            turn.cancel()
        assert turn.stop_reason == "cancelled"


OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


@pytest.mark.item("001-06")
@pytest.mark.parametrize(("permission", "chosen"), [("deny", "no"), ("allow", "yes"), (lambda _: "yes", "yes")])
async def test_every_client_answers_requests_for_permission(permission: Any, chosen: str) -> None:
    """Also a client that has no setting for it, which answers no; the outcome names the option."""

    async def part(peer: ScriptedPeer) -> None:
        await open_session(peer)
        asked = await peer.expect(method="session/prompt")
        params = {"sessionId": SESSION, "toolCall": {"toolCallId": "t", "title": "Do it"}, "options": OPTIONS}
        answer = await peer.request(9, "session/request_permission", params)
        assert answer == result(9, {"outcome": {"outcome": "selected", "optionId": chosen}})
        peer.send(result(asked, {"stopReason": "end_turn"}))

    options = {} if permission == "deny" else {"permission": permission}
    async with agent_played(part, **options) as remote:
        await (await remote.open_session(CWD)).ask("go")


LENT: dict[str, tuple[Json, str, Json]] = {
    "read": ({"fs": {"readTextFile": True}}, "fs/read_text_file", {"content": "x"}),
    "write": ({"fs": {"writeTextFile": True}}, "fs/write_text_file", {}),
    "terminal": ({"terminal": True}, "terminal/create", {"terminalId": "t"}),
}
TERMINAL = ("terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release")


@pytest.mark.item("001-07")
@pytest.mark.parametrize("only", LENT)
async def test_file_and_terminal_requests_need_the_capability_that_announces_them(only: str) -> None:
    """Of a client that offers one of three, our agent uses that one; what is not offered is not requested."""
    params = {"path": f"{CWD}/a", "content": "x", "command": "ls", "terminalId": "t"}

    async def try_all(turn: Turn) -> None:
        for method in (*(method for _, method, _ in LENT.values()), *TERMINAL):
            try:
                await turn.session.request(method, {"sessionId": turn.session.id, **params})
            except ProtocolError as refusal:
                await turn.say(f"{method} {refusal.kind}")

    agent = Agent("a", version="1")
    agent.prompt(acting(try_all=try_all))
    capabilities, method, answer = LENT[only]
    lent = [method, *TERMINAL] if only == "terminal" else [method]
    answers: Json = {method: answer, "terminal/output": {"output": "", "truncated": False}}

    async with client_of(agent) as peer:
        session = await begin(peer, capabilities)
        peer.send(call(3, "session/prompt", prompt(session, "try_all")))
        asked, refused = [], []
        while "result" not in (frame := await peer.receive()):
            if "id" in frame:
                asked.append(frame["method"])
                peer.send(result(frame, answers.get(frame["method"], {})))
            else:
                refused.append(frame["params"]["update"]["content"]["text"])
        everything = {method for _, method, _ in LENT.values()} | set(TERMINAL)
        assert asked == lent
        assert set(refused) == {f"{name} capability_unsupported" for name in everything - set(lent)}


@pytest.mark.item("001-07")
@pytest.mark.parametrize("offers", [True, False])
async def test_our_client_serves_only_what_it_announced(tmp_path: Path, offers: bool) -> None:
    """All seven calls work where they were announced; where they were not there is no such method."""
    (tmp_path / "a").write_text("one\ntwo\n")

    async def part(peer: ScriptedPeer) -> None:
        asked = await serve(peer, "initialize", introduction())
        capabilities = asked["params"]["clientCapabilities"]
        assert capabilities["fs"] == {"readTextFile": offers, "writeTextFile": offers}
        assert capabilities["terminal"] is offers
        await serve(peer, "session/new", {"sessionId": SESSION})
        path, answers = str(tmp_path / "a"), []
        calls: list[tuple[str, Json]] = [
            ("fs/read_text_file", {"path": path, "line": 2, "limit": 1}),
            ("fs/write_text_file", {"path": path, "content": "new"}),
            ("terminal/create", {"command": "printf", "args": ["%s", "out"], "cwd": str(tmp_path)}),
        ]
        for method, params in calls:
            answers.append(await peer.request(method, method, {"sessionId": SESSION, **params}))
        handle = {"sessionId": SESSION, **answers[-1].get("result", {"terminalId": "t"})}
        for method in ("wait_for_exit", "output", "kill", "release"):
            answers.append(await peer.request(method, f"terminal/{method}", handle))
        if not offers:
            assert {answer["error"]["code"] for answer in answers} == {-32601}
            return
        results = [answer["result"] for answer in answers]
        assert results[0] == {"content": "two"}
        assert results[1] == {}
        assert results[3] == {"exitCode": 0, "signal": None}
        assert results[4] == {
            "output": "out",
            "truncated": False,
            "exitStatus": {"exitCode": 0, "signal": None},
        }
        assert results[5:] == [{}, {}]

    async with agent_played(part, workspace=WorkspaceAccess() if offers else None) as remote:
        await remote.open_session(str(tmp_path))
    assert (tmp_path / "a").read_text() == ("new" if offers else "one\ntwo\n")


@pytest.mark.item("001-08")
async def test_session_update_has_every_kind_of_the_overview() -> None:
    """The three chunks, tool calls and their changes, plans, commands and modes, as our agent says them."""
    commands = [AvailableCommand(name="plan", description="Make a plan")]
    agent = Agent("a", version="1", modes=MODES, commands=commands)

    async def all_(turn: Turn) -> None:
        await turn.think("Hm.")
        await turn.say("Hello")
        await turn.plan(PlanEntry(content="Look", priority="high", status="in_progress"))
        async with turn.tool("Read a", kind="read", input={"path": "/a"}, paths=["/a"], id="call_1") as tool:
            await tool.add_text("text")
        await turn.set_mode("code")

    agent.prompt(acting(all=all_))

    async with client_of(agent) as peer:
        session = await begin(peer)
        update = (await peer.expect(method="session/update"))["params"]["update"]
        assert update == {
            "sessionUpdate": "available_commands_update",
            "availableCommands": [{"name": "plan", "description": "Make a plan"}],
        }
        updates, _ = await run_prompt(peer, session, "all")
        assert updates == [
            {"sessionUpdate": "agent_thought_chunk", "content": text("Hm.")},
            {"sessionUpdate": "agent_message_chunk", "content": text("Hello")},
            {
                "sessionUpdate": "plan",
                "entries": [{"content": "Look", "priority": "high", "status": "in_progress"}],
            },
            {
                "sessionUpdate": "tool_call",
                "toolCallId": "call_1",
                "title": "Read a",
                "kind": "read",
                "status": "pending",
                "locations": [{"path": "/a"}],
                "rawInput": {"path": "/a"},
            },
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": "call_1",
                "status": "in_progress",
                "content": [{"type": "content", "content": text("text")}],
            },
            {"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "status": "completed"},
            {"sessionUpdate": "current_mode_update", "currentModeId": "code"},
        ]
        start = len(peer.received)
        await peer.request(5, "session/load", {"sessionId": session, "cwd": CWD, "mcpServers": []})
        first = peer.received[start]["params"]["update"]
        assert first == {"sessionUpdate": "user_message_chunk", "content": text("all")}


@pytest.mark.item("001-09")
def test_paths_are_absolute_and_lines_count_from_one_on_the_wire(tmp_path: Path) -> None:
    """A relative path or folder is refused at either end, and so is a line before the first."""
    (tmp_path / "a").write_text("one\ntwo\n")

    async def part(peer: ScriptedPeer) -> None:
        await open_session(peer)

        async def ask(method: str, **params: Json) -> Json:
            return await peer.request(9, method, {"sessionId": SESSION, **params})

        path = str(tmp_path / "a")
        assert (await ask("fs/read_text_file", path=path, line=1, limit=1))["result"] == {"content": "one"}
        for method, params in (
            ("fs/read_text_file", {"path": "a"}),
            ("fs/write_text_file", {"path": "./a", "content": "x"}),
            ("terminal/create", {"command": "true", "cwd": "."}),
            ("fs/read_text_file", {"path": path, "line": -1}),
        ):
            assert (await ask(method, **params))["error"]["code"] == -32602, (method, params)

    async def connecting() -> None:
        async with agent_played(part, workspace=WorkspaceAccess()) as remote:
            await remote.open_session(str(tmp_path))

    agent = Agent("a", version="1")
    agent.prompt(greet)

    async def serving() -> None:
        async with client_of(agent) as peer:
            session = await begin(peer)
            for method, params in (
                ("session/new", {"cwd": "project"}),
                ("session/new", {"cwd": CWD, "additionalDirectories": ["../other"]}),
                ("session/load", {"cwd": ".", "sessionId": session}),
                ("session/resume", {"cwd": "~", "sessionId": session}),
            ):
                answer = await peer.request(3, method, {"mcpServers": [], **params})
                assert answer["error"]["code"] == -32602, (method, params)

    run(connecting())
    run(serving())


@pytest.mark.item("001-10")
async def test_a_request_gets_a_result_or_an_error_and_a_notification_gets_nothing() -> None:
    """Wrong requests get code and message; wrong notifications, known or not, get silence; the connection lives."""

    async with Child("agent", "everything") as agent:
        await agent.request(1, "initialize", hello())
        for id, method, params in (
            (2, "session/prompt", {"sessionId": 5}),
            (3, "session/prompt", prompt("nobody", "hi")),
            (4, "no/such/method", None),
            (5, "session/new", []),
        ):
            answer = await agent.request(id, method, params)
            assert set(answer) == {"jsonrpc", "id", "error"}
            assert isinstance(answer["error"]["code"], int)
            assert answer["error"]["message"]
        received = len(agent.received)
        for method, params in (
            ("session/cancel", {"sessionId": "nobody"}),
            ("session/cancel", {"sessionId": 5}),
            ("session/cancel", None),
            ("no/such/method", {}),
            ("session/new", {"cwd": "/", "mcpServers": []}),
        ):
            agent.send(note(method, params))
        answer = await agent.request(6, "session/list", {})
        assert answer["id"] == 6
        assert [frame for frame in agent.received[received:] if "method" not in frame] == [answer]


@pytest.mark.item("001-11")
async def test_meta_custom_methods_and_custom_capabilities_pass_both_ways() -> None:
    """Our agent reads and says all three; an extension nobody knows is -32601, a notification of one is ignored."""
    agent = Agent("a", version="1", capabilities=AgentCapabilities(meta={"example.org": {"search": True}}))
    received: list[Any] = []

    @agent.on("_example.org/search")
    async def search(params: Any) -> Any:
        return {"found": params["words"], "_meta": {"took": 3}}

    @agent.on("_example.org/noted")
    def noted(params: Any) -> None:
        received.append(params)

    @agent.prompt
    async def work(turn: Turn) -> None:
        is_known = turn.session.connection.offers("client._meta.example.ask")
        block = turn.prompt[0]
        answer = await turn.session.request("_example.org/ask", {"about": block.meta})  # type: ignore[union-attr]
        await turn.say(f"{is_known} {answer}")

    async with client_of(agent) as peer:
        capabilities = {**ALL, "_meta": {"example": {"ask": True}}}
        shown = await peer.request(1, "initialize", hello(capabilities, _meta={"traceparent": "00-1-2-01"}))
        assert shown["result"]["agentCapabilities"] == {"_meta": {"example.org": {"search": True}}}
        params = {"cwd": CWD, "mcpServers": [], "_meta": {"mine": 1}}
        session = (await peer.request(2, "session/new", params))["result"]["sessionId"]
        assert await peer.request(3, "_example.org/search", {"words": ["a"]}) == result(
            3, {"found": ["a"], "_meta": {"took": 3}}
        )
        peer.send(note("_example.org/noted", {"n": 1}))
        peer.send(note("_example.org/unknown", {"n": 2}))
        assert (await peer.request(4, "_example.org/unknown", {}))["error"]["code"] == -32601
        assert received == [{"n": 1}]
        block = {**text("go"), "_meta": {"color": "red"}}
        peer.send(call(5, "session/prompt", {"sessionId": session, "prompt": [block]}))
        asked = await peer.receive()
        assert asked == call(asked["id"], "_example.org/ask", {"about": {"color": "red"}})
        peer.send(result(asked, {"yes": True}))
        update = (await peer.receive())["params"]["update"]
        assert update["content"]["text"] == "True {'yes': True}"
        await peer.expect(id=5)


@pytest.mark.item("001-11")
async def test_our_client_extends_the_protocol_in_the_same_three_ways() -> None:
    """It announces capabilities of its own, answers underscored methods it knows, and keeps _meta."""
    offered = ClientCapabilities(meta={"example.org": {"ask": True}})

    async def part(peer: ScriptedPeer) -> None:
        asked = await serve(peer, "initialize", introduction(_meta={"example.org": {"search": True}}))
        assert asked["params"]["clientCapabilities"]["_meta"] == {"example.org": {"ask": True}}
        asked = await peer.expect(method="session/new")
        assert await peer.request(8, "_example.org/ask", {"n": 1}) == result(8, {"n": 2})
        assert (await peer.request(9, "_example.org/other", {}))["error"]["code"] == -32601
        peer.send(result(asked, {"sessionId": SESSION}))
        assert (await serve(peer, "_example.org/search", {"found": []}))["params"] == {"words": []}
        asked = await peer.expect(method="session/prompt")
        update = {"sessionUpdate": "agent_message_chunk", "content": text("hi"), "_meta": {"color": "red"}}
        peer.send(note("session/update", {"sessionId": SESSION, "update": update}))
        peer.send(result(asked, {"stopReason": "end_turn"}))

    serves = {"_example.org/ask": lambda params: {"n": params["n"] + 1}}
    async with agent_played(part, capabilities=offered, on=serves) as remote:
        assert remote.capabilities.meta == {"example.org": {"search": True}}
        session = await remote.open_session(CWD)
        assert await remote.request("_example.org/search", {"words": []}) == {"found": []}
        async with session.prompt("go") as turn:
            (update,) = [update async for update in turn]
        assert isinstance(update, AgentMessageChunk)
        assert update.meta == {"color": "red"}


@pytest.mark.item("001-12")
async def test_our_client_starts_the_agent_and_stops_it_by_closing_its_input(tmp_path: Path) -> None:
    """`dragoman run` starts a command, uses its standard streams, and leaves no process."""

    command = ["agent", "everything"]
    async with Child("run", "--prompt", "/echo over the streams", "--", *Child()._command, *command) as ran:
        status, out, _ = await ran.end()
    assert status == 0
    assert "over the streams" in out


@pytest.mark.item("001-13")
async def test_an_agent_that_requires_a_login_answers_with_the_auth_required_code() -> None:
    """-32000 until authenticate names an advertised method; a terminal one cannot be named
    (docs/protocol/auth.md#authenticate).
    """
    methods = [AuthMethod(id="in-terminal", name="Terminal", type="terminal", args=["login"])]
    agent = Agent("a", version="1", auth_required=True, auth_methods=methods)
    agent.prompt(greet)

    @agent.authenticate("account", "Account")
    def check(_: Any) -> None: ...

    async with client_of(agent) as peer:
        initialized = (await peer.request(1, "initialize", hello({**ALL, "auth": {"terminal": True}})))["result"]
        assert initialized["authMethods"] == [
            {"id": "in-terminal", "name": "Terminal", "type": "terminal", "args": ["login"]},
            {"id": "account", "name": "Account"},
        ]
        new = {"cwd": CWD, "mcpServers": []}
        assert (await peer.request(2, "session/new", new))["error"]["code"] == -32000
        for wrong in ("in-terminal", "unheard-of"):
            assert (await peer.request(3, "authenticate", {"methodId": wrong}))["error"]["code"] == -32602
        assert await peer.request(4, "authenticate", {"methodId": "account"}) == result(4, {})
        assert "result" in await peer.request(5, "session/new", new)


@pytest.mark.item("001-13")
@pytest.mark.parametrize("version", [0, 1, 2, 65535])
async def test_an_agent_answers_with_its_own_version(version: int) -> None:
    """Whatever version a client offers, it gets our newest one (docs/protocol/initialize.md#version)."""

    async with client_of(Agent("a", dialect="v1")) as peer:
        answer = await peer.request(1, "initialize", {**hello(), "protocolVersion": version})
        assert answer["result"]["protocolVersion"] == 1


@pytest.mark.item("001-13")
def test_a_prompt_has_only_content_that_prompt_capabilities_announce() -> None:
    """Text and links always; images, sounds and embedded resources where they were announced
    (docs/protocol/prompt-turns.md#prompt-content).
    """
    blocks = {
        "image": {"type": "image", "data": "aWE=", "mimeType": "image/png"},
        "audio": {"type": "audio", "data": "aWE=", "mimeType": "audio/wav"},
        "embeddedContext": {"type": "resource", "resource": {"uri": "file:///a", "text": "t"}},
    }

    async def talk(name: str, is_open: bool) -> None:
        offered = {"image": False, "audio": False, "embeddedContext": False, name: is_open}
        agent = Agent("a", image=offered["image"], audio=offered["audio"], embedded_context=offered["embeddedContext"])
        agent.prompt(greet)
        async with client_of(agent) as peer:
            capabilities = (await peer.request(1, "initialize", hello()))["result"]["agentCapabilities"][
                "promptCapabilities"
            ]
            assert capabilities == offered
            session = (await peer.request(2, "session/new", {"cwd": CWD, "mcpServers": []}))["result"]["sessionId"]
            link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
            params = {"sessionId": session, "prompt": [text("look"), link, blocks[name]]}
            answer = await peer.request(3, "session/prompt", params)
            assert ("result" in answer) is is_open
            params["prompt"].pop()
            assert "result" in await peer.request(4, "session/prompt", params)

    for name in blocks:
        for is_open in (True, False):
            run(talk(name, is_open))


@pytest.mark.item("001-13")
def test_a_cancelled_turn_cancels_its_permission_requests_and_does_not_fail() -> None:
    """Open questions get the outcome cancelled, open tool calls an end, the prompt `cancelled`
    (docs/protocol/prompt-turns.md#cancel).
    """
    agent = Agent("a", version="1")

    async def ask(turn: Turn) -> None:
        async with turn.tool("Delete", kind="delete") as tool:
            await tool.ask_permission()

    agent.prompt(acting(ask=ask, hold=hold))

    async def serving() -> None:
        async with client_of(agent) as peer:
            session = await begin(peer)
            peer.send(call(3, "session/prompt", prompt(session, "ask")))
            while (frame := await peer.receive()).get("method") != "session/request_permission":
                pass
            peer.send(note("session/cancel", {"sessionId": session}))
            peer.send(result(frame, {"outcome": {"outcome": "cancelled"}}))
            received = [await peer.receive()]
            while received[-1].get("id") != 3:
                received.append(await peer.receive())
            assert received[-1] == result(3, {"stopReason": "cancelled"})
            ends = [frame["params"]["update"] for frame in received if frame.get("method") == "session/update"]
            assert ends[-1]["status"] == "failed"  # official v1 has no word for a cancelled call

    async def part(peer: ScriptedPeer) -> None:
        await open_session(peer)
        asked = await peer.expect(method="session/prompt")
        params = {"sessionId": SESSION, "toolCall": {"toolCallId": "t", "title": "Do it"}, "options": OPTIONS}
        peer.send(call(9, "session/request_permission", params))
        frames = [await peer.receive(), await peer.receive()]
        assert note("session/cancel", {"sessionId": SESSION}) in frames
        assert result(9, {"outcome": {"outcome": "cancelled"}}) in frames
        peer.send(result(asked, {"stopReason": "cancelled"}))

    async def connecting() -> None:
        holder: list[Any] = []

        async def never(_: Any) -> str | None:
            holder[0].cancel()
            return None

        async with agent_played(part, permission=never) as remote:
            session = await remote.open_session(CWD)
            holder.append(session)
            async with session.prompt("go") as turn:
                await turn.wait()
            assert turn.stop_reason == "cancelled"

    run(serving())
    run(connecting())


@pytest.mark.item("001-13")
async def test_load_sends_the_history_before_its_answer_and_resume_sends_none() -> None:
    """And both want the folder of the session, whose extra folders are never restored
    (docs/protocol/sessions.md#roots).
    """
    agent = Agent("a", version="1")

    async def roots(turn: Turn) -> None:
        await turn.say(" ".join(turn.session.roots))

    agent.prompt(acting(roots=roots))

    async with client_of(agent) as peer:
        session = await begin(peer, additionalDirectories=["/other"])
        assert (await run_prompt(peer, session, "roots"))[0][0]["content"]["text"] == f"{CWD} /other"
    for method, shown in (("session/load", 2), ("session/resume", 0)):
        async with client_of(agent) as peer:
            await peer.request(1, "initialize", hello())
            params = {"sessionId": session, "cwd": CWD, "mcpServers": []}
            wrong = await peer.request(2, method, {**params, "cwd": "/elsewhere"})
            assert wrong["error"]["code"] == -32602
            start = len(peer.received)
            assert "result" in await peer.request(3, method, params)
            assert len(peer.received) - start - 1 == shown
            unknown = await peer.request(4, method, {**params, "sessionId": "nobody"})
            assert (unknown["error"]["code"], unknown["error"]["data"]["sessionId"]) == (-32002, "nobody")
    async with client_of(agent) as peer:
        await peer.request(1, "initialize", hello())
        await peer.request(2, "session/resume", {"sessionId": session, "cwd": CWD, "mcpServers": []})
        assert (await run_prompt(peer, session, "roots"))[0][0]["content"]["text"] == CWD


@pytest.mark.item("001-13")
async def test_truncated_terminal_output_keeps_its_end_and_complete_characters(tmp_path: Path) -> None:
    """outputByteLimit cuts from the start, between characters; a killed terminal stays until it is released."""

    async def part(peer: ScriptedPeer) -> None:
        await open_session(peer)
        base = {"sessionId": SESSION}
        env = [{"name": "WORD", "value": "ää"}]
        params = {"command": "printenv", "args": ["WORD"], "env": env, "outputByteLimit": 4, "cwd": str(tmp_path)}
        handle = {**base, **(await peer.request(1, "terminal/create", {**base, **params}))["result"]}
        await peer.request(2, "terminal/wait_for_exit", handle)
        output = (await peer.request(3, "terminal/output", handle))["result"]
        assert (output["output"], output["truncated"]) == ("ä\n", True)  # 5 bytes, of which one is half a character
        slow = {**base, "command": "sleep", "args": ["300"]}
        handle = {**base, **(await peer.request(4, "terminal/create", slow))["result"]}
        running = (await peer.request(5, "terminal/output", handle))["result"]
        assert "exitStatus" not in running
        assert (await peer.request(6, "terminal/kill", handle))["result"] == {}
        assert (await peer.request(7, "terminal/wait_for_exit", handle))["result"]["signal"] == "SIGTERM"
        assert (await peer.request(8, "terminal/output", handle))["result"]["exitStatus"]["signal"] == "SIGTERM"
        assert (await peer.request(9, "terminal/release", handle))["result"] == {}
        assert (await peer.request(10, "terminal/output", handle))["error"]["code"] == -32002

    async with agent_played(part, workspace=WorkspaceAccess()) as remote:
        await remote.open_session(str(tmp_path))
