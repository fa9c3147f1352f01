"""Faults of WebSocket clients."""

from __future__ import annotations

import json
from typing import Any

from tests.conformance.faults.fault import seed
from tests.conformance.faults.remote_edits import CLOSE, ServerMemory, socket

Message = dict[str, Any]


def _chatty(memory: ServerMemory, message: Message) -> list[Message]:
    if message["type"] == "websocket.receive" and memory.notes.setdefault("first", True):
        memory.notes["first"] = False
        return [{"type": "websocket.receive", "text": '{"jsonrpc":"2.0","method":"_hello"}'}, message]
    return [message]


def _binary(_: ServerMemory, message: Message) -> list[Message]:
    if "session/prompt" in (message.get("text") or ""):
        message = {"type": "websocket.receive", "bytes": message["text"].encode()}
    return [message]


def _gone(code: int) -> list[Message]:
    return [{"type": CLOSE, "code": code, "reason": ""}]


def _text_only(_: ServerMemory, message: Message) -> list[Message]:
    return _gone(1003) if message.get("bytes") else [message]


def _small_only(_: ServerMemory, message: Message) -> list[Message]:
    return _gone(1009) if len(message.get("text") or "") > 1024 * 1024 else [message]


def _touchy(_: ServerMemory, message: Message) -> list[Message]:
    if message["type"] == "websocket.send" and message.get("text"):
        try:
            json.loads(message["text"])
        except ValueError:
            return _gone(1007)
    return [message]


def _wordless(_: ServerMemory, message: Message) -> list[Message]:
    return [{**message, "code": 1006}] if message["type"] == "websocket.disconnect" else [message]


def _gap(_: ServerMemory, message: Message) -> list[Message]:
    return [] if "number 0777" in (message.get("text") or "") else [message]


seed("client.ws.01", socket(incoming=_chatty))
seed("client.ws.02", socket(incoming=_binary))
seed("client.ws.03", socket(outgoing=_text_only))
seed("client.ws.04", socket(incoming=_wordless))
seed("client.ws.05", socket(outgoing=_gap))
seed("client.ws.06", socket(outgoing=_small_only))
seed("client.ws.07", socket(outgoing=_touchy))
