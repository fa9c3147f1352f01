"""Streamable HTTP at an agent: connections, status codes, hostile requests and HTTP/2."""

from __future__ import annotations

import asyncio
import json

from dragoman.conformance.harness.http_client import JSON, SSE, Answer
from dragoman.conformance.harness.remote_agent import HttpAgentUnderTest
from dragoman.conformance.requirement import may, must, should

UNKNOWN = {"Acp-Connection-Id": "0123456789abcdef0123456789abcdef"}

# --- opening ------------------------------------------------------------------------------------------------------


@must("agent.http.01", "http.md#requests")
async def initialize_is_answered_at_once(agent: HttpAgentUnderTest) -> None:
    """initialize is answered with 200 and the JSON-RPC answer as application/json."""
    answer = await agent.channel.post(agent.initialize_message())
    agent.require_status(answer, "initialize", 200)
    agent.require(answer.kind == "application/json", f"the answer to initialize is {answer.kind or 'of no type'}")
    body = answer.json
    is_answer = isinstance(body, dict) and body.get("id") == "first" and isinstance(body.get("result"), dict)
    agent.require(is_answer, "the body is not the JSON-RPC answer to initialize")


@must("agent.http.02", "http.md#requests")
async def connections_have_names(agent: HttpAgentUnderTest) -> None:
    """The answer to initialize names the connection in Acp-Connection-Id."""
    agent.require_status(await agent.post_initialize({}), "initialize", 200)
    agent.require(agent.channel.connection, "the answer to initialize has no Acp-Connection-Id")


@must("agent.http.03", "http.md#requests")
async def connections_differ(agent: HttpAgentUnderTest) -> None:
    """Two connections have different ids."""
    one = await agent.connect()
    other = await agent.channel.post(agent.initialize_message())
    found = other.headers.get("acp-connection-id", "")
    agent.require(found != one, "two connections have the same id")
    await agent.channel.ask("DELETE", None, {"Acp-Connection-Id": found})


@must("agent.http.04", "http.md#requests")
async def messages_are_accepted(agent: HttpAgentUnderTest) -> None:
    """Any other message is accepted with 202."""
    await agent.open_session_stream()
    agent.require_status(await agent.post_new_session(), "session/new", 202)


@must("agent.http.05", "http.md#requests")
async def accepted_messages_have_no_body(agent: HttpAgentUnderTest) -> None:
    """A 202 has no body."""
    await agent.open_session_stream()
    answer = await agent.post_new_session()
    agent.assume(answer.status == 202, f"session/new was answered with {answer.status}")
    agent.require(not answer.body, "a 202 has a body")


# --- refusals -----------------------------------------------------------------------------------------------------


@must("agent.http.12", "http.md#status-codes")
async def other_types_are_refused(agent: HttpAgentUnderTest) -> None:
    """A POST that is not application/json is refused with 415."""
    body = json.dumps(agent.initialize_message()).encode()
    agent.require_status(await agent.channel.ask("POST", body, {"Content-Type": "text/plain"}), "text/plain", 415)


@should("agent.http.13", "http.md#python-sdk")
async def what_is_no_json_is_refused(agent: HttpAgentUnderTest) -> None:
    """A POST whose body is not JSON is refused with 400."""
    agent.require_status(await agent.channel.post(b'{"jsonrpc":"2.0",'), "a body that is not JSON", 400)


@must("agent.http.14", "http.md#status-codes")
async def posts_need_a_connection(agent: HttpAgentUnderTest) -> None:
    """A POST without Acp-Connection-Id that is not an initialize is refused with 400."""
    agent.require_status(await agent.channel.post(agent.new_session_message()), "session/new without a connection", 400)


@must("agent.http.15", "http.md#status-codes")
async def posts_need_a_known_connection(agent: HttpAgentUnderTest) -> None:
    """A POST on an unknown connection is refused with 404."""
    answer = await agent.channel.post(agent.new_session_message(), UNKNOWN)
    agent.require_status(answer, "session/new on an unknown connection", 404)


