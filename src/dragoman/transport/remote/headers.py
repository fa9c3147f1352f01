"""The names that both ends of a remote connection use: headers, close codes, and an own field of SSE events.

One truth for the server's side and the client's. Names that begin with Acp- are the protocol's (reference 3.2), those
that begin with Dragoman- are ours, and peers that do not know them lose nothing but resumption.
"""

from __future__ import annotations

# Of the protocol: which connection and which session a request belongs to.
CONNECTION_ID = "Acp-Connection-Id"
SESSION_ID = "Acp-Session-Id"

# Asked for at the first upgrade: this client can resume, so keep what it has not acknowledged.
RESUME = "Dragoman-Resume"

# How many frames of this connection the sender has received. In an answer (101, or 200 to initialize) it also says that
# the server can resume; a new connection begins with 0. Acknowledgements are no frames: they are not counted or kept.
CURSOR = "Dragoman-Cursor"

# The number of a POST in its connection, from 1: one that was seen before is answered 202 and not delivered again.
FRAME_NUMBER = "Dragoman-Frame"

# The bytes of the largest message that the server takes, told with the first answer: what is larger is not sent at all.
MAX_MESSAGE = "Dragoman-Largest"

# A field of an SSE event that other readers skip: `dragoman-after: N SESSION` says that this event of the connection
# stream was written after event N of that session's stream. So the answer to session/load does not overtake the
# history, which goes by another stream.
AFTER_FIELD = b"dragoman-after"

# The close code of whoever gets a larger message than they take (RFC 6455 section 7.4.1).
CLOSE_TOO_LARGE = 1009

# WebSocket close codes of ours: the connection is unknown here and will not come back; the client did not read.
CLOSE_GONE = 4404
CLOSE_SLOW = 4408
