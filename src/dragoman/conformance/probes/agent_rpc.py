"""Probes of JSON-RPC at an agent."""

from __future__ import annotations

from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import AgentStage
from dragoman.conformance.harness.peer import Heard, Json
from dragoman.conformance.json_shape import fault
from dragoman.conformance.probe import probe
from dragoman.schema.methods import find_method
from dragoman.schema.side import Side

LARGEST = 2**53 - 1  # the largest whole number that every JSON reader keeps

# What an agent has good reason to refuse, each in another way: by its params, its session, its name.
REFUSED: dict[str, Json] = {
    "session/prompt": {},
    "session/load": {"sessionId": "no-such-session"},
    "no/such_method": {},
    "_example.org/no_such_method": {},
}


def _new(stage: AgentStage, session: str = "one") -> Json:
    return hello.new_session(stage.dialect, stage.cwd, session)


async def _comes_back(stage: AgentStage, id: Json) -> None:
    await stage.initialized()
    stage.call("session/new", _new(stage), id=id)
    heard = await stage.until(lambda heard: heard.is_reply)
    stage.require(heard is not None, f"a request with the id {id!r} was not answered")
    assert heard is not None
    found = heard.message.get("id")
    same = found == id and type(found) is type(id)
    stage.require(same, f"the answer's id is {found!r}, not {id!r}", heard)


@probe("agent.rpc.01")
async def a_string_id_comes_back(stage: AgentStage) -> None:
    """Any string may be an id, one of digits too."""
    await _comes_back(stage, "17")


@probe("agent.rpc.02")
async def notifications_get_no_answer(stage: AgentStage) -> None:
    """Methods nobody knows, with and without the mark of an extension."""
    await stage.initialized()
    stage.tell("no/such_notification", {})
    stage.tell("_vendor/notification", {})
    heard = stage.unasked(await stage.silence())
    stage.require(not heard, "a notification was answered", *heard)


@probe("agent.rpc.03")
async def unknown_methods_are_refused(stage: AgentStage) -> None:
    """A method nobody knows."""
    await stage.initialized()
    stage.refused(await stage.asked("no/such_method", {}), "an unknown method", -32601)


async def _small_talk(stage: AgentStage) -> list[Heard]:
    """A little of everything: an answer, an error, a session."""
    await stage.initialized()
    await stage.asked("session/new", _new(stage))
    await stage.asked("no/such_method", {})
    return [each for each in stage.heard if isinstance(each.message, dict)]


@probe("agent.rpc.04")
async def messages_say_the_version(stage: AgentStage) -> None:
    """In answers, errors and calls alike."""
    for heard in await _small_talk(stage):
        stage.require(heard.message.get("jsonrpc") == "2.0", 'a message lacks jsonrpc: "2.0"', heard)


@probe("agent.rpc.05")
async def answers_have_one_outcome(stage: AgentStage) -> None:
    """Result or error."""
    for heard in await _small_talk(stage):
        if "method" not in heard.message:
            both = ("result" in heard.message) + ("error" in heard.message)
            stage.require(both == 1, "an answer has " + ("both result and error" if both else "no outcome"), heard)


@probe("agent.rpc.06")
async def errors_have_code_and_message(stage: AgentStage) -> None:
    """Every error of a talk in which there is much to refuse: agents do not make all of them in one place."""
    params = hello.initialize(stage.dialect, stage.cwd, hello.ALL[stage.dialect])
    await stage.asked("initialize", params, stage.pace.start)
    for method, params in REFUSED.items():
        await stage.asked(method, params)
    await stage.asked("session/new", _new(stage))
    found = [each for each in stage.heard if each.is_reply and "error" in each.message]
    for heard in found:
        words = fault(heard.message["error"], {"code": int, "message": str})
        stage.require(not words, f"the error for {stage.asked_by(heard) or 'nothing we asked'}: {words}", heard)
    if not found:
        stage.unsure("the agent refused nothing")


@probe("agent.rpc.07")
async def requests_are_answered_once(stage: AgentStage) -> None:
    """A second answer would come soon after the first."""
    await stage.initialized()
    id = stage.call("session/new", _new(stage))
    await stage.answered(id)
    await stage.silence()
    found = [each for each in stage.heard if each.is_reply and each.message.get("id") == id]
    if not found:
        stage.unsure("session/new was not answered")
    stage.require(len(found) == 1, f"a request was answered {len(found)} times", *found)


