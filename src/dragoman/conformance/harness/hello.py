"""The opening messages of a client in each dialect, written by hand: the checker must not use the code it checks."""

from __future__ import annotations

from typing import Any, Final

Json = Any

INFO: Final = {"name": "dragoman-check", "version": "0.1.0"}

# All the capabilities of a client, and none.
ALL: Final[dict[str, Json]] = {
    "v1": {
        "fs": {"readTextFile": True, "writeTextFile": True},
        "terminal": True,
        "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
        "elicitation": {"form": {}, "url": {}},
    },
    "v2": {"auth": {"terminal": {}}, "elicitation": {"form": {}, "url": {}}},
    "banjo": {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True},
    "2025.1": {"text_files": True, "terminal": True, "embedded_context": True, "audio": True, "image": True},
    "crow": {"fs": {"read_text_file": True, "write_text_file": True}, "terminal": True},
    "draft": {
        "fs": {"read": True, "write": True},
        "terminal": {"create": True, "interactive": False, "maxConcurrent": 4},
        "ui": {"permissionDialogs": True},
    },
}
NOTHING: Final[dict[str, Json]] = {
    "v1": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
    "v2": {},
    "banjo": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
    "2025.1": {"text_files": False, "terminal": False},
    "crow": {},
    "draft": {"fs": {"read": False, "write": False}, "terminal": {"create": False}},
}


def initialize(dialect: str, cwd: str, capabilities: Json) -> dict[str, Json]:
    """Return the params of initialize."""
    if dialect == "v2":
        return {"protocolVersion": 2, "info": INFO, "capabilities": capabilities}
    if dialect == "draft":
        return {"protocolVersion": 1, "clientInfo": INFO, "capabilities": capabilities}
    if dialect == "crow":
        return {"protocol_version": 1, "client_info": INFO, "client_capabilities": capabilities}
    if dialect == "2025.1":
        return {
            "protocol_version": "2025.1",
            "client_info": INFO,
            "capabilities": capabilities,
            "working_directory": cwd,
            "mcp_servers": [],
        }
    return {"protocolVersion": 1, "clientInfo": INFO, "clientCapabilities": capabilities}


def new_session(dialect: str, cwd: str, session: str) -> dict[str, Json]:
    """Return the params of session/new; `session` is the id in dialects where the client chooses it."""
    if dialect == "draft":
        return {"workingDirectory": cwd, "mcpServers": []}
    if dialect == "2025.1":
        return {"session_id": session, "mode": "agent"}
    if dialect in ("banjo", "v2"):
        return {"cwd": cwd}
    return {"cwd": cwd, "mcpServers": []}


# The members with the session id of a call and of an update, and with the stop reason of an answer.
SESSION: Final = {"v1": "sessionId", "banjo": "sessionId", "2025.1": "session_id", "crow": "session_id"} | {
    "draft": "sessionId",
    "v2": "sessionId",
}
UPDATED: Final = {**SESSION, "crow": "sessionId"}
STOP: Final = {"v1": "stopReason", "v2": "", "banjo": "stopReason", "draft": "stopReason"} | {
    "crow": "stop_reason",
    "2025.1": "",
}
STOPS: Final[dict[str, frozenset[str]]] = {
    "v1": frozenset({"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"}),
    "banjo": frozenset({"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "auth_required"}),
    "crow": frozenset({"end_turn", "cancelled", "error"}),
    "draft": frozenset({"end_turn", "cancelled", "max_tokens", "error"}),
    "2025.1": frozenset(),
}
