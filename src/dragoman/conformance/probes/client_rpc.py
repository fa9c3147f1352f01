"""Probes of JSON-RPC at a client."""

from __future__ import annotations

from dragoman.conformance.harness.client import ClientStage
from dragoman.conformance.harness.peer import Heard, Json
from dragoman.conformance.probe import probe

ODD = "0f8fad5b-d9cb-469f-a165-70867728950e"


async def spoken(stage: ClientStage) -> list[Heard]:
    """A plain turn with a request in it; everything the client said."""
    prompt = await stage.begun()
    await stage.fence()
    stage.end(prompt)
    await stage.over()
    return stage.heard


def code(heard: Heard | None) -> Json:
    """The number of an error, None when it is none."""
    error = heard.message.get("error") if heard is not None else None
    return error.get("code") if isinstance(error, dict) else None


async def refused(stage: ClientStage, method: str) -> None:
    """A request of this method must be refused."""
    prompt = await stage.begun()
    heard = await stage.answered(stage.call(method, {"a": 1}))
    stage.require(heard is not None, f"{method} was never answered")
    stage.require(code(heard) == -32601, f"{method} was not refused with -32601", heard)
    stage.end(prompt)


async def unanswered(stage: ClientStage, method: str, params: Json) -> None:
    """A notification of this method must not be answered."""
    prompt = await stage.begun()
    start = len(stage.heard)
    stage.tell(method, params)
    await stage.fence()
    await stage.silence()
    wrong = [each for each in stage.heard[start:] if each.is_reply and not _fenced(each)]
    stage.require(not wrong, f"the notification {method} was answered", *wrong)
    await stage.survived(prompt, f"the notification {method}")


def _fenced(heard: Heard) -> bool:
    return str(heard.message.get("id", "")).startswith("fence-")


async def borne(stage: ClientStage, line: bytes, what: str) -> None:
    """A line like this must not end the conversation."""
    prompt = await stage.begun()
    stage.send(line)
    await stage.survived(prompt, what)


async def echoed(stage: ClientStage, id: Json, what: str) -> None:
    """A request with this id must come back with it."""
    prompt = await stage.begun()
    stage.call("_vendor/question", {}, id=id)
    heard = await stage.until(lambda heard: heard.is_reply)
    stage.require(heard is not None, f"a request with {what} was not answered")
    assert heard is not None
    given = heard.message.get("id")
    stage.require(type(given) is type(id) and given == id, f"the answer's id is {given!r}, not {id!r}", heard)
    stage.end(prompt)


@probe("client.rpc.01")
async def messages_say_the_version(stage: ClientStage) -> None:
    """In every message of a turn."""
    wrong = [
        each for each in await spoken(stage) if isinstance(each.message, dict) and each.message.get("jsonrpc") != "2.0"
    ]
    stage.require(not wrong, 'a message does not say "jsonrpc": "2.0"', *wrong)


@probe("client.rpc.02")
async def only_messages_are_written(stage: ClientStage) -> None:
    """Every line is a JSON object."""
    wrong = [each for each in await spoken(stage) if not isinstance(each.message, dict)]
    stage.require(not wrong, "the client wrote a line that is no JSON object", *wrong)


@probe("client.rpc.03")
async def ids_are_used_once(stage: ClientStage) -> None:
    """Of all requests of a turn."""
    asked = [each for each in await spoken(stage) if each.is_request]
    ids = [each.message["id"] for each in asked]
    odd = [
        each for each in asked if isinstance(each.message["id"], bool) or not isinstance(each.message["id"], int | str)
    ]
    stage.require(not odd, "an id is neither an integer nor a string", *odd)
    twice = [each for each in asked if ids.count(each.message["id"]) > 1]
    stage.require(not twice, "an id was used twice", *twice)


@probe("client.rpc.04")
async def unknown_methods_are_refused(stage: ClientStage) -> None:
    """As qwen's craft/drainMidTurnQueue would be."""
    await refused(stage, "craft/no_such_method")


@probe("client.rpc.05")
async def unknown_extensions_are_refused(stage: ClientStage) -> None:
    """An answer of null or {} would be taken for consent."""
    await refused(stage, "_vendor/no_such_extension")


@probe("client.rpc.06")
async def unknown_notifications_are_passed_over(stage: ClientStage) -> None:
    """As qwen's prompt suggestions would be."""
    await unanswered(stage, "qwen/notify/session/prompt-suggestion", {"v": 1})


@probe("client.rpc.07")
async def unknown_extension_notifications_are_passed_over(stage: ClientStage) -> None:
    """As codex's auth status is."""
    await unanswered(stage, "_auth/status_update", {"state": "authenticated"})


@probe("client.rpc.08")
async def broken_json_is_borne(stage: ClientStage) -> None:
    """A line that ends in the middle."""
    await borne(stage, b'{"jsonrpc":"2.0","method":"session/upda', "a line of broken JSON")


