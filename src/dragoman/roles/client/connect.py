"""Connecting to an agent: a command, a list of words, an address or a transport, and what a client brings along.

`connect` puts together who answers, what is lent and what is offered, which follows from those two; entering it starts
the agent and introduces us. Above are people's programs and our own commands; below is the remote agent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.roles.client.callbacks import AskElicitation, AskPermission, UserCallbacks
from dragoman.roles.client.dial import Dialer
from dragoman.roles.client.remote_agent import RemoteAgent
from dragoman.roles.client.session import SessionSettings
from dragoman.roles.client.terminal_login import LoginRunner
from dragoman.roles.client.workspace import WorkspaceAccess
from dragoman.schema.base import Marker, to_json
from dragoman.schema.initialize import (
    ClientAuthCapabilities,
    ClientCapabilities,
    ClientSessionCapabilities,
    ConfigOptionsCapabilities,
    FileSystemCapabilities,
    Implementation,
    InitializeParams,
)
from dragoman.schema.mcp import McpServer
from dragoman.schema.methods import find_method
from dragoman.schema.side import Side
from dragoman.transport.base import Transport
from dragoman.transport.sandbox.spec import Sandbox
from dragoman.transport.socket import is_remote

if TYPE_CHECKING:
    from dragoman.store.contract import Entry, Store
    from dragoman.transport.remote.address import TLS, RemoteOptions

# How long a cut connection to a remote agent is tried again: a closed laptop, a restarted host. Seconds.
RECONNECT_TIMEOUT = 600.0

# What a Conversation can take beyond what every client takes: switches among the options, notices, compaction.
SESSION_CAPABILITIES = ClientSessionCapabilities(
    config_options=ConfigOptionsCapabilities(boolean=Marker()), notices=Marker(), compaction=Marker()
)


def connect(
    target: str | Sequence[str] | Transport,
    *,
    name: str = "dragoman",
    version: str = "0.1.0",
    dialect: str = "auto",
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    inherit_env: bool | Sequence[str] = True,
    permission: AskPermission | str = "deny",
    elicit: AskElicitation | Mapping[str, AskElicitation] | None = None,
    terminal_login: LoginRunner | None = None,
    workspace: WorkspaceAccess | None = None,
    on: Mapping[str, Callable[[Any], Any]] | None = None,
    capabilities: ClientCapabilities | None = None,
    mcp_servers: Sequence[McpServer] = (),
    report: Callable[[str], None] | None = None,
    stderr: Callable[[bytes], None] | None = None,
    initialize_timeout: float = 60.0,
    timeout: float | None = None,
    idle_timeout: float | None = None,
    sandbox: Sandbox | None = None,
    trace: Callable[[Transport], Transport] | None = None,
    store: Store | None = None,
    on_entry: Callable[[str, Entry], None] | None = None,
    token: str = "",
    headers: Mapping[str, str] | None = None,
    tls: TLS = None,
    upgrade: bool = False,
    reconnect_timeout: float = RECONNECT_TIMEOUT,
    extra_capabilities: Mapping[str, Any] | None = None,
) -> PendingConnection:
    """Connect to an agent: a command, its words, an address, or a transport. Use it with `async with`.

    Addresses are `unix:/path`, `tcp://127.0.0.1:port`, and URLs: `wss://` is WebSocket, `https://` Streamable HTTP, or
    WebSocket with `upgrade`. For URLs, `token` is sent as a bearer token and `headers` with every request; `tls` is a
    file of certificate authorities to trust, an SSLContext, or False to believe anybody. A cut connection is mended for
    up to `reconnect` seconds, and `report` hears of it. What a host should know of us is said with `announce`.
    A command gets our environment, or only the names in `inherit_env`, or nothing (False); `env` is put on top.
    `permission` answers questions for leave: "allow", "deny", or a function (or policy object) that gives the id of an
    option. `elicit` answers forms and links, all of them or, as a mapping, those of one mode ("form", "url"). `sign_in`
    runs a command before a person, for agents that let one sign in there.
    `timeout` bounds every answer but those to initialize (`patience`) and to prompts; a turn in which nothing is heard
    for `idle_timeout` seconds is given up.
    `mcp_servers` are told to agents that want to know them at once (2025.1); others are told when a session is opened.
    `trace` wraps the transport of every agent that is started: `dragoman.inspect.tap.Tap` overhears it.
    With a `store` every session is logged there, and nothing is told before it is kept; `on_entry` hears of each entry.
    In a `sandbox` the agent and the commands it has run may write in `cwd` and the sessions' folders, and little more.
    """
    remote = _remote_options(target, token, headers, tls, upgrade, reconnect_timeout)
    dial = Dialer(
        target,
        dialect=dialect,
        cwd=cwd or os.getcwd(),
        env=env,
        inherit_env=inherit_env,
        mcp_servers=mcp_servers,
        report=report,
        stderr=stderr,
        initialize_timeout=initialize_timeout,
        session_capabilities=SESSION_CAPABILITIES if capabilities is None else None,
        sandbox=sandbox,
        trace=trace,
        remote=remote,
    )
    answers = UserCallbacks(permission, elicit)
    if capabilities is None:
        capabilities = _client_capabilities(
            workspace, on or {}, answers, has_terminal_login=terminal_login is not None and dial.can_restart
        )
    if remote is not None:  # perhaps a host, where others prompt as well: it says whose turn runs
        extra_capabilities = {
            **(extra_capabilities or {}),
            "host": {"turns": True, **(extra_capabilities or {}).get("host", {})},
        }
    if extra_capabilities is not None:
        meta = capabilities.meta or {}
        capabilities = msgspec.structs.replace(
            capabilities, meta={**meta, SIDE_DATA_KEY: {**meta.get(SIDE_DATA_KEY, {}), **extra_capabilities}}
        )
    info = Implementation(name=name, version=version)
    return PendingConnection(
        dial,
        InitializeParams(protocol_version=1, client_capabilities=capabilities, client_info=info),
        callbacks=answers,
        workspace=workspace,
        on=dict(on or {}),
        terminal_login=terminal_login,
        settings=SessionSettings(timeout=timeout, idle_timeout=idle_timeout),
        logging=None if store is None else (store, on_entry),
    )


def _remote_options(
    target: object, token: str, headers: Mapping[str, str] | None, tls: TLS, upgrade: bool, reconnect_timeout: float
) -> RemoteOptions | None:
    """How to come to a remote agent; None for the others, which must not pay for it."""
    if not (isinstance(target, str) and is_remote(target)):
        if token or headers or tls is not None or upgrade:
            raise ValueError("token, headers, tls and upgrade are for agents at an URL; this one is reached otherwise")
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


# To serve these alone opens nothing: what they are about is made by another method.
_NO_CAPABILITY_OF_THEIR_OWN = frozenset(
    {"terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release", "fs/unwatch"}
    | {"elicitation/complete"}
)


def _client_capabilities(
    workspace: WorkspaceAccess | None, on: Mapping[str, Any], callbacks: UserCallbacks, has_terminal_login: bool
) -> ClientCapabilities:
    """What a client offers follows from what it lends, which methods it answers, and who answers for it."""
    if workspace is not None:
        offered = workspace.capabilities()
    else:
        offered = ClientCapabilities(
            fs=FileSystemCapabilities(read_text_file=False, write_text_file=False), terminal=False
        )
    told = to_json(offered)
    for method in on:
        row = find_method(Side.CLIENT, method)
        if row is not None and row.gate.startswith("client.") and method not in _NO_CAPABILITY_OF_THEIR_OWN:
            _set_capability(told, row.gate.split(".")[1:])
    offered = msgspec.convert(told, ClientCapabilities)
    offered.elicitation = offered.elicitation or callbacks.capabilities()
    if has_terminal_login:
        offered.auth = ClientAuthCapabilities(terminal=True)
    return offered


def _set_capability(capabilities: dict[str, Any], path: list[str]) -> None:
    """Say that what is at this path is there; a question beyond permission is one of both kinds."""
    *groups, name = path
    for group in groups:
        capabilities = capabilities.setdefault(group, {})
    capabilities[name] = {"form": {}, "url": {}} if name == "elicitation" else True


class PendingConnection:
    """The promise of a connection; entering it starts the agent and initializes it."""

    def __init__(
        self,
        dialer: Dialer,
        params: InitializeParams,
        *,
        callbacks: UserCallbacks,
        workspace: WorkspaceAccess | None,
        on: dict[str, Callable[[Any], Any]],
        terminal_login: LoginRunner | None,
        settings: SessionSettings,
        logging: tuple[Store, Callable[[str, Entry], None] | None] | None = None,
    ) -> None:
        self._dialer = dialer
        self._initialize_params = params
        self._callbacks = callbacks
        self._workspace = workspace
        self._on = on
        self._terminal_login = terminal_login
        self._settings = settings
        self._logging = logging
        self._agent: RemoteAgent | None = None

    async def __aenter__(self) -> RemoteAgent:
        kind: Callable[..., RemoteAgent] = RemoteAgent
        if self._logging is not None:
            from dragoman.roles.client.logged_sessions import LoggedAgent

            kind = partial(LoggedAgent, *self._logging)
        agent = kind(
            self._dialer,
            self._callbacks,
            lend=self._workspace,
            on=self._on,
            sign_in=self._terminal_login,
            terms=self._settings,
        )
        agent.handle_host_turns()
        await agent.start(self._initialize_params)
        self._agent = agent
        return agent

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._agent is not None:
            await self._agent.close()
