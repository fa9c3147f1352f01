"""Content blocks and MCP servers as several dialects write them: flat resources, links without a name, maps of pairs.

Takes and gives one JSON object, or one member value. An unknown shape is unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dragoman.dialect.guesses import last_segment, placeholder_text
from dragoman.dialect.mapping import Conversion, ConversionPair, ObjectMapping
from dragoman.dialect.reshape import ABSENT, Json, Lifted, Object
from dragoman.dialect.side_data import begin_lowering

# Members of a transport that are next to the name in v1, and those that v1 requires even if empty.
_TRANSPORT_MEMBERS: Final = {"command": "command", "args": "args", "env": "env", "url": "url", "headers": "headers"}
_REQUIRED_MEMBERS: Final = {"stdio": ("args", "env"), "http": ("headers",), "sse": ("headers",)}
_PAIR_LISTS: Final = ("env", "headers")
_ACP_RENAMES: Final = {"mcpServerName": "serverId"}
_SIDE_DATA: Final = ("cwd", "timeout", "agentUrl")


def block_conversion(conversions: Mapping[str, ConversionPair]) -> ConversionPair:
    """Return the conversion of a block, from one for each type; other types are unchanged."""

    def convert_by_type(direction: int) -> Conversion:
        def convert(block: Object) -> Object:
            kind = block.get("type")
            pair = conversions.get(kind) if type(kind) is str else None
            return pair[direction](block) if pair else block

        return convert

    return convert_by_type(0), convert_by_type(1)


def link_conversion(mapping: ObjectMapping) -> ConversionPair:
    """Return the conversion of a link without a name: v1 gets the end of its URI."""

    def lift(block: Object) -> Object:
        uri = block.get("uri")
        return mapping._replace(inferred={"name": last_segment(uri)} if type(uri) is str else {}).lift(block)

    return lift, mapping._replace(inferred={"name": ""}).lower


def resource_conversion(names: Mapping[str, str], side_data: tuple[str, ...] = ()) -> ConversionPair:
    """Return the conversion of a flat resource: its member names, and those that v1 lacks."""

    def lift(block: Object) -> Object:
        if "resource" in block:  # v1's nested form is accepted too
            return block
        lifted = Lifted(block)
        lifted.move_to_side_data(side_data)
        taken = {name: lifted.take(wire) for wire, name in names.items()}
        lifted.put("resource", {name: value for name, value in taken.items() if value is not ABSENT})
        return lifted.build()

    def lower(block: Object) -> Object:
        inner = block.get("resource")
        if type(inner) is not dict:
            return block
        lowered = begin_lowering(block)
        lowered.take("resource")
        lowered.move_from_side_data(side_data)
        rest = dict(inner)
        for wire, name in names.items():
            lowered.put(wire, rest.pop(name, ABSENT))
        blob = rest.pop("blob", ABSENT)
        if blob is not ABSENT:
            # Base64 in `content` is indistinguishable from text (docs/protocol/dialect-matrix.md#block-forms).
            lowered.side_data["blob"] = blob
            lowered.out.setdefault("content", placeholder_text(block))
        if rest:
            lowered.side_data["resource"] = rest
        return lowered.build(("annotations",))

    return lift, lower


def lift_pairs(value: Json) -> Json:
    """`{K: V}` -> `[{name: K, value: V}]`."""
    return [{"name": name, "value": item} for name, item in value.items()] if type(value) is dict else value


def lower_pairs(value: Json) -> Json:
    """`[{name: K, value: V}]` -> `{K: V}`; of two equal names the later wins, as in an environment."""
    if type(value) is not list:
        return value
    out: Object = {}
    for pair in value:
        name = pair.get("name") if type(pair) is dict else None
        if type(name) is not str or "value" not in pair:
            return value
        out[name] = pair["value"]
    return out


def lift_server(server: Object) -> Object:
    """Convert a server of the draft to v1's form."""
    transport = server.get("transport")
    if type(transport) is not dict:
        return server
    lifted, way = Lifted(server), Lifted(transport)
    lifted.take("transport")
    form = way.take("type", "stdio")
    if form != "stdio":
        lifted.put("type", form)
    way.rename(_ACP_RENAMES if form == "acp" else _TRANSPORT_MEMBERS)
    for name in _PAIR_LISTS:
        if name in way.out:
            way.out[name] = lift_pairs(way.out[name])
    lifted.out.update(way.out)
    for name in _REQUIRED_MEMBERS.get(form, ()) if type(form) is str else ():
        if name not in lifted.out:
            lifted.infer(name, [])
    way.move_to_side_data(_SIDE_DATA)
    lifted.side_data.update(way.side_data)
    if way.meta is not ABSENT:
        way.rest["_meta"] = way.meta
    if way.rest:
        lifted.side_data["transport"] = way.rest
    return lifted.build()


def lower_server(server: Object) -> Object:
    """Convert a server of v1 to the draft's form."""
    if "transport" in server:
        return server
    lowered = begin_lowering(server, ("args", *_PAIR_LISTS))
    form = lowered.take("type", "stdio")
    way: Object = {"type": form}
    for wire, name in (_ACP_RENAMES if form == "acp" else _TRANSPORT_MEMBERS).items():
        value = lowered.take(name)
        if value is not ABSENT:
            way[wire] = lower_pairs(value) if name in _PAIR_LISTS else value
    for name in _SIDE_DATA:
        value = lowered.take_side_data(name)
        if value is not ABSENT:
            way[name] = value
    rest = lowered.take_side_data("transport", None)
    lowered.put("transport", {**rest, **way} if type(rest) is dict else way)
    return lowered.build()
