"""banjo spelled: v1 and the differences of seed 003, by table.

JSON builtins in, JSON builtins out; pure. Reading is v1's reading, which knows banjo's extras; writing is
v1's writing plus the rows below.
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.banjo.models import lower_models
from dragoman.dialect.banjo.tables import DIALECT, STOP_ERRORS
from dragoman.dialect.banjo.update import lower_update
from dragoman.dialect.plain import opened, plain
from dragoman.dialect.reshape import Json, Lowered, Object, refuse_encoding, side_of
from dragoman.dialect.v1 import codec as v1
from dragoman.dialect.v1.chunk import chunk_text
from dragoman.dialect.v1.codec import lift_call, lift_result
from dragoman.dialect.v1.tables import EXTENSION
from dragoman.schema.side import Side

__all__ = ["lift_call", "lift_result", "lower_call", "lower_result"]


def lower_call(side: Side, method: str, params: Json) -> tuple[str, Json]:
    """A call of the vocabulary as a banjo peer, which is `side`, expects it."""
    name = _spelled(side, method, params)
    if not isinstance(params, dict) or method.startswith(EXTENSION):
        return name, params
    if method == "session/update" and chunk_text(params) is not None:
        return name, params
    refuse_encoding(DIALECT, method, params)
    rule = LOWER.get((side, name))
    return name, plain(rule(params) if rule else params)


def lower_result(side: Side, method: str, result: Json) -> Json:
    """What `side` answers to a request of a banjo peer."""
    if side is Side.AGENT and method == "session/prompt":
        v1.refuse_stop(DIALECT, result, STOP_ERRORS)
    rule = LOWER_RESULT.get((side, method))
    return plain(rule(result) if rule and isinstance(result, dict) else result)


def _spelled(side: Side, method: str, params: Json) -> str:
    if side is Side.AGENT and method == "session/resume":
        return "unstable_resumeSession"
    if side is Side.AGENT and method == "session/set_config_option" and side_of(params).get("form") == "set_model":
        return "session/set_model"
    return method


def _lower_new(params: Object) -> Object:
    return opened(params, ours=("mcpServers",)).done()


def _lower_set_mode(params: Object) -> Object:
    low = opened(params)
    if low.recall("legacy") is True:
        low.move({"mode": "modeId"})
    return low.done()


def _lower_set_model(params: Object) -> Object:
    low = opened(params)
    low.recall("form")
    low.take("configId")
    low.move({"modelId": "value"})
    return low.done()


def _lower_options(result: Object) -> Object:
    return Lowered(result).done()


LOWER: Final[v1.Rules] = {
    **v1.LOWER,
    (Side.AGENT, "session/new"): _lower_new,
    (Side.AGENT, "session/set_mode"): _lower_set_mode,
    (Side.AGENT, "session/set_model"): _lower_set_model,
    (Side.CLIENT, "session/update"): lower_update,
}
LOWER_RESULT: Final[v1.Rules] = {
    (Side.AGENT, "session/new"): lower_models,
    (Side.AGENT, "session/load"): lower_models,
    (Side.AGENT, "session/resume"): lower_models,
    (Side.AGENT, "session/fork"): lower_models,
    (Side.AGENT, "session/set_config_option"): _lower_options,
}
