"""What only the official material requires: all of stable v1 on the wire, and what passes a proxy unchanged."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from dragoman import Agent, Kind, ProtocolError, Proxy, Turn, WorkspaceAccess
from dragoman.schema.auth import AuthMethod
from dragoman.schema.config import ConfigChoice, SessionConfigOption, SessionMode
from dragoman.schema.content import TextContent
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side
from dragoman.schema.update import (
    AgentMessageChunk,
    AvailableCommand,
    CompactionSummaryChunk,
    CompactionUpdate,
    Notice,
    SessionInfoUpdate,
    UsageUpdate,
)
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair
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
from tests.acceptance.wire import Child, Json, acting, agent_played, call, client_of, error, note, result, run, serve

STABLE = {
    side: {name for (s, name), row in METHODS.items() if s is side and row.stability == "stable"} for side in Side
}

# Everything a client can announce that opens updates, options and questions.
SHOWS: Json = {
    **ALL,
    "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
    "auth": {"terminal": True},
    "elicitation": {"form": {}, "url": {}},
}
SWITCH = SessionConfigOption(id="verbose", name="Verbose", type="boolean", current_value=False)
CHOICE = SessionConfigOption(
    id="effort",
    name="Effort",
    type="select",
    current_value="low",
    options=[ConfigChoice(value="low", name="Low"), ConfigChoice(value="high", name="High")],
)


def whole(**acts: Any) -> Agent:
    """Return an agent that declares everything an author can declare."""
    agent = Agent(
        "whole",
        version="1",
        title="Whole",
        modes=[SessionMode(id="ask", name="Ask"), SessionMode(id="code", name="Code")],
        options=[SWITCH, CHOICE],
        commands=[AvailableCommand(name="go", description="Go")],
    )
    agent.prompt(acting(**acts))

    @agent.authenticate("account", "Account")
    def check(_: Any) -> None: ...

    return agent


async def greet(turn: Turn) -> None:
    await turn.say("Hello!")


# --- every method, every update -------------------------------------------------------------------------------------


@pytest.mark.item("001-13", "OFF-01")
async def test_every_stable_method_of_an_agent_is_served() -> None:
    """Each row of the table that official v1 calls stable is asked of one agent and answered with its shape."""

    served: set[str] = {"initialize", "session/new"}
    async with client_of(whole(greet=greet, hold=hold)) as peer:
        session = await begin(peer, SHOWS)

        async def ask(method: str, **params: Json) -> Json:
            served.add(method)
            answer = await peer.request(method, method, params)
            return answer["result"]

        base = {"sessionId": session}
        place = {"cwd": CWD, "mcpServers": []}
        assert await ask("authenticate", methodId="account") == {}
        assert await ask("session/prompt", **prompt(session, "greet")) == {"stopReason": "end_turn"}
        assert await ask("session/set_mode", **base, modeId="code") == {}
        options = await ask("session/set_config_option", **base, configId="effort", value="high")
        assert [option["currentValue"] for option in options["configOptions"]] == [False, "high"]
        assert set(await ask("session/load", **base, **place)) == {"modes", "configOptions"}
        assert set(await ask("session/resume", **base, **place)) == {"modes", "configOptions"}
        (listed,) = (await ask("session/list"))["sessions"]
        assert (listed["sessionId"], listed["cwd"]) == (session, CWD)
        peer.send(call("turn", "session/prompt", prompt(session, "hold")))
        await peer.expect(params={"update": {"sessionUpdate": "agent_message_chunk"}})
        peer.send(note("session/cancel", base))
        await peer.expect(id="turn", result={"stopReason": "cancelled"})
        peer.send(note("$/cancel_request", {"requestId": "turn"}))  # it is over: ignored
        assert await ask("session/close", **base) == {}
        assert await ask("session/delete", **base) == {}
        assert await ask("logout") == {}
        served |= {"session/cancel", "$/cancel_request"}
    assert served == STABLE[Side.AGENT]


@pytest.mark.item("001-13", "OFF-01")
async def test_every_stable_method_of_a_client_is_served(tmp_path: Any) -> None:
    """Each row of the table that official v1 calls stable is asked of one client and answered with its shape."""
    asked: list[str] = []

    async def part(peer: ScriptedPeer) -> None:
        await open_session(peer)
        turn = await peer.expect(method="session/prompt")

        async def ask(method: str, **params: Json) -> Json:
            asked.append(method)
            return (await peer.request(method, method, {"sessionId": SESSION, **params}))["result"]

        path = str(tmp_path / "a")
        assert await ask("fs/write_text_file", path=path, content="x") == {}
        assert await ask("fs/read_text_file", path=path) == {"content": "x"}
        terminal = await ask("terminal/create", command="true", cwd=str(tmp_path))
        assert await ask("terminal/wait_for_exit", **terminal) == {"exitCode": 0, "signal": None}
        assert set(await ask("terminal/output", **terminal)) == {"output", "truncated", "exitStatus"}
        assert await ask("terminal/kill", **terminal) == {}
        assert await ask("terminal/release", **terminal) == {}
        options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
        chosen = await ask("session/request_permission", toolCall={"toolCallId": "c", "title": "t"}, options=options)
        assert chosen == {"outcome": {"outcome": "selected", "optionId": "y"}}
        schema = {"type": "object", "properties": {"branch": {"type": "string"}}, "required": ["branch"]}
        filled = await ask("elicitation/create", mode="form", message="Which?", requestedSchema=schema)
        assert filled == {"action": "accept", "content": {"branch": "main"}}
        peer.send(note("elicitation/complete", {"elicitationId": "unknown"}))
        peer.send(note("$/cancel_request", {"requestId": "unknown"}))
        peer.send(
            note(
                "session/update",
                {"sessionId": SESSION, "update": {"sessionUpdate": "agent_message_chunk", "content": text("x")}},
            )
        )
        peer.send(result(turn, {"stopReason": "end_turn"}))

    options: Any = {"workspace": WorkspaceAccess(), "permission": "allow", "elicit": lambda _: {"branch": "main"}}
    async with agent_played(part, **options) as remote:
        assert await (await remote.open_session(str(tmp_path))).ask("go") == "x"
    assert {*asked, "session/update", "elicitation/complete", "$/cancel_request"} == STABLE[Side.CLIENT]


UPDATES: list[Json] = [
    {"sessionUpdate": "user_message_chunk", "content": text("you"), "messageId": "m1"},
    {"sessionUpdate": "agent_thought_chunk", "content": text("hm"), "messageId": "m2"},
    {"sessionUpdate": "agent_message_chunk", "content": text("a"), "messageId": "m3"},
    {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Read", "name": "read_file", "kind": "read"},
    {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"},
    {"sessionUpdate": "plan", "entries": [{"content": "Look", "priority": "low", "status": "pending"}]},
    {"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "go", "description": "Go"}]},
    {"sessionUpdate": "current_mode_update", "currentModeId": "code"},
    {
        "sessionUpdate": "config_option_update",
        "configOptions": [{"id": "v", "name": "V", "type": "boolean", "currentValue": True}],
    },
    {"sessionUpdate": "session_info_update", "title": None, "updatedAt": "2026-01-01T00:00:00Z"},
    {"sessionUpdate": "usage_update", "used": 10, "size": 100, "cost": {"amount": 0.5, "currency": "EUR"}},
    {"sessionUpdate": "notice", "severity": "warning", "title": "Slow", "description": "today"},
    {"sessionUpdate": "compaction_update", "compactionId": "k", "status": "in_progress"},
    {"sessionUpdate": "compaction_summary_chunk", "compactionId": "k", "content": text("short")},
]


@pytest.mark.item("001-13", "OFF-01")
def test_every_stable_update_passes_from_agent_to_client_unchanged() -> None:
    """Our client reads each into its type; said again by our agent's author, each is the same JSON."""
    seen: list[Any] = []

    async def part(peer: ScriptedPeer) -> None:
        await open_session(peer)
        asked = await peer.expect(method="session/prompt")
        for update in UPDATES:
            peer.send(note("session/update", {"sessionId": SESSION, "update": update}))
        peer.send(result(asked, {"stopReason": "end_turn"}))

    async def connecting() -> None:
        async with agent_played(part) as remote:
            session = await remote.open_session(CWD)
            async with session.prompt("go") as turn:
                seen.extend([update async for update in turn])
            assert session.title is None
            assert session.tool_calls["c"].status == "completed"

    run(connecting())
    assert [type(update).__struct_config__.tag for update in seen] == [update["sessionUpdate"] for update in UPDATES]

    async def repeat(turn: Turn) -> None:
        for update in seen:
            await turn.send_update(update)

    async def serving() -> None:
        agent = Agent("a")
        agent.prompt(acting(repeat=repeat))
        async with client_of(agent) as peer:
            updates, _ = await run_prompt(peer, await begin(peer, SHOWS), "repeat")
            assert updates == UPDATES

    run(serving())


