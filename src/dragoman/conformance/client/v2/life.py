"""How a v2 client connects: initialize, sessions, options, old sessions."""

from __future__ import annotations

from dragoman.conformance.harness.client import OLDER, OPTION, OPTIONS, SESSION, VALUES, ClientUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.json_shape import absolute, non_empty
from dragoman.conformance.requirement import may, must, should

GONE = ("authenticate", "logout", "session/load", "session/set_mode")
INFO = {"name": "dragoman-check", "version": "1.0"}


def _wire_method(frame: ReceivedFrame) -> str:
    return str(frame.message.get("method", "")) if isinstance(frame.message, dict) else ""


def _calls(client: ClientUnderTest, method: str) -> list[ReceivedFrame]:
    return [frame for frame in client.received if _wire_method(frame) == method]


@must("client.v2life.01", "v2.md#initialize")
async def the_version_is_two(client: ClientUnderTest) -> None:
    """The client asks for version 2 or higher, as an integer."""
    frame = await client.hold_initialize()
    version = frame.wire_params.get("protocolVersion")
    is_two = isinstance(version, int) and not isinstance(version, bool) and version >= 2
    client.require(is_two, f"the client asks for the version {version!r}", frame)


@must("client.v2life.02", "v2.md#initialize")
async def the_client_has_a_name(client: ClientUnderTest) -> None:
    """The client sends info with its name and version."""
    frame = await client.hold_initialize()
    client.require_params(frame, {"info": {"name": non_empty, "version": str, "title?": str}})


@must("client.v2life.03", "v2.md#capabilities")
async def capabilities_are_objects(client: ClientUnderTest) -> None:
    """Capabilities are objects, not true or false."""
    frame = await client.hold_initialize()
    found = frame.wire_params.get("capabilities")
    wrong = [name for name, value in found.items() if isinstance(value, bool)] if isinstance(found, dict) else []
    client.require(not wrong, f"the capability {wrong[:1]} is true or false", frame)
    client.require(isinstance(found, dict | None), "the capabilities are not an object", frame)


@must("client.v2life.04", "v2.md#before-and-after")
async def nothing_comes_before_the_answer(client: ClientUnderTest) -> None:
    """The client sends no other request before initialize is answered."""
    await client.hold_initialize()
    early = [frame for frame in await client.collect() if frame.is_request]
    client.require_none(early, "the client sent a request before initialize was answered")


@must("client.v2life.05", "v2.md#capabilities")
async def unknown_members_are_ignored(client: ClientUnderTest) -> None:
    """Unknown members and capabilities of the agent are ignored."""
    frame = await client.hold_initialize()
    capabilities = {"session": {"tides": {}}, "moon": {"phase": "full"}}
    client.reply(frame, {"protocolVersion": 2, "info": INFO, "capabilities": capabilities, "weather": "fine"})
    await client.require_prompt("the client does not go on after unknown capabilities")


@must("client.v2life.06", "v2.md#versions")
async def an_unsupported_version_is_an_error(client: ClientUnderTest) -> None:
    """An agent that refuses the version ends the client without a crash."""
    frame = await client.hold_initialize()
    error = {"code": -32022, "message": "Unsupported", "data": {"requested": 2, "supported": [9]}}
    client.send({"jsonrpc": "2.0", "id": frame.message["id"], "error": error})
    await client.require_no_crash("the client crashed after its version was refused")


