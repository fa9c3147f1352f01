"""Every method of THE table, in both directions: answered by the host, passed on with its ids mapped, or refused."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Option, Provider, Turn
from dragoman.engine.connection import Connection
from dragoman.errors import ConnectionFailed, Kind
from dragoman.host import refusals
from dragoman.host.methods import SERVED_METHODS
from dragoman.schema.config import SessionMode
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side
from dragoman.testing.samples import samples
from dragoman.transport.memory import MemoryTransport
from tests.host.memory_host import Hosted, hosting, opened, talker, until

FS = ("binary", "list", "createDirectory", "watch", "atomic")
ABLE = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "elicitation": {"form": {}, "url": {}},
    "_meta": {"dragoman": {"fs": dict.fromkeys(FS, True)}},
}
OPENAI = {"providerId": "main", "apiType": "openai", "baseUrl": "https://models.example/v1"}


def able(**more: Any) -> Agent:
    """An agent that offers whatever an agent of ours can offer."""
    agent = talker(
        **more,
        unstable=True,
        modes=[SessionMode(id="plain", name="Plain")],
        options=[Option.select("a-config-id", ["one", "two"])],
        providers=[Provider(id="main", supported=["openai"])],
    )
    agent.authenticate("key")(lambda _: None)
    agent.on("_acme/echo")(lambda said: {"heard": said})
    return agent


class Raw:
    """A client that says frames, notes what it gets, and answers what it is asked."""

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

    def heard(self, method: str) -> list[dict[str, Any]]:
        return [frame["params"] for frame in self.frames if frame.get("method") == method]


async def come(hosted: Hosted, cwd: Path, answers: dict[str, Any] | None = None) -> tuple[Raw, str, dict[str, Any]]:
    """A client that can do everything, in a session: itself, the session, and what it was told of the agent."""
    client = Raw(hosted.visit(), answers)
    met = await client.ask("initialize", {"protocolVersion": 1, "clientCapabilities": ABLE})
    made = await client.ask("session/new", {"cwd": str(cwd), "mcpServers": []})
    return client, made["result"]["sessionId"], met["result"]


def told(answer: dict[str, Any]) -> tuple[str, str]:
    """The kind and the words of an error; nothing of a result."""
    error = answer.get("error", {})
    return error.get("data", {}).get("kind", ""), error.get("message", "")


def test_the_fates_are_those_of_the_table() -> None:
    to_agents = refusals.ANSWERED_TO_CLIENTS | refusals.PASSED_TO_AGENTS
    to_clients = refusals.ANSWERED_TO_AGENTS | refusals.PASSED_TO_CLIENTS
    refused = {side: {name for to, name in refusals.REFUSED if to is side} for side in Side}
    for side, served in ((Side.AGENT, to_agents), (Side.CLIENT, to_clients)):
        rows = {name for to, name in METHODS if to is side}
        assert served | refused[side] == rows
        assert not served & refused[side]
    assert to_agents == {name for name in SERVED_METHODS if not name.startswith("_dragoman/")}


async def test_each_method_of_a_client_is_served_or_refused_by_its_reason(tmp_path: Path) -> None:

    async with hosting(able) as hosted:
        client, _, _ = await come(hosted, tmp_path)
        for (side, name), row in METHODS.items():
            if side is not Side.AGENT or name in ("initialize", "session/cancel", "$/cancel_request"):
                continue
            params = dict(samples(row.params)[0])
            if "cwd" in params:
                params["cwd"] = str(tmp_path)
            if "sessionId" in params:
                made = await client.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
                params["sessionId"] = made["result"]["sessionId"]
            kind, words = told(await client.ask(name, params))
            if (side, name) in refusals.REFUSED:
                assert kind == Kind.CAPABILITY_UNSUPPORTED, (name, kind)
                # Some are not even offered, so nobody has to say why they are not served.
                assert refusals.REFUSED[side, name] in words or "which is not offered here" in words
                assert name in words
            else:
                assert kind not in (Kind.METHOD_NOT_FOUND, Kind.CAPABILITY_UNSUPPORTED), (name, words)


async def test_each_method_of_an_agent_reaches_a_client_with_its_session_or_is_refused(tmp_path: Path) -> None:
    answers = {
        row.name: samples(row.result)[0] for (side, _), row in METHODS.items() if side is Side.CLIENT and row.request
    }

    async with hosting(able) as hosted:
        client, session, _ = await come(hosted, tmp_path, answers)
        agent = hosted.started[-1]
        theirs = next(iter(hosted.agents[-1].sessions))
        for (side, name), row in METHODS.items():
            if side is not Side.CLIENT or name == "$/cancel_request":
                continue
            params = dict(samples(row.params)[0])
            if "sessionId" in row.ids:
                params["sessionId"] = theirs
            for made, member in (("terminal/create", "terminalId"), ("fs/watch", "watchId")):
                if member in params:
                    params[member] = answers[made][member]
            if "mode" in params:
                params["mode"] = "url"
            if "path" in params:
                params["path"] = str(tmp_path / "a.txt")
            kind, words = told(await asked(agent, name, params) if row.request else noted(agent, name, params))
            if (side, name) in refusals.REFUSED:
                assert (kind, name in words) == (Kind.CAPABILITY_UNSUPPORTED, True)
                assert refusals.REFUSED[side, name] in words
                assert not client.heard(name)
            else:
                assert not words, (name, words)
                await until(lambda name=name: client.heard(name))  # type: ignore[misc]
                assert client.heard(name)[-1].get("sessionId", session) == session, name


async def asked(agent: Connection, method: str, params: Any) -> dict[str, Any]:
    """What an agent is answered, whatever it thinks that its client offers."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    agent.forward(method, json.dumps(params).encode(), lambda result, error: answer.set_result(error or result))
    envelope = await answer
    if envelope.error:
        return {"error": json.loads(bytes(envelope.error))}
    return {"result": json.loads(bytes(envelope.result))}


