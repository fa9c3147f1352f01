"""A client over Streamable HTTP: headers, streams, and events in every form the standard allows."""

from __future__ import annotations

import re
from collections.abc import Callable

from dragoman.conformance.harness.http_recorder import RecordedRequest
from dragoman.conformance.harness.remote_client import RemoteClientUnderTest
from dragoman.conformance.requirement import must, should

COOKIE = "check-affinity=server-7"
MANY = 1000


async def _run_turn(client: RemoteClientUnderTest) -> list[RecordedRequest]:
    """Run a whole turn; return its requests."""
    await client.run_turn()
    await client.wait_exit()
    return client.recorder.requests


def _require_none(client: RemoteClientUnderTest, found: list[RecordedRequest], why: str) -> None:
    client.require(not found, why + (f" ({found[0].method} {found[0].calls})".replace(" )", ")") if found else ""))


@must("client.http.01", "http.md#requests")
async def initialize_comes_first(client: RemoteClientUnderTest) -> None:
    """The first request is a POST of initialize, without Acp-Connection-Id."""
    await client.wait_initialize()
    first = client.recorder.requests[0]
    client.require(first.method == "POST" and first.calls == "initialize", f"the first request is {first.method}")
    client.require("acp-connection-id" not in first.headers, "initialize names a connection")


@must("client.http.02", "http.md#requests")
async def connections_are_named(client: RemoteClientUnderTest) -> None:
    """Every later request names the connection."""
    # Check every request after the first. client.http.06 covers session streams.
    _, *requests = await _run_turn(client)
    others = [each for each in requests if each.method != "GET" or "acp-session-id" not in each.headers]
    wrong = [each for each in others if "acp-connection-id" not in each.headers]
    _require_none(client, wrong, "a request names no connection")


@must("client.http.03", "http.md#requests")
async def posts_are_json(client: RemoteClientUnderTest) -> None:
    """A POST is application/json."""
    posts = [each for each in await _run_turn(client) if each.method == "POST"]
    wrong = [each for each in posts if not each.headers.get("content-type", "").startswith("application/json")]
    _require_none(client, wrong, "a POST is not application/json")


@must("client.http.04", "http.md#requests")
async def gets_accept_streams(client: RemoteClientUnderTest) -> None:
    """A GET accepts text/event-stream."""
    gets = [each for each in await _run_turn(client) if each.method == "GET"]
    wrong = [each for each in gets if "text/event-stream" not in each.headers.get("accept", "")]
    _require_none(client, wrong, "a GET does not accept text/event-stream")


@should("client.http.05", "http.md#streams")
async def the_stream_is_there_first(client: RemoteClientUnderTest) -> None:
    """The stream of the connection is requested before session/new."""
    await client.wait_prompt()
    requests = client.recorder.requests
    opening = [place for place, each in enumerate(requests) if each.calls in ("session/new", "session/load")]
    new = client.assume(opening, "the client opened no session")[0]
    before = [each for each in requests[:new] if each.method == "GET" and "acp-session-id" not in each.headers]
    client.require(before, "session/new was posted before the stream of the connection was asked for")


@must("client.http.06", "http.md#requests")
async def session_streams_have_both_names(client: RemoteClientUnderTest) -> None:
    """The stream of a session is requested with both headers."""
    gets = [each for each in await _run_turn(client) if each.method == "GET" and "acp-session-id" in each.headers]
    client.require(gets, "the stream of the session was never asked for")
    wrong = [each for each in gets if "acp-connection-id" not in each.headers]
    _require_none(client, wrong, "a GET names no connection")
    names = {each.headers["acp-session-id"] for each in gets}
    client.require(client.session in names, f"the stream of {', '.join(names)} was asked for, not of {client.session}")


@must("client.http.07", "http.md#session-id")
async def prompts_name_their_session(client: RemoteClientUnderTest) -> None:
    """A prompt names its session in Acp-Session-Id."""
    await client.wait_prompt()
    prompts = [each for each in client.recorder.requests if each.calls.endswith("session/prompt")]
    wrong = [each for each in prompts if each.headers.get("acp-session-id") != client.session]
    _require_none(client, wrong, "a prompt does not name its session in Acp-Session-Id")


@must("client.http.08", "http.md#session-id, http.md#typescript-sdk")
async def answers_name_their_session(client: RemoteClientUnderTest) -> None:
    """An answer to a request of a session names the session in Acp-Session-Id."""
    # The official Python client omits it, and the TypeScript server refuses the request.
    async with client.turn():
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        call = {"toolCallId": "check-1", "title": "May I?", "kind": "edit", "status": "pending"}
        await client.request_in_dialect("session/request_permission", {"toolCall": call, "options": options})
        answers = [each for each in client.recorder.requests if each.method == "POST" and not each.calls]
    client.assume(answers, "the client did not answer a permission request")
    wrong = [each for each in answers if each.headers.get("acp-session-id") != client.session]
    _require_none(client, wrong, "an answer does not name its session in Acp-Session-Id")


