"""The process of `dragoman serve`: open the store, the host and its port, and serve until a signal comes.

SIGHUP loads the settings, the certificate and the access log again.
"""

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
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.cli import exit_codes
from dragoman.cli.serve.fleet import check_drift, check_fleet_settings, make_fleet
from dragoman.cli.ui.log_lines import LogLines
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.config.config_file import NamedAgent
from dragoman.config.host_section import HostSection, host_database_path, store_address
from dragoman.config.paths import UserPaths
from dragoman.errors import ConfigFault, ProtocolError, StartFailed
from dragoman.store.contract import Store
from dragoman.store.urls import StoreAddress

if TYPE_CHECKING:
    from dragoman.host.auth.oidc import Oidc
    from dragoman.host.auth.roles import SessionRoles
    from dragoman.host.fleet.fleet import Fleet
    from dragoman.host.host import Host
    from dragoman.host.http.access_log import AccessLog
    from dragoman.host.http.app import HostApp
    from dragoman.host.http.metrics import Metrics
    from dragoman.host.http.page_api import Documents
    from dragoman.host.reload import Settings
    from dragoman.roles.client.workspace import WorkspaceObserver
    from dragoman.store.fleet import Engine, EngineOptions
    from dragoman.store.wrappers import RedactingStore
    from dragoman.transport.remote.server.listener import Listener

# After the second signal, cleanup gets this much time. Seconds.
FORCED_EXIT_DELAY = 1.0


async def serve(load_settings: Callable[[], Settings], paths: UserPaths, options: argparse.Namespace) -> int:
    """Serve until a signal comes; the second signal does not wait for cleanup. SIGHUP loads the settings again."""
    from dragoman.host import settings
    from dragoman.host.auth.directory import open_directory
    from dragoman.host.http.app import HostApp
    from dragoman.host.http.metrics import Metrics
    from dragoman.transport.remote.server.descriptors import raise_descriptor_limit
    from dragoman.transport.remote.server.listener import open_listener
    from dragoman.transport.remote.server.origin import authenticate_local, current_user, is_loopback, parse_bind

    loaded = load_settings()
    section = loaded.section
    log = LogLines(sys.stderr, options.log)
    logging.getLogger("dragoman").addHandler(log)

    def report(text: str) -> None:
        if options.verbose:
            log.write(text)

    stop, metrics = _stop_event(), Metrics()
    for warning in settings.warnings(section, paths):
        log.write(warning, "warning")
    limits = settings.endpoint_limits(section)
    raise_descriptor_limit(limits.sockets)
    async with AsyncExitStack() as stack:
        stack.callback(logging.getLogger("dragoman").removeHandler, log)
        address = store_address(section.store, paths)
        asked = engine_options(address, section, options, log.write)
        engine = await _enter_engine(stack, address, asked)
        report_engine(engine, address, section, log)
        directory = open_directory(engine, host_database_path(address, paths), current_user())
        stack.callback(directory.close)
        tokens, roles, store = directory.tokens, directory.session_roles, engine.store
        oidc = make_oidc(section, report)
        is_local = is_loopback(parse_bind(section.bind)[0])
        has_auth = oidc is not None or await tokens.has_user_tokens()
        check_address(section, is_local=is_local, has_authentication=has_auth)
        if not address.is_durable:
            stack.push_async_callback(remove_session_records, store, roles)
        fleet = make_fleet(engine, loaded, paths, asked.secrets_key)
        timed_store = _wrap_store(store, loaded.agents, metrics)
        host = await stack.enter_async_context(create_host(loaded, timed_store, roles, paths, report, log, fleet))
        access_log = _enter_access_log(stack, section, options)
        app = HostApp(
            host,
            tokens=tokens,
            oidc=oidc,
            local=authenticate_local if section.local and is_local else None,
            limits=limits,
            origins=section.origins,
            hosts=section.names,
            metrics=metrics,
            access_log=access_log,
            documents=_documents(),
        )
        served = await stack.enter_async_context(
            open_listener(app, section.bind, **_tls_options(section), limits=limits, has_auth=has_auth, report=report)
        )
        reloader = Reloader(host, app, served, access_log, timed_store, loaded, load_settings, paths, log)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloader.reload)
        url = public_url(served.url, section)
        if fleet is not None:
            await _join_fleet(fleet, app, url, options, log)
        announce(loaded.agents, url, address, options, log)
        await stop.wait()
        if not options.json:
            log.write("stopping; press Ctrl-C again to stop at once")
        if fleet is not None and options.grace:
            await fleet.drain(options.grace)
    return exit_codes.OK


