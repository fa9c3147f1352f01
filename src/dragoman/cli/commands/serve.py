"""`dragoman serve`: run a host, one process that owns agents and sessions."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from dragoman.cli import exit_codes
from dragoman.cli.connect import mcp_file, which_agent
from dragoman.cli.connect.options import WORKSPACE_TOOLS_HELP
from dragoman.cli.messages import error_kind
from dragoman.cli.parser import Parser
from dragoman.cli.serve.process import serve
from dragoman.cli.ui.log_lines import LOG_FORMATS
from dragoman.config.config_file import NamedAgent, load_config
from dragoman.config.host_section import (
    DEFAULT_BIND,
    SHARE_CHOICES,
    UNATTENDED_CHOICES,
    HostSection,
    check_host_section,
)
from dragoman.config.paths import UserPaths, user_paths
from dragoman.engine.loop import run as run_loop
from dragoman.errors import ConfigFault, StartFailed, StoreFault
from dragoman.policy.modes import MODES
from dragoman.schema.mcp import McpServer

EPILOG = f"""\
Sessions live in the host. They continue when every editor is closed, and
several users can be in one session. Any ACP client can connect over HTTP or
WebSocket: /acp is the first agent, /acp/NAME is any agent by name. For an
editor that starts its agents itself, use `dragoman attach`. Dragoman's own
commands take --host. A browser opens the web page at /; there are also /status,
/healthz, /readyz and /metrics.

At the default address, which only this machine can reach, commands that you run
on this machine need no token. A browser always does: sign in to the web page
with a token (dragoman tokens create "$USER" --role admin), or open a link of
`dragoman sessions share`. Any other address requires TLS, and a token from
everybody, also on this machine: create one first (dragoman tokens create USER),
or configure an OIDC issuer.
Sessions of remote users can work only in the folders that you name with --root.
Everybody with access can make an agent run commands as you: roles protect
sessions, not the machine.

Each session has its own agent process. With --share user, the sessions of one
user share a process per agent; different users never share one. Sandboxed
agents, and agents that use the draft or 2025.1, always have one process per
session.

