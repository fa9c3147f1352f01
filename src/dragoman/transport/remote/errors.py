"""From what goes wrong on the way to a remote agent to an error that says what to do next.

Pure: takes statuses, headers and exceptions, gives Unreachable. A table has one sentence for each status. What a server
says about itself is quoted when it is short and plain; secrets are never in a name that comes here.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from time import time

import msgspec

from dragoman.errors import Kind, TransportClosed, Unreachable

# The longest quote of what a server says about a refusal: a line or two.
MAX_QUOTE = 200

# A server that asks for a longer pause than this is as good as away. Seconds.
MAX_RETRY_AFTER = 300.0

_STATUS_SENTENCES: Mapping[int, str] = {
    400: "it does not understand the request; is this the address of an ACP server?",
    401: "it asks who you are: give a token that is still valid (token=..., or a share link)",
    403: "it does not let you in: this token, or this origin, has no right to be here",
    404: "there is no ACP server at this path, or it does not know this connection any more",
    405: "it is not an ACP server, or speaks another profile: try wss:// for https://, or the other way round",
    406: "it has no event stream here; is this the address of an ACP server?",
    407: "a proxy on the way asks who you are: put user and password into HTTPS_PROXY",
    409: "somebody else already listens to this stream",
    413: "the message is too large for it",
    415: "it takes no JSON here; is this the address of an ACP server?",
    421: "it is not meant to be called by this name; use the name it was started with",
    426: "it takes WebSocket only: use wss:// (or ws://) in the address",
    429: "it is asked too often",
    501: "it cannot do this",
    502: "a proxy on the way does not reach it; is it running?",
    503: "it is shutting down or too busy; try again in a moment",
    504: "it did not answer a proxy on the way in time",
}

# Statuses that a moment later may be others.
TEMPORARY_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})

_MARKUP = re.compile(rb"\s*<(!doctype|html|head|body|\?xml)", re.IGNORECASE)


class ClosedByServer(TransportClosed):
    """The server ended the connection on purpose: to come back at once would be to ignore it."""


def status_error(
    name: str, status: int, headers: Mapping[str, str] | None = None, body: bytes = b"", *, action: str = ""
) -> Unreachable:
    """The error for an HTTP answer that is not the one we hoped for."""
    headers = headers or {}
    what = _STATUS_SENTENCES.get(status) or ("it moved" if 300 <= status < 400 else "it refuses")
    if 300 <= status < 400:
        from dragoman.transport.remote.address import redact_url

        what += f" to {redact_url(headers['location'])}: give that address" if headers.get("location") else ""
    said = quote_body(body)
    wait = parse_retry_after(headers.get("retry-after", ""))
    parts = [f"{name}: HTTP {status}{' to ' + action if action else ''}: {what}"]
    if wait is not None:
        parts.append(f"try again in {wait:g} s")
    if said:
        parts.append(f"it says: {said}")
    return Unreachable("; ".join(parts), status=status, is_passing=status in TEMPORARY_STATUSES, wait=wait)


def quote_body(body: bytes) -> str:
    """What a server says about a refusal, on one line; markup of a proxy is no help to anybody."""
    if not body or _MARKUP.match(body):
        return "" if not body else "(a web page, so perhaps a proxy answered)"
    try:
        said = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        said = body.decode("utf-8", "replace")
    if isinstance(said, dict):
        said = said.get("error", said.get("message", ""))
    if isinstance(said, dict):
        said = said.get("message", "")
    text = " ".join("".join(each if each.isprintable() else " " for each in str(said)).split())
    return text if len(text) <= MAX_QUOTE else text[: MAX_QUOTE - 3] + "..."


def parse_retry_after(value: str) -> float | None:
    """Retry-After in seconds: a number, or a date."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time()
        except (ValueError, TypeError):
            return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER) if seconds == seconds else None


def network_error(name: str, error: BaseException) -> Unreachable:
    """The error for a connection that never came about, or broke."""
    for cause in _causes(error):
        if isinstance(cause, Unreachable):
            return cause
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Unreachable(
                f"{name}: its certificate is not trusted ({cause.verify_message or 'unknown'}); "
                "give the authority that signed it (tls=FILE), or check the name in the address"
            )
        if isinstance(cause, ssl.SSLWantReadError | ssl.SSLWantWriteError):
            continue  # no fault but how TLS asks for more bytes; what came instead of them stands above it
        if isinstance(cause, ssl.SSLError) and _is_tls_eof(cause):
            what = "it hung up in the middle of TLS; if it always does, perhaps it speaks plain HTTP"
            return Unreachable(f"{name}: {what}", is_passing=True)
        if isinstance(cause, ssl.SSLError):
            return Unreachable(
                f"{name}: TLS cannot be spoken there ({cause.reason or 'the handshake failed'}); "
                "does it speak plain HTTP (http://, ws://)?"
            )
        if (found := _socket_error(name, cause)) is not None:
            return found
    said = " ".join(str(error).split()) or type(error).__name__
    return Unreachable(f"{name}: the connection broke: {said[:MAX_QUOTE]}", is_passing=True)


def _is_tls_eof(error: ssl.SSLError) -> bool:
    """Whether the other end went away, as one that is killed does, rather than spoke something else."""
    return isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError) or (
        error.reason == "UNEXPECTED_EOF_WHILE_READING"
    )


def _socket_error(name: str, cause: BaseException) -> Unreachable | None:
    import socket

    if isinstance(cause, socket.gaierror):
        return Unreachable(f"{name}: nobody knows this host name; check it, and the network", is_passing=True)
    if isinstance(cause, ConnectionRefusedError):
        return Unreachable(f"{name}: nobody listens there; is the server running?", is_passing=True)
    if isinstance(cause, TimeoutError):
        return Unreachable(f"{name}: it does not answer; check the address and the network", is_passing=True)
    if isinstance(cause, OSError):
        why = cause.strerror or str(cause) or type(cause).__name__
        return Unreachable(f"{name}: {why}", is_passing=True)
    return None


def _causes(error: BaseException) -> list[BaseException]:
    """An error and what caused it, the deepest first: the cause says more than who passed it on."""
    found: list[BaseException] = []
    next_: BaseException | None = error
    while next_ is not None and next_ not in found:
        found.append(next_)
        next_ = next_.__cause__ or next_.__context__
    return found[::-1]


# The kind of error that stands in the body of each refusal, for programs.
STATUS_KINDS: Mapping[int, str] = {
    400: Kind.INVALID_REQUEST,
    401: Kind.AUTH_REQUIRED,
    403: Kind.ACCESS_DENIED,
    404: Kind.RESOURCE_NOT_FOUND,
    405: Kind.METHOD_NOT_FOUND,
    406: Kind.INVALID_REQUEST,
    408: Kind.TIMEOUT,
    409: Kind.INVALID_STATE,
    413: Kind.TOO_LARGE,
    415: Kind.INVALID_REQUEST,
    421: Kind.ACCESS_DENIED,
    429: Kind.RATE_LIMITED,
    431: Kind.TOO_LARGE,
    501: Kind.CAPABILITY_UNSUPPORTED,
    503: Kind.INVALID_STATE,
    504: Kind.TIMEOUT,
}
