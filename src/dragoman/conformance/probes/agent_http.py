"""Probes of Streamable HTTP: statuses, streams, and what a web page or a stranger may not do."""

from __future__ import annotations

import asyncio
import json

from dragoman.conformance.agent_stage import Spoken
from dragoman.conformance.http_line import JSON, SSE, Answer, Strand, parsed
from dragoman.conformance.probe import probe
from dragoman.conformance.remote_stage import HttpStage
from dragoman.conformance.stage import Json

UNKNOWN = {"Acp-Connection-Id": "0123456789abcdef0123456789abcdef"}
EVIL = "https://evil.example"

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


# --- streams ------------------------------------------------------------------------------------------------------


@probe("agent.http.06")
async def streams_are_event_streams(stage: HttpStage) -> None:
    """Both of them."""
    await stage.connected()
    strand = await stage.line.open()
    stage.answered_with(strand.answer, "the stream of the connection", 200)
    stage.require(strand.answer.kind == "text/event-stream", f"a stream is {strand.answer.kind or 'of no type'}")


@probe("agent.http.07")
async def events_are_messages(stage: HttpStage) -> None:
    """Of a whole turn, on both streams."""
    await stage.did("plain")
    strands = [stage.line.main, *stage.line.strands.values()]
    events = [event for strand in strands if strand is not None for event in strand.events]
    wrong = [event.data[:200] for event in events if not isinstance(parsed(event.data), dict)]
    stage.require(not wrong, f"an event is no JSON object: {wrong[:1]}")
    stage.require(events, "no event came in a whole turn")


@probe("agent.http.08")
async def new_sessions_are_told_to_the_connection(stage: HttpStage) -> None:
    """The session has no stream yet."""
    strand = await stage.streamed()
    answer = await stage.line.post(stage.opening(), stage.line.named())
    if answer.status >= 300:
        stage.unsure(f"session/new was answered with {answer.status}")
    found = await stage.on(strand, "new", stage.pace.start)
    stage.require(found is not None, "the answer to session/new does not come on the stream of the connection")


async def _turn(stage: HttpStage) -> tuple[Spoken, Strand, Strand]:
    """A turn, with the two streams."""
    turn = await stage.did("plain")
    main, strand = stage.line.main, stage.line.strands.get(stage.session)
    if main is None or strand is None or strand.answer.status != 200:
        stage.unsure("the stream of the session was not granted")
    assert main is not None
    assert strand is not None
    return turn, main, strand


def _updates(strand: Strand) -> list[Json]:
    messages = strand.messages()
    return [each for each in messages if isinstance(each, dict) and str(each.get("method", "")).startswith("session/")]


@probe("agent.http.09")
async def updates_belong_to_their_session(stage: HttpStage) -> None:
    """Or a client of two sessions reads all of both."""
    turn, main, strand = await _turn(stage)
    if not stage.updates(start=turn.start):
        stage.unsure("no update came")
    stage.require(not _updates(main), "an update came on the stream of the connection")
    stage.require(_updates(strand), "no update came on the stream of the session")


@probe("agent.http.10")
async def turns_end_on_their_stream(stage: HttpStage) -> None:
    """Only within one stream there is an order."""
    turn, _, strand = await _turn(stage)
    messages = [each for each in strand.messages() if isinstance(each, dict)]
    places = [place for place, each in enumerate(messages) if "method" not in each and each.get("id") == turn.id]
    stage.require(places, "the answer to the prompt did not come on the stream of its session")
    late = [each for each in messages[places[0] + 1 :] if "agent_message_chunk" in str(each)]
    stage.require(not late, "after the answer to the prompt came a piece of the agent's message")


@probe("agent.http.11")
async def questions_belong_to_their_session(stage: HttpStage) -> None:
    """And so does their answer."""
    await stage.opened()
    turn = await stage.ended(stage.begin(stage.words("ask")))
    asked = [heard for heard in stage.heard if heard.method == "session/request_permission"]
    if not asked:
        stage.unsure("the agent asked for no leave")
    strand = stage.line.strands[stage.session]
    came = [each for each in strand.messages() if isinstance(each, dict) and each == asked[0].message]
    stage.require(came, "the question did not come on the stream of its session", asked[0])
    if "id" in asked[0].message:
        answers = [answer for said, answer in stage.line.statuses if "method" not in said]
        stage.answered_with(answers[0], "the answer to a question", 202)
    stage.require(turn.answer is not None, "the turn does not end after the question was answered")


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


