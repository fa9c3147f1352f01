"""Old sessions of a v2 agent: list, resume with and without a replay, close, delete."""

from __future__ import annotations

from dragoman.conformance.agent.v2.rpc import INVALID_PARAMS
from dragoman.conformance.agent.v2.work import ends, run_work, start_slow_work, state, states, updates, wire
from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.json_shape import absolute, non_empty
from dragoman.conformance.requirement import must

NOT_FOUND = -32002
MESSAGES = ("user_message", "user_message_chunk", "agent_message", "agent_message_chunk")


async def _resume(agent: AgentUnderTest, replay: Json = None, session: str = "") -> tuple[ReceivedFrame | None, int]:
    """Resume a session; return the answer and the number of frames before the request."""
    start = len(agent.received)
    params = {"sessionId": session or agent.session, "cwd": agent.cwd, **({"replayFrom": replay} if replay else {})}
    return await agent.request("session/resume", params, agent.timeouts.turn), start


async def _replay(agent: AgentUnderTest) -> tuple[ReceivedFrame, int]:
    frame, start = await _resume(agent, {"type": "start"})
    return agent.assume_result(frame, "the session was not replayed"), start


@must("agent.v2resume.01", "v2.md#list")
async def sessions_are_listed(agent: AgentUnderTest) -> None:
    """session/list has the open session, with its absolute folder."""
    await agent.open_session()
    await run_work(agent, "plain")
    frame = await agent.request("session/list", {})
    shape = {"sessions": [{"sessionId": non_empty, "cwd": absolute}]}
    found = agent.require_result(frame, "session/list", shape)["sessions"]
    ids = [each["sessionId"] for each in found]
    agent.require(agent.session in ids, "session/list lacks the open session", frame)


@must("agent.v2resume.02", "v2.md#list")
async def a_folder_selects_sessions(agent: AgentUnderTest) -> None:
    """session/list with a folder lists only sessions of that folder."""
    await agent.open_session()
    frame = agent.assume_result(await agent.request("session/list", {"cwd": "/no/such/folder"}), "no list came")
    agent.require(frame.result.get("sessions") == [], "the list has sessions of other folders", frame)


@must("agent.v2resume.03", "v2.md#list")
async def unknown_cursors_are_refused(agent: AgentUnderTest) -> None:
    """session/list with an unknown cursor is refused with -32602."""
    await agent.require_refused("session/list", {"cursor": "no such cursor"}, "an unknown cursor", INVALID_PARAMS)


@must("agent.v2resume.04", "v2.md#resume")
async def a_state_comes_before_the_answer(agent: AgentUnderTest) -> None:
    """session/resume without a replay sends one state before its answer."""
    await agent.open_session()
    frame, start = await _resume(agent)
    agent.require_result(frame, "session/resume")
    agent.require(states(agent, start, agent.session), "session/resume told no state before its answer", frame)


@must("agent.v2resume.05", "v2.md#resume")
async def a_plain_resume_replays_nothing(agent: AgentUnderTest) -> None:
    """session/resume without replayFrom sends no messages."""
    await run_work(agent, "plain")
    frame, start = await _resume(agent)
    agent.assume_result(frame, "the session was not resumed")
    agent.require_none(updates(agent, *MESSAGES, start=start), "a resume without a replay sent messages")


@must("agent.v2resume.06", "v2.md#resume")
async def a_replay_has_the_messages(agent: AgentUnderTest) -> None:
    """A replay from the start has the messages of the user and of the agent."""
    await run_work(agent, "plain")
    frame, start = await _resume(agent, {"type": "start"})
    agent.require_result(frame, "session/resume with a replay")
    kinds = {str(wire(each)["sessionUpdate"]).removesuffix("_chunk") for each in updates(agent, *MESSAGES, start=start)}
    missing = {"user_message", "agent_message"} - kinds
    agent.require(not missing, f"the replay has no {', '.join(sorted(missing))}", frame)


@must("agent.v2resume.07", "v2.md#resume")
async def a_replay_tells_the_state(agent: AgentUnderTest) -> None:
    """A replay from the start sends a state before its answer."""
    await run_work(agent, "plain")
    frame, start = await _replay(agent)
    agent.require(states(agent, start, agent.session), "a replay told no state before its answer", frame)


@must("agent.v2resume.08", "v2.md#resume")
async def replayed_ids_stay(agent: AgentUnderTest) -> None:
    """The messages of a second replay have the ids of the first."""
    await run_work(agent, "plain")
    _, first = await _replay(agent)
    _, second = await _replay(agent)
    before = [wire(each).get("messageId") for each in updates(agent, *MESSAGES, start=first)]
    after = [wire(each).get("messageId") for each in updates(agent, *MESSAGES, start=second)]
    before = before[: len(before) - len(after)]
    agent.require(before == after, "the second replay has other message ids", agent.received[-1])


