"""The draft codec: for each receiving side a table of calls and one of results, method -> (lift, lower).

Wire JSON in, vocabulary JSON out, and back; pure and stateless. The emulator does what needs memory. The draft renames
no method.
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.draft import initialize, permission, session, update, workspace
from dragoman.dialect.draft.tables import NAME, V1_METHODS_TO_AGENT, V1_METHODS_TO_CLIENT
from dragoman.dialect.mapping import ConversionPair, ObjectMapping
from dragoman.dialect.reshape import Json
from dragoman.dialect.side_data import strip_initialize_side_data, strip_private, strip_side_data
from dragoman.errors import Unsayable

_CALLS_TO_AGENT: Final[dict[str, ConversionPair]] = {
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
_CALLS_TO_CLIENT: Final[dict[str, ConversionPair]] = {
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
_UNCHANGED_CONVERSION: Final = ObjectMapping().pair
_RESULTS_OF_AGENT: Final[dict[str, ConversionPair]] = {
    "initialize": (initialize.lift_initialize_result, initialize.lower_initialize_result),
    "authenticate": (session.lift_authenticate_result, session.AUTHENTICATE_RESULT.lower),
    "session/new": session.NEW_RESULT.pair,
    "session/load": session.LOAD_RESULT.pair,
    "session/prompt": (session.lift_prompt_result, session.lower_prompt_result),
    "session/set_mode": session.SET_MODE_RESULT.pair,
    "session/set_config_option": session.SET_OPTION_RESULT.pair,
    "terminal/output": _UNCHANGED_CONVERSION,
}
_RESULTS_OF_CLIENT: Final[dict[str, ConversionPair]] = {
    "session/request_permission": (permission.lift_answer, permission.lower_answer),
    "fs/read_text_file": workspace.READ_RESULT.pair,
    "fs/write_text_file": workspace.WRITE_RESULT.pair,
    "terminal/create": workspace.CREATE_RESULT.pair,
    "terminal/output": _UNCHANGED_CONVERSION,
    "terminal/wait_for_exit": (workspace.lift_wait_result, workspace.lower_wait_result),
    "terminal/kill": workspace.flag_result_conversion("killed"),
    "terminal/release": workspace.flag_result_conversion("released"),
}


def lift_call(side: str, method: str, params: Json) -> tuple[str, Json]:
    """Lift a call of a draft peer; `side` receives it."""
    pair = (_CALLS_TO_AGENT if side == "agent" else _CALLS_TO_CLIENT).get(method)
    if pair is None or type(params) is not dict:
        return method, strip_side_data(params)
    if method == "session/update":  # frequent; private members are already gone from the plain ones
        return method, pair[0](params)
    return method, pair[0](strip_initialize_side_data(params) if method == "initialize" else strip_side_data(params))


def lower_call(side: str, method: str, params: Json) -> tuple[str, Json]:
    """Lower a call for a draft peer; raise if the draft cannot express it."""
    pair = (_CALLS_TO_AGENT if side == "agent" else _CALLS_TO_CLIENT).get(method)
    if pair is None:
        _check_supported(side, method)
        return method, strip_private(params)
    if type(params) is not dict:
        return method, params
    return method, pair[1](params) if method == "session/update" else strip_private(pair[1](params))


def _check_supported(side: str, method: str) -> None:
    said = V1_METHODS_TO_AGENT if side == "agent" else V1_METHODS_TO_CLIENT
    if not method.startswith(("_", "$/")) and method not in said:
        raise Unsayable(NAME, method)


def lift_result(side: str, method: str, result: Json) -> Json:
    """Lift a draft peer's answer to a call that `side` received."""
    pair = (_RESULTS_OF_AGENT if side == "agent" else _RESULTS_OF_CLIENT).get(method)
    said = strip_side_data(result)
    return pair[0](said) if pair is not None and type(said) is dict else said


def lower_result(side: str, method: str, result: Json) -> Json:
    """Lower an answer for a draft peer; raise as the call would."""
    pair = (_RESULTS_OF_AGENT if side == "agent" else _RESULTS_OF_CLIENT).get(method)
    if pair is None:
        _check_supported(side, method)
        return strip_private(result)
    # v1 peers answer null for an empty result (docs/protocol/json-rpc.md#results).
    answer = {} if result is None else result
    return strip_private(pair[1](answer)) if type(answer) is dict else answer
