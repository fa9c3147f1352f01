"""Modes, options and old sessions that a client chooses; what it does not use is not applicable."""

from __future__ import annotations

from dragoman.conformance.harness.client import (
    MODES,
    OLDER,
    OPTION,
    VALUES,
    ClientUnderTest,
    offer_choices,
    offer_sessions,
)
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.json_shape import absolute, non_empty
from dragoman.conformance.requirement import must

FRESH = "check-fresh-session"
CURSOR = "page 2, ä/+=="


async def _wait_choice(client: ClientUnderTest, method: str) -> tuple[ReceivedFrame, Json]:
    """Return a request that the client sends before its prompt, and its params; skip if it sends none."""
    found = client.assume(
        await client.wait_for(lambda frame: frame.method in (method, "session/prompt"), client.timeouts.start),
        f"the client sent neither {method} nor a prompt",
    )
    if found.method != method:
        client.end_turn(found)
        client.skip(f"the client does not send {method} by itself; give it the options that make it")
    client.require(isinstance(found.message.get("params"), dict), f"{method} has no params", found)
    return found, found.wire_params


async def _require_no_crash(client: ClientUnderTest, what: str) -> None:
    """Require that the client sends its prompt or exits with an error, without a crash."""
    prompt = await client.wait_method("session/prompt", client.timeouts.answer)
    if prompt is not None:
        client.end_turn(prompt)
    await client.require_no_crash(f"the client crashed after {what}")


@must("client.choice.01", "sessions.md#modes")
async def modes_are_those_offered(client: ClientUnderTest) -> None:
    """A mode that is chosen is one that the session offers."""
    offer_choices(client)
    frame, params = await _wait_choice(client, "session/set_mode")
    known = [mode["id"] for mode in MODES["availableModes"]]
    client.require(params.get("modeId") in known, f"the mode {params.get('modeId')!r} is none of {known}", frame)
    client.require(params.get("sessionId") == client.session, "the mode is set in another session", frame)


@must("client.choice.02", "sessions.md#modes")
async def refused_modes_are_tolerated(client: ClientUnderTest) -> None:
    """A mode that the agent refuses does not break the client."""
    offer_choices(client)
    client.held.add("session/set_mode")
    frame, _ = await _wait_choice(client, "session/set_mode")
    client.refuse(frame, -32602, "this mode is not available now")
    await _require_no_crash(client, "a mode that was refused")


@must("client.choice.03", "sessions.md#config-options")
async def options_have_values(client: ClientUnderTest) -> None:
    """An option is set by its id, to a value that it has."""
    offer_choices(client)
    frame, params = await _wait_choice(client, "session/set_config_option")
    client.require(params.get("configId") == OPTION, f"there is no option {params.get('configId')!r}", frame)
    client.require(params.get("value") in VALUES, f"the option has no value {params.get('value')!r}", frame)


def _require_session_and_folder(client: ClientUnderTest, frame: ReceivedFrame, params: Json) -> None:
    """Require that a session is named, and an absolute folder."""
    client.require_shape(params, {"sessionId": non_empty, "cwd": absolute}, frame)


@must("client.choice.04", "sessions.md#load")
async def loads_are_complete(client: ClientUnderTest) -> None:
    """A session is loaded by its id, in an absolute folder, with a list of servers."""
    offer_sessions(client)
    frame, params = await _wait_choice(client, "session/load")
    _require_session_and_folder(client, frame, params)
    client.require(isinstance(params.get("mcpServers"), list), "session/load has no list mcpServers", frame)


@must("client.choice.05", "sessions.md#load, peers.md#replay")
async def histories_are_tolerated(client: ClientUnderTest) -> None:
    """The client tolerates the history that is sent while a session is loaded."""
    offer_sessions(client)
    client.held.add("session/load")
    frame, params = await _wait_choice(client, "session/load")
    client.session = str(params.get("sessionId"))
    for kind, text in (("user_message_chunk", "an older question"), ("agent_message_chunk", "an older answer")):
        client.update(kind, content={"type": "text", "text": text})
    client.reply_in_dialect(frame, {})
    prompt = await client.require_prompt("the client gave up a session whose history was sent")
    await client.require_alive(prompt, "a history while a session was loaded")


@must("client.choice.06", "sessions.md#load, peers.md#false-loads")
async def refused_loads_are_no_sessions(client: ClientUnderTest) -> None:
    """The client sends no prompt in a session that could not be loaded."""
    offer_sessions(client)
    client.held.add("session/load")
    frame, params = await _wait_choice(client, "session/load")
    client.answers["session/new"] = {"sessionId": FRESH}  # not one that the client remembers from another run
    client.refuse(frame, -32002, "Resource not found")
    prompt = await client.wait_method("session/prompt", client.timeouts.answer)
    if prompt is None:
        return
    is_refused = prompt.wire_params.get("sessionId") == params.get("sessionId")
    client.require(not is_refused, "the client prompts in a session that was refused", frame, prompt)
    client.end_turn(prompt)


@must("client.choice.07", "sessions.md#list")
async def cursors_are_opaque(client: ClientUnderTest) -> None:
    """The next page of a list of sessions is requested with the cursor of the page before."""
    offer_sessions(client)
    client.held.add("session/list")
    frame, params = await _wait_choice(client, "session/list")
    client.require_shape(params, {"cwd?": absolute}, frame)
    info = {"sessionId": OLDER, "cwd": client.cwd}
    client.reply_in_dialect(frame, {"sessions": [info], "nextCursor": CURSOR})
    again, params = await _wait_choice(client, "session/list")
    found = params.get("cursor")
    client.require(found == CURSOR, f"the next page is asked for with {found!r}, and was called {CURSOR!r}", again)
    client.reply_in_dialect(again, {"sessions": [info]})


@must("client.choice.08", "sessions.md#resume")
async def resumes_are_complete(client: ClientUnderTest) -> None:
    """A session is resumed by its id, in an absolute folder."""
    offer_sessions(client, load=False)
    _require_session_and_folder(client, *await _wait_choice(client, "session/resume"))
