"""How a crow connection starts: initialize, its capabilities in snake_case (seed 002, 1).

Wire objects in, v1 objects out, and back; and `renamed`, the row for objects that differ in names only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dragoman.dialect.crow import tables
from dragoman.dialect.reshape import ABSENT, Json, Lifted, Object, side_of
from dragoman.dialect.side_data import cleared_initialize, opened

Rule = Callable[[Object], Object]
Pair = tuple[Rule, Rule]


def renamed(table: dict[str, str], unsaid: tuple[str, ...] = (), ours: tuple[str, ...] = ()) -> Pair:
    """A row for an object whose members only have other names."""

    def lift(obj: Object) -> Object:
        lifted = Lifted(obj)
        lifted.move(table)
        return lifted.done()

    def lower(obj: Object) -> Object:
        low = opened(obj, ours)
        low.move(table)
        return low.done(unsaid)

    return lift, lower


FILES: Final = renamed(tables.FILES)
MCP: Final = renamed({}, tables.MCP_UNSAID)


def lift_initialize(params: Object) -> Object:
    """initialize of a crow client."""
    lifted = Lifted(cleared_initialize(params))
    lifted.move(tables.INITIALIZE)
    capabilities = lifted.out.get("clientCapabilities")
    if isinstance(capabilities, dict):
        inner = Lifted(capabilities)
        inner.side = dict(side_of(capabilities))
        inner.put("fs", _within(FILES[0], inner.take("fs")))
        lifted.put("clientCapabilities", inner.done())
    return lifted.done()


def lower_initialize(params: Object) -> Object:
    """initialize for a crow agent."""
    low = opened(params)
    low.move(tables.INITIALIZE)
    capabilities = low.out.get("client_capabilities")
    if isinstance(capabilities, dict):
        inner = opened(capabilities)
        inner.put("fs", _within(FILES[1], inner.take("fs")))
        low.put("client_capabilities", inner.done(tables.CLIENT_UNSAID))
    return low.done()


def lift_initialized(result: Object) -> Object:
    """What a crow agent answers to initialize."""
    lifted = Lifted(result)
    lifted.move(tables.INITIALIZED)
    capabilities = lifted.out.get("agentCapabilities")
    if isinstance(capabilities, dict):
        inner = Lifted(capabilities)
        inner.move(tables.AGENT)
        prompt = inner.out.get("promptCapabilities", ABSENT)
        inner.put("promptCapabilities", _within(_lift_prompt, prompt))
        lifted.put("agentCapabilities", inner.done())
    return lifted.done()


def lower_initialized(result: Object) -> Object:
    """The answer to initialize for a crow client."""
    low = opened(result)
    low.move(tables.INITIALIZED)
    capabilities = low.out.get("agent_capabilities")
    if isinstance(capabilities, dict):
        inner = opened(capabilities)
        inner.move(tables.AGENT)
        for name, rule in (("prompt_capabilities", _lower_prompt), ("mcp_capabilities", MCP[1])):
            inner.put(name, _within(rule, inner.out.get(name, ABSENT)))
        low.put("agent_capabilities", inner.done(tables.AGENT_UNSAID))
    return low.done(("authMethods",))


def _lift_prompt(capabilities: Object) -> Object:
    lifted = Lifted(capabilities)
    lifted.move(tables.PROMPT)
    lifted.keep(("text",))
    return lifted.done()


def _lower_prompt(capabilities: Object) -> Object:
    low = opened(capabilities)
    low.restore(("text",))
    low.move(tables.PROMPT)
    return low.done(tables.PROMPT_UNSAID)


def _within(rule: Rule, value: Json) -> Json:
    return rule(value) if isinstance(value, dict) else value
