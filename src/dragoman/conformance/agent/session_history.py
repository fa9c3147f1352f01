"""Sessions that an agent keeps: load, resume, list, close, delete, fork."""

from __future__ import annotations

import os

from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.json_shape import absolute, non_empty
from dragoman.conformance.requirement import may, must, should
from dragoman.engine.peer_info import offers

CAN = "agent.sessionCapabilities."
WORDS = "the parrot is called Ptolemy"
PAGES = 20  # no checker needs to read more of a list

# Updates about the session itself, which may come at any time.
ASIDE = frozenset(
    {"available_commands_update", "usage_update", "session_info_update", "current_mode_update", "config_option_update"}
)


def _reopen_params(agent: AgentUnderTest, session: str = "no-such-session") -> dict[str, Json]:
    return {"sessionId": session, "cwd": agent.cwd, "mcpServers": []}


async def _reopen(agent: AgentUnderTest, method: str) -> tuple[int, ReceivedFrame]:
    """Run a turn, close the session if possible, and open it again; return the number of frames before that."""
    await agent.prompt(WORDS)
    if offers("agent.sessionCapabilities.close", agent.capabilities) and agent.dialect == "v1":
        await agent.request_in_dialect("session/close", {"sessionId": agent.session})
    await agent.collect()
    start = len(agent.received)
    frame = await agent.request_in_dialect(method, _reopen_params(agent, agent.session), agent.timeouts.turn)
    return start, agent.assume_result(frame, f"{method} of a session of this very connection is refused")


async def _history_updates(agent: AgentUnderTest, kind: str) -> list[ReceivedFrame]:
    start, _ = await _reopen(agent, "session/load")
    await agent.collect()
    return agent.updates(kind, start=start)


@must("agent.session.16", "sessions.md#load, peers.md#replay", "v1 banjo crow", needs="agent.loadSession")
async def the_users_messages_are_replayed(agent: AgentUnderTest) -> None:
    """Loading a session replays the user's messages."""
    updates = await _history_updates(agent, "user_message_chunk")
    text = "".join(str((frame.update.get("content") or {}).get("text", "")) for frame in updates)
    agent.require(WORDS in text, "the replayed history lacks the user's message", *updates)


@must("agent.session.17", "sessions.md#load", "v1 banjo crow", needs="agent.loadSession")
async def the_agents_messages_are_replayed(agent: AgentUnderTest) -> None:
    """Loading a session replays the agent's messages."""
    updates = await _history_updates(agent, "agent_message_chunk")
    agent.require(updates, "the replayed history lacks the agent's message")


@must("agent.session.18", "sessions.md#load", "v1 banjo crow", needs="agent.loadSession")
async def the_history_comes_before_the_answer(agent: AgentUnderTest) -> None:
    """The whole history is sent before the answer to session/load."""
    _, frame = await _reopen(agent, "session/load")
    late = [each for each in await agent.collect() if each.kind and each.kind not in ASIDE]
    agent.require_none(late, "history was sent after the answer to session/load", frame)


@should("agent.session.40", "sessions.md#load, updates.md#frame", "v1 banjo", needs="agent.loadSession")
async def nothing_follows_a_load(agent: AgentUnderTest) -> None:
    """No update of any kind follows the answer to session/load: the client has everything by then."""
    _, frame = await _reopen(agent, "session/load")
    late = [each for each in await agent.collect() if each.kind in ASIDE]
    agent.require_none(late, "an update was sent after the answer to session/load", frame)


@should("agent.session.41", "sessions.md#load", "v1", needs="agent.loadSession")
async def an_empty_result_is_an_object(agent: AgentUnderTest) -> None:
    """The result of session/load is an object, {} if it is empty."""
    _, frame = await _reopen(agent, "session/load")
    agent.require_shape(frame.message.get("result"), dict, frame, "the result of session/load")


@must("agent.session.19", "peers.md#false-loads", needs="agent.loadSession")
async def unknown_sessions_cannot_be_loaded(agent: AgentUnderTest) -> None:
    """Loading a session that does not exist is refused."""
    await agent.initialize()
    frame = await agent.request_in_dialect("session/load", _reopen_params(agent), agent.timeouts.start)
    agent.require_error(frame, "session/load of a session that is not there")


