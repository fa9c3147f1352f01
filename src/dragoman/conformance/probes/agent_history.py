"""Probes of what an agent keeps of its sessions: load, resume, list, close, delete, fork."""

from __future__ import annotations

from typing import Any

from dragoman.conformance.harness.agent import AgentStage
from dragoman.conformance.harness.peer import Heard, Json
from dragoman.conformance.json_shape import absolute, fault, some
from dragoman.conformance.probe import probe
from dragoman.conformance.probes.agent_cancel import running
from dragoman.engine.peer_info import offers

WORDS = "the parrot is called Ptolemy"
PAGES = 20  # no checker needs to read more of a list

# Updates that tell of the session, not of what was said in it; they may come at any time.
ASIDE = frozenset(
    {"available_commands_update", "usage_update", "session_info_update", "current_mode_update", "config_option_update"}
)


def _place(stage: AgentStage) -> dict[str, Any]:
    return {"cwd": stage.cwd, "mcpServers": []}


async def _again(stage: AgentStage, method: str) -> tuple[int, Heard]:
    """Say something, close the session where that can be done, and take it up again; gives where that begins."""
    await stage.opened()
    await stage.prompted(WORDS)
    if offers("agent.sessionCapabilities.close", stage.capabilities) and stage.dialect == "v1":
        await stage.requested("session/close", {"sessionId": stage.session})
    await stage.silence()
    start = len(stage.heard)
    heard = await stage.requested(method, {"sessionId": stage.session, **_place(stage)}, stage.pace.turn)
    if heard is None or "error" in heard.message:
        stage.unsure(f"{method} of a session of this very connection is refused", heard)
    assert heard is not None
    return start, heard


async def _told(stage: AgentStage, kind: str) -> list[Heard]:
    start, _ = await _again(stage, "session/load")
    await stage.silence()
    return stage.updates(kind, start)


@probe("agent.session.16")
async def the_users_words_are_told_again(stage: AgentStage) -> None:
    """As they were said."""
    told = await _told(stage, "user_message_chunk")
    text = "".join(str((heard.update.get("content") or {}).get("text", "")) for heard in told)
    stage.require(WORDS in text, "the history that was told lacks what the user said", *told)


@probe("agent.session.17")
async def the_agents_words_are_told_again(stage: AgentStage) -> None:
    """Any of them: an agent may shorten."""
    stage.require(await _told(stage, "agent_message_chunk"), "the history that was told lacks what the agent said")


@probe("agent.session.18")
async def the_history_comes_before_the_answer(stage: AgentStage) -> None:
    """The answer means: this was all."""
    _, heard = await _again(stage, "session/load")
    late = [each for each in await stage.silence() if each.kind and each.kind not in ASIDE]
    stage.require(not late, "history was told after the answer to session/load", heard, *late)


@probe("agent.session.19")
async def unknown_sessions_cannot_be_loaded(stage: AgentStage) -> None:
    """Success would be an empty history of nothing."""
    await stage.initialized()
    heard = await stage.requested("session/load", {"sessionId": "no-such-session", **_place(stage)})
    stage.refused(heard, "session/load of a session that is not there")


@probe("agent.session.20")
async def resuming_tells_no_history(stage: AgentStage) -> None:
    """The client has it already."""
    start, _ = await _again(stage, "session/resume")
    await stage.silence()
    told = [heard for heard in stage.updates(start=start) if heard.kind not in ASIDE]
    stage.require(not told, "session/resume told the history again", *told)


@probe("agent.session.21")
async def unknown_sessions_cannot_be_resumed(stage: AgentStage) -> None:
    """Success would be a session without its past."""
    await stage.initialized()
    heard = await stage.requested("session/resume", {"sessionId": "no-such-session", **_place(stage)})
    stage.refused(heard, "session/resume of a session that is not there")


async def _listed(stage: AgentStage, **params: Json) -> tuple[list[Json], Heard]:
    heard = await stage.asked("session/list", params)
    result = heard.message.get("result") if heard else None
    if not isinstance(result, dict) or not isinstance(result.get("sessions"), list):
        stage.unsure("session/list gave no list", heard)
    assert isinstance(result, dict)
    assert heard is not None
    return result["sessions"], heard


@probe("agent.session.22")
async def listed_sessions_are_whole(stage: AgentStage) -> None:
    """Enough to load each."""
    await stage.opened()
    await stage.prompted(WORDS)
    heard = await stage.asked("session/list", {})
    result = stage.granted(heard, "session/list")
    words = fault(result, {"sessions": [{"sessionId": some, "cwd": absolute, "title?": str, "updatedAt?": str}]})
    stage.require(not words, words, heard)


@probe("agent.session.23")
async def used_sessions_are_listed(stage: AgentStage) -> None:
    """After one turn."""
    await stage.opened()
    await stage.prompted(WORDS)
    sessions, heard = await _listed(stage, cwd=stage.cwd)
    found = [session.get("sessionId") for session in sessions]
    stage.require(stage.session in found, "a session that was used is not in the list", heard)


