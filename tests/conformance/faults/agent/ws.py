"""Faults of WebSocket servers."""

from __future__ import annotations

import json
from typing import Any

from dragoman.transport.remote.server.limits import ServerLimits
from tests.conformance.faults.fault import RemoteFault, seed
from tests.conformance.faults.remote_edits import CLOSE, ServerMemory, socket

Message = dict[str, Any]

NAME = b"acp-connection-id"


def _parse_text(message: Message) -> Any:
    try:
        return json.loads(message.get("text") or "")
    except ValueError:
        return None


def _remove_connection_id(_: ServerMemory, message: Message) -> list[Message]:
    if message["type"] == "websocket.accept":
        message = {**message, "headers": [each for each in message["headers"] if each[0] != NAME]}
    return [message]


def _same_name(_: ServerMemory, message: Message) -> list[Message]:
    if message["type"] == "websocket.accept":
        message = {**message, "headers": [(NAME, b"always-the-same")]}
    return [message]


def _binary(_: ServerMemory, message: Message) -> list[Message]:
    if "tool_call_update" in (message.get("text") or ""):
        message = {"type": "websocket.send", "bytes": message["text"].encode()}
    return [message]


def _takes_binary(_: ServerMemory, message: Message) -> list[Message]:
    if message.get("bytes"):
        message = {"type": "websocket.receive", "text": message["bytes"].decode("utf-8", "replace")}
    return [message]


def _open_before_initialize(memory: ServerMemory, message: Message) -> list[Message]:
    parsed = _parse_text(message)
    method = parsed.get("method") if isinstance(parsed, dict) else None
    if method == "initialize":
        memory.notes["met"] = True
    elif method == "session/new" and "met" not in memory.notes:
        reply = {"jsonrpc": "2.0", "id": parsed["id"], "result": {"sessionId": "early"}}
        return [{"type": "websocket.send", "text": json.dumps(reply)}]
    return [message]


def _close_on_invalid_json(_: ServerMemory, message: Message) -> list[Message]:
    if message.get("text") and _parse_text(message) is None:
        return [{"type": CLOSE, "code": 1007, "reason": "no JSON"}, {"type": "websocket.disconnect", "code": 1006}]
    return [message]


def _no_fragments(_: ServerMemory, message: Message) -> list[Message]:
    parsed = _parse_text(message)  # a server that joins no fragments would see none of the three as a message
    return [] if isinstance(parsed, dict) and parsed.get("id") == "cut" else [message]


def _drop_one_chunk(_: ServerMemory, message: Message) -> list[Message]:
    return [] if "chunk 00777" in (message.get("text") or "") else [message]


def _refuse_load(_: ServerMemory, message: Message) -> list[Message]:
    parsed = _parse_text(message)
    if isinstance(parsed, dict) and parsed.get("method") in ("session/load", "session/resume"):
        error = {"code": -32002, "message": "Resource not found"}
        return [{"type": "websocket.send", "text": json.dumps({"jsonrpc": "2.0", "id": parsed["id"], "error": error})}]
    return [message]


def _note_disconnect(memory: ServerMemory, message: Message) -> list[Message]:
    if message["type"] == "websocket.disconnect" and message.get("code") != 1000:
        memory.notes["upset"] = True
    return [message]


def _drop_after_disconnect(memory: ServerMemory, message: Message) -> list[Message]:
    return [] if "upset" in memory.notes and message["type"] == "websocket.send" else [message]


def _without_origin(_: ServerMemory, headers: dict[str, str]) -> None:
    headers.pop("origin", None)


def _any_host(_: ServerMemory, headers: dict[str, str]) -> None:
    headers["host"] = "localhost"


def _add_token(_: ServerMemory, headers: dict[str, str]) -> None:
    headers["authorization"] = "Bearer check-token"


def _without(opcode: int) -> RemoteFault:
    """Drop control frames of this kind, which come in a write of their own."""
    return RemoteFault(towards_client=lambda data: b"" if data[0] == 0x80 | opcode else data)


seed("agent.ws.01", socket(outgoing=_remove_connection_id))
seed("agent.ws.02", socket(outgoing=_same_name))
seed("agent.ws.03", socket(outgoing=_binary))
seed("agent.ws.04", socket(incoming=_takes_binary))
seed("agent.ws.05", socket(incoming=_open_before_initialize))
seed("agent.ws.06", socket(incoming=_close_on_invalid_json))
seed("agent.ws.07", socket(incoming=_no_fragments))
seed("agent.ws.08", _without(0xA))
seed("agent.ws.09", socket(outgoing=_drop_one_chunk))
seed("agent.ws.10", socket(posted=202))
seed("agent.ws.11", socket(incoming=_refuse_load))
seed("agent.ws.12", _without(0x8))
seed("agent.ws.13", RemoteFault(limits=ServerLimits(frame=1 << 31)))
seed("agent.ws.14", socket(incoming=_note_disconnect, outgoing=_drop_after_disconnect))
seed("agent.ws.15", socket(on_request=_without_origin))
seed("agent.ws.16", socket(on_request=_any_host))
seed("agent.ws.17", socket(on_request=_add_token))
