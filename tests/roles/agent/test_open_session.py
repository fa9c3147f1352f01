"""Sessions of an agent: hooks, system prompts, folders, forks, lists."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import Agent, Kind, Option, ProtocolError, Session, Turn
from dragoman.roles.agent import session_calls
from dragoman.schema.config import SessionMode
from dragoman.testing import connect_in_memory
from tests.roles.raw_client import CWD, new_session, prompt_and_wait, raw_connection, updates

FROM = {"cwd": CWD, "mcpServers": []}


def recording_agent(**declared: Any) -> tuple[Agent, list[Any]]:
    """Return an agent that records what happens to its sessions."""
    agent = Agent("recorded", **declared)
    happened: list[Any] = []
    agent.on_session_opened(lambda session: happened.append(("opened", session.id)))
    agent.on_session_reopened(lambda session: happened.append(("reopened", session.id)))
    agent.on_session_closed(lambda session: happened.append(("closed", session.id)))
    agent.on_session_deleted(lambda session: happened.append(("deleted", session.id)))

    @agent.on_session_forked
    async def forked(session: Session, origin: Session) -> None:
        session.data.update(origin.data)
        happened.append(("forked", session.id, origin.id))

    @agent.prompt
    async def answer(turn: Turn) -> None:
        turn.session.data["last"] = turn.text
        await turn.say(f"heard {turn.text}")

    return agent, happened


async def test_session_hooks_are_called_for_every_step() -> None:
    agent, happened = recording_agent(
        modes=[SessionMode(id="a", name="A"), SessionMode(id="b", name="B")],
        options=[Option.select("route", ["x", "y"])],
    )
    async with raw_connection(agent) as client:
        first = await new_session(client)
        await prompt_and_wait(client, first, "hello")
        await client.result("session/set_mode", {"sessionId": first, "modeId": "b"})
        await client.result("session/set_config_option", {"sessionId": first, "configId": "route", "value": "y"})
        fork = await client.result("session/fork", {"sessionId": first, **FROM})
        second = fork["sessionId"]
        assert fork["modes"]["currentModeId"] == "b"
        assert fork["configOptions"][0]["currentValue"] == "y"
        assert agent.sessions[second].data == {"last": "hello"}
        await client.result("session/close", {"sessionId": second})
        await client.result("session/resume", {"sessionId": second, "cwd": CWD})
        before = len(client.received)
        await client.result("session/load", {"sessionId": second, **FROM})
        assert [m["params"]["update"]["content"]["text"] for m in client.received[before:-1]] == [
            "hello",
            "heard hello",
        ]
        await client.result("session/delete", {"sessionId": second})
        await client.result("session/delete", {"sessionId": second})
        assert (await client.error("session/load", {"sessionId": second, **FROM}))["code"] == -32002
    assert happened == [
        ("opened", first),
        ("forked", second, first),
        ("closed", second),
        ("reopened", second),
        ("reopened", second),
        ("closed", second),
        ("deleted", second),
    ]


@pytest.mark.parametrize("dialect", ["v1", "draft"])
async def test_a_session_that_a_hook_rejects_does_not_exist(dialect: str) -> None:
    agent = Agent("full")

    @agent.on_session_opened
    async def refuse(session: Session) -> None:
        raise ProtocolError(Kind.RATE_LIMITED, "all seats are taken")

    async with raw_connection(agent, dialect) as client:
        asked = {"workingDirectory": CWD} if dialect == "draft" else FROM
        assert (await client.error("session/new", asked))["message"] == "all seats are taken"
    assert agent.sessions == {}


def prompt(mode: str) -> dict[str, Any]:
    """Return a system prompt in v1."""
    return {"systemPrompt": {"mode": mode, "content": [{"type": "text", "text": "Be brief."}]}}


@pytest.mark.parametrize(
    ("declared", "capability", "append", "override"),
    [("", None, False, False), ("append", {}, True, False), ("override", {"mode": {"override": {}}}, True, True)],
)
async def test_a_system_prompt_is_accepted_as_the_author_declared(
    declared: str, capability: Any, append: bool, override: bool
) -> None:
    agent = Agent("instructed", system_prompt_mode=declared)
    async with raw_connection(agent) as client:
        capabilities = client.received[0]["result"]["agentCapabilities"]["sessionCapabilities"]
        assert capabilities.get("systemPrompt") == capability
        for mode, taken in (("append", append), ("override", override)):
            answer = await client.call("session/new", {**FROM, **prompt(mode)})
            if taken:
                session = agent.sessions[answer["result"]["sessionId"]]
                assert (session.system_prompt, session.overrides_system_prompt) == ("Be brief.", mode == "override")
            else:
                assert answer["error"]["code"] == -32602


async def test_additional_directories_are_sent_each_time_and_must_be_absolute() -> None:
    agent, _ = recording_agent()
    async with raw_connection(agent) as client:
        session = await new_session(client, additionalDirectories=["/opt/a", "/opt/b"])
        assert agent.sessions[session].roots == [CWD, "/opt/a", "/opt/b"]
        [listed] = (await client.result("session/list", {}))["sessions"]
        assert listed["additionalDirectories"] == ["/opt/a", "/opt/b"]
        await client.result("session/resume", {"sessionId": session, "cwd": CWD})
        assert agent.sessions[session].roots == [CWD]
        for wrong in ("relative", "", "/a\0b"):
            error = await client.error("session/new", {**FROM, "additionalDirectories": ["/opt", wrong]})
            assert error["data"]["errors"][0]["path"] == "additionalDirectories[1]"


async def test_sessions_are_listed_by_folder_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_calls, "PAGE_SIZE", 2)

    agent, _ = recording_agent()
    async with raw_connection(agent) as client:
        here = [await new_session(client) for _ in range(5)]
        await client.result("session/new", {"cwd": "/elsewhere", "mcpServers": []})
        found: list[str] = []
        asked: dict[str, Any] = {"cwd": CWD}
        while True:
            page = await client.result("session/list", asked)
            found += [session["sessionId"] for session in page["sessions"]]
            if "nextCursor" not in page:
                break
            asked["cursor"] = page["nextCursor"]
        assert found == here[::-1]
        assert (await client.error("session/list", {"cursor": "x"}))["code"] == -32602


async def test_sessions_that_change_between_pages_do_not_shift_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_calls, "PAGE_SIZE", 2)

    agent, _ = recording_agent()
    async with raw_connection(agent) as client:
        here = [await new_session(client) for _ in range(6)]
        first = await client.result("session/list", {})
        await new_session(client)  # a new one, before all others
        await client.result("session/delete", {"sessionId": here[4]})  # the last one of the page
        await client.result("session/delete", {"sessionId": here[3]})  # the next
        second = await client.result("session/list", {"cursor": first["nextCursor"]})
        third = await client.result("session/list", {"cursor": second["nextCursor"]})
        pages = [[session["sessionId"] for session in page["sessions"]] for page in (first, second, third)]
        assert pages == [[here[5], here[4]], [here[2], here[1]], [here[0]]]
        assert "nextCursor" not in third


async def test_our_client_goes_through_all_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_calls, "PAGE_SIZE", 2)

    agent, _ = recording_agent()
    async with connect_in_memory(agent) as remote:
        here = [(await remote.open_session(CWD)).id for _ in range(5)]
        await remote.open_session("/elsewhere")
        assert [info.session_id async for info in remote.iter_sessions(CWD)] == here[::-1]
        assert len([info async for info in remote.iter_sessions()]) == 6


async def test_unstable_methods_are_served_if_the_author_declared_them() -> None:
    agent, happened = recording_agent(unstable=True)
    async with raw_connection(agent) as client:
        capabilities = client.received[0]["result"]["agentCapabilities"]["sessionCapabilities"]
        assert capabilities.keys() >= {"archive", "status", "title"}
        session = await new_session(client)
        one = {"sessionId": session}
        assert await client.result("session/status", one) == {"status": "open"}
        assert await client.result("session/set_title", {**one, "title": " A name "}) == {"title": "A name"}
        assert updates(client, "session_info_update")[0]["title"] == "A name"
        assert (await client.error("session/set_title", {**one, "title": " "}))["code"] == -32602
        await client.result("session/archive", one)
        assert ("closed", session) in happened
        assert await client.result("session/status", one) == {"status": "saved"}
        for which, count in (("exclude", 0), ("include", 1), ("only", 1)):
            assert len((await client.result("session/list", {"archived": which}))["sessions"]) == count
        await client.result("session/unarchive", one)
        assert len((await client.result("session/list", {}))["sessions"]) == 1
        assert (await client.error("session/status", {"sessionId": "gone"}))["data"]["sessionId"] == "gone"
    async with raw_connection(Agent("stable")) as client:
        assert (await client.error("session/status", one))["code"] == -32601


@pytest.mark.item("003-26")
async def test_history_can_be_replayed_but_not_changed() -> None:
    agent, _ = recording_agent()
    async with raw_connection(agent) as client:
        session = await new_session(client)
        await prompt_and_wait(client, session, "one")
        for method in ("session/edit_message", "session/rewind", "session/set_history", "session/retry"):
            error = await client.error(method, {"sessionId": session, "messageId": "1", "text": "two"})
            assert error["code"] == -32601
        offered = str(client.received[0]["result"]).lower()
        assert not any(word in offered for word in ("edit", "rewind", "rewrite", "history"))
        before = len(client.received)
        await client.result("session/load", {"sessionId": session, **FROM})
        assert [m["params"]["update"]["content"]["text"] for m in client.received[before:-1]] == ["one", "heard one"]
    public = {name for kind in (Agent, Session, Turn) for name in vars(kind) if not name.startswith("_")}
    assert not any(word in name for name in public for word in ("edit", "rewrite", "rewind", "truncate"))
