"""Probes of clients over Streamable HTTP: headers, streams, and events in every shape the standard allows."""

from __future__ import annotations

import re
from collections.abc import Callable

from dragoman.conformance.harness.http_recorder import Seen
from dragoman.conformance.harness.remote_client import RemoteClientStage
from dragoman.conformance.probe import probe

COOKIE = "check-affinity=server-7"
MANY = 1000


async def _turn(stage: RemoteClientStage) -> list[Seen]:
    """A whole turn, and the requests of it."""
    prompt = await stage.begun()
    stage.end(prompt)
    await stage.over()
    return stage.wire.requests


def _wrong(stage: RemoteClientStage, found: list[Seen], why: str) -> None:
    stage.require(not found, why + (f" ({found[0].method} {found[0].calls})".replace(" )", ")") if found else ""))


@probe("client.http.01")
async def initialize_comes_first(stage: RemoteClientStage) -> None:
    """With it the connection begins."""
    await stage.introduced()
    first = stage.wire.requests[0]
    stage.require(first.method == "POST" and first.calls == "initialize", f"the first request is {first.method}")
    stage.require("acp-connection-id" not in first.headers, "initialize names a connection")


@probe("client.http.02")
async def connections_are_named(stage: RemoteClientStage) -> None:
    """From the second request to the last; the stream of a session has a requirement of its own, the sixth."""
    seen = [each for each in (await _turn(stage))[1:] if each.method != "GET" or "acp-session-id" not in each.headers]
    _wrong(stage, [each for each in seen if "acp-connection-id" not in each.headers], "a request names no connection")


@probe("client.http.03")
async def posts_are_json(stage: RemoteClientStage) -> None:
    """Or a server refuses them with 415."""
    posts = [each for each in await _turn(stage) if each.method == "POST"]
    wrong = [each for each in posts if not each.headers.get("content-type", "").startswith("application/json")]
    _wrong(stage, wrong, "a POST is not application/json")


@probe("client.http.04")
async def gets_accept_streams(stage: RemoteClientStage) -> None:
    """Or a server refuses them with 406."""
    gets = [each for each in await _turn(stage) if each.method == "GET"]
    wrong = [each for each in gets if "text/event-stream" not in each.headers.get("accept", "")]
    _wrong(stage, wrong, "a GET does not accept text/event-stream")


@probe("client.http.05")
async def the_stream_is_there_first(stage: RemoteClientStage) -> None:
    """The answer to session/new comes on it."""
    await stage.prompted()
    seen = stage.wire.requests
    new = next((place for place, each in enumerate(seen) if each.calls in ("session/new", "session/load")), None)
    if new is None:
        stage.unsure("the client opened no session")
    assert new is not None
    before = [each for each in seen[:new] if each.method == "GET" and "acp-session-id" not in each.headers]
    stage.require(before, "session/new was posted before the stream of the connection was asked for")


@probe("client.http.06")
async def session_streams_have_both_names(stage: RemoteClientStage) -> None:
    """The connection, and the session that was opened."""
    gets = [each for each in await _turn(stage) if each.method == "GET" and "acp-session-id" in each.headers]
    stage.require(gets, "the stream of the session was never asked for")
    _wrong(stage, [each for each in gets if "acp-connection-id" not in each.headers], "a GET names no connection")
    names = {each.headers["acp-session-id"] for each in gets}
    stage.require(stage.session in names, f"the stream of {', '.join(names)} was asked for, not of {stage.session}")


@probe("client.http.07")
async def prompts_name_their_session(stage: RemoteClientStage) -> None:
    """In the header too."""
    await stage.prompted()
    prompts = [each for each in stage.wire.requests if each.calls.endswith("session/prompt")]
    wrong = [each for each in prompts if each.headers.get("acp-session-id") != stage.session]
    _wrong(stage, wrong, "a prompt does not name its session in Acp-Session-Id")


@probe("client.http.08")
async def answers_name_their_session(stage: RemoteClientStage) -> None:
    """The official Python client does not, and the TypeScript server refuses it."""
    prompt = await stage.begun()
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
    call = {"toolCallId": "check-1", "title": "May I?", "kind": "edit", "status": "pending"}
    question = {"sessionId": stage.session, "toolCall": call, "options": options}
    await stage.ask("session/request_permission", question)
    answers = [each for each in stage.wire.requests if each.method == "POST" and not each.calls]
    stage.end(prompt)
    if not answers:
        stage.unsure("the client did not answer a question for leave")
    wrong = [each for each in answers if each.headers.get("acp-session-id") != stage.session]
    _wrong(stage, wrong, "an answer does not name its session in Acp-Session-Id")


@probe("client.http.09")
async def cookies_come_back(stage: RemoteClientStage) -> None:
    """They keep the client with one server of many."""
    stage.wire.cookie = f"{COOKIE}; Path=/; HttpOnly"
    seen = (await _turn(stage))[1:]
    _wrong(stage, [each for each in seen if COOKIE not in each.headers.get("cookie", "")], "a cookie was not returned")