def noted(agent: Connection, method: str, params: Any) -> dict[str, Any]:
    """Tell something unasked."""
    frame = {"jsonrpc": "2.0", "method": method, "params": params}
    agent.transport.send(json.dumps(frame).encode())
    return {}


async def test_what_is_offered_is_what_is_served(tmp_path: Path) -> None:

    for make, is_able in ((able, True), (talker, False)):
        async with hosting(make) as hosted:
            client, session, met = await come(hosted, tmp_path)
            offered = met["agentCapabilities"]
            assert set(offered["sessionCapabilities"]) >= {
                *("list", "resume", "close", "delete", "fork", "archive", "status", "title")
            }
            assert "acp" not in offered["mcpCapabilities"]
            assert ("providers" in offered, "auth" in offered) == (is_able, is_able)
            for method in ("providers/list", "auth/status", "logout"):
                kind, words = told(await client.ask(method, {}))
                assert (kind == "") is is_able, words
                assert is_able or "which is not offered here" in words
            server = {"type": "acp", "name": "inside", "serverId": "x"}
            _, words = told(await client.ask("session/new", {"cwd": str(tmp_path), "mcpServers": [server]}))
            assert "inside a client (inside)" in words
            assert told(await client.ask("session/status", {"sessionId": session})) == ("", "")


async def test_a_session_is_put_away_and_taken_back(tmp_path: Path) -> None:

    async with hosting() as hosted:
        client, session, _ = await come(hosted, tmp_path)

        async def listed(**which: str) -> list[tuple[str, Any]]:
            answer = await client.ask("session/list", which)
            return [(one["sessionId"], one.get("archived")) for one in answer["result"]["sessions"]]

        assert (await client.ask("session/status", {"sessionId": session}))["result"] == {"status": "open"}
        assert (await client.ask("session/archive", {"sessionId": session}))["result"] == {}
        assert await listed() == []
        assert await listed(archived="only") == await listed(archived="include") == [(session, True)]
        assert (await client.ask("session/status", {"sessionId": session}))["result"] == {"status": "saved"}
        assert not hosted.house.rooms  # nothing runs for it
        where = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
        assert "result" in await client.ask("session/load", where)
        assert "result" in await client.ask("session/unarchive", {"sessionId": session})
        assert await listed() == [(session, None)]
        kind, _ = told(await client.ask("session/status", {"sessionId": "nowhere"}))
        assert kind == Kind.SESSION_NOT_FOUND


@pytest.mark.parametrize("unstable", [True, False])
async def test_a_title_is_told_to_all_once_and_kept(unstable: bool, tmp_path: Path) -> None:

    async with hosting(lambda: talker(unstable=unstable)) as hosted:
        client, session, _ = await come(hosted, tmp_path)
        answer = await client.ask("session/set_title", {"sessionId": session, "title": "  The roof "})
        assert answer["result"] == {"title": "The roof"}
        titles = [it["update"]["title"] for it in client.heard("session/update") if "title" in it["update"]]
        assert titles == ["The roof"]  # the agent's words, or ours
        (summary,) = await hosted.house.store.sessions()
        assert summary.title == "The roof"
        kind, _ = told(await client.ask("session/set_title", {"sessionId": session, "title": " "}))
        assert kind == Kind.INVALID_PARAMS
        client.say(id=99, method="session/set_title", params={"sessionId": "nowhere", "title": "x"})