# --- coming back --------------------------------------------------------------------------------------------------


async def _reattached(stage: HttpStage) -> tuple[Answer, Strand, Strand, str]:
    """A turn, then a second connection that loads the session by hand."""
    await stage.did("plain")
    session = stage.session
    await stage.line.ask("DELETE", None, stage.line.named())
    main = await stage.streamed()
    strand = await stage.line.open(session)
    stage.require(strand.answer.status == 200, f"the stream of the session was answered with {strand.answer.status}")
    load = stage.message("session/load", {"sessionId": session, "cwd": stage.cwd, "mcpServers": []}, "load")
    return await stage.line.post(load, stage.line.named(session)), main, strand, session


@probe("agent.http.28")
async def sessions_outlive_connections(stage: HttpStage) -> None:
    """The whole flow of the documents: history on the session's stream, and a prompt afterwards."""
    answer, main, strand, session = await _reattached(stage)
    stage.answered_with(answer, "session/load with both headers", 202)
    found = await stage.on(main, "load", stage.pace.start) or await stage.on(strand, "load", stage.pace.quiet)
    stage.require(found is not None and "result" in found, f"the load was refused: {found}")
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": stage.words("plain")}]}
    again = await stage.line.post(stage.message("session/prompt", prompt, "again"), stage.line.named(session))
    stage.answered_with(again, "a prompt in the loaded session", 202)
    ended = await stage.on(strand, "again", stage.pace.turn)
    stage.require(ended is not None and "result" in ended, f"the prompt in the loaded session ended with {ended}")
    stage.require(_updates(strand), "no history came on the stream of the session")


@probe("agent.http.29")
async def loads_are_answered_to_the_connection(stage: HttpStage) -> None:
    """As session/new."""
    await stage.opened()
    params = {"sessionId": stage.session, "cwd": stage.cwd, "mcpServers": []}
    answer = await stage.line.post(stage.message("session/load", params, "load"), stage.line.named(stage.session))
    if answer.status != 202:
        stage.unsure(f"session/load was answered with {answer.status}")
    main = stage.line.main
    assert main is not None
    found = await stage.on(main, "load", stage.pace.answer)
    stage.require(found is not None, "the answer to session/load does not come on the stream of the connection")


# --- order, and who reads -----------------------------------------------------------------------------------------


@probe("agent.http.30")
async def floods_are_whole(stage: HttpStage) -> None:
    """Numbers that go up by one."""
    await stage.did("flood")
    stage.count()


@probe("agent.http.31")
async def late_readers_miss_nothing(stage: HttpStage) -> None:
    """The prompt is said before anybody reads the session's stream."""
    await stage.initialized()
    stage.line.is_eager = False
    await stage.opened()
    prompt = {"sessionId": stage.session, "prompt": [{"type": "text", "text": stage.words("plain")}]}
    answer = await stage.line.post(stage.message("session/prompt", prompt, "late"), stage.line.named(stage.session))
    if answer.status != 202:
        stage.unsure(f"a prompt before the stream was answered with {answer.status}")
    await stage.silence()
    strand = await stage.line.open(stage.session)
    ended = await stage.on(strand, "late", stage.pace.turn)
    stage.require(ended is not None, "the end of a turn that began before its stream was read never comes")
    stage.require(_updates(strand), "the updates of a turn that began before its stream was read are lost")


@probe("agent.http.32")
async def streams_are_not_shared(stage: HttpStage) -> None:
    """Two readers who get half each know nothing of it."""
    await stage.opened()
    first = await stage.line.ensure(stage.session)
    second = await stage.line.open(stage.session)
    if second.answer.status != 200:
        stage.answered_with(second.answer, "a second GET on a stream", 409, 400, 429)
        return
    before = len(first.events), len(second.events)
    stage.line.strands[stage.session] = second  # so that no third one is opened
    for _ in range(3):
        await stage.prompted(stage.words("tour"))
    came = [len(strand.events) - old for strand, old in zip((first, second), before, strict=True)]
    stage.require(0 in came, f"two GETs on one stream share it: {came[0]} events came to one, {came[1]} to the other")


