"""Probes of the streams of Streamable HTTP: what comes on which, whole and in order, also for who comes back."""

from __future__ import annotations

import asyncio

from dragoman.conformance.harness.agent import Spoken
from dragoman.conformance.harness.http_client import Answer, Strand, parsed
from dragoman.conformance.harness.peer import Json
from dragoman.conformance.harness.remote_agent import HttpStage
from dragoman.conformance.probe import probe

# --- which stream ---------------------------------------------------------------------------------------------------


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
    """The whole flow of the documents: history, and a prompt afterwards; which stream has what is for 09, 10 and 29."""
    answer, main, strand, session = await _reattached(stage)
    stage.answered_with(answer, "session/load with both headers", 202)
    found = await stage.on_either(main, strand, "load", stage.pace.start)
    stage.require(found is not None and "result" in found, f"the load was refused: {found}")
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": stage.words("plain")}]}
    again = await stage.line.post(stage.message("session/prompt", prompt, "again"), stage.line.named(session))
    stage.answered_with(again, "a prompt in the loaded session", 202)
    ended = await stage.on_either(main, strand, "again", stage.pace.turn)
    stage.require(ended is not None and "result" in ended, f"the prompt in the loaded session ended with {ended}")
    stage.require(_updates(strand) or _updates(main), "no history came")


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
    found = await stage.on_either(main, await stage.line.ensure(stage.session), "load", stage.pace.start)
    stage.require(found in main.messages(), "the answer to session/load does not come on the stream of the connection")


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
    assert stage.line.main is not None
    ended = await stage.on_either(stage.line.main, strand, "late", stage.pace.turn)
    stage.require(ended is not None, "the end of a turn that began before its stream was read never comes")
    came = _updates(strand) or _updates(stage.line.main)
    stage.require(came, "the updates of a turn that began before its stream was read are lost")


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