@probe("agent.rpc.08")
async def zero_is_an_id(stage: AgentStage) -> None:
    """Zero is no "no id"."""
    await _comes_back(stage, 0)


@probe("agent.rpc.09")
async def ids_of_both_sides_are_apart(stage: AgentStage) -> None:
    """While the agent's question is open, we ask something under the same id."""
    await stage.opened()
    stage.hold("session/request_permission")
    turn = stage.begin(stage.words("ask"))
    asked = await stage.until(lambda heard: heard.method == "session/request_permission", stage.pace.turn)
    if asked is None:
        stage.unsure("the agent asked for no permission")
    assert asked is not None
    id = asked.message["id"]
    stage.call("no/such_method", {}, id=id)
    heard = await stage.answered(id)
    stage.require(heard is not None, "a request with the id of an open request of the agent's was not answered", asked)
    stage.cancel()
    stage.answer_question(asked, {"outcome": {"outcome": "cancelled"}})
    await stage.ended(turn)


BATCH = b'[{"jsonrpc":"2.0","id":901,"method":"no/such_method"},{"jsonrpc":"2.0","method":"no/such_notification"}]'


async def _survives(stage: AgentStage, line: bytes, what: str) -> list[Heard]:
    await stage.initialized()
    stage.send(line)
    heard = await stage.silence()
    await stage.alive(what)
    return heard


@probe("agent.rpc.10")
async def batches_are_survived(stage: AgentStage) -> None:
    """Whatever is done with it."""
    await _survives(stage, BATCH, "a batch")


@probe("agent.rpc.11")
async def batches_are_refused_as_a_whole(stage: AgentStage) -> None:
    """One error, which can name no id."""
    await stage.initialized()
    stage.send(BATCH)
    heard = await stage.until(lambda heard: heard.is_reply)
    if stage.gone is not None:
        stage.unsure("the agent is gone")
    stage.require(heard is not None, "a batch was not answered")
    assert heard is not None
    error = heard.message.get("error")
    told = error.get("code") if isinstance(error, dict) else None
    stage.require((told, heard.message.get("id", 0)) == (-32600, None), "a batch was not refused as a whole", heard)


@probe("agent.rpc.12")
async def noise_is_survived(stage: AgentStage) -> None:
    """A line that is no JSON, and one that begins like it."""
    await _survives(stage, b'{"jsonrpc": "2.0", "id": 902, "method": ', "a line that is no JSON")


@probe("agent.rpc.13")
async def noise_is_answered(stage: AgentStage) -> None:
    """With the error that has no id."""
    await stage.initialized()
    stage.send(b'{"jsonrpc": "2.0", "id": 902, "method": ')
    heard = await stage.until(lambda heard: heard.is_reply)
    if stage.gone is not None:
        stage.unsure("the agent is gone")
    stage.require(heard is not None, "a line that is no JSON was not answered")
    assert heard is not None
    error = heard.message.get("error")
    told = error.get("code") if isinstance(error, dict) else None
    stage.require(
        (told, heard.message.get("id", 0)) == (-32700, None), "it was not answered with -32700, id null", heard
    )


@probe("agent.rpc.14")
async def other_json_is_survived(stage: AgentStage) -> None:
    """Numbers, texts, null (peers.md P6)."""
    await stage.initialized()
    for line in (b"5", b'"text"', b"null", b"true"):
        stage.send(line)
    await stage.silence()
    await stage.alive("JSON that is no object")


@probe("agent.rpc.15")
async def unknown_members_are_ignored(stage: AgentStage) -> None:
    """Beside the params and in them."""
    await stage.initialized()
    params = {**_new(stage), "memberOfTheFuture": {"a": [1]}}
    stage.send({"jsonrpc": "2.0", "id": 903, "method": "session/new", "params": params, "memberOfTheFuture": 1})
    stage.granted(await stage.answered(903), "session/new with members nobody knows")


@probe("agent.rpc.16")
async def unknown_extensions_are_refused(stage: AgentStage) -> None:
    """Not answered with null or an empty object."""
    await stage.initialized()
    stage.refused(await stage.asked("_example.org/no_such_method", {}), "an unknown extension method", -32601)


