"""Start or reach an agent and detect its dialect (docs/protocol/dialect-matrix.md#trying-an-agent): official v1 first,
then the dialect in which it answered, else each of the others, with a new process each. An agent with one working
directory needs a process for each folder.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.config.paths import protect_user_files
from dragoman.dialect import detect
from dragoman.dialect.dialects import DEFAULT_DIALECT, PACKAGES, load_dialect
from dragoman.dialect.reshape import ABSENT, json_side_data
from dragoman.dialect.side_data import with_side_data
from dragoman.engine.codec import decode_as, json_values, with_unknown_members
from dragoman.engine.connection import Connection
from dragoman.engine.incoming import DoneCallback, Handler, Incoming
from dragoman.engine.peer_info import missing_capabilities
from dragoman.errors import ACP_OPTION_HINT, Kind, ProtocolError, StartFailed
from dragoman.policy.stderr_secrets import stderr_redactor
from dragoman.roles.client.callbacks import TerminalLogin, build_login
from dragoman.roles.client.caller_errors import check_seconds, check_servers
from dragoman.roles.client.target import OpensTransport, ServesClients, Target, target_of
from dragoman.roles.emulator_settings import emulator_settings
from dragoman.schema.auth import AuthMethod
from dragoman.schema.initialize import ClientSessionCapabilities, InitializeParams, InitializeResult
from dragoman.schema.mcp import McpServer
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side
from dragoman.transport.address import is_address, is_remote
from dragoman.transport.base import Transport
from dragoman.transport.sandbox.spec import Sandbox
from dragoman.transport.socket import dial_local

if TYPE_CHECKING:
    from dragoman.transport.remote.address import RemoteOptions

# Errors that mean the agent did not understand initialize.
NOT_UNDERSTOOD = frozenset({Kind.INVALID_PARAMS, Kind.INVALID_REQUEST, Kind.TIMEOUT})

# How long an agent that did not answer in one dialect may take in each of the others. Silence is a weak sign of another
# dialect: almost always the agent does not start, and with the full time for each dialect the user would learn it after
# many minutes. Seconds.
INITIALIZE_TIMEOUT, RETRY_TIMEOUT = 60.0, 20.0

_INITIALIZE = METHODS[Side.AGENT, "initialize"]


class ConnectedAgent(msgspec.Struct, eq=False):
    """An agent that was initialized: its connection, its answer and its folder."""

    connection: Connection
    initialize_result: InitializeResult
    initialize_values: Any  # the same as plain JSON, with unknown members
    cwd: str
    has_session: bool = False

    async def close(self) -> None:
        """End the agent and everything it started."""
        await self.connection.close()


class Dialer:
    """Connects to one agent, as often as its dialect needs a new process."""

    def __init__(
        self,
        target: Target | ServesClients,
        *,
        dialect: str = "auto",
        cwd: str,
        env: Mapping[str, str] | None = None,
        inherit_env: bool | Sequence[str] = True,
        mcp_servers: Sequence[McpServer] = (),
        report: Callable[[str], None] | None = None,
        stderr: Callable[[bytes], None] | None = None,
        initialize_timeout: float = INITIALIZE_TIMEOUT,
        detection_timeout: float | None = None,
        detection: str = "ladder",
        permission: str = "ask",
        session_capabilities: ClientSessionCapabilities | None = None,
        sandbox: Sandbox | None = None,
        trace: Callable[[Transport], Transport] | None = None,
        remote: RemoteOptions | None = None,
        resolve_folder: Callable[[str], str] = os.path.realpath,
        first_try: str = "",
    ) -> None:
        """`resolve_folder` returns the real path of the folder in which a process is started, or raises.

        `initialize_timeout` is the limit of one initialize; `detection_timeout` replaces it, for all dialects together.
        `first_try` is the dialect that the agent spoke the last time: each wrong guess costs a start of its process.
        """
        if dialect != "auto" and dialect not in PACKAGES:
            raise ValueError(f"unknown dialect {dialect!r}; choose one of auto, {', '.join(PACKAGES)}")
        target = target_of(target, "connect")
        check_seconds(initialize_timeout=detection_timeout)
        check_servers(mcp_servers)
        is_running = is_address(target) if isinstance(target, str) else not isinstance(target, Sequence)
        if sandbox is not None and is_running:
            raise ValueError(
                "a running agent cannot be sandboxed; give its command, or pass the sandbox to WorkspaceAccess"
            )
        self.dialect = dialect
        self.cwd = cwd
        self._command_cwd = cwd  # the folder that the command's relative paths refer to; the agent's may change
        self.sandbox = protect_user_files(sandbox)
        self.report = report
        self._target = target
        self._env = env
        self._inherit_env = inherit_env
        self._mcp_servers = list(mcp_servers)
        self._stderr = stderr
        self._initialize_timeout = initialize_timeout if detection_timeout is None else detection_timeout
        self._detection_timeout = detection_timeout
        self._detection = detection
        self._permission = permission
        self._session_capabilities = session_capabilities  # for official agents only
        self.trace = trace
        self._remote = remote
        self._resolve_folder = resolve_folder
        self._first_try = first_try
        self._main: ConnectedAgent | None = None
        self._by_cwd: dict[str, ConnectedAgent] = {}
        self._cwd_lock = asyncio.Lock()
        self._is_echo = False

    async def start(
        self,
        params: InitializeParams,
        handlers: dict[str, Handler],
        fallback: Handler,
        raw_params: Any = None,
        *,
        first_try: str = "",
    ) -> ConnectedAgent:
        """Start the agent and send initialize; `first_try` is the dialect that is offered first if it is unknown."""
        self._first_try = first_try or self._first_try
        self._initialize_params = params
        self._raw_params = raw_params  # the params as the client sent them, with unknown members
        self._handlers = {"initialize": self._note_echo, **handlers}
        self._fallback = fallback
        self._main = await self._connect(self.cwd)
        return self._main

    @property
    def has_one_folder(self) -> bool:
        """Whether an agent process has one folder for all sessions, so that another folder needs another process."""
        return self.dialect != "auto" and load_dialect(self.dialect).one_folder

    async def agent_for_cwd(self, cwd: str) -> ConnectedAgent:
        """Return the agent for sessions in this folder: in most dialects the only one."""
        if not self.has_one_folder:
            return self.main
        async with self._cwd_lock:  # two sessions must not both start a process for the same folder
            connected = await self._process_for_cwd(cwd)
            connected.has_session = True
            return connected

    async def _process_for_cwd(self, cwd: str) -> ConnectedAgent:
        first = self.main
        if cwd == first.cwd or not self.can_restart:  # an agent that we cannot start rejects the folder itself
            return first
        if not first.has_session:
            self._main = await self._connect(cwd)  # before the other one ends, because this can fail or be cancelled
            first.connection.on_close = None  # it is replaced, not lost
            await asyncio.shield(first.close())
            return self._main
        if cwd not in self._by_cwd:
            self._by_cwd[cwd] = await self._connect(cwd)
        return self._by_cwd[cwd]

    async def restart(self) -> ConnectedAgent:
        """Restart the agent and initialize it again; its sessions are lost."""
        for connected in (self._main, *self._by_cwd.values()):
            if connected is not None:
                await connected.close()
        self._by_cwd.clear()
        self._main = await self._connect(self.cwd)
        return self._main

    def terminal_login(self, method: AuthMethod) -> TerminalLogin:
        """Return the command with which the user logs in to this agent."""
        if not isinstance(self._target, str | Sequence):
            raise ProtocolError(
                Kind.CAPABILITY_UNSUPPORTED, f"{self._display_name} was not started by a command; log in where it runs"
            )
        from dragoman.policy.shell_commands import behavior_variables
        from dragoman.transport.process.launch import inherited_environment

        # The login is outside of the sandbox: LD_PRELOAD would run a library that the agent wrote inside.
        if self.sandbox is not None and (
            names := [name for name in behavior_variables(method.env or {}) if name not in self.sandbox.env]
        ):
            message = (
                f"{self._display_name} sets {', '.join(names)} for its login, which runs outside of the sandbox; "
                "log in with its own command, or name the variables with --sandbox-env"
            )
            raise ProtocolError(Kind.PERMISSION_DENIED, message, {"methodId": method.id})
        return build_login(
            method, parse_command(self._target), self.cwd, inherited_environment(self._env, self._inherit_env)
        )

    @property
    def main(self) -> ConnectedAgent:
        """The process for everything that belongs to no folder."""
        assert self._main is not None
        return self._main

    async def close(self) -> None:
        """End every process that was started."""
        for connected in (self._main, *self._by_cwd.values()):
            if connected is not None:
                await connected.close()

    # --- detecting the dialect --------------------------------------------------------------------------------

    async def _connect(self, cwd: str) -> ConnectedAgent:
        if self.dialect != "auto":
            connection = await self._open_connection(self.dialect, cwd)
            return await self._initialize(connection, cwd)
        if self._detection == "polyglot":
            return await self._initialize_polyglot(cwd)
        return await self._try_dialects(cwd)

    async def _try_dialects(self, cwd: str) -> ConnectedAgent:
        refusals: dict[str, list[str]] = {}  # the dialects, by what the agent said
        timeout = self._initialize_timeout
        end = None if self._detection_timeout is None else asyncio.get_running_loop().time() + self._detection_timeout
        names = list(dict.fromkeys([*filter(None, [self._first_try]), *detect.TRY_ORDER, detect.NEXT_VERSION]))
        first = names[0]
        while names:
            name = names.pop(0)
            connection = await self._open_connection(name, cwd)
            try:
                answer = await self._request_initialize(connection, self._initialize_params, timeout)
            except ProtocolError as error:
                await connection.close()
                if detect.NEXT_VERSION in names and detect.asks_for_next_version(error):
                    names.sort(key=lambda each: each != detect.NEXT_VERSION)
                elif error.kind not in NOT_UNDERSTOOD:
                    raise
                if not self.can_restart:
                    raise
                refusals.setdefault(error.message, []).append(name)
                if end is not None:
                    timeout = end - asyncio.get_running_loop().time()
                    if timeout <= 0:
                        break
                elif error.kind == Kind.TIMEOUT:
                    timeout = min(timeout, RETRY_TIMEOUT)
                    if self.report is not None:  # it takes long, so show progress
                        self.report(f"{self._display_name} in {name}: {error.message}; trying the next dialect")
                continue
            except BaseException:
                await connection.close()
                raise
            detected = _dialect_of_answer(connection, answer)
            if name == first and detected not in (name, DEFAULT_DIALECT) and self.can_restart:
                await connection.close()
                self.dialect = detected
                return await self._initialize(await self._open_connection(detected, cwd), cwd)
            self.dialect = name
            return await self._accept_or_close(connection, answer, cwd)
        understood = "in any dialect" if not names else f"within {self._detection_timeout:g} seconds"
        reasons = "; ".join(f"{', '.join(dialects)}: {reason}" for reason, dialects in refusals.items())
        raise StartFailed(
            f"{self._display_name} does not understand initialize {understood} ({reasons}); "
            "if you know its dialect, name it (dialect = in [agents.NAME] of config.toml, --dialect, or dialect=); "
            "if it starts slowly, start it once by hand first"
        )

    async def _initialize(self, connection: Connection, cwd: str) -> ConnectedAgent:
        try:
            answer = await self._request_initialize(connection, self._initialize_params)
        except BaseException:
            await connection.close()
            raise
        return await self._accept_or_close(connection, answer, cwd)

    async def _accept_or_close(self, connection: Connection, answer: Any, cwd: str) -> ConnectedAgent:
        try:
            self._accept_lower_version(connection, answer)
            return self._check_answer(connection, answer, cwd)
        except BaseException:
            await connection.close()
            raise

    def _accept_lower_version(self, connection: Connection, answer: Any) -> None:
        """Go on in the default dialect with an agent that answered in it, although a later version was offered."""
        version = answer.get("protocolVersion") if isinstance(answer, dict) else None
        known = connection.dialect.version
        if known is not None and isinstance(version, int) and 0 < version < known:
            self._switch_dialect(connection, DEFAULT_DIALECT, answer)

    def _switch_dialect(self, connection: Connection, name: str, answer: Any) -> None:
        self.dialect = name
        connection.set_dialect(load_dialect(name))
        connection.peer.note_initialize(self._initialize_params)
        connection.peer.note_initialize_result(answer)

    async def _initialize_polyglot(self, cwd: str) -> ConnectedAgent:
        """Send one initialize that every known dialect can read, and detect the dialect from the answer."""
        connection = await self._open_connection(DEFAULT_DIALECT, cwd)
        try:
            params = detect.polyglot_params(json_values(self._initialize_params), cwd)
            answer = await self._request_initialize(connection, params)
        except BaseException:
            await connection.close()
            raise
        self.dialect = detect.dialect_of_agent(answer) or DEFAULT_DIALECT
        if self.dialect != DEFAULT_DIALECT:
            answer = load_dialect(self.dialect).lift_result(Side.AGENT, "initialize", answer)
            self._switch_dialect(connection, self.dialect, answer)
        return await self._accept_or_close(connection, answer, cwd)

    async def _request_initialize(self, connection: Connection, params: Any, timeout: float | None = None) -> Any:
        """Send initialize and return the answer as plain JSON of the vocabulary."""
        dialect = connection.dialect
        if self._mcp_servers and dialect.one_folder:
            params = with_side_data(params, mcpServers=[json_values(server) for server in self._mcp_servers])
        if self._session_capabilities is not None and dialect.is_native:
            offered = msgspec.structs.replace(params.client_capabilities, session=self._session_capabilities)
            params = msgspec.structs.replace(params, client_capabilities=offered)
        if not dialect.has_file_extensions and params.client_capabilities:
            offered = with_side_data(params.client_capabilities, fs=ABSENT, terminal=ABSENT)
            params = msgspec.structs.replace(params, client_capabilities=offered)
        params = with_unknown_members(params, self._raw_params)
        try:
            timeout = self._initialize_timeout if timeout is None else timeout
            return await connection.request_raw("initialize", params, timeout=timeout)
        except ProtocolError:
            if self._is_echo:
                raise StartFailed(
                    f"{self._display_name} is not an ACP agent: it sends back what it gets; {ACP_OPTION_HINT}"
                ) from None
            raise

    def _note_echo(self, incoming: Incoming, done: DoneCallback) -> None:
        """Note that the program sent our own initialize back, as `cat` does."""
        self._is_echo = True
        done(None, ProtocolError(Kind.METHOD_NOT_FOUND, "this is the client", {"method": incoming.method}))

    def _check_answer(self, connection: Connection, answer: Any, cwd: str) -> ConnectedAgent:
        required = json_side_data(answer).get("requiredClientCapabilities")
        missing = missing_capabilities(required, self._initialize_params.client_capabilities or {})
        if missing:  # the draft, section 10.3: no session is better than one that fails later
            what = ", ".join(missing)
            raise ProtocolError(
                Kind.CAPABILITY_UNSUPPORTED, f"{self._display_name} requires {what}, which this client does not offer"
            )
        result = decode_as(_INITIALIZE.result, answer)
        version, known = result.protocol_version, connection.dialect.version
        if known is not None and version > known:
            raise StartFailed(
                f"{self._display_name} answered with protocol version {version}; this client supports version {known}"
            )
        return ConnectedAgent(connection, result, answer, cwd)

    # --- starting ---------------------------------------------------------------------------------------------

    @property
    def can_restart(self) -> bool:
        """Whether the target is a command or an address, so that it can be reached again."""
        return isinstance(self._target, str | Sequence)

    @property
    def command(self) -> list[str]:
        """The command of the agent, or its address."""
        return parse_command(self._target) if isinstance(self._target, str | Sequence) else [self._target.peer]

    @property
    def _display_name(self) -> str:
        return " ".join(self.command)

    async def _open_connection(self, name: str, cwd: str) -> Connection:
        if isinstance(self._target, str) and is_address(self._target):
            transport: Transport = await self._connect_address(self._target)
        elif isinstance(self._target, str | Sequence):
            from dragoman.transport.process.transport import spawn

            transport = await spawn(
                rebase_command(parse_command(self._target), self._command_cwd, cwd),
                cwd=self._resolve_folder(cwd),
                env=self._env,
                inherit_env=self._inherit_env,
                stderr=self._stderr,
                redact=stderr_redactor(os.environ, self._env or {}),
                sandbox=self.sandbox,
            )
        elif isinstance(self._target, OpensTransport):
            transport = await self._target.open_transport(self.report, self._stderr)
        else:
            transport = self._target
        connection = Connection(
            transport if self.trace is None else self.trace(transport),
            Side.CLIENT,
            self._handlers,
            fallback=self._fallback,
            settings=emulator_settings(cwd, self._permission, shows_switches=self._session_capabilities is not None),
            peer_dialect=load_dialect(name),
            report=self.report,
        )
        connection.start()
        return connection

    async def _connect_address(self, address: str) -> Transport:
        """Connect to a running agent; reconnect if it is remote."""
        if not is_remote(address):
            return await dial_local(address)
        from dragoman.roles.client.reconnect.transport import dial_reconnecting
        from dragoman.transport.remote.client.dial import dial_remote

        async def dial_again() -> Transport:
            return await dial_remote(address, self._remote, report=self.report)

        backoff = self._remote.backoff if self._remote is not None else None
        return await dial_reconnecting(dial_again, backoff=backoff, report=self.report)


def _dialect_of_answer(connection: Connection, answer: Any) -> str:
    """Return the dialect in which an agent answered; the answer is lifted from the connection's own already."""
    detected = detect.dialect_of_agent(answer) or connection.dialect.name
    is_own = isinstance(answer, dict) and answer.get("protocolVersion") == connection.dialect.version
    return connection.dialect.name if detected == DEFAULT_DIALECT and is_own else detected


def parse_command(target: str | Sequence[str]) -> list[str]:
    """Split a command line into arguments."""
    if isinstance(target, str):
        target = shlex.split(target)
    if not target:
        raise StartFailed("the command is empty; give the command that starts the agent")
    return list(target)


def rebase_command(command: list[str], old_cwd: str, new_cwd: str) -> list[str]:
    """Make arguments that name files in the old folder absolute, for a start in another folder."""
    if old_cwd == new_cwd:
        return command

    def must_move(argument: str) -> bool:
        return os.path.isfile(os.path.join(old_cwd, argument)) and not os.path.isfile(os.path.join(new_cwd, argument))

    return [os.path.join(old_cwd, argument) if must_move(argument) else argument for argument in command]
