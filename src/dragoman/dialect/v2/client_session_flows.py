"""The sessions of a v2 client: flows of the calls that open, list and close them, and that set their options.

v2 requires more of agents than v1: every session can be listed, resumed and closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.dialect.emulator import Deliver, Flow, FlowMaker, Pass, Sleep, Start, Stop, Wait, Wake
from dragoman.dialect.side_data import get_member
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.base import to_json
from dragoman.schema.config import SetModeParams
from dragoman.schema.prompt import CancelParams
from dragoman.schema.session import CloseSessionResult, ListSessionsResult, LoadSessionParams, SessionInfo
from dragoman.schema.update import ConfigOptionUpdate, SessionState

if TYPE_CHECKING:
    from dragoman.dialect.v2.client_emulator import ClientEmulator

# How long session/close waits for the end of a turn. Seconds.
CLOSE_TIMEOUT: Final = 5.0


def new_session(emulator: ClientEmulator, params: Any) -> Flow:
    """Pass session/new or session/fork; commands that come before the answer become part of it."""
    emulator.opening_count += 1
    try:
        result = yield Pass(params)
    finally:
        emulator.opening_count -= 1
    session = emulator.session_of(get_member(result, "session_id"))
    session.cwd, session.is_opening = params.cwd, False
    return session.opening_result(result)


def load_session(emulator: ClientEmulator, params: Any) -> Flow:
    """Replay a session; every replay ends with a state."""
    if not emulator.can_load:
        raise ProtocolError(Kind.INVALID_PARAMS, "the agent cannot replay a session; resume it without replayFrom")
    session = emulator.session_of(params.session_id)
    session.cwd = params.cwd
    session.begin_reopening()
    session.ids.restart()
    session.is_replaying = True
    try:
        result = yield Pass(params)
    finally:
        session.is_replaying = session.is_reopening = False
        session.ids.end_message()
    yield from emulator.tell_state(session, SessionState.RUNNING if session.running else session.state)
    return session.opening_result(result)


def resume_session(emulator: ClientEmulator, params: Any) -> Flow:
    """Resume a session without its history, by session/load if the agent has nothing else."""
    session = emulator.session_of(params.session_id)
    session.cwd = params.cwd
    session.begin_reopening()
    if emulator.can_resume:
        try:
            result = yield Pass(params)
        finally:
            session.is_reopening = False
    elif emulator.can_load:
        session.is_silent = True
        try:
            load = LoadSessionParams(
                session_id=params.session_id,
                cwd=params.cwd,
                mcp_servers=params.mcp_servers or [],
                additional_directories=params.additional_directories,
            )
            result = yield Deliver("session/load", load)
        finally:
            session.is_silent = session.is_reopening = False
    else:
        raise ProtocolError(Kind.METHOD_NOT_FOUND, "the agent cannot open stored sessions; start a new one")
    yield from emulator.tell_state(session, SessionState.RUNNING if session.running else session.state)
    return session.opening_result(result)


def close_session(emulator: ClientEmulator, params: Any) -> Flow:
    """End the turn of a session, tell its end, then close it; nothing is sent for it afterwards."""
    session = emulator.session_of(params.session_id)
    yield from emulator.refuse_held(session)
    yield from emulator.questions.cancel(session)
    result: Any = CloseSessionResult()
    if session.running is not None:
        session.running.is_cancelled = True
        if not emulator.can_close:
            yield Deliver("session/cancel", CancelParams(session_id=session.id), request=False)
    if emulator.can_close:
        result = yield Pass(params)
    if session.running is not None:
        yield Start(_wake_later(f"idle {session.id}", CLOSE_TIMEOUT), name=f"close {session.id}")
        yield Wait(f"idle {session.id}")
        yield Stop(f"close {session.id}")
    session.is_closed = True
    return result


def _wake_later(key: str, seconds: float) -> Flow:
    yield Sleep(seconds)
    yield Wake(key)


def list_sessions(emulator: ClientEmulator, params: Any) -> Flow:
    """Pass session/list; for an agent without it, list the sessions of this connection."""
    if emulator.can_list:
        return (yield Pass(params))
    known = [SessionInfo(session_id=each.id, cwd=each.cwd) for each in emulator.sessions.values() if not each.is_closed]
    return ListSessionsResult(sessions=[each for each in known if not params.cwd or each.cwd == params.cwd])


def set_option(emulator: ClientEmulator, params: Any) -> Flow:
    """Set an option, or the mode that an option stands for; tell all options before the answer."""
    session = emulator.session_of(params.session_id)
    if session.options.is_mode(params.config_id):
        yield Deliver("session/set_mode", SetModeParams(session_id=session.id, mode_id=params.value))
        session.options.set_mode(params.value)
        result: Any = {}
    else:
        result = yield Pass(params)
        session.options.set_all(get_member(result, "config_options"))
    yield emulator.notification_of(session, ConfigOptionUpdate(config_options=session.options.all))
    return {"configOptions": [to_json(option) for option in session.options.all]}


def log_in(emulator: ClientEmulator, params: Any) -> Flow:
    """Pass auth/login or auth/logout; an agent without auth methods has neither."""
    if not emulator.has_login:
        raise ProtocolError(Kind.METHOD_NOT_FOUND, "this agent has no auth methods, so there is no login")
    return (yield Pass(params))


def cancel_tool_call(emulator: ClientEmulator, params: Any) -> Flow:
    """Pass the cancel of one tool call or terminal; agents of other dialects cannot do it."""
    try:
        return (yield Pass(params))
    except ProtocolError as error:
        if error.kind in (Kind.CAPABILITY_UNSUPPORTED, Kind.METHOD_NOT_FOUND):
            raise ProtocolError(Kind.INVALID_PARAMS, "the agent cannot cancel it alone; cancel the turn") from error
        raise


SESSION_FLOWS: Final[dict[str, FlowMaker]] = {
    "authenticate": log_in,
    "logout": log_in,
    "session/new": new_session,
    "session/fork": new_session,
    "session/load": load_session,
    "session/resume": resume_session,
    "session/close": close_session,
    "session/list": list_sessions,
    "session/set_config_option": set_option,
    "tool_call/cancel": cancel_tool_call,
    "terminal/cancel": cancel_tool_call,
}
