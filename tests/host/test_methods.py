"""Every method of the table, in both directions: answered by the host, forwarded with its ids mapped, or refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Option, Provider, Turn
from dragoman.engine.connection import Connection
from dragoman.errors import ConnectionFailed, Kind
from dragoman.host.methods import SERVED_METHODS
from dragoman.schema.config import SessionMode
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side
from dragoman.testing.samples import samples
from dragoman.transport.memory import MemoryTransport
from tests.host.memory_host import Hosted, open_session, running_host, talker, until

FS = ("binary", "list", "createDirectory", "watch", "atomic")
ABLE = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "elicitation": {"form": {}, "url": {}},
    "_meta": {"dragoman": {"fs": dict.fromkeys(FS, True)}},
}
OPENAI = {"providerId": "main", "apiType": "openai", "baseUrl": "https://models.example/v1"}


def full_agent(login: Callable[[Any], Any] = lambda _: None, **more: Any) -> Agent:
    """Return an agent with every capability that our agents have."""
    agent = talker(
        **more,
        unstable=True,
        modes=[SessionMode(id="plain", name="Plain")],
        options=[Option.select("a-config-id", ["one", "two"])],
        providers=[Provider(id="main", supported=["openai"])],
    )
    agent.authenticate("key")(login)
    agent.on("_acme/echo")(lambda said: {"heard": said})
    return agent


class Raw:
    """A client that sends frames, records what it gets, and answers requests."""

    def __init__(self, transport: MemoryTransport, answers: dict[str, Any] | None = None) -> None:
        self.transport = transport
        self.frames: list[dict[str, Any]] = []
        self._answers = answers or {}
        self._last = 0
        self.reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        with suppress(ConnectionFailed):
            while True:
                for data in await self.transport.receive():
                    frame = json.loads(bytes(data))  # type: ignore[arg-type]
                    self.frames.append(frame)
                    if "method" in frame and "id" in frame:
                        self.say(id=frame["id"], result=self._answers.get(frame["method"], {}))

    def say(self, **members: Any) -> None:
        self.transport.send(json.dumps({"jsonrpc": "2.0", **members}).encode())

    async def ask(self, method: str, params: Any) -> dict[str, Any]:
        self._last += 1
        id = self._last
        self.say(id=id, method=method, params=params)
        await until(lambda: any(frame.get("id") == id and "method" not in frame for frame in self.frames))
        return next(frame for frame in self.frames if frame.get("id") == id and "method" not in frame)

    def received(self, method: str) -> list[dict[str, Any]]:
        return [frame["params"] for frame in self.frames if frame.get("method") == method]


async def join(hosted: Hosted, cwd: Path, answers: dict[str, Any] | None = None) -> tuple[Raw, str, dict[str, Any]]:
    """Return a client with all capabilities, its session, and the initialize result."""
    client = Raw(hosted.connect_as(), answers)
    initialized = await client.ask("initialize", {"protocolVersion": 1, "clientCapabilities": ABLE})
    created = await client.ask("session/new", {"cwd": str(cwd), "mcpServers": []})
    return client, created["result"]["sessionId"], initialized["result"]


def kind_and_message(answer: dict[str, Any]) -> tuple[str, str]:
    """Return the kind and the message of an error; empty for a result."""
    error = answer.get("error", {})
    return error.get("data", {}).get("kind", ""), error.get("message", "")


def test_the_host_serves_what_the_table_says_it_does_not_refuse() -> None:
    served = {name for (side, name), row in METHODS.items() if side is Side.AGENT and row.host != "refuses"}
    assert served == {name for name in SERVED_METHODS if not name.startswith("_dragoman/")}
    assert {row.name for row in METHODS.values() if bool(row.host_reason) != (row.host == "refuses")} == set()


async def test_each_client_method_is_served_or_refused_with_a_reason(tmp_path: Path) -> None:
    async with running_host(full_agent) as hosted:
        client, _, _ = await join(hosted, tmp_path)
        for (side, name), row in METHODS.items():
            if side is not Side.AGENT or name in ("initialize", "session/cancel", "$/cancel_request"):
                continue
            params = dict(samples(row.params)[0])
            if "cwd" in params:
                params["cwd"] = str(tmp_path)
            if "sessionId" in params:
                created = await client.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
                params["sessionId"] = created["result"]["sessionId"]
            kind, message = kind_and_message(await client.ask(name, params))
            if row.host == "refuses":
                assert kind == Kind.CAPABILITY_UNSUPPORTED, (name, kind)
                # Some are not offered, so the reason for their refusal does not matter.
                assert row.host_reason in message or "which this host does not offer" in message
                assert name in message
            else:
                assert kind not in (Kind.METHOD_NOT_FOUND, Kind.CAPABILITY_UNSUPPORTED), (name, message)


async def test_each_agent_method_reaches_a_client_or_is_refused(tmp_path: Path) -> None:
    answers = {
        row.name: samples(row.result)[0] for (side, _), row in METHODS.items() if side is Side.CLIENT and row.request
    }

    async with running_host(full_agent) as hosted:
        client, session, _ = await join(hosted, tmp_path, answers)
        agent = hosted.started[-1]
        theirs = next(iter(hosted.agents[-1].sessions))
        for (side, name), row in METHODS.items():
            if side is not Side.CLIENT or name == "$/cancel_request":
                continue
            params = dict(samples(row.params)[0])
            if "sessionId" in row.ids:
                params["sessionId"] = theirs
            for created, member in (("terminal/create", "terminalId"), ("fs/watch", "watchId")):
                if member in params:
                    params[member] = answers[created][member]
            if "mode" in params:
                params["mode"] = "url"
            if "path" in params:
                params["path"] = str(tmp_path / "a.txt")
            kind, message = kind_and_message(
                await send_request(agent, name, params) if row.request else noted(agent, name, params)
            )
            if row.host == "refuses":
                assert (kind, name in message) == (Kind.CAPABILITY_UNSUPPORTED, True), name
                assert row.host_reason in message
                assert not client.received(name)
            else:
                assert not message, (name, message)
                await until(lambda name=name: client.received(name))  # type: ignore[misc]
                assert client.received(name)[-1].get("sessionId", session) == session, name


async def send_request(agent: Connection, method: str, params: Any) -> dict[str, Any]:
    """Send a request as the agent, whatever the client offers. Return the answer."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    agent.forward(method, json.dumps(params).encode(), lambda result, error: answer.set_result(error or result))
    envelope = await answer
    if envelope.error:
        return {"error": json.loads(bytes(envelope.error))}
    return {"result": json.loads(bytes(envelope.result))}


