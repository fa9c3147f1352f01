"""Content blocks of the draft: media have a `source`, an embedded resource is flat, a link has no name.

Takes and gives one JSON object. An unknown block is unchanged.
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.blocks import block_conversion, link_conversion, resource_conversion
from dragoman.dialect.mapping import ObjectMapping
from dragoman.dialect.reshape import ABSENT, Lifted, Object
from dragoman.dialect.side_data import begin_lowering


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


_MEDIA: Final = (_lift_media, _lower_media)
lift_block, lower_block = block_conversion(
    {
        "text": ObjectMapping(unsupported=("annotations",)).pair,
        "image": _MEDIA,
        "audio": _MEDIA,
        "resource": resource_conversion(
            {"uri": "uri", "mimeType": "mimeType", "content": "text"}, side_data=("title",)
        ),
        "resource_link": link_conversion(ObjectMapping(unsupported=("name", "description", "size", "annotations"))),
    }
)
