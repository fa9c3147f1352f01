"""Anthropic's API: messages. Pure: request bodies in, events and bodies out.

Below is the script, which knows what to answer; above the server, which sends each event when its time comes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from interop.model.script import ChatMessage, Conversation, Reply, Tool
from interop.model.stream import Event

COUNTED = {"input_tokens": 10}
USAGE = {"input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}


def read(body: dict[str, Any]) -> Conversation:
    """The conversation of a messages request; tool results have the role user."""
    said: list[ChatMessage] = []
    for message in body.get("messages", ()):
        content = message.get("content", "")
        who = "user" if message.get("role") == "user" else "model"
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block.get("type") == "text":
                said.append(ChatMessage(who, block.get("text", "")))
            elif block.get("type") == "tool_result":
                said.append(ChatMessage("tool", _plain(block.get("content"))))
    tools = tuple(
        Tool(tool["name"], tool["input_schema"])
        for tool in body.get("tools") or ()
        if isinstance(tool, dict) and "input_schema" in tool
    )
    form = (body.get("output_config") or {}).get("format") or body.get("output_format")
    wanted = form.get("schema") if isinstance(form, dict) else None
    return Conversation(tuple(said), tools, wanted)


def _plain(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or () if isinstance(part, dict))


def stream(reply: Reply, body: dict[str, Any], id: str) -> Iterator[Event]:
    """The answer as events: message start, one block in chunks, message end."""
    begun = {**response_body(reply, body, id), "content": [], "stop_reason": None}
    yield _event("message_start", message=begun)
    block = _block(reply, id)
    if reply.call is not None:
        yield _event("content_block_start", index=0, content_block={**block, "input": {}})
        delta = {"type": "input_json_delta", "partial_json": json.dumps(reply.call.arguments)}
        yield _event("content_block_delta", index=0, delta=delta)
    else:
        yield _event("content_block_start", index=0, content_block={**block, "text": ""})
        for piece in reply.chunks:
            delta = {"type": "text_delta", "text": piece}
            yield _event("content_block_delta", reply.pause, index=0, delta=delta)
    yield _event("content_block_stop", index=0)
    yield _event("message_delta", delta={"stop_reason": _finish_reason(reply), "stop_sequence": None}, usage=USAGE)
    yield _event("message_stop")


def _event(kind: str, pause: float = 0, **members: Any) -> Event:
    return Event({"type": kind, **members}, name=kind, pause=pause)


def _block(reply: Reply, id: str) -> dict[str, Any]:
    if reply.call is not None:
        return {"type": "tool_use", "id": f"toolu_{id}", "name": reply.call.name, "input": reply.call.arguments}
    return {"type": "text", "text": reply.text}


def _finish_reason(reply: Reply) -> str:
    return "tool_use" if reply.call is not None else "end_turn"


def response_body(reply: Reply, body: dict[str, Any], id: str) -> dict[str, Any]:
    """The answer as one response body."""
    return {
        "id": f"msg_{id}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "fake-model"),
        "content": [_block(reply, id)],
        "stop_reason": _finish_reason(reply),
        "stop_sequence": None,
        "usage": USAGE,
    }