# --- sessions -------------------------------------------------------------------------------------------------------


@pytest.mark.item("OFF-01")
async def test_sessions_are_listed_in_pages_closed_and_deleted() -> None:
    """Newest first, by folder, page after page; close ends work, delete forgets, and forgetting twice is no error."""
    agent = Agent("a")
    agent.prompt(acting(hold=hold))

    async with client_of(agent) as peer:
        capabilities = (await peer.request(0, "initialize", hello()))["result"]["agentCapabilities"]
        assert {"list", "close", "delete", "resume", "additionalDirectories"} <= set(
            capabilities["sessionCapabilities"]
        )
        assert (await peer.request(1, "session/list", {}))["result"]["sessions"] == []
        ids = []
        for number in range(120):
            new = {"cwd": f"/folder{number % 2}", "mcpServers": []}
            ids.append((await peer.request(2, "session/new", new))["result"]["sessionId"])
        found: list[str] = []
        params: Json = {}
        while True:
            page = (await peer.request(3, "session/list", params))["result"]
            found += [session["sessionId"] for session in page["sessions"]]
            if "nextCursor" not in page:
                break
            params = {"cursor": page["nextCursor"]}
        assert found == ids[::-1]
        mine = (await peer.request(4, "session/list", {"cwd": "/folder1"}))["result"]["sessions"]
        assert {session["cwd"] for session in mine} == {"/folder1"}
        peer.send(call(5, "session/prompt", prompt(ids[0], "hold")))
        await peer.expect(method="session/update")
        peer.send(call(6, "session/close", {"sessionId": ids[0]}))
        frames = [await peer.receive(), await peer.receive()]
        assert frames == [result(5, {"stopReason": "cancelled"}), result(6, {})]
        refused = await peer.request(7, "session/prompt", prompt(ids[0], "hold"))
        assert "error" in refused  # it is there, but not open
        for _ in range(2):
            assert await peer.request(8, "session/delete", {"sessionId": ids[0]}) == result(8, {})
        gone = await peer.request(9, "session/resume", {"sessionId": ids[0], "cwd": "/folder0"})
        assert gone["error"]["code"] == -32002