@must("client.http.09", "http.md#cookies")
async def cookies_come_back(client: RemoteClientUnderTest) -> None:
    """Cookies are returned for the life of the connection."""
    client.recorder.cookie = f"{COOKIE}; Path=/; HttpOnly"
    _, *requests = await _run_turn(client)
    wrong = [each for each in requests if COOKIE not in each.headers.get("cookie", "")]
    _require_none(client, wrong, "a cookie was not returned")


@should("client.http.10", "http.md#requests")
async def connections_are_ended(client: RemoteClientUnderTest) -> None:
    """The connection is ended with DELETE."""
    requests = await _run_turn(client)
    client.assume(client.exits_after_turn, "the client stays, so it is unknown how it exits")
    client.require(any(each.method == "DELETE" for each in requests), "the client left without DELETE")


# --- events -------------------------------------------------------------------------------------------------------


async def require_shown(
    client: RemoteClientUnderTest, what: str, count: int = 5, shape: Callable[[bytes], list[bytes]] | None = None
) -> None:
    """Send so many numbers in a turn; require that they are shown in order and complete.

    `shape` cuts the event stream into other pieces.
    """
    async with client.turn():
        await client.sync()
        client.recorder.shape = shape
        for number in range(count):
            client.chunk(f"number {number:04d}\n")
            if number % 100 == 99:
                await client.flush()
    end = await client.require_no_crash(f"the client crashed: {what}")
    is_ended = client.closed is not None or not client.exits_after_turn
    client.require(is_ended, f"the client does not see the end of its turn: {what}")
    found = [int(digits) for digits in re.findall(r"number (\d+)", end.stdout)]
    if not found and "check-begin" not in end.stdout:
        client.require(end.status in (0, None), f"the client failed: {what}: {end.stderr_excerpt()}")
        client.inconclusive("the client shows no text on its standard output")
    missing = sorted(set(range(count)) - set(found))
    client.require(not missing, f"{len(missing)} of {count} updates are not shown: {what}")
    client.require(found == sorted(found), f"updates are shown out of order: {what}")


def _events(chunk: bytes) -> list[bytes]:
    return [part + b"\n\n" for part in chunk.split(b"\n\n") if part]


@must("client.http.11", "http.md#server-sent-events")
async def events_are_cut(client: RemoteClientUnderTest) -> None:
    """Events are read wherever the stream is cut into pieces."""
    # Cut the stream every 23 bytes.

    def cut(chunk: bytes) -> list[bytes]:
        return [chunk[at : at + 23] for at in range(0, len(chunk), 23)]

    await require_shown(client, "events cut every 23 bytes", shape=cut)


@must("client.http.12", "http.md#server-sent-events")
async def data_has_many_lines(client: RemoteClientUnderTest) -> None:
    """Data on several lines is one message."""
    # Break the line after each comma of the message, where JSON allows it.

    def broken(chunk: bytes) -> list[bytes]:
        return [re.sub(rb',\s*"', b',\ndata: "', event) for event in _events(chunk)]

    await require_shown(client, "data on several lines", shape=broken)


@must("client.http.13", "http.md#server-sent-events, http.md#python-sdk")
async def comments_are_no_messages(client: RemoteClientUnderTest) -> None:
    """Comments are not messages, between events and within them."""

    def comment(chunk: bytes) -> list[bytes]:
        return [b": keepalive\n\n" + event.replace(b"data:", b": why\ndata:") for event in _events(chunk)]

    await require_shown(client, "comments", shape=comment)


@must("client.http.14", "http.md#server-sent-events")
async def fields_are_ignored(client: RemoteClientUnderTest) -> None:
    """Unknown fields, and names of events, are ignored."""

    def add_fields(chunk: bytes) -> list[bytes]:
        return [b"event: message\nretry: 3000\ntide: high\n" + event for event in _events(chunk)]

    await require_shown(client, "fields that are not known", shape=add_fields)


@must("client.http.15", "http.md#server-sent-events")
async def lines_end_in_two_ways(client: RemoteClientUnderTest) -> None:
    """Lines may end with CR and LF."""
    await require_shown(client, "lines that end with CR and LF", shape=lambda chunk: [chunk.replace(b"\n", b"\r\n")])


@must("client.http.16", "http.md#streams")
async def late_streams_lose_nothing(client: RemoteClientUnderTest) -> None:
    """Nothing is lost when the stream of a session opens late."""
    client.recorder.stream_delay = 0.5
    await require_shown(client, "the stream of the session opened late")


@must("client.http.17", "http.md#endpoint")
async def posts_have_one_message(client: RemoteClientUnderTest) -> None:
    """A POST has one message."""
    posts = [each for each in await _run_turn(client) if each.method == "POST"]
    _require_none(client, [each for each in posts if not isinstance(each.message, dict)], "a POST is not one message")


@must("client.http.18", "peers.md#reports-ordering")
async def floods_are_complete(client: RemoteClientUnderTest) -> None:
    """A thousand updates are shown without a gap and in order."""
    await require_shown(client, "a flood of updates", MANY)


@must("client.http.19", "http.md#python-sdk")
async def empty_answers_are_no_failures(client: RemoteClientUnderTest) -> None:
    """An empty 202 is not a failure, whatever its type."""
    client.recorder.is_202_typed = True
    await require_shown(client, "a 202 that says it is JSON and is empty")