Sessions are stored with your own, in another file (--store FILE), in memory
only (--store memory:), or in an engine that several hosts share: PostgreSQL
(postgresql://HOST/DATABASE, its password in PGPASSWORD or ~/.pgpass) or NATS
JetStream (nats://A,B,C; nats: starts a server beside the host). One host serves
one store file; its tokens are stored next to it (dragoman tokens --store FILE),
or in the engine.

All options can also be set in config.toml under [host]; flags override them.
SIGHUP loads config.toml, the certificate and the access log again; what cannot
be used is reported, and the old stays. docs/host.md describes everything,
including all limits; docs/operations.md shows how to run it as a service.

policy modes:
  {", ".join(MODES)}

exit codes:
    0  ended by Ctrl-C or SIGTERM
    1  an error
    2  wrong usage, a file that cannot be used, or an address that is not safe
   10  the store cannot be used (locked, full, read-only, damaged or too new)
  130  ended at once by a second Ctrl-C

examples:
  dragoman serve
  dragoman serve --agent opencode --agent claude --root ~/src
  dragoman serve --bind 0.0.0.0:7437 --tls cert.pem key.pem --root /srv/projects
  dragoman serve --agent opencode --share user
  dragoman serve --store sqlite:/srv/team.db --agent opencode
  dragoman serve --store postgresql://db.local/dragoman --secrets-key key.txt
  dragoman serve --store postgresql://db/dragoman --secrets-key key.txt \\
      --node n1 --advertise https://10.0.0.5:7437 --labels shared:src=/srv/src
  dragoman serve --unattended deny --mode plan -- my-agent --acp
  dragoman serve --log json --access-log /var/log/dragoman/access.log
  dragoman serve --json -- dragoman agent everything"""

USAGE = "[--agent NAME...] [OPTIONS] [-- CMD ARG...]"


def main(arguments: list[str]) -> int:
    """Parse the arguments, then serve until a signal comes."""
    parser = Parser("serve", USAGE, "Run a host: it keeps sessions running, and shares them between clients.", EPILOG)
    parser.add_value("--agent", "NAME", "serve this agent of `dragoman agents`; can be repeated", repeated=True)
    parser.add_flag("-y --yes", "install agents of the registry that are missing, without asking")
    parser.add_value("--root", "DIR", "folder in which sessions may work; can be repeated", repeated=True)
    parser.add_value("--bind", "ADDRESS", f"listen on ADDRESS:PORT, or on a port of this machine ({DEFAULT_BIND})")
    parser.add_argument("--tls", metavar=("CERT", "KEY"), nargs=2, help="certificate and key, as PEM files")
    parser.add_value(
        "--store", "URL", "where to store sessions: FILE, memory:, postgresql://HOST/DATABASE, nats://A,B,C"
    )
    parser.add_value("--secrets-key", "FILE", "key that seals credentials in a database; all hosts need the same")
    parser.add_value("--node", "NAME", "name of this node in a fleet (the name of the machine)")
    parser.add_value("--advertise", "URL", "where other nodes reach this one (the address it listens at)")
    parser.add_value("--labels", "LABEL", "what this node has: shared:NAME=PATH or git:URL; repeatable", repeated=True)
    parser.add_value("--node-ca", "FILE", "certificates of other nodes to trust besides the system's")
    parser.add_flag("--mutual-tls", "nodes must show each other certificates that --node-ca signed")
    parser.add_flag("--allow-drift", "join a fleet whose nodes have other settings, during an update")
    parser.add_value(
        "--grace", "SECONDS", "let turns end for this long at SIGTERM, in a fleet (0)", type=float, default=0.0
    )
    parser.add_flag("--trust-engine", "use a database whose settings could lose entries")
    parser.add_argument(
        "--share", choices=SHARE_CHOICES, help="share agent processes: none, or between the sessions of a user"
    )
    parser.add_argument(
        "--unattended",
        choices=UNATTENDED_CHOICES,
        help="permission requests while nobody can answer: wait (24 h at most), or deny",
    )
    parser.add_value("--policy", "FILE", "use this policy file instead of your own")
    parser.add_value("--mode", "MODE", "policy mode of all sessions", choices=tuple(MODES))
    parser.add_value("--mcp", "FILE", 'MCP servers that users may name: {"mcpServers": {...}}', repeated=True)
    parser.add_value("--origin", "URL", "web origin that may connect; can be repeated", repeated=True)
    parser.add_value("--name", "DOMAIN", "additional host name of this server", repeated=True)
    parser.add_flag("--lsp", "show the diagnostics of language servers after each write; give agents their tools")
    parser.add_flag("--workspace-tools", WORKSPACE_TOOLS_HELP)
    parser.add_flag("--no-local", "require a token on this machine too (behind a proxy)")
    parser.add_flag("--verbose", "log agents and clients on stderr")
    parser.add_argument("--log", choices=LOG_FORMATS, default="text", help="form of the log on stderr (text)")
    parser.add_value("--access-log", "FILE", "write a line for each request to FILE; - is stderr")
    parser.add_flag("--json", "print one line of JSON when the host is ready")
    options, command = parser.read(arguments)

    def load_settings() -> Settings:
        section = check_host_section(apply_flags(options, load_config(paths.config_file).host))
        servers = check_settings(options, section, paths)
        agents = resolve_agents(parser, options, command, section)
        return Settings(section, agents, {server.name: server for server in servers})

    try:
        from dragoman.host.reload import Settings

        paths = user_paths()
        return run_loop(serve(load_settings, paths, options))
    except (ConfigFault, StartFailed) as fault:
        parser.print_json_error(str(fault), error_kind(fault))
        for line in fault.faults if isinstance(fault, ConfigFault) else [str(fault)]:
            parser.fail(line, is_json_done=True)
        return exit_codes.USAGE
    except StoreFault as fault:
        return parser.fail(fault.message, exit_codes.NO_STORE, kind=error_kind(fault))
    except asyncio.CancelledError:  # the second signal does not wait for cleanup
        return exit_codes.INTERRUPTED


def check_settings(options: argparse.Namespace, section: HostSection, paths: UserPaths) -> list[McpServer]:
    """Check the settings that name files, folders and limits. Return the MCP servers that users may name."""
    from dragoman.host import settings

    with naming_setting("limits", "", paths.config_file):
        settings.endpoint_limits(section)
    with naming_setting("roots", "--root" if options.root else "", paths.config_file):
        settings.roots_lookup(section)
    with naming_setting("policy", "--policy" if options.policy else "", paths.config_file):
        settings.check_policy(section, paths)
    with naming_setting("mcp", "--mcp" if options.mcp else "", paths.config_file):
        return [server for file in section.mcp for server in mcp_file.load(os.path.expanduser(file))]


@contextmanager
def naming_setting(name: str, flag: str, config_file: str) -> Iterator[None]:
    """Raise faults of a setting of the host with where it was given: the flag, or config.toml and its key."""
    try:
        yield
    except ConfigFault as fault:
        key = f"host.{name}: "
        raise ConfigFault(
            [
                f"{flag}: {each.removeprefix(key)}"
                if flag and not each.startswith("host.user_")
                else f"{config_file}: {each if each.startswith('host.') else key + each}"
                for each in fault.faults
            ]
        ) from None


def apply_flags(options: argparse.Namespace, configured: HostSection) -> HostSection:
    """Return the configuration with the flags applied."""
    flags = {
        "roots": tuple(options.root),
        "bind": options.bind,
        "tls": tuple(options.tls or ()),
        "store": options.store,
        "share": options.share,
        "unattended": options.unattended,
        "policy": options.policy,
        "mode": options.mode,
        "mcp": tuple(options.mcp),
        "origins": tuple(options.origin),
        "names": tuple(options.name),
        "lsp": options.lsp,
        "node": options.node,
        "advertise": options.advertise,
        "labels": tuple(options.labels),
        "node_ca": options.node_ca,
        "mutual_tls": options.mutual_tls,
        "secrets_key": options.secrets_key,
        "access_log": options.access_log,
        "workspace_tools": options.workspace_tools,
    }
    section = msgspec.structs.replace(configured, **{name: value for name, value in flags.items() if value})
    return msgspec.structs.replace(section, local=False) if options.no_local else section


def resolve_agents(
    parser: Parser, options: argparse.Namespace, command: list[str], section: HostSection
) -> list[NamedAgent]:
    """Return the agents: the command, those named by flags, those configured, or the default agent."""
    if command:
        return [which_agent.resolve_agent(parser, options.agent[0] if options.agent else None, command)]
    names = list(dict.fromkeys(options.agent or section.agents))
    return [which_agent.resolve_agent(parser, name, [], yes=options.yes) for name in names or [None]]
