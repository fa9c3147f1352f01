"""Seeded faults of servers of WebSocket."""

from __future__ import annotations

import json
from typing import Any

from dragoman.conformance.remote_seeding import CLOSE, World, socket
from dragoman.conformance.remote_twin import RemoteFault
from dragoman.conformance.twin import seeded
from dragoman.transport.remote.server.limits import ServerLimits

Message = dict[str, Any]

NAME = b"acp-connection-id"


def _said(message: Message) -> Any:
    try:
        return json.loads(message.get("text") or "")
    except ValueError:
        return None


def _unnamed(_: World, message: Message) -> list[Message]:
    if message["type"] == "websocket.accept":
        message = {**message, "headers": [each for each in message["headers"] if each[0] != NAME]}
    return [message]


def _same_name(_: World, message: Message) -> list[Message]:
    if message["type"] == "websocket.accept":
        message = {**message, "headers": [(NAME, b"always-the-same")]}
    return [message]


def _binary(_: World, message: Message) -> list[Message]:
    if "tool_call_update" in (message.get("text") or ""):
        message = {"type": "websocket.send", "bytes": message["text"].encode()}
    return [message]


def _takes_binary(_: World, message: Message) -> list[Message]:
    if message.get("bytes"):
        message = {"type": "websocket.receive", "text": message["bytes"].decode("utf-8", "replace")}
    return [message]


def _eager(world: World, message: Message) -> list[Message]:
    said = _said(message)
    method = said.get("method") if isinstance(said, dict) else None
    if method == "initialize":
        world.notes["met"] = True
    elif method == "session/new" and "met" not in world.notes:
        reply = {"jsonrpc": "2.0", "id": said["id"], "result": {"sessionId": "early"}}
        return [{"type": "websocket.send", "text": json.dumps(reply)}]
    return [message]


def _touchy(_: World, message: Message) -> list[Message]:
    if message.get("text") and _said(message) is None:
        return [{"type": CLOSE, "code": 1007, "reason": "no JSON"}, {"type": "websocket.disconnect", "code": 1006}]
    return [message]


def _no_fragments(_: World, message: Message) -> list[Message]:
    said = _said(message)  # a server that joins no fragments would see none of the three as a message
    return [] if isinstance(said, dict) and said.get("id") == "cut" else [message]


def _gap(_: World, message: Message) -> list[Message]:
    return [] if "chunk 00777" in (message.get("text") or "") else [message]


def _forgetful(_: World, message: Message) -> list[Message]:
    said = _said(message)
    if isinstance(said, dict) and said.get("method") == "session/load":
        error = {"code": -32002, "message": "Resource not found"}
        return [{"type": "websocket.send", "text": json.dumps({"jsonrpc": "2.0", "id": said["id"], "error": error})}]
    return [message]


def _noticed(world: World, message: Message) -> list[Message]:
    if message["type"] == "websocket.disconnect" and message.get("code") != 1000:
        world.notes["upset"] = True
    return [message]


def _silenced(world: World, message: Message) -> list[Message]:
    return [] if "upset" in world.notes and message["type"] == "websocket.send" else [message]


def _without_origin(_: World, headers: dict[str, str]) -> None:
    headers.pop("origin", None)


def _any_host(_: World, headers: dict[str, str]) -> None:
    headers["host"] = "localhost"


def _trusting(_: World, headers: dict[str, str]) -> None:
    headers["authorization"] = "Bearer check-token"


def _without(opcode: int) -> RemoteFault:
    """Control frames of this kind are never sent; they come in a write of their own."""
    return RemoteFault(towards_client=lambda data: b"" if data[0] == 0x80 | opcode else data)


seeded("agent.ws.01", socket(says=_unnamed))
seeded("agent.ws.02", socket(says=_same_name))
seeded("agent.ws.03", socket(says=_binary))
seeded("agent.ws.04", socket(hears=_takes_binary))
seeded("agent.ws.05", socket(hears=_eager))
seeded("agent.ws.06", socket(hears=_touchy))
seeded("agent.ws.07", socket(hears=_no_fragments))
seeded("agent.ws.08", _without(0xA))
seeded("agent.ws.09", socket(says=_gap))
seeded("agent.ws.10", socket(posted=202))
seeded("agent.ws.11", socket(hears=_forgetful))
seeded("agent.ws.12", _without(0x8))
seeded("agent.ws.13", RemoteFault(limits=ServerLimits(frame=1 << 31)))
seeded("agent.ws.14", socket(hears=_noticed, says=_silenced))
seeded("agent.ws.15", socket(asked=_without_origin))
seeded("agent.ws.16", socket(asked=_any_host))
seeded("agent.ws.17", socket(asked=_trusting))