@probe("client.http.10")
async def connections_are_ended(stage: RemoteClientStage) -> None:
    """Or the server keeps them until it loses patience."""
    seen = await _turn(stage)
    if not stage.leaves:
        stage.unsure("the client stays, so it cannot be told how it leaves")
    stage.require(any(each.method == "DELETE" for each in seen), "the client left without DELETE")


# --- events -------------------------------------------------------------------------------------------------------


async def shown(stage: RemoteClientStage, what: str, count: int = 5) -> None:
    """A turn whose text has to arrive, whatever was done to the wire."""
    prompt = await stage.begun()
    await stage.fence()
    await told(stage, prompt, what, count)


async def told(stage: RemoteClientStage, prompt: object, what: str, count: int) -> None:
    """So many numbers, and the end of the turn: shown in order and complete."""
    for number in range(count):
        stage.chunk(f"number {number:04d}\n")
        if number % 100 == 99:
            await stage.flush()
    stage.end(prompt)  # type: ignore[arg-type]
    ending = await stage.over()
    stage.require(not ending.crashed, f"the client broke down: {what}: {ending.words()}")
    stage.require(stage.gone is not None or not stage.leaves, f"the client does not see the end of its turn: {what}")
    found = [int(digits) for digits in re.findall(r"number (\d+)", ending.shown)]
    if not found and "check-begin" not in ending.shown:
        stage.require(ending.status in (0, None), f"the client failed: {what}: {ending.words()}")
        stage.unsure("the client shows no text on its standard output")
    missing = sorted(set(range(count)) - set(found))
    stage.require(not missing, f"{len(missing)} of {count} updates are not shown: {what}")
    stage.require(found == sorted(found), f"updates are shown out of order: {what}")


async def _shaped(stage: RemoteClientStage, shape: Callable[[bytes], list[bytes]], what: str) -> None:
    prompt = await stage.begun()
    await stage.fence()
    stage.wire.shape = shape
    await told(stage, prompt, what, 5)


def _events(chunk: bytes) -> list[bytes]:
    return [part + b"\n\n" for part in chunk.split(b"\n\n") if part]


@probe("client.http.11")
async def events_are_cut(stage: RemoteClientStage) -> None:
    """Every 23 bytes, which is in the middle of everything at some time."""
    await _shaped(
        stage, lambda chunk: [chunk[at : at + 23] for at in range(0, len(chunk), 23)], "events cut every 23 bytes"
    )


@probe("client.http.12")
async def data_has_many_lines(stage: RemoteClientStage) -> None:
    """A break after each comma of the message, where JSON allows one."""

    def broken(chunk: bytes) -> list[bytes]:
        return [re.sub(rb',\s*"', b',\ndata: "', event) for event in _events(chunk)]

    await _shaped(stage, broken, "data on several lines")


@probe("client.http.13")
async def comments_are_no_messages(stage: RemoteClientStage) -> None:
    """As a sign of life, and in the middle of an event."""
    await _shaped(
        stage,
        lambda chunk: [b": keepalive\n\n" + event.replace(b"data:", b": why\ndata:") for event in _events(chunk)],
        "comments",
    )


@probe("client.http.14")
async def fields_are_passed_over(stage: RemoteClientStage) -> None:
    """Of this version of the protocol and of later ones."""
    await _shaped(
        stage,
        lambda chunk: [b"event: message\nretry: 3000\ntide: high\n" + event for event in _events(chunk)],
        "fields that are not known",
    )


@probe("client.http.15")
async def lines_end_in_two_ways(stage: RemoteClientStage) -> None:
    """As the standard allows."""
    await _shaped(stage, lambda chunk: [chunk.replace(b"\n", b"\r\n")], "lines that end with CR and LF")


@probe("client.http.16")
async def late_streams_lose_nothing(stage: RemoteClientStage) -> None:
    """Half a second, which a proxy can take."""
    stage.wire.late = 0.5
    await shown(stage, "the stream of the session opened late")


@probe("client.http.17")
async def posts_have_one_message(stage: RemoteClientStage) -> None:
    """Batches are refused with 501."""
    posts = [each for each in await _turn(stage) if each.method == "POST"]
    _wrong(stage, [each for each in posts if not isinstance(each.message, dict)], "a POST is not one message")


@probe("client.http.18")
async def floods_are_whole(stage: RemoteClientStage) -> None:
    """Numbers that go up by one."""
    await shown(stage, "a flood of updates", MANY)


@probe("client.http.19")
async def empty_answers_are_no_failures(stage: RemoteClientStage) -> None:
    """The official Python server says that they are JSON."""
    stage.wire.typed = True
    await shown(stage, "a 202 that says it is JSON and is empty")