@must("agent.session.20", "sessions.md#resume, peers.md#replay", "v1 banjo", needs=CAN + "resume")
async def resuming_sends_no_history(agent: AgentUnderTest) -> None:
    """Resuming a session does not replay its history."""
    start, _ = await _reopen(agent, "session/resume")
    await agent.collect()
    updates = [frame for frame in agent.updates(start=start) if frame.kind not in ASIDE]
    agent.require_none(updates, "session/resume sent the history again")


@must("agent.session.21", "sessions.md#resume", "v1 banjo", needs=CAN + "resume")
async def unknown_sessions_cannot_be_resumed(agent: AgentUnderTest) -> None:
    """Resuming a session that does not exist is refused."""
    await agent.initialize()
    frame = await agent.request_in_dialect("session/resume", _reopen_params(agent), agent.timeouts.start)
    agent.require_error(frame, "session/resume of a session that is not there")


async def _list_sessions(agent: AgentUnderTest, **params: Json) -> tuple[list[Json], ReceivedFrame]:
    frame = agent.assume_result(await agent.request("session/list", params), "session/list gave no list")
    sessions = frame.result.get("sessions")
    agent.assume(isinstance(sessions, list), "session/list gave no list", frame)
    return sessions, frame


@must("agent.session.22", "sessions.md#list", "v1", needs=CAN + "list")
async def listed_sessions_are_complete(agent: AgentUnderTest) -> None:
    """A list of sessions has the id and folder of each."""
    await agent.prompt(WORDS)
    frame = await agent.request("session/list", {})
    shape = {"sessionId": non_empty, "cwd": absolute, "title?": str, "updatedAt?": str}
    agent.require_result(frame, "session/list", {"sessions": [shape]})


@should("agent.session.23", "sessions.md#list", "v1", needs=CAN + "list")
async def used_sessions_are_listed(agent: AgentUnderTest) -> None:
    """A session that was used is in the list."""
    await agent.prompt(WORDS)
    sessions, frame = await _list_sessions(agent, cwd=agent.cwd)
    found = [session.get("sessionId") for session in sessions]
    agent.require(agent.session in found, "a session that was used is not in the list", frame)


@must("agent.session.24", "sessions.md#list, peers.md#session-lists", "v1", needs=CAN + "list")
async def lists_are_of_one_folder(agent: AgentUnderTest) -> None:
    """A list for one folder has only sessions of that folder."""
    await agent.prompt(WORDS)
    sessions, frame = await _list_sessions(agent, cwd="/no/such/folder")
    agent.require(not sessions, f"a list for /no/such/folder has {len(sessions)} sessions of others", frame)


async def _end_session(agent: AgentUnderTest, verb: str) -> None:
    """Close or delete the session."""
    frame = await agent.request(f"session/{verb}", {"sessionId": agent.session})
    agent.assume_result(frame, f"the session could not be {verb}d")


@must("agent.session.25", "sessions.md#close", "v1", needs=CAN + "close")
async def closed_sessions_take_no_prompt(agent: AgentUnderTest) -> None:
    """A closed session accepts no prompt."""
    await agent.open_session()
    await _end_session(agent, "close")
    turn = await agent.try_prompt("hello")
    agent.require_error(turn.answer, "a prompt in a closed session")


@must("agent.session.26", "sessions.md#close", "v1", needs=CAN + "close")
async def closing_cancels(agent: AgentUnderTest) -> None:
    """Closing a session during a turn ends the turn as cancelled."""
    turn = await agent.start_slow_turn()
    agent.assume(agent.updates(start=turn.start), "the turn showed no sign of having begun")
    await _end_session(agent, "close")
    await agent.wait_turn(turn)
    agent.require(turn.answer, "the turn of a session that was closed was not answered")
    agent.require(turn.stop == "cancelled", f"the turn of a closed session ended as {turn.stop!r}", turn.answer)


