"""Probes of Streamable HTTP, request by request: how a connection opens and ends, and which status refuses what."""

from __future__ import annotations

import asyncio
import json

from dragoman.conformance.harness.http_client import JSON, SSE
from dragoman.conformance.harness.peer import Json
from dragoman.conformance.harness.remote_agent import HttpStage
from dragoman.conformance.probe import probe

UNKNOWN = {"Acp-Connection-Id": "0123456789abcdef0123456789abcdef"}

# --- opening ------------------------------------------------------------------------------------------------------


@probe("agent.http.01")
async def initialize_is_answered_at_once(stage: HttpStage) -> None:
    """The one answer that takes no stream."""
    answer = await stage.line.post(stage.first())
    stage.answered_with(answer, "initialize", 200)
    stage.require(answer.kind == "application/json", f"the answer to initialize is {answer.kind or 'of no type'}")
    said = answer.json
    is_answer = isinstance(said, dict) and said.get("id") == "first" and isinstance(said.get("result"), dict)
    stage.require(is_answer, "the body is not the JSON-RPC answer to initialize")


@probe("agent.http.02")
async def connections_have_names(stage: HttpStage) -> None:
    """Everything later needs it."""
    answer = await stage.line.post(stage.first())
    stage.answered_with(answer, "initialize", 200)
    found = stage.line.connection = answer.headers.get("acp-connection-id", "")
    stage.require(found, "the answer to initialize has no Acp-Connection-Id")


@probe("agent.http.03")
async def connections_differ(stage: HttpStage) -> None:
    """Two clients in one connection would read each other's messages."""
    one = await stage.connected()
    other = await stage.line.post(stage.first())
    found = other.headers.get("acp-connection-id", "")
    stage.require(found != one, "two connections have the same id")
    await stage.line.ask("DELETE", None, {"Acp-Connection-Id": found})


@probe("agent.http.04")
async def messages_are_taken(stage: HttpStage) -> None:
    """The answer comes elsewhere."""
    await stage.streamed()
    stage.answered_with(await stage.line.post(stage.opening(), stage.line.named()), "session/new", 202)


@probe("agent.http.05")
async def taken_messages_have_no_answer(stage: HttpStage) -> None:
    """A body would be mistaken for one."""
    await stage.streamed()
    answer = await stage.line.post(stage.opening(), stage.line.named())
    if answer.status != 202:
        stage.unsure(f"session/new was answered with {answer.status}")
    stage.require(not answer.body, "a 202 has a body")


# --- refusals -----------------------------------------------------------------------------------------------------


@probe("agent.http.12")
async def other_types_are_refused(stage: HttpStage) -> None:
    """Among them all that a web page can send without being asked."""
    body = json.dumps(stage.first()).encode()
    stage.answered_with(await stage.line.ask("POST", body, {"Content-Type": "text/plain"}), "text/plain", 415)


@probe("agent.http.13")
async def what_is_no_json_is_refused(stage: HttpStage) -> None:
    """With a status, for there is no stream to answer on."""
    stage.answered_with(await stage.line.post(b'{"jsonrpc":"2.0",'), "a body that is no JSON", 400)


@probe("agent.http.14")
async def posts_need_a_connection(stage: HttpStage) -> None:
    """Whose answer would it be?"""
    stage.answered_with(await stage.line.post(stage.opening()), "session/new without a connection", 400)


@probe("agent.http.15")
async def posts_need_a_known_connection(stage: HttpStage) -> None:
    """So that a client knows it has to begin again."""
    stage.answered_with(await stage.line.post(stage.opening(), UNKNOWN), "session/new on an unknown connection", 404)


@probe("agent.http.16")
async def only_streams_are_given(stage: HttpStage) -> None:
    """A browser that shows the address gets no stream."""
    await stage.connected()
    answer = await stage.line.ask("GET", None, {"Accept": "text/html", **stage.line.named()})
    stage.answered_with(answer, "a GET that accepts text/html", 406)


@probe("agent.http.17")
async def streams_need_a_connection(stage: HttpStage) -> None:
    """There is no stream for everybody."""
    stage.answered_with(await stage.line.ask("GET", None, SSE), "a GET without a connection", 400)


@probe("agent.http.18")
async def streams_need_a_known_connection(stage: HttpStage) -> None:
    """As for posts."""
    stage.answered_with(await stage.line.ask("GET", None, {**SSE, **UNKNOWN}), "a GET on an unknown connection", 404)


