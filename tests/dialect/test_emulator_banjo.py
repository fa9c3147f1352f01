"""The memory of models: one option among others for us, a list of its own for banjo and for some v1 agents."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialect.dialects import load_dialect
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.side import Side
from tests.dialect.emulator_harness import EmulatorHarness

MODELS = {"availableModels": [{"id": "big", "name": "Big"}, {"id": "small", "name": "Small"}], "currentModelId": "big"}
DEPTH = {"id": "depth", "name": "Depth", "type": "select", "currentValue": "low", "options": []}
NEW = {"cwd": "/w", "mcpServers": []}


def values_of(options: list[dict[str, Any]]) -> dict[str, Any]:
    return {option["id"]: option["currentValue"] for option in options}


# --- an agent at the other end ------------------------------------------------------------------------------------


@pytest.fixture(params=["banjo", "v1"])
def agent(request: pytest.FixtureRequest) -> EmulatorHarness:
    """Real v1 agents still have models (docs/protocol/peers.md#models): both get the same messages."""
    return EmulatorHarness(request.param, Side.AGENT)


def open_session(harness: EmulatorHarness, **result: Any) -> Any:
    asked = harness.send_call("session/new", NEW)
    harness.reply({"sessionId": "s", "models": MODELS, **result})
    harness.wire.clear()
    return asked.result


def set_option(harness: EmulatorHarness, option: str, value: str) -> Any:
    return harness.send_call("session/set_config_option", {"sessionId": "s", "configId": option, "value": value})


def test_setting_the_option_for_the_model_reaches_the_agent_as_set_model(agent: EmulatorHarness) -> None:
    """docs/protocol/dialect-matrix.md#models."""
    assert values_of(open_session(agent, configOptions=[DEPTH])["configOptions"]) == {"depth": "low", "model": "big"}
    asked = set_option(agent, "model", "small")
    assert agent.wire == [("session/set_model", {"sessionId": "s", "modelId": "small"})]
    agent.reply({})
    assert values_of(asked.result["configOptions"]) == {"depth": "low", "model": "small"}


def test_a_model_that_the_agent_refuses_is_not_remembered(agent: EmulatorHarness) -> None:
    open_session(agent)
    refused = set_option(agent, "model", "huge")
    agent.reply(ProtocolError(Kind.INVALID_PARAMS, "no such model"))
    assert refused.error.message == "no such model"
    asked = set_option(agent, "depth", "high")
    agent.reply({"configOptions": [DEPTH | {"currentValue": "high"}]})
    assert values_of(asked.result["configOptions"]) == {"depth": "high", "model": "big"}


def test_other_options_are_set_and_the_model_stays_in_the_list(agent: EmulatorHarness) -> None:
    open_session(agent, configOptions=[DEPTH])
    asked = set_option(agent, "depth", "high")
    assert agent.wire[0][0] == "session/set_config_option"
    agent.reply({"configOptions": [DEPTH | {"currentValue": "high"}]})
    assert values_of(asked.result["configOptions"]) == {"depth": "high", "model": "big"}


def update(harness: EmulatorHarness, **members: Any) -> Any:
    harness.receive_call("session/update", {"sessionId": "s", "update": members})
    return harness.ours[-1][1]["update"]


def test_a_model_change_is_sent_as_all_options(agent: EmulatorHarness) -> None:
    open_session(agent, configOptions=[DEPTH])
    frames = update(agent, sessionUpdate="current_model_update", currentModelId="small")
    assert frames["sessionUpdate"] == "config_option_update"
    assert values_of(frames["configOptions"]) == {"depth": "low", "model": "small"}
    frames = update(agent, sessionUpdate="config_option_update", configOptions=[DEPTH | {"currentValue": "high"}])
    assert values_of(frames["configOptions"]) == {"depth": "high", "model": "small"}


def test_a_model_change_in_an_unknown_session_is_sent_alone(agent: EmulatorHarness) -> None:
    open_session(agent)
    agent.receive_call("session/update", {"sessionId": "x", "update": {"sessionUpdate": "current_model_update",
                                                              "currentModelId": "m"}})  # fmt: skip
    assert values_of(agent.ours[-1][1]["update"]["configOptions"]) == {"model": "m"}


@pytest.mark.parametrize(
    ("method", "session"), [("session/load", "old"), ("session/resume", "old"), ("session/fork", "s")]
)
def test_models_are_remembered_however_a_session_was_opened(agent: EmulatorHarness, method: str, session: str) -> None:
    agent.send_call(method, {"sessionId": "old", **NEW})
    agent.reply({"models": MODELS, **({"sessionId": "s"} if session == "s" else {})})
    agent.wire.clear()
    agent.send_call("session/set_config_option", {"sessionId": session, "configId": "model", "value": "small"})
    assert agent.wire[0][0] == "session/set_model"


def test_a_closed_session_is_forgotten(agent: EmulatorHarness) -> None:
    open_session(agent)
    agent.send_call("session/close", {"sessionId": "s"})
    agent.reply({})
    agent.wire.clear()
    set_option(agent, "model", "small")
    assert agent.wire[0][0] == "session/set_config_option"


def test_an_agent_with_its_own_model_option_is_not_emulated(agent: EmulatorHarness) -> None:
    own = {"id": "llm", "name": "M", "category": "model", "type": "select", "currentValue": "a", "options": []}
    open_session(agent, configOptions=[own])
    set_option(agent, "llm", "b")
    assert agent.wire[0][0] == "session/set_config_option"


@pytest.mark.parametrize("own_model", [True, False], ids=["a model option", "no model at first"])
def test_a_model_change_keeps_options_that_are_not_from_models(own_model: bool) -> None:
    harness = EmulatorHarness("banjo", Side.AGENT)
    own = {"id": "llm", "name": "M", "category": "model", "type": "select", "currentValue": "big", "options": []}
    harness.send_call("session/new", NEW)
    harness.reply({"sessionId": "s", "configOptions": [DEPTH, own] if own_model else [DEPTH]})
    frames = update(harness, sessionUpdate="current_model_update", currentModelId="small")
    assert values_of(frames["configOptions"]) == {"depth": "low", "llm" if own_model else "model": "small"}


def test_a_v1_agent_with_models_and_a_model_option_sends_all_options() -> None:
    harness = EmulatorHarness("v1", Side.AGENT)
    own = {"id": "llm", "name": "M", "category": "model", "type": "select", "currentValue": "big", "options": []}
    open_session(harness, configOptions=[DEPTH, own])
    frames = update(harness, sessionUpdate="current_model_update", currentModelId="small")
    assert values_of(frames["configOptions"]) == {"depth": "low", "llm": "small"}


def test_an_option_whose_setting_returns_no_list_keeps_the_others() -> None:
    harness = EmulatorHarness("banjo", Side.AGENT)
    open_session(harness, configOptions=[DEPTH])
    asked = set_option(harness, "depth", "high")
    harness.reply({})
    assert values_of(asked.result["configOptions"]) == {"depth": "high", "model": "big"}


def test_updates_of_a_v1_agent_without_models_are_not_inspected() -> None:
    agent = EmulatorHarness("v1", Side.AGENT)
    assert agent.emulator is not None
    agent.send_call("session/new", NEW)
    agent.reply({"sessionId": "s", "configOptions": [DEPTH]})
    assert not agent.emulator.incoming
    open_session(agent)
    assert set(agent.emulator.incoming) == {"session/update"}
    assert not type(agent.emulator).incoming


def test_a_v1_client_needs_no_emulator_state() -> None:
    assert load_dialect("v1").open_emulator(Side.CLIENT, EmulatorHarness("banjo", Side.CLIENT).settings) is None


# --- a client at the other end ------------------------------------------------------------------------------------

LLM = {
    "id": "llm",
    "name": "Model",
    "category": "model",
    "type": "select",
    "currentValue": "big",
    "options": [{"value": "big", "name": "Big"}, {"value": "small", "name": "Small"}],
}
MARKED = LLM | {"id": "model", "_meta": {"dragoman": {"form": "models"}}}


def client(*options: dict[str, Any]) -> EmulatorHarness:
    harness = EmulatorHarness("banjo", Side.CLIENT)
    harness.receive_call("session/new", NEW)
    harness.answer({"sessionId": "s", "configOptions": list(options)})
    harness.ours.clear()
    return harness


def test_set_model_sets_the_agents_own_option_for_the_model() -> None:
    harness = client(DEPTH, LLM)
    asked = harness.receive_call("session/set_model", {"sessionId": "s", "modelId": "small"})
    method, params = harness.ours[0]
    assert method == "session/set_config_option"
    assert (params["configId"], params["value"]) == ("llm", "small")
    harness.answer({"configOptions": [DEPTH, LLM | {"currentValue": "small"}]})
    assert asked.result == {}


def test_set_model_without_a_known_option_passes_unchanged() -> None:
    harness = client()
    harness.receive_call("session/set_model", {"sessionId": "s", "modelId": "small"})
    assert harness.ours[0][1]["configId"] == "model"


def test_setting_an_option_is_answered_with_all_of_them() -> None:
    harness = client(DEPTH)
    asked = harness.receive_call("session/set_config_option", {"sessionId": "s", "configId": "depth", "value": "high"})
    harness.answer({"configOptions": [DEPTH]})
    assert asked.result == {"configOptions": [DEPTH]}


def kinds(harness: EmulatorHarness, *options: dict[str, Any]) -> list[str]:
    harness.wire.clear()
    news = {"sessionUpdate": "config_option_update", "configOptions": list(options)}
    harness.send_call("session/update", {"sessionId": "s", "update": news})
    return [params["update"]["sessionUpdate"] for _, params in harness.wire]


def test_a_model_change_is_sent_as_an_option_and_as_banjos_update() -> None:
    harness = client(DEPTH, LLM)
    assert kinds(harness, DEPTH, LLM | {"currentValue": "small"}) == [
        "config_option_update",
        "current_model_update",
    ]
    assert harness.wire[-1][1] == {
        "sessionId": "s",
        "update": {"sessionUpdate": "current_model_update", "currentModelId": "small"},
    }
    assert kinds(harness, DEPTH, LLM | {"currentValue": "small"}) == ["config_option_update"]


def test_models_that_were_sent_as_models_are_not_sent_as_an_option() -> None:
    harness = client(DEPTH, MARKED)
    assert kinds(harness, DEPTH, MARKED | {"currentValue": "small"}) == [
        "config_option_update",
        "current_model_update",
    ]
    assert harness.wire[0][1]["update"]["configOptions"] == [DEPTH]
    assert kinds(client(MARKED), MARKED | {"currentValue": "small"}) == ["current_model_update"]


def test_a_model_set_by_the_client_is_not_sent_back_to_it() -> None:
    harness = client(LLM)
    harness.receive_call("session/set_model", {"sessionId": "s", "modelId": "small"})
    harness.answer({"configOptions": [LLM | {"currentValue": "small"}]})
    assert kinds(harness, LLM | {"currentValue": "small"}) == ["config_option_update"]


def test_other_updates_pass_unchanged() -> None:
    harness = client(LLM)
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}
    harness.send_call("session/update", {"sessionId": "s", "update": chunk})
    assert harness.wire == [("session/update", {"sessionId": "s", "update": chunk})]
