"""Hosts from the command line: find the host, and call its JSON API."""

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

from dragoman.cli.messages import HostAnswer
from dragoman.cli.parser import DEFAULT_HOST, close_word
from dragoman.config import config_file as config
from dragoman.config import host_tokens
from dragoman.config.host_section import DEFAULT_BIND, NamedHost
from dragoman.config.paths import user_paths
from dragoman.errors import ConfigFault, Kind, Unreachable
from dragoman.transport.remote.address import RemoteOptions, parse_address, tls_context
from dragoman.transport.remote.errors import network_error, status_error

# Timeout of an API request: the longest log comes in pages. Seconds.
API_TIMEOUT = 60.0

_SCHEMES = {"ws": "http", "wss": "https"}

# HTTP status to error kind, where the body does not say.
_STATUS_KINDS = {
    401: Kind.AUTH_REQUIRED,
    403: Kind.PERMISSION_DENIED,
    404: Kind.SESSION_NOT_FOUND,
    429: Kind.RATE_LIMITED,
}


class HostTarget(NamedTuple):
    """A host and how to reach it."""

    base_url: str  # http(s)://host:port, and the path of the host
    agent_path: str  # path of the agents below that: /acp
    token: str
    ca_file: str
    display_name: str
    host_argument: str = ""  # what --host takes for it, without a token; "" for the default
    token_file: str = ""  # of --token-file
    is_link: bool = False  # the token was in the URL; it is not printed again

    @property
    def flag(self) -> str:
        """The options that choose this host, and a space, without a token."""
        words = ["--host", *([self.host_argument] if self.host_argument else [])]
        return f"{shlex.join([*words, *(['--token-file', self.token_file] if self.token_file else [])])} "

    def agent_url(self, name: str = "") -> str:
        """Return the URL of an agent."""
        return f"{self.base_url}{self.agent_path}{f'/{quote(name)}' if name else ''}"

    @property
    def is_local(self) -> bool:
        """Whether it runs on this machine, so that paths are the same."""
        return parse_address(self.base_url, RemoteOptions(tls=False)).is_loopback

    @property
    def remote_settings(self) -> RemoteOptions:
        """Options of the transport: WebSocket, which needs only one connection."""
        return RemoteOptions(token=self.token, tls=self.ca_file or None, upgrade=True)


def resolve_host(
    name_or_url: str | None, token_file: str | None = None, environ: Mapping[str, str] = os.environ
) -> HostTarget:
    """Return the host with this name or URL; without one the default, else the one on this machine."""
    known = config.load_config(user_paths(environ).config_file)
    name_or_url = known.default_host if name_or_url in (None, "", DEFAULT_HOST) else name_or_url
    if not name_or_url:
        host = _local_named_host(known)
    elif "://" in name_or_url:
        host = NamedHost(name="", url=name_or_url)
    elif name_or_url in known.hosts:
        host = known.hosts[name_or_url]
    else:
        named = ", ".join(known.hosts) or "none"
        problem = (
            f"there is no host {name_or_url!r}; configured hosts: {named}; or give its URL, as in https://host:7437"
        )
        raise ConfigFault([f"{problem}; put the prompt before --host" if " " in name_or_url else problem])
    if token_file:
        host = NamedHost(name=host.name, url=host.url, ca=host.ca, token_file=token_file)
    url, url_token = split_token(host.url)
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    mount_path, has_agent_path, rest = path.partition("/acp")
    base = urlunsplit((_SCHEMES.get(parts.scheme, parts.scheme), parts.netloc, mount_path, "", ""))
    ca = os.path.expanduser(host.ca)
    token = url_token or host_tokens.read_token(host, environ)
    argument = split_token(name_or_url)[0] if name_or_url and "://" in name_or_url else name_or_url or ""
    return HostTarget(
        base,
        f"/acp{rest}" if has_agent_path else "/acp",
        token,
        ca,
        parse_address(base, RemoteOptions(tls=False)).display_url,
        argument,
        token_file or "",
        is_link=bool(url_token),
    )


def local_host() -> HostTarget:
    """Return the host on this machine, for its owner, who needs no token."""
    url = _local_named_host(config.load_config(user_paths().config_file)).url
    return HostTarget(url, "/acp", "", "", parse_address(url, RemoteOptions(tls=False)).display_url)


