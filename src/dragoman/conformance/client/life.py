"""How a client initializes its agent."""

from __future__ import annotations

import asyncio

from dragoman.conformance.harness.client import INITIALIZE_RESULT, ClientUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.requirement import must, should

# Longer than an impatient client waits, short enough for a person. Seconds.
SLOW = 1.2

# Methods that our agent, which offers nothing, does not have.
UNOFFERED = frozenset(
    {"session/load", "session/list", "session/resume", "session/delete", "session/close", "session/fork", "logout"}
    | {"session/set_mode", "session/set_config_option", "session/set_model", "providers/list"}
)


def initialize_result(**members: Json) -> Json:
    """Return a result of initialize with these members."""
    return {**INITIALIZE_RESULT, **members}


async def _require_prompt(client: ClientUnderTest, answer: Json, what: str) -> None:
    """Require that the client sends a prompt after this answer to initialize."""
    client.answers["initialize"] = answer
    prompt = await client.require_prompt(f"the client gave up an agent {what}")
    await client.require_alive(prompt, f"an agent {what}")


@must("client.life.01", "initialize.md#order")
async def initialize_comes_first(client: ClientUnderTest) -> None:
    """The first message is initialize."""
    frame = client.assume(await client.next_frame(client.timeouts.start), "the client said nothing")
    client.require(frame.method == "initialize", f"the first message is {frame.method or 'no call'}", frame)


@must("client.life.02", "initialize.md#version", "v1 banjo draft crow")
async def the_version_is_an_integer(client: ClientUnderTest) -> None:
    """The protocol version is an integer."""
    frame = await client.wait_initialize()
    name = "protocol_version" if client.dialect == "crow" else "protocolVersion"
    version = frame.wire_params.get(name)
    client.require(type(version) is int, f"{name} is {version!r}, not an integer", frame)


@should("client.life.03", "initialize.md#params", "v1 banjo 2025.1 crow")
async def the_client_has_a_name(client: ClientUnderTest) -> None:
    """The client states its name and version."""
    frame = await client.wait_initialize()
    client.require_shape(frame.params, {"clientInfo": {"name": str, "version": str}}, frame)


@must("client.life.04", "initialize.md#client-capabilities", "v1 banjo")
async def capabilities_are_booleans(client: ClientUnderTest) -> None:
    """The capabilities for files and terminals are booleans."""
    frame = await client.wait_initialize()
    offered = frame.wire_params.get("clientCapabilities", {})
    client.require(isinstance(offered, dict), "clientCapabilities is not an object", frame)
    files = offered.get("fs") or {}
    values = [files.get("readTextFile", False), files.get("writeTextFile", False), offered.get("terminal", False)]
    client.require(all(isinstance(each, bool) for each in values), "a capability is not a boolean", frame)


@must("client.life.05", "initialize.md#order")
async def the_answer_is_waited_for(client: ClientUnderTest) -> None:
    """The client sends nothing before initialize was answered."""
    first = await client.hold_initialize()
    early = await client.collect()
    client.require_none(early, "the client went on before initialize was answered")
    client.reply_in_dialect(first, INITIALIZE_RESULT)


@should("client.life.06", "initialize.md#version", "v1")
async def an_unknown_version_is_left(client: ClientUnderTest) -> None:
    """The client opens no session with an agent that answers with an unknown version."""
    client.answers["initialize"] = initialize_result(protocolVersion=999)
    frame = await client.wait_method("session/new", client.timeouts.answer)
    client.require(frame is None, "the client opens a session with an agent of version 999", frame)
    client.assume(client.received, "the client said nothing")


@must("client.life.07", "peers.md#absent-members", "v1 banjo")
async def a_minimal_initialize_result_is_enough(client: ClientUnderTest) -> None:
    """The client accepts an agent that states neither name nor capabilities."""
    await _require_prompt(client, {"protocolVersion": 1}, "with neither name nor capabilities")