@pytest.mark.item("OFF-01")
def test_our_client_lists_closes_deletes_and_resumes_where_that_was_announced() -> None:
    """Each call goes out with its params; at an agent that announced none of them, none is sent."""
    offered: Json = {name: {} for name in ("list", "close", "delete", "resume", "additionalDirectories")}
    info = {"sessionId": "old", "cwd": CWD, "title": "Old", "updatedAt": "2026-01-01T00:00:00Z"}

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "initialize", introduction(sessionCapabilities=offered))
        listed = await serve(peer, "session/list", {"sessions": [info], "nextCursor": "2"})
        assert listed["params"] == {"cwd": CWD, "cursor": "1"}
        resumed = await serve(peer, "session/resume", {})
        assert resumed["params"]["sessionId"] == "old"
        assert resumed["params"]["additionalDirectories"] == ["/more"]
        assert (await serve(peer, "session/close", {}))["params"] == {"sessionId": "old"}
        assert (await serve(peer, "session/delete", {}))["params"] == {"sessionId": "old"}

    async def talk() -> None:
        async with agent_played(part) as remote:
            page = await remote.list_sessions(CWD, "1")
            assert (page.sessions[0].title, page.next_cursor) == ("Old", "2")
            await remote.resume_session("old", CWD, directories=["/more"])
            await remote.close_session("old")
            await remote.delete_session("old")

    async def without(peer: ScriptedPeer) -> None:
        await serve(peer, "initialize", introduction())
        await peer.expect(method="_done")

    async def refused() -> None:
        async with agent_played(without) as remote:
            for work in (
                remote.list_sessions(),
                remote.resume_session("old"),
                remote.close_session("old"),
                remote.delete_session("old"),
            ):
                with pytest.raises(ProtocolError) as caught:
                    await work
                assert caught.value.kind == Kind.CAPABILITY_UNSUPPORTED
            remote.notify("_done", {})

    run(talk())
    run(refused())


