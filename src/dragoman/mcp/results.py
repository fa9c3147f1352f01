"""What MCP servers offer and answer, in the types of the vocabulary: tools, resources, prompts, contents.

Takes the JSON of an answer. Everything is checked and bounded here: kinds of blocks, sizes, depth. Known secrets are
redacted. MCP and ACP share the shapes of content blocks (docs/protocol/mcp.md#content).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import UNSET

from dragoman.mcp.limits import MAX_BLOB, MAX_BLOCKS, MAX_DEPTH, MAX_TEXT
from dragoman.policy.redaction import Redactor
from dragoman.schema.content import ContentBlock, EmbeddedResource, ResourceContents, TextContent
from dragoman.schema.toolcall import ToolKindName

Json = Any


class McpTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of an MCP server. Its hints are the server's word: they choose how it is shown, never whether to ask."""

    server: str
    tool: str  # the name that the server gave it
    name: str  # for a model: mcp__SERVER__TOOL
    title: str = ""
    description: str = ""
    input_schema: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None
    is_read_only: bool = False
    is_open_world: bool = False

    @property
    def kind(self) -> ToolKindName:
        """The kind of its tool calls."""
        return "read" if self.is_read_only else "fetch" if self.is_open_world else "other"


class McpResource(msgspec.Struct, frozen=True, kw_only=True):
    """A resource of an MCP server, or a template of resources (`uri` then has {placeholders})."""

    server: str
    uri: str
    name: str = ""
    title: str = ""
    description: str = ""
    mime_type: str = ""
    is_template: bool = False


class PromptArgument(msgspec.Struct, frozen=True, kw_only=True):
    """An argument of a prompt."""

    name: str
    description: str = ""
    is_required: bool = False


class McpPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt of an MCP server."""

    server: str
    name: str
    title: str = ""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class PromptMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a prompt: who says it, and what."""

    role: str
    content: ContentBlock


class McpResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a tool: content blocks, and the structured result if the tool has one."""

    content: list[ContentBlock]
    structured: Any = UNSET
    is_error: bool = False

    @property
    def text(self) -> str:
        """The text of all blocks."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextContent))


def read_tool(server: str, name: str, entry: Json) -> McpTool | None:
    """Return a tool from an entry of tools/list, or None if it has no name."""
    tool = _text(entry, "name")
    if not tool:
        return None
    hints = entry.get("annotations") if isinstance(entry.get("annotations"), dict) else {}
    output = entry.get("outputSchema")
    return McpTool(
        server=server,
        tool=tool,
        name=name,
        title=_text(entry, "title") or _text(hints, "title"),
        description=_text(entry, "description"),
        input_schema=_schema(entry.get("inputSchema")),
        output_schema=_schema(output) if isinstance(output, dict) else None,
        is_read_only=hints.get("readOnlyHint") is True,
        is_open_world=hints.get("openWorldHint") is True,
    )


def read_resource_entry(server: str, entry: Json) -> McpResource | None:
    """Return a resource from an entry of resources/list or resources/templates/list, or None if it has no address."""
    template = _text(entry, "uriTemplate")
    uri = template or _text(entry, "uri")
    if not uri:
        return None
    return McpResource(
        server=server,
        uri=uri,
        name=_text(entry, "name"),
        title=_text(entry, "title"),
        description=_text(entry, "description"),
        mime_type=_text(entry, "mimeType"),
        is_template=bool(template),
    )


def read_prompt_entry(server: str, entry: Json) -> McpPrompt | None:
    """Return a prompt from an entry of prompts/list, or None if it has no name."""
    name = _text(entry, "name")
    if not name:
        return None
    listed = entry.get("arguments") if isinstance(entry.get("arguments"), list) else []
    return McpPrompt(
        server=server,
        name=name,
        title=_text(entry, "title"),
        description=_text(entry, "description"),
        arguments=tuple(
            PromptArgument(
                name=_text(each, "name"),
                description=_text(each, "description"),
                is_required=each.get("required") is True,
            )
            for each in listed
            if _text(each, "name")
        ),
    )


def read_result(answer: Json, redactor: Redactor) -> McpResult:
    """Return the result of tools/call."""
    structured = answer.get("structuredContent", UNSET)
    if structured is not UNSET:
        structured = _bounded(redact_values(structured, redactor))
    return McpResult(
        content=read_blocks(answer.get("content"), redactor),
        structured=structured,
        is_error=answer.get("isError") is True,
    )


