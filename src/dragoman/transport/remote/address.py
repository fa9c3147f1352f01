"""The address of a remote agent: URL, token, headers, TLS. Secrets in a URL are in no message."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Mapping
from os import PathLike, fspath
from typing import TypeAlias
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

from msgspec import Struct

from dragoman.errors import StartFailed
from dragoman.transport.remote.retry import Backoff

# A context, a file or folder of certificate authorities to trust besides those of the system, or False: trust anybody.
TLS: TypeAlias = ssl.SSLContext | str | PathLike[str] | bool | None

_DEFAULT_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443}

# Query parameters that are secret by their name.
_SECRET_PARAMETERS = frozenset(
    {"token", "access_token", "key", "api_key", "apikey", "secret", "password", "sig", "signature"}
)


class RemoteOptions(Struct, frozen=True, kw_only=True):
    """How a client connects to a remote agent."""

    token: str = ""  # sent as Authorization: Bearer
    headers: Mapping[str, str] = {}
    tls: TLS = None
    upgrade: bool = False  # connect to an http(s) address by WebSocket
    backoff: Backoff = Backoff()


class RemoteAddress(Struct, frozen=True, kw_only=True):
    """The parsed address of a remote agent."""

    url: str  # to connect to: without user info and fragment, with its query
    display_url: str  # to show: without secrets
    host: str
    port: int
    is_secure: bool
    is_websocket: bool  # WebSocket; otherwise Streamable HTTP
    target: str  # path and query
    headers: tuple[tuple[str, str], ...] = ()  # headers from the URL and the options

    @property
    def is_loopback(self) -> bool:
        """Whether it is this machine, which is never behind a proxy."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost" or self.host.endswith(".localhost")

    @property
    def netloc(self) -> str:
        """Host and port as in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = self.url.partition(":")[0]
        return host if self.port == _DEFAULT_PORTS[scheme] else f"{host}:{self.port}"


def redact_url(url: str) -> str:
    """Return a URL that may be printed: without user info and without secrets in its query."""
    try:
        parts = urlsplit(url)
        netloc = parts.netloc.rpartition("@")[2]
        query = "&".join(
            f"{name}=..." if name.lower() in _SECRET_PARAMETERS else f"{quote(name)}={quote(value)}"
            for name, value in parse_qsl(parts.query, keep_blank_values=True)
        )
        return urlunsplit((parts.scheme, netloc, parts.path, query, ""))
    except ValueError:
        return url.partition("?")[0].rpartition("@")[2]


def parse_address(url: str, remote: RemoteOptions = RemoteOptions()) -> RemoteAddress:  # noqa: B008 (a value)
    """Parse a URL; raise StartFailed with what is wrong."""
    name = redact_url(url)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise StartFailed(f"{name}: this is not an address; write it like https://host.example/acp") from None
    if not host or parts.scheme not in _DEFAULT_PORTS or any(ord(char) <= 32 for char in url):
        raise StartFailed(
            f"{name}: this is not an address; write it like https://host.example/acp or wss://host.example/acp"
        )
    scheme = parts.scheme
    if remote.upgrade:
        scheme = {"http": "ws", "https": "wss"}.get(scheme, scheme)
    is_secure = scheme in ("https", "wss")
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    target = path + (f"?{parts.query}" if parts.query else "")
    netloc = parts.netloc.rpartition("@")[2]
    address = RemoteAddress(
        url=urlunsplit((scheme, netloc, path, parts.query, "")),
        display_url=redact_url(urlunsplit((scheme, netloc, parts.path, parts.query, ""))),
        host=host,
        port=port or _DEFAULT_PORTS[scheme],
        is_secure=is_secure,
        is_websocket=scheme in ("ws", "wss"),
        target=target,
        headers=_request_headers(parts.username, parts.password, remote, name),
    )
    if not is_secure and not address.is_loopback and remote.tls is not False:
        raise StartFailed(
            f"{name}: without TLS only this machine can be used; "
            f"use {parts.scheme}s://, forward the port with ssh -L, or pass tls=False if the network is safe"
        )
    return address


def _request_headers(
    user: str | None, password: str | None, remote: RemoteOptions, name: str
) -> tuple[tuple[str, str], ...]:
    headers = dict(remote.headers)
    for key, value in [*headers.items(), ("token", remote.token)]:
        if not key or any(ord(char) < 32 or ord(char) > 126 for char in f"{key}{value}"):
            part = "the token" if value == remote.token else f"the header {key!r}"
            raise StartFailed(f"{name}: {part} has characters that no header can have; is there a line end in it?")
    if remote.token:
        headers["Authorization"] = f"Bearer {remote.token}"
    elif user:
        import base64

        pair = f"{unquote(user)}:{unquote(password or '')}".encode()
        headers.setdefault("Authorization", f"Basic {base64.b64encode(pair).decode()}")
    return tuple(headers.items())


def tls_context(tls: TLS, name: str) -> ssl.SSLContext:
    """Return the TLS context; raise StartFailed when a certificate cannot be read."""
    if isinstance(tls, ssl.SSLContext):
        return tls
    context = ssl.create_default_context()
    if tls is False:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif tls is not None and tls is not True:
        import os

        path = fspath(tls)
        try:
            if os.path.isdir(path):
                context.load_verify_locations(capath=path)
            else:
                context.load_verify_locations(cafile=path)
        except (OSError, ssl.SSLError) as error:
            reason = getattr(error, "strerror", None) or "it holds no certificate in PEM form"
            raise StartFailed(f"{name}: the certificates in {path} cannot be used: {reason}") from None
    return context
