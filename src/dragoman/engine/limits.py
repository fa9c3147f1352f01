"""The limits of a connection, each with its reason."""

from __future__ import annotations

# Above this much undispatched input the reader stops, so a slow handler slows the peer instead of filling memory.
INBOX_BYTES = 16 * 1024 * 1024

# A handler that awaits its own peer needs the reader to go on; above this the connection fails as overloaded.
INBOX_HARD_BYTES = 256 * 1024 * 1024

# Requests of the peer that may run at once, each a task; more are answered with rate_limited.
MAX_RUNNING_REQUESTS = 4096

# How long running requests may still finish after the peer's output has ended. Seconds.
EOF_GRACE = 1.0

# How long a close waits for cancelled handlers; one that does not end must not keep its process alive. Seconds.
CLOSE_GRACE = 10.0

# A producer that never waits lets the reader run after this many bytes, so that a cancel gets through.
YIELD_BYTES = 64 * 1024

# Distinct messages reported to the user once (losses, decisions); a peer that causes more must not fill memory.
MAX_REPORTS = 1000
