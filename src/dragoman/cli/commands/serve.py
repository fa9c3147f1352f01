"""`dragoman serve`: one process that owns agents and sessions; people and programs come and go."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import socket
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, cast

import msgspec

from dragoman.cli import exit_codes
from dragoman.cli.connect import mcp_file, which_agent
from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import sanitize, sanitize_line
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

EPILOG = f"""\
Sessions live in the host: they go on when every editor is closed, and several people can be in one. Any client of the
protocol reaches it over HTTP or WebSocket: /acp is the first agent, /acp/NAME each of them. An editor that starts its
agents itself is given `dragoman attach`. Our own commands take --host. The status page is at /, and there are /healthz,
/readyz and /metrics.

On this machine you need no token. Any other address needs TLS and tokens, or it does not start: first make a token
(dragoman tokens create USER) or configure an issuer. Sessions of remote users work in the folders you name with --root,
and nowhere without. Whoever is let in can make an agent run commands as you: roles guard sessions, not the machine.

Each session has an agent process of its own. With --share user the sessions of one user share a process of each agent,
never those of several users. Agents in a sandbox, and those of the draft and of 2025.1, keep one for each session.

Sessions are kept with your own, or in another file (--store FILE), or until it ends (--store memory:). One host serves
one file; its tokens are beside it (dragoman tokens --store FILE).

All of it can stand in config.toml as [host]; a flag is stronger. docs/host.md tells the rest, and every limit.

modes: {", ".join(MODES)}

exit codes:
  0  ended by Ctrl-C or SIGTERM       2  wrong usage, a file that cannot be used, or an address that is not safe
  1  an error                        10  the sessions cannot be kept: the store is locked, full, newer or damaged
                                    130  ended at once, by a second Ctrl-C

