"""The limits of a connection, each with its reason."""

from __future__ import annotations

# Unhandled input past this stops the reader, so a slow handler slows the peer instead of filling memory.
INBOX_BYTES = 16 * 1024 * 1024

# A handler that waits for its own peer needs the reader to go on; past this the connection fails as overloaded.
INBOX_HARD_BYTES = 256 * 1024 * 1024

# Requests of the peer that may be under way at once; more are answered rate_limited, for each holds a task.
MAX_RUNNING_REQUESTS = 4096

# When the peer's input has ended, requests it had made may still finish for this long. Seconds.
EOF_GRACE = 1.0

# How long a close waits for handlers that were cancelled; one that will not end must not keep its process. Seconds.
CLOSE_GRACE = 10.0

# A producer that never waits gives way to the reader after this many bytes, so that a cancel gets through.
YIELD_BYTES = 64 * 1024

# Different things said once to the user (losses, decisions); a peer that makes up more is not worth the memory.
MAX_REPORTS = 1000