def _tls_options(section: HostSection) -> dict[str, Any]:
    """Return the certificate of this host, and the authority of other nodes that must show theirs."""
    return {"tls": tls_files(section), "client_ca": section.node_ca if section.mutual_tls else ""}


async def _enter_engine(stack: AsyncExitStack, address: StoreAddress, asked: EngineOptions) -> Engine:
    """Open the engine until the stack is closed; a file is locked for this host."""
    from dragoman.host.auth.database import lock_store
    from dragoman.store.urls import open_engine

    if address.path:
        stack.enter_context(lock_store(address.path))
    engine = await open_engine(address, asked)
    stack.push_async_callback(engine.close)
    return engine


async def _join_fleet(fleet: Fleet, app: HostApp, url: str, options: argparse.Namespace, log: LogLines) -> None:
    """Let this node join, now that others can reach it; refuse settings that differ from theirs."""
    fleet.url = fleet.url or url.removesuffix("/acp")
    for warning in await check_drift(fleet, is_allowed=options.allow_drift):
        log.write(warning, "warning")
    await fleet.start(log.write)
    fleet.on_revoked = app.check_revoked


def _enter_access_log(stack: AsyncExitStack, section: HostSection, options: argparse.Namespace) -> AccessLog | None:
    """Open the access log, if there is to be one, until the stack is closed."""
    access_log = open_access_log(section.access_log, options.log)
    if access_log is not None:
        stack.callback(access_log.close)
    return access_log


def _documents() -> Documents:
    """Return how sessions are rendered as documents for people."""
    from dragoman.cli.sessions import transcript_file

    return {"html": transcript_file.render_html, "markdown": transcript_file.render_markdown}


class Reloader:
    """Loads the settings of a running host again. What cannot be used is reported, and the old settings stay."""

    def __init__(
        self,
        host: Host,
        app: HostApp,
        listener: Listener,
        access_log: AccessLog | None,
        store: RedactingStore,
        loaded: Settings,
        load_settings: Callable[[], Settings],
        paths: UserPaths,
        log: LogLines,
    ) -> None:
        self._host = host
        self._app = app
        self._listener = listener
        self._access_log = access_log
        self._store = store
        self._loaded = loaded
        self._load_settings = load_settings
        self._paths = paths
        self._log = log

    def reload(self) -> None:
        """Load settings, certificate and access log again, each on its own: a broken one stops no other."""
        loaded: list[str] = []
        for what, step in (
            ("settings", self._reload_settings),
            ("certificate", self._reload_certificate),
            ("access log", self._reopen_access_log),
        ):
            try:
                step()
                loaded.append(what)
            except ConfigFault as fault:
                for line in fault.faults:
                    self._log.write(f"the {what} stay as they were: {line}", "error")
            except (StartFailed, ProtocolError, OSError) as error:
                self._log.write(f"the {what} could not be loaded again, the old stays: {error}", "error")
            except SystemExit:  # an agent that is not known: the parser has said which
                self._log.write(f"the {what} stay as they were", "error")
        self._log.write(f"loaded again: {', '.join([*loaded, 'tokens'])}")  # tokens are read at each request

    def _reload_settings(self) -> None:
        from dragoman.host.reload import apply_settings

        new = self._load_settings()
        self._store.add_secrets(_secrets_of(new.agents))
        lines = apply_settings(
            self._host,
            self._app,
            self._loaded,
            new,
            self._paths,
            lambda: make_oidc(new.section, self._host.report),
        )
        self._loaded = new
        for line in lines:
            self._log.write(line)

    def _reload_certificate(self) -> None:
        files = tls_files(self._loaded.section)
        if files is not None:
            self._listener.replace_certificate(*files)

    def _reopen_access_log(self) -> None:
        if self._access_log is not None:
            self._access_log.reopen()


def make_oidc(section: HostSection, report: Callable[[str], None]) -> Oidc | None:
    """Return the issuer that is configured, if any."""
    from dragoman.host.auth.oidc import Oidc
    from dragoman.transport.remote.server.origin import current_user

    return None if section.issuer is None else Oidc(section.issuer, current_user(), report=report)


