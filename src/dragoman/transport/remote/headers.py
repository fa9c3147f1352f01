"""Names that both ends of a remote connection use: headers, close codes, and a field of SSE events.

Names with Acp- are the protocol's (docs/protocol/http.md#requests); peers that do not know ours only lose resumption.
"""

from __future__ import annotations

# Of the protocol: the connection and the session of a request.
CONNECTION_ID = "Acp-Connection-Id"
SESSION_ID = "Acp-Session-Id"

# Sent with the first upgrade: this client can resume, so keep what it has not acknowledged.
RESUME = "Dragoman-Resume"

# How many frames of this connection the sender has received. In a response (101, or 200 to initialize) it also says
# that the server can resume; a new connection begins with 0. Acknowledgements are not counted or kept.
CURSOR = "Dragoman-Cursor"

# The number of a POST in its connection, from 1: a repeated one is answered 202 and not delivered again.
FRAME_NUMBER = "Dragoman-Frame"

# The largest message that the server allows, in bytes, sent with the first response: larger ones are not sent.
MAX_MESSAGE = "Dragoman-Largest"

# A field of an SSE event that other clients ignore: `dragoman-after: N SESSION` says that this event of the connection
# stream was written after event N of that session's stream. So the answer to session/load is not delivered before the
# history, which comes on another stream.
AFTER_FIELD = b"dragoman-after"

# The largest head of an HTTP response that a client reads.
MAX_RESPONSE_HEAD = 64 * 1024

# The close code for a message larger than allowed (RFC 6455 section 7.4.1).
CLOSE_TOO_LARGE = 1009

# Our own WebSocket close codes: the connection is unknown and will not come back; the client did not read.
CLOSE_GONE = 4404
CLOSE_SLOW = 4408