@pytest.mark.item("OFF-01")
def test_additional_directories_are_roots_of_the_session(tmp_path: Any) -> None:
    """Our agent knows them in order after cwd; our client serves files in them, and no others."""
    inside, more, outside = (tmp_path / name for name in ("inside", "more", "outside"))
    for folder in (inside, more, outside):
        folder.mkdir()
        (folder / "a").write_text(folder.name)

    async def roots(turn: Turn) -> None:
        await turn.say(" ".join(turn.session.roots))

    agent = Agent("a")
    agent.prompt(acting(roots=roots))

    async def serving() -> None:
        async with client_of(agent) as peer:
            session = await begin(peer, additionalDirectories=["/more", "/most"])
            assert (await run_prompt(peer, session, "roots"))[0][0]["content"]["text"] == f"{CWD} /more /most"

    async def part(peer: ScriptedPeer) -> None:
        params = await open_session(peer, sessionCapabilities={"additionalDirectories": {}})
        assert params["additionalDirectories"] == [str(more)]
        codes = []
        for folder in (inside, more, outside):
            answer = await peer.request(5, "fs/read_text_file", {"sessionId": SESSION, "path": str(folder / "a")})
            codes.append(answer.get("result", {}).get("content"))
        assert codes == ["inside", "more", None]

    async def connecting() -> None:
        async with agent_played(part, workspace=WorkspaceAccess()) as remote:
            await remote.open_session(str(inside), directories=[str(more)])

    run(serving())
    run(connecting())


# --- authentication and questions -----------------------------------------------------------------------------------


@pytest.mark.item("OFF-01")
async def test_after_logout_sessions_need_a_login_again() -> None:
    """logout is announced where there is a login; afterwards a new session is answered with -32000."""
    agent = whole(greet=greet)
    agent.auth_required = True

    async with client_of(agent) as peer:
        initialized = (await peer.request(1, "initialize", hello()))["result"]
        assert initialized["agentCapabilities"]["auth"]["logout"] == {}
        assert initialized["authMethods"] == [{"id": "account", "name": "Account"}]
        new = {"cwd": CWD, "mcpServers": []}
        assert (await peer.request(2, "session/new", new))["error"]["code"] == -32000
        await peer.request(3, "authenticate", {"methodId": "account"})
        assert "result" in await peer.request(4, "session/new", new)
        assert await peer.request(5, "logout", {}) == result(5, {})
        assert (await peer.request(6, "session/new", new))["error"]["code"] == -32000
    plain = Agent("a")
    async with client_of(plain) as peer:
        initialized = (await peer.request(1, "initialize", hello()))["result"]["agentCapabilities"]
        assert "logout" not in initialized.get("auth", {})
        assert (await peer.request(2, "logout", {}))["error"]["code"] == -32601


@pytest.mark.item("OFF-01")
@pytest.mark.parametrize("announces", [True, False])
async def test_authentication_in_a_terminal_is_offered_to_clients_that_have_one(announces: bool) -> None:
    """The method has its arguments and its environment as a map, and is left out where the client cannot show it."""
    method = AuthMethod(id="login", name="Log in", type="terminal", args=["--login"], env={"NO_COLOR": "1"})
    agent = Agent("a", auth_methods=[method])

    async with client_of(agent) as peer:
        answer = await peer.request(1, "initialize", hello({**ALL, "auth": {"terminal": announces}}))
        said_ = {"id": "login", "name": "Log in", "type": "terminal", "args": ["--login"], "env": {"NO_COLOR": "1"}}
        assert answer["result"]["authMethods"] == ([said_] if announces else [])


