"""The codec of the toy dialect: v1's, with other names."""

from __future__ import annotations

from dragoman.dialect.mapping import ObjectMapping
from dragoman.dialect.reshape import Json
from dragoman.dialect.side_data import strip_private
from dragoman.dialect.v1 import codec as v1
from dragoman.schema.side import Side
from tests.toy_dialect.tables import MEMBERS, METHODS

_MEMBERS = ObjectMapping(renames=MEMBERS)
_WIRE_METHODS = {name: wire for wire, name in METHODS.items()}


def lift_call(side: Side, method: str, params: Json) -> tuple[str, Json]:
    """Lift a call of a toy peer."""
    name, lifted = v1.lift_call(side, METHODS.get(method, method), params)
    return name, _MEMBERS.lift(lifted) if isinstance(lifted, dict) else lifted


def lower_call(side: Side, method: str, params: Json) -> tuple[str, Json]:
    """Lower a call for a toy peer."""
    _, lowered = v1.lower_call(side, method, params)
    name = _WIRE_METHODS.get(method, method)
    return name, strip_private(_MEMBERS.lower(lowered)) if isinstance(lowered, dict) else lowered


def lift_result(side: Side, method: str, result: Json) -> Json:
    """Lift a result of a toy peer."""
    lifted = v1.lift_result(side, method, result)
    return _MEMBERS.lift(lifted) if isinstance(lifted, dict) else lifted


def lower_result(side: Side, method: str, result: Json) -> Json:
    """Lower a result for a toy peer."""
    lowered = v1.lower_result(side, method, result)
    return strip_private(_MEMBERS.lower(lowered)) if isinstance(lowered, dict) else lowered