def noted(agent: Connection, method: str, params: Any) -> dict[str, Any]:
    """Send a notification."""
    frame = {"jsonrpc": "2.0", "method": method, "params": params}
    agent.transport.send(json.dumps(frame).encode())
    return {}


async def test_offered_capabilities_are_served(tmp_path: Path) -> None:
    for make, is_able in ((full_agent, True), (talker, False)):
        async with running_host(make) as hosted:
            client, session, initialized = await join(hosted, tmp_path)
            offered = initialized["agentCapabilities"]
            assert set(offered["sessionCapabilities"]) >= {
                *("list", "resume", "close", "delete", "fork", "archive", "status", "title")
            }
            assert "acp" not in offered["mcpCapabilities"]
            assert ("providers" in offered, "auth" in offered) == (is_able, is_able)
            for method in ("providers/list", "auth/status", "logout"):
                kind, message = kind_and_message(await client.ask(method, {}))
                assert (kind == "") is is_able, message
                assert is_able or "which this host does not offer" in message
            server = {"type": "acp", "name": "inside", "serverId": "x"}
            _, message = kind_and_message(
                await client.ask("session/new", {"cwd": str(tmp_path), "mcpServers": [server]})
            )
            assert "inside a client (inside)" in message
            assert kind_and_message(await client.ask("session/status", {"sessionId": session})) == ("", "")


