"""The crow initialize: capabilities in snake_case (docs/protocol/dialects.md#crow-initialize).

Wire objects in, v1 objects out, and back; and `rename_conversion`, for objects that differ in names only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dragoman.dialect.crow import tables
from dragoman.dialect.reshape import ABSENT, Json, Lifted, Object, json_side_data
from dragoman.dialect.side_data import begin_lowering, strip_initialize_side_data

Conversion = Callable[[Object], Object]
ConversionPair = tuple[Conversion, Conversion]


def rename_conversion(
    names: dict[str, str], unsupported: tuple[str, ...] = (), drop_inferred: tuple[str, ...] = ()
) -> ConversionPair:
    """Return the conversion of an object that only has other member names."""

    def lift(obj: Object) -> Object:
        lifted = Lifted(obj)
        lifted.rename(names)
        return lifted.build()

    def lower(obj: Object) -> Object:
        lowered = begin_lowering(obj, drop_inferred)
        lowered.rename(names)
        return lowered.build(unsupported)

    return lift, lower


FILE_CONVERSION: Final = rename_conversion(tables.FILE_NAMES)
MCP_CONVERSION: Final = rename_conversion({}, tables.MCP_UNSUPPORTED)


def lift_initialize(params: Object) -> Object:
    """Lift initialize of a crow client."""
    lifted = Lifted(strip_initialize_side_data(params))
    lifted.rename(tables.INITIALIZE_NAMES)
    capabilities = lifted.out.get("clientCapabilities")
    if isinstance(capabilities, dict):
        inner = Lifted(capabilities)
        inner.side_data = dict(json_side_data(capabilities))
        inner.put("fs", _apply_to_object(FILE_CONVERSION[0], inner.take("fs")))
        lifted.put("clientCapabilities", inner.build())
    return lifted.build()


def lower_initialize(params: Object) -> Object:
    """Lower initialize for a crow agent."""
    lowered = begin_lowering(params)
    lowered.rename(tables.INITIALIZE_NAMES)
    capabilities = lowered.out.get("client_capabilities")
    if isinstance(capabilities, dict):
        inner = begin_lowering(capabilities)
        inner.put("fs", _apply_to_object(FILE_CONVERSION[1], inner.take("fs")))
        lowered.put("client_capabilities", inner.build(tables.CLIENT_UNSUPPORTED))
    return lowered.build()


def lift_initialize_result(result: Object) -> Object:
    """Lift the initialize result of a crow agent."""
    lifted = Lifted(result)
    lifted.rename(tables.INITIALIZE_RESULT_NAMES)
    capabilities = lifted.out.get("agentCapabilities")
    if isinstance(capabilities, dict):
        inner = Lifted(capabilities)
        inner.rename(tables.AGENT_NAMES)
        prompt = inner.out.get("promptCapabilities", ABSENT)
        inner.put("promptCapabilities", _apply_to_object(_lift_prompt_capabilities, prompt))
        lifted.put("agentCapabilities", inner.build())
    return lifted.build()


def lower_initialize_result(result: Object) -> Object:
    """Lower the initialize result for a crow client."""
    lowered = begin_lowering(result)
    lowered.rename(tables.INITIALIZE_RESULT_NAMES)
    capabilities = lowered.out.get("agent_capabilities")
    if isinstance(capabilities, dict):
        inner = begin_lowering(capabilities)
        inner.rename(tables.AGENT_NAMES)
        for name, rule in (
            ("prompt_capabilities", _lower_prompt_capabilities),
            ("mcp_capabilities", MCP_CONVERSION[1]),
        ):
            inner.put(name, _apply_to_object(rule, inner.out.get(name, ABSENT)))
        lowered.put("agent_capabilities", inner.build(tables.AGENT_UNSUPPORTED))
    return lowered.build(("authMethods",))


def _lift_prompt_capabilities(capabilities: Object) -> Object:
    lifted = Lifted(capabilities)
    lifted.rename(tables.PROMPT_NAMES)
    lifted.move_to_side_data(("text",))
    return lifted.build()


def _lower_prompt_capabilities(capabilities: Object) -> Object:
    lowered = begin_lowering(capabilities)
    lowered.move_from_side_data(("text",))
    lowered.rename(tables.PROMPT_NAMES)
    return lowered.build(tables.PROMPT_UNSUPPORTED)


def _apply_to_object(convert: Conversion, value: Json) -> Json:
    return convert(value) if isinstance(value, dict) else value
