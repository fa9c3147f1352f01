"""The parts of config.toml about hosts: [host], what `dragoman serve` does, and [hosts.NAME], those that we reach.

    [host]
    agents = ["opencode"]         # /acp is the first one; without it, the default agent
    roots = ["~/src"]             # where sessions of remote users may work
    bind = "0.0.0.0:7437"
    tls = ["cert.pem", "key.pem"]
    [host.limits]
    body = 1000000
    [hosts.office]
    url = "https://office.example:7437"

Takes tables, gives values. What the numbers limit, and whether an issuer can be trusted, is checked where it is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dragoman.config.paths import Places
from dragoman.config.toml_reader import Reader, Reading
from dragoman.errors import ConfigFault
from dragoman.policy.modes import MODES
from dragoman.policy.toml_lines import Path
from dragoman.store.urls import Address, located

# Where a host listens unless told otherwise: this machine alone, and a port that nobody has claimed.
PORT = 7437
BIND = f"127.0.0.1:{PORT}"

SHARES = ("session", "user")
UNATTENDED = ("wait", "deny")


class Issued(msgspec.Struct, frozen=True, kw_only=True):
    """[host.issuer]: whose bearer tokens count beside our own."""

    issuer: str
    audience: str
    user: str = "sub"
    role: str = "viewer"
    role_claim: str = ""
    roles: Mapping[str, str] = {}
    owner: str = ""
    leeway: float = 30.0


class Hosting(msgspec.Struct, frozen=True, kw_only=True):
    """[host]: what `dragoman serve` does unless its flags say otherwise."""

    agents: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()  # of every remote user who has none of their own
    user_roots: Mapping[str, tuple[str, ...]] = {}
    bind: str = BIND
    tls: tuple[str, ...] = ()  # certificate and key
    store: str = ""  # where sessions are kept; without it, in the user's own file
    share: str = "session"  # one agent process a session, or one a user
    unattended: str = "wait"  # what happens to questions while nobody is there who may answer
    policy: str = ""
    mode: str = ""
    mcp: tuple[str, ...] = ()  # files with the MCP servers that remote users may name
    origins: tuple[str, ...] = ()  # web pages that may use it
    names: tuple[str, ...] = ()  # what it is called, beside its address
    local: bool = True  # whether its owner needs no token on this machine
    limits: Mapping[str, float] = {}
    issuer: Issued | None = None


class NamedHost(msgspec.Struct, frozen=True, kw_only=True):
    """[hosts.NAME]: a host that the user reaches by a name."""

    name: str
    url: str
    token_file: str = ""
    ca: str = ""  # certificates to trust beside the system's


def hosting(reader: Reader, value: Any) -> Hosting:
    """What [host] says."""
    table = reader.table(value, ("host",), "the host's settings are written as [host]")
    members = reader.members(table, ("host",), _HOST, "[host]")
    return Hosting(**members) if members else Hosting()


def hosts(reader: Reader, value: Any, is_name: Callable[[str], object], naming: str) -> dict[str, NamedHost]:
    """What [hosts.NAME] says, for each."""
    found = {}
    for name, table in reader.table(value, ("hosts",), "hosts are written as [hosts.NAME]").items():
        path: Path = ("hosts", name)
        if not is_name(name):
            reader.fault(path, naming)
        members = reader.members(
            reader.table(table, path, f"a host is written as a table: [hosts.{name}]"), path, _NAMED, "a host"
        )
        if members is not None and "url" not in members:
            reader.fault(path, "url must say where it is, such as https://office.example:7437")
        elif members is not None:
            found[name] = NamedHost(name=name, **members)
    return found


def _pair(reader: Reader, value: Any, path: Path) -> tuple[str, ...]:
    texts = reader.texts(value, path)
    if len(texts) not in (0, 2):
        reader.fault(path, 'must be a certificate and its key: ["cert.pem", "key.pem"]')
    return texts


def _lists(reader: Reader, value: Any, path: Path) -> dict[str, tuple[str, ...]]:
    table = reader.table(value, path, 'must be a table such as { ann = ["/srv/ann"] }')
    return {key: reader.texts(each, (*path, key)) for key, each in table.items()}


# A place that web pages come from, as browsers spell it (RFC 6454): no path, no user, no capitals.
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[^\s/?#@\[\]A-Z:]+)(:\d{1,5})?")

# A name, or an address of either kind, without a port.
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")


def wrong_origin(text: str) -> str:
    """What is wrong with an origin that is to be let in; "" for nothing."""
    if _ORIGIN.fullmatch(text):
        return ""
    return f"{text!r} is no origin; write it as browsers do, without a path, as in https://tools.example.org"


def wrong_name(text: str) -> str:
    """What is wrong with a name that a host is to answer to; "" for nothing."""
    return "" if _NAME.fullmatch(text) else f"{text!r} is no name of a machine; write it as in office.example"


def checked(hosting: Hosting) -> Hosting:
    """The same; ConfigFault for origins and names that nobody could ever come from or ask for."""
    faults = [f"--origin: {wrong}" for each in hosting.origins if (wrong := wrong_origin(each))]
    faults += [f"--name: {wrong}" for each in hosting.names if (wrong := wrong_name(each))]
    if faults:
        raise ConfigFault(faults)
    return hosting


def _each(wrong: Callable[[str], str]) -> Reading:
    """How a list of texts is read of which each must be right."""

    def read(reader: Reader, value: Any, path: Path) -> tuple[str, ...]:
        texts = reader.texts(value, path)
        for fault in filter(None, map(wrong, texts)):
            reader.fault(path, fault)
        return texts

    return read


def _url(reader: Reader, value: Any, path: Path) -> str:
    text = reader.text(value, path)
    if not text.startswith(("http://", "https://", "ws://", "wss://")):
        reader.fault(path, "must be an address such as https://office.example:7437")
    return text


def _issued(reader: Reader, value: Any, path: Path) -> Issued | None:
    table = reader.table(value, path, "an issuer is written as [host.issuer]")
    members = reader.members(table, path, _ISSUER, "[host.issuer]")
    for key in ("issuer", "audience"):
        if not table.get(key):
            reader.fault(path, f"{key} is missing")
            members = None
    return Issued(**members) if members else None


_HOST: dict[str, Reading] = {
    "agents": Reader.texts,
    "roots": Reader.texts,
    "user_roots": _lists,
    "bind": Reader.text,
    "tls": _pair,
    "store": Reader.text,
    "share": Reader.one_of(*SHARES),
    "unattended": Reader.one_of(*UNATTENDED),
    "policy": Reader.text,
    "mode": Reader.one_of(*MODES),
    "mcp": Reader.texts,
    "origins": _each(wrong_origin),
    "names": _each(wrong_name),
    "local": Reader.switch,
    "limits": Reader.numbers,
    "issuer": _issued,
}

_ISSUER: dict[str, Reading] = {
    "issuer": Reader.text,
    "audience": Reader.text,
    "user": Reader.text,
    "role": Reader.text,
    "role_claim": Reader.text,
    "roles": Reader.pairs,
    "owner": Reader.text,
    "leeway": Reader.number,
}

_NAMED: dict[str, Reading] = {"url": _url, "token_file": Reader.text, "ca": Reader.text}


# --- files ----------------------------------------------------------------------------------------------------


def store_address(store: str, here: Places) -> Address:
    """Where sessions are kept: the user's own file unless said otherwise."""
    found = located(store or here.sessions)
    if found.path and found.path == located(here.host).path:
        raise ConfigFault([f"store: {found.path} is where your tokens are kept; name another file"])
    return found


def register_place(store: Address, here: Places) -> str:
    """The file of tokens and members: the user's own, or that beside another file of sessions, named after it."""
    return f"{store.path}.host" if store.path and store != store_address("", here) else here.host
