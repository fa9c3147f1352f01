"""Logins: the author's hook gets the credentials, sessions need a login, and it ends by expiry and logout."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dragoman import Agent, Kind, ProtocolError, Turn
from dragoman.roles.agent import auth
from dragoman.schema.auth import AuthAccount, AuthMethod
from dragoman.testing import connect_in_memory
from tests.roles.raw_client import CWD, Raw, new_session, prompt_and_wait, raw_connection

NEW = {
    "v1": {"cwd": CWD, "mcpServers": []},
    "banjo": {"cwd": CWD},
    "crow": {"cwd": CWD, "mcpServers": []},
    "draft": {"workingDirectory": CWD},
    "2025.1": {"session_id": "s1", "mode": "agent"},
}
REQUIRED = {"v1": -32000, "banjo": -32000, "crow": -32000, "2025.1": -32000, "draft": -32001}


def agent_with_login(**declared: Any) -> Agent:
    """Return an agent that requires a login."""
    agent = Agent("locked", auth_required=True, **declared)

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.say("welcome")

    return agent


@pytest.mark.parametrize("dialect", sorted(NEW))
async def test_a_client_without_login_cannot_open_a_session_in_any_dialect(dialect: str) -> None:
    agent = agent_with_login(dialect=dialect)
    async with raw_connection(agent, dialect) as client:
        error = await client.error("session/new", NEW[dialect])
        assert error["code"] == REQUIRED[dialect]
        assert error["data"]["kind"] == "auth_required"
        assert agent.sessions == {}


async def test_an_official_client_authenticates_by_method_until_it_logs_out() -> None:
    agent = agent_with_login()
    forgotten: list[str] = []

    @agent.authenticate("browser", "Log in with the browser")
    async def check(credentials: dict[str, Any]) -> None:
        assert credentials == {}

    agent.on_logout(lambda: forgotten.append("all"))
    async with raw_connection(agent) as client:
        assert client.received[0]["result"]["authMethods"] == [{"id": "browser", "name": "Log in with the browser"}]
        assert client.received[0]["result"]["agentCapabilities"]["auth"] == {"logout": {}}
        assert (await client.error("session/new", NEW["v1"]))["data"]["authMethods"] == ["browser"]
        assert (await client.error("authenticate", {"methodId": "passport"}))["code"] == -32602
        assert await client.result("authenticate", {"methodId": "browser"}) == {}
        session = await new_session(client)
        assert (await prompt_and_wait(client, session))["result"] == {"stopReason": "end_turn"}
        assert await client.result("logout", {}) == {}
        assert forgotten == ["all"]
        assert (await prompt_and_wait(client, session))["error"]["code"] == -32000
        assert (await client.error("session/list", {}))["code"] == -32000


@pytest.mark.item("000-08", "000-22")
async def test_a_2025_1_token_is_checked_and_a_wrong_one_is_rejected() -> None:
    agent = agent_with_login()

    @agent.authenticate("token")
    def check(credentials: dict[str, Any]) -> bool:
        return credentials == {"token": "open sesame"}

    async with raw_connection(agent, "2025.1") as client:
        refused = await client.error("authenticate", {"type": "token", "token": "please"})
        assert refused["code"] == -32000
        assert "please" not in str(refused)
        assert (await client.error("session/new", NEW["2025.1"]))["code"] == -32000
        assert await client.result("authenticate", {"type": "token", "token": "open sesame"}) == {"status": "ok"}
        assert (await client.result("session/new", NEW["2025.1"]))["session_id"] == "s1"
        content = [{"type": "text", "text": "hello"}]
        assert await client.result("session/prompt", {"session_id": "s1", "content": content}) == {"status": "ok"}


@pytest.mark.item("000-08", "000-22", "004-11")
@pytest.mark.parametrize("dialect", ["2025.1", "draft"])
async def test_authentication_is_optional_where_the_agent_does_not_require_it(dialect: str) -> None:
    agent = Agent("open")

    @agent.authenticate("token")
    def check(credentials: dict[str, Any]) -> bool:
        return False

    async with raw_connection(agent, dialect) as client:
        answer = await client.call("session/new", NEW[dialect])
        assert "error" not in answer


@pytest.mark.item("004-11", "004-16")
@pytest.mark.parametrize(
    ("method", "credentials"),
    [
        ("api_key", {"apiKey": "sk-secret"}),
        ("oauth2", {"accessToken": "ya29.secret", "tokenType": "Bearer"}),
        ("custom", {"anything": {"nested": ["secret"]}}),
    ],
)
async def test_a_draft_client_authenticates_by_each_method_and_gets_the_expiry(method: str, credentials: Any) -> None:
    agent = agent_with_login()
    seen: list[Any] = []
    end = datetime(2999, 2, 4, 10, 30, tzinfo=UTC)

    @agent.authenticate(method)
    async def check(given: dict[str, Any]) -> datetime:
        seen.append(given)
        return end

    async with raw_connection(agent, "draft") as client:
        assert (await client.error("session/new", NEW["draft"]))["code"] == -32001
        result = await client.result("authenticate", {"method": method, "credentials": credentials})
        assert result == {"success": True, "expiresAt": "2999-02-04T10:30:00.000Z"}
        assert seen == [credentials]
        assert "createdAt" in await client.result("session/new", NEW["draft"])


@pytest.mark.item("004-16")
async def test_a_draft_client_gets_a_failed_login_in_the_result() -> None:
    agent = agent_with_login()

    @agent.authenticate("api_key")
    async def check(given: dict[str, Any]) -> None:
        raise ProtocolError(Kind.AUTH_REQUIRED, "this key was revoked")

    async with raw_connection(agent, "draft") as client:
        asked = {"method": "api_key", "credentials": {"apiKey": "sk-secret"}}
        assert await client.result("authenticate", asked) == {"success": False, "error": "this key was revoked"}
        asked = {"method": "oauth2", "credentials": {}}
        unknown = await client.result("authenticate", asked)
        assert unknown["success"] is False
        assert "api_key" in unknown["error"]
        assert (await client.error("session/new", NEW["draft"]))["code"] == -32001


@pytest.mark.parametrize("dialect", ["v1", "draft"])
async def test_a_login_can_expire_during_a_session(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    time = datetime(2026, 1, 1, tzinfo=UTC)
    monkeypatch.setattr(auth, "utc_now", lambda: time)

    def expiry_time(start: datetime) -> str:
        return (start + timedelta(hours=1)).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    async def say(client: Raw, dialect: str, session: str) -> Any:
        member = "content" if dialect == "draft" else "prompt"
        block = {"type": "text", "text": "hello"}
        return await client.call("session/prompt", {"sessionId": session, member: [block]})

    agent = agent_with_login()
    agent.authenticate("api_key")(lambda _: timedelta(hours=1))
    async with raw_connection(agent, dialect) as client:
        asked = {"method": "api_key", "credentials": {}} if dialect == "draft" else {"methodId": "api_key"}
        assert await client.result("authenticate", asked) in ({}, {"success": True, "expiresAt": expiry_time(time)})
        session = (await client.result("session/new", NEW[dialect]))["sessionId"]
        time += timedelta(minutes=59)
        assert "result" in await say(client, dialect, session)
        time += timedelta(minutes=1)
        error = (await say(client, dialect, session))["error"]
        assert error["code"] == REQUIRED[dialect]
        assert "expired" in error["message"]
        assert (await client.error("session/new", NEW[dialect]))["code"] == REQUIRED[dialect]
        await client.result("authenticate", asked)
        assert "result" in await say(client, dialect, session)


async def test_a_terminal_login_is_offered_to_clients_with_a_terminal_and_valid_once_stored() -> None:
    terminal = AuthMethod(id="setup", name="Set up", type="terminal", args=["--login"], env={"MODE": "login"})
    agent = agent_with_login(auth_methods=[terminal])
    stored: list[str] = []
    agent.check_login(lambda: bool(stored))
    async with raw_connection(agent) as client:
        assert client.received[0]["result"]["authMethods"] == []
    async with raw_connection(agent, capabilities={"auth": {"terminal": True}}) as client:
        values = {"id": "setup", "name": "Set up", "type": "terminal", "args": ["--login"], "env": {"MODE": "login"}}
        assert client.received[0]["result"]["authMethods"] == [values]
        error = await client.error("authenticate", {"methodId": "setup"})
        assert (error["code"], "terminal" in error["message"]) == (-32602, True)
        assert (await client.error("session/new", NEW["v1"]))["code"] == -32000
        stored.append("a token, by the agent started with --login")
        await new_session(client)


@pytest.mark.item("003-03")
@pytest.mark.parametrize("params", [{}, {"methodId": "whatever"}, {"method": 1, "x": [None]}, [1, "two"], None, "text"])
async def test_banjo_accepts_any_params_of_authenticate(params: Any) -> None:
    async with raw_connection(Agent("banjo", dialect="banjo"), "banjo") as client:
        assert await client.result("authenticate", params) == {}
        await new_session(client)


@pytest.mark.parametrize("params", [{}, {"method": 1, "x": [None]}, [1, "two"], None, "text"])
async def test_a_client_that_names_no_auth_method_is_treated_like_banjo(params: Any) -> None:
    """Banjo's initialize is the same as v1's, so the two cannot be distinguished."""

    async with raw_connection(Agent("any"), "v1") as client:
        assert await client.result("authenticate", params) == {}
        await new_session(client)
    agent = agent_with_login()
    agent.authenticate("keychain")(lambda _: False)
    async with raw_connection(agent, "v1") as client:
        assert (await client.error("authenticate", params))["code"] == -32000
        assert (await client.error("authenticate", {"methodId": "other"}))["code"] == -32602


async def test_banjo_params_do_not_bypass_an_auth_hook() -> None:
    agent = agent_with_login(dialect="banjo")
    agent.authenticate("keychain")(lambda _: False)
    async with raw_connection(agent, "banjo") as client:
        assert (await client.error("authenticate", {"anything": 1}))["code"] == -32000
        assert (await client.error("session/new", NEW["banjo"]))["code"] == -32000


async def test_auth_status_is_available_when_unstable_calls_are_offered() -> None:
    agent = agent_with_login(unstable=True)
    agent.authenticate("browser")(lambda _: None)
    async with raw_connection(agent) as client:
        assert await client.result("auth/status", {}) == {"state": "unauthenticated"}
        await client.result("authenticate", {"methodId": "browser"})
        assert await client.result("auth/status", {}) == {"state": "authenticated"}
    async with raw_connection(Agent("open", unstable=True)) as client:
        assert await client.result("auth/status", {}) == {"state": "not_required"}
    async with raw_connection(Agent("stable")) as client:
        assert (await client.error("auth/status", {}))["code"] == -32601


async def test_a_client_gets_a_status_update_when_the_login_changes() -> None:
    agent = agent_with_login(unstable=True)
    lasts = [timedelta(hours=1), timedelta(milliseconds=50)]
    agent.authenticate("browser")(lambda _: lasts.pop(0))
    agent.list_accounts(lambda: [AuthAccount(label="ada")])
    async with raw_connection(agent) as client:
        await client.result("authenticate", {"methodId": "browser"})
        await client.result("logout", {})
        await client.result("authenticate", {"methodId": "browser"})
        await client.until(lambda message: message.get("params") == {"state": "unauthenticated"})  # it has expired
        ada = {"state": "authenticated", "accounts": [{"label": "ada"}]}
        no_one = {"state": "unauthenticated"}
        assert client.params_of("auth/status_update") == [ada, no_one, ada, no_one]
        stored = {"is": False}
        agent.check_login(lambda: stored["is"])
        await agent.notify_auth_changed()  # nothing has changed
        stored["is"] = True
        await agent.notify_auth_changed()
        await client.wait_for_call("auth/status_update")
        assert client.params_of("auth/status_update")[4:] == [ada]


async def test_only_clients_that_were_offered_the_status_get_updates() -> None:
    agent = agent_with_login()
    agent.authenticate("browser")(lambda _: None)
    async with raw_connection(agent) as client:
        await client.result("authenticate", {"methodId": "browser"})
        await agent.notify_auth_changed()
        assert client.params_of("auth/status_update") == []


async def test_our_client_reads_the_auth_status_and_gets_updates() -> None:
    agent = agent_with_login(unstable=True)
    agent.authenticate("browser")(lambda _: None)
    received: list[str] = []
    on = {"auth/status_update": lambda news: received.append(news.state)}
    async with connect_in_memory(agent, on=on) as remote:
        assert (await remote.auth_status()).state == "unauthenticated"
        await remote.authenticate("browser")
        await remote.logout()
        assert received == ["authenticated", "unauthenticated"]


async def test_an_agent_that_needs_a_login_and_offers_none_says_how_to_declare_it() -> None:
    async with raw_connection(Agent("closed", auth_required=True), "v1") as client:
        error = await client.error("session/new", NEW["v1"])
    assert error["code"] == -32000
    assert "this agent offers no auth method; its author declares one with @agent.authenticate" in error["message"]