@probe("agent.session.24")
async def lists_are_of_one_folder(stage: AgentStage) -> None:
    """A folder where nothing ever happened."""
    await stage.opened()
    await stage.prompted(WORDS)
    sessions, heard = await _listed(stage, cwd="/no/such/folder")
    stage.require(not sessions, f"a list for /no/such/folder has {len(sessions)} sessions of others", heard)


@probe("agent.session.25")
async def closed_sessions_take_no_prompt(stage: AgentStage) -> None:
    """Closed is closed until it is loaded or resumed."""
    await stage.opened()
    closed = await stage.asked("session/close", {"sessionId": stage.session})
    if closed is None or "error" in closed.message:
        stage.unsure("the session could not be closed", closed)
    turn = await stage.ended(stage.begin("hello"))
    stage.refused(turn.answer, "a prompt in a closed session")


@probe("agent.session.26")
async def closing_cancels(stage: AgentStage) -> None:
    """As session/cancel would."""
    turn = await running(stage)
    if not stage.updates(start=turn.start):
        stage.unsure("the turn showed no sign of having begun")
    closed = await stage.asked("session/close", {"sessionId": stage.session})
    if closed is None or "error" in closed.message:
        stage.unsure("the session could not be closed", closed)
    await stage.ended(turn)
    stage.require(turn.answer, "the turn of a session that was closed was not answered")
    stage.require(turn.stop == "cancelled", f"the turn of a closed session ended as {turn.stop!r}", turn.answer)


@probe("agent.session.27")
async def deleted_sessions_are_gone(stage: AgentStage) -> None:
    """From the list at least."""
    await stage.opened()
    await stage.prompted(WORDS)
    deleted = await stage.asked("session/delete", {"sessionId": stage.session})
    if deleted is None or "error" in deleted.message:
        stage.unsure("the session could not be deleted", deleted)
    if not offers("agent.sessionCapabilities.list", stage.capabilities):
        stage.unsure("the agent lists no sessions")
    sessions, heard = await _listed(stage)
    gone = all(session.get("sessionId") != stage.session for session in sessions)
    stage.require(gone, "a deleted session is still in the list", heard)


@probe("agent.session.28")
async def deleting_again_succeeds(stage: AgentStage) -> None:
    """Whoever deletes wants it gone, and gone it is."""
    await stage.initialized()
    stage.granted(await stage.asked("session/delete", {"sessionId": "no-such-session"}), "deleting an unknown session")


@probe("agent.session.29")
async def forks_have_their_own_id(stage: AgentStage) -> None:
    """Else the original is lost."""
    await stage.opened()
    await stage.prompted(WORDS)
    heard = await stage.asked("session/fork", {"sessionId": stage.session, **_place(stage)}, stage.pace.turn)
    if heard is None or "error" in heard.message:
        stage.unsure("the session could not be forked", heard)
    assert heard is not None
    words = fault(heard.message["result"], {"sessionId": some})
    stage.require(not words, words, heard)
    stage.require(heard.message["result"]["sessionId"] != stage.session, "a fork has the id of its original", heard)


@probe("agent.session.30")
async def relative_directories_are_refused(stage: AgentStage) -> None:
    """Never dropped without a word."""
    await stage.initialized()
    params = {**_place(stage), "additionalDirectories": ["some/folder"]}
    stage.refused(await stage.asked("session/new", params), "a further directory that is no absolute path")


@probe("agent.session.33")
async def a_refused_load_does_no_harm(stage: AgentStage) -> None:
    """The session that was open takes a prompt afterwards."""
    await stage.opened()
    await stage.requested("session/load", {"sessionId": "no-such-session", **_place(stage)})
    turn = await stage.ended(stage.begin(stage.words("plain")))
    stage.granted(turn.answer, "a prompt after a load that was refused")


@probe("agent.session.34")
async def lists_end(stage: AgentStage) -> None:
    """Page by page."""
    await stage.opened()
    cursors: set[str] = set()
    params: dict[str, Json] = {}
    for _ in range(PAGES):
        _, heard = await _listed(stage, **params)
        cursor = heard.message["result"].get("nextCursor")
        if cursor is None:
            return
        stage.require(cursor not in cursors, "a page of the list leads back to one that was read", heard)
        cursors.add(cursor)
        params = {"cursor": cursor}


@probe("agent.session.35")
async def unknown_sessions_may_be_closed(stage: AgentStage) -> None:
    """Nothing is open, which is what was wanted; or it is told that nothing was."""
    await stage.initialized()
    heard = await stage.asked("session/close", {"sessionId": "no-such-session"})
    error = heard.message.get("error") if heard else None
    if isinstance(error, dict) and error.get("code") == -32601:
        stage.unsure("session/close is offered and not there", heard)
    if heard is None or error is not None:
        stage.refused(heard, "closing a session that is not there", -32002, -32602)
