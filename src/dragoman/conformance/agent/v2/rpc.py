"""JSON-RPC at a v2 agent: ids, arrays, methods that are gone, errors."""

from __future__ import annotations

from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.requirement import must, should

INVALID_REQUEST, NOT_FOUND, INVALID_PARAMS = -32600, -32601, -32602


async def _answer_without_id(agent: AgentUnderTest, message: Json, what: str) -> ReceivedFrame:
    """Send something whose answer has the id null; return the answer."""
    await agent.initialize()
    agent.send(message)
    frame = await agent.wait_for(lambda frame: frame.is_reply, agent.timeouts.answer)
    return agent.require(frame, f"{what} was not answered")


async def _require_invalid(agent: AgentUnderTest, message: Json, what: str) -> None:
    frame = await _answer_without_id(agent, message, what)
    agent.require(frame.message.get("id") is None, f"the answer to {what} has an id", frame)
    agent.require_error(frame, what, INVALID_REQUEST)


def _list(id: Json) -> Json:
    return {"jsonrpc": "2.0", "id": id, "method": "session/list", "params": {}}


@must("agent.v2rpc.01", "v2.md#ids")
async def a_null_id_is_invalid(agent: AgentUnderTest) -> None:
    """A request with the id null is answered with -32600 and the id null."""
    await _require_invalid(agent, _list(None), "a request with the id null")


@must("agent.v2rpc.02", "v2.md#ids")
async def a_fractional_id_is_invalid(agent: AgentUnderTest) -> None:
    """A request with a fractional id is answered with -32600 and the id null."""
    await _require_invalid(agent, _list(1.5), "a request with a fractional id")


@must("agent.v2rpc.03", "v2.md#batches")
async def an_array_is_invalid(agent: AgentUnderTest) -> None:
    """An array of requests is answered with one error -32600 and the id null."""
    await _require_invalid(agent, [_list(31), _list(32)], "an array")
    agent.require_none([each for each in await agent.collect() if each.is_reply], "an array was answered twice")


@must("agent.v2rpc.04", "v2.md#batches")
async def an_empty_array_is_invalid(agent: AgentUnderTest) -> None:
    """An empty array is answered with -32600 and the id null."""
    await _require_invalid(agent, [], "an empty array")


@must("agent.v2rpc.05", "v2.md#ids")
async def the_connection_survives_an_invalid_id(agent: AgentUnderTest) -> None:
    """After a request with an invalid id the agent still answers."""
    await agent.initialize()
    agent.send(_list(2.5))
    await agent.collect()
    agent.require(await agent.request("session/list", {}), "after a fractional id the agent answers no more")


@must("agent.v2rpc.06", "v2.md#ids")
async def ids_come_back(agent: AgentUnderTest) -> None:
    """A request is answered with its own id, a string or an integer."""
    await agent.initialize()
    for id in ("one", 0, -7):
        agent.call("session/list", {}, id=id)
        frame = agent.require(
            await agent.wait_for(lambda frame: frame.is_reply), f"a request with the id {id!r} was not answered"
        )
        agent.require(frame.message.get("id") == id, f"the id {id!r} came back as {frame.message.get('id')!r}", frame)


@must("agent.v2rpc.07", "v2.md#errors")
async def unknown_methods_are_refused(agent: AgentUnderTest) -> None:
    """A request of an unknown method is refused with -32601."""
    await agent.require_refused("no/such_method", {}, "an unknown method", NOT_FOUND)


@must("agent.v2rpc.08", "v2.md#errors")
async def unknown_extensions_are_refused(agent: AgentUnderTest) -> None:
    """A request of an unknown extension method is refused with -32601."""
    await agent.require_refused("_example.org/unknown", {}, "an unknown extension method", NOT_FOUND)


@must("agent.v2rpc.09", "v2.md#gone-methods")
async def load_is_gone(agent: AgentUnderTest) -> None:
    """session/load is refused with -32601: session/resume replaces it."""
    await agent.open_session()
    params = {"sessionId": agent.session, "cwd": agent.cwd, "mcpServers": []}
    await agent.require_refused("session/load", params, "session/load", NOT_FOUND)


@must("agent.v2rpc.10", "v2.md#gone-methods")
async def set_mode_is_gone(agent: AgentUnderTest) -> None:
    """session/set_mode is refused with -32601: an option replaces it."""
    await agent.open_session()
    params = {"sessionId": agent.session, "modeId": "code"}
    await agent.require_refused("session/set_mode", params, "session/set_mode", NOT_FOUND)


@must("agent.v2rpc.11", "v2.md#gone-methods")
async def authenticate_is_gone(agent: AgentUnderTest) -> None:
    """Authenticate is refused with -32601: auth/login replaces it."""
    await agent.require_refused("authenticate", {"methodId": "none"}, "authenticate", NOT_FOUND)


@must("agent.v2rpc.12", "v2.md#errors")
async def notifications_get_no_answer(agent: AgentUnderTest) -> None:
    """A notification is never answered, whether its method is known or not."""
    await agent.initialize()
    agent.notify("no/such_notification", {})
    agent.notify("session/cancel", {"sessionId": "no-such-session"})
    agent.require_none(await agent.stray_replies(), "a notification was answered")


@must("agent.v2rpc.13", "v2.md#errors")
async def a_broken_line_is_reported(agent: AgentUnderTest) -> None:
    """A line that is not JSON is answered with -32700 and the id null, or ignored."""
    await agent.initialize()
    agent.send(b'{"jsonrpc": "2.0", "id": 9, "meth')
    for frame in await agent.stray_replies():
        agent.require(frame.message.get("id") is None, "a line that is not JSON got an answer with an id", frame)
        agent.require_error(frame, "a line that is not JSON", -32700)


@must("agent.v2rpc.14", "v2.md#errors")
async def missing_params_are_invalid(agent: AgentUnderTest) -> None:
    """A prompt without its required members is refused with -32602."""
    await agent.open_session()
    await agent.require_refused("session/prompt", {}, "a prompt without members", INVALID_PARAMS)


@should("agent.v2rpc.15", "v2.md#errors")
async def errors_have_a_text(agent: AgentUnderTest) -> None:
    """An error has an integer code and a message that is not empty."""
    await agent.initialize()
    frame = agent.assume_error(await agent.request("session/resume", {"sessionId": 5}), "nothing was refused")
    agent.require(isinstance(frame.error.get("code"), int), "the code of an error is not an integer", frame)
    is_text = isinstance(frame.error.get("message"), str) and bool(frame.error["message"])
    agent.require(is_text, "an error has no message", frame)