@probe("agent.http.19")
async def batches_are_refused(stage: HttpStage) -> None:
    """They may come one day."""
    await stage.connected()
    stage.answered_with(await stage.line.post([stage.opening()], stage.line.named()), "a batch", 501)


def _nameless(stage: HttpStage) -> Json:
    message = stage.message("session/prompt", {"sessionId": "x", "prompt": [{"type": "text", "text": "hello"}]})
    params = {name: value for name, value in message["params"].items() if value != "x"}
    return {**message, "params": params}


@probe("agent.http.20")
async def sessions_messages_name_a_session(stage: HttpStage) -> None:
    """Neither in the header nor in the body."""
    await stage.streamed()
    answer = await stage.line.post(_nameless(stage), stage.line.named())
    stage.answered_with(answer, "a prompt that names no session", 400)


@probe("agent.http.21")
async def the_header_may_be_needed(stage: HttpStage) -> None:
    """The documents want it; where the body names the session it can be done without."""
    await stage.opened()
    prompt = {"sessionId": stage.session, "prompt": [{"type": "text", "text": stage.words("plain")}]}
    answer = await stage.line.post(stage.message("session/prompt", prompt), stage.line.named())
    if answer.status == 202:
        stage.skip("the server takes a message whose params name the session")
    stage.answered_with(answer, "a prompt without Acp-Session-Id", 400)


@probe("agent.http.22")
async def unknown_sessions_are_not_there(stage: HttpStage) -> None:
    """Named in both places."""
    await stage.streamed()
    prompt = {"sessionId": "no-such-session", "prompt": [{"type": "text", "text": "hello"}]}
    answer = await stage.line.post(stage.message("session/prompt", prompt), stage.line.named("no-such-session"))
    stage.answered_with(answer, "a prompt in a session that is not there", 404)


@probe("agent.http.23")
async def header_and_body_agree(stage: HttpStage) -> None:
    """Else the answer goes to one and the work to the other."""
    first, second = await stage.opened_two()
    prompt = {"sessionId": first, "prompt": [{"type": "text", "text": stage.words("plain")}]}
    answer = await stage.line.post(stage.message("session/prompt", prompt), stage.line.named(second))
    stage.answered_with(answer, "a prompt whose header names another session", 400)


@probe("agent.http.42")
async def connections_begin_once(stage: HttpStage) -> None:
    """One server refuses it, the other makes a new connection."""
    await stage.connected()
    answer = await stage.line.post(stage.first(), stage.line.named())
    if answer.status == 200:
        stage.skip("a second initialize makes a new connection")
    stage.answered_with(answer, "a second initialize", 400)


@probe("agent.http.43")
async def refusals_say_why(stage: HttpStage) -> None:
    """Somebody has to find out what is wrong."""
    answer = await stage.line.post(stage.opening(), UNKNOWN)
    if answer.status < 400:
        stage.unsure("nothing was refused")
    stage.require(answer.body.strip(), f"a {answer.status} has no body")


@probe("agent.http.44")
async def other_methods_are_refused(stage: HttpStage) -> None:
    """Not taken for one of the three."""
    stage.answered_with(await stage.line.ask("PUT", b"{}", JSON), "PUT", 405)


# --- ending -------------------------------------------------------------------------------------------------------


@probe("agent.http.24")
async def connections_can_be_ended(stage: HttpStage) -> None:
    """By whoever has them."""
    await stage.connected()
    stage.answered_with(await stage.line.ask("DELETE", None, stage.line.named()), "DELETE", 202)


@probe("agent.http.25")
async def ended_connections_are_gone(stage: HttpStage) -> None:
    """For posts, and for streams."""
    await stage.connected()
    await stage.line.ask("DELETE", None, stage.line.named())
    stage.answered_with(await stage.line.post(stage.opening(), stage.line.named()), "a POST after DELETE", 404)


@probe("agent.http.26")
async def ended_connections_have_no_streams(stage: HttpStage) -> None:
    """A reader would wait for ever."""
    strand = await stage.streamed()
    await stage.line.ask("DELETE", None, stage.line.named())
    await asyncio.wait([asyncio.ensure_future(strand.ended.wait())], timeout=stage.pace.answer)
    stage.require(strand.ended.is_set(), "the stream of the connection goes on after DELETE")


@probe("agent.http.27")
async def only_connections_can_be_ended(stage: HttpStage) -> None:
    """With the statuses of the others."""
    stage.answered_with(await stage.line.ask("DELETE"), "DELETE without a connection", 400)
    stage.answered_with(await stage.line.ask("DELETE", None, UNKNOWN), "DELETE of an unknown connection", 404)