async def test_only_admins_put_away_and_only_editors_name(tmp_path: Path) -> None:

    async with hosting() as hosted, hosted.client() as ann:
        session = await opened(ann, tmp_path)
        for role, may_name in (("viewer", False), ("editor", True)):
            await hosted.house.session_roles.set_role(session.id, "ben", role)
            ben = Raw(hosted.visit("ben"))
            await ben.ask("initialize", {"protocolVersion": 1})
            for method in ("session/archive", "session/unarchive"):
                assert told(await ben.ask(method, {"sessionId": session.id}))[0] == Kind.PERMISSION_DENIED
            kind, _ = told(await ben.ask("session/set_title", {"sessionId": session.id, "title": role}))
            assert kind == ("" if may_name else Kind.PERMISSION_DENIED)
            assert "result" in await ben.ask("session/status", {"sessionId": session.id})
        stranger = Raw(hosted.visit("eve"))
        await stranger.ask("initialize", {"protocolVersion": 1})
        for method in ("session/archive", "session/unarchive", "session/status", "session/set_title"):
            answer = await stranger.ask(method, {"sessionId": session.id, "title": "x"})
            assert told(answer)[0] == Kind.SESSION_NOT_FOUND


async def test_a_provider_is_set_in_every_process_of_its_user_and_of_nobody_else(tmp_path: Path) -> None:

    async with hosting(able) as hosted, hosted.client("ben") as ben:
        other = await opened(ben, tmp_path)
        bens = hosted.agents[-1]
        client, session, _ = await come(hosted, tmp_path)
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
        kind, _ = told(await client.ask("providers/set", {**OPENAI, "providerId": "none"}))
        assert kind == Kind.INVALID_PARAMS
        for log in (other.id, session):
            assert "secret" not in str(await hosted.house.store.read(log))


async def test_who_is_logged_in_is_asked_as_this_user_and_told_to_their_clients_alone(tmp_path: Path) -> None:

    async with hosting(lambda: able(auth_required=True)) as hosted:
        client = Raw(hosted.visit())
        await client.ask("initialize", {"protocolVersion": 1, "clientCapabilities": ABLE})
        ben = Raw(hosted.visit("ben"))
        await ben.ask("initialize", {"protocolVersion": 1, "clientCapabilities": ABLE})
        assert (await client.ask("auth/status", {}))["result"]["state"] == "unauthenticated"
        assert "result" in await client.ask("authenticate", {"methodId": "key"})
        assert (await client.ask("auth/status", {}))["result"]["state"] == "authenticated"
        assert (await ben.ask("auth/status", {}))["result"]["state"] == "unauthenticated"
        assert "result" in await client.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        client.frames.clear()
        noted(hosted.started[-1], "auth/status_update", {"state": "x"})
        await until(lambda: client.heard("auth/status_update"))
        assert client.heard("auth/status_update") == [{"state": "x"}]
        assert "result" in await client.ask("logout", {})
        assert (await client.ask("auth/status", {}))["result"]["state"] == "unauthenticated"
        assert not ben.heard("auth/status_update")


async def test_what_an_agent_asks_about_a_call_goes_to_the_client_whose_call_it_is(tmp_path: Path) -> None:
    def curious() -> Agent:
        agent = able()

        @agent.authenticate("key")
        async def login(_: Any) -> None:
            link = await agent.elicit("Your key?", url="https://login.example")
            assert link
            link.complete()

        @agent.on_session_opened
        async def begun(_: Any) -> None:
            await agent.elicit("Which branch?", url="https://branch.example")

        return agent

    answers = {"elicitation/create": {"action": "accept"}}
    async with hosting(curious) as hosted:
        other = Raw(hosted.visit(), answers)
        await other.ask("initialize", {"protocolVersion": 1, "clientCapabilities": ABLE})
        client, _, _ = await come(hosted, tmp_path, answers)
        (question,) = client.heard("elicitation/create")
        assert (question["message"], question["requestId"]) == ("Which branch?", 2)
        assert "sessionId" not in question
        assert "result" in await client.ask("authenticate", {"methodId": "key"})
        asked = client.heard("elicitation/create")[-1]
        assert asked["requestId"] == 3
        assert client.heard("elicitation/complete") == [{"elicitationId": asked["elicitationId"]}]
        assert not other.heard("elicitation/create")


