"""Probes of sessions and prompts at a client."""

from __future__ import annotations

import os
from collections.abc import Iterator

from dragoman.conformance.harness.client import SESSION, ClientStage
from dragoman.conformance.harness.peer import Heard, Json
from dragoman.conformance.probe import probe


async def opening(stage: ClientStage) -> tuple[Heard, Json]:
    """The client's session/new, and its params as they stand on the wire."""
    heard = await stage.wanted("session/new", stage.pace.start)
    params = heard.message.get("params")
    stage.require(isinstance(params, dict), "session/new has no params", heard)
    return heard, params


async def opened_with(stage: ClientStage, what: str, **members: Json) -> None:
    """A client must go on to a prompt after this answer to session/new."""
    stage.answers["session/new"] = {"sessionId": SESSION, **members}
    prompt = await stage.until(lambda heard: heard.method == "session/prompt", stage.pace.start)
    said = stage.grounds.ending().words()
    stage.require(prompt is not None, f"the client gave up a session with {what}: {said}")
    assert prompt is not None
    await stage.survived(prompt, f"a session with {what}")


async def called(stage: ClientStage, id: str) -> None:
    """The client must call a session what its agent called it."""
    stage.answers["session/new"] = {"sessionId": id}
    prompt = await stage.wanted("session/prompt", stage.pace.start)
    given = prompt.message.get("params", {}).get("sessionId")
    stage.require(given == id and isinstance(given, str), f"the session {id!r} is called {given!r}", prompt)
    stage.session = id
    stage.end(prompt)


@probe("client.session.01")
async def the_folder_is_absolute(stage: ClientStage) -> None:
    """Whatever it is."""
    heard, params = await opening(stage)
    folder = params.get("workingDirectory" if stage.dialect == "draft" else "cwd")
    is_absolute = isinstance(folder, str) and os.path.isabs(folder)
    stage.require(is_absolute, f"the folder {folder!r} is no absolute path", heard)


@probe("client.session.02")
async def the_servers_are_listed(stage: ClientStage) -> None:
    """Strict agents refuse a session without the list."""
    heard, params = await opening(stage)
    stage.require(isinstance(params.get("mcpServers"), list), "session/new has no list mcpServers", heard)


@probe("client.session.03")
async def session_ids_are_opaque(stage: ClientStage) -> None:
    """With everything in it that somebody might want to quote."""
    await called(stage, "https://agent.example/s?a=1&b=[ä] %20/#5")


@probe("client.session.04")
async def session_ids_of_digits_are_strings(stage: ClientStage) -> None:
    """As of an agent that counts."""
    await called(stage, "0")


@probe("client.session.05")
async def nulls_open_a_session(stage: ClientStage) -> None:
    """As real agents say that they have none."""
    await opened_with(stage, "modes and options that are null", modes=None, configOptions=None)


@probe("client.session.06")
async def models_are_borne(stage: ClientStage) -> None:
    """As gemini, qwen, codex, droid, pi and hermes send them."""
    models = {"currentModelId": "a", "availableModels": [{"modelId": "a", "name": "A", "description": None}]}
    await opened_with(stage, "models", models=models)


@probe("client.session.07")
async def unknown_options_are_borne(stage: ClientStage) -> None:
    """A slider, say."""
    slider = {"id": "heat", "name": "Heat", "type": "range", "category": "_vendor", "currentValue": 3, "range": [1, 5]}
    await opened_with(stage, "an option of an unknown type", configOptions=[slider])


@probe("client.session.08")
async def mode_ids_are_opaque(stage: ClientStage) -> None:
    """As copilot's are."""
    url = "https://agentclientprotocol.com/protocol/session-modes#agent"
    modes = {"currentModeId": url, "availableModes": [{"id": url, "name": "Agent", "description": None}]}
    await opened_with(stage, "a mode whose id is a URL", modes=modes)


@probe("client.session.09")
async def servers_behind_http_are_kept_back(stage: ClientStage) -> None:
    """Our agent takes none."""
    heard, params = await opening(stage)
    servers = params.get("mcpServers") or []
    kinds = [each.get("type") for each in servers if isinstance(each, dict) and each.get("type") in ("http", "sse")]
    stage.require(not kinds, f"an agent that takes no MCP over {kinds} is told of it", heard)


@probe("client.session.10")
async def additional_folders_are_kept_back(stage: ClientStage) -> None:
    """Our agent takes none."""
    heard, params = await opening(stage)
    stage.require("additionalDirectories" not in params, "an agent that takes no further folders is told some", heard)


@probe("client.session.11")
async def a_prompt_has_blocks(stage: ClientStage) -> None:
    """At least one."""
    prompt = await stage.wanted("session/prompt", stage.pace.start)
    params = prompt.message.get("params")
    blocks = params.get("content" if stage.dialect == "draft" else "prompt") if isinstance(params, dict) else None
    good = isinstance(blocks, list) and blocks and all(isinstance(each, dict) and "type" in each for each in blocks)
    stage.require(good, "the prompt is no list of blocks with types", prompt)


@probe("client.session.12")
async def a_prompt_keeps_to_what_is_taken(stage: ClientStage) -> None:
    """Our agent takes no pictures, sounds or files."""
    prompt = await stage.wanted("session/prompt", stage.pace.start)
    blocks = prompt.message.get("params", {}).get("prompt")
    kinds = {each.get("type") for each in blocks if isinstance(each, dict)} if isinstance(blocks, list) else set()
    odd = kinds - {"text", "resource_link"}
    stage.require(not odd, f"the prompt has {odd} in it, which the agent does not take", prompt)


@probe("client.session.13")
async def prompts_come_one_by_one(stage: ClientStage) -> None:
    """While one is open there is no other."""
    prompt = await stage.begun()
    heard = [each for each in await stage.silence(5 * stage.pace.quiet) if each.method == "session/prompt"]
    stage.require(not heard, "a second prompt came while the first was open", *heard)
    stage.end(prompt)


@probe("client.session.14")
async def every_meta_is_an_object(stage: ClientStage) -> None:
    """In all that is said in a turn."""
    prompt = await stage.begun()
    await stage.fence()
    stage.end(prompt)
    await stage.over()
    wrong = [each for each in stage.heard if any(not isinstance(meta, dict | None) for meta in _metas(each.message))]
    stage.require(not wrong, "a _meta is not an object", *wrong)


def _metas(value: Json) -> Iterator[Json]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "_meta":
                yield inner
            yield from _metas(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _metas(inner)


@probe("client.session.15")
async def the_prompt_goes_to_its_session(stage: ClientStage) -> None:
    """By the name that stands in the answer, or that the client chose."""
    wanted = await stage.wanted("session/new", stage.pace.start)
    id = wanted.message["params"].get("session_id") if stage.dialect == "2025.1" else SESSION
    if not isinstance(id, str):
        stage.unsure(f"the session is called {id!r}, which is no text", wanted)
    prompt = await stage.wanted("session/prompt", stage.pace.start)
    given = prompt.message.get("params", {}).get("session_id")
    stage.require(given == id, f"the session {id!r} is called {given!r}", wanted, prompt)
    stage.end(prompt)
