"""The parts of config.toml about hosts: [host], what `dragoman serve` does, and [hosts.NAME], those that we reach.

What the numbers limit, and whether an issuer can be trusted, is checked where it is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dragoman.config.paths import UserPaths
from dragoman.config.toml_reader import ReadValue, TomlReader, member_readers
from dragoman.errors import ConfigFault
from dragoman.policy.modes import MODES
from dragoman.policy.toml_lines import TomlPath
from dragoman.store.urls import StoreAddress, parse_address
from dragoman.transport.address import is_remote

# The default address: this machine only, and an unassigned port.
DEFAULT_PORT = 7437
DEFAULT_BIND = f"127.0.0.1:{DEFAULT_PORT}"

SHARE_CHOICES = ("session", "user")
UNATTENDED_CHOICES = ("wait", "deny")


class IssuerSection(msgspec.Struct, frozen=True, kw_only=True):
    """[host.issuer]: the issuer whose bearer tokens are accepted besides ours, for which audience, and its claims."""

    issuer: str
    audience: str
    user: str = "sub"  # the claim that names the user
    role: str = "viewer"  # the role of everybody; "" admits only those in `roles`
    role_claim: str = ""  # a claim with a string or a list, such as groups; dots lead into objects: realm_access.roles
    roles: Mapping[str, str] = {}  # value of that claim -> role; the highest counts
    owner: str = ""  # the issuer's name for the owner of this host
    leeway: float = 30.0  # allowed difference between clocks. Seconds


class HostSection(msgspec.Struct, frozen=True, kw_only=True):
    """[host]: settings of `dragoman serve`; flags override them."""

    agents: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()  # of every remote user without their own
    user_roots: Mapping[str, tuple[str, ...]] = {}
    bind: str = DEFAULT_BIND
    tls: tuple[str, ...] = ()  # certificate and key
    store: str = ""  # where sessions are stored; "" for the user's own file
    share: str = "session"  # one agent process per session, or per user
    unattended: str = "wait"  # what happens to permission requests while nobody can answer
    policy: str = ""
    mode: str = ""
    mcp: tuple[str, ...] = ()  # files with the MCP servers that remote users may name
    origins: tuple[str, ...] = ()  # origins of web pages that may connect
    names: tuple[str, ...] = ()  # additional host names
    lsp: bool = False  # diagnostics of language servers after each write, and their tools
    workspace_tools: bool = False  # files and commands as MCP tools
    node: str = ""  # the name of this node in a fleet; "" for the name of the machine
    advertise: str = ""  # where other nodes reach this one; "" for the address it listens at
    labels: tuple[str, ...] = ()  # what this node has: shared:NAME=PATH, git:URL
    workspaces: str = ""  # the folder for working trees of repositories; "" for dragoman-workspaces in the home folder
    checkpoints: bool = True  # push the working tree of a session on a repository after each turn
    lease: float = 15.0  # seconds after which other nodes may run the sessions of one that is silent
    node_ca: str = ""  # certificates of other nodes to trust in addition to the system's
    mutual_tls: bool = False  # nodes must show each other certificates of node_ca
    secrets_key: str = ""  # the file with the key that seals credentials in a database
    access_log: str = ""  # the file for the access log, "-" for stderr; "" writes none
    local: bool = True  # whether its owner needs no token on this machine
    limits: Mapping[str, float] = {}
    issuer: IssuerSection | None = None


class NamedHost(msgspec.Struct, frozen=True, kw_only=True):
    """[hosts.NAME]: a host that the user has named."""

    name: str
    url: str
    token_file: str = ""
    ca: str = ""  # certificates to trust in addition to the system's


def read_host_section(reader: TomlReader, value: Any) -> HostSection:
    """Read [host]."""
    table = reader.read_table(value, ("host",), "the host's settings are written as [host]")
    members = reader.read_members(table, ("host",), _HOST_KEYS, "[host]")
    return HostSection(**members) if members else HostSection()


def read_hosts(
    reader: TomlReader, value: Any, is_name: Callable[[str], object], name_rule: str
) -> dict[str, NamedHost]:
    """Read each [hosts.NAME]."""
    found = {}
    for name, table in reader.read_table(value, ("hosts",), "hosts are written as [hosts.NAME]").items():
        path: TomlPath = ("hosts", name)
        if not is_name(name):
            reader.add_fault(path, name_rule)
        if not isinstance(table, dict) or ("url" not in table and name in _TABLE_KEYS):
            as_table = f"a host is written as a table: [hosts.{name}]"
            reader.add_fault(path, _NOT_IN_HOSTS.format(name) if name in _HOST_KEYS else as_table)
            continue
        members = reader.read_members(table, path, _NAMED_HOST_KEYS, "a host")
        if members is not None and "url" not in members:
            reader.add_fault(path, "url must say where it is, such as https://office.example:7437")
        elif members is not None:
            found[name] = NamedHost(name=name, **members)
    return found


def _read_pair(reader: TomlReader, value: Any, path: TomlPath) -> tuple[str, ...]:
    texts = reader.read_texts(value, path)
    if len(texts) not in (0, 2):
        reader.add_fault(path, 'must be a certificate and its key: ["cert.pem", "key.pem"]')
    return texts


def _read_lists(reader: TomlReader, value: Any, path: TomlPath) -> dict[str, tuple[str, ...]]:
    table = reader.read_table(value, path, 'must be a table such as { ann = ["/srv/ann"] }')
    return {key: reader.read_texts(each, (*path, key)) for key, each in table.items()}


# An origin as browsers write it (RFC 6454): no path, no user, no capitals.
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[^\s/?#@\[\]A-Z:]+)(:\d{1,5})?")

# A host name or IP address, without a port.
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")


def origin_fault(text: str) -> str:
    """Return what is wrong with an allowed origin; "" if it is valid."""
    if _ORIGIN.fullmatch(text):
        return ""
    return f"{text!r} is no origin; write it as browsers do, without a path, as in https://tools.example.org"


def name_fault(text: str) -> str:
    """Return what is wrong with a host name; "" if it is valid."""
    return "" if _NAME.fullmatch(text) else f"{text!r} is no name of a machine; write it as in office.example"


def check_host_section(section: HostSection) -> HostSection:
    """Return the section; raise ConfigFault for invalid origins and names."""
    faults = [f"--origin: {wrong}" for each in section.origins if (wrong := origin_fault(each))]
    faults += [f"--name: {wrong}" for each in section.names if (wrong := name_fault(each))]
    if faults:
        raise ConfigFault(faults)
    return section


def _read_checked(fault_of: Callable[[str], str]) -> ReadValue:
    """Return a reader for a list of strings that are each checked."""

    def read(reader: TomlReader, value: Any, path: TomlPath) -> tuple[str, ...]:
        texts = reader.read_texts(value, path)
        for fault in filter(None, map(fault_of, texts)):
            reader.add_fault(path, fault)
        return texts

    return read


def _read_url(reader: TomlReader, value: Any, path: TomlPath) -> str:
    text = reader.read_text(value, path)
    if not is_remote(text):
        reader.add_fault(path, "must be an address such as https://office.example:7437")
    return text


def _read_issuer(reader: TomlReader, value: Any, path: TomlPath) -> IssuerSection | None:
    table = reader.read_table(value, path, "an issuer is written as [host.issuer]")
    members = reader.read_members(table, path, _ISSUER_KEYS, "[host.issuer]")
    for key in ("issuer", "audience"):
        if not table.get(key):
            reader.add_fault(path, f"{key} is missing")
            members = None
    return IssuerSection(**members) if members else None


_HOST_KEYS = member_readers(
    HostSection,
    user_roots=_read_lists,
    tls=_read_pair,
    share=TomlReader.choice_reader(*SHARE_CHOICES),
    unattended=TomlReader.choice_reader(*UNATTENDED_CHOICES),
    mode=TomlReader.choice_reader(*MODES),
    origins=_read_checked(origin_fault),
    names=_read_checked(name_fault),
    issuer=_read_issuer,
)
_ISSUER_KEYS = member_readers(IssuerSection)
_NAMED_HOST_KEYS = member_readers(NamedHost, url=_read_url)

# Settings of [host] that are tables, and what is said of a setting of [host] that is below [hosts].
_TABLE_KEYS = ("user_roots", "limits", "issuer")
_NOT_IN_HOSTS = "{} is a setting of `dragoman serve`; write it below [host], without s"


# --- files ----------------------------------------------------------------------------------------------------


def store_address(store: str, paths: UserPaths) -> StoreAddress:
    """Return where sessions are stored: the user's own file by default."""
    found = parse_address(store or paths.sessions)
    if found.path and found.path == parse_address(paths.host_database).path:
        raise ConfigFault([f"store: {found.path} is where your tokens are kept; name another file"])
    return found


def host_database_path(store: StoreAddress, paths: UserPaths) -> str:
    """Return the database of tokens and members: the user's own, or one next to another session file."""
    return f"{store.path}.host" if store.path and store != store_address("", paths) else paths.host_database