def read_resources(answer: Json, redactor: Redactor) -> list[EmbeddedResource]:
    """Return the contents of resources/read as blocks."""
    contents = answer.get("contents")
    blocks = [{"type": "resource", "resource": each} for each in contents] if isinstance(contents, list) else []
    found = read_blocks(blocks, redactor)
    return [block for block in found if isinstance(block, EmbeddedResource)]


def read_messages(answer: Json, redactor: Redactor) -> list[PromptMessage]:
    """Return the messages of prompts/get."""
    messages = answer.get("messages")
    found: list[PromptMessage] = []
    for message in messages[:MAX_BLOCKS] if isinstance(messages, list) else ():
        if isinstance(message, dict):
            role = _text(message, "role") or "user"
            found += [
                PromptMessage(role=role, content=block) for block in read_blocks([message.get("content")], redactor)
            ]
    return found


def read_blocks(blocks: Json, redactor: Redactor) -> list[ContentBlock]:
    """Return content blocks; text is cut at its limit, and what cannot be shown becomes a line that says so."""
    found: list[ContentBlock] = []
    left = MAX_TEXT
    given = blocks if isinstance(blocks, list) else []
    for block in given[:MAX_BLOCKS]:
        read = _read_block(redact_values(block, redactor), left)
        left -= _text_length(read)
        found.append(read)
    if len(given) > MAX_BLOCKS:
        found.append(TextContent(text=f"[{len(given) - MAX_BLOCKS} more blocks left out]"))
    return found


def _read_block(block: Json, text_left: int) -> ContentBlock:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text" and len(block) == 2 and isinstance(block.get("text"), str):  # most blocks
        return TextContent(text=_cut(block["text"], text_left))
    try:
        read: ContentBlock = msgspec.convert(block, ContentBlock)
    except (msgspec.ValidationError, TypeError):
        return TextContent(text=f"[a block of type {kind!r} that is not valid was left out]")
    if isinstance(read, TextContent):
        return TextContent(text=_cut(read.text, text_left), annotations=read.annotations)
    resource = read.resource if isinstance(read, EmbeddedResource) else None
    size = len(resource.blob or "") if resource is not None else len(getattr(read, "data", ""))
    if size > MAX_BLOB:
        return TextContent(text=f"[{kind} of {size} characters left out: the limit is {MAX_BLOB}]")
    if isinstance(resource, ResourceContents) and isinstance(resource.text, str):
        resource.text = _cut(resource.text, text_left)
    return read


def _cut(text: str, limit: int) -> str:
    limit = max(limit, 0)
    return text if len(text) <= limit else f"{text[:limit]}\n[{len(text) - limit} characters left out]"


def _text_length(block: ContentBlock) -> int:
    if isinstance(block, TextContent):
        return len(block.text)
    return len(block.resource.text or "") if isinstance(block, EmbeddedResource) else 0


def redact_values(value: Json, redactor: Redactor) -> Json:
    """Redact known secrets in all strings and keys of a JSON value."""
    if isinstance(value, str):
        return redactor.redact_known(value)
    if isinstance(value, dict):
        return {redactor.redact_known(str(name)): redact_values(member, redactor) for name, member in value.items()}
    if isinstance(value, list):
        return [redact_values(member, redactor) for member in value]
    return value


def _schema(value: Json) -> dict[str, Any]:
    """Return the schema of a tool; one that is no object, or too deep, allows anything."""
    return value if isinstance(value, dict) and not is_deeper(value, MAX_DEPTH) else {"type": "object"}


def _bounded(value: Json) -> Json:
    if is_deeper(value, MAX_DEPTH):
        return f"[a structured result deeper than {MAX_DEPTH} levels was left out]"
    if (size := len(msgspec.json.encode(value))) > MAX_TEXT:
        return f"[a structured result of {size} bytes was left out: the limit is {MAX_TEXT}]"
    return value


def is_deeper(value: Json, depth: int) -> bool:
    """Return whether a JSON value has more levels than this."""
    if depth < 0:
        return True
    members: Iterable[Any] = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(is_deeper(member, depth - 1) for member in members)


def _text(entry: Json, name: str) -> str:
    value = entry.get(name) if isinstance(entry, dict) else None
    return value if isinstance(value, str) else ""
