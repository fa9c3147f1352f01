"""Event streams of Streamable HTTP at an agent: routing, order and reconnecting."""

from __future__ import annotations

import asyncio

from dragoman.conformance.harness.agent import QUESTION
from dragoman.conformance.harness.http_client import Answer, EventStream, parse_json
from dragoman.conformance.harness.peer import Json
from dragoman.conformance.harness.prompt_turn import PromptTurn
from dragoman.conformance.harness.remote_agent import HttpAgentUnderTest
from dragoman.conformance.requirement import may, must, should
from dragoman.transport.remote.sse import ServerSentEvent

# --- which stream ---------------------------------------------------------------------------------------------------


@must("agent.http.06", "http.md#requests")
async def streams_are_event_streams(agent: HttpAgentUnderTest) -> None:
    """A stream is text/event-stream, with 200."""
    await agent.connect()
    stream = await agent.channel.open()
    agent.require_status(stream.answer, "the stream of the connection", 200)
    agent.require(stream.answer.kind == "text/event-stream", f"a stream is {stream.answer.kind or 'of no type'}")


@must("agent.http.07", "http.md#streams")
async def events_are_messages(agent: HttpAgentUnderTest) -> None:
    """Every event is one JSON-RPC message."""
    await agent.run_turn("plain")
    strands = [agent.channel.main, *agent.channel.streams.values()]
    events = [event for stream in strands if stream is not None for event in stream.events]
    wrong = [event.data[:200] for event in events if not isinstance(parse_json(event.data), dict)]
    agent.require(not wrong, f"an event is not a JSON object: {wrong[:1]}")
    agent.require(events, "no event came in a whole turn")


@must("agent.http.08", "http.md#streams")
async def new_sessions_are_sent_on_the_connection(agent: HttpAgentUnderTest) -> None:
    """The answer to session/new comes on the stream of the connection."""
    stream = await agent.open_session_stream()
    answer = await agent.post_new_session()
    agent.assume(answer.status < 300, f"session/new was answered with {answer.status}")
    found = await agent.wait_on(stream, "new", agent.timeouts.start)
    agent.require(found is not None, "the answer to session/new does not come on the stream of the connection")


async def _run_turn(agent: HttpAgentUnderTest) -> tuple[PromptTurn, EventStream, EventStream]:
    """Run a turn on the two streams."""
    turn = await agent.run_turn("plain")
    main, stream = agent.channel.main, agent.channel.streams.get(agent.session)
    if main is None or stream is None or stream.answer.status != 200:
        agent.inconclusive("the stream of the session was not granted")
    return turn, main, stream


def _updates(stream: EventStream) -> list[Json]:
    messages = stream.messages()
    return [each for each in messages if isinstance(each, dict) and str(each.get("method", "")).startswith("session/")]


@must("agent.http.09", "http.md#streams")
async def updates_belong_to_their_session(agent: HttpAgentUnderTest) -> None:
    """Updates come on the stream of their session."""
    turn, main, stream = await _run_turn(agent)
    agent.assume(agent.updates(start=turn.start), "no update came")
    agent.require(not _updates(main), "an update came on the stream of the connection")
    agent.require(_updates(stream), "no update came on the stream of the session")


@must("agent.http.10", "http.md#streams")
async def turns_end_on_their_stream(agent: HttpAgentUnderTest) -> None:
    """The answer to a prompt comes on the stream of its session, and in all dialects but v2 after the updates."""
    turn, _, stream = await _run_turn(agent)
    messages = [each for each in stream.messages() if isinstance(each, dict)]
    places = [place for place, each in enumerate(messages) if "method" not in each and each.get("id") == turn.id]
    agent.require(places, "the answer to the prompt did not come on the stream of its session")
    late = [each for each in messages[places[0] + 1 :] if "agent_message_chunk" in str(each)]
    agent.require(agent.codec.is_wide or not late, "after the answer to the prompt came a piece of the agent's message")


@must("agent.http.11", "http.md#streams")
async def questions_belong_to_their_session(agent: HttpAgentUnderTest) -> None:
    """A permission request comes on the stream of its session, and its answer is accepted with 202."""
    turn = await agent.try_turn("ask")
    asked = agent.assume(agent.calls(QUESTION), "the agent did not ask for permission")
    stream = agent.channel.streams[agent.session]
    arrived = [each for each in stream.messages() if isinstance(each, dict) and each == asked[0].message]
    agent.require(arrived, "the permission request did not come on the stream of its session", asked[0])
    if "id" in asked[0].message:
        answers = [answer for sent, answer in agent.channel.statuses if "method" not in sent]
        agent.require_status(answers[0], "the answer to a permission request", 202)
    agent.require(turn.answer is not None, "the turn does not end after the permission request was answered")


# --- coming back --------------------------------------------------------------------------------------------------


async def _post_load(agent: HttpAgentUnderTest, session: str) -> Answer:
    params = {"sessionId": session, "cwd": agent.cwd, "mcpServers": []}
    method, lowered = agent.to_wire("session/load", params)
    return await agent.post_request(method, lowered, session, "load")