@must("client.life.08", "peers.md#unknown-fields", "v1 banjo")
async def unknown_capabilities_are_ignored(client: ClientUnderTest) -> None:
    """Unknown capabilities are ignored."""
    more = {"sessionCapabilities": {"subagents": {}}, "vendorThing": {"a": [1]}, "_meta": {"x": {}}}
    methods = [{"id": "env", "name": "Key", "type": "env_var", "vars": [{"name": "KEY"}]}]
    await _require_prompt(
        client, initialize_result(agentCapabilities=more, authMethods=methods, extra=1), "with unknown capabilities"
    )


@must("client.life.09", "initialize.md#omitted-capabilities", "v1 banjo")
async def nulls_are_absences(client: ClientUnderTest) -> None:
    """null in place of an optional member counts as absent."""
    nothing = {"sessionCapabilities": {"list": None, "resume": None}, "auth": None, "_meta": None}
    await _require_prompt(
        client, initialize_result(agentInfo=None, agentCapabilities=nothing), "with nulls in its introduction"
    )


@must("client.life.10", "initialize.md#order")
async def initialize_comes_once(client: ClientUnderTest) -> None:
    """A connection is initialized once."""
    found = [each for each in await client.record_turn() if each.method == "initialize"]
    client.require(len(found) == 1, f"initialize came {len(found)} times", *found)


@must("client.life.11", "initialize.md#gates", "v1 banjo draft")
async def only_what_is_offered_is_asked_for(client: ClientUnderTest) -> None:
    """The client does not request what the agent does not offer."""
    found = [each for each in await client.record_turn() if each.method in UNOFFERED]
    client.require_none(found, f"the client asks for {found[0].method if found else ''}, which is not offered")


def _login_agent(client: ClientUnderTest) -> None:
    methods = [
        {"id": "in-terminal", "name": "Sign in here", "type": "terminal", "args": ["login"]},
        {"id": "by-agent", "name": "Sign in in a browser"},
    ]
    client.answers["initialize"] = initialize_result(authMethods=methods)
    client.held.add("session/new")


async def _refuse_sessions(client: ClientUnderTest) -> None:
    """Refuse sessions for a while; answer everything else."""

    def refuse(frame: ReceivedFrame) -> bool:
        if frame.method == "session/new" and frame.is_request:
            client.refuse(frame, client.codec.error_codes["auth_required"], "Authentication required")
        return frame.method == "authenticate"

    await client.wait_for(refuse, client.timeouts.answer)
    client.assume(client.calls("session/new"), "the client opened no session")


@must("client.life.12", "auth.md#authenticate", "v1")
async def only_an_offered_method_is_used(client: ClientUnderTest) -> None:
    """To authenticate, the client names a method that the agent offered for it."""
    # The client may give up instead.
    _login_agent(client)
    await _refuse_sessions(client)
    for frame in client.calls("authenticate"):
        method = frame.wire_params.get("methodId")
        client.require(method == "by-agent", f"the client authenticates with {method!r}", frame)


@must("client.life.13", "auth.md#required", "v1 banjo draft")
async def refusals_are_accepted(client: ClientUnderTest) -> None:
    """A session refused because a login is needed is not requested again and again."""
    _login_agent(client)
    await _refuse_sessions(client)
    found = client.calls("session/new")
    client.require(len(found) <= 2, f"the client asked for a session {len(found)} times without authenticating", *found)


@must("client.life.14", "sessions.md#new", "v1 banjo crow draft")
async def no_prompt_without_a_session(client: ClientUnderTest) -> None:
    """Without a session the client sends no prompt."""
    client.refuse(await client.hold_new_session(), -32603, "Internal error")
    frame = await client.wait_method("session/prompt", client.timeouts.answer)
    client.require(frame is None, "the client prompts though no session was opened", frame)


@should("client.life.15", "peers.md#slow-start")
async def a_slow_agent_is_waited_for(client: ClientUnderTest) -> None:
    """The client waits for an agent that answers initialize slowly."""
    first = await client.hold_initialize()
    await asyncio.sleep(SLOW)
    client.reply_in_dialect(first, INITIALIZE_RESULT)
    why = f"the client gave up an agent that took {SLOW:g} seconds to answer initialize"
    client.end_turn(await client.require_prompt(why))