@may("client.v2life.07", "v2.md#versions")
async def version_one_is_no_crash(client: ClientUnderTest) -> None:
    """An agent that answers in version 1 is used in version 1, or refused without a crash."""
    frame = await client.hold_initialize()
    client.reply(frame, {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": INFO, "authMethods": []})
    if await client.wait_for(lambda frame: frame.is_request) is None:
        await client.require_no_crash("the client crashed after an answer of version 1")


@must("client.v2life.08", "v2.md#new-session")
async def the_folder_is_absolute(client: ClientUnderTest) -> None:
    """session/new has an absolute folder."""
    client.require_params(await client.wait_new_session(), {"cwd": absolute})


@must("client.v2life.09", "v2.md#new-session")
async def servers_have_a_type(client: ClientUnderTest) -> None:
    """The MCP servers of session/new are absent, null or a list with types."""
    frame = await client.wait_new_session()
    client.require_params(frame, {"mcpServers?": [{"type": non_empty, "name": non_empty}]})


@must("client.v2life.10", "v2.md#gone-methods")
async def gone_methods_are_not_used(client: ClientUnderTest) -> None:
    """The client uses no methods that version 2 does not have."""
    found = await client.record_turn()
    old = [frame for frame in found if _wire_method(frame) in GONE]
    client.require_none(old, "the client used a method of version 1")


@must("client.v2life.11", "v2.md#batches")
async def arrays_are_not_sent(client: ClientUnderTest) -> None:
    """The client sends single messages, never arrays."""
    wrong = [frame for frame in await client.record_turn() if not isinstance(frame.message, dict)]
    client.require_none(wrong, "the client sent something that is not a message")


@must("client.v2life.12", "v2.md#ids")
async def ids_are_valid(client: ClientUnderTest) -> None:
    """The ids of requests are strings or integers, and each is used once."""
    requests = [frame for frame in await client.record_turn() if frame.is_request]
    ids = [frame.message["id"] for frame in requests]
    is_valid = all(isinstance(id, int | str) and not isinstance(id, bool) for id in ids)
    client.require(is_valid, "the id of a request is neither a string nor an integer", *requests[-1:])
    client.require(len({repr(id) for id in ids}) == len(ids), "two requests have the same id", *requests[-2:])


@must("client.v2life.13", "v2.md#options")
async def options_are_set_with_a_type(client: ClientUnderTest) -> None:
    """A client that sets an option sends configId, type and value."""
    client.answers["session/new"] = {"sessionId": SESSION, "configOptions": OPTIONS}
    client.answers["session/set_config_option"] = {"configOptions": OPTIONS}
    await client.run_turn()
    found = _calls(client, "session/set_config_option")
    for frame in client.skip_unless(found, "the client sets no options"):
        client.require_params(frame, {"configId": non_empty, "type": non_empty, "value": object})


@must("client.v2life.14", "v2.md#options")
async def values_are_offered(client: ClientUnderTest) -> None:
    """A client sets an option to a value that the option offers."""
    client.answers["session/new"] = {"sessionId": SESSION, "configOptions": OPTIONS}
    client.answers["session/set_config_option"] = {"configOptions": OPTIONS}
    await client.run_turn()
    found = _calls(client, "session/set_config_option")
    for frame in client.skip_unless(found, "the client sets no options"):
        is_ours = frame.wire_params.get("configId") == OPTION
        is_offered = frame.wire_params.get("value") in VALUES
        client.require(is_offered or not is_ours, "the client sets a value that is not offered", frame)


def _offer_older(client: ClientUnderTest) -> None:
    client.answers["session/list"] = {"sessions": [{"sessionId": OLDER, "cwd": client.cwd, "title": "An older one"}]}


async def _resumed(client: ClientUnderTest) -> ReceivedFrame:
    _offer_older(client)
    client.held |= {"session/load", "session/resume"}
    frame = await client.wait_for(lambda each: _wire_method(each) == "session/resume", client.timeouts.start)
    return client.skip_unless(frame, "the client resumes no sessions")


@must("client.v2life.15", "v2.md#resume")
async def old_sessions_are_resumed(client: ClientUnderTest) -> None:
    """session/resume has the session and an absolute folder."""
    frame = await _resumed(client)
    client.require_params(frame, {"sessionId": non_empty, "cwd": absolute})


@must("client.v2life.16", "v2.md#resume")
async def a_replay_is_from_the_start(client: ClientUnderTest) -> None:
    """A client that wants the history asks for it from the start, the only place there is."""
    frame = await _resumed(client)
    place: Json = frame.wire_params.get("replayFrom")
    client.require(place in (None, {"type": "start"}), f"the client wants a replay from {place!r}", frame)


@should("client.v2life.17", "v2.md#resume")
async def a_replayed_session_is_prompted(client: ClientUnderTest) -> None:
    """After a replay and its state the client goes on with a prompt."""
    frame = await _resumed(client)
    client.held -= {"session/load", "session/resume"}
    client.session = OLDER
    client.update("user_message", messageId="old-1", content=[{"type": "text", "text": "before"}])
    client.update("agent_message", messageId="old-2", content=[{"type": "text", "text": "an old answer"}])
    client.update("state_update", state="idle", stopReason="end_turn")
    client.reply(frame, {})
    await client.require_prompt("the client does not prompt in a replayed session")