@must("agent.v2resume.09", "v2.md#resume")
async def a_replayed_message_begins_anew(agent: AgentUnderTest) -> None:
    """A replayed message is sent whole, or emptied before its chunks, so that nobody shows it twice."""
    await run_work(agent, "plain")
    _, start = await _replay(agent)
    begun = set()
    for frame in updates(agent, *MESSAGES, start=start):
        update = wire(frame)
        is_chunk = str(update["sessionUpdate"]).endswith("_chunk")
        id = update.get("messageId")
        why = "a replayed message begins with a chunk: a client that shows it already sees it twice"
        agent.require(not is_chunk or id in begun, why, frame)
        begun.add(id)


@must("agent.v2resume.10", "v2.md#resume")
async def unknown_places_are_refused(agent: AgentUnderTest) -> None:
    """A replay from an unknown place is refused with -32602."""
    await agent.open_session()
    frame, _ = await _resume(agent, {"type": "full-moon"})
    agent.require_error(frame, "a replay from an unknown place", INVALID_PARAMS)


@must("agent.v2resume.11", "v2.md#errors")
async def unknown_sessions_are_not_resumed(agent: AgentUnderTest) -> None:
    """session/resume of an unknown session is refused with -32002 and the id of the session."""
    await agent.initialize()
    frame, _ = await _resume(agent, session="no-such-session")
    data = agent.require_error(frame, "the resume of an unknown session", NOT_FOUND).get("data")
    named = isinstance(data, dict) and data.get("sessionId") == "no-such-session"
    agent.require(named, "the error does not name the session", frame)


@must("agent.v2resume.12", "v2.md#errors")
async def unknown_sessions_are_not_prompted(agent: AgentUnderTest) -> None:
    """A prompt for an unknown session is refused with -32002."""
    params = {"sessionId": "no-such-session", "prompt": [{"type": "text", "text": "hello"}]}
    await agent.require_refused("session/prompt", params, "a prompt for an unknown session", NOT_FOUND)


@must("agent.v2resume.13", "v2.md#resume")
async def notices_are_not_replayed(agent: AgentUnderTest) -> None:
    """Notices are not replayed."""
    await run_work(agent, "notice")
    agent.assume(updates(agent, "notice"), "the agent sent no notice")
    _, start = await _replay(agent)
    agent.require_none(updates(agent, "notice", start=start), "a notice was replayed")


@must("agent.v2resume.14", "v2.md#close")
async def a_session_is_closed(agent: AgentUnderTest) -> None:
    """session/close is answered with an object."""
    await agent.open_session()
    agent.require_result(await agent.request("session/close", {"sessionId": agent.session}), "session/close", dict)


@must("agent.v2resume.15", "v2.md#close")
async def close_ends_the_work_first(agent: AgentUnderTest) -> None:
    """session/close during work tells idle before its answer."""
    work = await start_slow_work(agent)
    frame = await agent.request("session/close", {"sessionId": agent.session}, agent.timeouts.turn)
    agent.assume_result(frame, "the session was not closed")
    told = [each for each in states(agent, work.start) if state(each) == "idle"]
    agent.require(told, "the session was closed during work, and idle was not told before the answer", frame)


@must("agent.v2resume.16", "v2.md#close")
async def nothing_follows_a_close(agent: AgentUnderTest) -> None:
    """After the answer to session/close no update of that session comes."""
    await start_slow_work(agent)
    frame = await agent.request("session/close", {"sessionId": agent.session}, agent.timeouts.turn)
    agent.assume_result(frame, "the session was not closed")
    late = [each for each in await agent.collect() if each.wire_params.get("sessionId") == agent.session]
    agent.require_none(late, "an update of a closed session came")


@must("agent.v2resume.17", "v2.md#close")
async def a_closed_session_takes_no_prompt(agent: AgentUnderTest) -> None:
    """A prompt for a closed session is refused."""
    await agent.open_session()
    agent.assume_result(await agent.request("session/close", {"sessionId": agent.session}), "it was not closed")
    params = {"sessionId": agent.session, "prompt": [{"type": "text", "text": "hello"}]}
    agent.require_error(await agent.request("session/prompt", params), "a prompt for a closed session")


@must("agent.v2resume.18", "v2.md#resume")
async def a_resumed_session_works(agent: AgentUnderTest) -> None:
    """A session that was closed and resumed takes prompts."""
    await agent.open_session()
    agent.assume_result(await agent.request("session/close", {"sessionId": agent.session}), "it was not closed")
    frame, _ = await _resume(agent)
    agent.require_result(frame, "the resume of a closed session")
    work = await run_work(agent, "plain")
    agent.require(ends(agent, work), "a resumed session does not work")


@must("agent.v2resume.19", "v2.md#list", needs="agent.sessionCapabilities.delete")
async def deleted_sessions_are_gone(agent: AgentUnderTest) -> None:
    """A deleted session is not listed."""
    await run_work(agent, "plain")
    frame = await agent.request("session/delete", {"sessionId": agent.session})
    agent.require_result(frame, "session/delete")
    listed = agent.assume_result(await agent.request("session/list", {}), "no list came").result.get("sessions") or []
    ids = [each.get("sessionId") for each in listed if isinstance(each, dict)]
    agent.require(agent.session not in ids, "a deleted session is listed", agent.received[-1])
