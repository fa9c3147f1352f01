"""Errors of a remote connection that say what to do next, from statuses, headers and exceptions. Pure."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from time import time

import msgspec

from dragoman.errors import Kind, TransportClosed, Unreachable

# The longest quote of a server's text: a line or two.
MAX_QUOTE = 200

# A server that asks for a longer pause than this counts as down. Seconds.
MAX_RETRY_AFTER = 300.0

# What a server says of the certificate of a client, in the words of OpenSSL.
_CERTIFICATE_ALERT = re.compile(r"ALERT.*(UNKNOWN_CA|CERTIFICATE)")

_STATUS_SENTENCES: Mapping[int, str] = {
    400: "it does not understand the request; is this the address of an ACP server?",
    401: "it needs a valid token (token=..., or a share link)",
    403: "access denied: this token or this origin is not allowed",
    404: "there is no ACP server at this path, or it does not know this connection any more",
    405: "it is not an ACP server, or speaks another profile: try wss:// for https://, or the other way round",
    406: "it has no event stream here; is this the address of an ACP server?",
    407: "a proxy in between needs authentication: put user and password into HTTPS_PROXY",
    409: "another client already reads this stream",
    413: "the message is too large for it",
    415: "it does not accept JSON here; is this the address of an ACP server?",
    421: "it does not accept this host name; use the name it was started with",
    426: "it accepts only WebSocket: use wss:// (or ws://) in the address",
    429: "it gets too many requests",
    501: "it does not support this",
    502: "a proxy in between cannot reach it; is it running?",
    503: "it is shutting down or too busy",
    504: "it did not answer a proxy in between in time",
}

# Statuses after which a retry may succeed.
TEMPORARY_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})

_MARKUP = re.compile(rb"\s*<(!doctype|html|head|body|\?xml)", re.IGNORECASE)


class ClosedByServer(TransportClosed):
    """The server ended the connection on purpose: do not reconnect."""


def status_error(
    name: str, status: int, headers: Mapping[str, str] | None = None, body: bytes = b"", *, action: str = ""
) -> Unreachable:
    """Return the error for an unexpected HTTP response."""
    headers = headers or {}
    sentence = _STATUS_SENTENCES.get(status) or ("it moved" if 300 <= status < 400 else "it refuses")
    if 300 <= status < 400:
        from dragoman.transport.remote.address import redact_url

        sentence += f" to {redact_url(headers['location'])}: give that address" if headers.get("location") else ""
    quote = quote_body(body)
    wait = parse_retry_after(headers.get("retry-after", ""))
    parts = [f"{name}: HTTP {status}{' to ' + action if action else ''}: {sentence}"]
    if wait is not None:
        parts.append(f"try again in {wait:g} s")
    elif status == 503:
        parts.append("try again in a moment")
    if quote:
        parts.append(f"it says: {quote}")
    return Unreachable("; ".join(parts), status=status, is_passing=status in TEMPORARY_STATUSES, wait=wait)


def quote_body(body: bytes) -> str:
    """Return what a server says about a refusal, on one line; skip the markup of a proxy."""
    if not body or _MARKUP.match(body):
        return "" if not body else "(a web page, so perhaps a proxy answered)"
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        value = body.decode("utf-8", "replace")
    if isinstance(value, dict):
        value = value.get("error", value.get("message", ""))
    if isinstance(value, dict):
        value = value.get("message", "")
    text = " ".join("".join(char if char.isprintable() else " " for char in str(value)).split())
    return text if len(text) <= MAX_QUOTE else text[: MAX_QUOTE - 3] + "..."


def parse_retry_after(value: str) -> float | None:
    """Return Retry-After in seconds, from a number or a date."""
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
    """Return the error for a connection that failed or broke."""
    for cause in _causes(error):
        if isinstance(cause, Unreachable):
            return cause
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Unreachable(
                f"{name}: its certificate is not trusted ({cause.verify_message or 'unknown'}); "
                "give the authority that signed it (tls=FILE), or check the name in the address"
            )
        if isinstance(cause, ssl.SSLWantReadError | ssl.SSLWantWriteError):
            continue  # not an error: TLS wants more bytes; the real cause is above it
        if isinstance(cause, ssl.SSLError) and _is_tls_eof(cause):
            sentence = "it closed the connection during TLS; if it always does, perhaps it speaks plain HTTP"
            return Unreachable(f"{name}: {sentence}", is_passing=True)
        if isinstance(cause, ssl.SSLError) and cause.reason and _CERTIFICATE_ALERT.search(cause.reason):
            return Unreachable(f"{name}: it does not accept the certificate of this side ({cause.reason})")
        if isinstance(cause, ssl.SSLError):
            return Unreachable(
                f"{name}: TLS does not work there ({cause.reason or 'the handshake failed'}); "
                "does it speak plain HTTP (http://, ws://)?"
            )
        if (socket_error := _socket_error(name, cause)) is not None:
            return socket_error
    quote = " ".join(str(error).split()) or type(error).__name__
    return Unreachable(f"{name}: the connection broke: {quote[:MAX_QUOTE]}", is_passing=True)


def _is_tls_eof(error: ssl.SSLError) -> bool:
    """Whether the other end disconnected rather than sent something that is no TLS."""
    return isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError) or (
        error.reason == "UNEXPECTED_EOF_WHILE_READING"
    )


def _socket_error(name: str, cause: BaseException) -> Unreachable | None:
    import socket

    if isinstance(cause, socket.gaierror):
        return Unreachable(f"{name}: this host name is unknown; check it, and the network", is_passing=True)
    if isinstance(cause, ConnectionRefusedError):
        return Unreachable(f"{name}: connection refused; is the server running?", is_passing=True)
    if isinstance(cause, TimeoutError):
        return Unreachable(f"{name}: it does not answer; check the address and the network", is_passing=True)
    if isinstance(cause, OSError):
        reason = cause.strerror or str(cause) or type(cause).__name__
        return Unreachable(f"{name}: {reason}", is_passing=True)
    return None


def _causes(error: BaseException) -> list[BaseException]:
    """Return an error and its causes, the deepest first, since it says the most."""
    causes: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in causes:
        causes.append(current)
        current = current.__cause__ or current.__context__
    return causes[::-1]


# The kind of error in the body of each refusal, for programs.
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
