"""What a peer sent that is no message for us: broken or oversize frames, and answers to nothing.

Takes the connection it came on; tells the user, the peer that may wait for an answer, or whoever waits for the peer.
None of it ends the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from dragoman.errors import Kind, ProtocolError
from dragoman.schema.side import Side
from dragoman.wire.envelope import Envelope, Malformed, parse_excerpt, read_error
from dragoman.wire.frames import Oversize

if TYPE_CHECKING:
    from dragoman.engine.sender import Sender

# So much of a line that is no message is shown.
REPORT_EXCERPT = 200


def report_malformed(connection: Sender, frame: bytes, error: Malformed) -> None:
    """Noise on an agent's stdout is reported; a client that speaks broken JSON is told."""
    looks_like_json = frame.lstrip()[:1] in (b"{", b"[")
    excerpt = frame[:REPORT_EXCERPT].decode("utf-8", "backslashreplace")
    connection.report(f"{connection.transport.peer} sent a line that is no message ({error.message}): {excerpt!r}")
    exchange = None if error.is_call or error.id is None else connection.pop_pending(error.id)
    if exchange is not None:
        exchange.done(None, ProtocolError(error.kind, f"the answer to {exchange.method}: {error.message}"))
    elif connection.side is Side.AGENT or looks_like_json:
        # The id of an answer counts our requests, not the peer's: said back, it could end one of those.
        is_answer = error.kind == Kind.PARSE_ERROR and not error.is_call
        connection.send_error(None if is_answer else error.id, error=error)


def report_oversize(connection: Sender, frame: Oversize) -> None:
    """A message that was skipped for its size: its sender is told, or whoever waits for it as an answer."""
    known = parse_excerpt(frame)
    text = f"a message of {frame.size} bytes is over the limit"
    connection.report(f"{connection.transport.peer}: {text}; it was skipped")
    if known.method is UNSET and known.id is not UNSET:
        exchange = connection.pop_pending(known.id)
        if exchange is not None:
            exchange.done(None, ProtocolError(Kind.TOO_LARGE, f"{text}; the answer was skipped"))
            return
    found = None if known.id is UNSET else known.id
    kind = Kind.INVALID_REQUEST if found is None else Kind.TOO_LARGE
    connection.send_error(found, error=ProtocolError(kind, f"{text}; send it in parts", {"size": frame.size}))


def report_unexpected_answer(connection: Sender, envelope: Envelope) -> None:
    """Errors without id (peers.md 1) and replies nobody waits for are told, never fatal."""
    peer = connection.transport.peer
    if envelope.error is not UNSET:
        error = read_error(envelope.error)
        connection.report(f"{peer} reported an error outside any request: {error.code} {error.message}")
    else:
        connection.report(f"{peer} answered a request nobody made (id {envelope.id!r})")
