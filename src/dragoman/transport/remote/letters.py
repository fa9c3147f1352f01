"""What the answer to a POST says, beside its status: an answer of the agent, a refusal of the server, and about what.

Pure: takes bodies, gives frames and facts. The official servers answer in plain text, ours in JSON with a kind; a
request that was refused by a status gets an error in the server's place, so that nobody waits for it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.errors import Kind
from dragoman.transport.remote.visitor import STATUS_KINDS
from dragoman.wire.envelope import Id


def is_answer(body: bytes) -> bool:
    """Whether a body is a JSON-RPC answer."""
    said = _object(body)
    return "jsonrpc" in said and ("result" in said or "error" in said)


def answers(body: bytes, id: Id) -> bool:
    """Whether a body is the JSON-RPC answer to this request."""
    return is_answer(body) and "id" in (said := _object(body)) and said["id"] == id


def opened(frame: bytes) -> str | None:
    """The session that an answer names."""
    result = _object(frame).get("result")
    found = (result.get("sessionId") or result.get("session_id")) if isinstance(result, dict) else None
    return found if isinstance(found, str) else None


def is_about_session(body: bytes) -> bool:
    """Whether a 404 means that the session is unknown, not the whole connection."""
    error = _object(body).get("error")
    if isinstance(error, dict) and isinstance(error.get("kind"), str):
        return bool(error["kind"] == Kind.SESSION_NOT_FOUND)
    return b"session" in body.lower() and b"connection" not in body.lower()


def refusal(id: Id, status: int, message: str) -> bytes:
    """An answer in the server's place, for a request that it refused; the kind counts, not the number."""
    kind = Kind.SESSION_NOT_FOUND if status == 404 else STATUS_KINDS.get(status, Kind.INTERNAL_ERROR)
    error = {"code": -32603, "message": message, "data": {"kind": kind, "status": status}}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id, "error": error})


def _object(body: bytes) -> dict[str, Any]:
    try:
        said = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}
