"""The draft's `initialize`: its capability trees and v1's.

What only the draft can express is side data of the nearest capability object. A plain v1 tree gets the members that a
draft client expects; one with the draft's own members keeps those alone.
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.draft.tables import (
    AGENT_SIDE_DATA,
    AGENT_UNSUPPORTED,
    CLIENT_SIDE_DATA,
    CLIENT_UNSUPPORTED,
    FS_NAMES,
    FS_SIDE_DATA,
    MCP_SIDE_DATA,
    MCP_TRANSPORTS,
    PROMPT_SIDE_DATA,
    PROMPT_UNSUPPORTED,
    SESSION_SIDE_DATA,
    SESSION_UNSUPPORTED,
)
from dragoman.dialect.mapping import Conversion, ObjectMapping, apply_to_object
from dragoman.dialect.reshape import ABSENT, INFERRED_KEY, SIDE_DATA_KEY, Json, Lifted, Lowered, Object, json_side_data
from dragoman.dialect.side_data import begin_lowering

_CAPABILITY_PARTS: Final = {
    "mcpCapabilities": MCP_SIDE_DATA,
    "promptCapabilities": PROMPT_SIDE_DATA,
    "sessionCapabilities": SESSION_SIDE_DATA,
}


def lift_initialize(params: Object) -> Object:
    """Lift a draft client's initialize."""
    lifted = Lifted(params)
    _lift_capabilities(lifted, "clientCapabilities", _lift_client)
    return lifted.build()


def lower_initialize(params: Object) -> Object:
    """Lower a client's initialize for a draft agent."""
    lowered = begin_lowering(params, ("clientCapabilities",))
    _lower_capabilities(lowered, "clientCapabilities", _lower_client)
    return lowered.build()


def lift_initialize_result(result: Object) -> Object:
    """Lift a draft agent's initialize result."""
    lifted = Lifted(result)
    _lift_capabilities(lifted, "agentCapabilities", _lift_agent)
    lifted.move_to_side_data(("requiredClientCapabilities",))
    return lifted.build()


def lower_initialize_result(result: Object) -> Object:
    """Lower an agent's initialize result for a draft client."""
    lowered = begin_lowering(result, ("agentCapabilities",))
    _lower_capabilities(lowered, "agentCapabilities", _lower_agent)
    lowered.move_from_side_data(("requiredClientCapabilities",))
    return lowered.build(("authMethods",))


def _lift_capabilities(lifted: Lifted, name: str, convert: Conversion) -> None:
    tree = lifted.take("capabilities")
    if tree is not ABSENT:
        lifted.put(name, apply_to_object(convert, tree))
    elif name not in lifted.rest:
        lifted.infer(name, {})


def _lower_capabilities(lowered: Lowered, name: str, convert: Conversion) -> None:
    # The draft requires the tree in every initialize, and is detected by it
    # (docs/protocol/dialect-matrix.md#by-initialize).
    tree = lowered.take(name, ABSENT if name in lowered.inferred else {})
    if tree is not ABSENT:
        lowered.put("capabilities", apply_to_object(convert, tree))


def _lift_client(tree: Object) -> Object:
    lifted = Lifted(tree)
    # The only place where a peer's own side data is trusted: it lists what the peer supports beyond its dialect.
    lifted.side_data.update((name, value) for name, value in json_side_data(tree).items() if name != INFERRED_KEY)
    if type(lifted.meta) is dict and not lifted.side_data:
        lifted.meta = {name: value for name, value in lifted.meta.items() if name != SIDE_DATA_KEY} or ABSENT
    fs = lifted.take("fs")
    if type(fs) is dict:
        files = Lifted(fs)
        files.rename(FS_NAMES)
        files.move_to_side_data(FS_SIDE_DATA)
        if files.side_data:
            lifted.side_data["fs"] = files.side_data
            files.side_data = {}
        fs = files.build()
    lifted.put("fs", fs)
    terminal = lifted.take("terminal")
    if type(terminal) is dict:
        rest = dict(terminal)
        create = rest.pop("create", ABSENT)
        if create is ABSENT:
            lifted.infer("terminal", False)
        else:
            lifted.put("terminal", create)
        if rest or create is ABSENT:
            lifted.side_data["terminal"] = rest
    else:
        lifted.put("terminal", terminal)
    lifted.move_to_side_data(CLIENT_SIDE_DATA)
    return lifted.build()


