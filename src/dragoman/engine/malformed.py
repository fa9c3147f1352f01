"""Handle frames that are no valid message: broken or oversize frames, and answers to no request.

Reports each to the user, and answers the peer or fails the request that waits for it. None ends the sender.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from dragoman.errors import Kind, ProtocolError
from dragoman.schema.side import Side
from dragoman.wire.envelope import Envelope, Id, Malformed, parse_excerpt, read_error
from dragoman.wire.frames import Oversize

if TYPE_CHECKING:
    from dragoman.engine.sender import Sender

# How much of a malformed line a report shows.
REPORT_EXCERPT = 200


def report_malformed(sender: Sender, frame: bytes, error: Malformed) -> None:
    """Report noise on an agent's stdout; answer a client that sends broken JSON with an error."""
    looks_like_json = frame.lstrip()[:1] in (b"{", b"[")
    excerpt = frame[:REPORT_EXCERPT].decode("utf-8", "backslashreplace")
    sender.report(f"{sender.transport.peer} sent a line that is not a message ({error.message}): {excerpt!r}")
    if not sender.noise and not sender.peer.is_initialized:
        sender.noise = excerpt.strip()
    request = None if error.is_call or error.id is None else sender.pending.pop(error.id)
    if request is not None:
        request.done(None, ProtocolError(error.kind, f"the answer to {request.method}: {error.message}"))
    elif sender.side is Side.AGENT or looks_like_json:
        # The id of an answer is one of ours; sent back, it could end a request of the peer with the same id.
        is_answer = error.kind == Kind.PARSE_ERROR and not error.is_call
        sender.send_error(None if is_answer else error.id, error)


def report_oversize(sender: Sender, frame: Oversize) -> None:
    """Answer an oversize request with an error; fail our request if the oversize message is its answer."""
    excerpt = parse_excerpt(frame)
    text = f"a message of {frame.size} bytes is over the limit"
    sender.report(f"{sender.transport.peer}: {text}; it was skipped")
    if excerpt.method is UNSET and excerpt.id is not UNSET:
        request = sender.pending.pop(excerpt.id)
        if request is not None:
            request.done(None, ProtocolError(Kind.TOO_LARGE, f"{text}; the answer was skipped"))
            return
    id = None if excerpt.id is UNSET else excerpt.id
    kind = Kind.INVALID_REQUEST if id is None else Kind.TOO_LARGE
    sender.send_error(id, ProtocolError(kind, f"{text}; send it in parts", {"size": frame.size}))


def report_unexpected_answer(sender: Sender, envelope: Envelope) -> None:
    """Report errors without id (docs/protocol/peers.md#errors-without-id) and answers to no request; never fatal."""
    peer = sender.transport.peer
    if envelope.error is not UNSET:
        error = read_error(envelope.error)
        sender.report(f"{peer} reported an error outside any request: {error.code} {error.message}")
    else:
        sender.report(f"{peer} answered a request that was never sent (id {envelope.id!r})")


class InvalidId(ProtocolError):
    """The id of a request is null or fractional, so the answer has none (docs/protocol/v2.md#ids)."""


def check_id(id: Id) -> None:
    """Raise InvalidId for an id that is neither an integer nor a string."""
    if id is None or (isinstance(id, float) and not id.is_integer()):
        raise InvalidId(Kind.INVALID_REQUEST, f"the id of a request is a string or an integer, not {id!r}")
