"""How a crow connection starts: initialize, its capabilities in snake_case (seed 002, 1).

Wire objects in, v1 objects out, and back; and `renamed`, the row for objects that differ in names only.
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
    """A row for an object whose members only have other names."""

    def lift(obj: Object) -> Object:
        lifted = Lifted(obj)
        lifted.rename(names)
        return lifted.build()

    def lower(obj: Object) -> Object:
        low = begin_lowering(obj, drop_inferred)
        low.rename(names)
        return low.build(unsupported)

    return lift, lower


FILE_CONVERSION: Final = rename_conversion(tables.FILE_NAMES)
MCP_CONVERSION: Final = rename_conversion({}, tables.MCP_UNSUPPORTED)


def lift_initialize(params: Object) -> Object:
    """initialize of a crow client."""
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
    """initialize for a crow agent."""
    low = begin_lowering(params)
    low.rename(tables.INITIALIZE_NAMES)
    capabilities = low.out.get("client_capabilities")
    if isinstance(capabilities, dict):
        inner = begin_lowering(capabilities)
        inner.put("fs", _apply_to_object(FILE_CONVERSION[1], inner.take("fs")))
        low.put("client_capabilities", inner.build(tables.CLIENT_UNSUPPORTED))
    return low.build()


def lift_initialize_result(result: Object) -> Object:
    """What a crow agent answers to initialize."""
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
    """The answer to initialize for a crow client."""
    low = begin_lowering(result)
    low.rename(tables.INITIALIZE_RESULT_NAMES)
    capabilities = low.out.get("agent_capabilities")
    if isinstance(capabilities, dict):
        inner = begin_lowering(capabilities)
        inner.rename(tables.AGENT_NAMES)
        for name, rule in (
            ("prompt_capabilities", _lower_prompt_capabilities),
            ("mcp_capabilities", MCP_CONVERSION[1]),
        ):
            inner.put(name, _apply_to_object(rule, inner.out.get(name, ABSENT)))
        low.put("agent_capabilities", inner.build(tables.AGENT_UNSUPPORTED))
    return low.build(("authMethods",))


def _lift_prompt_capabilities(capabilities: Object) -> Object:
    lifted = Lifted(capabilities)
    lifted.rename(tables.PROMPT_NAMES)
    lifted.move_to_side_data(("text",))
    return lifted.build()


def _lower_prompt_capabilities(capabilities: Object) -> Object:
    low = begin_lowering(capabilities)
    low.move_from_side_data(("text",))
    low.rename(tables.PROMPT_NAMES)
    return low.build(tables.PROMPT_UNSUPPORTED)


def _apply_to_object(convert: Conversion, value: Json) -> Json:
    return convert(value) if isinstance(value, dict) else value
