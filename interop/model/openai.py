"""OpenAI's two APIs: chat completions and responses. Pure: request bodies in, events and bodies out.

Below is the script, which knows what to answer; above the server, which sends each event when its time comes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from interop.model.script import ChatMessage, Conversation, Reply, Tool
from interop.model.stream import Event

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
SPENT = {
    "input_tokens": 10,
    "output_tokens": 5,
    "total_tokens": 15,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}
WHO = {"user": "user", "assistant": "model", "tool": "tool"}


def plain(content: Any) -> str:
    """The text of a message's content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content or () if isinstance(part, dict))


# --- chat completions -------------------------------------------------------------------------------------------


def read_chat(body: dict[str, Any]) -> Conversation:
    """The conversation of a chat completions request."""
    said = tuple(
        ChatMessage(WHO[message["role"]], plain(message.get("content")))
        for message in body.get("messages", ())
        if message.get("role") in WHO
    )
    tools = tuple(
        Tool(tool["function"]["name"], tool["function"].get("parameters") or {})
        for tool in body.get("tools") or ()
        if "function" in tool
    )
    return Conversation(said, tools, _wanted(body.get("response_format")))


def _wanted(form: Any) -> dict[str, Any] | None:
    if not isinstance(form, dict) or form.get("type") not in ("json_schema", "json_object"):
        return None
    schema = form.get("schema") or (form.get("json_schema") or {}).get("schema")
    return schema if isinstance(schema, dict) else {}


def stream_chat(reply: Reply, body: dict[str, Any], id: str) -> Iterator[Event]:
    """The answer as chunks; the last one with a choice has the finish reason."""
    yield _chunk(body, id, {"role": "assistant", "content": ""})
    for piece in reply.chunks:
        yield _chunk(body, id, {"content": piece}, pause=reply.pause)
    if reply.call is not None:
        call = {"index": 0, "id": f"call_{id}", "type": "function", "function": _function(reply)}
        yield _chunk(body, id, {"tool_calls": [call]})
    yield _chunk(body, id, {}, "tool_calls" if reply.call else "stop")
    yield Event({**_chat(body, id, "chat.completion.chunk"), "choices": [], "usage": USAGE})
    yield Event("[DONE]")


def chat_body(reply: Reply, body: dict[str, Any], id: str) -> dict[str, Any]:
    """The answer as one body."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.call is not None:
        message["tool_calls"] = [{"id": f"call_{id}", "type": "function", "function": _function(reply)}]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if reply.call else "stop"}
    return {**_chat(body, id, "chat.completion"), "choices": [choice], "usage": USAGE}


def _function(reply: Reply) -> dict[str, str]:
    assert reply.call is not None
    return {"name": reply.call.name, "arguments": json.dumps(reply.call.arguments)}


def _chat(body: dict[str, Any], id: str, object: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{id}", "object": object, "created": 0, "model": body.get("model", "fake-model")}


def _chunk(body: dict[str, Any], id: str, delta: dict[str, Any], why: str | None = None, pause: float = 0) -> Event:
    choice = {"index": 0, "delta": delta, "finish_reason": why}
    return Event({**_chat(body, id, "chat.completion.chunk"), "choices": [choice]}, pause=pause)


# --- responses --------------------------------------------------------------------------------------------------


def read_responses(body: dict[str, Any]) -> Conversation:
    """The conversation of a responses request."""
    given = body.get("input") or ()
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    said = tuple(one for one in map(_item, items) if one is not None)
    tools = tuple(
        Tool(tool["name"], tool.get("parameters") or {})
        for tool in body.get("tools") or ()
        if tool.get("type") == "function"
    )
    return Conversation(said, tools, _wanted((body.get("text") or {}).get("format")))


def _item(item: dict[str, Any]) -> ChatMessage | None:
    if item.get("type") == "function_call_output":
        return ChatMessage("tool", plain(item.get("output")))
    if item.get("type", "message") == "message" and item.get("role") in WHO:
        return ChatMessage(WHO[item["role"]], plain(item.get("content")))
    return None


def stream_responses(reply: Reply, body: dict[str, Any], id: str) -> Iterator[Event]:
    """The answer as events, each with its type and a number."""
    for number, (kind, members, pause) in enumerate(_steps(reply, body, id)):
        yield Event({"type": kind, "sequence_number": number, **members}, name=kind, pause=pause)


def _steps(reply: Reply, body: dict[str, Any], id: str) -> Iterator[tuple[str, dict[str, Any], float]]:
    begun = {**responses_body(reply, body, id), "status": "in_progress", "output": [], "usage": None}
    yield "response.created", {"response": begun}, 0
    yield "response.in_progress", {"response": begun}, 0
    if reply.call is not None:
        item = _output(reply, id)
        here: dict[str, Any] = {"item_id": item["id"], "output_index": 0}
        yield (
            "response.output_item.added",
            {"output_index": 0, "item": {**item, "arguments": "", "status": "in_progress"}},
            0,
        )
        yield "response.function_call_arguments.delta", {**here, "delta": item["arguments"]}, 0
        yield "response.function_call_arguments.done", {**here, "arguments": item["arguments"]}, 0
    else:
        item = _output(reply, id)
        here = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        empty = {"type": "output_text", "text": "", "annotations": []}
        yield (
            "response.output_item.added",
            {"output_index": 0, "item": {**item, "content": [], "status": "in_progress"}},
            0,
        )
        yield "response.content_part.added", {**here, "part": empty}, 0
        for piece in reply.chunks:
            yield "response.output_text.delta", {**here, "delta": piece}, reply.pause
        yield "response.output_text.done", {**here, "text": reply.text}, 0
        yield "response.content_part.done", {**here, "part": item["content"][0]}, 0
    yield "response.output_item.done", {"output_index": 0, "item": item}, 0
    yield "response.completed", {"response": responses_body(reply, body, id)}, 0


def _output(reply: Reply, id: str) -> dict[str, Any]:
    if reply.call is not None:
        made = {"type": "function_call", "id": f"fc_{id}", "call_id": f"call_{id}", "status": "completed"}
        return {**made, **_function(reply)}
    part = {"type": "output_text", "text": reply.text, "annotations": []}
    return {"type": "message", "id": f"msg_{id}", "role": "assistant", "status": "completed", "content": [part]}


def responses_body(reply: Reply, body: dict[str, Any], id: str) -> dict[str, Any]:
    """The answer as one body."""
    return {
        "id": f"resp_{id}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": body.get("model", "fake-model"),
        "output": [_output(reply, id)],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "usage": SPENT,
    }
