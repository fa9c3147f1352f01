"""`initialize` of the draft: its capability trees against v1's.

What the draft can say of a peer and v1 cannot stands in the side data of the nearest capability object. A
tree of plain v1 is given the words a draft client looks for; one with the draft's own words says those alone.
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.draft.tables import (
    AGENT_SIDE,
    AGENT_UNSAID,
    CLIENT_SIDE,
    CLIENT_UNSAID,
    FS,
    FS_SIDE,
    MCP_SIDE,
    MCP_TRANSPORTS,
    PROMPT_SIDE,
    PROMPT_UNSAID,
    SESSION_SIDE,
    SESSION_UNSAID,
)
from dragoman.dialect.mapping import Row, Turn, one
from dragoman.dialect.reshape import ABSENT, INFERRED, SIDE, Json, Lifted, Lowered, Object, side_of
from dragoman.dialect.side_data import opened

_PARTS: Final = {
    "mcpCapabilities": MCP_SIDE,
    "promptCapabilities": PROMPT_SIDE,
    "sessionCapabilities": SESSION_SIDE,
}


def lift_initialize(params: Object) -> Object:
    """What a draft client says of itself."""
    lifted = Lifted(params)
    _lift_tree(lifted, "clientCapabilities", _lift_client)
    return lifted.done()


def lower_initialize(params: Object) -> Object:
    """What a draft agent is told of a client."""
    lowered = opened(params, ("clientCapabilities",))
    _lower_tree(lowered, "clientCapabilities", _lower_client)
    return lowered.done()


def lift_initialized(result: Object) -> Object:
    """What a draft agent says of itself."""
    lifted = Lifted(result)
    _lift_tree(lifted, "agentCapabilities", _lift_agent)
    lifted.keep(("requiredClientCapabilities",))
    return lifted.done()


def lower_initialized(result: Object) -> Object:
    """What a draft client is told of an agent."""
    lowered = opened(result, ("agentCapabilities",))
    _lower_tree(lowered, "agentCapabilities", _lower_agent)
    lowered.restore(("requiredClientCapabilities",))
    return lowered.done(("authMethods",))


def _lift_tree(lifted: Lifted, name: str, turn: Turn) -> None:
    tree = lifted.take("capabilities")
    if tree is not ABSENT:
        lifted.put(name, one(turn, tree))
    elif name not in lifted.left:
        lifted.infer(name, {})


def _lower_tree(lowered: Lowered, name: str, turn: Turn) -> None:
    # The draft wants the tree in every initialize, and is recognised by it (reference 5.15).
    tree = lowered.take(name, ABSENT if name in lowered.inferred else {})
    if tree is not ABSENT:
        lowered.put("capabilities", one(turn, tree))


def _lift_client(tree: Object) -> Object:
    lifted = Lifted(tree)
    # The one place where a peer's own side data is believed: here it says what it can do beyond its dialect.
    lifted.side.update((name, value) for name, value in side_of(tree).items() if name != INFERRED)
    if type(lifted.meta) is dict and not lifted.side:
        lifted.meta = {name: value for name, value in lifted.meta.items() if name != SIDE} or ABSENT
    fs = lifted.take("fs")
    if type(fs) is dict:
        files = Lifted(fs)
        files.move(FS)
        files.keep(FS_SIDE)
        if files.side:
            lifted.side["fs"] = files.side
            files.side = {}
        fs = files.done()
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
            lifted.side["terminal"] = rest
    else:
        lifted.put("terminal", terminal)
    lifted.keep(CLIENT_SIDE)
    return lifted.done()


def _lower_client(tree: Object) -> Object:
    lowered = opened(tree, ("terminal",))
    fs, more = lowered.take("fs"), lowered.recall("fs")
    if type(fs) is dict:
        files = opened(fs)
        files.move(FS)
        fs = {**files.done(), **(more if type(more) is dict else {})}
    elif fs is ABSENT and more is not ABSENT:
        fs = more
    lowered.put("fs", fs)
    terminal, more = lowered.take("terminal"), lowered.recall("terminal")
    if terminal is not ABSENT or more is not ABSENT:
        said = {} if terminal is ABSENT else {"create": terminal}
        lowered.put("terminal", {**said, **more} if type(more) is dict else said)
    lowered.restore(CLIENT_SIDE)
    return lowered.done(CLIENT_UNSAID)


def _lift_mcp(part: Object) -> Object:
    lifted = Lifted(part)
    lifted.keep(MCP_SIDE)
    transport = lifted.side.get("transport")
    if type(transport) is list:
        for name in MCP_TRANSPORTS:
            lifted.put(name, name in transport)
    return lifted.done()


_PROMPT: Final = Row(side=PROMPT_SIDE)
_SESSION: Final = Row(side=SESSION_SIDE)


def _lift_agent(tree: Object) -> Object:
    lifted = Lifted(tree)
    lifted.keep(AGENT_SIDE)
    for name, turn in (
        ("mcpCapabilities", _lift_mcp),
        ("promptCapabilities", _PROMPT.lift),
        ("sessionCapabilities", _SESSION.lift),
    ):
        if name in lifted.left:
            lifted.put(name, one(turn, lifted.take(name)))
    if not _has_own_words(lifted.out, lifted.side):
        # Nothing in this tree shows that the draft's words were left out on purpose, so that is noted.
        for name in _PARTS:
            if name not in lifted.out:
                lifted.infer(name, {})
    return lifted.done()


def _has_own_words(tree: Object, side: Object) -> bool:
    return "custom" in side or any(word in side_of(tree.get(part)) for part, words in _PARTS.items() for word in words)


def _lower_agent(tree: Object) -> Object:
    lowered = opened(tree, tuple(_PARTS))
    plain = not _has_own_words(lowered.left, lowered.side) and lowered.inferred.isdisjoint(_PARTS)
    loads = lowered.left.get("loadSession") is True
    elsewhere = {name: lowered.recall(name) for name in ("modes", "streaming")}  # where 2025.1 says them
    for name, said, unsaid in (
        ("mcpCapabilities", _mcp_words, ()),
        ("promptCapabilities", _prompt_words, PROMPT_UNSAID),
        ("sessionCapabilities", _session_words, SESSION_UNSAID),
    ):
        if name in lowered.inferred:
            continue
        part = lowered.take(name, {} if plain else ABSENT)
        if type(part) is dict:
            part = _lower_part(part, _PARTS[name], said(part, loads), plain, unsaid)
            for word, value in elsewhere.items():
                if word in _PARTS[name] and value is not ABSENT and word not in side_of(tree.get(name)):
                    part[word] = value
        lowered.put(name, part)
    lowered.restore(AGENT_SIDE)
    return lowered.done(AGENT_UNSAID)


def _lower_part(part: Object, words: tuple[str, ...], said: Object, plain: bool, unsaid: tuple[str, ...]) -> Object:
    lowered = opened(part)
    own = any(word in lowered.side for word in words)
    lowered.restore(words)
    if words is MCP_SIDE:
        mentioned = [lowered.take(name) is not ABSENT for name in MCP_TRANSPORTS]
    else:
        mentioned = [name in lowered.left for name in unsaid]
    if not own and (plain or any(mentioned)):
        lowered.out.update(said)
    return lowered.done(("acp", *unsaid))


def _mcp_words(part: Object, loads: bool) -> Object:
    named: Json = [name for name in MCP_TRANSPORTS if part.get(name) is True]
    return {"servers": True, "transport": ["stdio", *named]}


def _prompt_words(part: Object, loads: bool) -> Object:
    return dict.fromkeys(PROMPT_SIDE, True)


def _session_words(part: Object, loads: bool) -> Object:
    return {"persistence": loads}
