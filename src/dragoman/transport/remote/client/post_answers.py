"""What the answer to a POST says, beside its status: an answer of the agent, a refusal of the server, and about what.

Pure: takes bodies, gives frames and facts. The official servers answer in plain text, ours in JSON with a kind; a
request that was refused by a status gets an error in the server's place, so that nobody waits for it.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, UnsetType

from dragoman.errors import Kind
from dragoman.transport.remote.errors import STATUS_KINDS
from dragoman.transport.remote.streams import FramePeek
from dragoman.wire.envelope import Id


def is_answer(body: bytes) -> bool:
    """Whether a body is a JSON-RPC answer."""
    said = _parse_object(body)
    return "jsonrpc" in said and ("result" in said or "error" in said)


def is_answer_to(body: bytes, id: Id) -> bool:
    """Whether a body is the JSON-RPC answer to this request."""
    return is_answer(body) and "id" in (said := _parse_object(body)) and said["id"] == id


def opened_session(frame: bytes) -> str | None:
    """The session that an answer names."""
    result = _parse_object(frame).get("result")
    found = (result.get("sessionId") or result.get("session_id")) if isinstance(result, dict) else None
    return found if isinstance(found, str) else None


def is_session_unknown(body: bytes) -> bool:
    """Whether a 404 means that the session is unknown, not the whole connection."""
    error = _parse_object(body).get("error")
    if isinstance(error, dict) and isinstance(error.get("kind"), str):
        return bool(error["kind"] == Kind.SESSION_NOT_FOUND)
    return b"session" in body.lower() and b"connection" not in body.lower()


def refusal_frame(id: Id, status: int, message: str) -> bytes:
    """An answer in the server's place, for a request that it refused; the kind counts, not the number."""
    kind = Kind.SESSION_NOT_FOUND if status == 404 else STATUS_KINDS.get(status, Kind.INTERNAL_ERROR)
    error = {"code": -32603, "message": message, "data": {"kind": kind, "status": status}}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id, "error": error})


# Says nothing to anybody, under the number of a message that is not sent: a request that nobody made is taken back.
NOOP_FRAME = b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":null}}'


class TooLargeOutcome(Struct, frozen=True):
    """What becomes of a message that is larger than the server takes."""

    answer: bytes | None  # to whoever sent it: the answer to a request that never left
    replacement: bytes | None  # to the server in its place: an answer that is none, so that nobody waits for one
    text: str  # for people


def too_large_outcome(peek: FramePeek, size: int, limit: str) -> TooLargeOutcome:
    """A message of this size has no way: its request ends with too_large, and so does one that it would have answered.

    `limit` says what the server takes, as far as that is known.
    """
    words = f"a message of {size} bytes is too large: {limit}; put large things into files"
    if isinstance(peek.id, UnsetType):
        return TooLargeOutcome(None, None, words)
    answer = refusal_frame(peek.id, 413, words)
    return TooLargeOutcome(answer, None, words) if peek.method else TooLargeOutcome(None, answer, words)


def limit_text(limit: int) -> str:
    """What a server takes that says so."""
    return f"the server takes at most {limit}"


def _parse_object(body: bytes) -> dict[str, Any]:
    try:
        said = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}