async def test_a_session_is_archived_and_unarchived(tmp_path: Path) -> None:
    async with running_host() as hosted:
        client, session, _ = await join(hosted, tmp_path)

        async def listed(**which: str) -> list[tuple[str, Any]]:
            answer = await client.ask("session/list", which)
            return [(one["sessionId"], one.get("archived")) for one in answer["result"]["sessions"]]

        assert (await client.ask("session/status", {"sessionId": session}))["result"] == {"status": "open"}
        assert (await client.ask("session/archive", {"sessionId": session}))["result"] == {}
        assert await listed() == []
        assert await listed(archived="only") == await listed(archived="include") == [(session, True)]
        assert (await client.ask("session/status", {"sessionId": session}))["result"] == {"status": "saved"}
        assert not hosted.host.rooms  # nothing runs for it
        where = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
        assert "result" in await client.ask("session/load", where)
        assert "result" in await client.ask("session/unarchive", {"sessionId": session})
        assert await listed() == [(session, None)]
        kind, _ = kind_and_message(await client.ask("session/status", {"sessionId": "nowhere"}))
        assert kind == Kind.SESSION_NOT_FOUND


@pytest.mark.parametrize("unstable", [True, False])
async def test_a_title_is_sent_to_all_once_and_stored(unstable: bool, tmp_path: Path) -> None:
    async with running_host(lambda: talker(unstable=unstable)) as hosted:
        client, session, _ = await join(hosted, tmp_path)
        answer = await client.ask("session/set_title", {"sessionId": session, "title": "  The roof "})
        assert answer["result"] == {"title": "The roof"}
        titles = [it["update"]["title"] for it in client.received("session/update") if "title" in it["update"]]
        assert titles == ["The roof"]  # the agent's title, or ours
        (summary,) = await hosted.host.store.sessions()
        assert summary.title == "The roof"
        kind, _ = kind_and_message(await client.ask("session/set_title", {"sessionId": session, "title": " "}))
        assert kind == Kind.INVALID_PARAMS
        client.say(id=99, method="session/set_title", params={"sessionId": "nowhere", "title": "x"})