@must("agent.session.27", "sessions.md#delete", "v1", needs=CAN + "delete")
async def deleted_sessions_are_gone(agent: AgentUnderTest) -> None:
    """A deleted session is gone from the list."""
    await agent.prompt(WORDS)
    await _end_session(agent, "delete")
    agent.assume(offers("agent.sessionCapabilities.list", agent.capabilities), "the agent lists no sessions")
    sessions, frame = await _list_sessions(agent)
    gone = all(session.get("sessionId") != agent.session for session in sessions)
    agent.require(gone, "a deleted session is still in the list", frame)


@should("agent.session.28", "sessions.md#delete", "v1", needs=CAN + "delete")
async def deleting_again_succeeds(agent: AgentUnderTest) -> None:
    """Deleting a session that does not exist succeeds."""
    await agent.initialize()
    frame = await agent.request("session/delete", {"sessionId": "no-such-session"})
    agent.require_result(frame, "deleting an unknown session")


@must("agent.session.29", "sessions.md#fork", "v1", needs=CAN + "fork")
async def forks_have_their_own_id(agent: AgentUnderTest) -> None:
    """A fork has an id of its own."""
    await agent.prompt(WORDS)
    frame = await agent.request("session/fork", _reopen_params(agent, agent.session), agent.timeouts.turn)
    frame = agent.assume_result(frame, "the session could not be forked")
    agent.require_shape(frame.message["result"], {"sessionId": non_empty}, frame)
    agent.require(frame.result["sessionId"] != agent.session, "a fork has the id of its original", frame)


@must("agent.session.30", "sessions.md#roots", "v1", needs=CAN + "additionalDirectories")
async def relative_directories_are_refused(agent: AgentUnderTest) -> None:
    """Additional directories that are not absolute paths are refused."""
    params = {"cwd": agent.cwd, "mcpServers": [], "additionalDirectories": ["some/folder"]}
    await agent.require_refused("session/new", params, "an additional directory that is not an absolute path")


@must("agent.session.42", "sessions.md#roots", "v1", needs=CAN + "additionalDirectories")
async def absolute_directories_are_accepted(agent: AgentUnderTest) -> None:
    """Additional directories that are absolute paths are accepted."""
    await agent.initialize()
    folder = os.path.join(agent.cwd, "more")
    os.mkdir(folder)
    params = {"cwd": agent.cwd, "mcpServers": [], "additionalDirectories": [folder]}
    frame = await agent.request("session/new", params, agent.timeouts.start)
    agent.require_result(frame, "an additional directory")


@should("agent.session.33", "sessions.md#load", needs="agent.loadSession")
async def a_refused_load_does_no_harm(agent: AgentUnderTest) -> None:
    """A load that was refused does not affect other sessions."""
    await agent.open_session()
    await agent.request_in_dialect("session/load", _reopen_params(agent))
    await agent.require_turn_result("plain", "a prompt after a load that was refused")


@must("agent.session.34", "sessions.md#list", "v1", needs=CAN + "list")
async def lists_end(agent: AgentUnderTest) -> None:
    """The list ends: no cursor leads back to itself."""
    await agent.open_session()
    cursors: set[str] = set()
    params: dict[str, Json] = {}
    for _ in range(PAGES):
        _, frame = await _list_sessions(agent, **params)
        cursor = frame.result.get("nextCursor")
        if cursor is None:
            return
        agent.require(cursor not in cursors, "a page of the list leads back to one that was read", frame)
        cursors.add(cursor)
        params = {"cursor": cursor}


@may("agent.session.35", "sessions.md#close", "v1", needs=CAN + "close")
async def unknown_sessions_may_be_closed(agent: AgentUnderTest) -> None:
    """Closing a session that does not exist may be refused, with the error for an unknown session."""
    # A result and an error are both fine, because nothing is open.
    await agent.initialize()
    frame = await agent.request("session/close", {"sessionId": "no-such-session"})
    if frame and frame.error.get("code") == -32601:
        agent.inconclusive("session/close is offered and not there", frame)
    if frame is None or "error" in frame.message:
        agent.require_error(frame, "closing a session that is not there", -32002, -32602)
