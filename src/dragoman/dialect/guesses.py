"""Guesses and substitutes that several dialects share.

Keyword tables for tool kinds and permission options, MIME short names, and placeholder text for content blocks that a
dialect lacks. Pure.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from dragoman.dialect.reshape import ABSENT, Lifted, Lowered
from dragoman.dialect.v1.tables import NEAREST_STATUSES

# First match wins; the words are searched in the tool's name (docs/protocol/dialect-matrix.md#tool-identity).
KIND_WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("delete", ("delete", "remove", "unlink")),
    ("move", ("move", "rename")),
    ("edit", ("write", "edit", "patch", "replace", "create_file", "create_directory")),
    ("search", ("search", "grep", "find", "glob")),
    ("read", ("read", "view", "cat", "list", "open")),
    ("execute", ("terminal", "execute", "exec", "shell", "bash", "run", "command")),
    ("fetch", ("fetch", "http", "url", "browse", "download", "web")),
    ("switch_mode", ("switch_mode", "set_mode")),
    ("think", ("think", "reason", "plan")),
)

ALLOW_WORDS = frozenset({"approve", "approved", "allow", "allowed", "accept", "yes"})
REJECT_WORDS = frozenset({"reject", "rejected", "deny", "denied", "refuse", "no", "cancel"})
ALWAYS_WORDS = frozenset({"always"})

MIME_SUBTYPES = {"jpg": "jpeg", "mp3": "mpeg", "svg": "svg+xml"}
SHORT_FORMATS = {subtype: short for short, subtype in MIME_SUBTYPES.items() if short != "jpg"}


def guess_tool_kind(tool: str) -> str:
    """Return the tool kind that a name suggests, or `other`."""
    name = tool.lower()
    for kind, words in KIND_WORDS:
        if any(word in name for word in words):
            return kind
    return "other"


def guess_option_kind(option_id: str, title: str) -> str:
    """Return the permission option kind that id and title suggest; an unknown one is never an allow
    (docs/protocol/extensions.md#crow-permission).
    """
    text = f"{option_id} {title}".lower()
    words = set("".join(c if c.isalnum() else " " for c in text).split())
    if words & REJECT_WORDS or not words & ALLOW_WORDS:
        return "reject_always" if words & ALWAYS_WORDS and words & REJECT_WORDS else "reject_once"
    return "allow_always" if words & ALWAYS_WORDS else "allow_once"


def mime_type_of(family: str, short: str) -> str:
    """`png` -> `image/png`; a full MIME type is unchanged."""
    return short if "/" in short else f"{family}/{MIME_SUBTYPES.get(short.lower(), short)}"


def short_format_of(mime: str) -> str:
    """`image/png` -> `png`."""
    subtype = mime.partition("/")[2] or mime
    return SHORT_FORMATS.get(subtype, subtype)


def last_segment(uri: str) -> str:
    """Return the last segment of a URI, as a name."""
    path = uri.split("?")[0].split("#")[0].rstrip("/")
    return unquote(path.rsplit("/", 1)[-1]) or uri


def placeholder_text(block: dict[str, Any]) -> str:
    """Return placeholder text for a content block, for a dialect that only has text."""
    match block.get("type"):
        case "text":
            return str(block.get("text", ""))
        case "resource_link":
            return f"[link {block.get('name') or block.get('uri', '')}: {block.get('uri', '')}]"
        case "resource":
            inner = block.get("resource")
            inner = inner if isinstance(inner, dict) else {}
            text = inner.get("text")
            return str(text) if isinstance(text, str) else f"[resource {inner.get('uri', '')}]"
        case "image" | "audio" as family:
            return f"[{family} {block.get('mimeType', '')}]"
        case other:
            return f"[{other}]"


def lift_text(lifted: Lifted) -> None:
    """Convert a plain text message to v1's block."""
    text = lifted.take("text")
    if text is not ABSENT:
        lifted.put("content", {"type": "text", "text": text})


def lower_text(lowered: Lowered) -> None:
    """Convert v1's block to plain text; another block becomes a placeholder and side data."""
    block = lowered.take("content")
    if not isinstance(block, dict):
        lowered.put("content", block)
        return
    is_text = block.get("type") == "text" and "text" in block
    lowered.put("text", block["text"] if is_text else placeholder_text(block))
    if block != {"type": "text", "text": lowered.out["text"]}:
        lowered.side_data["content"] = block


def lower_status(lowered: Lowered) -> None:
    """Return the nearest status that v1 has; the original goes to the side data."""
    status = lowered.take("status")
    said = NEAREST_STATUSES.get(status, status) if isinstance(status, str) else status
    lowered.put("status", said)
    if said is not status:
        lowered.side_data["status"] = status