async def test_only_admins_archive_and_only_editors_set_titles(tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client() as ann:
        session = await open_session(ann, tmp_path)
        for role, may_name in (("viewer", False), ("editor", True)):
            await hosted.host.session_roles.set_role(session.id, "ben", role)
            ben = Raw(hosted.connect_as("ben"))
            await ben.ask("initialize", {"protocolVersion": 1})
            for method in ("session/archive", "session/unarchive"):
                assert kind_and_message(await ben.ask(method, {"sessionId": session.id}))[0] == Kind.PERMISSION_DENIED
            kind, _ = kind_and_message(await ben.ask("session/set_title", {"sessionId": session.id, "title": role}))
            assert kind == ("" if may_name else Kind.PERMISSION_DENIED)
            assert "result" in await ben.ask("session/status", {"sessionId": session.id})
        stranger = Raw(hosted.connect_as("eve"))
        await stranger.ask("initialize", {"protocolVersion": 1})
        for method in ("session/archive", "session/unarchive", "session/status", "session/set_title"):
            answer = await stranger.ask(method, {"sessionId": session.id, "title": "x"})
            assert kind_and_message(answer)[0] == Kind.SESSION_NOT_FOUND


async def test_a_provider_is_set_in_every_process_of_its_user_only(tmp_path: Path) -> None:
    async with running_host(full_agent) as hosted, hosted.client("ben") as ben:
        other = await open_session(ben, tmp_path)
        bens = hosted.agents[-1]
        client, session, _ = await join(hosted, tmp_path)
        awake = hosted.agents[-1]
        set_ = {**OPENAI, "headers": {"authorization": "secret"}}
        assert "result" in await client.ask("providers/set", set_)
        assert awake.providers["main"].base_url == OPENAI["baseUrl"]
        assert bens.providers["main"].base_url == ""
        answer = await client.ask("providers/list", {})
        (main,) = answer["result"]["providers"]
        assert main["current"] == {"apiType": "openai", "baseUrl": OPENAI["baseUrl"]}
        await client.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        assert hosted.agents[-1].providers["main"].headers == {"authorization": "secret"}
        assert "result" in await client.ask("providers/disable", {"providerId": "main"})
        assert not awake.providers["main"].is_enabled
        kind, _ = kind_and_message(await client.ask("providers/set", {**OPENAI, "providerId": "none"}))
        assert kind == Kind.INVALID_PARAMS
        for log in (other.id, session):
            assert "secret" not in str(await hosted.host.store.read(log))


async def test_auth_status_is_asked_for_the_user_and_sent_to_their_clients_only(tmp_path: Path) -> None:
    async with running_host(lambda: full_agent(auth_required=True)) as hosted:
        client = Raw(hosted.connect_as())
        await client.ask("initialize", {"protocolVersion": 1, "clientCapabilities": ABLE})
        ben = Raw(hosted.connect_as("ben"))
        await ben.ask("initialize", {"protocolVersion": 1, "clientCapabilities": ABLE})
        assert (await client.ask("auth/status", {}))["result"]["state"] == "unauthenticated"
        assert "result" in await client.ask("authenticate", {"methodId": "key"})
        assert (await client.ask("auth/status", {}))["result"]["state"] == "authenticated"
        assert (await ben.ask("auth/status", {}))["result"]["state"] == "unauthenticated"
        assert "result" in await client.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        client.frames.clear()
        noted(hosted.started[-1], "auth/status_update", {"state": "x"})
        await until(lambda: client.received("auth/status_update"))
        assert client.received("auth/status_update") == [{"state": "x"}]
        assert "result" in await client.ask("logout", {})
        assert (await client.ask("auth/status", {}))["result"]["state"] == "unauthenticated"
        assert not ben.received("auth/status_update")


async def test_questions_during_a_call_go_to_the_calling_client(tmp_path: Path) -> None:
    def asking_agent() -> Agent:
        async def login(_: Any) -> None:
            link = await agent.elicit("Your key?", url="https://login.example")
            assert link
            link.complete()

        agent = full_agent(login)

        @agent.on_session_opened
        async def started(_: Any) -> None:
            await agent.elicit("Which branch?", url="https://branch.example")

        return agent

    answers = {"elicitation/create": {"action": "accept"}}
    async with running_host(asking_agent) as hosted:
        other = Raw(hosted.connect_as(), answers)
        await other.ask("initialize", {"protocolVersion": 1, "clientCapabilities": ABLE})
        client, _, _ = await join(hosted, tmp_path, answers)
        (question,) = client.received("elicitation/create")
        assert (question["message"], question["requestId"]) == ("Which branch?", 2)
        assert "sessionId" not in question
        assert "result" in await client.ask("authenticate", {"methodId": "key"})
        asked = client.received("elicitation/create")[-1]
        assert asked["requestId"] == 3
        assert client.received("elicitation/complete") == [{"elicitationId": asked["elicitationId"]}]
        assert not other.received("elicitation/create")


async def test_extensions_go_to_the_agent_of_the_named_or_only_session(tmp_path: Path) -> None:
    async with running_host(full_agent) as hosted:
        client, session, _ = await join(hosted, tmp_path)
        theirs = next(iter(hosted.agents[-1].sessions))
        answer = await client.ask("_acme/echo", {"sessionId": session, "x": 1})
        assert answer["result"] == {"heard": {"sessionId": theirs, "x": 1}}
        assert (await client.ask("_acme/echo", {"x": 2}))["result"] == {"heard": {"x": 2}}
        kind, message = kind_and_message(await client.ask("_acme/none", {}))
        assert (kind, "_acme/none" in message) == (Kind.METHOD_NOT_FOUND, True)  # the agent says so
        for method in ("acme/echo", "_dragoman/none", "nes/start"):
            kind, message = kind_and_message(await client.ask(method, {"sessionId": session}))
            assert (kind, message) == (Kind.METHOD_NOT_FOUND, f"the host does not serve {method}")
        await client.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        kind, message = kind_and_message(await client.ask("_acme/echo", {"x": 3}))
        assert kind == Kind.METHOD_NOT_FOUND
        assert "name the session with sessionId" in message


async def test_extension_requests_of_an_agent_go_to_a_client_and_can_be_cancelled(tmp_path: Path) -> None:
    def asker() -> Agent:
        agent = Agent("asker")

        @agent.prompt
        async def answer(turn: Turn) -> None:
            connection = turn.session.connection
            params = {"sessionId": turn.session.id, "n": 1}
            assert await connection.request_raw("_acme/pick", params) == {"picked": True}
            connection.notify("_acme/news", params)
            asking = asyncio.ensure_future(connection.request_raw("_acme/wait", params))
            await asyncio.sleep(0)
            asking.cancel()
            await turn.say("done")

        return agent

    async with running_host(asker) as hosted:
        client, session, _ = await join(hosted, tmp_path, {"_acme/pick": {"picked": True}})
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "x"}]}
        assert (await client.ask("session/prompt", prompt))["result"]["stopReason"] == "end_turn"
        assert client.received("_acme/pick") == client.received("_acme/news") == [{"sessionId": session, "n": 1}]
        for room in list(hosted.host.rooms.values()):
            for member_client in list(hosted.host.clients):
                room.leave(member_client)
        answer = await send_request(hosted.started[-1], "_acme/pick", {"n": 2})
        assert "no client in the session can answer it" in kind_and_message(answer)[1]


