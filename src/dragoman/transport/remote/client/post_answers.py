"""Read the response to a POST: an answer of the agent, or a refusal of the server. Pure.

A request that was refused by a status gets an error in the server's place, so that its sender does not wait.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, UnsetType

from dragoman.dialect.peek import FramePeek
from dragoman.errors import Kind
from dragoman.transport.remote.errors import STATUS_KINDS
from dragoman.wire.envelope import Id


def is_answer(body: bytes) -> bool:
    """Whether a body is a JSON-RPC answer."""
    value = _parse_object(body)
    return "jsonrpc" in value and ("result" in value or "error" in value)


def is_answer_to(body: bytes, id: Id) -> bool:
    """Whether a body is the JSON-RPC answer to this request."""
    return is_answer(body) and "id" in (value := _parse_object(body)) and value["id"] == id


def is_session_unknown(body: bytes) -> bool:
    """Whether a 404 means that the session is unknown, not the whole connection."""
    error = _parse_object(body).get("error")
    if isinstance(error, dict) and isinstance(error.get("kind"), str):
        return bool(error["kind"] == Kind.SESSION_NOT_FOUND)
    return b"session" in body.lower() and b"connection" not in body.lower()


def refusal_frame(id: Id, status: int, message: str) -> bytes:
    """Make the answer to a request that the server refused; the kind matters, not the code."""
    kind = Kind.SESSION_NOT_FOUND if status == 404 else STATUS_KINDS.get(status, Kind.INTERNAL_ERROR)
    error = {"code": -32603, "message": message, "data": {"kind": kind, "status": status}}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id, "error": error})


# Sent under the number of a message that is not sent: cancels a request that does not exist.
NOOP_FRAME = b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":null}}'


class TooLargeOutcome(Struct, frozen=True):
    """What happens to a message that is larger than the server allows."""

    answer: bytes | None  # to its sender: the answer to a request that was not sent
    replacement: bytes | None  # to the server instead: an error answer, so that the agent does not wait
    text: str  # to report


def too_large_outcome(peek: FramePeek, size: int, limit: str) -> TooLargeOutcome:
    """Return how a message that is too large ends: its request, or the request it answers, fails with too_large.

    `limit` says what the server allows, as far as known.
    """
    text = f"a message of {size} bytes is too large: {limit}; put large things into files"
    if isinstance(peek.id, UnsetType):
        return TooLargeOutcome(None, None, text)
    answer = refusal_frame(peek.id, 413, text)
    return TooLargeOutcome(answer, None, text) if peek.method else TooLargeOutcome(None, answer, text)


def limit_text(limit: int) -> str:
    """Describe the limit of a server that states it."""
    return f"the server takes at most {limit}"


def _parse_object(text: bytes) -> dict[str, Any]:
    """Return a JSON object; {} for anything else."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
