"""JSON-RPC at an agent: ids, answers, errors, batches."""

from __future__ import annotations

from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.requirement import may, must, should
from dragoman.schema.methods import find_method
from dragoman.schema.side import Side

LARGEST = 2**53 - 1  # the largest whole number that every JSON reader keeps

# Requests that an agent should refuse: by their params, their session, their name.
REFUSED: dict[str, Json] = {
    "session/prompt": {},
    "session/load": {"sessionId": "no-such-session"},
    "no/such_method": {},
    "_example.org/no_such_method": {},
}


async def _require_same_id(agent: AgentUnderTest, id: Json) -> None:
    await agent.initialize()
    agent.call("session/new", agent.new_session_params(), id=id)
    frame = agent.require(
        await agent.wait_for(lambda frame: frame.is_reply), f"a request with the id {id!r} was not answered"
    )
    found = frame.message.get("id")
    same = found == id and type(found) is type(id)
    agent.require(same, f"the answer's id is {found!r}, not {id!r}", frame)


@must("agent.rpc.01", "json-rpc.md#ids")
async def a_string_id_comes_back(agent: AgentUnderTest) -> None:
    """A request with a string id is answered with the same string as id."""
    await _require_same_id(agent, "17")


@must("agent.rpc.02", "json-rpc.md#notifications, peers.md#errors-without-id")
async def notifications_get_no_answer(agent: AgentUnderTest) -> None:
    """A notification is never answered, whether its method is known or not."""
    await agent.initialize()
    agent.notify("no/such_notification", {})
    agent.notify("_vendor/notification", {})
    agent.require_none(await agent.stray_replies(), "a notification was answered")


@must("agent.rpc.03", "errors.md#unknown-methods")
async def unknown_methods_are_refused(agent: AgentUnderTest) -> None:
    """A request of an unknown method is refused with -32601."""
    await agent.initialize()
    agent.require_error(await agent.request("no/such_method", {}), "an unknown method", -32601)


async def _provoke_messages(agent: AgentUnderTest) -> list[ReceivedFrame]:
    """Provoke an answer, an error and a session; return all messages."""
    await agent.initialize()
    await agent.request_session()
    await agent.request("no/such_method", {})
    return [each for each in agent.received if isinstance(each.message, dict)]


@must("agent.rpc.04", "json-rpc.md#envelope")
async def messages_state_the_version(agent: AgentUnderTest) -> None:
    """Every message says jsonrpc: "2.0"."""
    for frame in await _provoke_messages(agent):
        agent.require(frame.message.get("jsonrpc") == "2.0", 'a message lacks jsonrpc: "2.0"', frame)


@must("agent.rpc.05", "json-rpc.md#envelope")
async def answers_have_one_outcome(agent: AgentUnderTest) -> None:
    """An answer has a result or an error, never both and never neither."""
    for frame in await _provoke_messages(agent):
        if "method" not in frame.message:
            both = ("result" in frame.message) + ("error" in frame.message)
            agent.require(both == 1, "an answer has " + ("both result and error" if both else "no outcome"), frame)


async def _provoke_errors(agent: AgentUnderTest) -> list[ReceivedFrame]:
    """Provoke many errors, because agents build them in more than one place; return them."""
    await agent.request_initialize()
    for method, params in REFUSED.items():
        await agent.request(method, params)
    await agent.request_session()
    return [each for each in agent.received if each.is_reply and "error" in each.message]


@must("agent.rpc.06", "errors.md#error-object")
async def errors_have_code_and_message(agent: AgentUnderTest) -> None:
    """An error has an integer as code and a string as message."""
    for frame in agent.assume(await _provoke_errors(agent), "the agent refused nothing"):
        agent.require_shape(
            frame.message["error"],
            {"code": int, "message": str},
            frame,
            f"the error for {agent.method_answered(frame) or 'nothing we asked'}",
        )


@must("agent.rpc.07", "json-rpc.md#envelope")
async def requests_are_answered_once(agent: AgentUnderTest) -> None:
    """A request is answered once."""
    await agent.initialize()
    id = agent.call("session/new", agent.new_session_params())
    await agent.wait_reply(id)
    await agent.collect()
    found = agent.replies(id)
    agent.assume(found, "session/new was not answered")
    agent.require(len(found) == 1, f"a request was answered {len(found)} times", *found)


@must("agent.rpc.08", "json-rpc.md#ids, peers.md#id-shapes")
async def zero_is_an_id(agent: AgentUnderTest) -> None:
    """The id 0 is valid and is returned like any other."""
    await _require_same_id(agent, 0)


