"""The v1 codec: reads the vocabulary and banjo's additions, writes the official schema.

JSON in, JSON out; pure. Two things differ from the vocabulary: three tool call statuses, and two stop reasons, which
are errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dragoman.dialect.reshape import Json, Object, check_encoding, with_json_side_data
from dragoman.dialect.side_data import strip_initialize_side_data, strip_private, strip_side_data
from dragoman.dialect.v1 import models
from dragoman.dialect.v1.tables import (
    EXTENSION_PREFIXES,
    NAME,
    NEAREST_STATUSES,
    STOP_ERRORS,
    TOOL_CALL_KINDS,
    V2_METHODS,
    chunk_text,
)
from dragoman.errors import Unsayable
from dragoman.schema.base import Model
from dragoman.schema.side import Side

Conversion = Callable[[Object], Object]
ConversionTable = dict[tuple[Side, str], Conversion]


def lift_call(side: Side, method: str, params: Json) -> tuple[str, Json]:
    """Lift a call that `side` receives from a v1 (or banjo) peer."""
    name = LIFTED_METHODS.get((side, method), method)
    if not isinstance(params, dict) or method.startswith(EXTENSION_PREFIXES):
        return name, params
    if method == "session/update" and chunk_text(params) is not None:
        return name, params
    params = strip_initialize_side_data(params) if method == "initialize" else strip_side_data(params)
    rule = LIFT.get((side, method))
    return name, rule(params) if rule else params


def lower_call(side: Side, method: str, params: Json) -> tuple[str, Json]:
    """Lower a call to official v1."""
    if not isinstance(params, dict) or method.startswith(EXTENSION_PREFIXES):
        return method, params
    if method == "session/update" and chunk_text(params) is not None:
        return method, params
    if method in V2_METHODS:
        raise Unsayable(NAME, method)
    check_encoding(NAME, method, params)
    rule = LOWER.get((side, method))
    return method, strip_private(rule(params) if rule else params)


def lift_result(side: Side, method: str, result: Json) -> Json:
    """Lift the result of a v1 (or banjo) peer, which is `side`."""
    rule = LIFT_RESULT.get((side, method))
    result = strip_side_data(result)
    return rule(result) if rule and isinstance(result, dict) else result


def lower_result(side: Side, method: str, result: Json) -> Json:
    """Lower a result of `side` for a v1 peer; a stop reason that v1 lacks is an error."""
    if side is Side.AGENT and method == "session/prompt":
        check_stop_reason(NAME, result, STOP_ERRORS)
    return strip_private(result)


def is_plain_call(method: str, params: Any) -> bool:
    """Return whether a Struct of the vocabulary is official v1 as it is."""
    if not isinstance(params, Model) or params.meta:
        return False  # side data may hold members that must not be sent
    if method == "session/update":
        update = getattr(params, "update", None)
        return getattr(update, "status", None) not in NEAREST_STATUSES and not getattr(update, "meta", None)
    if method == "session/request_permission":
        return getattr(getattr(params, "tool_call", None), "status", None) not in NEAREST_STATUSES
    return method not in V2_METHODS


def check_stop_reason(dialect: str, result: Json, errors: dict[str, str]) -> None:
    """Raise for a stop reason that a dialect lacks; the error has the kind that replaces it."""
    reason = result.get("stopReason") if isinstance(result, dict) else None
    kind = errors.get(reason) if isinstance(reason, str) else None
    if kind is not None:
        refusal = Unsayable(dialect, f"the stop reason {reason}")
        refusal.kind, refusal.data = kind, {"stopReason": reason}
        raise refusal


def lower_status(call: Json) -> Json:
    """Return a tool call with the nearest status that v1 has, and the original in the side data."""
    status = call.get("status") if isinstance(call, dict) else None
    if not isinstance(status, str) or status not in NEAREST_STATUSES:
        return call
    return with_json_side_data({**call, "status": NEAREST_STATUSES[status]}, status=status)


def lower_update(params: Object) -> Object:
    """Lower session/update: only tool calls can differ."""
    update = params.get("update")
    kind = update.get("sessionUpdate") if isinstance(update, dict) else None
    return {**params, "update": lower_status(update)} if kind in TOOL_CALL_KINDS else params


def lower_permission_request(params: Object) -> Object:
    """Lower session/request_permission, which carries a tool call."""
    return {**params, "toolCall": lower_status(params["toolCall"])} if "toolCall" in params else params


LIFTED_METHODS: Final[dict[tuple[Side, str], str]] = {
    (Side.AGENT, "session/set_model"): "session/set_config_option",
    (Side.AGENT, "unstable_resumeSession"): "session/resume",
}
LIFTED_UPDATES: Final = frozenset({"plan", "current_model_update"})

LIFT: Final[ConversionTable] = {
    (Side.AGENT, "initialize"): models.lift_initialize,
    (Side.AGENT, "authenticate"): models.lift_authenticate,
    (Side.AGENT, "session/new"): models.lift_new,
    (Side.AGENT, "session/set_mode"): models.lift_set_mode,
    (Side.AGENT, "session/set_model"): models.lift_set_model,
    (Side.CLIENT, "session/update"): models.lift_update,
}
LOWER: Final[ConversionTable] = {
    (Side.CLIENT, "session/update"): lower_update,
    (Side.CLIENT, "session/request_permission"): lower_permission_request,
}
LIFT_RESULT: Final[ConversionTable] = {
    (Side.AGENT, "session/new"): models.lift_models,
    (Side.AGENT, "session/load"): models.lift_models,
    (Side.AGENT, "session/resume"): models.lift_models,
    (Side.AGENT, "session/fork"): models.lift_models,
    (Side.AGENT, "session/set_config_option"): models.lift_options,
}
TRANSLATED_RESULTS: Final = frozenset(method for _, method in LIFT_RESULT)
