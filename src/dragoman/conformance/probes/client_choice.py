"""Probes of what a client takes up of what its agent offers; what it leaves is not applicable."""

from __future__ import annotations

import os

from dragoman.conformance.harness.client import MODES, OLDER, OPTION, VALUES, ClientStage, offer_choices, offer_sessions
from dragoman.conformance.harness.peer import Heard, Json
from dragoman.conformance.probe import probe

FRESH = "check-fresh-session"
CURSOR = "page 2, ä/+=="


async def chosen(stage: ClientStage, method: str) -> tuple[Heard, Json]:
    """Something the client does before it prompts, and its params; a client that leaves it is in its right."""
    found = await stage.until(lambda heard: heard.method in (method, "session/prompt"), stage.pace.start)
    if found is None:
        stage.unsure(f"the client sent neither {method} nor a prompt")
    assert found is not None
    if found.method != method:
        stage.end(found)
        stage.skip(f"the client does not send {method} by itself; give it the words that make it")
    params = found.message.get("params")
    stage.require(isinstance(params, dict), f"{method} has no params", found)
    return found, params


async def finished(stage: ClientStage, what: str) -> None:
    """The client goes on to its prompt, or leaves with an error; it does not break down."""
    prompt = await stage.until(lambda heard: heard.method == "session/prompt", stage.pace.answer)
    if prompt is not None:
        stage.end(prompt)
    ending = await stage.over()
    stage.require(not ending.crashed, f"the client broke down after {what}: {ending.words()}")


@probe("client.choice.01")
async def modes_are_those_offered(stage: ClientStage) -> None:
    """By id, not by the name that is shown."""
    offer_choices(stage)
    heard, params = await chosen(stage, "session/set_mode")
    known = [mode["id"] for mode in MODES["availableModes"]]
    stage.require(params.get("modeId") in known, f"the mode {params.get('modeId')!r} is none of {known}", heard)
    stage.require(params.get("sessionId") == stage.session, "the mode is set in another session", heard)


@probe("client.choice.02")
async def refused_modes_are_borne(stage: ClientStage) -> None:
    """An agent may have changed its mind."""
    offer_choices(stage)
    stage.held.add("session/set_mode")
    heard, _ = await chosen(stage, "session/set_mode")
    stage.refuse(heard, -32602, "this mode cannot be had now")
    await finished(stage, "a mode that was refused")


@probe("client.choice.03")
async def options_have_values(stage: ClientStage) -> None:
    """By id and value, not by the names that are shown."""
    offer_choices(stage)
    heard, params = await chosen(stage, "session/set_config_option")
    stage.require(params.get("configId") == OPTION, f"there is no option {params.get('configId')!r}", heard)
    stage.require(params.get("value") in VALUES, f"the option has no value {params.get('value')!r}", heard)


def placed(stage: ClientStage, heard: Heard, params: Json) -> None:
    """Require that a session is named, and an absolute folder."""
    session, folder = params.get("sessionId"), params.get("cwd")
    stage.require(isinstance(session, str) and session != "", f"the session is called {session!r}", heard)
    is_absolute = isinstance(folder, str) and os.path.isabs(folder)
    stage.require(is_absolute, f"the folder {folder!r} is no absolute path", heard)


@probe("client.choice.04")
async def loads_are_whole(stage: ClientStage) -> None:
    """As session/new is."""
    offer_sessions(stage)
    heard, params = await chosen(stage, "session/load")
    placed(stage, heard, params)
    stage.require(isinstance(params.get("mcpServers"), list), "session/load has no list mcpServers", heard)


@probe("client.choice.05")
async def histories_are_borne(stage: ClientStage) -> None:
    """Before the answer, and without a turn."""
    offer_sessions(stage)
    stage.held.add("session/load")
    heard, params = await chosen(stage, "session/load")
    stage.session = str(params.get("sessionId"))
    for kind, text in (("user_message_chunk", "an older question"), ("agent_message_chunk", "an older answer")):
        stage.update(kind, content={"type": "text", "text": text})
    stage.answer_as(heard, {})
    prompt = await stage.until(lambda heard: heard.method == "session/prompt", stage.pace.start)
    stage.require(prompt is not None, "the client gave up a session whose history was told")
    assert prompt is not None
    await stage.survived(prompt, "a history while a session was loaded")


@probe("client.choice.06")
async def refused_loads_are_no_sessions(stage: ClientStage) -> None:
    """A new one may be opened in its place, or an error shown."""
    offer_sessions(stage)
    stage.held.add("session/load")
    heard, params = await chosen(stage, "session/load")
    stage.answers["session/new"] = {"sessionId": FRESH}  # not one that the client remembers from another run
    stage.refuse(heard, -32002, "Resource not found")
    prompt = await stage.until(lambda heard: heard.method == "session/prompt", stage.pace.answer)
    if prompt is None:
        return
    session = prompt.message.get("params", {}).get("sessionId")
    stage.require(session != params.get("sessionId"), "the client prompts in a session that was refused", heard, prompt)
    stage.end(prompt)


@probe("client.choice.07")
async def cursors_are_opaque(stage: ClientStage) -> None:
    """Two pages, of which many read only the first."""
    offer_sessions(stage)
    stage.held.add("session/list")
    heard, params = await chosen(stage, "session/list")
    folder = params.get("cwd")
    stage.require(folder is None or os.path.isabs(str(folder)), f"the folder {folder!r} is no absolute path", heard)
    info = {"sessionId": OLDER, "cwd": stage.cwd}
    stage.answer_as(heard, {"sessions": [info], "nextCursor": CURSOR})
    again, params = await chosen(stage, "session/list")
    found = params.get("cursor")
    stage.require(found == CURSOR, f"the next page is asked for with {found!r}, and was called {CURSOR!r}", again)
    stage.answer_as(again, {"sessions": [info]})


@probe("client.choice.08")
async def resumes_are_whole(stage: ClientStage) -> None:
    """As loads are."""
    offer_sessions(stage, load=False)
    placed(stage, *await chosen(stage, "session/resume"))
