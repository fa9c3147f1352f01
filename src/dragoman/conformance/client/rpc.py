"""JSON-RPC at a client."""

from __future__ import annotations

from dragoman.conformance.harness.client import ClientUnderTest
from dragoman.conformance.harness.peer import Json
from dragoman.conformance.requirement import must, should

ODD = "0f8fad5b-d9cb-469f-a165-70867728950e"


async def _require_refused(client: ClientUnderTest, method: str) -> None:
    """Require that a request of this method is refused."""
    async with client.turn():
        frame = await client.require_answer(method, {"a": 1})
        client.require(frame.error.get("code") == -32601, f"{method} was not refused with -32601", frame)


async def _require_unanswered(client: ClientUnderTest, method: str, params: Json) -> None:
    """Require that a notification of this method is not answered."""
    async with client.turn(survives=f"the notification {method}"):
        start = len(client.received)
        client.notify(method, params)
        await client.sync()
        await client.collect()
        client.require_none(client.own_replies(start), f"the notification {method} was answered")


async def _require_tolerated(client: ClientUnderTest, line: bytes, what: str) -> None:
    """Require that the client still works after this line."""
    async with client.turn(survives=what):
        client.send(line)


async def _require_same_id(client: ClientUnderTest, id: Json, what: str) -> None:
    """Require that a request with this id is answered with the same id."""
    async with client.turn():
        client.call("_vendor/question", {}, id=id)
        frame = await client.wait_for(lambda frame: frame.is_reply)
        frame = client.require(frame, f"a request with {what} was not answered")
        given = frame.message.get("id")
        client.require(type(given) is type(id) and given == id, f"the answer's id is {given!r}, not {id!r}", frame)


@must("client.rpc.01", "json-rpc.md#envelope")
async def messages_state_the_version(client: ClientUnderTest) -> None:
    """Every message of the client says "jsonrpc": "2.0"."""
    messages = [each for each in await client.record_turn() if isinstance(each.message, dict)]
    wrong = [each for each in messages if each.message.get("jsonrpc") != "2.0"]
    client.require_none(wrong, 'a message does not say "jsonrpc": "2.0"')


@must("client.rpc.02", "json-rpc.md#stdio")
async def only_messages_are_written(client: ClientUnderTest) -> None:
    """The client writes nothing to its agent except one JSON object per line."""
    wrong = [each for each in await client.record_turn() if not isinstance(each.message, dict)]
    client.require_none(wrong, "the client wrote a line that is not a JSON object")


@must("client.rpc.03", "json-rpc.md#ids")
async def ids_are_used_once(client: ClientUnderTest) -> None:
    """The ids of the client's own requests are integers or strings, each used once."""
    asked = [each for each in await client.record_turn() if each.is_request]
    ids = [each.message["id"] for each in asked]
    odd = [each for each in asked if type(each.message["id"]) not in (int, str)]
    client.require_none(odd, "an id is neither an integer nor a string")
    twice = [each for each in asked if ids.count(each.message["id"]) > 1]
    client.require_none(twice, "an id was used twice")


@must("client.rpc.04", "peers.md#vendor-methods")
async def unknown_methods_are_refused(client: ClientUnderTest) -> None:
    """A request of an unknown method is refused with -32601, not left open."""
    await _require_refused(client, "craft/no_such_method")


@must("client.rpc.05", "peers.md#extension-answers")
async def unknown_extensions_are_refused(client: ClientUnderTest) -> None:
    """A request of an unknown extension is refused with -32601, not granted."""
    await _require_refused(client, "_vendor/no_such_extension")


@must("client.rpc.06", "peers.md#errors-without-id")
async def unknown_notifications_are_ignored(client: ClientUnderTest) -> None:
    """An unknown notification is not answered, not even with an error without id."""
    await _require_unanswered(client, "qwen/notify/session/prompt-suggestion", {"v": 1})


@must("client.rpc.07", "extensions.md#own-methods")
async def unknown_extension_notifications_are_ignored(client: ClientUnderTest) -> None:
    """An unknown extension notification is not answered."""
    await _require_unanswered(client, "_auth/status_update", {"state": "authenticated"})


@must("client.rpc.08", "peers.md#malformed-lines")
async def broken_json_is_tolerated(client: ClientUnderTest) -> None:
    """A line of broken JSON does not end the conversation."""
    await _require_tolerated(client, b'{"jsonrpc":"2.0","method":"session/upda', "a line of broken JSON")


