"""crow spelled: every call and every result of seed 002 to the vocabulary and back, by table.

JSON builtins in, JSON builtins out; pure. Two messages have another name in the vocabulary: `cancel`, and the
update that is a question. Files, terminals and content blocks are said as in v1: the seed is silent on them.
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.crow import initialize, permission, tables
from dragoman.dialect.crow.initialize import Pair, renamed
from dragoman.dialect.crow.tables import DIALECT
from dragoman.dialect.crow.update import lift_update, lower_update, unsay
from dragoman.dialect.reshape import Json, Lifted, Object, refuse_encoding
from dragoman.dialect.side_data import cleared, opened, plain
from dragoman.dialect.v1.tables import EXTENSION
from dragoman.errors import Unsayable
from dragoman.schema.side import Side

_UPDATE: Final = "session/update"
_ASK: Final = "session/request_permission"


def lift_call(side: Side, method: str, params: Json) -> tuple[str, Json]:
    """A call as `side` receives it from a crow peer, in the vocabulary."""
    name = LIFTED.get((side, method), method)
    if not isinstance(params, dict):
        return name, params
    if side is Side.CLIENT and method == _UPDATE:
        if permission.is_request(params):
            return _ASK, permission.lift_request(cleared(params))
        return method, lift_update(params)
    if method == "initialize":
        return name, initialize.lift_initialize(params)
    if name.startswith(EXTENSION):
        return name, params
    row = CALLS.get((side, name))
    params = cleared(params)
    return name, row[0](params) if row else params


def lower_call(side: Side, method: str, params: Json) -> tuple[str, Json]:
    """A call of the vocabulary as a crow peer, which is `side`, expects it."""
    row = CALLS.get((side, method))
    if row is None:
        if method.startswith(EXTENSION):
            return method, params
        raise Unsayable(DIALECT, method)
    name = LOWERED.get((side, method), method)
    if not isinstance(params, dict):
        return name, params
    refuse_encoding(DIALECT, method, params)
    said = row[1](params)
    return name, said if method == _UPDATE else plain(said)


def lift_result(side: Side, method: str, result: Json) -> Json:
    """What a crow peer, which is `side`, answered to a vocabulary method."""
    row = RESULTS.get((side, method))
    result = cleared(result)
    return row[0](result) if row and isinstance(result, dict) else result


def lower_result(side: Side, method: str, result: Json) -> Json:
    """What `side` answers to a request of a crow peer."""
    row = RESULTS.get((side, method))
    # A question is answered by permission_response, never by a result.
    if method == _ASK or ((side, method) not in CALLS and not method.startswith(EXTENSION)):
        raise Unsayable(DIALECT, f"the result of {method}")
    return plain(row[1](result) if row and isinstance(result, dict) else result)


def _lift_load(params: Object) -> Object:
    lifted = Lifted(params)
    lifted.move(tables.SESSION)
    if "mcpServers" not in params:
        lifted.infer("mcpServers", [])
    return lifted.done()


def _lift_ended(result: Object) -> Object:
    lifted = Lifted(result)
    lifted.move({"stop_reason": "stopReason"})
    return lifted.done()


def _lower_ended(result: Object) -> Object:
    low = opened(result)
    reason = low.take("stopReason")
    if isinstance(reason, str) and reason not in tables.STOP_REASONS:
        low.side["stopReason"] = reason
        reason = tables.NEAREST_STOP.get(reason, "end_turn")
    low.put("stop_reason", reason)
    unsay(low, ("usage",))
    return low.done()


# Where a message has another name in the vocabulary, and back.
LIFTED: Final = {(Side.AGENT, "cancel"): "session/cancel"}
LOWERED: Final = {(Side.AGENT, "session/cancel"): "cancel", (Side.CLIENT, _ASK): _UPDATE}

AS_V1: Final = renamed({})
SESSION: Final = renamed(tables.SESSION)

CALLS: Final[dict[tuple[Side, str], Pair]] = {
    (Side.AGENT, "initialize"): (initialize.lift_initialize, initialize.lower_initialize),
    (Side.AGENT, "session/new"): renamed({}, tables.SETUP_UNSAID),
    (Side.AGENT, "session/load"): (
        _lift_load,
        renamed(tables.SESSION, ("mcpServers", *tables.SETUP_UNSAID), ours=("mcpServers",))[1],
    ),
    (Side.AGENT, "session/prompt"): SESSION,
    (Side.AGENT, "session/cancel"): SESSION,
    (Side.AGENT, "permission_response"): (permission.lift_response, permission.lower_response),
    (Side.CLIENT, _UPDATE): (lift_update, lower_update),
    (Side.CLIENT, _ASK): (dict, permission.lower_request),
    **{(Side.CLIENT, method): AS_V1 for method in tables.AS_V1},
}

RESULTS: Final[dict[tuple[Side, str], Pair]] = {
    (Side.AGENT, "initialize"): (initialize.lift_initialized, initialize.lower_initialized),
    (Side.AGENT, "session/new"): renamed({}, tables.SETUP_RESULT_UNSAID),
    (Side.AGENT, "session/load"): renamed({}, tables.SETUP_RESULT_UNSAID),
    (Side.AGENT, "session/prompt"): (_lift_ended, _lower_ended),
}
