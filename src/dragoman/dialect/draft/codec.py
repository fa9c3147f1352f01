"""The draft's spelling: for each receiving side a table of calls and one of results, method -> (lift, lower).

Wire JSON in, vocabulary JSON out, and back; pure and without memory. Below are the modules of the objects,
above is the engine, with the ledger between for what takes a memory. The draft renames no method.
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.draft import initialize, permission, session, update, workspace
from dragoman.dialect.draft.tables import DIALECT, SAID_TO_AGENT, SAID_TO_CLIENT
from dragoman.dialect.mapping import Pair, Row
from dragoman.dialect.reshape import Json
from dragoman.dialect.side_data import cleared, cleared_initialize, plain
from dragoman.errors import Unsayable

_CALLS_TO_AGENT: Final[dict[str, Pair]] = {
    "initialize": (initialize.lift_initialize, initialize.lower_initialize),
    "authenticate": session.AUTHENTICATE.pair,
    "session/new": (session.lift_new, session.lower_new),
    "session/load": session.LOAD.pair,
    "session/prompt": (session.lift_prompt, session.lower_prompt),
    "session/cancel": session.CANCEL.pair,
    "session/set_mode": session.SET_MODE.pair,
    "session/set_config_option": (session.lift_set_option, session.lower_set_option),
    "terminal/output": workspace.PUSH.pair,
}
_CALLS_TO_CLIENT: Final[dict[str, Pair]] = {
    "session/update": (update.lift_update, update.lower_update),
    "session/request_permission": (permission.lift_request, permission.lower_request),
    "fs/read_text_file": (workspace.lift_read, workspace.lower_read),
    "fs/write_text_file": workspace.WRITE.pair,
    "terminal/create": (workspace.lift_create, workspace.lower_create),
    "terminal/output": workspace.POLL.pair,
    "terminal/wait_for_exit": workspace.WAIT.pair,
    "terminal/kill": workspace.KILL.pair,
    "terminal/release": workspace.RELEASE.pair,
}
_AS_IT_IS: Final = Row().pair
_RESULTS_OF_AGENT: Final[dict[str, Pair]] = {
    "initialize": (initialize.lift_initialized, initialize.lower_initialized),
    "authenticate": (session.lift_authenticated, session.AUTHENTICATED.lower),
    "session/new": session.CREATED.pair,
    "session/load": session.LOADED.pair,
    "session/prompt": (session.lift_prompted, session.lower_prompted),
    "session/set_mode": session.MODE_SET.pair,
    "session/set_config_option": session.OPTION_SET.pair,
    "terminal/output": _AS_IT_IS,
}
_RESULTS_OF_CLIENT: Final[dict[str, Pair]] = {
    "session/request_permission": (permission.lift_answer, permission.lower_answer),
    "fs/read_text_file": workspace.READ_RESULT.pair,
    "fs/write_text_file": workspace.WRITTEN.pair,
    "terminal/create": workspace.CREATED.pair,
    "terminal/output": _AS_IT_IS,
    "terminal/wait_for_exit": (workspace.EXITED.lift, workspace.lower_exited),
    "terminal/kill": workspace.done_or_not("killed"),
    "terminal/release": workspace.done_or_not("released"),
}


def lift_call(side: str, method: str, params: Json) -> tuple[str, Json]:
    """A request or notification of a draft peer, in the vocabulary; `side` receives it."""
    pair = (_CALLS_TO_AGENT if side == "agent" else _CALLS_TO_CLIENT).get(method)
    if pair is None or type(params) is not dict:
        return method, cleared(params)
    if method == "session/update":  # many, and cleared where the plain ones are already gone
        return method, pair[0](params)
    return method, pair[0](cleared_initialize(params) if method == "initialize" else cleared(params))


def lower_call(side: str, method: str, params: Json) -> tuple[str, Json]:
    """A request or notification for a draft peer; raises `Unsayable` for what the draft has no words for."""
    pair = (_CALLS_TO_AGENT if side == "agent" else _CALLS_TO_CLIENT).get(method)
    if pair is None:
        _check_said(side, method)
        return method, plain(params)
    if type(params) is not dict:
        return method, params
    return method, pair[1](params) if method == "session/update" else plain(pair[1](params))


def _check_said(side: str, method: str) -> None:
    said = SAID_TO_AGENT if side == "agent" else SAID_TO_CLIENT
    if not method.startswith(("_", "$/")) and method not in said:
        raise Unsayable(DIALECT, method)


def lift_result(side: str, method: str, result: Json) -> Json:
    """A draft peer's answer to a call that `side` received."""
    pair = (_RESULTS_OF_AGENT if side == "agent" else _RESULTS_OF_CLIENT).get(method)
    said = cleared(result)
    return pair[0](said) if pair is not None and type(said) is dict else said


def lower_result(side: str, method: str, result: Json) -> Json:
    """An answer for a draft peer; raises `Unsayable` as the call would."""
    pair = (_RESULTS_OF_AGENT if side == "agent" else _RESULTS_OF_CLIENT).get(method)
    if pair is None:
        _check_said(side, method)
        return plain(result)
    # v1 peers answer null where there is nothing to say (reference 1.1).
    answer = {} if result is None else result
    return plain(pair[1](answer)) if type(answer) is dict else answer