@must("client.rpc.09", "peers.md#malformed-lines")
async def broken_json_gets_a_parse_error_or_nothing(client: ClientUnderTest) -> None:
    """A line of broken JSON is ignored or answered with -32700 and id null."""
    async with client.turn():
        start = len(client.received)
        client.send(b'{"jsonrpc":"2.0","id":')
        await client.sync()
        replies = [(each, each.error.get("code"), each.message.get("id")) for each in client.own_replies(start)]
        wrong = [each for each, code, id in replies if (code, id) != (-32700, None)]
        client.require_none(wrong, "broken JSON was answered with something else than -32700 and id null")


@must("client.rpc.10", "peers.md#sdk-non-object")
async def values_are_tolerated(client: ClientUnderTest) -> None:
    """A JSON value that is not an object does not end the conversation."""
    await _require_tolerated(client, b"5", "a line that is a number")


@must("client.rpc.11", "peers.md#batches")
async def arrays_are_tolerated(client: ClientUnderTest) -> None:
    """An array of messages does not end the conversation."""
    each = '{"jsonrpc":"2.0","method":"_vendor/note","params":{}}'
    await _require_tolerated(client, f"[{each},{each}]".encode(), "an array of messages")


@should("client.rpc.12", "json-rpc.md#batches")
async def arrays_are_refused_as_a_whole(client: ClientUnderTest) -> None:
    """An array of messages is ignored or refused as a whole with -32600."""
    # Silence, one -32600 with id null and a JSON-RPC batch are all fine.
    async with client.turn():
        start = len(client.received)
        client.send([{"jsonrpc": "2.0", "id": "batched", "method": "_vendor/question", "params": {}}])
        await client.sync()
        client.require(client.closed is None, "the client closed the connection after an array of messages")
        wrong = [each for each in client.own_replies(start) if each.error.get("code") not in (-32600, -32700)]
        client.require_none(wrong, "an array was answered with something else than -32600")


@must("client.rpc.13", "json-rpc.md#envelope")
async def stray_answers_are_ignored(client: ClientUnderTest) -> None:
    """An answer to a request that was never sent is ignored."""
    await _require_tolerated(client, b'{"jsonrpc":"2.0","id":987654,"result":{}}', "an unrequested answer")


async def _require_turn_continues(client: ClientUnderTest, line: bytes, what: str) -> None:
    """Require that the turn continues: later text is shown, and no new request comes."""
    async with client.turn(survives=what):
        await client.sync()
        start = len(client.received)
        client.send(line)
        await client.sync()
        await client.collect()
        again = [each for each in client.received[start:] if each.is_request]
        client.require_none(again, f"the client went on as if the turn had ended after {what}")


@must("client.rpc.14", "peers.md#errors-without-id")
async def errors_without_id_end_nothing(client: ClientUnderTest) -> None:
    """An error without id does not end the running turn."""
    line = b'{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"}}'
    await _require_turn_continues(client, line, "an error without id")


@must("client.rpc.15", "peers.md#errors-without-id")
async def errors_with_a_null_id_end_nothing(client: ClientUnderTest) -> None:
    """An error with id null does not end the running turn."""
    line = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'
    await _require_turn_continues(client, line, "an error with id null")


@must("client.rpc.16", "peers.md#id-shapes")
async def long_string_ids_come_back(client: ClientUnderTest) -> None:
    """A request with a long string as id is answered with that string."""
    await _require_same_id(client, ODD, "a UUID as id")


@must("client.rpc.17", "peers.md#id-shapes")
async def the_ids_of_both_sides_are_kept_apart(client: ClientUnderTest) -> None:
    """The client does not confuse an agent's request id with one of its own."""
    async with client.turn(survives="a request with the id of its own prompt") as prompt:
        id = prompt.message["id"]
        client.call("_vendor/question", {}, id=id)
        frame = await client.wait_reply(id)
        client.require(frame, "a request with the id of the client's own prompt was not answered")


@must("client.rpc.18", "peers.md#id-shapes")
async def the_id_may_come_last(client: ClientUnderTest) -> None:
    """The order of members does not matter: an id may come last."""
    async with client.turn():
        client.send(b'{"params":{},"method":"_vendor/question","jsonrpc":"2.0","id":"last"}')
        client.require(await client.wait_reply("last"), "a request whose id comes last was not answered")


@must("client.rpc.19", "json-rpc.md#envelope")
async def second_answers_are_ignored(client: ClientUnderTest) -> None:
    """A second answer to the same request is ignored."""
    async with client.turn(survives="a second answer to the same request"):
        [new, *_] = client.assume(client.calls("session/new"), "the client opened no session")
        client.reply_in_dialect(new, {"sessionId": client.session})


@must("client.rpc.20", "json-rpc.md#ids")
async def digits_stay_a_string(client: ClientUnderTest) -> None:
    """A string of digits as id is returned as a string."""
    await _require_same_id(client, "7", "a string of digits as id")


