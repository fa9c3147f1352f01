"""`dragoman serve`: run a host, one process that owns agents and sessions."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shlex
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import msgspec

from dragoman.cli import exit_codes
from dragoman.cli.connect import mcp_file, which_agent
from dragoman.cli.parser import Parser
from dragoman.cli.ui.log_lines import LOG_FORMATS, LogLines
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.config.config_file import NamedAgent, load_config
from dragoman.config.host_section import (
    DEFAULT_BIND,
    SHARE_CHOICES,
    UNATTENDED_CHOICES,
    HostSection,
    check_host_section,
    host_database_path,
    store_address,
)
from dragoman.config.paths import UserPaths, user_paths
from dragoman.engine.loop import run as run_loop
from dragoman.errors import ConfigFault, StartFailed, StoreFault
from dragoman.policy.modes import MODES
from dragoman.store.contract import Store
from dragoman.store.urls import StoreAddress

if TYPE_CHECKING:
    from dragoman.host.auth.database import HostDatabase
    from dragoman.host.host import Host
    from dragoman.roles.client.workspace import WorkspaceObserver

EPILOG = f"""\
Sessions live in the host. They continue when every editor is closed, and
several users can be in one session. Any ACP client can connect over HTTP or
WebSocket: /acp is the first agent, /acp/NAME is any agent by name. For an
editor that starts its agents itself, use `dragoman attach`. Dragoman's own
commands take --host. The status page is at /; there are also /healthz, /readyz
and /metrics.

At the default address, which only this machine can reach, you need no token.
Any other address requires TLS, and a token from everybody, also on this
machine: create one first (dragoman tokens create USER), or configure an OIDC
issuer. A browser asks for the token as the password of the status page.
Sessions of remote users can work only in the folders that you name with --root.
Everybody with access can make an agent run commands as you: roles protect
sessions, not the machine.

Each session has its own agent process. With --share user, the sessions of one
user share a process per agent; different users never share one. Sandboxed
agents, and agents that use the draft or 2025.1, always have one process per
session.

Sessions are stored with your own, in another file (--store FILE), or in memory
only (--store memory:). One host serves one store file; its tokens are stored
next to it (dragoman tokens --store FILE).

