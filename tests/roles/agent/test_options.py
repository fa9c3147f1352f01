"""Config options and modes: declared by the author, set by clients in their dialect, with hooks."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import Agent, Kind, Option, ProtocolError, Session
from dragoman.schema.config import ConfigChoice, SessionMode
from tests.roles.raw_client import CWD, Raw, new_session, raw_connection, updates

MODELS = Option.models([("sonnet", "Sonnet"), ConfigChoice(value="opus", name="Opus", description="The large one")])
ROUTES = Option.select("route", {"One": ["claude", "codex"], "Both": [("duet", "One after the other")]})
MODES = [SessionMode(id="default", name="Default"), SessionMode(id="plan", name="Plan")]

# Banjo's own (docs/protocol/dialects.md#banjo-options): choices of strings, each with a meaning for a host of two
# agents.
BANJO = [
    Option.select("auto_resume", ["on", "off"], name="Continue the last session of the folder"),
    Option.select("route", ["claude", "codex", "duet"], name="Who answers"),
    Option.select("primary_agent", ["claude", "codex"], name="Who answers first"),
]


def agent_with_options(**declared: Any) -> tuple[Agent, list[Any]]:
    """Return an agent that records changes and rejects the value `bad`."""
    agent = Agent("listening", **declared)
    received: list[Any] = []

    @agent.on_option_changed
    async def option_changed(session: Session, option: str, value: Any) -> None:
        if value == "bad":
            raise ProtocolError(Kind.INVALID_PARAMS, "not today")
        received.append((option, value))

    @agent.on_mode_changed
    def mode_changed(session: Session, mode: str) -> None:
        if mode == "plan" and received:
            raise ProtocolError(Kind.INVALID_STATE, "too late to plan")
        received.append(mode)

    return agent, received


async def set_value(client: Raw, session: str, option: str, said: Any, **members: Any) -> Any:
    """Set an option as a v1 client does; return the option from the answer."""
    asked = {"sessionId": session, "configId": option, "value": said, **members}
    result = await client.result("session/set_config_option", asked)
    return next(each for each in result["configOptions"] if each["id"] == option)


async def test_every_kind_of_option_is_shown_and_set_by_an_official_client() -> None:
    options = [MODELS, ROUTES, Option.switch("loud"), Option.json_value("max_tokens", 4096)]
    agent, received = agent_with_options(options=options)
    boolean: Any = {"session": {"configOptions": {"boolean": {}}}}
    async with raw_connection(agent, capabilities=boolean) as client:
        result = await client.result("session/new", {"cwd": CWD, "mcpServers": []})
        session = result["sessionId"]
        model, route, loud, tokens = result["configOptions"]
        assert (model["category"], model["currentValue"], model["name"]) == ("model", "sonnet", "Model")
        assert [group["group"] for group in route["options"]] == ["One", "Both"]
        assert route["options"][1]["options"] == [{"value": "duet", "name": "One after the other"}]
        assert (loud["type"], loud["currentValue"]) == ("boolean", False)
        assert (tokens["type"], tokens["currentValue"], len(tokens["options"])) == ("select", "4096", 1)
        assert (await set_value(client, session, "route", "duet"))["currentValue"] == "duet"
        assert (await set_value(client, session, "loud", True, type="boolean"))["currentValue"] is True
        assert (await set_value(client, session, "max_tokens", "8192"))["currentValue"] == "8192"
        assert received == [("route", "duet"), ("loud", True), ("max_tokens", 8192)]
        assert agent.sessions[session].get_option("max_tokens") == 8192
        for wrong in ({"configId": "route", "value": "x"}, {"configId": "no", "value": "x"}):
            error = await client.error("session/set_config_option", {"sessionId": session, **wrong})
            assert error["code"] == -32602


async def test_an_official_client_that_knows_no_switches_is_shown_a_choice_of_two() -> None:
    agent, received = agent_with_options(options=[Option.switch("loud")])
    async with raw_connection(agent) as client:
        session = await new_session(client)
        answer = await set_value(client, session, "loud", "true")
        assert (answer["type"], answer["currentValue"]) == ("select", "true")
        assert received == [("loud", True)]


async def test_options_are_separate_for_each_session() -> None:
    agent, _ = agent_with_options(options=[MODELS])
    async with raw_connection(agent) as client:
        one, other = await new_session(client), await new_session(client)
        await set_value(client, one, "model", "opus")
        assert [agent.sessions[each].get_option("model") for each in (one, other)] == ["opus", "sonnet"]
    assert agent.options[0].current_value == "sonnet"


@pytest.mark.item("004-17")
async def test_a_draft_client_begins_with_its_mode_and_values_and_sets_any_json() -> None:
    agent, received = agent_with_options(
        modes=MODES, options=[Option.json_value("maxTokens", 100), Option.switch("autoApprove")]
    )
    async with raw_connection(agent, "draft") as client:
        declared = client.received[0]["result"]["capabilities"]["sessionCapabilities"]
        assert (declared["modes"], declared["configOptions"]) == (["default", "plan"], ["maxTokens", "autoApprove"])
        asked = {
            "workingDirectory": CWD,
            "mcpServers": [{"name": "git", "transport": {"type": "stdio", "command": "git-mcp", "args": []}}],
            "systemPrompt": "Be brief.",
            "initialMode": "plan",
            "configOptions": {"maxTokens": {"soft": 4096}, "autoApprove": True},
        }
        result = await client.result("session/new", asked)
        assert set(result) == {"sessionId", "createdAt"}
        session = agent.sessions[result["sessionId"]]
        assert (session.cwd, session.mode, session.system_prompt) == (CWD, "plan", "Be brief.")
        assert [server.name for server in session.mcp_servers] == ["git"]
        assert (session.get_option("maxTokens"), session.get_option("autoApprove")) == ({"soft": 4096}, True)
        assert received == ["plan", ("maxTokens", {"soft": 4096}), ("autoApprove", True)]
        setting: Any = {"sessionId": session.id, "key": "maxTokens", "value": 5}
        answer = await client.result("session/set_config_option", setting)
        del answer["_meta"]  # the full list, for who reads it
        assert answer == {"key": "maxTokens", "previousValue": {"soft": 4096}, "currentValue": 5}
        plain = await client.result("session/new", {"workingDirectory": CWD})
        assert agent.sessions[plain["sessionId"]].mode == "default"


@pytest.mark.item("003-10")
async def test_a_banjo_client_chooses_a_model_and_gets_every_change() -> None:
    agent, received = agent_with_options(options=[MODELS], dialect="banjo")
    async with raw_connection(agent, "banjo") as client:
        result = await client.result("session/new", {"cwd": CWD})
        assert result["models"] == {
            "availableModels": [
                {"id": "sonnet", "name": "Sonnet"},
                {"id": "opus", "name": "Opus", "description": "The large one"},
            ],
            "currentModelId": "sonnet",
        }
        session = result["sessionId"]
        assert await client.result("session/set_model", {"sessionId": session, "modelId": "opus"}) == {}
        assert updates(client, "current_model_update")[0]["currentModelId"] == "opus"
        assert received == [("model", "opus")]
        agent.sessions[session].set_option("model", "sonnet")  # the agent decides by itself
        await client.until(lambda message: "sonnet" in str(message) and "current_model_update" in str(message))
        error = await client.error("session/set_model", {"sessionId": session, "modelId": "gpt"})
        assert error["code"] == -32602


@pytest.mark.item("003-11")
@pytest.mark.parametrize("dialect", ["banjo", "v1"])
@pytest.mark.parametrize(("option", "said"), [("auto_resume", "off"), ("route", "duet"), ("primary_agent", "codex")])
async def test_banjos_options_are_set_and_answered_with_the_full_list(dialect: str, option: str, said: str) -> None:
    agent, received = agent_with_options(options=BANJO, dialect=dialect)
    async with raw_connection(agent, dialect) as client:
        session = await new_session(client)
        asked = {"sessionId": session, "configId": option, "value": said}
        result = (await client.result("session/set_config_option", asked))["configOptions"]
        assert [each["id"] for each in result] == ["auto_resume", "route", "primary_agent"]
        assert {each["type"] for each in result} == {"select"}
        before = {"auto_resume": "on", "route": "claude", "primary_agent": "claude"}
        assert {each["id"]: each["currentValue"] for each in result} == {**before, option: said}
        assert received == [(option, said)]


async def test_an_option_that_a_hook_rejects_is_not_set() -> None:
    agent, received = agent_with_options(modes=MODES, options=[Option.select("mood", ["good", "bad"])])
    async with raw_connection(agent) as client:
        session = await new_session(client)
        asked = {"sessionId": session, "configId": "mood", "value": "bad"}
        assert (await client.error("session/set_config_option", asked))["message"] == "not today"
        assert agent.sessions[session].get_option("mood") == "good"
        await client.result("session/set_mode", {"sessionId": session, "modeId": "default"})
        assert (await client.error("session/set_mode", {"sessionId": session, "modeId": "plan"}))["code"] == -32600
        assert agent.sessions[session].mode == "default"
        assert [update["currentModeId"] for update in updates(client, "current_mode_update")] == ["default"]
        assert received == ["default"]


def test_an_option_is_declared_with_a_value_that_it_has() -> None:
    with pytest.raises(ProtocolError, match="has no value 'z'"):
        Option.select("route", ["a", "b"], "z")
    with pytest.raises(ValueError, match="at least one choice"):
        Option.select("route", [])
