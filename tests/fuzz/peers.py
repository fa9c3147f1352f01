"""The minimal messages of each dialect: how a client opens a turn, and how an agent serves one."""

from __future__ import annotations

from typing import Any

import msgspec

TEXT = [{"type": "text", "text": "are you there?"}]


class ClientWords(msgspec.Struct, frozen=True):
    """The requests of a whole turn; SESSION is a placeholder for the session's id."""

    initialize: dict[str, Any]
    new: dict[str, Any]
    prompt: dict[str, Any]


class AgentWords(msgspec.Struct, frozen=True):
    """The answers of a whole turn, and one chunk of text."""

    initialize: dict[str, Any]
    prompt: dict[str, Any]
    chunk: dict[str, Any]


SESSION = "SESSION"

CLIENTS = {
    "v1": ClientWords(
        {"protocolVersion": 1, "clientCapabilities": {"fs": {"readTextFile": True}, "terminal": True}},
        {"cwd": "/", "mcpServers": []},
        {"sessionId": SESSION, "prompt": TEXT},
    ),
    "2025.1": ClientWords(
        {
            "protocol_version": "2025.1",
            "client_info": {"name": "fuzz", "version": "1"},
            "capabilities": {"text_files": True, "terminal": True},
            "working_directory": "/",
        },
        {"session_id": SESSION},
        {"session_id": SESSION, "content": TEXT},
    ),
    "crow": ClientWords(
        {
            "protocol_version": 1,
            "client_capabilities": {"fs": {"read_text_file": True}},
            "client_info": {"name": "fuzz", "version": "1"},
        },
        {"cwd": "/", "mcpServers": []},
        {"session_id": SESSION, "prompt": TEXT},
    ),
    "draft": ClientWords(
        {"protocolVersion": 1, "capabilities": {"fs": {"read": True, "write": True}, "terminal": {"create": True}}},
        {"workingDirectory": "/"},
        {"sessionId": SESSION, "content": TEXT},
    ),
}
CLIENTS["banjo"] = CLIENTS["v1"]
CLIENTS["v2"] = ClientWords(
    {"protocolVersion": 2, "info": {"name": "fuzz", "version": "1"}, "capabilities": {}},
    {"cwd": "/"},
    {"sessionId": SESSION, "prompt": TEXT},
)


def _official(text: str) -> dict[str, Any]:
    return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}


AGENTS = {
    "v1": AgentWords(
        {
            "protocolVersion": 1,
            "agentCapabilities": {"loadSession": True, "sessionCapabilities": {"resume": {}, "list": {}, "fork": {}}},
            "agentInfo": {"name": "fuzz", "version": "1"},
        },
        {"stopReason": "end_turn"},
        {"sessionId": SESSION, "update": _official("here")},
    ),
    "2025.1": AgentWords(
        {"agent_info": {"name": "fuzz", "version": "1"}, "capabilities": {"streaming": True, "tools": True}},
        {"status": "ok"},
        {"session_id": SESSION, "type": "agent_message_chunk", "data": {"text": "here"}},
    ),
    "crow": AgentWords(
        {
            "protocol_version": 1,
            "agent_capabilities": {"load_session": True},
            "agent_info": {"name": "fuzz", "version": "1"},
        },
        {"stop_reason": "end_turn"},
        {"sessionId": SESSION, "update": {"@type": "agent_message_text", "text": "here"}},
    ),
    "draft": AgentWords(
        {
            "protocolVersion": 1,
            "agentInfo": {"name": "fuzz", "version": "1"},
            "capabilities": {"sessionCapabilities": {"persistence": True}},
        },
        {"stopReason": "end_turn"},
        {"sessionId": SESSION, "type": "agent_message_chunk", "data": {"content": "here"}},
    ),
}
AGENTS["banjo"] = AGENTS["v1"]
AGENTS["v2"] = AgentWords(
    {
        "protocolVersion": 2,
        "info": {"name": "fuzz", "version": "1"},
        "capabilities": {"session": {"fork": {}}},
    },
    {"messageId": "MESSAGE"},
    {"sessionId": SESSION, "update": {**_official("here"), "messageId": "answer"}},
)


def about(session: str, words: dict[str, Any]) -> Any:
    """Return the messages with the id of this session."""
    return msgspec.json.decode(msgspec.json.encode(words).replace(SESSION.encode(), session.encode()))
