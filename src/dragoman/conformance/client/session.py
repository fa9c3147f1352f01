"""Sessions and prompts of a client."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.conformance.harness.client import SESSION, ClientUnderTest
from dragoman.conformance.harness.peer import Json
from dragoman.conformance.json_shape import absolute
from dragoman.conformance.requirement import must


async def _require_prompt(client: ClientUnderTest, what: str, **members: Json) -> None:
    """Require that the client sends a prompt after an answer to session/new with these members."""
    client.answers["session/new"] = {"sessionId": SESSION, **members}
    prompt = await client.require_prompt(f"the client gave up a session with {what}")
    await client.require_alive(prompt, f"a session with {what}")


async def _require_session_id(client: ClientUnderTest, id: str) -> None:
    """Require that the client uses the session id of its agent."""
    client.answers["session/new"] = {"sessionId": id}
    prompt = await client.wait_call("session/prompt", client.timeouts.start)
    given = prompt.wire_params.get("sessionId")
    client.require(given == id and isinstance(given, str), f"the session {id!r} is called {given!r}", prompt)
    client.session = id
    client.end_turn(prompt)


@must("client.session.01", "sessions.md#cwd", "v1 banjo crow draft")
async def the_folder_is_absolute(client: ClientUnderTest) -> None:
    """The folder of a session is an absolute path."""
    frame = await client.wait_new_session()
    name = "workingDirectory" if client.dialect == "draft" else "cwd"
    client.require_params(frame, {name: absolute})


@must("client.session.02", "sessions.md#new", "v1")
async def the_servers_are_listed(client: ClientUnderTest) -> None:
    """session/new has a list of MCP servers, if only an empty one."""
    frame = await client.wait_new_session()
    client.require_params(frame, {"mcpServers": list})


@must("client.session.03", "peers.md#id-texts", "v1 banjo draft")
async def session_ids_are_opaque(client: ClientUnderTest) -> None:
    """A session id is used unchanged, whatever it looks like."""
    await _require_session_id(client, "https://agent.example/s?a=1&b=[ä] %20/#5")


@must("client.session.04", "peers.md#id-texts", "v1 banjo draft")
async def session_ids_of_digits_are_strings(client: ClientUnderTest) -> None:
    """A session id of digits stays a string."""
    await _require_session_id(client, "0")


@must("client.session.05", "sessions.md#lifecycle", "v1 banjo")
async def nulls_open_a_session(client: ClientUnderTest) -> None:
    """Modes and options that are null count as absent."""
    await _require_prompt(client, "modes and options that are null", modes=None, configOptions=None)


@must("client.session.06", "peers.md#models", "v1 banjo")
async def models_are_tolerated(client: ClientUnderTest) -> None:
    """The client tolerates a list of models beside the session id."""
    models = {"currentModelId": "a", "availableModels": [{"modelId": "a", "name": "A", "description": None}]}
    await _require_prompt(client, "models", models=models)


@must("client.session.07", "sessions.md#config-options", "v1 banjo")
async def unknown_options_are_tolerated(client: ClientUnderTest) -> None:
    """An option of an unknown type does not break the session."""
    slider = {"id": "heat", "name": "Heat", "type": "range", "category": "_vendor", "currentValue": 3, "range": [1, 5]}
    await _require_prompt(client, "an option of an unknown type", configOptions=[slider])


@must("client.session.08", "peers.md#id-texts", "v1 banjo")
async def mode_ids_are_opaque(client: ClientUnderTest) -> None:
    """The ids of modes may be URLs."""
    url = "https://agentclientprotocol.com/protocol/session-modes#agent"
    modes = {"currentModeId": url, "availableModes": [{"id": url, "name": "Agent", "description": None}]}
    await _require_prompt(client, "a mode whose id is a URL", modes=modes)


@must("client.session.09", "sessions.md#mcp-servers", "v1")
async def servers_behind_http_are_kept_back(client: ClientUnderTest) -> None:
    """MCP servers over HTTP are sent only to agents that accept them."""
    frame = await client.wait_new_session()
    servers = frame.wire_params.get("mcpServers") or []
    kinds = [each.get("type") for each in servers if isinstance(each, dict) and each.get("type") in ("http", "sse")]
    client.require(not kinds, f"an agent that takes no MCP over {kinds} is sent them", frame)


@must("client.session.10", "sessions.md#roots", "v1")
async def additional_folders_are_kept_back(client: ClientUnderTest) -> None:
    """Additional folders are sent only to agents that accept them."""
    frame = await client.wait_new_session()
    is_sent = "additionalDirectories" in frame.wire_params
    client.require(not is_sent, "an agent that takes no further folders is sent some", frame)


@must("client.session.11", "prompt-turns.md#prompt", "v1 banjo crow draft")
async def a_prompt_has_blocks(client: ClientUnderTest) -> None:
    """A prompt is a list of blocks that each have a type."""
    prompt = await client.wait_call("session/prompt", client.timeouts.start)
    blocks = prompt.wire_params.get("content" if client.dialect == "draft" else "prompt")
    good = isinstance(blocks, list) and blocks and all(isinstance(each, dict) and "type" in each for each in blocks)
    client.require(good, "the prompt is not a list of blocks with types", prompt)


@must("client.session.12", "prompt-turns.md#prompt-content", "v1 banjo")
async def a_prompt_keeps_to_what_is_accepted(client: ClientUnderTest) -> None:
    """Without capabilities a prompt has only texts and links."""
    prompt = await client.wait_call("session/prompt", client.timeouts.start)
    blocks = prompt.wire_params.get("prompt")
    kinds = {each.get("type") for each in blocks if isinstance(each, dict)} if isinstance(blocks, list) else set()
    odd = kinds - {"text", "resource_link"}
    client.require(not odd, f"the prompt has {odd} in it, which the agent does not take", prompt)


@must("client.session.13", "peers.md#second-prompt")
async def prompts_come_one_by_one(client: ClientUnderTest) -> None:
    """A session has one prompt at a time."""
    async with client.turn():
        frame = [each for each in await client.collect(5 * client.timeouts.quiet) if each.method == "session/prompt"]
        client.require_none(frame, "a second prompt came while the first was open")


@must("client.session.14", "extensions.md#meta", "v1 banjo draft")
async def every_meta_is_an_object(client: ClientUnderTest) -> None:
    """Every _meta of the client is an object."""
    sent = await client.record_turn()
    wrong = [each for each in sent if any(not isinstance(meta, dict | None) for meta in _metas(each.message))]
    client.require_none(wrong, "a _meta is not an object")


def _metas(value: Json) -> Iterator[Json]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "_meta":
                yield inner
            yield from _metas(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _metas(inner)


@must("client.session.15", "sessions.md#new", "crow 2025.1")
async def the_prompt_goes_to_its_session(client: ClientUnderTest) -> None:
    """The prompt names the session that was opened."""
    wanted = await client.wait_new_session()
    id = wanted.wire_params.get("session_id") if client.dialect == "2025.1" else SESSION
    client.assume(isinstance(id, str), f"the session is called {id!r}, which is not a string", wanted)
    prompt = await client.wait_call("session/prompt", client.timeouts.start)
    given = prompt.wire_params.get("session_id")
    client.require(given == id, f"the session {id!r} is called {given!r}", wanted, prompt)
    client.end_turn(prompt)