@pytest.mark.item("OFF-01")
async def test_an_agent_elicits_by_form_and_by_link() -> None:
    """Both modes with their members; what the user did reaches the author; a mode not announced is never sent."""

    async def form(turn: Turn) -> None:
        answer = await turn.elicit("Which branch?", form={"branch": str, "force": bool})
        await turn.say(f"{answer.action} {answer.content}")

    async def link(turn: Turn) -> None:
        answer = await turn.elicit("Log in there", url="https://example.org/login")
        answer.complete()
        await turn.say(answer.action)

    agent = Agent("a")
    agent.prompt(acting(form=form, link=link))

    async with client_of(agent) as peer:
        session = await begin(peer, SHOWS)
        peer.send(call(3, "session/prompt", prompt(session, "form")))
        asked = await peer.expect(method="elicitation/create")
        params = asked["params"]
        assert (params["sessionId"], params["mode"], params["message"]) == (session, "form", "Which branch?")
        fields = params["requestedSchema"]["properties"]
        assert {name: field["type"] for name, field in fields.items()} == {"branch": "string", "force": "boolean"}
        assert params["requestedSchema"]["required"] == ["branch", "force"]
        peer.send(result(asked, {"action": "accept", "content": {"branch": "main", "force": True}}))
        update = (await peer.expect(method="session/update"))["params"]["update"]
        assert update["content"]["text"] == "accept {'branch': 'main', 'force': True}"
        await peer.expect(id=3)
        peer.send(call(4, "session/prompt", prompt(session, "link")))
        asked = await peer.expect(method="elicitation/create")
        assert asked["params"]["mode"] == "url"
        assert asked["params"]["url"] == "https://example.org/login"
        id = asked["params"]["elicitationId"]
        peer.send(result(asked, {"action": "accept"}))
        assert await peer.receive() == note("elicitation/complete", {"elicitationId": id})
        await peer.expect(method="session/update")
        await peer.expect(id=4)
    async with client_of(agent) as peer:
        session = await begin(peer, {"elicitation": {"url": {}}})
        _, answer = await run_prompt(peer, session, "form")
        assert answer["error"]["data"]["kind"] == "capability_unsupported"
        assert [frame["method"] for frame in peer.received if "method" in frame] == []


@pytest.mark.item("OFF-01")
async def test_our_client_answers_the_elicitations_it_announced() -> None:
    """Announced by mode; the agent gets accept, decline or cancel; another mode is -32602."""
    replies = iter([{"branch": "main"}, False, None])

    async def part(peer: ScriptedPeer) -> None:
        asked = await serve(peer, "initialize", introduction())
        assert asked["params"]["clientCapabilities"]["elicitation"] == {"form": {}}
        new = await peer.expect(method="session/new")
        schema = {"type": "object", "properties": {"branch": {"type": "string"}}}
        params = {"sessionId": SESSION, "mode": "form", "message": "?", "requestedSchema": schema}
        actions = [(await peer.request(5, "elicitation/create", params))["result"] for _ in range(3)]
        assert actions == [
            {"action": "accept", "content": {"branch": "main"}},
            {"action": "decline"},
            {"action": "cancel"},
        ]
        link = {"sessionId": SESSION, "mode": "url", "message": "?", "url": "https://x", "elicitationId": "e"}
        assert (await peer.request(6, "elicitation/create", link))["error"]["code"] == -32602
        peer.send(result(new, {"sessionId": SESSION}))

    async with agent_played(part, elicit={"form": lambda _: next(replies)}) as remote:
        await remote.open_session(CWD)


# --- turns ----------------------------------------------------------------------------------------------------------