@must("agent.http.16", "http.md#status-codes")
async def only_streams_are_given(agent: HttpAgentUnderTest) -> None:
    """A GET that does not accept text/event-stream is refused with 406."""
    await agent.connect()
    answer = await agent.channel.ask("GET", None, {"Accept": "text/html", **agent.channel.session_headers()})
    agent.require_status(answer, "a GET that accepts text/html", 406)


@must("agent.http.17", "http.md#status-codes")
async def streams_need_a_connection(agent: HttpAgentUnderTest) -> None:
    """A GET without Acp-Connection-Id is refused with 400."""
    agent.require_status(await agent.channel.ask("GET", None, SSE), "a GET without a connection", 400)


@must("agent.http.18", "http.md#status-codes")
async def streams_need_a_known_connection(agent: HttpAgentUnderTest) -> None:
    """A GET on an unknown connection is refused with 404."""
    answer = await agent.channel.ask("GET", None, {**SSE, **UNKNOWN})
    agent.require_status(answer, "a GET on an unknown connection", 404)


@must("agent.http.19", "http.md#status-codes")
async def batches_are_refused(agent: HttpAgentUnderTest) -> None:
    """A batch is refused with 501."""
    await agent.connect()
    answer = await agent.channel.post([agent.new_session_message()], agent.channel.session_headers())
    agent.require_status(answer, "a batch", 501)


@must("agent.http.20", "http.md#status-codes")
async def sessions_messages_name_a_session(agent: HttpAgentUnderTest) -> None:
    """A message of a session that names no session at all is refused with 400."""
    await agent.open_session_stream()
    message = agent.request_message("session/prompt", {"sessionId": "x", "prompt": [{"type": "text", "text": "hello"}]})
    params = {name: value for name, value in message["params"].items() if value != "x"}
    answer = await agent.channel.post({**message, "params": params}, agent.channel.session_headers())
    agent.require_status(answer, "a prompt that names no session", 400)


@may("agent.http.21", "http.md#session-id, http.md#typescript-sdk")
async def the_header_may_be_needed(agent: HttpAgentUnderTest) -> None:
    """A message of a session without the header Acp-Session-Id may be refused, with 400."""
    # The documents require the header, but a body that names the session is enough.
    await agent.open_session()
    answer = await agent.post_prompt(agent.session, None)
    agent.skip_unless(answer.status != 202, "the server takes a message whose params name the session")
    agent.require_status(answer, "a prompt without Acp-Session-Id", 400)


@must("agent.http.22", "http.md#status-codes")
async def unknown_sessions_are_not_there(agent: HttpAgentUnderTest) -> None:
    """A message for a session that the connection does not have is refused with 404."""
    await agent.open_session_stream()
    answer = await agent.post_prompt("no-such-session", "no-such-session", text="hello")
    agent.require_status(answer, "a prompt in a session that is not there", 404)


@should("agent.http.23", "http.md#typescript-sdk")
async def header_and_body_agree(agent: HttpAgentUnderTest) -> None:
    """A header that names another session than the message is refused with 400."""
    first, second = await agent.open_two_sessions()
    answer = await agent.post_prompt(first, second)
    agent.require_status(answer, "a prompt whose header names another session", 400)


@may("agent.http.42", "http.md#python-sdk, http.md#typescript-sdk")
async def connections_begin_once(agent: HttpAgentUnderTest) -> None:
    """A second initialize on a connection may be refused, with 400."""
    await agent.connect()
    answer = await agent.channel.post(agent.initialize_message(), agent.channel.session_headers())
    agent.skip_unless(answer.status != 200, "a second initialize makes a new connection")
    agent.require_status(answer, "a second initialize", 400)


@should("agent.http.43", "http.md#python-sdk, http.md#typescript-sdk")
async def refusals_state_why(agent: HttpAgentUnderTest) -> None:
    """A refusal has a body that states why."""
    answer = await agent.channel.post(agent.new_session_message(), UNKNOWN)
    agent.assume(answer.status >= 400, "nothing was refused")
    agent.require(answer.body.strip(), f"a {answer.status} has no body")