def tls_files(section: HostSection) -> tuple[str, str] | None:
    """Return the certificate and the key, if they are configured."""
    return (os.path.expanduser(section.tls[0]), os.path.expanduser(section.tls[1])) if section.tls else None


def open_access_log(path: str, form: str) -> AccessLog | None:
    """Open the access log; None if none is wanted."""
    from dragoman.host.http.access_log import AccessLog

    if not path:
        return None
    try:
        return AccessLog(os.path.expanduser(path), form)
    except OSError as error:
        raise ConfigFault([f"--access-log: {path} cannot be opened: {error.strerror}"]) from None


def _wrap_store(store: Store, agents: Sequence[NamedAgent], metrics: Metrics) -> RedactingStore:
    """Return the store with its commits measured and the secrets of this process and its agents redacted."""
    from dragoman.policy.redaction import environment_secrets
    from dragoman.store.wrappers import RedactingStore, TimedStore

    timed = TimedStore(store, metrics.observe_commit, lambda why: metrics.count("append_failures", why))
    return RedactingStore(timed, [*environment_secrets(os.environ), *_secrets_of(agents)])


def _secrets_of(agents: Sequence[NamedAgent]) -> list[str]:
    from dragoman.policy.redaction import environment_secrets

    return [value for agent in agents for value in environment_secrets(agent.env)]


def create_host(
    loaded: Settings,
    store: Store,
    roles: SessionRoles,
    paths: UserPaths,
    report: Callable[[str], None],
    log: LogLines,
    fleet: Fleet | None = None,
) -> Host:
    """Return the host with the settings of its section in config.toml."""
    from dragoman.host import settings
    from dragoman.host.host import Host

    section = loaded.section
    return Host(
        loaded.agents,
        store=store,
        session_roles=roles,
        make_guard=settings.guard_factory(section, paths),
        roots_of=settings.roots_lookup(section),
        mcp_servers=loaded.mcp_servers,
        limits=settings.host_limits(section),
        report=report,
        warn=partial(log.write, level="warning"),
        share_processes=section.share == "user",
        observer=_language_servers() if section.lsp else None,
        workspace_tools=section.workspace_tools,
        fleet=fleet,
    )


def _language_servers() -> WorkspaceObserver:
    """Return what shows diagnostics after each write of an agent; says on stderr which server is off."""
    from dragoman.bridge.lsp.workspace_observer import LanguageServerObserver, user_table

    def report(text: str) -> None:
        print(f"dragoman: {sanitize_line(text)}", file=sys.stderr, flush=True)

    return LanguageServerObserver(user_table(), report, offers_tools=True)


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


async def remove_session_records(store: Store, roles: SessionRoles) -> None:
    """Remove roles and share links of sessions that end with the process."""
    for summary in await store.sessions():
        await roles.remove_session(summary.session_id)


def report_engine(engine: Engine, address: StoreAddress, section: HostSection, log: LogLines) -> None:
    """Say what an acknowledgement of an engine means, and what it does not keep."""
    for line in engine.guarantees if engine.is_shared else ():
        log.write(f"{str(address).rstrip(':')}: {line}")
    if engine.is_shared and not section.secrets_key:
        log.write("without --secrets-key the credentials of MCP servers last as long as this process", "warning")


def engine_options(
    address: StoreAddress, section: HostSection, options: argparse.Namespace, report: Callable[[str], None]
) -> EngineOptions:
    """Return how the engine of the sessions is opened; raise ConfigFault if its key cannot be read or is of no use."""
    from dragoman.store.fleet import EngineOptions
    from dragoman.store.sealing import read_key
    from dragoman.transport.remote.server.origin import current_user

    check_fleet_settings(address, section, options)
    return EngineOptions(
        secrets_key=read_key(section.secrets_key) if section.secrets_key else None,
        trusts_engine=options.trust_engine,
        owner=current_user(),
        report=report,
    )


def announce(
    agents: Sequence[NamedAgent], url: str, store: StoreAddress, options: argparse.Namespace, log: LogLines
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
    print(f"{listed}; web page at {url.removesuffix('/acp')}/; Ctrl-C stops the host", flush=True)
    store_flag = f" --store {shlex.quote(options.store)}" if getattr(options, "store", None) else ""
    create = f'dragoman tokens create "$USER" --role admin{store_flag}'
    print(f"sign in to the web page with the token that this prints: {create}", flush=True)


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
