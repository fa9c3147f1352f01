"""Starting an agent and finding out which dialect it speaks (reference 5.15).

Official v1 is tried first; an agent that answers in another spelling is started again and introduced in its own, or it
would never learn our capabilities; one that refuses is tried in the other dialects, each with a fresh process. A 2025.1
agent has one working directory for its whole life: another folder means another process.
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
from dragoman.dialect.dialects import DIALECT_NAMES
from dragoman.dialect.dialects import load_dialect as find_dialect
from dragoman.dialect.reshape import ABSENT, json_side_data
from dragoman.dialect.side_data import with_side_data
from dragoman.engine.connection import Connection
from dragoman.engine.decode import decode_as, json_values, with_unknown_members
from dragoman.engine.handler import Handler
from dragoman.engine.peer_info import missing_capabilities
from dragoman.errors import Kind, ProtocolError, StartFailed
from dragoman.roles.agent.agent import emulator_settings
from dragoman.roles.client.terminal_login import TerminalLogin, build_login
from dragoman.schema.auth import AuthMethod
from dragoman.schema.initialize import ClientSessionCapabilities, InitializeParams, InitializeResult
from dragoman.schema.mcp import McpServer
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side
from dragoman.transport.base import Transport
from dragoman.transport.sandbox.spec import Sandbox
from dragoman.transport.socket import dial, is_address, is_remote

if TYPE_CHECKING:
    from dragoman.transport.remote.address import RemoteOptions

# After official v1: the order in which the other spellings are tried.
DIALECT_ORDER = ("draft", "crow", "2025.1")

# Answers that mean "I do not understand this initialize", not "something is wrong with me".
NOT_UNDERSTOOD = frozenset({Kind.INVALID_PARAMS, Kind.INVALID_REQUEST, Kind.TIMEOUT})

# Dialects without words for file calls beyond text: offering these would only be noise.
_WITHOUT_FILE_EXTENSIONS = frozenset({"2025.1", "crow"})

_INITIALIZE = METHODS[Side.AGENT, "initialize"]


class ConnectedAgent(msgspec.Struct, eq=False):
    """An agent that was reached: its connection, what it said of itself, and the folder it was started in."""

    connection: Connection
    initialize_result: InitializeResult
    initialize_values: Any  # the same as plain values, with what no type knows
    cwd: str
    has_session: bool = False

    async def close(self) -> None:
        """End it and everything it started."""
        await self.connection.close()


class Dialer:
    """How to reach one agent, as often as its dialect needs it started."""

    def __init__(
        self,
        target: str | Sequence[str] | Transport,
        *,
        dialect: str = "auto",
        cwd: str,
        env: Mapping[str, str] | None = None,
        inherit_env: bool | Sequence[str] = True,
        mcp_servers: Sequence[McpServer] = (),
        report: Callable[[str], None] | None = None,
        stderr: Callable[[bytes], None] | None = None,
        initialize_timeout: float = 60.0,
        detection: str = "ladder",
        permission: str = "ask",
        session_capabilities: ClientSessionCapabilities | None = None,
        sandbox: Sandbox | None = None,
        trace: Callable[[Transport], Transport] | None = None,
        remote: RemoteOptions | None = None,
        resolve_folder: Callable[[str], str] = os.path.realpath,
    ) -> None:
        """`resolve` gives the folder in which a process is started, links resolved, or refuses."""
        if dialect != "auto" and dialect not in DIALECT_NAMES:
            raise ValueError(f"unknown dialect {dialect!r}; choose one of auto, {', '.join(DIALECT_NAMES)}")
        runs = is_address(target) if isinstance(target, str) else not isinstance(target, Sequence)
        if sandbox is not None and runs:
            raise ValueError("an agent that runs already cannot be sandboxed; give its command, or Lending a sandbox")
        self.dialect = dialect
        self.cwd = cwd
        self._command_cwd = cwd  # where the command was written down; the folder to begin in may yet be another one
        self.sandbox = protect_user_files(sandbox)
        self.report = report
        self._target = target
        self._env = env
        self._inherit_env = inherit_env
        self._mcp_servers = list(mcp_servers)
        self._stderr = stderr
        self._initialize_timeout = initialize_timeout
        self._detection = detection
        self._permission = permission
        self._session_capabilities = (
            session_capabilities  # what official agents may send us beyond what every client takes
        )
        self._trace = trace
        self._remote = remote
        self._resolve_folder = resolve_folder
        self._main: ConnectedAgent | None = None
        self._by_cwd: dict[str, ConnectedAgent] = {}
        self._cwd_lock = asyncio.Lock()

    async def start(
        self,
        params: InitializeParams,
        handlers: dict[str, Handler],
        fallback: Handler,
        raw_params: Any = None,
    ) -> ConnectedAgent:
        """Start the agent and introduce ourselves."""
        self._initialize_params = params
        self._raw_params = raw_params  # the introduction as its client said it, with what no type knows
        self._handlers = handlers
        self._fallback = fallback
        self._main = await self._connect(self.cwd)
        return self._main

    async def agent_for_cwd(self, cwd: str) -> ConnectedAgent:
        """The agent to open a session in this folder with: mostly the one there is."""
        if self.dialect != "2025.1":
            return self.main
        async with self._cwd_lock:  # two sessions opened at once must not each start a process for the same folder
            dialled = await self._process_for_cwd(cwd)
            dialled.has_session = True
            return dialled

    async def _process_for_cwd(self, cwd: str) -> ConnectedAgent:
        first = self.main
        if cwd == first.cwd or not self.can_restart:  # who cannot move refuses the folder by itself
            return first
        if not first.has_session:
            self._main = await self._connect(cwd)  # before the other one ends: this may fail, or be taken back
            first.connection.on_close = None  # it moved; nobody needs to mourn it
            await asyncio.shield(first.close())
            return self._main
        if cwd not in self._by_cwd:
            self._by_cwd[cwd] = await self._connect(cwd)
        return self._by_cwd[cwd]

    async def restart(self) -> ConnectedAgent:
        """End the agent, start it again and introduce ourselves again; its sessions are gone with it."""
        for dialled in (self._main, *self._by_cwd.values()):
            if dialled is not None:
                await dialled.close()
        self._by_cwd.clear()
        self._main = await self._connect(self.cwd)
        return self._main

    def terminal_login(self, method: AuthMethod) -> TerminalLogin:
        """The command with which a person signs in at this agent."""
        if not isinstance(self._target, str | Sequence):
            raise ProtocolError(
                Kind.CAPABILITY_UNSUPPORTED, f"{self._display_name} was not started by a command; sign in where it runs"
            )
        from dragoman.transport.process.launch import inherited_environment

        return build_login(
            method, parse_command(self._target), self.cwd, inherited_environment(self._env, self._inherit_env)
        )

    @property
    def main(self) -> ConnectedAgent:
        """The process that serves what belongs to no folder."""
        assert self._main is not None
        return self._main

    async def close(self) -> None:
        """End every process that was started."""
        for dialled in (self._main, *self._by_cwd.values()):
            if dialled is not None:
                await dialled.close()

    # --- finding the dialect ----------------------------------------------------------------------------------

    async def _connect(self, cwd: str) -> ConnectedAgent:
        if self.dialect != "auto":
            connection = await self._open_connection(self.dialect, cwd)
            return await self._initialize(connection, cwd)
        if self._detection == "polyglot":
            return await self._initialize_polyglot(cwd)
        return await self._try_dialects(cwd)

    async def _try_dialects(self, cwd: str) -> ConnectedAgent:
        refusals: list[str] = []
        for name in ("v1", *DIALECT_ORDER):
            connection = await self._open_connection(name, cwd)
            try:
                answered = await self._request_initialize(connection, self._initialize_params)
            except ProtocolError as error:
                await connection.close()
                if error.kind not in NOT_UNDERSTOOD or not self.can_restart:
                    raise
                refusals.append(f"{name}: {error.message}")
                if error.kind == Kind.TIMEOUT and self.report is not None:  # it takes long, with nothing to be seen
                    self.report(f"{self._display_name} in {name}: {error.message}; trying the next dialect")
                continue
            except BaseException:
                await connection.close()
                raise
            found = detect.dialect_of_agent(answered) or name
            if name == "v1" and found != "v1" and self.can_restart:
                await connection.close()
                self.dialect = found
                return await self._initialize(await self._open_connection(found, cwd), cwd)
            self.dialect = name
            return await self._accept_or_close(connection, answered, cwd)
        raise StartFailed(
            f"{self._display_name} understands no dialect of initialize ({'; '.join(refusals)}); "
            "if you know which one it speaks, name it"
        )

    async def _initialize(self, connection: Connection, cwd: str) -> ConnectedAgent:
        try:
            answered = await self._request_initialize(connection, self._initialize_params)
        except BaseException:
            await connection.close()
            raise
        return await self._accept_or_close(connection, answered, cwd)

    async def _accept_or_close(self, connection: Connection, answer: Any, cwd: str) -> ConnectedAgent:
        """Stay with an agent that answered; one that we cannot talk to is let go."""
        try:
            return self._check_answer(connection, answer, cwd)
        except BaseException:
            await connection.close()
            raise

    async def _initialize_polyglot(self, cwd: str) -> ConnectedAgent:
        """One initialize that every known reader understands; the answer tells who it was."""
        connection = await self._open_connection("v1", cwd)
        try:
            answered = await self._request_initialize(connection, polyglot_params(self._initialize_params, cwd))
        except BaseException:
            await connection.close()
            raise
        self.dialect = detect.dialect_of_agent(answered) or "v1"
        if self.dialect != "v1":
            connection.set_dialect(find_dialect(self.dialect))
            answered = find_dialect(self.dialect).lift_result(Side.AGENT, "initialize", answered)
            connection.note_initialize(self._initialize_params)
            connection.note_initialize_result(answered)
        return await self._accept_or_close(connection, answered, cwd)

    async def _request_initialize(self, connection: Connection, params: Any) -> Any:
        """Initialize, and give the answer as plain values in the vocabulary; 2025.1 hears of MCP servers here."""
        if self._mcp_servers and connection.codec is not None and connection.codec.dialect.name == "2025.1":
            params = with_side_data(params, mcpServers=[json_values(server) for server in self._mcp_servers])
        if self._session_capabilities is not None and connection.codec is not None and connection.codec.is_native:
            offered = msgspec.structs.replace(params.client_capabilities, session=self._session_capabilities)
            params = msgspec.structs.replace(params, client_capabilities=offered)
        spoken = connection.codec.dialect.name if connection.codec is not None else ""
        if spoken in _WITHOUT_FILE_EXTENSIONS and params.client_capabilities:
            offered = with_side_data(params.client_capabilities, fs=ABSENT, terminal=ABSENT)
            params = msgspec.structs.replace(params, client_capabilities=offered)
        params = with_unknown_members(params, self._raw_params)
        return await connection.request_raw("initialize", params, timeout=self._initialize_timeout)

    def _check_answer(self, connection: Connection, answer: Any, cwd: str) -> ConnectedAgent:
        required = json_side_data(answer).get("requiredClientCapabilities")
        lacking = missing_capabilities(required, self._initialize_params.client_capabilities or {})
        if lacking:  # the draft, section 10.3: better no session than one that fails in the middle
            what = ", ".join(lacking)
            raise ProtocolError(
                Kind.CAPABILITY_UNSUPPORTED, f"{self._display_name} needs {what}, which this client does not offer"
            )
        introduction = decode_as(_INITIALIZE.result, answer)
        version = introduction.protocol_version
        if version > 1 and connection.codec is not None and connection.codec.dialect.name == "v1":
            raise StartFailed(
                f"{self._display_name} answered with version {version} of the protocol; this client speaks 1"
            )
        return ConnectedAgent(connection, introduction, answer, cwd)

    # --- starting ---------------------------------------------------------------------------------------------

    @property
    def can_restart(self) -> bool:
        """Whether the agent is a command or an address, to be reached as often as need be."""
        return isinstance(self._target, str | Sequence)

    @property
    def _display_name(self) -> str:
        return " ".join(parse_command(self._target)) if isinstance(self._target, str | Sequence) else self._target.peer

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
                sandbox=self.sandbox,
            )
        else:
            transport = self._target
        connection = Connection(
            transport if self._trace is None else self._trace(transport),
            Side.CLIENT,
            self._handlers,
            fallback=self._fallback,
            settings=emulator_settings(cwd, self._permission),
            peer_dialect=find_dialect(name),
            report=self.report,
        )
        connection.start()
        return connection

    async def _connect_address(self, address: str) -> Transport:
        """An agent that runs already; one that is remote may go away and come back."""
        if not is_remote(address):
            return await dial(address)
        from dragoman.roles.client.reconnect.transport import dial_reconnecting

        async def again() -> Transport:
            return await dial(address, remote=self._remote, report=self.report)

        patience = self._remote.backoff if self._remote is not None else None
        return await dial_reconnecting(again, backoff=patience, report=self.report)


def parse_command(target: str | Sequence[str]) -> list[str]:
    """The words of a command."""
    if isinstance(target, str):
        target = shlex.split(target)
    if not target:
        raise StartFailed("no command was given; name the agent to start")
    return list(target)


def rebase_command(command: list[str], old_cwd: str, new_cwd: str) -> list[str]:
    """A command that was written in one folder, to be started in another: the files it names are still meant."""
    if old_cwd == new_cwd:
        return command

    def is_left_behind(word: str) -> bool:
        return os.path.isfile(os.path.join(old_cwd, word)) and not os.path.isfile(os.path.join(new_cwd, word))

    return [os.path.join(old_cwd, word) if is_left_behind(word) else word for word in command]


def polyglot_params(initialize_params: InitializeParams, cwd: str) -> dict[str, Any]:
    """An initialize in all spellings at once; only `protocol_version` cannot please everybody (reference 5.15)."""
    official = json_values(initialize_params)
    spoken: dict[str, Any] = {}
    for name in ("crow", "2025.1", "draft", "v1"):
        params = find_dialect(name).lower_call(Side.AGENT, "initialize", official)[1]
        capabilities = {**spoken.get("capabilities", {}), **params.get("capabilities", {})}
        spoken = {**spoken, **params}
        if capabilities:
            spoken["capabilities"] = capabilities
    lent = spoken["capabilities"].get("terminal")
    if not (isinstance(lent, dict) and lent.get("create")):
        # An object to the draft, yes or no to 2025.1, which would take any object for a yes.
        spoken["capabilities"].pop("terminal", None)
    return {**spoken, "protocol_version": "2025.1", "working_directory": cwd, "mcp_servers": []}