@probe("agent.rpc.17")
async def meta_is_accepted(stage: AgentStage) -> None:
    """Trace context of W3C, and a vendor's own."""
    await stage.initialized()
    meta = {"traceparent": "00-80e1afed08e019fc1110464cfa66635c-7a085853722dc6d2-01", "example.org/key": {"a": 1}}
    stage.granted(await stage.asked("session/new", {**_new(stage), "_meta": meta}), "session/new with _meta")


@probe("agent.rpc.18")
async def answers_to_nothing_are_ignored(stage: AgentStage) -> None:
    """No error comes back, and the conversation goes on."""
    await stage.initialized()
    stage.send({"jsonrpc": "2.0", "id": 904, "result": {}})
    found = stage.unasked(await stage.silence())
    stage.require(not found, "an answer to nothing was answered", *found)
    await stage.alive("an answer to a request nobody made")


@probe("agent.rpc.19")
async def errors_without_id_are_survived(stage: AgentStage) -> None:
    """As peers send them that could not read something."""
    line = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'
    await _survives(stage, line, "an error with id null")


@probe("agent.rpc.20")
async def missing_params_are_refused(stage: AgentStage) -> None:
    """A prompt for no session with nothing in it."""
    await stage.initialized()
    stage.send({"jsonrpc": "2.0", "id": 905, "method": "session/prompt"})
    stage.refused(await stage.answered(905), "a prompt without params", -32602)


@probe("agent.rpc.21")
async def a_list_of_params_is_refused(stage: AgentStage) -> None:
    """JSON-RPC knows params by position, this protocol does not."""
    await stage.initialized()
    stage.refused(await stage.asked("session/prompt", ["session", "prompt"]), "a prompt whose params are a list")


@probe("agent.rpc.22")
async def many_requests_are_answered(stage: AgentStage) -> None:
    """Twenty at once."""
    await stage.initialized()
    ids = {stage.call("no/such_method", {"number": number}) for number in range(20)}

    def rest(heard: Heard) -> bool:
        if heard.is_reply:
            ids.discard(heard.message.get("id"))
        return not ids

    await stage.until(rest)
    stage.require(not ids, f"{len(ids)} of 20 requests sent at once were not answered")


@probe("agent.rpc.23")
async def members_stand_in_any_order(stage: AgentStage) -> None:
    """The id last, as some encoders write it."""
    await stage.initialized()
    stage.send({"params": {}, "method": "no/such_method", "id": 906, "jsonrpc": "2.0"})
    stage.require(await stage.answered(906), "a request whose id and method stand last was not answered")


@probe("agent.rpc.24")
async def ids_may_come_again(stage: AgentStage) -> None:
    """Twice the same id, one after the other."""
    await stage.initialized()
    for which in ("first", "second"):
        stage.call("no/such_method", {}, id=907)
        stage.require(await stage.answered(907), f"the {which} of two requests with the same id was not answered")


@probe("agent.rpc.25")
async def unknown_methods_are_named(stage: AgentStage) -> None:
    """In the message or the data: whoever reads a log wants to know which it was."""
    await stage.initialized()
    heard = await stage.asked("no/such_method_either", {})
    if heard is None or not isinstance(heard.message.get("error"), dict):
        stage.unsure("an unknown method was not refused", heard)
    assert heard is not None
    error = heard.message["error"]
    told = "no/such_method_either" in f"{error.get('message')} {error.get('data')}"
    stage.require(told, "the error does not say which method is unknown", heard)


@probe("agent.rpc.26")
async def large_ids_come_back(stage: AgentStage) -> None:
    """Not as a float."""
    await _comes_back(stage, LARGEST)


@probe("agent.rpc.27")
async def extensions_have_an_underscore(stage: AgentStage) -> None:
    """In a plain turn, and in one that reads a file."""
    await stage.did("plain")
    await stage.did("read")
    called = [heard for heard in stage.heard if isinstance(heard.message, dict) and "method" in heard.message]
    odd = [heard for heard in called if not _is_known(str(heard.message["method"]))]
    names = ", ".join(sorted({str(heard.message["method"]) for heard in odd}))
    stage.require(not odd, f"the agent calls {names}, which nobody knows", *odd)


def _is_known(method: str) -> bool:
    return method.startswith(("_", "$/")) or find_method(Side.CLIENT, method) is not None
