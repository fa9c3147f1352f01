"""Tables of the draft: its error codes, and the name tables of its codec.

Tables map wire name -> vocabulary name unless their comment says otherwise.
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.text_chunk import KIND, SESSION, TEXT, ChunkForm
from dragoman.errors import Kind
from dragoman.schema.side import Side

NAME: Final = "draft"

# docs/protocol/errors.md#kinds. The order matters when lifting: the first kind with a code is its meaning.
CODES: Final[dict[str, int]] = {
    Kind.PARSE_ERROR: -32700,
    Kind.INVALID_REQUEST: -32600,
    Kind.METHOD_NOT_FOUND: -32601,
    Kind.INVALID_PARAMS: -32602,
    Kind.INTERNAL_ERROR: -32603,
    Kind.AUTH_REQUIRED: -32001,
    Kind.SESSION_NOT_FOUND: -32000,
    Kind.RESOURCE_NOT_FOUND: -32004,
    Kind.PERMISSION_DENIED: -32002,
    Kind.ACCESS_DENIED: -32005,
    Kind.INVALID_STATE: -32006,
    Kind.CAPABILITY_UNSUPPORTED: -32007,
    Kind.UNSUPPORTED_VERSION: -32602,
    Kind.CANCELLED: -32003,
    Kind.RATE_LIMITED: -32008,
    Kind.TIMEOUT: -32009,
    Kind.SESSION_EXPIRED: -32000,
    Kind.SESSION_CORRUPTED: -32000,
    Kind.TOO_LARGE: -32600,
    Kind.CONNECTION_LOST: -32603,
}

# In v1's shape: the file calls of docs/protocol/extensions.md#file-calls.
V1_METHODS_TO_AGENT: Final = frozenset({"fs/changed"})
V1_METHODS_TO_CLIENT: Final = frozenset(
    {
        "fs/read_binary_file",
        "fs/write_binary_file",
        "fs/list_directory",
        "fs/create_directory",
        "fs/watch",
        "fs/unwatch",
        "fs/write_files",
    }
)

# --- capabilities -----------------------------------------------------------------------------------------
FS_NAMES: Final = {"read": "readTextFile", "write": "writeTextFile"}
FS_SIDE_DATA: Final = ("watch", "binary", "list", "createDirectory", "atomic")
CLIENT_SIDE_DATA: Final = {"ui": "ui", "_custom": "custom"}
CLIENT_UNSUPPORTED: Final = ("session", "auth", "elicitation", "plan", "subagents", "nes", "positionEncodings")

MCP_SIDE_DATA: Final = ("servers", "transport")
MCP_TRANSPORTS: Final = ("http", "sse")  # the same names in both; v1 does not name stdio
PROMPT_SIDE_DATA: Final = ("streaming", "cancellation", "attachments")
PROMPT_UNSUPPORTED: Final = ("image", "audio", "embeddedContext")
SESSION_SIDE_DATA: Final = ("modes", "configOptions", "persistence")
SESSION_UNSUPPORTED: Final = (
    "list", "delete", "additionalDirectories", "resume", "close", "fork", "archive", "status", "title",
    "systemPrompt",
)  # fmt: skip
AGENT_SIDE_DATA: Final = {"_custom": "custom"}
AGENT_UNSUPPORTED: Final = ("auth", "providers", "nes", "positionEncoding")

# --- prompt turn ------------------------------------------------------------------------------------------
# Vocabulary -> draft, for stop reasons that the draft lacks (docs/protocol/dialect-matrix.md#stop-reason-map).
NEAREST_STOP_REASONS: Final = {"refusal": "end_turn", "max_turn_requests": "max_tokens"}

# --- session/update ---------------------------------------------------------------------------------------
CHUNK_KIND_BY_TYPE: Final = {
    "agent_message_chunk": "agent_message_chunk",
    "user_message_chunk": "user_message_chunk",
    "thought_message_chunk": "agent_thought_chunk",
}
CHUNK_TYPE_BY_KIND: Final = {name: wire for wire, name in CHUNK_KIND_BY_TYPE.items()}
CHUNK_SIDE_DATA: Final = ("index", "final", "visible")

# --- permission -------------------------------------------------------------------------------------------
TOOL_KIND_BY_OPERATION: Final = {
    "file_read": "read",
    "file_write": "edit",
    "file_delete": "delete",
    "terminal_execute": "execute",
    "network_access": "fetch",
    "mcp_tool": "other",
}
# Tool kind -> operation; every other kind is an MCP tool's.
OPERATION_BY_TOOL_KIND: Final = {
    "read": "file_read",
    "search": "file_read",
    "edit": "file_write",
    "move": "file_write",
    "delete": "file_delete",
    "execute": "terminal_execute",
    "fetch": "network_access",
}
FILE_OPERATIONS: Final = frozenset({"file_read", "file_write", "file_delete"})
# Operation -> the member of rawInput that names its resource.
RESOURCE_MEMBERS: Final = {"terminal_execute": "command", "network_access": "url"}
RESOURCE_INPUT_MEMBERS: Final = ("command", "path", "file_path", "url")
# The draft asks yes or no and the client chooses the scope; v1 expects options.
PERMISSION_OPTIONS: Final = (
    {"optionId": "once", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "session", "name": "Allow for this session", "kind": "allow_always"},
    {"optionId": "workspace", "name": "Allow in this workspace", "kind": "allow_always"},
    {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "deny", "name": "Deny", "kind": "reject_once"},
)
# Option id -> the draft's answer.
PERMISSION_ANSWERS: Final[dict[str, dict[str, bool | str]]] = {
    "once": {"granted": True, "scope": "once"},
    "session": {"granted": True, "remember": True, "scope": "session"},
    "workspace": {"granted": True, "remember": True, "scope": "workspace"},
    "always": {"granted": True, "remember": True, "scope": "always"},
    "deny": {"granted": False},
}

# --- terminal ---------------------------------------------------------------------------------------------
# The draft always has an exit code: a process ended by a signal gets 128 + n, as in a shell.
SIGNAL_NUMBERS: Final = {
    "SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8,
    "SIGKILL": 9, "SIGUSR1": 10, "SIGSEGV": 11, "SIGUSR2": 12, "SIGPIPE": 13, "SIGALRM": 14, "SIGTERM": 15,
}  # fmt: skip
NO_EXIT_CODE: Final = -1

CHUNK_FORMS: Final = (ChunkForm({"sessionId": SESSION, "type": KIND, "data": {"content": TEXT}}, CHUNK_KIND_BY_TYPE),)

# Where a peer finds the member that an error is about: pattern and replacement, by the side that receives the call.
ERROR_PATHS: Final[dict[Side, tuple[tuple[str, str], ...]]] = {
    Side.AGENT: (
        (r"^cwd\b", "workingDirectory"),
        (r"^prompt\b", "content"),
        (r"^modeId\b", "mode"),
        (r"^configId\b", "key"),
        (r"^methodId\b", "method"),
        (r"^clientCapabilities\b", "capabilities"),
        (r"^(content\[\d+\])\.resource\.text\b", r"\1.content"),
        (r"^(content\[\d+\])\.resource\b\.?", r"\1."),
        (r"^(content\[\d+\])\.data\b", r"\1.source.data"),
        (r"^(content\[\d+\])\.mimeType\b", r"\1.source.mediaType"),
        (r"^(mcpServers\[\d+\])\.(command|args|url|headers|env)\b", r"\1.transport.\2"),
    ),
}
