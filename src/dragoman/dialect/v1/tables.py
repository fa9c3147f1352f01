"""Tables of official v1: error codes, statuses, stop reasons and kinds of updates.

The vocabulary is v1, so most dialects use these tables (docs/protocol/updates.md, docs/protocol/tool-calls.md,
docs/protocol/errors.md#kinds).
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.reshape import Object
from dragoman.dialect.text_chunk import KIND, MESSAGE_ID, SESSION, TEXT, ChunkForm
from dragoman.errors import Kind

NAME: Final = "v1"

STANDARD_CODES: Final[dict[str, int]] = {
    Kind.PARSE_ERROR: -32700,
    Kind.INVALID_REQUEST: -32600,
    Kind.METHOD_NOT_FOUND: -32601,
    Kind.INVALID_PARAMS: -32602,
    Kind.INTERNAL_ERROR: -32603,
}

CODES: Final[dict[str, int]] = {
    **STANDARD_CODES,
    Kind.AUTH_REQUIRED: -32000,
    Kind.SESSION_NOT_FOUND: -32002,
    Kind.RESOURCE_NOT_FOUND: -32002,
    Kind.PERMISSION_DENIED: -32603,
    Kind.ACCESS_DENIED: -32602,
    Kind.INVALID_STATE: -32600,
    Kind.CAPABILITY_UNSUPPORTED: -32601,
    Kind.UNSUPPORTED_VERSION: -32022,
    Kind.CANCELLED: -32800,
    Kind.RATE_LIMITED: -32603,
    Kind.TIMEOUT: -32603,
    Kind.SESSION_EXPIRED: -32002,
    Kind.SESSION_CORRUPTED: -32002,
    Kind.TOO_LARGE: -32600,
    Kind.CONNECTION_LOST: -32603,
}

# Methods outside the vocabulary: they pass every dialect unchanged.
EXTENSION_PREFIXES: Final = ("_", "$/")

# What only v2 agents serve.
V2_METHODS: Final = frozenset({"tool_call/cancel", "terminal/cancel"})

# The draft's tool call statuses, and the nearest that v1 has (docs/protocol/dialect-matrix.md#tool-statuses).
NEAREST_STATUSES: Final[dict[str, str]] = {
    "awaiting_permission": "pending",
    "denied": "failed",
    "cancelled": "failed",
    "paused": "in_progress",
}

# Stop reasons that are errors in v1 (docs/protocol/dialect-matrix.md#stop-reason-map).
STOP_ERRORS: Final[dict[str, str]] = {
    "error": Kind.INTERNAL_ERROR,
    "auth_required": Kind.AUTH_REQUIRED,
}

# All kinds of session/update in the vocabulary; a dialect passes on any other kind unchanged.
UPDATE_KINDS: Final[frozenset[str]] = frozenset(
    {
        "user_message_chunk",
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "session_info_update",
        "usage_update",
        "notice",
        "compaction_update",
        "compaction_summary_chunk",
        "plan_update",
        "plan_removed",
        "subagent_update",
        "session_message",
        "session_message_chunk",
    }
)

CHUNK_KINDS: Final = ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk")
TOOL_CALL_KINDS: Final = ("tool_call", "tool_call_update")

_CHUNK: Final = ChunkForm(
    {"sessionId": SESSION, "update": {"sessionUpdate": KIND, "content": {"type": "text", "text": TEXT}}},
    {kind: kind for kind in CHUNK_KINDS},
)
CHUNK_WITH_ID: Final = ChunkForm(
    {
        "sessionId": SESSION,
        "update": {"sessionUpdate": KIND, "messageId": MESSAGE_ID, "content": {"type": "text", "text": TEXT}},
    },
    {kind: kind for kind in CHUNK_KINDS},
)
CHUNK_FORMS: Final = (_CHUNK, CHUNK_WITH_ID)


def chunk_text(params: Object) -> str | None:
    """Return the text of a session/update that is a plain text chunk without other members; else None."""
    update = params.get("update")
    if len(params) != 2 or type(update) is not dict or len(update) != 2 or "sessionId" not in params:
        return None
    content = update.get("content")
    if type(content) is not dict or len(content) != 2 or content.get("type") != "text":
        return None
    text = content.get("text")
    return text if type(text) is str and update.get("sessionUpdate") in CHUNK_KINDS else None
