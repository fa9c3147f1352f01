"""A prompt as one text for a model (docs/protocol/dialects.md#banjo-content-merging). A link to a file in the session's
folders is read through the client, so that unsaved changes count. Other links, images and audio are described.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from dragoman.dialect.session_table import is_inside
from dragoman.errors import ProtocolError
from dragoman.schema import content as types

if TYPE_CHECKING:
    from dragoman.roles.agent.session import Session

# Lines in a fragment: `L42`, `L42:50` (docs/protocol/dialects.md#banjo-prompt), and GitHub's `L42-50`, `L42-L50`.
_LINE_RANGE = re.compile(r"L(\d{1,9})(?:[:-]L?(\d{1,9}))?")


class FileRange(NamedTuple):
    """A file, or a range of its lines."""

    path: str
    line: int | None
    limit: int | None


async def merge_prompt(session: Session, prompt: list[types.ContentBlock]) -> str:
    """Return the whole prompt as one text."""
    parts = [await _block_text(session, block) for block in prompt]
    return "\n\n".join(part for part in parts if part)


async def _block_text(session: Session, block: types.ContentBlock) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.EmbeddedResource():
            resource = block.resource
            if isinstance(resource.text, str):
                return _format_context(resource.uri, resource.text)
            return f"[{_describe('attached', resource.uri, resource.mime_type, _decoded_size(resource.blob))}]"
        case types.ResourceLink():
            return await _link_text(session, block)
        case types.ImageContent():
            return f"[{_describe('image', block.uri, block.mime_type, _decoded_size(block.data))}]"
        case types.AudioContent():
            return f"[{_describe('audio', None, block.mime_type, _decoded_size(block.data))}]"
        case _:
            return f"[{block.tag}]"


async def _link_text(session: Session, link: types.ResourceLink) -> str:
    file = _parse_file_uri(link.uri)
    facts = _describe("link", link.uri, link.mime_type, link.size, link.title or link.name, link.description)
    if file is None or not session.connection.offers("client.fs.readTextFile"):
        return f"[{facts}]"
    if not any(is_inside(root, file.path) for root in session.roots):
        return f"[{facts}; not read: it is outside the session's folders]"
    try:
        text = await session.files.read(file.path, line=file.line, limit=file.limit)
    except ProtocolError as error:
        return f"[{facts}; not read: {error.message}]"
    return _format_context(link.uri, text)


def _parse_file_uri(uri: str) -> FileRange | None:
    """Return the local file that a URI names, or None."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    path = unquote(parts.path)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not path.startswith("/") or "\0" in path:
        return None
    lines = _LINE_RANGE.fullmatch(parts.fragment)
    if lines is None:
        return FileRange(path, None, None)
    first = max(int(lines[1]), 1)
    last = int(lines[2]) if lines[2] else first
    return FileRange(path, first, max(last - first + 1, 1))


def _format_context(uri: str, text: str) -> str:
    return f"[context: {uri}]\n{text.rstrip(chr(10))}\n[end of context]"


def _describe(label: str, uri: Any, mime_type: Any, size: Any, name: Any = None, description: Any = None) -> str:
    known = [str(fact) for fact in (name, uri, mime_type, f"{size} bytes" if size else None, description) if fact]
    return f"{label}: {', '.join(known)}" if known else label


def _decoded_size(data: Any) -> int:
    """Return the number of bytes that base64 encodes, without decoding it."""
    return len(data.rstrip("=")) * 3 // 4 if isinstance(data, str) else 0
