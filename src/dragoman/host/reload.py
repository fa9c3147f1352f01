"""Apply a changed configuration to a running host. Everything is read and checked first, so a fault changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from dragoman.config.host_section import HostSection
from dragoman.host import settings

if TYPE_CHECKING:
    from dragoman.config.config_file import NamedAgent
    from dragoman.config.paths import UserPaths
    from dragoman.host.auth.oidc import Oidc
    from dragoman.host.host import Host
    from dragoman.host.http.app import HostApp
    from dragoman.schema.mcp import McpServer

# Settings that a running host cannot change: sockets, files and processes are made from them.
RESTART_SETTINGS = (
    "bind",
    "store",
    "secrets_key",
    "share",
    "lsp",
    "workspace_tools",
    "local",
    "access_log",
    "node",
    "advertise",
    "labels",
    "workspaces",
    "checkpoints",
    "lease",
    "node_ca",
    "mutual_tls",
)


class Settings(msgspec.Struct, frozen=True):
    """What `dragoman serve` is started with: its section of config.toml, with the flags, and what that names."""

    section: HostSection
    agents: Sequence[NamedAgent]
    mcp_servers: Mapping[str, McpServer]


def apply_settings(
    host: Host, app: HostApp, old: Settings, new: Settings, paths: UserPaths, make_oidc: Callable[[], Oidc | None]
) -> list[str]:
    """Apply new settings. Return a line for each group that changed, and for each that needs a restart.

    Raise ConfigFault, with nothing changed, for settings that cannot be used. New limits count for new connections and
    new rooms. An agent that is no longer listed keeps running in its sessions until it stops.
    """
    section = new.section
    roots_of = settings.roots_lookup(section)
    make_guard = settings.guard_factory(section, paths)
    host_limits, endpoint_limits = settings.host_limits(section), settings.endpoint_limits(section)
    oidc = make_oidc()
    host.roots_of, host.make_guard, host.limits = roots_of, make_guard, host_limits
    host.mcp_servers = dict(new.mcp_servers)
    host.agent_catalog.replace_agents(new.agents)
    host.agent_catalog.start_timeout = host_limits.open_timeout
    app.replace_settings(limits=endpoint_limits, origins=section.origins, hosts=section.names, oidc=oidc)
    return _changes(old, new)


def _changes(old: Settings, new: Settings) -> list[str]:
    names = HostSection.__struct_fields__
    changed = [name for name in names if getattr(old.section, name) != getattr(new.section, name)]
    needs_restart = [name for name in changed if name in RESTART_SETTINGS]
    applied = [name for name in changed if name not in RESTART_SETTINGS and name != "agents"]
    if list(old.agents) != list(new.agents):
        applied.append("agents")
    lines = [f"changed: {', '.join(applied)}"] if applied else []
    return lines + [f"{name} changes with the next start" for name in needs_restart]