@pytest.mark.item("OFF-01")
def test_usage_and_session_info_are_sent() -> None:
    """How full the context is during the turn, what it took in the answer; a title, and when it was changed."""

    async def spend(turn: Turn) -> None:
        await turn.report_usage(
            input_tokens=10, output_tokens=5, context_used=1500, context_size=8000, cost=0.25, currency="EUR"
        )
        await turn.set_title("A name")

    agent = Agent("a")
    agent.prompt(acting(spend=spend))

    async def talk() -> None:
        async with client_of(agent) as peer:
            session = await begin(peer)
            (usage, info), answer = await run_prompt(peer, session, "spend")
            cost = {"amount": 0.25, "currency": "EUR"}
            assert usage == {"sessionUpdate": "usage_update", "used": 1500, "size": 8000, "cost": cost}
            assert (info["sessionUpdate"], info["title"]) == ("session_info_update", "A name")
            assert info["updatedAt"].endswith("Z")
            assert answer["result"]["usage"] == {"totalTokens": 15, "inputTokens": 10, "outputTokens": 5}
            (listed,) = (await peer.request(5, "session/list", {}))["result"]["sessions"]
            assert listed["title"] == "A name"

    async def part(peer: ScriptedPeer) -> None:
        await open_session(peer)
        asked = await peer.expect(method="session/prompt")
        for update in UPDATES[9:11]:
            peer.send(note("session/update", {"sessionId": SESSION, "update": update}))
        usage = {"totalTokens": 15, "inputTokens": 10, "outputTokens": 5}
        peer.send(result(asked, {"stopReason": "end_turn", "usage": usage}))

    async def connecting() -> None:
        async with agent_played(part) as remote:
            session = await remote.open_session(CWD)
            async with session.prompt("go") as turn:
                info, usage = [update async for update in turn]
            assert isinstance(info, SessionInfoUpdate)
            assert info.title is None
            assert isinstance(usage, UsageUpdate)
            assert turn.usage is not None
            assert turn.usage.total_tokens == 15

    run(talk())
    run(connecting())


@pytest.mark.item("OFF-01")
def test_a_single_request_is_cancelled_at_either_end() -> None:
    """$/cancel_request: our agent still answers, with the cancelled turn; and cancels a question of its own."""
    agent = Agent("a")

    async def ask(turn: Turn) -> None:
        await turn.ask_permission("May I?")

    agent.prompt(acting(hold=hold, ask=ask))

    async def serving() -> None:
        async with client_of(agent) as peer:
            session = await begin(peer)
            peer.send(call(3, "session/prompt", prompt(session, "hold")))
            await peer.expect(method="session/update")
            peer.send(note("$/cancel_request", {"requestId": 3}))
            answer = await peer.expect(id=3)
            outcome = answer.get("result", {}).get("stopReason") or answer["error"]["code"]
            assert outcome in ("cancelled", -32800)
            peer.send(call(4, "session/prompt", prompt(session, "ask")))
            asked = await peer.expect(method="session/request_permission")
            peer.send(note("session/cancel", {"sessionId": session}))
            frames = [await peer.receive(), await peer.receive()]
            assert note("$/cancel_request", {"requestId": asked["id"]}) in frames
            assert result(4, {"stopReason": "cancelled"}) in frames

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "initialize", introduction())
        asked = await peer.expect(method="_slow")
        assert await peer.receive() == note("$/cancel_request", {"requestId": asked["id"]})
        peer.send(error(asked, -32800, "cancelled"))

    async def connecting() -> None:
        async with agent_played(part) as remote:
            with pytest.raises(ProtocolError) as caught:
                await remote.request("_slow", {}, timeout=0.01)
            assert caught.value.kind == Kind.TIMEOUT

    run(serving())
    run(connecting())


@pytest.mark.item("OFF-01")
async def test_replayed_messages_have_the_same_ids() -> None:
    """Pieces of one message share an id, another message has another; session/load replays them so."""

    async def two(turn: Turn) -> None:
        for id, words in (("m1", "one "), ("m1", "message"), ("m2", "another")):
            await turn.send_update(AgentMessageChunk(content=TextContent(text=words), message_id=id))

    agent = Agent("a")
    agent.prompt(acting(two=two))

    async with client_of(agent) as peer:
        session = await begin(peer)
        updates, _ = await run_prompt(peer, session, "two")
        assert [(update["messageId"], update["content"]["text"]) for update in updates] == [
            ("m1", "one "),
            ("m1", "message"),
            ("m2", "another"),
        ]
        start = len(peer.received)
        await peer.request(4, "session/load", {"sessionId": session, "cwd": CWD, "mcpServers": []})
        received = [frame["params"]["update"] for frame in peer.received[start:-1]]
        assert [(update.get("messageId"), update["content"]["text"]) for update in received] == [
            (None, "two"),
            ("m1", "one message"),
            ("m2", "another"),
        ]