@probe("client.rpc.09")
async def broken_json_gets_a_parse_error_or_nothing(stage: ClientStage) -> None:
    """Silence is fine, so is -32700."""
    prompt = await stage.begun()
    start = len(stage.heard)
    stage.send(b'{"jsonrpc":"2.0","id":')
    await stage.fence()
    wrong = [
        each
        for each in stage.heard[start:]
        if each.is_reply and not _fenced(each) and (code(each) != -32700 or each.message.get("id") is not None)
    ]
    stage.require(not wrong, "broken JSON was answered with something else than -32700 and id null", *wrong)
    stage.end(prompt)


@probe("client.rpc.10")
async def values_are_borne(stage: ClientStage) -> None:
    """Real agents print numbers and texts by mistake."""
    await borne(stage, b"5", "a line that is a number")


@probe("client.rpc.11")
async def arrays_are_borne(stage: ClientStage) -> None:
    """A batch of two notifications."""
    each = '{"jsonrpc":"2.0","method":"_vendor/note","params":{}}'
    await borne(stage, f"[{each},{each}]".encode(), "an array of messages")


@probe("client.rpc.12")
async def arrays_are_refused_as_a_whole(stage: ClientStage) -> None:
    """Silence is fine, so is one -32600 with id null, so is the batch of JSON-RPC."""
    prompt = await stage.begun()
    start = len(stage.heard)
    stage.send([{"jsonrpc": "2.0", "id": "batched", "method": "_vendor/question", "params": {}}])
    await stage.fence()
    stage.require(stage.gone is None, "the client closed the connection after an array of messages")
    wrong = [
        each
        for each in stage.heard[start:]
        if each.is_reply and not _fenced(each) and code(each) not in (-32600, -32700)
    ]
    stage.require(not wrong, "an array was answered with something else than -32600", *wrong)
    stage.end(prompt)


@probe("client.rpc.13")
async def stray_answers_are_passed_over(stage: ClientStage) -> None:
    """Nobody asked for it."""
    await borne(stage, b'{"jsonrpc":"2.0","id":987654,"result":{}}', "an answer nobody asked for")


async def _still_turning(stage: ClientStage, line: bytes, what: str) -> None:
    """The turn must go on after this: what is said then is shown, and nothing new is asked."""
    prompt = await stage.begun()
    await stage.fence()
    start = len(stage.heard)
    stage.send(line)
    await stage.fence()
    await stage.silence()
    again = [each for each in stage.heard[start:] if each.is_request]
    stage.require(not again, f"the client went on as if the turn had ended after {what}", *again)
    await stage.survived(prompt, what)


@probe("client.rpc.14")
async def errors_without_id_end_nothing(stage: ClientStage) -> None:
    """As the Rust SDK sends them."""
    line = b'{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"}}'
    await _still_turning(stage, line, "an error without id")


@probe("client.rpc.15")
async def errors_with_a_null_id_end_nothing(stage: ClientStage) -> None:
    """As the TypeScript SDK sends them."""
    line = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'
    await _still_turning(stage, line, "an error with id null")


@probe("client.rpc.16")
async def long_string_ids_come_back(stage: ClientStage) -> None:
    """As the Rust SDK makes them."""
    await echoed(stage, ODD, "a UUID as id")


@probe("client.rpc.17")
async def the_ids_of_both_sides_are_kept_apart(stage: ClientStage) -> None:
    """Ask with the very id of the client's own prompt."""
    prompt = await stage.begun()
    id = prompt.message["id"]
    stage.call("_vendor/question", {}, id=id)
    heard = await stage.answered(id)
    stage.require(heard is not None, "a request with the id of the client's own prompt was not answered")
    await stage.survived(prompt, "a request with the id of its own prompt")


@probe("client.rpc.18")
async def the_id_may_come_last(stage: ClientStage) -> None:
    """As Rust, toad and nvim write it."""
    prompt = await stage.begun()
    stage.send(b'{"params":{},"method":"_vendor/question","jsonrpc":"2.0","id":"last"}')
    stage.require(await stage.answered("last"), "a request whose id comes last was not answered")
    stage.end(prompt)


@probe("client.rpc.19")
async def second_answers_are_passed_over(stage: ClientStage) -> None:
    """Answer the opening of the session once more."""
    prompt = await stage.begun()
    new = next((each for each in stage.heard if each.method == "session/new"), None)
    if new is None:
        stage.unsure("the client opened no session")
    assert new is not None
    stage.answer_as(new, {"sessionId": stage.session})
    await stage.survived(prompt, "a second answer to the same request")


@probe("client.rpc.20")
async def digits_stay_a_string(stage: ClientStage) -> None:
    """7 is another id."""
    await echoed(stage, "7", "a string of digits as id")


@probe("client.rpc.21")
async def zero_is_an_id(stage: ClientStage) -> None:
    """Most agents begin with it."""
    await echoed(stage, 0, "0 as id")


