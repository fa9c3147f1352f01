"""The crow initialize: capabilities in snake_case (docs/protocol/dialects.md#crow-initialize).

Wire objects in, v1 objects out, and back.
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.crow import tables
from dragoman.dialect.mapping import ObjectMapping, apply_to_object
from dragoman.dialect.reshape import ABSENT, Lifted, Object, json_side_data
from dragoman.dialect.side_data import begin_lowering, strip_initialize_side_data

_FILES: Final = ObjectMapping(tables.FILE_NAMES)
_MCP: Final = ObjectMapping(unsupported=tables.MCP_UNSUPPORTED)
_PROMPT: Final = ObjectMapping(tables.PROMPT_NAMES, side_data=("text",), unsupported=tables.PROMPT_UNSUPPORTED)


def lift_initialize(params: Object) -> Object:
    """Lift initialize of a crow client."""
    lifted = Lifted(strip_initialize_side_data(params))
    lifted.rename(tables.INITIALIZE_NAMES)
    capabilities = lifted.out.get("clientCapabilities")
    if isinstance(capabilities, dict):
        inner = Lifted(capabilities)
        inner.side_data = dict(json_side_data(capabilities))
        inner.put("fs", apply_to_object(_FILES.lift, inner.take("fs")))
        lifted.put("clientCapabilities", inner.build())
    return lifted.build()


def lower_initialize(params: Object) -> Object:
    """Lower initialize for a crow agent."""
    lowered = begin_lowering(params)
    lowered.rename(tables.INITIALIZE_NAMES)
    capabilities = lowered.out.get("client_capabilities")
    if isinstance(capabilities, dict):
        inner = begin_lowering(capabilities)
        inner.put("fs", apply_to_object(_FILES.lower, inner.take("fs")))
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
        inner.put("promptCapabilities", apply_to_object(_PROMPT.lift, prompt))
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
        for name, mapping in (("prompt_capabilities", _PROMPT), ("mcp_capabilities", _MCP)):
            inner.put(name, apply_to_object(mapping.lower, inner.out.get(name, ABSENT)))
        lowered.put("agent_capabilities", inner.build(tables.AGENT_UNSUPPORTED))
    return lowered.build(("authMethods",))
