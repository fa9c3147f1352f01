"""The limits of MCP servers and their answers, each with its reason."""

from __future__ import annotations

# How long a server may take from its start to its first answers. Servers that npx or uvx download first take longest.
# Seconds.
OPEN_TIMEOUT = 30.0

# How long session/new waits for its servers. A slower server comes later and its tools with it. Seconds.
OPEN_GRACE = 5.0

# How long a call may take if the server's entry has no timeout. Seconds.
CALL_TIMEOUT = 120.0

# How long a server may take to list what it has. Seconds.
LIST_TIMEOUT = 30.0

# How long closing a connection may take; then its process tree is killed. Seconds.
CLOSE_TIMEOUT = 5.0

# Pages of one list: a server that always gives another cursor must end somewhere.
MAX_PAGES = 100

# Entries of one list. No model can use more tools.
MAX_ENTRIES = 2_000

# Text of one result, in characters: more fills the context of any model.
MAX_TEXT = 1024 * 1024

# Base64 of one image, sound or blob, in characters: 10 MiB of bytes.
MAX_BLOB = 14 * 1024 * 1024

# Blocks of one result.
MAX_BLOCKS = 1_000

# One message of a server, in bytes: the largest blob and its envelope.
MAX_MESSAGE = 16 * 1024 * 1024

# Depth of structured results and schemas: a client decodes them with a parser that recurses.
MAX_DEPTH = 64

# Notifications of one server in a second; more are dropped.
MAX_NOTIFICATIONS = 200

# Bytes of noise and dropped notifications after which a server that is a command is given up.
MAX_FLOOD = 64 * 1024 * 1024

# Progress texts of one call in a second: more than anybody can read.
PROGRESS_INTERVAL = 0.25

# The length of a tool's name for models (OpenAI and Anthropic allow 64 characters).
MAX_NAME = 64
