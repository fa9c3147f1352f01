"""Hosts from the command line: which one is meant, how it is reached, and its JSON API.

`meant` finds the host by name, URL or default; `ask` calls its API. Tokens come
from files and the environment. Above are attach, run, chat and sessions; below are config and the remote transports.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from dragoman.cli.parser import DEFAULT_HOST
from dragoman.config import config_file as config
from dragoman.config import hosts
from dragoman.config.host_section import BIND, NamedHost
from dragoman.config.paths import places
from dragoman.errors import ConfigFault, Kind, ProtocolError, Unreachable
from dragoman.transport.remote.address import Remote, parse, trust
from dragoman.transport.remote.errors import failed, refused

# How long the API may take: the longest log is given in pages. Seconds.
PATIENCE = 60.0

_SCHEMES = {"ws": "http", "wss": "https"}

# What the API's statuses mean to a command, where the body does not say.
_KINDS = {401: Kind.AUTH_REQUIRED, 403: Kind.PERMISSION_DENIED, 404: Kind.SESSION_NOT_FOUND, 429: Kind.RATE_LIMITED}


class Afar(NamedTuple):
    """A host and how to come to it."""

    base: str  # http(s)://host:port, and the path it is mounted at
    path: str  # of the agents below that: /acp
    token: str
    ca: str
    shown: str
    called: str = ""  # what --host takes to mean it; "" where it need not be said

    @property
    def flag(self) -> str:
        """The flag that means it, and a space; without a token that was in it."""
        return f"--host {shlex.quote(self.called)} " if self.called else ""

    def agent(self, name: str = "") -> str:
        """The address of an agent."""
        return f"{self.base}{self.path}{f'/{quote(name)}' if name else ''}"

    @property
    def is_near(self) -> bool:
        """Whether it runs on this machine, so that folders here are folders there."""
        return parse(self.base, Remote(tls=False)).is_loopback

    @property
    def remote(self) -> Remote:
        """How transports come to it: by WebSocket, which needs one socket and no second stream."""
        return Remote(token=self.token, tls=self.ca or None, upgrade=True)


def meant(word: str | None, token_file: str | None = None, environ: Mapping[str, str] = os.environ) -> Afar:
    """The host of this name or URL; without one the default, else the one on this machine."""
    known = config.load(places(environ).agents)
    word = known.default_host if word in (None, "", DEFAULT_HOST) else word
    if not word:
        host = _local(known)
    elif "://" in word:
        host = NamedHost(name="", url=word)
    elif word in known.hosts:
        host = known.hosts[word]
    else:
        named = ", ".join(known.hosts) or "none"
        what = f"there is no host {word!r}; there are: {named}; or give its URL, as in https://host:7437"
        raise ConfigFault([f"{what}; a prompt stands before --host" if " " in word else what])
    if token_file:
        host = NamedHost(name=host.name, url=host.url, ca=host.ca, token_file=token_file)
    url, inside = parted(host.url)
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    mounted, found, rest = path.partition("/acp")
    base = urlunsplit((_SCHEMES.get(parts.scheme, parts.scheme), parts.netloc, mounted, "", ""))
    ca = os.path.expanduser(host.ca)
    token = inside or hosts.token_of(host, environ)
    called = parted(word)[0] if word and "://" in word else word or ""
    return Afar(base, f"/acp{rest}" if found else "/acp", token, ca, parse(base, Remote(tls=False)).shown, called)


def here() -> Afar:
    """The host on this machine, whichever is the default; to its owner, who needs no token."""
    url = _local(config.load(places().agents)).url
    return Afar(url, "/acp", "", "", parse(url, Remote(tls=False)).shown)


def _local(known: config.Agents) -> NamedHost:
    bind = known.host.bind if known.host.bind.startswith(("127.", "localhost", "[::1]")) else BIND
    return NamedHost(name="", url=f"http://{bind}")


def parted(url: str) -> tuple[str, str]:
    """An URL without the token in it, and that token."""
    parts = urlsplit(url)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    token = next((value for name, value in pairs if name == "token"), "")
    query = urlencode([(name, value) for name, value in pairs if name != "token"])
    return urlunsplit((parts.scheme, parts.netloc, parts.path, query, "")), token


def check_agent(afar: Afar, about: Mapping[str, Any], name: str | None) -> None:
    """An agent that the host does not have is a mistake of the command line; `about` is what /api/host says."""
    names = [str(each) for each in about.get("agents") or ()]
    if name and names and name not in names:
        raise ConfigFault([f"{afar.shown} has no agent {name!r}; there are: {', '.join(names)}"])


async def ask(afar: Afar, method: str, path: str, body: Any = None, **query: Any) -> Any:
    """Call the API: JSON back; Unreachable when nobody is there, ProtocolError when it refuses."""
    return _read(afar, await fetch(afar, method, path, body, **query))


def call(afar: Afar, method: str, path: str, patience: float = PATIENCE) -> Any:
    """The same on a thread of one's own, within that time."""
    parse(f"{afar.base}{path}", afar.remote)
    return _read(afar, _fetched(afar, method, f"{afar.base}{path}", None, patience))


def _read(afar: Afar, data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        raise Unreachable(f"{afar.shown}: this is no Dragoman host; what it answers is no JSON") from None


async def fetch(afar: Afar, method: str, path: str, body: Any = None, **query: Any) -> bytes:
    """The same, as bytes."""
    said = urlencode({name: value for name, value in query.items() if value is not None})
    url = f"{afar.base}{path}{f'?{said}' if said else ''}"
    parse(url, afar.remote)  # refuses to send a token in the clear to another machine
    return await asyncio.to_thread(_fetched, afar, method, url, None if body is None else json.dumps(body).encode())


def _fetched(afar: Afar, method: str, url: str, data: bytes | None, patience: float = PATIENCE) -> bytes:
    headers = {"Accept": "application/json"}
    if afar.token:
        headers["Authorization"] = f"Bearer {afar.token}"
    if data is not None:
        headers["Content-Type"] = "application/json"
    request = Request(url, data=data, headers=headers, method=method)
    try:
        with _opener(afar).open(request, timeout=patience) as answer:
            given: bytes = answer.read()
            return given
    except HTTPError as error:
        raise _told(afar, error.code, dict(error.headers), error.read()) from None
    except (URLError, OSError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        raise failed(afar.shown, reason if isinstance(reason, BaseException) else error) from None


def _opener(afar: Afar) -> OpenerDirector:
    if afar.base.startswith("https:"):
        return build_opener(HTTPSHandler(context=trust(afar.ca or None, afar.shown)))
    return build_opener(ProxyHandler({}))


def _told(afar: Afar, status: int, headers: Mapping[str, str], body: bytes) -> Exception:
    try:
        error = json.loads(body)["error"]
        kind, message = str(error["kind"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        return refused(afar.shown, status, {name.lower(): value for name, value in headers.items()}, body)
    if status in (401, 429, 503):
        return Unreachable(f"{afar.shown}: {message}", status=status, is_passing=status != 401)
    return ProtocolError(kind or _KINDS.get(status, Kind.INTERNAL_ERROR), message)