@pytest.mark.item("OFF-01")
@pytest.mark.parametrize("announces", [True, False])
async def test_boolean_options_are_sent_to_clients_that_announced_them(announces: bool) -> None:
    """type boolean and true or false; a client that knows no switches has a choice of two in its place."""

    async def respond(turn: Turn) -> None:
        await turn.say(str(turn.session.get_option("verbose")))

    agent = whole(respond=respond)

    async with client_of(agent) as peer:
        session = await begin(peer, SHOWS if announces else ALL)
        (option,) = [o for o in peer.received[-1]["result"]["configOptions"] if o["id"] == "verbose"]
        base = {"sessionId": session, "configId": "verbose"}
        if announces:
            assert (option["type"], option["currentValue"]) == ("boolean", False)
            answer = await peer.request(3, "session/set_config_option", {**base, "type": "boolean", "value": True})
            assert [o["currentValue"] for o in answer["result"]["configOptions"]] == [True, "low"]
        else:
            assert (option["type"], option["currentValue"]) == ("select", "false")
            answer = await peer.request(3, "session/set_config_option", {**base, "value": "true"})
            assert [o["currentValue"] for o in answer["result"]["configOptions"]] == ["true", "low"]
        assert (await run_prompt(peer, session, "respond"))[0][-1]["content"]["text"] == "True"


@pytest.mark.item("OFF-01")
@pytest.mark.parametrize("announces", [True, False])
async def test_notices_and_compaction_are_sent_to_clients_that_announced_them(announces: bool) -> None:
    """Other clients do not get them; a notice is not part of the history and not replayed, a compaction is."""

    async def shorten(turn: Turn) -> None:
        await turn.send_notice("The history is long", severity="warning")
        async with turn.compaction() as work:
            await work.add_summary("In short.")
        await turn.say("Done")

    agent = Agent("a")
    agent.prompt(acting(shorten=shorten))

    async with client_of(agent) as peer:
        session = await begin(peer, SHOWS if announces else ALL)
        updates, _ = await run_prompt(peer, session, "shorten")
        kinds = [update["sessionUpdate"] for update in updates]
        if not announces:
            assert kinds == ["agent_message_chunk"]
            return
        notice = {"sessionUpdate": "notice", "severity": "warning", "title": "The history is long"}
        assert updates[0] == notice
        assert kinds[1] == "compaction_update"
        assert updates[1]["status"] == "in_progress"
        assert kinds[-1] == "agent_message_chunk"
        assert updates[-2]["status"] == "completed"
        assert len({update["compactionId"] for update in updates[1:-1]}) == 1
        assert "In short." in str(updates[1:-1])
        start = len(peer.received)
        await peer.request(4, "session/load", {"sessionId": session, "cwd": CWD, "mcpServers": []})
        received = [frame["params"]["update"]["sessionUpdate"] for frame in peer.received[start:-1]]
        assert "notice" not in received
        assert "compaction_update" in received


@pytest.mark.item("OFF-01")
async def test_our_client_announces_what_its_sessions_accept() -> None:
    """Switches, notices and compaction; and each of them reaches whoever reads."""

    async def part(peer: ScriptedPeer) -> None:
        asked = await serve(peer, "initialize", introduction())
        assert asked["params"]["clientCapabilities"]["session"] == SHOWS["session"]
        await serve(peer, "session/new", {"sessionId": SESSION})
        asked = await peer.expect(method="session/prompt")
        for update in UPDATES[11:]:
            peer.send(note("session/update", {"sessionId": SESSION, "update": update}))
        peer.send(result(asked, {"stopReason": "end_turn"}))

    async with agent_played(part) as remote:
        session = await remote.open_session(CWD)
        async with session.prompt("go") as turn:
            kinds = [type(update) async for update in turn]
        assert kinds == [Notice, CompactionUpdate, CompactionSummaryChunk]


# --- through a proxy ------------------------------------------------------------------------------------------------

TRACE = {
    "traceparent": "00-80e1afed08e019fc1110464cfa66635c-7a085853722dc6d2-01",
    "tracestate": "a=1",
    "baggage": "u=2",
}
ODD: Json = {"_meta": {**TRACE, "vendor": {"deep": [1, None]}}, "futureField": {"x": None}}


