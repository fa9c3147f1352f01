"""The v2 codec: for each receiving side a table of calls and one of results, method -> (lift, lower).

Wire JSON in, vocabulary JSON out, and back; pure and stateless. The emulators do what needs memory: prompts that are
answered at once, message ids, modes and states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dragoman.dialect.reshape import Json, Object
from dragoman.dialect.side_data import strip_initialize_side_data, strip_private, strip_side_data
from dragoman.dialect.v1.tables import EXTENSION_PREFIXES
from dragoman.dialect.v2 import initialize, permission, session, update
from dragoman.dialect.v2.tables import DROPPED_METHODS, METHOD_NAMES, NAME
from dragoman.errors import Kind, ProtocolError, Unsayable
from dragoman.schema.side import Side

Conversion = Callable[[Object], Object]
Pair = tuple[Conversion, Conversion]

# By the side that receives the call and the method of the vocabulary.
_CALLS: Final[dict[tuple[Side, str], Pair]] = {
    (Side.AGENT, "initialize"): (initialize.lift_initialize, initialize.lower_initialize),
    (Side.AGENT, "session/new"): (session.lift_open, session.lower_open),
    (Side.AGENT, "session/fork"): (session.lift_open, session.lower_open),
    (Side.AGENT, "session/load"): (session.lift_open, session.lower_load),
    (Side.AGENT, "session/resume"): (session.lift_open, session.lower_open),
    (Side.AGENT, "session/set_config_option"): (session.lift_set_option, session.lower_set_option),
    (Side.CLIENT, "session/update"): (update.lift_update, update.lower_update),
    (Side.CLIENT, "session/request_permission"): (permission.lift_request, permission.lower_request),
}
_OPEN_RESULT: Final[Pair] = (session.lift_open_result, session.lower_open_result)
_RESULTS: Final[dict[tuple[Side, str], Pair]] = {
    (Side.AGENT, "initialize"): (initialize.lift_initialize_result, initialize.lower_initialize_result),
    (Side.AGENT, "session/new"): _OPEN_RESULT,
    (Side.AGENT, "session/fork"): _OPEN_RESULT,
    (Side.AGENT, "session/load"): _OPEN_RESULT,
    (Side.AGENT, "session/resume"): _OPEN_RESULT,
    (Side.AGENT, "session/prompt"): (session.lift_prompt_result, session.lower_prompt_result),
    (Side.AGENT, "session/set_config_option"): (session.lift_set_option_result, session.lower_set_option_result),
    (Side.CLIENT, "session/request_permission"): (permission.lift_answer, permission.lower_answer),
}
_WIRE_NAMES: Final = {**{name: wire for wire, name in METHOD_NAMES.items()}, "session/load": "session/resume"}


def lift_call(side: Side, method: str, params: Json) -> tuple[str, Json]:
    """Lift a call of a v2 peer; `side` receives it. Raise for a method that v2 dropped."""
    if method.startswith(EXTENSION_PREFIXES):
        return method, params
    if method in DROPPED_METHODS[side]:
        raise ProtocolError(Kind.METHOD_NOT_FOUND, f"{NAME} has no {method}", {"method": method})
    name = METHOD_NAMES.get(method, method) if side is Side.AGENT else method
    if not isinstance(params, dict):
        return name, params
    params = strip_initialize_side_data(params) if method == "initialize" else strip_side_data(params)
    if method == "session/resume" and session.is_load(params):
        name = "session/load"
    pair = _CALLS.get((side, name))
    return name, pair[0](params) if pair is not None else params


def lower_call(side: Side, method: str, params: Json) -> tuple[str, Json]:
    """Lower a call for a v2 peer; raise for what v2 cannot express."""
    if method.startswith(EXTENSION_PREFIXES):
        return method, params
    wire = _WIRE_NAMES.get(method, method) if side is Side.AGENT else method
    if wire in DROPPED_METHODS[side]:
        raise Unsayable(NAME, method)
    pair = _CALLS.get((side, method))
    if pair is None or not isinstance(params, dict):
        return wire, strip_private(params)
    return wire, strip_private(pair[1](params))


def lift_result(side: Side, method: str, result: Json) -> Json:
    """Lift a v2 peer's answer to a call that `side` received."""
    said = strip_side_data(result)
    pair = _RESULTS.get((side, method))
    return pair[0](said) if pair is not None and isinstance(said, dict) else said


def lower_result(side: Side, method: str, result: Json) -> Json:
    """Lower an answer for a v2 peer."""
    answer = {} if result is None else result
    pair = _RESULTS.get((side, method))
    return strip_private(pair[1](answer) if pair is not None and isinstance(answer, dict) else answer)