@must("agent.rpc.09", "json-rpc.md#ids", "v1 banjo draft")
async def ids_of_both_sides_are_apart(agent: AgentUnderTest) -> None:
    """A request of the client may have the same id as an open request of the agent."""
    turn, question = await agent.wait_question("ask")
    id = question.message["id"]
    agent.call("no/such_method", {}, id=id)
    agent.require(
        await agent.wait_reply(id), "a request with the id of an open request of the agent's was not answered", question
    )
    await agent.cancel_question(turn, question)


BROKEN = b'{"jsonrpc": "2.0", "id": 902, "method": '
BATCH = b'[{"jsonrpc":"2.0","id":901,"method":"no/such_method"},{"jsonrpc":"2.0","method":"no/such_notification"}]'


@must("agent.rpc.10", "json-rpc.md#batches, peers.md#batches")
async def batches_are_survived(agent: AgentUnderTest) -> None:
    """A batch does not end the connection."""
    await agent.require_survival(BATCH, "a batch")


@should("agent.rpc.11", "json-rpc.md#batches, peers.md#batches")
async def batches_are_refused_as_a_whole(agent: AgentUnderTest) -> None:
    """A batch is refused as a whole: one -32600 with id null."""
    await _require_refused(agent, BATCH, "a batch", -32600)


async def _require_refused(agent: AgentUnderTest, line: bytes, what: str, code: int) -> None:
    """Require that a line is answered with this error and id null."""
    await agent.initialize()
    agent.send(line)
    frame = await agent.wait_for(lambda frame: frame.is_reply)
    agent.assume(agent.closed is None, "the agent is gone")
    frame = agent.require(frame, f"{what} was not answered")
    found = frame.error.get("code"), frame.message.get("id", 0)
    agent.require(found == (code, None), f"{what} was not answered with {code} and id null", frame)


@must("agent.rpc.12", "json-rpc.md#robust-reading, peers.md#malformed-lines")
async def invalid_json_is_survived(agent: AgentUnderTest) -> None:
    """A line that is not JSON does not end the connection."""
    await agent.require_survival(BROKEN, "a line that is not JSON")


@should("agent.rpc.13", "json-rpc.md#robust-reading, peers.md#malformed-lines")
async def invalid_json_is_answered(agent: AgentUnderTest) -> None:
    """A line that is not JSON is answered with -32700 and id null."""
    await _require_refused(agent, BROKEN, "a line that is not JSON", -32700)


@must("agent.rpc.14", "json-rpc.md#robust-reading")
async def other_json_is_survived(agent: AgentUnderTest) -> None:
    """JSON that is not an object does not end the connection."""
    # docs/protocol/peers.md#sdk-non-object
    await agent.initialize()
    for line in (b"5", b'"text"', b"null", b"true"):
        agent.send(line)
    await agent.collect()
    await agent.require_alive("JSON that is not an object")


@must("agent.rpc.15", "extensions.md#unknown-members, dialects.md#banjo-notes")
async def unknown_members_are_ignored(agent: AgentUnderTest) -> None:
    """Unknown members are ignored."""
    await agent.initialize()
    params = {**agent.new_session_params(), "memberOfTheFuture": {"a": [1]}}
    agent.send({"jsonrpc": "2.0", "id": 903, "method": "session/new", "params": params, "memberOfTheFuture": 1})
    agent.require_result(await agent.wait_reply(903), "session/new with unknown members")


@must("agent.rpc.16", "extensions.md#own-methods, peers.md#extension-answers")
async def unknown_extensions_are_refused(agent: AgentUnderTest) -> None:
    """A request of an unknown extension method is refused with -32601."""
    await agent.initialize()
    agent.require_error(await agent.request("_example.org/no_such_method", {}), "an unknown extension method", -32601)


@must("agent.rpc.17", "extensions.md#meta", "v1 banjo draft")
async def meta_is_accepted(agent: AgentUnderTest) -> None:
    """_meta is accepted on the params of a request."""
    await agent.initialize()
    meta = {"traceparent": "00-80e1afed08e019fc1110464cfa66635c-7a085853722dc6d2-01", "example.org/key": {"a": 1}}
    agent.require_result(
        await agent.request("session/new", {**agent.new_session_params(), "_meta": meta}), "session/new with _meta"
    )


@must("agent.rpc.18", "json-rpc.md#envelope")
async def answers_to_nothing_are_ignored(agent: AgentUnderTest) -> None:
    """An answer to a request that was never sent is ignored."""
    await agent.initialize()
    agent.send({"jsonrpc": "2.0", "id": 904, "result": {}})
    agent.require_none(await agent.stray_replies(), "an answer to nothing was answered")
    await agent.require_alive("an answer without a request")


@must("agent.rpc.19", "peers.md#errors-without-id")
async def errors_without_id_are_survived(agent: AgentUnderTest) -> None:
    """An error with id null does not end the connection."""
    line = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'
    await agent.require_survival(line, "an error with id null")


