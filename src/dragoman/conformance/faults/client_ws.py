"""Seeded faults of clients of WebSocket."""

from __future__ import annotations

import json
from typing import Any

from dragoman.conformance.remote_seeding import CLOSE, World, socket
from dragoman.conformance.twin import seeded

Message = dict[str, Any]


def _chatty(world: World, message: Message) -> list[Message]:
    if message["type"] == "websocket.receive" and world.notes.setdefault("first", True):
        world.notes["first"] = False
        return [{"type": "websocket.receive", "text": '{"jsonrpc":"2.0","method":"_hello"}'}, message]
    return [message]


def _binary(_: World, message: Message) -> list[Message]:
    if "session/prompt" in (message.get("text") or ""):
        message = {"type": "websocket.receive", "bytes": message["text"].encode()}
    return [message]


def _gone(code: int) -> list[Message]:
    return [{"type": CLOSE, "code": code, "reason": ""}]


def _text_only(_: World, message: Message) -> list[Message]:
    return _gone(1003) if message.get("bytes") else [message]


def _small_only(_: World, message: Message) -> list[Message]:
    return _gone(1009) if len(message.get("text") or "") > 1024 * 1024 else [message]


def _touchy(_: World, message: Message) -> list[Message]:
    if message["type"] == "websocket.send" and message.get("text"):
        try:
            json.loads(message["text"])
        except ValueError:
            return _gone(1007)
    return [message]


def _wordless(_: World, message: Message) -> list[Message]:
    return [{**message, "code": 1006}] if message["type"] == "websocket.disconnect" else [message]


def _gap(_: World, message: Message) -> list[Message]:
    return [] if "number 0777" in (message.get("text") or "") else [message]


seeded("client.ws.01", socket(hears=_chatty))
seeded("client.ws.02", socket(hears=_binary))
seeded("client.ws.03", socket(says=_text_only))
seeded("client.ws.04", socket(hears=_wordless))
seeded("client.ws.05", socket(says=_gap))
seeded("client.ws.06", socket(says=_small_only))
seeded("client.ws.07", socket(says=_touchy))
