"""Content blocks of 2025.1: short format names instead of MIME types, flat resources, links without a name.

Wire block in, v1 block out, and back. An unknown block is unchanged.
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.blocks import block_conversion, link_conversion, resource_conversion
from dragoman.dialect.guesses import mime_type_of, short_format_of
from dragoman.dialect.mapping import ObjectMapping
from dragoman.dialect.reshape import ABSENT, Lifted, Lowered, Object
from dragoman.dialect.y2025.tables import LINK_UNSUPPORTED


def _lift_media(block: Object) -> Object:
    lifted = Lifted(block)
    family, short = block["type"], lifted.take("format")
    if isinstance(short, str):
        mime = mime_type_of(family, short)
        lifted.put("mimeType", mime)
        if short_format_of(mime) != short:
            lifted.side_data["format"] = short
    elif short is not ABSENT:
        lifted.put("mimeType", short)
    return lifted.build()


def _lower_media(block: Object) -> Object:
    lowered = Lowered(block)
    family, mime, short = block["type"], lowered.take("mimeType"), lowered.take_side_data("format")
    if isinstance(mime, str):
        short = short_format_of(mime) if short is ABSENT else short
        if not isinstance(short, str) or mime_type_of(family, short) != mime:
            lowered.side_data["mimeType"] = mime
    else:
        short = mime
    lowered.put("format", short)
    return lowered.build(("uri", "annotations"))


_MEDIA: Final = (_lift_media, _lower_media)
lift_block, lower_block = block_conversion(
    {
        "text": ObjectMapping(unsupported=("annotations",)).pair,
        "image": _MEDIA,
        "audio": _MEDIA,
        "resource": resource_conversion({"uri": "uri", "mime_type": "mimeType", "content": "text"}),
        "resource_link": link_conversion(ObjectMapping({"mime_type": "mimeType"}, unsupported=LINK_UNSUPPORTED)),
    }
)