def _local_named_host(configured: config.Config) -> NamedHost:
    bind = configured.host.bind if configured.host.bind.startswith(("127.", "localhost", "[::1]")) else DEFAULT_BIND
    return NamedHost(name="", url=f"http://{bind}")


def split_token(url: str) -> tuple[str, str]:
    """Return a URL without the token in it, and the token."""
    parts = urlsplit(url)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    token = next((value for name, value in pairs if name == "token"), "")
    query = urlencode([(name, value) for name, value in pairs if name != "token"])
    return urlunsplit((parts.scheme, parts.netloc, parts.path, query, "")), token


def check_agent(host: HostTarget, host_info: Mapping[str, Any], name: str | None) -> None:
    """Raise ConfigFault for an agent that the host does not have; `host_info` is the answer of /api/host."""
    names = [str(each) for each in host_info.get("agents") or ()]
    if name and names and name not in names:
        close = close_word(name, names)
        advice = f"did you mean {close}?" if close else f"its agents: {', '.join(names)}"
        raise ConfigFault([f"{host.display_name} has no agent {name!r}; {advice}"])


async def request_json(host: HostTarget, method: str, path: str, body: Any = None, **query: Any) -> Any:
    """Call the API and decode the JSON; raises Unreachable without an answer, ProtocolError for a refusal."""
    return _decode_json(host, await request_bytes(host, method, path, body, **query))


def request_json_blocking(host: HostTarget, method: str, path: str, timeout: float = API_TIMEOUT) -> Any:
    """Call the API from the current thread, with a timeout."""
    parse_address(f"{host.base_url}{path}", host.remote_settings)
    return _decode_json(host, _send_request(host, method, f"{host.base_url}{path}", None, timeout))


def _decode_json(host: HostTarget, data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        raise Unreachable(f"{host.display_name}: this is not a Dragoman host: its answer is not JSON") from None


async def request_bytes(host: HostTarget, method: str, path: str, body: Any = None, **query: Any) -> bytes:
    """Call the API and return the bytes."""
    encoded_query = urlencode({name: value for name, value in query.items() if value is not None})
    url = f"{host.base_url}{path}{f'?{encoded_query}' if encoded_query else ''}"
    parse_address(url, host.remote_settings)  # refuses to send a token unencrypted to another machine
    return await asyncio.to_thread(
        _send_request, host, method, url, None if body is None else json.dumps(body).encode()
    )


def _send_request(host: HostTarget, method: str, url: str, data: bytes | None, timeout: float = API_TIMEOUT) -> bytes:
    headers = {"Accept": "application/json"}
    if host.token:
        headers["Authorization"] = f"Bearer {host.token}"
    if data is not None:
        headers["Content-Type"] = "application/json"
    request = Request(url, data=data, headers=headers, method=method)
    try:
        with _create_opener(host).open(request, timeout=timeout) as answer:
            data_read: bytes = answer.read()
            return data_read
    except HTTPError as error:
        raise _response_error(host, error.code, dict(error.headers), error.read()) from None
    except (URLError, OSError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        if isinstance(reason, ConnectionRefusedError) and not host.host_argument:
            advice = "start it with `dragoman serve`, or name another one with --host NAME|URL"
            raise Unreachable(f"no host runs at {host.display_name}; {advice}", is_passing=True) from None
        raise network_error(host.display_name, reason if isinstance(reason, BaseException) else error) from None


def _create_opener(host: HostTarget) -> OpenerDirector:
    if host.base_url.startswith("https:"):
        return build_opener(HTTPSHandler(context=tls_context(host.ca_file or None, host.display_name)))
    return build_opener(ProxyHandler({}))


def _response_error(host: HostTarget, status: int, headers: Mapping[str, str], body: bytes) -> Exception:
    try:
        error = json.loads(body)["error"]
        kind, message = str(error["kind"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        return status_error(host.display_name, status, {name.lower(): value for name, value in headers.items()}, body)
    if status in (401, 429, 503):
        return Unreachable(f"{host.display_name}: {message}", status=status, is_passing=status != 401)
    return HostAnswer(kind or _STATUS_KINDS.get(status, Kind.INTERNAL_ERROR), message)