@must("agent.rpc.20", "errors.md#wrong-params, peers.md#missing-params")
async def missing_params_are_refused(agent: AgentUnderTest) -> None:
    """A request that lacks its params is refused with -32602."""
    await agent.initialize()
    agent.send({"jsonrpc": "2.0", "id": 905, "method": "session/prompt"})
    agent.require_error(await agent.wait_reply(905), "a prompt without params", -32602)


@must("agent.rpc.21", "errors.md#wrong-params")
async def a_list_of_params_is_refused(agent: AgentUnderTest) -> None:
    """Params that are a list are refused."""
    await agent.initialize()
    agent.require_error(
        await agent.request("session/prompt", ["session", "prompt"]), "a prompt whose params are a list"
    )


@must("agent.rpc.22", "json-rpc.md#concurrency")
async def many_requests_are_answered(agent: AgentUnderTest) -> None:
    """Many requests may be pending at once; each is answered."""
    await agent.initialize()
    missing = await agent.wait_replies(agent.call("no/such_method", {"number": number}) for number in range(20))
    agent.require(not missing, f"{len(missing)} of 20 requests sent at once were not answered")


@must("agent.rpc.23", "peers.md#id-shapes")
async def members_come_in_any_order(agent: AgentUnderTest) -> None:
    """The members of a message may come in any order."""
    await agent.initialize()
    agent.send({"params": {}, "method": "no/such_method", "id": 906, "jsonrpc": "2.0"})
    agent.require(await agent.wait_reply(906), "a request whose id and method come last was not answered")


@must("agent.rpc.24", "json-rpc.md#ids")
async def ids_may_come_again(agent: AgentUnderTest) -> None:
    """An id may be used again after its request was answered."""
    await agent.initialize()
    for which in ("first", "second"):
        agent.call("no/such_method", {}, id=907)
        agent.require(await agent.wait_reply(907), f"the {which} of two requests with the same id was not answered")


@should("agent.rpc.25", "peers.md#method-not-found-text")
async def unknown_methods_are_named(agent: AgentUnderTest) -> None:
    """The error of an unknown method names the method."""
    # The name may be in the message or in the data.
    await agent.initialize()
    frame = await agent.request("no/such_method_either", {})
    error = agent.assume_error(frame, "an unknown method was not refused").error
    is_named = "no/such_method_either" in f"{error.get('message')} {error.get('data')}"
    agent.require(is_named, "the error does not say which method is unknown", frame)


@must("agent.rpc.26", "json-rpc.md#ids")
async def large_ids_come_back(agent: AgentUnderTest) -> None:
    """An id as large as 2^53 - 1 is returned unchanged."""
    await _require_same_id(agent, LARGEST)


@should("agent.rpc.27", "extensions.md#own-methods, peers.md#vendor-methods", "v1 banjo")
async def extensions_have_an_underscore(agent: AgentUnderTest) -> None:
    """Methods that the agent invents begin with an underscore."""
    await agent.run_turn("plain")
    await agent.run_turn("read")
    called = [frame for frame in agent.received if isinstance(frame.message, dict) and "method" in frame.message]
    methods = {str(frame.message["method"]): frame for frame in called}
    odd = [
        name for name in sorted(methods) if not name.startswith(("_", "$/")) and find_method(Side.CLIENT, name) is None
    ]
    agent.require(not odd, f"the agent calls {', '.join(odd)}, which is unknown", *(methods[name] for name in odd))


@should("agent.rpc.28", "errors.md#error-object")
async def error_messages_are_one_line(agent: AgentUnderTest) -> None:
    """The message of an error is one line and not empty."""
    for frame in agent.assume(await _provoke_errors(agent), "the agent refused nothing"):
        message = str(frame.error.get("message", " "))
        agent.require(message, f"the error for {agent.method_answered(frame)} has an empty message", frame)
        is_line = len(message.splitlines()) == 1
        agent.require(is_line, f"the message of the error for {agent.method_answered(frame)} is not one line", frame)


@may("agent.rpc.29", "json-rpc.md#robust-reading, peers.md#errors-without-id")
async def objects_that_are_no_message(agent: AgentUnderTest) -> None:
    """An object that is no message may be answered, with -32600 and a null id; the connection goes on."""
    await agent.initialize()
    agent.send({"foo": "bar"})
    found = await agent.stray_replies()
    await agent.require_alive("an object that is no message")
    for frame in agent.skip_unless(found, "the agent ignores an object that is no message"):
        code, id = frame.error.get("code"), frame.message.get("id")
        agent.require(code == -32600 and id is None, f"it is refused with {code} and the id {id!r}", frame)
