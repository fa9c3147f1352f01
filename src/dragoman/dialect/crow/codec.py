"""The crow codec: every call and result of docs/protocol/dialects.md#crow, by table.

JSON in, JSON out; pure. Two messages have another method in the vocabulary: `cancel`, and the permission request, which
is an update. Files, terminals and content blocks are as in v1, since its document does not mention them.
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.crow import initialize, permission, tables
from dragoman.dialect.crow.tables import NAME
from dragoman.dialect.crow.update import lift_update, lower_update, move_to_side_data
from dragoman.dialect.mapping import ConversionPair, ObjectMapping
from dragoman.dialect.reshape import Json, Object, check_encoding
from dragoman.dialect.side_data import begin_lowering, strip_private, strip_side_data
from dragoman.dialect.v1.tables import EXTENSION_PREFIXES
from dragoman.errors import Unsayable
from dragoman.schema.side import Side

_UPDATE: Final = "session/update"
_REQUEST_PERMISSION: Final = "session/request_permission"


def lift_call(side: Side, method: str, params: Json) -> tuple[str, Json]:
    """Lift a call that `side` receives from a crow peer."""
    name = LIFTED_METHODS.get((side, method), method)
    if not isinstance(params, dict):
        return name, params
    if side is Side.CLIENT and method == _UPDATE:
        if permission.is_request(params):
            return _REQUEST_PERMISSION, permission.lift_request(strip_side_data(params))
        return method, lift_update(params)
    if method == "initialize":
        return name, initialize.lift_initialize(params)
    if name.startswith(EXTENSION_PREFIXES):
        return name, params
    row = CALLS.get((side, name))
    params = strip_side_data(params)
    return name, row[0](params) if row else params


def lower_call(side: Side, method: str, params: Json) -> tuple[str, Json]:
    """Lower a call for a crow peer, which is `side`."""
    row = CALLS.get((side, method))
    if row is None:
        if method.startswith(EXTENSION_PREFIXES):
            return method, params
        raise Unsayable(NAME, method)
    name = LOWERED_METHODS.get((side, method), method)
    if not isinstance(params, dict):
        return name, params
    check_encoding(NAME, method, params)
    lowered = row[1](params)
    return name, lowered if method == _UPDATE else strip_private(lowered)


def lift_result(side: Side, method: str, result: Json) -> Json:
    """Lift the result of a crow peer, which is `side`."""
    row = RESULTS.get((side, method))
    result = strip_side_data(result)
    return row[0](result) if row and isinstance(result, dict) else result


def lower_result(side: Side, method: str, result: Json) -> Json:
    """Lower a result of `side` for a crow peer."""
    row = RESULTS.get((side, method))
    # A permission request is answered by permission_response, never by a result.
    if method == _REQUEST_PERMISSION or ((side, method) not in CALLS and not method.startswith(EXTENSION_PREFIXES)):
        raise Unsayable(NAME, f"the result of {method}")
    return strip_private(row[1](result) if row and isinstance(result, dict) else result)


def _lower_prompt_result(result: Object) -> Object:
    lowered = begin_lowering(result)
    reason = lowered.take("stopReason")
    if isinstance(reason, str) and reason not in tables.STOP_REASONS:
        lowered.side_data["stopReason"] = reason
        reason = tables.NEAREST_STOP_REASONS.get(reason, "end_turn")
    lowered.put("stop_reason", reason)
    move_to_side_data(lowered, ("usage",))
    return lowered.build()


# Messages with another method in the vocabulary, and back.
LIFTED_METHODS: Final = {(Side.AGENT, "cancel"): "session/cancel"}
LOWERED_METHODS: Final = {(Side.AGENT, "session/cancel"): "cancel", (Side.CLIENT, _REQUEST_PERMISSION): _UPDATE}

UNCHANGED_CONVERSION: Final = ObjectMapping().pair
SESSION_CONVERSION: Final = ObjectMapping(tables.SESSION_NAMES).pair

CALLS: Final[dict[tuple[Side, str], ConversionPair]] = {
    (Side.AGENT, "initialize"): (initialize.lift_initialize, initialize.lower_initialize),
    (Side.AGENT, "session/new"): ObjectMapping(unsupported=tables.SETUP_UNSUPPORTED).pair,
    (Side.AGENT, "session/load"): ObjectMapping(
        tables.SESSION_NAMES, inferred={"mcpServers": []}, unsupported=("mcpServers", *tables.SETUP_UNSUPPORTED)
    ).pair,
    (Side.AGENT, "session/prompt"): SESSION_CONVERSION,
    (Side.AGENT, "session/cancel"): SESSION_CONVERSION,
    (Side.AGENT, "permission_response"): (permission.lift_response, permission.lower_response),
    (Side.CLIENT, _UPDATE): (lift_update, lower_update),
    (Side.CLIENT, _REQUEST_PERMISSION): (dict, permission.lower_request),
    **{(Side.CLIENT, method): UNCHANGED_CONVERSION for method in tables.V1_METHODS},
}

RESULTS: Final[dict[tuple[Side, str], ConversionPair]] = {
    (Side.AGENT, "initialize"): (initialize.lift_initialize_result, initialize.lower_initialize_result),
    (Side.AGENT, "session/new"): ObjectMapping(unsupported=tables.SETUP_RESULT_UNSUPPORTED).pair,
    (Side.AGENT, "session/load"): ObjectMapping(unsupported=tables.SETUP_RESULT_UNSUPPORTED).pair,
    (Side.AGENT, "session/prompt"): (ObjectMapping({"stop_reason": "stopReason"}).lift, _lower_prompt_result),
}