@should("agent.http.44", "http.md#python-sdk")
async def other_methods_are_refused(agent: HttpAgentUnderTest) -> None:
    """Methods other than POST, GET and DELETE are refused with 405."""
    agent.require_status(await agent.channel.ask("PUT", b"{}", JSON), "PUT", 405)


# --- ending -------------------------------------------------------------------------------------------------------


@must("agent.http.24", "http.md#requests")
async def connections_can_be_ended(agent: HttpAgentUnderTest) -> None:
    """DELETE is answered with 202."""
    await agent.connect()
    agent.require_status(await agent.disconnect(), "DELETE", 202)


@must("agent.http.25", "http.md#requests")
async def ended_connections_are_gone(agent: HttpAgentUnderTest) -> None:
    """A deleted connection no longer exists."""
    await agent.connect()
    await agent.disconnect()
    agent.require_status(await agent.post_new_session(), "a POST after DELETE", 404)


@must("agent.http.26", "http.md#requests")
async def ended_connections_have_no_streams(agent: HttpAgentUnderTest) -> None:
    """The streams of a deleted connection end."""
    stream = await agent.open_session_stream()
    await agent.disconnect()
    await asyncio.wait([asyncio.ensure_future(stream.ended.wait())], timeout=agent.timeouts.answer)
    agent.require(stream.ended.is_set(), "the stream of the connection continues after DELETE")


@must("agent.http.27", "http.md#status-codes")
async def only_connections_can_be_ended(agent: HttpAgentUnderTest) -> None:
    """DELETE without Acp-Connection-Id is refused with 400, of an unknown one with 404."""
    agent.require_status(await agent.channel.ask("DELETE"), "DELETE without a connection", 400)
    agent.require_status(await agent.channel.ask("DELETE", None, UNKNOWN), "DELETE of an unknown connection", 404)


EVIL = "https://evil.example"


@should("agent.http.36", "peers.md#sdk-origin, http.md#security")
async def pages_of_other_places_are_refused(agent: HttpAgentUnderTest) -> None:
    """A web page from another origin is refused by its Origin header."""
    # A page in a browser on this machine can reach every local port.
    answer = await agent.post_initialize({"Origin": EVIL})
    agent.require(answer.status >= 400, f"initialize from a page of {EVIL} was answered with {answer.status}")


@should("agent.http.37", "peers.md#sdk-origin")
async def other_names_are_refused(agent: HttpAgentUnderTest) -> None:
    """A request with a host name that is not the server's is refused by its Host header."""
    # DNS rebinding: a host name of the page's own resolves to this server.
    agent.skip_unless(agent.channel.address.is_loopback, "only what is on this machine has no name of its own")
    answer = await agent.post_initialize({"Host": "rebound.evil.example"})
    agent.require(answer.status >= 400, f"initialize to rebound.evil.example was answered with {answer.status}")


# More than any server accepts, and sent only until it is refused. Bytes.
ENDLESS = 128 * 1024 * 1024
PIECE = 1024 * 1024
# A server that checks the announced length refuses it by then. Seconds.
DECLARED = 1.0