@must("client.rpc.21", "peers.md#id-shapes")
async def zero_is_an_id(client: ClientUnderTest) -> None:
    """The id 0 is valid and is returned like any other."""
    await _require_same_id(client, 0, "0 as id")


@must("client.rpc.22", "extensions.md#unknown-members")
async def unknown_members_are_ignored(client: ClientUnderTest) -> None:
    """Unknown members beside method and params are ignored."""
    async with client.turn(survives="an unknown member"):
        client.send({"jsonrpc": "2.0", "id": "more", "method": "_vendor/more", "params": {}, "trace": {"a": [1]}})
        frame = await client.wait_reply("more")
        is_refused = frame is not None and frame.error.get("code") == -32601
        client.require(is_refused, "a request with an unknown member was not answered like another", frame)


@must("client.rpc.23", "errors.md#error-object")
async def errors_have_a_code_and_a_text(client: ClientUnderTest) -> None:
    """The client's errors have an integer code and a message."""
    async with client.turn():
        frame = await client.request("_vendor/question", {})
        error = frame.message.get("error") if frame is not None else None
        client.assume(isinstance(error, dict), "the client answered without an error", frame)
        client.require_shape(error, {"code": int, "message": str}, frame, "error")


@must("client.rpc.24", "json-rpc.md#envelope")
async def answers_have_one_content(client: ClientUnderTest) -> None:
    """An answer has a result or an error, never both."""
    replies = [each for each in await client.record_turn() if each.is_reply]
    wrong = [each for each in replies if "result" in each.message and "error" in each.message]
    client.require_none(wrong, "an answer has a result and an error")


@must("client.rpc.25", "peers.md#missing-params")
async def requests_without_params_are_answered(client: ClientUnderTest) -> None:
    """A request without params is answered, with a result or an error."""
    async with client.turn(survives="a request without params"):
        client.send({"jsonrpc": "2.0", "id": "bare", "method": "fs/read_text_file"})
        client.require(await client.wait_reply("bare"), "a request without params was not answered")


@must("client.rpc.26", "json-rpc.md#concurrency")
async def many_requests_are_all_answered(client: ClientUnderTest) -> None:
    """Twenty requests at once are all answered."""
    async with client.turn():
        left = await client.wait_replies(client.call("_vendor/many", {"n": number}) for number in range(20))
        client.require(not left, f"{len(left)} of 20 requests were never answered")


@must("client.rpc.27", "peers.md#other-codes")
async def odd_codes_are_errors(client: ClientUnderTest) -> None:
    """An error with an unknown code ends the request that it answers."""
    # codex answers so after its backend died. The client must stop or retry.
    prompt = await client.begin_turn()
    client.refuse(prompt, 1001, "backend exited")
    await client.require_end("an error of an odd code")


def _cancelled_question(client: ClientUnderTest) -> str:
    """Send a permission request and cancel it at once."""
    options = [{"optionId": "yes", "name": "Allow", "kind": "allow_once"}]
    call = {"toolCallId": "taken-back", "title": "Something long", "kind": "other"}
    params = {"sessionId": client.session, "toolCall": call, "options": options}
    id: str = client.call(*client.in_dialect("session/request_permission", params), id="taken-back")
    client.notify("$/cancel_request", {"requestId": id})
    return id


@should("client.rpc.28", "peers.md#late-permission-answers", "v1 banjo")
async def cancelled_requests_are_answered(client: ClientUnderTest) -> None:
    """A request cancelled with $/cancel_request is still answered."""
    async with client.turn(survives="a $/cancel_request"):
        id = _cancelled_question(client)
        client.require(await client.wait_reply(id), "a request that was cancelled was never answered")


@must("client.rpc.29", "peers.md#late-permission-answers", "v1 banjo")
async def cancel_requests_are_not_answered(client: ClientUnderTest) -> None:
    """A $/cancel_request of the agent is not itself answered."""
    async with client.turn():
        start = len(client.received)
        id = _cancelled_question(client)
        await client.sync()
        await client.collect()
        wrong = [each for each in client.own_replies(start) if each.message.get("id") != id]
        client.require_none(wrong, "$/cancel_request was answered")


@must("client.rpc.30", "peers.md#missing-params", "v1 banjo")
async def wrong_types_are_refused(client: ClientUnderTest) -> None:
    """A request with wrong types in its params is answered with an error."""
    async with client.turn(survives="a request with wrong types"):
        params = {"sessionId": client.session, "toolCall": 5, "options": "none"}
        client.call("session/request_permission", params, id="mistyped")
        frame = client.require(await client.wait_reply("mistyped"), "a request with wrong types was never answered")
        client.require("error" in frame.message, "a request with wrong types was answered with a result", frame)