async def test_extensions_go_to_the_agent_of_the_session_they_name_or_of_the_only_one(tmp_path: Path) -> None:

    async with hosting(able) as hosted:
        client, session, _ = await come(hosted, tmp_path)
        theirs = next(iter(hosted.agents[-1].sessions))
        answer = await client.ask("_acme/echo", {"sessionId": session, "x": 1})
        assert answer["result"] == {"heard": {"sessionId": theirs, "x": 1}}
        assert (await client.ask("_acme/echo", {"x": 2}))["result"] == {"heard": {"x": 2}}
        kind, words = told(await client.ask("_acme/none", {}))
        assert (kind, "_acme/none" in words) == (Kind.METHOD_NOT_FOUND, True)  # the agent says so
        for method in ("acme/echo", "_dragoman/none", "nes/start"):
            kind, words = told(await client.ask(method, {"sessionId": session}))
            assert (kind, words) == (Kind.METHOD_NOT_FOUND, f"the host does not serve {method}")
        await client.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        kind, words = told(await client.ask("_acme/echo", {"x": 3}))
        assert kind == Kind.METHOD_NOT_FOUND
        assert "name one with sessionId" in words


async def test_an_agent_s_own_requests_go_to_a_client_and_are_taken_back_there(tmp_path: Path) -> None:
    def asker() -> Agent:
        agent = Agent("asker")

        @agent.prompt
        async def answer(turn: Turn) -> None:
            connection = turn.session.connection
            said = {"sessionId": turn.session.id, "n": 1}
            assert await connection.request_raw("_acme/pick", said) == {"picked": True}
            connection.notify("_acme/news", said)
            asking = asyncio.ensure_future(connection.request_raw("_acme/wait", said))
            await asyncio.sleep(0)
            asking.cancel()
            await turn.say("done")

        return agent

    async with hosting(asker) as hosted:
        client, session, _ = await come(hosted, tmp_path, {"_acme/pick": {"picked": True}})
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "x"}]}
        assert (await client.ask("session/prompt", prompt))["result"]["stopReason"] == "end_turn"
        assert client.heard("_acme/pick") == client.heard("_acme/news") == [{"sessionId": session, "n": 1}]
        for room in list(hosted.house.rooms.values()):
            for desk in list(hosted.house.clients):
                room.leave(desk)
        answer = await asked(hosted.started[-1], "_acme/pick", {"n": 2})
        assert "nobody is in the session who could be asked" in told(answer)[1]


async def test_terminals_of_two_clients_that_call_them_the_same_are_told_apart(tmp_path: Path) -> None:

    async with hosting(able) as hosted:
        outputs = [{"terminal/create": {"terminalId": "t1"}, "terminal/output": {"output": who}} for who in "ab"]
        ann, session, _ = await come(hosted, tmp_path, outputs[0])
        ben = Raw(hosted.visit(), outputs[1])
        await ben.ask("initialize", {"protocolVersion": 1, "clientCapabilities": ABLE})
        await ben.ask("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
        agent, theirs = hosted.started[-1], next(iter(hosted.agents[-1].sessions))

        async def use(method: str, **more: Any) -> Any:
            return (await asked(agent, method, {"sessionId": theirs, **more}))["result"]

        assert await use("terminal/create", command="x") == {"terminalId": "t1"}  # ann's: she is there longest
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "wait gate"}]}
        ben.say(id=50, method="session/prompt", params=prompt)
        await until(lambda: "gate" in hosted.agents[-1].gates)  # type: ignore[attr-defined]
        assert await use("terminal/create", command="x") == {"terminalId": "t1~2"}  # ben's: his prompt runs
        assert [(await use("terminal/output", terminalId=id))["output"] for id in ("t1", "t1~2")] == ["a", "b"]
        assert ben.heard("terminal/output")[-1] == {"sessionId": session, "terminalId": "t1"}
        await use("terminal/release", terminalId="t1~2")
        assert len(ben.heard("terminal/release")) == 1
        assert not ann.heard("terminal/release")


async def test_what_banjo_has_besides_is_served_too(tmp_path: Path) -> None:

    models = Option.models(["small", "large"])
    async with hosting(lambda: talker(options=[models])) as hosted:
        client, session, _ = await come(hosted, tmp_path)
        chosen = {"sessionId": session, "modelId": "large"}
        assert "result" in await client.ask("session/set_model", chosen)
        (changed,) = [it["update"] for it in client.heard("session/update") if "configOptions" in it["update"]]
        assert changed["configOptions"][0]["currentValue"] == "large"
        again = Raw(hosted.visit())
        await again.ask("initialize", {"protocolVersion": 1})
        answer = await again.ask("unstable_resumeSession", {"sessionId": session, "cwd": str(tmp_path)})
        assert answer["result"]["configOptions"][0]["currentValue"] == "large"