@must("agent.http.28", "http.md#reattach", "v1 v2 banjo crow", needs="agent.loadSession")
async def sessions_outlive_connections(agent: HttpAgentUnderTest) -> None:
    """A session is loaded again over another connection: stream first, then session/load with both headers."""
    await agent.run_turn("plain")
    session = agent.session
    await agent.disconnect()
    main = await agent.open_session_stream()
    stream = await agent.channel.open(session)
    agent.require_status(stream.answer, "the stream of the session", 200)
    agent.require_status(await _post_load(agent, session), "session/load with both headers", 202)
    found = await agent.wait_on_either(main, stream, "load", agent.timeouts.start)
    agent.require(found is not None and "result" in found, f"the load was refused: {found}")
    agent.require_status(await agent.post_prompt(session, session, "again"), "a prompt in the loaded session", 202)
    ended = await agent.wait_on_either(main, stream, "again", agent.timeouts.turn)
    agent.require(ended is not None and "result" in ended, f"the prompt in the loaded session ended with {ended}")
    agent.require(_updates(stream) or _updates(main), "no history came")


@must("agent.http.29", "http.md#streams", "v1 v2 banjo crow", needs="agent.loadSession")
async def loads_are_answered_to_the_connection(agent: HttpAgentUnderTest) -> None:
    """The answer to session/load comes on the stream of the connection."""
    await agent.open_session()
    answer = await _post_load(agent, agent.session)
    agent.assume(answer.status == 202, f"session/load was answered with {answer.status}")
    main = agent.channel.main
    assert main is not None
    found = await agent.wait_on_either(main, await agent.channel.ensure(agent.session), "load", agent.timeouts.start)
    agent.require(found in main.messages(), "the answer to session/load does not come on the stream of the connection")


# --- order, and who reads -----------------------------------------------------------------------------------------


@must("agent.http.30", "peers.md#reports-ordering")
async def floods_are_complete(agent: HttpAgentUnderTest) -> None:
    """A thousand updates come without a gap and in order."""
    await agent.run_turn("flood")
    agent.require_counting()


@should("agent.http.31", "http.md#python-sdk")
async def late_readers_miss_nothing(agent: HttpAgentUnderTest) -> None:
    """Messages sent before their stream is read wait for the reader."""
    await agent.initialize()
    agent.channel.is_eager = False
    await agent.open_session()
    answer = await agent.post_prompt(agent.session, agent.session, "late")
    agent.assume(answer.status == 202, f"a prompt before the stream was answered with {answer.status}")
    await agent.collect()
    stream = await agent.channel.open(agent.session)
    assert agent.channel.main is not None
    ended = await agent.wait_on_either(agent.channel.main, stream, "late", agent.timeouts.turn)
    agent.require(ended is not None, "the end of a turn that began before its stream was read never comes")
    arrived = _updates(stream) or _updates(agent.channel.main)
    agent.require(arrived, "the updates of a turn that began before its stream was read are lost")


@should("agent.http.32", "http.md#typescript-sdk")
async def streams_are_not_shared(agent: HttpAgentUnderTest) -> None:
    """A second GET on a stream is refused, or takes the stream over: the two do not share it."""
    await agent.open_session()
    first = await agent.channel.ensure(agent.session)
    second = await agent.channel.open(agent.session)
    if second.answer.status != 200:
        agent.require_status(second.answer, "a second GET on a stream", 409, 400, 429)
        return
    before = len(first.events), len(second.events)
    agent.channel.streams[agent.session] = second  # so that no third one is opened
    for _ in range(3):
        await agent.run_turn("tour")
    arrived = [len(stream.events) - old for stream, old in zip((first, second), before, strict=True)]
    counts = f"{arrived[0]} events came to one, {arrived[1]} to the other"
    agent.require(0 in arrived, f"two GETs on one stream share it: {counts}")


async def _stream_with_ids(agent: HttpAgentUnderTest) -> EventStream:
    await agent.run_turn("stream")
    stream = await agent.channel.ensure(agent.session)
    agent.skip_unless(any(event.id for event in stream.events), "events have no ids")
    return stream


def _with_ids(stream: EventStream) -> list[ServerSentEvent]:
    """Return the events that a client can ask for again; a server need not keep the others."""
    return [event for event in stream.events if event.id]


@may("agent.http.33", "http.md#durability")
async def ids_are_unique(agent: HttpAgentUnderTest) -> None:
    """If events have ids, no two of one stream have the same id."""
    ids = [event.id for event in _with_ids(await _stream_with_ids(agent))]
    agent.require(len(set(ids)) == len(ids), "two events of a stream have the same id")


@may("agent.http.34", "http.md#durability")
async def cut_streams_go_on(agent: HttpAgentUnderTest) -> None:
    """If events have ids, an interrupted stream continues after Last-Event-ID."""
    stream = await _stream_with_ids(agent)
    whole = _with_ids(stream)
    middle = len(whole) // 2
    await stream.close()
    again = await agent.channel.open(agent.session, {"Last-Event-ID": whole[middle].id.decode()})
    agent.require_status(again.answer, "a GET with Last-Event-ID", 200)
    end = asyncio.get_running_loop().time() + agent.timeouts.answer
    expected = [event.data for event in whole[middle + 1 :]]
    while len(_with_ids(again)) < len(expected) and asyncio.get_running_loop().time() < end:
        again.changed.clear()
        await asyncio.wait([asyncio.ensure_future(again.changed.wait())], timeout=agent.timeouts.quiet)
    got = [event.data for event in _with_ids(again)]
    agent.require(got == expected, f"{len(got)} events came, not the {len(expected)} that follow")


@may("agent.http.35", "http.md#cookies")
async def cookies_can_be_returned(agent: HttpAgentUnderTest) -> None:
    """A cookie that the server sets has a name and a value."""
    answer = await agent.post_initialize({})
    agent.skip_unless("set-cookie" in answer.headers, "the server sets no cookie")
    agent.require(agent.channel.cookies, f"the cookie {answer.headers['set-cookie']!r} has no name or no value")