examples:
  dragoman serve
  dragoman serve --agent opencode --agent claude --root ~/src
  dragoman serve --bind 0.0.0.0:7437 --tls cert.pem key.pem --root /srv/projects
  dragoman serve --agent opencode --share user
  dragoman serve --store sqlite:/srv/team.db --agent opencode
  dragoman serve --unattended deny --mode plan -- my-agent --acp
  dragoman serve --json -- dragoman agent everything"""

# How long the second signal waits for what must be put away: nobody presses it twice to wait. Seconds.
FORCED_EXIT_DELAY = 1.0

USAGE = "[--agent NAME...] [--root DIR...] [--bind ADDRESS] [--tls CERT KEY] [OPTIONS] [-- CMD ARG...]"


def main(arguments: list[str]) -> int:
    """Read the arguments, then serve until somebody ends it."""
    parser = Parser("serve", USAGE, "Keep sessions with agents, for everybody who may come.", EPILOG)
    many: dict[str, Any] = {"action": "append", "default": []}
    parser.add_argument("--agent", metavar="NAME", help="an agent of `dragoman agents`; can be repeated", **many)
    parser.add_argument("--root", metavar="DIR", help="where sessions may work; can be repeated", **many)
    parser.add_argument("--bind", metavar="ADDRESS", help=f"where to listen: ADDRESS:PORT, or a port ({DEFAULT_BIND})")
    parser.add_argument("--tls", metavar=("CERT", "KEY"), nargs=2, help="a certificate and its key, as PEM files")
    parser.add_argument("--store", metavar="URL", help="where to keep sessions: FILE, sqlite:FILE or memory:")
    parser.add_argument(
        "--share", choices=SHARE_CHOICES, help="one agent process a session, or one for all of a user's"
    )
    parser.add_argument(
        "--unattended",
        choices=UNATTENDED_CHOICES,
        help="questions while nobody may answer: wait (24 h at most), or deny",
    )
    parser.add_argument("--policy", metavar="FILE", help="a policy file in place of your own")
    parser.add_argument("--mode", metavar="MODE", choices=tuple(MODES), help="the policy mode of all sessions")
    parser.add_argument("--mcp", metavar="FILE", help='MCP servers that users may name: {"mcpServers": {...}}', **many)
    parser.add_argument("--origin", metavar="URL", help="a web page that may use it; can be repeated", **many)
    parser.add_argument("--name", metavar="DOMAIN", help="what it is called besides its address", **many)
    parser.add_argument("--no-local", action="store_true", help="you need a token on this machine too (behind a proxy)")
    parser.add_argument("--verbose", action="store_true", help="say on stderr what happens to agents and clients")
    parser.add_argument("--json", action="store_true", help="print one line of JSON when it is there")
    options, command = parser.read(arguments)
    try:
        here = user_paths()
        hosting = check_host_section(apply_flags(options, load_config(here.config_file).host))
        agents = resolve_agents(parser, options, command, hosting)
        return run_loop(serve(agents, hosting, here, options))
    except (ConfigFault, StartFailed) as fault:
        for line in fault.faults if isinstance(fault, ConfigFault) else [str(fault)]:
            print(f"{parser.prog}: {sanitize(line)}", file=sys.stderr)
        return exit_codes.USAGE
    except StoreFault as fault:
        print(f"{parser.prog}: {sanitize(fault.message)}", file=sys.stderr)
        return exit_codes.NO_STORE
    except asyncio.CancelledError:  # the second signal did not wait for anybody
        return exit_codes.INTERRUPTED


def apply_flags(options: argparse.Namespace, configured: HostSection) -> HostSection:
    """What is configured, with the flags over it."""
    said = {
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
    }
    hosting = msgspec.structs.replace(configured, **{name: value for name, value in said.items() if value})
    return msgspec.structs.replace(hosting, local=False) if options.no_local else hosting


def resolve_agents(
    parser: Parser, options: argparse.Namespace, command: list[str], hosting: HostSection
) -> list[NamedAgent]:
    """The agents: the command, those that are named, those that are configured, or the one that is meant anyway."""
    if command:
        return [which_agent.resolve_agent(parser, options.agent[0] if options.agent else None, command)]
    names = list(dict.fromkeys(options.agent or hosting.agents))
    return [which_agent.resolve_agent(parser, name, []) for name in names or [None]]


async def serve(agents: list[NamedAgent], hosting: HostSection, paths: UserPaths, options: argparse.Namespace) -> int:
    """Serve until a signal comes; the second one does not wait for anybody."""
    from dragoman.host import settings
    from dragoman.host.auth.database import HostDatabase, lock_store
    from dragoman.host.auth.oidc import Oidc
    from dragoman.host.auth.tokens import Tokens
    from dragoman.host.host import Host
    from dragoman.host.http.app import HostApp
    from dragoman.host.http.metrics import Metrics, TimedStore
    from dragoman.policy.redaction import environment_secrets
    from dragoman.store.discretion import RedactingStore
    from dragoman.store.urls import open_store
    from dragoman.transport.remote.server.listener import open_listener
    from dragoman.transport.remote.server.origin import authenticate_local, current_user, is_loopback, parse_bind

    def report(text: str) -> None:
        if options.verbose:
            print(f"dragoman: {sanitize(text)}", file=sys.stderr, flush=True)

    ending = _stop_event()
    for warning in settings.warnings(hosting, paths):
        print(f"dragoman: {sanitize_line(warning)}", file=sys.stderr, flush=True)
    limits, bounds, trust = (
        settings.endpoint_limits(hosting),
        settings.host_limits(hosting),
        settings.oidc_settings(hosting),
    )
    metrics = Metrics()
    secrets = [
        *environment_secrets(os.environ),
        *(value for agent in agents for value in environment_secrets(agent.env)),
    ]
    async with AsyncExitStack() as stack:
        address = store_address(hosting.store, paths)
        if address.path:
            stack.enter_context(lock_store(address.path))
        register = stack.enter_context(HostDatabase(host_database_path(address, paths), current_user()))
        tokens = Tokens(register)
        issuer = None if trust is None else Oidc(trust, current_user(), report=report)
        is_near = is_loopback(parse_bind(hosting.bind)[0])
        has_leave = issuer is not None or tokens.has_user_tokens()
        check_address(hosting, is_local=is_near, has_authentication=has_leave)
        store = await open_store(address)
        stack.push_async_callback(store.close)
        if not address.is_durable:
            stack.push_async_callback(remove_session_records, store, register)
        house = await stack.enter_async_context(
            Host(
                agents,
                store=cast(Store, RedactingStore(cast(Store, TimedStore(store, metrics)), secrets)),
                session_roles=register,
                make_guard=settings.guard_factory(hosting, paths),
                roots_of=settings.roots_lookup(hosting),
                mcp_servers={
                    each.name: each for file in hosting.mcp for each in mcp_file.load(os.path.expanduser(file))
                },
                limits=bounds,
                report=report,
                share_processes=hosting.share == "user",
            )
        )
        host = HostApp(
            house,
            tokens=tokens,
            oidc=issuer,
            local=authenticate_local if hosting.local and is_near else None,
            limits=limits,
            origins=hosting.origins,
            hosts=hosting.names,
            metrics=metrics,
        )
        tls = (os.path.expanduser(hosting.tls[0]), os.path.expanduser(hosting.tls[1])) if hosting.tls else None
        served = await stack.enter_async_context(
            open_listener(host, hosting.bind, tls=tls, limits=limits, has_auth=has_leave)
        )
        announce(agents, public_url(served.url, hosting), address, options)
        await ending.wait()
        if not options.json:
            print("dragoman: ending; once more ends it at once", file=sys.stderr, flush=True)
    return exit_codes.OK


def check_address(hosting: HostSection, *, is_local: bool, has_authentication: bool) -> None:
    """Say in our words why an address is not opened, and what to do."""
    if is_local:
        return
    if not hosting.tls:
        raise StartFailed(
            f"{hosting.bind}: other machines can reach this address, so it needs TLS: --tls cert.pem key.pem; "
            "or stay on this machine and forward the port: ssh -L 7437:127.0.0.1:7437 THIS-MACHINE"
        )
    if not has_authentication:
        raise StartFailed(
            f"{hosting.bind}: other machines can reach this address, so everybody must show who they are; "
            "make a token first: dragoman tokens create USER (or configure [host.issuer])"
        )


def public_url(url: str, hosting: HostSection) -> str:
    """The address as others can use it: one that means all addresses of this machine means none to them."""
    for address in ("//0.0.0.0:", "//[::]:"):
        if address in url:
            return url.replace(address, f"//{hosting.names[0] if hosting.names else socket.gethostname()}:")
    return url


async def remove_session_records(store: Store, database: HostDatabase) -> None:
    """Sessions that end with the process: nobody is anything in them any more, and links to them lead nowhere."""
    for summary in await store.sessions():
        await database.remove_session(summary.session_id)


def announce(agents: list[NamedAgent], url: str, store: StoreAddress, options: argparse.Namespace) -> None:
    """Say where it is: one line; and another where sessions are not kept."""
    for agent in agents:  # it may be installed later, or be on the PATH of a folder: that is no reason not to start
        if shutil.which(agent.command, path={**os.environ, **agent.env}.get("PATH")) is None:
            print(
                f"dragoman: there is no command {sanitize_line(agent.command)} yet: sessions need it", file=sys.stderr
            )
    if not store.is_durable:
        print("dragoman: sessions are in memory alone: they end with this process", file=sys.stderr, flush=True)
    addresses = {agent.name: url if at == 0 else f"{url}/{agent.name}" for at, agent in enumerate(agents)}
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
    print(f"{listed}; status at {url.removesuffix('/acp')}/; Ctrl-C ends it", flush=True)


def _stop_event() -> asyncio.Event:
    """Set by the first signal; the second one cancels, the third one does not ask: what is left of agents is ended."""
    ending = asyncio.Event()
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    seen = 0

    def heard(number: int) -> None:
        nonlocal seen
        seen += 1
        if seen == 1:
            ending.set()
        elif seen == 2 and task is not None:
            task.cancel()
            loop.call_later(FORCED_EXIT_DELAY, os._exit, exit_codes.INTERRUPTED)
        else:
            os._exit(128 + number)

    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, heard, each)
    return ending
