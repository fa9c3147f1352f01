"""Gemini's API: generateContent and its stream. Pure: request bodies in, events and bodies out.

Below is the script, which knows what to answer; above the server, which sends each event when its time comes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from interop.model.script import ChatMessage, Conversation, Reply, Tool
from interop.model.stream import Event

COUNTED = {"totalTokens": 10}
USAGE = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}


def read(body: dict[str, Any]) -> Conversation:
    """The conversation of a request; tool results have the role user."""
    said: list[ChatMessage] = []
    for content in body.get("contents", ()):
        who = "model" if content.get("role") == "model" else "user"
        for part in content.get("parts", ()):
            if "functionResponse" in part:
                said.append(ChatMessage("tool", json.dumps(part["functionResponse"].get("response"))))
            elif "text" in part:
                said.append(ChatMessage(who, part["text"]))
    tools = tuple(
        Tool(one["name"], one.get("parametersJsonSchema") or one.get("parameters") or {})
        for group in body.get("tools") or ()
        for one in group.get("functionDeclarations") or ()
    )
    config = body.get("generationConfig") or {}
    wanted = None
    if config.get("responseMimeType") == "application/json":
        wanted = config.get("responseJsonSchema") or config.get("responseSchema") or {}
    return Conversation(tuple(said), tools, wanted)


def stream(reply: Reply, body: dict[str, Any], id: str) -> Iterator[Event]:
    """The answer as events, each a complete response with one more part; the last has the finish reason."""
    for piece in reply.chunks:
        yield Event(_response({"text": piece}, id), pause=reply.pause)
    last = _response(_part(reply) if reply.call is not None else {"text": ""}, id)
    last["candidates"][0]["finishReason"] = "STOP"
    yield Event(last)


def response_body(reply: Reply, body: dict[str, Any], id: str) -> dict[str, Any]:
    """The answer as one response body."""
    made = _response(_part(reply), id)
    made["candidates"][0]["finishReason"] = "STOP"
    return made


def _part(reply: Reply) -> dict[str, Any]:
    if reply.call is not None:
        return {"functionCall": {"name": reply.call.name, "args": reply.call.arguments}}
    return {"text": reply.text}


def _response(part: dict[str, Any], id: str) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": [part]}, "index": 0}
    return {"candidates": [candidate], "usageMetadata": USAGE, "modelVersion": "fake-model", "responseId": id}
