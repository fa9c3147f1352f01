"""Tables of crow: vocabulary names of its members, its kinds of updates, its error codes.

Rename tables map wire name -> vocabulary name; UNSUPPORTED tables list v1 members that it lacks.
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.text_chunk import KIND, SESSION, TEXT, ChunkForm
from dragoman.dialect.v1.tables import CODES as V1_CODES
from dragoman.errors import Kind
from dragoman.schema.side import Side

NAME: Final = "crow"

# Those that differ from v1's.
CODES: Final[dict[str, int]] = {
    **V1_CODES,
    Kind.SESSION_NOT_FOUND: -32602,
    Kind.RESOURCE_NOT_FOUND: -32602,
    Kind.UNSUPPORTED_VERSION: -32602,
    Kind.CANCELLED: -32603,
    Kind.SESSION_EXPIRED: -32602,
    Kind.SESSION_CORRUPTED: -32602,
}

# --- initialize
INITIALIZE_NAMES: Final = {
    "protocol_version": "protocolVersion",
    "client_capabilities": "clientCapabilities",
    "client_info": "clientInfo",
}
INITIALIZE_RESULT_NAMES: Final = {
    "protocol_version": "protocolVersion",
    "agent_capabilities": "agentCapabilities",
    "agent_info": "agentInfo",
}
FILE_NAMES: Final = {"read_text_file": "readTextFile", "write_text_file": "writeTextFile"}
CLIENT_UNSUPPORTED: Final = (
    "session", "auth", "elicitation", "plan", "subagents", "nes", "positionEncodings",
)  # fmt: skip
AGENT_NAMES: Final = {
    "load_session": "loadSession",
    "prompt_capabilities": "promptCapabilities",
    "mcp_capabilities": "mcpCapabilities",
}
AGENT_UNSUPPORTED: Final = ("sessionCapabilities", "auth", "providers", "nes", "positionEncoding")
PROMPT_NAMES: Final = {"image": "image", "resource": "embeddedContext"}
PROMPT_UNSUPPORTED: Final = ("audio",)
MCP_UNSUPPORTED: Final = ("acp",)

# --- sessions
SESSION_NAMES: Final = {"session_id": "sessionId"}
SETUP_UNSUPPORTED: Final = ("additionalDirectories", "systemPrompt")
SETUP_RESULT_UNSUPPORTED: Final = ("modes", "configOptions")

# Stop reasons that crow has; any other is sent as the nearest (docs/protocol/dialect-matrix.md#stop-reason-map).
STOP_REASONS: Final = frozenset({"end_turn", "cancelled", "error"})
NEAREST_STOP_REASONS: Final = {"auth_required": "error"}

# --- updates: `@type` -> `sessionUpdate`
TEXT_KIND_BY_TYPE: Final = {
    "agent_message_text": "agent_message_chunk",
    "agent_thought_text": "agent_thought_chunk",
    # Our addition: a replay must show the user's messages (docs/protocol/dialect-matrix.md#user-text)
    "user_message_text": "user_message_chunk",
}
KIND_BY_TYPE: Final = {
    **TEXT_KIND_BY_TYPE,
    "tool_call_start": "tool_call",
    "tool_call_update": "tool_call_update",
    "plan_update": "plan",
}
TYPE_BY_KIND: Final = {name: kind for kind, name in KIND_BY_TYPE.items()}

TOOL_NAMES: Final = {"tool_call_id": "toolCallId"}
TOOL_UNSUPPORTED: Final = ("name", "content", "locations", "rawInput", "rawOutput")
OPTION_NAMES: Final = {"id": "optionId", "title": "name"}
RESPONSE_NAMES: Final = {**SESSION_NAMES, **TOOL_NAMES, "option_id": "optionId"}

# Methods that docs/protocol/dialects.md#crow does not mention, as in v1.
V1_METHODS: Final = (
    "fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/output", "terminal/wait_for_exit",
    "terminal/kill", "terminal/release",
)  # fmt: skip

CHUNK_FORMS: Final = (ChunkForm({"sessionId": SESSION, "update": {"@type": KIND, "text": TEXT}}, TEXT_KIND_BY_TYPE),)

# Where a peer finds the member that an error is about: pattern and replacement, by the side that receives the call.
ERROR_PATHS: Final[dict[Side, tuple[tuple[str, str], ...]]] = {
    Side.AGENT: (
        (r"^sessionId\b", "session_id"),
        (r"^toolCallId\b", "tool_call_id"),
        (r"^optionId\b", "option_id"),
        (r"^clientInfo\b", "client_info"),
        (r"^clientCapabilities\b", "client_capabilities"),
        (r"^protocolVersion\b", "protocol_version"),
    ),
}
