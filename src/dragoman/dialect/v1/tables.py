"""The tables of official v1: error numbers, statuses and stop reasons it has a word for, kinds of updates.

The vocabulary is v1, so most dialects look here for what there is to be said (reference 1.8, 1.9, 5.12).
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from dragoman.dialect.reshape import Object
from dragoman.dialect.text_chunk import ChunkForm
from dragoman.errors import Kind

DIALECT: Final = "v1"

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

# Methods that belong to nobody's vocabulary: they pass every dialect as they are.
EXTENSION_PREFIXES: Final = ("_", "$/")

# The draft's statuses of a tool call, and the nearest that v1 has a word for (reference 5.14-10).
NEAREST_STATUSES: Final[dict[str, str]] = {
    "awaiting_permission": "pending",
    "denied": "failed",
    "cancelled": "failed",
}

# Ends of a turn that are errors in v1 (reference 5.14-6).
STOP_ERRORS: Final[dict[str, str]] = {
    "error": Kind.INTERNAL_ERROR,
    "auth_required": Kind.AUTH_REQUIRED,
}

# All kinds of session/update that the vocabulary has; a dialect passes any other kind on as it came.
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


class _Text(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["text"]
    text: str


class _Update(msgspec.Struct, forbid_unknown_fields=True, rename={"kind": "sessionUpdate"}):
    kind: str
    content: _Text


class _Params(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    session_id: str
    update: _Update


CHUNK: Final = ChunkForm(
    _Params,
    {kind: kind for kind in CHUNK_KINDS},
    lambda said: (said.session_id, said.update.kind, said.update.content.text),
    lambda session, kind, text: _Params(session, _Update(kind, _Text("text", text))),
)


def chunk_text(params: Object) -> str | None:
    """The text of a session/update that is a chunk of plain text without any further member; else None."""
    update = params.get("update")
    if len(params) != 2 or type(update) is not dict or len(update) != 2 or "sessionId" not in params:
        return None
    content = update.get("content")
    if type(content) is not dict or len(content) != 2 or content.get("type") != "text":
        return None
    text = content.get("text")
    return text if type(text) is str and update.get("sessionUpdate") in CHUNK_KINDS else None