@pytest.mark.item("OFF-06")
@pytest.mark.parametrize("claims", [False, True], ids=["forwarded", "claimed"])
def test_trace_keys_and_unknown_fields_pass_a_proxy_both_ways(claims: bool) -> None:
    """Every message of a turn arrives as it was sent, at each depth, also where the proxy reads its types."""
    proxy = Proxy()
    if claims:
        for method in ("session/new", "session/prompt"):

            @proxy.from_client(method)
            async def ask(params: Any, forward: Any) -> Any:
                return await forward(params)

        @proxy.from_agent("session/update")
        async def respond(params: Any, forward: Any) -> None:
            await forward(params)

        @proxy.from_agent("session/request_permission")
        async def question(params: Any, forward: Any) -> Any:
            return await forward(params)

    new = {"cwd": CWD, "mcpServers": [], **ODD}
    turn = {"sessionId": SESSION, "prompt": [{**text("go"), **ODD}], **ODD}
    update = {"sessionUpdate": "agent_message_chunk", "content": {**text("hi"), **ODD}, **ODD}
    call_ = {"toolCallId": "c", "title": "t", **ODD}
    asks = {
        "sessionId": SESSION,
        "toolCall": call_,
        "options": [{"optionId": "y", "name": "Y", "kind": "allow_once", **ODD}],
    }
    chosen = {"outcome": {"outcome": "selected", "optionId": "y", **ODD}, **ODD}

    async def talk() -> None:
        (here, front), (back, there) = memory_pair(), memory_pair()
        client, agent = ScriptedPeer(here), ScriptedPeer(there)
        serving = asyncio.ensure_future(proxy.serve(front, back))
        try:
            client.send(call(1, "initialize", {**hello({**ALL, **ODD}), **ODD}))
            asked = await serve(agent, "initialize", {**introduction(**ODD), **ODD})
            assert asked["params"] == {**hello({**ALL, **ODD}), **ODD}
            assert await client.receive() == result(1, {**introduction(**ODD), **ODD})
            client.send(call(2, "session/new", new))
            asked = await serve(agent, "session/new", {"sessionId": SESSION, **ODD})
            assert asked["params"] == new
            assert await client.receive() == result(2, {"sessionId": SESSION, **ODD})
            client.send(call(3, "session/prompt", turn))
            asked = await agent.expect(method="session/prompt")
            assert asked["params"] == turn
            agent.send(note("session/update", {"sessionId": SESSION, "update": update, **ODD}))
            assert await client.receive() == note("session/update", {"sessionId": SESSION, "update": update, **ODD})
            agent.send(call(9, "session/request_permission", {**asks, **ODD}))
            question = await client.expect(method="session/request_permission")
            assert question["params"] == {**asks, **ODD}
            client.send(result(question, chosen))
            assert await agent.receive() == result(9, chosen)
            agent.send(note("_vendor/told", ODD))
            assert await client.receive() == note("_vendor/told", ODD)
            agent.send(result(asked, {"stopReason": "end_turn", **ODD}))
            assert await client.receive() == result(3, {"stopReason": "end_turn", **ODD})
        finally:
            await here.close()
            await there.close()
            await serving

    run(talk())


@pytest.mark.item("OFF-06")
async def test_trace_keys_pass_the_translate_command(tmp_path: Any) -> None:
    """`dragoman translate` in front of an agent process: what the client's _meta says, the agent's author reads."""
    (tmp_path / "agent.py").write_text(
        "from dragoman import Agent\n"
        "agent = Agent('a')\n"
        "@agent.prompt\n"
        "async def tell(turn):\n"
        "    await turn.say(turn.prompt[0].meta['traceparent'])\n"
        "agent.run()\n"
    )

    async with Child("translate", "--", sys.executable, str(tmp_path / "agent.py")) as between:
        await between.request(1, "initialize", hello())
        opened = await between.request(2, "session/new", {"cwd": str(tmp_path), "mcpServers": []})
        params = {"sessionId": opened["result"]["sessionId"], "prompt": [{**text("go"), "_meta": TRACE}]}
        await between.request(3, "session/prompt", params)
        (update,) = [f["params"]["update"] for f in between.received if f.get("method") == "session/update"]
        assert update["content"]["text"] == TRACE["traceparent"]