async def _numbered(stage: HttpStage) -> Strand:
    await stage.did("stream")
    strand = await stage.line.ensure(stage.session)
    if not any(event.id for event in strand.events):
        stage.skip("events have no ids")
    return strand


@probe("agent.http.33")
async def ids_are_unique(stage: HttpStage) -> None:
    """Or nobody can say where a stream was cut."""
    ids = [event.id for event in (await _numbered(stage)).events if event.id]
    stage.require(len(set(ids)) == len(ids), "two events of a stream have the same id")


@probe("agent.http.34")
async def cut_streams_go_on(stage: HttpStage) -> None:
    """From the middle of a turn, read again."""
    strand = await _numbered(stage)
    whole = [event.data for event in strand.events]
    middle = len(whole) // 2
    await strand.close()
    again = await stage.line.open(stage.session, {"Last-Event-ID": strand.events[middle].id.decode()})
    stage.answered_with(again.answer, "a GET with Last-Event-ID", 200)
    end = asyncio.get_running_loop().time() + stage.pace.answer
    while len(again.events) < len(whole) - middle - 1 and asyncio.get_running_loop().time() < end:
        again.news.clear()
        await asyncio.wait([asyncio.ensure_future(again.news.wait())], timeout=stage.pace.quiet)
    got = [event.data for event in again.events]
    stage.require(got == whole[middle + 1 :], f"{len(got)} events came, not the {len(whole) - middle - 1} that follow")


@probe("agent.http.35")
async def cookies_can_be_returned(stage: HttpStage) -> None:
    """They keep a client with one server."""
    answer = await stage.line.post(stage.first())
    stage.line.connection = answer.headers.get("acp-connection-id", "")
    if "set-cookie" not in answer.headers:
        stage.skip("the server sets no cookie")
    stage.require(stage.line.cookies, f"the cookie {answer.headers['set-cookie']!r} has no name or no value")


# --- strangers ----------------------------------------------------------------------------------------------------


@probe("agent.http.36")
async def pages_of_other_places_are_refused(stage: HttpStage) -> None:
    """A page that is open in a browser of this machine reaches every port of it."""
    answer = await stage.line.post(stage.first(), {"Origin": EVIL})
    stage.line.connection = answer.headers.get("acp-connection-id", "")
    stage.require(answer.status >= 400, f"initialize from a page of {EVIL} was answered with {answer.status}")


@probe("agent.http.37")
async def other_names_are_refused(stage: HttpStage) -> None:
    """A name of the page's own that leads here makes the page the same place."""
    if not stage.line.address.is_loopback:
        stage.skip("only what is on this machine has no name of its own")
    answer = await stage.line.post(stage.first(), {"Host": "rebound.evil.example"})
    stage.line.connection = answer.headers.get("acp-connection-id", "")
    stage.require(answer.status >= 400, f"initialize to rebound.evil.example was answered with {answer.status}")


# More than any server of ours or of others takes, and sent only until it is refused. Bytes.
ENDLESS = 128 * 1024 * 1024
PIECE = 1024 * 1024
# A server that goes by the length that is announced refuses it by then. Seconds.
DECLARED = 1.0


