"""The names that both ends of a remote connection use: headers, the acknowledgement, and an own field of SSE events.

One truth for the server's side and the client's. Names that begin with Acp- are the protocol's (reference 3.2), those
that begin with Dragoman- are ours, and peers that do not know them lose nothing but resumption.
"""

from __future__ import annotations

import re

# Of the protocol: which connection and which session a request belongs to.
CONNECTION = "Acp-Connection-Id"
SESSION = "Acp-Session-Id"

# Asked for at the first upgrade: this client can resume, so keep what it has not acknowledged.
RESUME = "Dragoman-Resume"

# How many frames of this connection the sender has received. In an answer (101, or 200 to initialize) it also says that
# the server can resume; a new connection begins with 0. Acknowledgements are no frames: they are not counted or kept.
CURSOR = "Dragoman-Cursor"

# The number of a POST in its connection, from 1: one that was seen before is answered 202 and not delivered again.
FRAME = "Dragoman-Frame"

# A field of an SSE event that other readers skip: `dragoman-after: N SESSION` says that this event of the connection
# stream was written after event N of that session's stream. So the answer to session/load does not overtake the
# history, which goes by another stream.
AFTER = b"dragoman-after"

# WebSocket close codes of ours: the connection is unknown here and will not come back; the client did not read.
GONE = 4404
SLOW = 4408

ACK = "_dragoman/ack"

# Acknowledge after so many frames, so many bytes or so long, whichever comes first: a sender keeps little, and one
# acknowledgement costs next to nothing beside what it is for.
ACK_FRAMES = 128
ACK_BYTES = 256 * 1024
ACK_AFTER = 1.0

_ACK_HEAD = b'{"jsonrpc":"2.0","method":"_dragoman/ack"'
_CURSOR = re.compile(rb'"cursor":(\d+)')


def ack(cursor: int) -> bytes:
    """The frame that acknowledges so many frames."""
    return b'%b,"params":{"cursor":%d}}' % (_ACK_HEAD, cursor)


def read_ack(frame: bytes) -> int | None:
    """The cursor of an acknowledgement; None for every other frame."""
    if not frame.startswith(_ACK_HEAD):
        return None
    found = _CURSOR.search(frame)
    return int(found[1]) if found else 0
