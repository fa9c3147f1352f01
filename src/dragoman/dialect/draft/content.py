"""Content blocks of the draft: media stand in a `source`, an embedded resource is flat, a link has no name.

Takes and gives one JSON object. A block of a type or a shape that nobody knows stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dragoman.dialect.guesses import last_segment, placeholder
from dragoman.dialect.mapping import Row
from dragoman.dialect.reshape import ABSENT, Lifted, Object
from dragoman.dialect.side_data import opened

TEXT: Final = Row(unsaid=("annotations",))
LINK: Final = Row(inferred={"name": ""}, unsaid=("name", "description", "size", "annotations"))


def lift_block(block: Object) -> Object:
    """A block of the draft as a block of the vocabulary."""
    kind = block.get("type")
    lift = _LIFT.get(kind) if type(kind) is str else None
    return lift(block) if lift else block


def lower_block(block: Object) -> Object:
    """A block of the vocabulary as the draft says it."""
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
        # v1 has no media by reference: the data is empty; v1 has a place for an image's address alone.
        lifted.put("data", "")
        url = rest.pop("url", ABSENT)
        if block.get("type") == "image":
            lifted.put("uri", url)
        elif url is not ABSENT:
            lifted.side["url"] = url
    if rest:
        lifted.side["source"] = rest
    return lifted.done()


def _lower_media(block: Object) -> Object:
    lowered = opened(block)
    data, uri, url = lowered.take("data"), lowered.take("uri"), lowered.recall("url")
    rest = lowered.recall("source", None)
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
            lowered.side["uri"] = uri
    if type(rest) is dict:
        source = {**rest, **source}
    lowered.put("source", source)
    return lowered.done(("annotations",))


def _lift_resource(block: Object) -> Object:
    if "resource" in block:
        return block
    lifted = Lifted(block)
    lifted.keep(("title",))
    inner: Object = {}
    for wire, name in _RESOURCE.items():
        value = lifted.take(wire)
        if value is not ABSENT:
            inner[name] = value
    lifted.put("resource", inner)
    return lifted.done()


def _lower_resource(block: Object) -> Object:
    inner = block.get("resource")
    if type(inner) is not dict:
        return block
    lowered = opened(block)
    lowered.take("resource")
    lowered.restore(("title",))
    rest = dict(inner)
    for wire, name in _RESOURCE.items():
        lowered.put(wire, rest.pop(name, ABSENT))
    blob = rest.pop("blob", ABSENT)
    if blob is not ABSENT:
        # Base64 in `content` could not be told from text that looks like it.
        lowered.side["blob"] = blob
        lowered.out.setdefault("content", placeholder(block))
    if rest:
        lowered.side["resource"] = rest
    return lowered.done(("annotations",))


def _lift_link(block: Object) -> Object:
    lifted = Lifted(block)
    uri = block.get("uri")
    if "name" not in block and type(uri) is str:
        lifted.infer("name", last_segment(uri))
    return lifted.done()


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