async def _poured(stage: HttpStage) -> Answer | None:
    """A body that goes on until it is refused; None when it never was."""
    address = stage.line.address
    if address.is_secure:
        stage.skip("a body without end is sent without TLS only")
    reader, writer = await asyncio.open_connection(address.host, address.port)
    headers = {**dict(address.headers), **JSON, "Host": address.netloc, "Content-Length": str(ENDLESS)}
    stage.note(f"a POST of {ENDLESS} bytes")
    lines = [f"POST {address.target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    writer.write("\r\n".join(lines).encode())
    heard = asyncio.ensure_future(reader.readuntil(b"\r\n\r\n"))
    sent = 0
    try:
        await asyncio.wait([heard], timeout=DECLARED)
        while not heard.done() and sent + PIECE < ENDLESS:
            writer.write(b" " * PIECE)
            async with asyncio.timeout(stage.pace.answer):
                await writer.drain()
            sent += PIECE
        await asyncio.wait([heard], timeout=stage.pace.answer)
    except (OSError, TimeoutError):
        await asyncio.wait([heard], timeout=stage.pace.quiet)
    try:
        if not heard.done():
            return None
        try:
            head = heard.result()
        except (OSError, asyncio.IncompleteReadError):
            stage.note(f"the server closed the socket after {sent} bytes")
            return Answer(0, {})
        length = next((line.split(b":")[1] for line in head.lower().split(b"\r\n") if b"content-length:" in line), b"")
        body = b""
        try:
            async with asyncio.timeout(stage.pace.answer):
                body = await (reader.readexactly(int(length)) if length else reader.read(4096))
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass
        stage.note(f"after {sent} bytes: {head.decode('latin-1')}{body.decode('utf-8', 'replace')}")
        return Answer(int(head.split()[1]), {}, body)
    finally:
        heard.cancel()
        await asyncio.gather(heard, return_exceptions=True)
        writer.transport.abort()


@probe("agent.http.38")
async def bodies_end(stage: HttpStage) -> None:
    """Nobody else has memory left."""
    answer = await _poured(stage)
    stage.require(answer is not None, f"a body of {ENDLESS} bytes is taken without a limit")
    assert answer is not None
    if answer.status:
        stage.answered_with(answer, "a body without end", 413)


@probe("agent.http.39")
async def limits_are_told(stage: HttpStage) -> None:
    """Whoever sent too much can send less."""
    answer = await _poured(stage)
    if answer is None or answer.status != 413:
        stage.skip("a body without end is not refused with 413")
    assert answer is not None
    said = answer.body.decode("utf-8", "replace")
    stage.require(any(mark.isdigit() for mark in said.replace(str(ENDLESS), "")), "a 413 does not say what is allowed")


@probe("agent.http.40")
async def strangers_disturb_nobody(stage: HttpStage) -> None:
    """A turn under way, and garbage at the same address."""
    await stage.opened()
    turn = stage.begin(stage.words("stream"))
    host = stage.line.address.netloc.encode()
    await stage.garbage(
        b"\x00\xff\x16\x03\x01 no protocol at all\r\n\r\n",
        b"POST /acp HTTP/1.1\r\nHost: " + host + b"\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{",
        b"GET /acp HTTP/1.1\r\nHost: " + host + b"\r\nAcp-Connection-Id: " + b"x" * 20000 + b"\r\n\r\n",
    )
    for body in (b"\xff\xfe", b"null", b'{"id":{}}', b'{"jsonrpc":"2.0","method":5}'):
        await stage.line.post(body, UNKNOWN)
    turn = await stage.ended(turn)
    stage.require(turn.answer is not None, "a turn was not ended after another client sent garbage")
    again = await stage.ended(stage.begin(stage.words("plain")))
    stage.require(again.answer is not None, "a prompt is not answered after another client sent garbage")


@probe("agent.http.41")
async def http2_is_spoken(stage: HttpStage) -> None:
    """By what TLS agrees on, or by its first bytes."""
    import ssl

    address = stage.line.address
    context: ssl.SSLContext | None = None
    if address.is_secure:
        from dragoman.transport.remote.address import trust

        found = trust(stage.tls, address.shown)
        context = found if isinstance(found, ssl.SSLContext) else ssl.create_default_context()
        context.set_alpn_protocols(["h2"])
    try:
        async with asyncio.timeout(stage.pace.answer):
            reader, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
            first = await reader.readexactly(9)
            writer.transport.abort()
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        first = b""
    stage.note(f"the first bytes of the answer: {first!r}")
    is_settings = len(first) == 9 and first[3] == 4 and not first.startswith(b"HTTP/")
    stage.require(is_settings, "the address does not speak HTTP/2")


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


@probe("agent.http.45")
async def tokens_are_asked_for(stage: HttpStage) -> None:
    """Only where we were given one."""
    if not stage.token:
        stage.skip("no token was given with --token-file")
    answer = await stage.line.post(stage.first(), {"Authorization": ""})
    stage.line.connection = answer.headers.get("acp-connection-id", "")
    stage.answered_with(answer, "initialize without the token", 401)
