"""Content blocks of 2025.1: short format names instead of MIME types, flat resources, links without a name.

Wire block in, v1 block out, and back. An unknown block is unchanged.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.dialect.guesses import last_segment, mime_type_of, placeholder_text, short_format_of
from dragoman.dialect.reshape import ABSENT, Json, Lifted, Lowered, Object
from dragoman.dialect.y2025.tables import LINK_UNSUPPORTED


def lift_block(block: Json) -> Json:
    """Lift a block."""
    rule = _conversion_for(_LIFT, block)
    return rule(block) if rule else block


def lower_block(block: Json) -> Json:
    """Lower a block."""
    rule = _conversion_for(_LOWER, block)
    return rule(block) if rule else block


def lift_blocks(blocks: Json) -> Json:
    """Lift a list of blocks."""
    return [lift_block(block) for block in blocks] if isinstance(blocks, list) else blocks


def lower_blocks(blocks: Json) -> Json:
    """Lower a list of blocks."""
    return [lower_block(block) for block in blocks] if isinstance(blocks, list) else blocks


def _conversion_for(
    conversions: dict[str, Callable[[Object], Object]], block: Json
) -> Callable[[Object], Object] | None:
    name = block.get("type") if isinstance(block, dict) else None
    return conversions.get(name) if isinstance(name, str) else None


def _lower_text(block: Object) -> Object:
    return Lowered(block).build(("annotations",))


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


def _lift_resource(block: Object) -> Object:
    lifted = Lifted(block)
    inner = Lifted(None)
    inner.put("uri", lifted.take("uri"))
    inner.put("mimeType", lifted.take("mime_type"))
    inner.put("text", lifted.take("content"))
    # Accept v1's nested form too, instead of nesting it in an empty resource.
    if "resource" not in block:
        lifted.put("resource", inner.build())
    return lifted.build()


def _lower_resource(block: Object) -> Object:
    lowered = Lowered(block)
    resource = lowered.take("resource")
    if not isinstance(resource, dict):
        lowered.put("resource", resource)
        return lowered.build(("annotations",))
    inner = Lowered(resource)
    lowered.put("uri", inner.take("uri"))
    lowered.put("mime_type", inner.take("mimeType"))
    text, blob = inner.take("text"), inner.take("blob")
    if blob is not ABSENT:
        # Base64 in `content` is indistinguishable from text (docs/protocol/dialect-matrix.md#block-forms).
        lowered.side_data["blob"] = blob
        text = placeholder_text({"type": "resource", "resource": resource}) if text is ABSENT else text
    lowered.put("content", text)
    if rest := inner.build():
        lowered.side_data["resource"] = rest
    return lowered.build(("annotations",))


def _lift_link(block: Object) -> Object:
    lifted = Lifted(block)
    lifted.put("mimeType", lifted.take("mime_type"))
    uri = block.get("uri")
    if "name" not in block and isinstance(uri, str):
        lifted.infer("name", last_segment(uri))
    return lifted.build()


def _lower_link(block: Object) -> Object:
    lowered = Lowered(block)
    lowered.put("mime_type", lowered.take("mimeType"))
    return lowered.build(LINK_UNSUPPORTED)


_LIFT: dict[str, Callable[[Object], Object]] = {
    "image": _lift_media,
    "audio": _lift_media,
    "resource": _lift_resource,
    "resource_link": _lift_link,
}
_LOWER: dict[str, Callable[[Object], Object]] = {
    "text": _lower_text,
    "image": _lower_media,
    "audio": _lower_media,
    "resource": _lower_resource,
    "resource_link": _lower_link,
}
