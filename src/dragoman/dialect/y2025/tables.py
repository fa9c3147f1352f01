"""Tables of 2025.1: vocabulary names of its members, and its error codes.

Rename tables map wire name -> vocabulary name; UNSUPPORTED tables list v1 members that it lacks.
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.text_chunk import KIND, SESSION, TEXT, ChunkForm
from dragoman.dialect.v1.tables import CHUNK_KINDS
from dragoman.dialect.v1.tables import CODES as V1_CODES
from dragoman.errors import Kind
from dragoman.schema.side import Side

NAME: Final = "2025.1"

# Those that differ from v1's.
CODES: Final[dict[str, int]] = {
    **V1_CODES,
    Kind.SESSION_NOT_FOUND: -32001,
    Kind.RESOURCE_NOT_FOUND: -32001,
    Kind.PERMISSION_DENIED: -32002,
    Kind.ACCESS_DENIED: -32002,
    Kind.INVALID_STATE: -32003,
    Kind.CAPABILITY_UNSUPPORTED: -32004,
    Kind.UNSUPPORTED_VERSION: -32602,
    Kind.CANCELLED: -32603,
    Kind.SESSION_EXPIRED: -32001,
    Kind.SESSION_CORRUPTED: -32001,
}

VERSION: Final = "2025.1"

# --- initialize
CLIENT_SIDE_DATA: Final = {
    "embedded_context": "embeddedContext",
    "audio": "audio",
    "image": "image",
    "experimental": "experimental",
}
CLIENT_UNSUPPORTED: Final = (
    "session", "auth", "elicitation", "plan", "subagents", "nes", "positionEncodings",
)  # fmt: skip
AGENT_SIDE_DATA: Final = {"streaming": "streaming", "audio": "audio", "tools": "tools", "supported_modes": "modes"}
AGENT_UNSUPPORTED: Final = (
    "loadSession", "mcpCapabilities", "sessionCapabilities", "auth", "providers", "nes", "positionEncoding",
)  # fmt: skip

# --- sessions, files, terminals
SESSION_NAMES: Final = {"session_id": "sessionId"}
TERMINAL_NAMES: Final = {"terminal_id": "terminalId"}
EXIT_NAMES: Final = {"exit_code": "exitCode", "signal": "signal"}
SETUP_INFERRED: Final = {"cwd": "", "mcpServers": []}
SETUP_UNSUPPORTED: Final = ("cwd", "mcpServers", "additionalDirectories", "systemPrompt")
SETUP_RESULT_UNSUPPORTED: Final = ("modes", "configOptions")

# --- updates
TOOL_UNSUPPORTED: Final = ("title", "name", "kind", "status", "content", "locations", "rawInput", "rawOutput")
LINK_UNSUPPORTED: Final = ("name", "title", "description", "size", "annotations")

CHUNK_FORMS: Final = (
    ChunkForm({"session_id": SESSION, "type": KIND, "data": {"text": TEXT}}, {kind: kind for kind in CHUNK_KINDS}),
)

# Where a peer finds the member that an error is about: pattern and replacement, by the side that receives the call.
ERROR_PATHS: Final[dict[Side, tuple[tuple[str, str], ...]]] = {
    Side.AGENT: (
        (r"^sessionId\b", "session_id"),
        (r"^prompt\b", "content"),
        (r"^methodId\b", "type"),
        (r"^clientInfo\b", "client_info"),
        (r"^clientCapabilities\b", "capabilities"),
        (r"^protocolVersion\b", "protocol_version"),
        (r"^(content\[\d+\])\.resource\.text\b", r"\1.content"),
        (r"^(content\[\d+\])\.resource\b\.?", r"\1."),
        (r"^(content\[\d+\])\.mimeType\b", r"\1.format"),
    ),
    Side.CLIENT: ((r"^sessionId\b", "session_id"), (r"^terminalId\b", "terminal_id")),
}
