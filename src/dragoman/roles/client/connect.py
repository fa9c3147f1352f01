"""`connect`: start or reach an agent, with the callbacks and the workspace of a client."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.dialect.dialects import dialect_of_version
from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.roles.async_with import needs_async_with
from dragoman.roles.client.callbacks import AskElicitation, AskPermission, LoginRunner, UserCallbacks
from dragoman.roles.client.caller_errors import check_kind, check_on
from dragoman.roles.client.dial import Dialer
from dragoman.roles.client.offers import Functions
from dragoman.roles.client.remote_agent import RemoteAgent
from dragoman.roles.client.session_settings import SessionSettings
from dragoman.roles.client.target import Target
from dragoman.roles.client.workspace import WorkspaceAccess
from dragoman.schema import initialize as types
from dragoman.schema.base import Marker, to_json
from dragoman.schema.mcp import McpServer
from dragoman.schema.methods import find_method, methods_that
from dragoman.schema.side import Side
from dragoman.transport.address import is_remote
from dragoman.transport.base import Transport
from dragoman.transport.sandbox.spec import Sandbox

if TYPE_CHECKING:
    from dragoman.roles.agent.agent import Agent
    from dragoman.roles.client.logged_sessions import LogSettings
    from dragoman.store.contract import Entry, Store
    from dragoman.transport.recording.tap import Tap
    from dragoman.transport.remote.address import TLS, RemoteOptions

# How long a lost connection to a remote agent is retried: a closed laptop, a restarted host. Seconds.
RECONNECT_TIMEOUT = 600.0

# Capabilities of every ClientSession: boolean options, notices, compaction.
SESSION_CAPABILITIES = types.ClientSessionCapabilities(
    config_options=types.ConfigOptionsCapabilities(boolean=Marker()), notices=Marker(), compaction=Marker()
)


# A class that is called like a function: `async with connect(...) as agent:`.
@needs_async_with("connect(...) as agent")
class connect:
    """Connect to an agent: a command (a str or its arguments), an address, a transport, an `Agent` or a `Chain`;
    use `async with`.

    Addresses are `unix:/path`, `tcp://127.0.0.1:port`, and URLs: `wss://` for WebSocket, `https://` for Streamable
    HTTP (or WebSocket with `upgrade`). For URLs, `token` is sent as a bearer token and `headers` with every
    request. `tls` is a file with certificate authorities to trust, an SSLContext, or False to skip verification. A
    lost connection is retried for up to `reconnect_timeout` seconds, with progress to `report`.
    Without a target, `capable` chooses the configured agent that is known to have these capabilities.
    `extra_capabilities` are sent to a host.

    `version` is the version of the official protocol that is offered; an agent may answer with a lower one. `name` and
    `client_version` describe this program to the agent.

    A command gets the environment of this process, or only the variables named in `inherit_env`, or none (False); `env`
    is added to it. In a `sandbox`, the agent and its commands may write in `cwd` and the sessions' folders, and little
    more.

    `permission` answers permission requests: "allow", "deny", or a function that returns the id of an option or None.
    `elicit` answers forms and links; a mapping has one function for each mode ("form", "url"). `terminal_login` runs a
    command in a terminal, for agents that let the user log in there. `workspace` gives the agent files and terminals.
    `on` maps other methods of the agent to functions. `capabilities` replaces the capabilities that follow from these.

    `tools` are functions that the agent can use in its sessions. They are the tools of an MCP server `client`, or with
    a mapping the tools of several servers by name (extra `mcp`).

    `initialize_timeout` limits the wait for initialize, in all dialects together (without it, 60 seconds for the first
    dialect and 20 for each other), `timeout` that for every other request but a prompt. A turn without an update for
    `idle_timeout` seconds is cancelled. `mcp_servers` go to agents that take them at initialize
    (2025.1); other agents get those of each session. `trace` is a new file for a recording of all messages (`dragoman
    inspect show FILE`), or a function that wraps the transport, for example a `Tap`. With a `store`, every session is
    logged and nothing is delivered before it is stored; `on_entry` gets each entry.
    """

    def __init__(
        self,
        target: Target | Agent | None = None,
        *,
        capable: Iterable[str] = (),
        name: str = "dragoman",
        client_version: str = "0.1.0",
        version: int = 1,
        dialect: str = "auto",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        inherit_env: bool | Sequence[str] = True,
        permission: AskPermission | str = "deny",
        elicit: AskElicitation | Mapping[str, AskElicitation] | None = None,
        terminal_login: LoginRunner | None = None,
        workspace: WorkspaceAccess | None = None,
        on: Mapping[str, Callable[[Any], Any]] | None = None,
        capabilities: types.ClientCapabilities | None = None,
        mcp_servers: Sequence[McpServer] = (),
        tools: Functions = (),
        report: Callable[[str], None] | None = None,
        stderr: Callable[[bytes], None] | None = None,
        initialize_timeout: float | None = None,
        timeout: float | None = None,
        idle_timeout: float | None = None,
        sandbox: Sandbox | None = None,
        trace: str | os.PathLike[str] | Callable[[Transport], Transport] | None = None,
        store: Store | None = None,
        on_entry: Callable[[str, Entry], None] | None = None,
        token: str = "",
        headers: Mapping[str, str] | None = None,
        tls: TLS = None,
        upgrade: bool = False,
        reconnect_timeout: float = RECONNECT_TIMEOUT,
        extra_capabilities: Mapping[str, Any] | None = None,
    ) -> None:
        _check_options(workspace, sandbox, on)
        if target is None or capable:
            target, env, cwd, dialect, sandbox = _capable_target(target, capable, env, cwd, dialect, sandbox)
        remote = _remote_options(target, token, headers, tls, upgrade, reconnect_timeout)
        self._dialer = dialer = Dialer(
            target,
            dialect=dialect_of_version(version) if dialect == "auto" and version != 1 else dialect,
            cwd=cwd or os.getcwd(),
            env=env,
            inherit_env=inherit_env,
            mcp_servers=mcp_servers,
            report=report,
            stderr=stderr,
            detection_timeout=initialize_timeout,
            session_capabilities=SESSION_CAPABILITIES if capabilities is None else None,
            sandbox=sandbox,
            trace=trace if callable(trace) else None,
            remote=remote,
        )
        self._recording = None if trace is None or callable(trace) else os.fspath(trace)
        self._stack = ExitStack()
        callbacks = UserCallbacks(permission, elicit)
        if capabilities is None:
            has_login = terminal_login is not None and dialer.can_restart
            capabilities = _client_capabilities(workspace, on or {}, callbacks, has_login)
        self._initialize_params = types.InitializeParams(
            protocol_version=1,
            client_capabilities=_with_extra_capabilities(capabilities, extra_capabilities, remote is not None),
            client_info=types.Implementation(name=name, version=client_version),
        )
        settings = SessionSettings(timeout=timeout, idle_timeout=idle_timeout)
        log = None if store is None else _log_settings(store, on_entry)
        self._agent = RemoteAgent(dialer, callbacks, workspace, on or {}, terminal_login, settings, log, tools=tools)
        self._agent._handle_host_turns()

    if not TYPE_CHECKING:  # a type checker knows that there are no such attributes

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("_") and hasattr(RemoteAgent, name):
                raise AttributeError(f"nothing is connected yet; write: async with connect(...) as agent, agent.{name}")
            raise AttributeError(f"connect(...) has no {name!r}")

    async def __aenter__(self) -> RemoteAgent:
        with ExitStack() as stack:
            if self._recording is not None:
                self._dialer.trace = stack.enter_context(self._record(self._recording))
            await self._agent.start(self._initialize_params)
            self._stack = stack.pop_all()  # until the connection is closed
        return self._agent

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self._agent.close()
        finally:
            self._stack.__exit__(kind, error, traceback)

    def _record(self, path: str) -> AbstractContextManager[Tap]:
        """Record into a file; other clients do not load that module."""
        from dragoman.policy.message_secrets import FrameRedactor
        from dragoman.transport.recording.tap import trace_to

        report = self._dialer.report or warnings.warn
        return trace_to(path, self._dialer.command, report, redact=FrameRedactor())


def _check_options(workspace: Any, sandbox: Any, on: Any) -> None:
    check_kind("workspace", workspace, WorkspaceAccess)
    check_kind("sandbox", sandbox, Sandbox)
    check_on(on)


def _capable_target(
    target: object,
    capable: Iterable[str],
    env: Mapping[str, str] | None,
    cwd: str | None,
    dialect: str,
    sandbox: Sandbox | None,
) -> tuple[list[str], Mapping[str, str], str | None, str, Sandbox | None]:
    """Return command, environment, folder, dialect and sandbox of the configured agent with these capabilities."""
    if target is not None:
        raise ValueError("give a target, or capable to choose among your configured agents")
    needs = [capable] if isinstance(capable, str) else list(capable)
    if not needs:
        raise ValueError("give a target: a command, an address or a transport; or capable={'loadSession'}")
    from dragoman.config.capable_agents import capable_agent  # other clients do not need it

    agent = capable_agent(needs)
    return (
        agent.argv,
        {**agent.env, **(env or {})},
        cwd or agent.cwd or None,
        agent.dialect if dialect == "auto" else dialect,
        sandbox or agent.confinement,
    )


def _log_settings(store: Store, on_entry: Callable[[str, Entry], None] | None) -> LogSettings:
    """Return the settings for logs; other clients do not load that module."""
    from dragoman.roles.client.logged_sessions import LogSettings

    return LogSettings(store=store, on_entry=on_entry)


def _remote_options(
    target: object, token: str, headers: Mapping[str, str] | None, tls: TLS, upgrade: bool, reconnect_timeout: float
) -> RemoteOptions | None:
    """Return the options for a remote agent, or None for others, which do not load these modules."""
    if not (isinstance(target, str) and is_remote(target)):
        if token or headers or tls is not None or upgrade:
            raise ValueError("token, headers, tls and upgrade are only for an agent at a URL")
        return None
    from dragoman.transport.remote.address import RemoteOptions
    from dragoman.transport.remote.retry import Backoff

    return RemoteOptions(
        token=token,
        headers=dict(headers or {}),
        tls=tls,
        upgrade=upgrade,
        backoff=Backoff(give_up_after=reconnect_timeout),
    )


# These need no capability: they only use what another method creates.
_NO_CAPABILITY_OF_THEIR_OWN = methods_that("uses", "waits", "releases")


def _client_capabilities(
    workspace: WorkspaceAccess | None, on: Mapping[str, Any], callbacks: UserCallbacks, has_terminal_login: bool
) -> types.ClientCapabilities:
    """Return the capabilities that follow from the workspace, the handled methods and the callbacks."""
    if workspace is not None:
        offered = workspace.capabilities()
    else:
        offered = types.ClientCapabilities(
            fs=types.FileSystemCapabilities(read_text_file=False, write_text_file=False), terminal=False
        )
    values = to_json(offered)
    for method in on:
        row = find_method(Side.CLIENT, method)
        if row is not None and row.gate.startswith("client.") and method not in _NO_CAPABILITY_OF_THEIR_OWN:
            _set_capability(values, row.gate.split(".")[1:])
            offered = msgspec.convert(values, types.ClientCapabilities)
    offered.elicitation = offered.elicitation or callbacks.capabilities()
    if has_terminal_login:
        offered.auth = types.ClientAuthCapabilities(terminal=True)
    return offered


def _with_extra_capabilities(
    capabilities: types.ClientCapabilities, extra: Mapping[str, Any] | None, is_remote: bool
) -> types.ClientCapabilities:
    if is_remote:  # perhaps a host with other clients: it then says whose turn runs
        extra = {**(extra or {}), "host": {"turns": True, **(extra or {}).get("host", {})}}
    if extra is None:
        return capabilities
    meta = capabilities.meta or {}
    return msgspec.structs.replace(capabilities, meta={**meta, SIDE_DATA_KEY: {**meta.get(SIDE_DATA_KEY, {}), **extra}})


def _set_capability(capabilities: dict[str, Any], path: list[str]) -> None:
    """Set the capability at this path."""
    *groups, name = path
    for group in groups:
        capabilities = capabilities.setdefault(group, {})
    capabilities[name] = {"form": {}, "url": {}} if name == "elicitation" else True