All options can also be set in config.toml under [host]; flags override them.
docs/host.md describes everything, including all limits.

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
  dragoman serve --unattended deny --mode plan -- my-agent --acp
  dragoman serve --json -- dragoman agent everything"""

# After the second signal, cleanup gets this much time. Seconds.
FORCED_EXIT_DELAY = 1.0

USAGE = "[--agent NAME...] [OPTIONS] [-- CMD ARG...]"


def main(arguments: list[str]) -> int:
    """Parse the arguments, then serve until a signal comes."""
    parser = Parser("serve", USAGE, "Run a host: it keeps sessions running, and shares them between clients.", EPILOG)
    parser.add_value("--agent", "NAME", "serve this agent of `dragoman agents`; can be repeated", repeated=True)
    parser.add_flag("-y --yes", "install agents of the registry that are missing, without asking")
    parser.add_value("--root", "DIR", "folder in which sessions may work; can be repeated", repeated=True)
    parser.add_value("--bind", "ADDRESS", f"listen on ADDRESS:PORT, or on a port of this machine ({DEFAULT_BIND})")
    parser.add_argument("--tls", metavar=("CERT", "KEY"), nargs=2, help="certificate and key, as PEM files")
    parser.add_value("--store", "URL", "where to store sessions: FILE, sqlite:FILE or memory:")
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
    parser.add_flag("--lsp", "show the diagnostics of language servers after each write of an agent")
    parser.add_flag("--no-local", "require a token on this machine too (behind a proxy)")
    parser.add_flag("--verbose", "log agents and clients on stderr")
    parser.add_argument("--log", choices=LOG_FORMATS, default="text", help="form of the log on stderr (text)")
    parser.add_flag("--json", "print one line of JSON when the host is ready")
    options, command = parser.read(arguments)
    try:
        paths = user_paths()
        section = check_host_section(apply_flags(options, load_config(paths.config_file).host))
        agents = resolve_agents(parser, options, command, section)
        return run_loop(serve(agents, section, paths, options))
    except (ConfigFault, StartFailed) as fault:
        for line in fault.faults if isinstance(fault, ConfigFault) else [str(fault)]:
            parser.fail(line)
        return exit_codes.USAGE
    except StoreFault as fault:
        return parser.fail(fault.message, exit_codes.NO_STORE)
    except asyncio.CancelledError:  # the second signal does not wait for cleanup
        return exit_codes.INTERRUPTED


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


async def serve(agents: list[NamedAgent], section: HostSection, paths: UserPaths, options: argparse.Namespace) -> int:
    """Serve until a signal comes; the second signal does not wait for cleanup."""
    from dragoman.host import settings
    from dragoman.host.auth.database import HostDatabase, lock_store
    from dragoman.host.auth.oidc import Oidc
    from dragoman.host.auth.tokens import Tokens
    from dragoman.host.http.app import HostApp
    from dragoman.host.http.metrics import Metrics
    from dragoman.policy.redaction import environment_secrets
    from dragoman.store.urls import open_store
    from dragoman.store.wrappers import RedactingStore, TimedStore
    from dragoman.transport.remote.server.descriptors import raise_descriptor_limit
    from dragoman.transport.remote.server.listener import open_listener
    from dragoman.transport.remote.server.origin import authenticate_local, current_user, is_loopback, parse_bind

    log = LogLines(sys.stderr, options.log)
    logging.getLogger("dragoman").addHandler(log)

    def report(text: str) -> None:
        if options.verbose:
            log.write(text)

    stop = _stop_event()
    for warning in settings.warnings(section, paths):
        log.write(warning, "warning")
    limits, oidc = settings.endpoint_limits(section), section.issuer
    raise_descriptor_limit(limits.sockets)
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        stack.callback(logging.getLogger("dragoman").removeHandler, log)
        address = store_address(section.store, paths)
        if address.path:
            stack.enter_context(lock_store(address.path))
        database = stack.enter_context(HostDatabase(host_database_path(address, paths), current_user()))
        tokens = Tokens(database)
        oidc_auth = None if oidc is None else Oidc(oidc, current_user(), report=report)
        is_local = is_loopback(parse_bind(section.bind)[0])
        has_auth = oidc_auth is not None or tokens.has_user_tokens()
        check_address(section, is_local=is_local, has_authentication=has_auth)
        store = await open_store(address)
        stack.push_async_callback(store.close)
        if not address.is_durable:
            stack.push_async_callback(remove_session_records, store, database)
        secrets = environment_secrets(os.environ)
        secrets += [value for agent in agents for value in environment_secrets(agent.env)]
        timed_store = TimedStore(store, metrics.observe_commit)
        host = create_host(agents, RedactingStore(timed_store, secrets), database, section, paths, report)
        await stack.enter_async_context(host)
        app = HostApp(
            host,
            tokens=tokens,
            oidc=oidc_auth,
            local=authenticate_local if section.local and is_local else None,
            limits=limits,
            origins=section.origins,
            hosts=section.names,
            metrics=metrics,
        )
        tls = (os.path.expanduser(section.tls[0]), os.path.expanduser(section.tls[1])) if section.tls else None
        served = await stack.enter_async_context(
            open_listener(app, section.bind, tls=tls, limits=limits, has_auth=has_auth)
        )
        announce(agents, public_url(served.url, section), address, options, log)
        await stop.wait()
        if not options.json:
            log.write("stopping; press Ctrl-C again to stop at once")
    return exit_codes.OK


def create_host(
    agents: list[NamedAgent],
    store: Store,
    database: HostDatabase,
    section: HostSection,
    paths: UserPaths,
    report: Callable[[str], None],
) -> Host:
    """Return the host with the settings of its section in config.toml."""
    from dragoman.host import settings
    from dragoman.host.host import Host

    servers = [server for file in section.mcp for server in mcp_file.load(os.path.expanduser(file))]
    return Host(
        agents,
        store=store,
        session_roles=database,
        make_guard=settings.guard_factory(section, paths),
        roots_of=settings.roots_lookup(section),
        mcp_servers={server.name: server for server in servers},
        limits=settings.host_limits(section),
        report=report,
        share_processes=section.share == "user",
        observer=_language_servers() if section.lsp else None,
    )


def _language_servers() -> WorkspaceObserver:
    """Return what shows diagnostics after each write of an agent; says on stderr which server is off."""
    from dragoman.bridge.lsp.workspace_observer import LanguageServerObserver, user_table

    def report(text: str) -> None:
        print(f"dragoman: {sanitize_line(text)}", file=sys.stderr, flush=True)

    return LanguageServerObserver(user_table(), report)


def check_address(section: HostSection, *, is_local: bool, has_authentication: bool) -> None:
    """Raise StartFailed, with advice, for an address that is not safe to open."""
    if is_local:
        return
    if not section.tls:
        raise StartFailed(
            f"{section.bind}: other machines can reach this address, so it needs TLS: --tls cert.pem key.pem; "
            "or listen on this machine only and forward the port: ssh -L 7437:127.0.0.1:7437 THIS-MACHINE"
        )
    if not has_authentication:
        store_flag = f" --store {shlex.quote(section.store)}" if section.store else ""
        raise StartFailed(
            f"{section.bind}: other machines can reach this address, so clients must authenticate; "
            f"create a token first: dragoman tokens create USER{store_flag} (or configure [host.issuer])"
        )


def public_url(url: str, section: HostSection) -> str:
    """Return the URL for other machines: an address that means all interfaces is replaced by the host name."""
    for address in ("//0.0.0.0:", "//[::]:"):
        if address in url:
            return url.replace(address, f"//{section.names[0] if section.names else socket.gethostname()}:")
    return url


async def remove_session_records(store: Store, database: HostDatabase) -> None:
    """Remove roles and share links of sessions that end with the process."""
    for summary in await store.sessions():
        await database.remove_session(summary.session_id)


def announce(
    agents: list[NamedAgent], url: str, store: StoreAddress, options: argparse.Namespace, log: LogLines
) -> None:
    """Print the URLs of the agents, and warn when sessions are not stored."""
    for agent in agents:  # it may be installed later, so the host starts anyway
        if shutil.which(agent.command, path={**os.environ, **agent.env}.get("PATH")) is None:
            log.write(f"command not found: {agent.command}; sessions need it", "warning")
    if not store.is_durable:
        log.write("sessions are only in memory and are lost when this process ends", "warning")
    addresses = {agent.name: url if index == 0 else f"{url}/{agent.name}" for index, agent in enumerate(agents)}
    if options.json:
        line = {
            "url": url,
            "agents": addresses,
            "status": f"{url.removesuffix('/acp')}/",
            "pid": os.getpid(),
            "store": str(store),
            "lasts": store.is_durable,
        }
        print(msgspec.json.encode(line).decode(), flush=True)
        return
    listed = ", ".join(f"{sanitize_line(name)} at {address}" for name, address in addresses.items())
    print(f"{listed}; status at {url.removesuffix('/acp')}/; Ctrl-C stops the host", flush=True)


def _stop_event() -> asyncio.Event:
    """Return an event that the first signal sets. The second signal cancels the task, the third one exits at once."""
    stop = asyncio.Event()
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    count = 0

    def on_signal(number: int) -> None:
        nonlocal count
        count += 1
        if count == 1:
            stop.set()
        elif count == 2 and task is not None:
            task.cancel()
            loop.call_later(FORCED_EXIT_DELAY, os._exit, exit_codes.INTERRUPTED)
        else:
            os._exit(128 + number)

    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, on_signal, each)
    return stop