@probe("client.rpc.22")
async def unknown_members_are_ignored(stage: ClientStage) -> None:
    """Beside method and params."""
    prompt = await stage.begun()
    stage.send({"jsonrpc": "2.0", "id": "more", "method": "_vendor/more", "params": {}, "trace": {"a": [1]}})
    heard = await stage.answered("more")
    stage.require(code(heard) == -32601, "a request with a member nobody knows was not answered like another", heard)
    await stage.survived(prompt, "a member nobody knows")


@probe("client.rpc.23")
async def errors_have_a_code_and_a_text(stage: ClientStage) -> None:
    """Of an unknown method."""
    prompt = await stage.begun()
    heard = await stage.answered(stage.call("_vendor/question", {}))
    error = heard.message.get("error") if heard is not None else None
    if not isinstance(error, dict):
        stage.unsure("the client answered without an error", heard)
    is_code = isinstance(error["code"] if error and "code" in error else None, int)
    stage.require(is_code, "the code of an error is not an integer", heard)
    stage.require(isinstance(error and error.get("message"), str), "the message of an error is not a text", heard)
    stage.end(prompt)


@probe("client.rpc.24")
async def answers_have_one_content(stage: ClientStage) -> None:
    """All answers of a turn."""
    replies = [each for each in await spoken(stage) if each.is_reply]
    wrong = [each for each in replies if "result" in each.message and "error" in each.message]
    stage.require(not wrong, "an answer has a result and an error", *wrong)


@probe("client.rpc.25")
async def requests_without_params_are_answered(stage: ClientStage) -> None:
    """No hang, whatever the answer."""
    prompt = await stage.begun()
    stage.send({"jsonrpc": "2.0", "id": "bare", "method": "fs/read_text_file"})
    stage.require(await stage.answered("bare"), "a request without params was not answered")
    await stage.survived(prompt, "a request without params")


@probe("client.rpc.26")
async def many_requests_are_all_answered(stage: ClientStage) -> None:
    """In one burst, in whatever order."""
    prompt = await stage.begun()
    ids = {stage.call("_vendor/many", {"n": number}, id=f"many-{number}") for number in range(20)}
    await stage.until(lambda heard: heard.is_reply and not ids - _answered(stage, ids))
    left = ids - _answered(stage, ids)
    stage.require(not left, f"{len(left)} of 20 requests were never answered")
    stage.end(prompt)


def _answered(stage: ClientStage, ids: set[str]) -> set[str]:
    found = {each.message.get("id") for each in stage.heard if each.is_reply}
    return {id for id in ids if id in found}


@probe("client.rpc.27")
async def odd_codes_are_errors(stage: ClientStage) -> None:
    """As codex answers when its backend died: the client must come to an end, by itself or with a new try."""
    prompt = await stage.begun()
    stage.refuse(prompt, 1001, "backend exited")
    await stage.concluded("an error of an odd code")


async def _question(stage: ClientStage) -> str:
    """A question for leave, of which we lose interest at once."""
    options = [{"optionId": "yes", "name": "Allow", "kind": "allow_once"}]
    call = {"toolCallId": "taken-back", "title": "Something long", "kind": "other"}
    params = {"sessionId": stage.session, "toolCall": call, "options": options}
    id: str = stage.call(*stage.say("session/request_permission", params), id="taken-back")
    stage.tell("$/cancel_request", {"requestId": id})
    return id


@probe("client.rpc.28")
async def requests_taken_back_are_answered(stage: ClientStage) -> None:
    """With a result, or with -32800."""
    prompt = await stage.begun()
    id = await _question(stage)
    heard = await stage.answered(id)
    stage.require(heard is not None, "a request that was taken back was never answered")
    await stage.survived(prompt, "a $/cancel_request")


@probe("client.rpc.29")
async def taking_back_is_not_answered(stage: ClientStage) -> None:
    """It is a notification."""
    prompt = await stage.begun()
    start = len(stage.heard)
    id = await _question(stage)
    await stage.fence()
    await stage.silence()
    wrong = [
        each for each in stage.heard[start:] if each.is_reply and not _fenced(each) and each.message.get("id") != id
    ]
    stage.require(not wrong, "$/cancel_request was answered", *wrong)
    stage.end(prompt)


@probe("client.rpc.30")
async def wrong_types_are_refused(stage: ClientStage) -> None:
    """A text where there should be a list."""
    prompt = await stage.begun()
    params = {"sessionId": stage.session, "toolCall": 5, "options": "none"}
    stage.call("session/request_permission", params, id="mistyped")
    heard = await stage.answered("mistyped")
    stage.require(heard is not None, "a request with wrong types was never answered")
    assert heard is not None
    stage.require("error" in heard.message, "a request with wrong types was answered with a result", heard)
    await stage.survived(prompt, "a request with wrong types")