async def _send_until_refused(agent: HttpAgentUnderTest) -> Answer | None:
    """Send a body until it is refused; return the answer, None when it never was."""
    address = agent.channel.address
    if address.is_secure:
        agent.skip("a body without end is sent without TLS only")
    reader, writer = await asyncio.open_connection(address.host, address.port)
    headers = {**dict(address.headers), **JSON, "Host": address.netloc, "Content-Length": str(ENDLESS)}
    agent.note(f"a POST of {ENDLESS} bytes")
    lines = [f"POST {address.target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    writer.write("\r\n".join(lines).encode())
    frame = asyncio.ensure_future(reader.readuntil(b"\r\n\r\n"))
    sent = 0
    try:
        await asyncio.wait([frame], timeout=DECLARED)
        while not frame.done() and sent + PIECE < ENDLESS:
            writer.write(b" " * PIECE)
            async with asyncio.timeout(agent.timeouts.answer):
                await writer.drain()
            sent += PIECE
        await asyncio.wait([frame], timeout=agent.timeouts.answer)
    except (OSError, TimeoutError):
        await asyncio.wait([frame], timeout=agent.timeouts.quiet)
    try:
        if not frame.done():
            return None
        try:
            head = frame.result()
        except (OSError, asyncio.IncompleteReadError):
            agent.note(f"the server closed the socket after {sent} bytes")
            return Answer(0, {})
        length = next((line.split(b":")[1] for line in head.lower().split(b"\r\n") if b"content-length:" in line), b"")
        body = b""
        try:
            async with asyncio.timeout(agent.timeouts.answer):
                body = await (reader.readexactly(int(length)) if length else reader.read(4096))
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass
        agent.note(f"after {sent} bytes: {head.decode('latin-1')}{body.decode('utf-8', 'replace')}")
        return Answer(int(head.split()[1]), {}, body)
    finally:
        frame.cancel()
        await asyncio.gather(frame, return_exceptions=True)
        writer.transport.abort()


@should("agent.http.38", "peers.md#sdk-origin, http.md#typescript-sdk")
async def bodies_end(agent: HttpAgentUnderTest) -> None:
    """A body that never ends is refused with 413."""
    answer = agent.require(await _send_until_refused(agent), f"a body of {ENDLESS} bytes is taken without a limit")
    if answer.status:
        agent.require_status(answer, "a body without end", 413)


@may("agent.http.39", "http.md#security")
async def limits_are_reported(agent: HttpAgentUnderTest) -> None:
    """A 413 states how much is allowed."""
    answer = await _send_until_refused(agent)
    if answer is None or answer.status != 413:
        agent.skip("a body without end is not refused with 413")
    body = answer.body.decode("utf-8", "replace")
    agent.require(any(mark.isdigit() for mark in body.replace(str(ENDLESS), "")), "a 413 does not say what is allowed")


@must("agent.http.40", "peers.md#reports-remote")
async def garbage_does_not_disturb_others(agent: HttpAgentUnderTest) -> None:
    """A malformed client does not disturb others."""
    await agent.open_session()
    turn = agent.start_turn("stream")
    host = agent.channel.address.netloc.encode()
    await agent.send_garbage(
        b"\x00\xff\x16\x03\x01 no protocol at all\r\n\r\n",
        b"POST /acp HTTP/1.1\r\nHost: " + host + b"\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{",
        b"GET /acp HTTP/1.1\r\nHost: " + host + b"\r\nAcp-Connection-Id: " + b"x" * 20000 + b"\r\n\r\n",
    )
    for body in (b"\xff\xfe", b"null", b'{"id":{}}', b'{"jsonrpc":"2.0","method":5}'):
        await agent.channel.post(body, UNKNOWN)
    turn = await agent.wait_turn(turn)
    agent.require(turn.answer is not None, "a turn was not ended after another client sent garbage")
    again = await agent.try_turn("plain")
    agent.require(again.answer is not None, "a prompt is not answered after another client sent garbage")


@must("agent.http.41", "http.md#endpoint")
async def http2_is_supported(agent: HttpAgentUnderTest) -> None:
    """The address speaks HTTP/2."""
    import ssl

    address = agent.channel.address
    context: ssl.SSLContext | None = None
    if address.is_secure:
        from dragoman.transport.remote.address import tls_context

        found = tls_context(agent.tls, address.display_url)
        context = found if isinstance(found, ssl.SSLContext) else ssl.create_default_context()
        context.set_alpn_protocols(["h2"])
    try:
        async with asyncio.timeout(agent.timeouts.answer):
            reader, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
            first = await reader.readexactly(9)
            writer.transport.abort()
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        first = b""
    agent.note(f"the first bytes of the answer: {first!r}")
    is_settings = len(first) == 9 and first[3] == 4 and not first.startswith(b"HTTP/")
    agent.require(is_settings, "the address does not speak HTTP/2")


@should("agent.http.45", "http.md#security")
async def tokens_are_asked_for(agent: HttpAgentUnderTest) -> None:
    """Where a token is required, a request without it is refused with 401."""
    agent.skip_unless(agent.token, "no token was given with --token-file")
    answer = await agent.post_initialize({"Authorization": ""})
    agent.require_status(answer, "initialize without the token", 401)