async def test_terminals_of_two_clients_with_the_same_id_are_distinguished(tmp_path: Path) -> None:
    async with running_host(full_agent) as hosted:
        outputs = [{"terminal/create": {"terminalId": "t1"}, "terminal/output": {"output": who}} for who in "ab"]
        ann, session, _ = await join(hosted, tmp_path, outputs[0])
        ben = Raw(hosted.connect_as(), outputs[1])
        await ben.ask("initialize", {"protocolVersion": 1, "clientCapabilities": ABLE})
        await ben.ask("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
        agent, theirs = hosted.started[-1], next(iter(hosted.agents[-1].sessions))

        async def use(method: str, **more: Any) -> Any:
            return (await send_request(agent, method, {"sessionId": theirs, **more}))["result"]

        assert await use("terminal/create", command="x") == {"terminalId": "t1"}  # ann's: she joined first
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "wait gate"}]}
        ben.say(id=50, method="session/prompt", params=prompt)
        await until(lambda: "gate" in hosted.agents[-1].gates)  # type: ignore[attr-defined]
        assert await use("terminal/create", command="x") == {"terminalId": "t1~2"}  # ben's: his prompt runs
        assert [(await use("terminal/output", terminalId=id))["output"] for id in ("t1", "t1~2")] == ["a", "b"]
        assert ben.received("terminal/output")[-1] == {"sessionId": session, "terminalId": "t1"}
        await use("terminal/release", terminalId="t1~2")
        assert len(ben.received("terminal/release")) == 1
        assert not ann.received("terminal/release")


async def test_extra_methods_of_banjo_are_served(tmp_path: Path) -> None:
    models = Option.models(["small", "large"])
    async with running_host(lambda: talker(options=[models])) as hosted:
        client, session, _ = await join(hosted, tmp_path)
        chosen = {"sessionId": session, "modelId": "large"}
        assert "result" in await client.ask("session/set_model", chosen)
        (changed,) = [it["update"] for it in client.received("session/update") if "configOptions" in it["update"]]
        assert changed["configOptions"][0]["currentValue"] == "large"
        again = Raw(hosted.connect_as())
        await again.ask("initialize", {"protocolVersion": 1})
        answer = await again.ask("unstable_resumeSession", {"sessionId": session, "cwd": str(tmp_path)})
        assert answer["result"]["configOptions"][0]["currentValue"] == "large"


async def test_cancelling_one_tool_call_needs_an_editor_and_an_agent_that_runs_and_can(tmp_path: Path) -> None:
    call, shell = {"toolCallId": "c"}, {"terminalId": "t"}
    async with running_host() as hosted:
        client, session, _ = await join(hosted, tmp_path)
        for method, what in (("tool_call/cancel", call), ("terminal/cancel", shell)):
            answer = await client.ask(method, {"sessionId": session, **what})
            assert answer["error"]["code"] == -32602
            assert "cancel the turn" in answer["error"]["message"]
        await hosted.host.session_roles.set_role(session, "ben", "viewer")
        ben = Raw(hosted.connect_as("ben"))
        await ben.ask("initialize", {"protocolVersion": 1})
        await ben.ask("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
        kind, _ = kind_and_message(await ben.ask("tool_call/cancel", {"sessionId": session, **call}))
        assert kind == Kind.PERMISSION_DENIED
        await hosted.room.sleep()
        started = len(hosted.agents)
        answer = await client.ask("tool_call/cancel", {"sessionId": session, **call})
        assert "not running" in answer["error"]["message"]
        assert len(hosted.agents) == started
