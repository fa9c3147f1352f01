"""Content blocks of the draft: media have a `source`, an embedded resource is flat, a link has no name.

Takes and gives one JSON object. An unknown block is unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dragoman.dialect.guesses import last_segment, placeholder_text
from dragoman.dialect.mapping import ObjectMapping
from dragoman.dialect.reshape import ABSENT, Lifted, Object
from dragoman.dialect.side_data import begin_lowering

TEXT: Final = ObjectMapping(unsupported=("annotations",))
LINK: Final = ObjectMapping(inferred={"name": ""}, unsupported=("name", "description", "size", "annotations"))


def lift_block(block: Object) -> Object:
    """Lift a block."""
    kind = block.get("type")
    lift = _LIFT.get(kind) if type(kind) is str else None
    return lift(block) if lift else block


def lower_block(block: Object) -> Object:
    """Lower a block."""
    kind = block.get("type")
    lower = _LOWER.get(kind) if type(kind) is str else None
    return lower(block) if lower else block


def _lift_media(block: Object) -> Object:
    source = block.get("source")
    form = source.get("type") if type(source) is dict else None
    if type(source) is not dict or form not in ("base64", "url"):
        return block
    lifted = Lifted(block)
    lifted.take("source")
    rest = {name: value for name, value in source.items() if name != "type"}
    lifted.put("mimeType", rest.pop("mediaType", ABSENT))
    if form == "base64":
        lifted.put("data", rest.pop("data", ABSENT))
    else:
        # v1 has no media by reference: the data is empty, and only an image has a URI.
        lifted.put("data", "")
        url = rest.pop("url", ABSENT)
        if block.get("type") == "image":
            lifted.put("uri", url)
        elif url is not ABSENT:
            lifted.side_data["url"] = url
    if rest:
        lifted.side_data["source"] = rest
    return lifted.build()


def _lower_media(block: Object) -> Object:
    lowered = begin_lowering(block)
    data, uri, url = lowered.take("data"), lowered.take("uri"), lowered.take_side_data("url")
    rest = lowered.take_side_data("source", None)
    address = url if url is not ABSENT else uri
    by_reference = not data and type(address) is str
    if not by_reference and data is ABSENT:
        return block
    source: Object = {"type": "url" if by_reference else "base64"}
    mime = lowered.take("mimeType")
    if mime is not ABSENT:
        source["mediaType"] = mime
    if by_reference:
        source["url"] = address
    else:
        source["data"] = data
        if uri is not ABSENT:
            lowered.side_data["uri"] = uri
    if type(rest) is dict:
        source = {**rest, **source}
    lowered.put("source", source)
    return lowered.build(("annotations",))


def _lift_resource(block: Object) -> Object:
    if "resource" in block:
        return block
    lifted = Lifted(block)
    lifted.move_to_side_data(("title",))
    inner: Object = {}
    for wire, name in _RESOURCE.items():
        value = lifted.take(wire)
        if value is not ABSENT:
            inner[name] = value
    lifted.put("resource", inner)
    return lifted.build()


def _lower_resource(block: Object) -> Object:
    inner = block.get("resource")
    if type(inner) is not dict:
        return block
    lowered = begin_lowering(block)
    lowered.take("resource")
    lowered.move_from_side_data(("title",))
    rest = dict(inner)
    for wire, name in _RESOURCE.items():
        lowered.put(wire, rest.pop(name, ABSENT))
    blob = rest.pop("blob", ABSENT)
    if blob is not ABSENT:
        # Base64 in `content` is indistinguishable from text.
        lowered.side_data["blob"] = blob
        lowered.out.setdefault("content", placeholder_text(block))
    if rest:
        lowered.side_data["resource"] = rest
    return lowered.build(("annotations",))


def _lift_link(block: Object) -> Object:
    lifted = Lifted(block)
    uri = block.get("uri")
    if "name" not in block and type(uri) is str:
        lifted.infer("name", last_segment(uri))
    return lifted.build()


_RESOURCE: Final = {"uri": "uri", "mimeType": "mimeType", "content": "text"}
_LIFT: Final[dict[str, Callable[[Object], Object]]] = {
    "image": _lift_media,
    "audio": _lift_media,
    "resource": _lift_resource,
    "resource_link": _lift_link,
}
_LOWER: Final[dict[str, Callable[[Object], Object]]] = {
    "text": TEXT.lower,
    "image": _lower_media,
    "audio": _lower_media,
    "resource": _lower_resource,
    "resource_link": LINK.lower,
}
