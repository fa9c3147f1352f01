"""What the user says about an agent under test: prompts, login, mode, model and options. Applied before each probe."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from dragoman.conformance.prompts import Script
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side

if TYPE_CHECKING:
    from dragoman.conformance.harness.agent import AgentUnderTest
    from dragoman.conformance.harness.peer import Json

# The codes of JSON-RPC for a request that is wrong. An agent whose model cannot be reached uses others.
WRONG_REQUEST = (-32700, -32600, -32601, -32602)


class AgentSettings(msgspec.Struct, kw_only=True):
    """The settings of a check. `refusal` is the error of a plain prompt at the first look, empty if it was answered."""

    script: Script | None = None
    auth_method: str = ""
    allows_logout: bool = False
    mode: str = ""
    model: str = ""
    options: list[tuple[str, str]] = []
    refusal: dict[str, Json] = {}

    def excuses(self, error: Json) -> bool:
        """Whether this error of a prompt says only that the agent can answer no prompt at all, as without a model."""
        code = error.get("code") if isinstance(error, dict) else None
        return bool(self.refusal) and code not in WRONG_REQUEST and code == self.refusal.get("code")


async def log_in(agent: AgentUnderTest) -> None:
    """Log in with the method that the user named."""
    params = {"methodId": agent.settings.auth_method}
    frame = await agent.request_in_dialect("authenticate", params, agent.timeouts.start)
    agent.assume_result(frame, f"the login {agent.settings.auth_method!r} was refused")


async def choose_options(agent: AgentUnderTest) -> None:
    """Set the mode, the model and the options that the user named in the session that was just opened."""
    settings = agent.settings
    if settings.mode:
        await _set(agent, "session/set_mode", f"mode {settings.mode!r}", modeId=settings.mode)
    if settings.model and (model := _option_id(agent, category="model")):
        await _set(
            agent, "session/set_config_option", f"model {settings.model!r}", configId=model, value=settings.model
        )
    elif settings.model:
        await _set(agent, "session/set_model", f"model {settings.model!r}", modelId=settings.model)
    for id, value in settings.options:
        switch = _option_id(agent, id=id, type="boolean")
        typed = {"type": "boolean", "value": value == "true"} if switch else {"value": value}
        await _set(agent, "session/set_config_option", f"option {id}={value}", configId=id, **typed)


def _option_id(agent: AgentUnderTest, **members: str) -> str:
    """Return the id of the first option with these members, or ""."""
    found = [each for each in agent.setup.get("configOptions") or [] if isinstance(each, dict)]
    return next((str(each.get("id")) for each in found if members.items() <= each.items()), "")


async def _set(agent: AgentUnderTest, method: str, what: str, **params: Json) -> None:
    params = {"sessionId": agent.session, **params}
    request = agent.to_wire(method, params) if (Side.AGENT, method) in METHODS else (method, params)
    agent.assume_result(await agent.request(*request), f"the agent refused the {what}")