def _lower_client(tree: Object) -> Object:
    lowered = begin_lowering(tree, ("terminal",))
    fs, more = lowered.take("fs"), lowered.take_side_data("fs")
    if type(fs) is dict:
        files = begin_lowering(fs)
        files.rename(FS_NAMES)
        fs = {**files.build(), **(more if type(more) is dict else {})}
    elif fs is ABSENT and more is not ABSENT:
        fs = more
    lowered.put("fs", fs)
    terminal, more = lowered.take("terminal"), lowered.take_side_data("terminal")
    if terminal is not ABSENT or more is not ABSENT:
        said = {} if terminal is ABSENT else {"create": terminal}
        lowered.put("terminal", {**said, **more} if type(more) is dict else said)
    lowered.move_from_side_data(CLIENT_SIDE_DATA)
    return lowered.build(CLIENT_UNSUPPORTED)


def _lift_mcp(part: Object) -> Object:
    lifted = Lifted(part)
    lifted.move_to_side_data(MCP_SIDE_DATA)
    transport = lifted.side_data.get("transport")
    if type(transport) is list:
        for name in MCP_TRANSPORTS:
            lifted.put(name, name in transport)
    return lifted.build()


_PROMPT: Final = ObjectMapping(side_data=PROMPT_SIDE_DATA)
_SESSION: Final = ObjectMapping(side_data=SESSION_SIDE_DATA)


def _lift_agent(tree: Object) -> Object:
    lifted = Lifted(tree)
    lifted.move_to_side_data(AGENT_SIDE_DATA)
    for name, turn in (
        ("mcpCapabilities", _lift_mcp),
        ("promptCapabilities", _PROMPT.lift),
        ("sessionCapabilities", _SESSION.lift),
    ):
        if name in lifted.rest:
            lifted.put(name, apply_to_object(turn, lifted.take(name)))
    if not _has_draft_members(lifted.out, lifted.side_data):
        # Nothing in this tree shows that the draft's members were left out on purpose, so note that.
        for name in _CAPABILITY_PARTS:
            if name not in lifted.out:
                lifted.infer(name, {})
    return lifted.build()


def _has_draft_members(tree: Object, side_data: Object) -> bool:
    return "custom" in side_data or any(
        word in json_side_data(tree.get(part)) for part, words in _CAPABILITY_PARTS.items() for word in words
    )


def _lower_agent(tree: Object) -> Object:
    lowered = begin_lowering(tree, tuple(_CAPABILITY_PARTS))
    plain = not _has_draft_members(lowered.rest, lowered.side_data) and lowered.inferred.isdisjoint(_CAPABILITY_PARTS)
    loads = lowered.rest.get("loadSession") is True
    elsewhere = {name: lowered.take_side_data(name) for name in ("modes", "streaming")}  # where 2025.1 has them
    for name, said, unsaid in (
        ("mcpCapabilities", _mcp_defaults, ()),
        ("promptCapabilities", _prompt_defaults, PROMPT_UNSUPPORTED),
        ("sessionCapabilities", _session_defaults, SESSION_UNSUPPORTED),
    ):
        if name in lowered.inferred:
            continue
        part = lowered.take(name, {} if plain else ABSENT)
        if type(part) is dict:
            part = _lower_part(part, _CAPABILITY_PARTS[name], said(part, loads), plain, unsaid)
            for word, value in elsewhere.items():
                if (
                    word in _CAPABILITY_PARTS[name]
                    and value is not ABSENT
                    and word not in json_side_data(tree.get(name))
                ):
                    part[word] = value
        lowered.put(name, part)
    lowered.move_from_side_data(AGENT_SIDE_DATA)
    return lowered.build(AGENT_UNSUPPORTED)


def _lower_part(
    part: Object, members: tuple[str, ...], defaults: Object, is_v1: bool, unsupported: tuple[str, ...]
) -> Object:
    lowered = begin_lowering(part)
    own = any(word in lowered.side_data for word in members)
    lowered.move_from_side_data(members)
    if members is MCP_SIDE_DATA:
        mentioned = [lowered.take(name) is not ABSENT for name in MCP_TRANSPORTS]
    else:
        mentioned = [name in lowered.rest for name in unsupported]
    if not own and (is_v1 or any(mentioned)):
        lowered.out.update(defaults)
    return lowered.build(("acp", *unsupported))


def _mcp_defaults(part: Object, can_load: bool) -> Object:
    named: Json = [name for name in MCP_TRANSPORTS if part.get(name) is True]
    return {"servers": True, "transport": ["stdio", *named]}


def _prompt_defaults(part: Object, can_load: bool) -> Object:
    return dict.fromkeys(PROMPT_SIDE_DATA, True)


def _session_defaults(part: Object, can_load: bool) -> Object:
    return {"persistence": can_load}
