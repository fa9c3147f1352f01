"""Model providers: declared by the author, set by clients, without their keys."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import Agent, Kind, ProtocolError, Provider, Turn
from dragoman.testing import connect_in_memory
from tests.roles.raw_client import raw_connection
from tests.roles.translated_pair import CWD, run, translated

KEY = "sk-canary"


def agent_with_providers() -> Agent:
    """Return an agent with two providers that reports their configuration."""
    agent = Agent(
        "routed",
        providers=[
            Provider(
                id="main", supported=["anthropic", "openai"], required=True, api_type="openai", base_url="http://a"
            ),
            Provider(id="spare", supported=["openai"]),
        ],
    )

    @agent.on_provider_changed
    def changed(provider: Provider) -> None:
        if provider.base_url == "http://nowhere":
            raise ProtocolError(Kind.INVALID_PARAMS, "nobody is there")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        main = agent.providers["main"]
        await turn.say(f"{main.api_type} {main.base_url} {main.headers.get('Authorization')} {agent.providers}")

    return agent


async def check_providers(remote: Any) -> None:
    """List, set and disable."""
    listed = {info.provider_id: info for info in await remote.list_providers()}
    assert listed["main"].current.base_url == "http://a"
    assert listed["main"].required is True
    assert not listed["spare"].current
    await remote.set_provider("main", api_type="anthropic", base_url="http://b", headers={"Authorization": KEY})
    answer = await (await remote.open_session(CWD)).ask("where?")
    assert answer.startswith(f"anthropic http://b {KEY} ")
    assert answer.count(KEY) == 1  # a provider that is printed keeps its keys
    await remote.set_provider("spare", api_type="openai", base_url="http://c")
    await remote.disable_provider("spare")
    assert [bool(info.current) for info in await remote.list_providers()] == [True, False]


async def test_a_client_sets_providers_and_turns_them_off() -> None:
    async with connect_in_memory(agent_with_providers()) as remote:
        await check_providers(remote)


@pytest.mark.parametrize(("client", "dialect"), [("banjo", "v1"), ("v1", "banjo")])
async def test_providers_work_through_a_translator(client: str, dialect: str) -> None:
    async with translated(agent_with_providers(), client, dialect) as remote:
        await check_providers(remote)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("providers/set", {"providerId": "other", "apiType": "openai", "baseUrl": "http://b"}),
        ("providers/set", {"providerId": "spare", "apiType": "anthropic", "baseUrl": "http://b"}),
        ("providers/set", {"providerId": "spare", "apiType": "openai", "baseUrl": ""}),
        ("providers/set", {"providerId": "spare", "apiType": "openai", "baseUrl": "http://nowhere"}),
        ("providers/disable", {"providerId": "other"}),
        ("providers/disable", {"providerId": "main"}),
    ],
)
async def test_an_invalid_provider_setting_is_rejected_and_changes_nothing(method: str, params: Any) -> None:
    async with raw_connection(agent_with_providers()) as client:
        before = await client.result("providers/list", {})
        assert (await client.error(method, params))["code"] == -32602
        assert await client.result("providers/list", {}) == before


def test_provider_keys_are_never_sent() -> None:
    async def main() -> None:
        async with raw_connection(agent_with_providers()) as client:
            headers = {"Authorization": KEY}
            asked = {"providerId": "main", "apiType": "openai", "baseUrl": "http://b", "headers": headers}
            await client.result("providers/set", asked)
            [main, _] = (await client.result("providers/list", {}))["providers"]
            assert main["current"] == {"apiType": "openai", "baseUrl": "http://b"}
            assert KEY not in str(client.received)

    run(main())


@pytest.mark.parametrize(("agent", "dialect"), [(Agent("none"), "v1"), (Agent("none"), "draft")])
async def test_an_agent_that_declared_none_has_no_such_methods(agent: Agent, dialect: str) -> None:
    async with connect_in_memory(agent, dialect=dialect) as remote:
        with pytest.raises(ProtocolError) as refused:
            await remote.list_providers()
        assert refused.value.kind == Kind.CAPABILITY_UNSUPPORTED
