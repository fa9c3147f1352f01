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

from dragoman.config.paths import closed
from dragoman.dialect import detect
from dragoman.dialect.dialects import NAMES
from dragoman.dialect.dialects import dialect as find_dialect
from dragoman.dialect.reshape import ABSENT, side_of
from dragoman.dialect.side_data import noted
from dragoman.engine.connection import Connection
from dragoman.engine.decode import carried, read, values
from dragoman.engine.handler import Handler
from dragoman.engine.peer_info import missing
from dragoman.errors import Kind, ProtocolError, StartFailed
from dragoman.roles.agent.agent import settings
from dragoman.roles.client.terminal_login import SignIn, prepared
from dragoman.schema.auth import AuthMethod
from dragoman.schema.initialize import ClientSessionCapabilities, InitializeParams, InitializeResult
from dragoman.schema.mcp import McpServer
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side
from dragoman.transport.base import Transport
from dragoman.transport.sandbox.spec import Sandbox
from dragoman.transport.socket import dial, is_address, is_remote

if TYPE_CHECKING:
    from dragoman.transport.remote.address import Remote

# After official v1: the order in which the other spellings are tried.
LADDER = ("draft", "crow", "2025.1")

# Answers that mean "I do not understand this initialize", not "something is wrong with me".
NOT_UNDERSTOOD = frozenset({Kind.INVALID_PARAMS, Kind.INVALID_REQUEST, Kind.TIMEOUT})

# Dialects without words for file calls beyond text: offering these would only be noise.
_NO_FILE_CALLS = frozenset({"2025.1", "crow"})

_INITIALIZE = METHODS[Side.AGENT, "initialize"]


class Dialled(msgspec.Struct, eq=False):
    """An agent that was reached: its connection, what it said of itself, and the folder it was started in."""

    connection: Connection
    introduction: InitializeResult
    introduction_values: Any  # the same as plain values, with what no type knows
    cwd: str
    has_session: bool = False

    async def close(self) -> None:
        """End it and everything it started."""
        await self.connection.close()


class Dial:
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
        patience: float = 60.0,
        probe: str = "ladder",
        permission: str = "ask",
        shows: ClientSessionCapabilities | None = None,
        sandbox: Sandbox | None = None,
        trace: Callable[[Transport], Transport] | None = None,
        remote: Remote | None = None,
        resolve: Callable[[str], str] = os.path.realpath,
    ) -> None:
        """`resolve` gives the folder in which a process is started, links resolved, or refuses."""
        if dialect != "auto" and dialect not in NAMES:
            raise ValueError(f"unknown dialect {dialect!r}; choose one of auto, {', '.join(NAMES)}")
        runs = is_address(target) if isinstance(target, str) else not isinstance(target, Sequence)
        if sandbox is not None and runs:
            raise ValueError("an agent that runs already cannot be sandboxed; give its command, or Lending a sandbox")
        self.dialect = dialect
        self.cwd = cwd
        self._here = cwd  # where the command was written down; the folder to begin in may yet be another one
        self.sandbox = closed(sandbox)
        self.report = report
        self._target = target
        self._env = env
        self._inherit = inherit_env
        self._servers = list(mcp_servers)
        self._stderr = stderr
        self._patience = patience
        self._probe = probe
        self._permission = permission
        self._shows = shows  # what official agents may send us beyond what every client takes
        self._trace = trace
        self._remote = remote
        self._resolve = resolve
        self._first: Dialled | None = None
        self._others: dict[str, Dialled] = {}
        self._moving = asyncio.Lock()

    async def open(
        self,
        introduction: InitializeParams,
        handlers: dict[str, Handler],
        fallback: Handler,
        source: Any = None,
    ) -> Dialled:
        """Start the agent and introduce ourselves."""
        self._introduction = introduction
        self._source = source  # the introduction as its client said it, with what no type knows
        self._handlers = handlers
        self._fallback = fallback
        self._first = await self._reach(self.cwd)
        return self._first

    async def at(self, cwd: str) -> Dialled:
        """The agent to open a session in this folder with: mostly the one there is."""
        if self.dialect != "2025.1":
            return self.first
        async with self._moving:  # two sessions opened at once must not each start a process for the same folder
            dialled = await self._at_home(cwd)
            dialled.has_session = True
            return dialled

    async def _at_home(self, cwd: str) -> Dialled:
        first = self.first
        if cwd == first.cwd or not self.can_restart:  # who cannot move refuses the folder by itself
            return first
        if not first.has_session:
            self._first = await self._reach(cwd)  # before the other one ends: this may fail, or be taken back
            first.connection.on_close = None  # it moved; nobody needs to mourn it
            await asyncio.shield(first.close())
            return self._first
        if cwd not in self._others:
            self._others[cwd] = await self._reach(cwd)
        return self._others[cwd]

    async def reopen(self) -> Dialled:
        """End the agent, start it again and introduce ourselves again; its sessions are gone with it."""
        for dialled in (self._first, *self._others.values()):
            if dialled is not None:
                await dialled.close()
        self._others.clear()
        self._first = await self._reach(self.cwd)
        return self._first

    def signing_in(self, method: AuthMethod) -> SignIn:
        """The command with which a person signs in at this agent."""
        if not isinstance(self._target, str | Sequence):
            raise ProtocolError(
                Kind.CAPABILITY_UNSUPPORTED, f"{self._name} was not started by a command; sign in where it runs"
            )
        from dragoman.transport.process.launch import inherited

        return prepared(method, words(self._target), self.cwd, inherited(self._env, self._inherit))

    @property
    def first(self) -> Dialled:
        """The process that serves what belongs to no folder."""
        assert self._first is not None
        return self._first

    async def close(self) -> None:
        """End every process that was started."""
        for dialled in (self._first, *self._others.values()):
            if dialled is not None:
                await dialled.close()

    # --- finding the dialect ----------------------------------------------------------------------------------

    async def _reach(self, cwd: str) -> Dialled:
        if self.dialect != "auto":
            connection = await self._start(self.dialect, cwd)
            return await self._introduce(connection, cwd)
        if self._probe == "polyglot":
            return await self._speak_polyglot(cwd)
        return await self._try_in_turn(cwd)

    async def _try_in_turn(self, cwd: str) -> Dialled:
        refusals: list[str] = []
        for name in ("v1", *LADDER):
            connection = await self._start(name, cwd)
            try:
                answered = await self._ask(connection, self._introduction)
            except ProtocolError as error:
                await connection.close()
                if error.kind not in NOT_UNDERSTOOD or not self.can_restart:
                    raise
                refusals.append(f"{name}: {error.message}")
                if error.kind == Kind.TIMEOUT and self.report is not None:  # it takes long, with nothing to be seen
                    self.report(f"{self._name} in {name}: {error.message}; trying the next dialect")
                continue
            except BaseException:
                await connection.close()
                raise
            found = detect.of_agent(answered) or name
            if name == "v1" and found != "v1" and self.can_restart:
                await connection.close()
                self.dialect = found
                return await self._introduce(await self._start(found, cwd), cwd)
            self.dialect = name
            return await self._settle(connection, answered, cwd)
        raise StartFailed(
            f"{self._name} understands no dialect of initialize ({'; '.join(refusals)}); "
            "if you know which one it speaks, name it"
        )

    async def _introduce(self, connection: Connection, cwd: str) -> Dialled:
        try:
            answered = await self._ask(connection, self._introduction)
        except BaseException:
            await connection.close()
            raise
        return await self._settle(connection, answered, cwd)

    async def _settle(self, connection: Connection, answered: Any, cwd: str) -> Dialled:
        """Stay with an agent that answered; one that we cannot talk to is let go."""
        try:
            return self._met(connection, answered, cwd)
        except BaseException:
            await connection.close()
            raise

    async def _speak_polyglot(self, cwd: str) -> Dialled:
        """One initialize that every known reader understands; the answer tells who it was."""
        connection = await self._start("v1", cwd)
        try:
            answered = await self._ask(connection, polyglot(self._introduction, cwd))
        except BaseException:
            await connection.close()
            raise
        self.dialect = detect.of_agent(answered) or "v1"
        if self.dialect != "v1":
            connection.speak(find_dialect(self.dialect))
            answered = find_dialect(self.dialect).lift_result(Side.AGENT, "initialize", answered)
            connection.met(self._introduction)
            connection.introduced(answered)
        return await self._settle(connection, answered, cwd)

    async def _ask(self, connection: Connection, introduction: Any) -> Any:
        """Initialize, and give the answer as plain values in the vocabulary; 2025.1 hears of MCP servers here."""
        if self._servers and connection.speech is not None and connection.speech.dialect.name == "2025.1":
            introduction = noted(introduction, mcpServers=[values(server) for server in self._servers])
        if self._shows is not None and connection.speech is not None and connection.speech.plain:
            offered = msgspec.structs.replace(introduction.client_capabilities, session=self._shows)
            introduction = msgspec.structs.replace(introduction, client_capabilities=offered)
        spoken = connection.speech.dialect.name if connection.speech is not None else ""
        if spoken in _NO_FILE_CALLS and introduction.client_capabilities:
            offered = noted(introduction.client_capabilities, fs=ABSENT, terminal=ABSENT)
            introduction = msgspec.structs.replace(introduction, client_capabilities=offered)
        introduction = carried(introduction, self._source)
        return await connection.request_raw("initialize", introduction, timeout=self._patience)

    def _met(self, connection: Connection, answered: Any, cwd: str) -> Dialled:
        required = side_of(answered).get("requiredClientCapabilities")
        lacking = missing(required, self._introduction.client_capabilities or {})
        if lacking:  # the draft, section 10.3: better no session than one that fails in the middle
            what = ", ".join(lacking)
            raise ProtocolError(
                Kind.CAPABILITY_UNSUPPORTED, f"{self._name} needs {what}, which this client does not offer"
            )
        introduction = read(_INITIALIZE.result, answered)
        version = introduction.protocol_version
        if version > 1 and connection.speech is not None and connection.speech.dialect.name == "v1":
            raise StartFailed(f"{self._name} answered with version {version} of the protocol; this client speaks 1")
        return Dialled(connection, introduction, answered, cwd)

    # --- starting ---------------------------------------------------------------------------------------------

    @property
    def can_restart(self) -> bool:
        """Whether the agent is a command or an address, to be reached as often as need be."""
        return isinstance(self._target, str | Sequence)

    @property
    def _name(self) -> str:
        return " ".join(words(self._target)) if isinstance(self._target, str | Sequence) else self._target.peer

    async def _start(self, name: str, cwd: str) -> Connection:
        if isinstance(self._target, str) and is_address(self._target):
            transport: Transport = await self._dial(self._target)
        elif isinstance(self._target, str | Sequence):
            from dragoman.transport.process.transport import spawn

            transport = await spawn(
                elsewhere(words(self._target), self._here, cwd),
                cwd=self._resolve(cwd),
                env=self._env,
                inherit_env=self._inherit,
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
            settings=settings(cwd, self._permission),
            speaks=find_dialect(name),
            report=self.report,
        )
        connection.start()
        return connection

    async def _dial(self, address: str) -> Transport:
        """An agent that runs already; one that is remote may go away and come back."""
        if not is_remote(address):
            return await dial(address)
        from dragoman.roles.client.reconnect.transport import rejoining

        async def again() -> Transport:
            return await dial(address, remote=self._remote, report=self.report)

        patience = self._remote.patience if self._remote is not None else None
        return await rejoining(again, patience=patience, report=self.report)


def words(target: str | Sequence[str]) -> list[str]:
    """The words of a command."""
    if isinstance(target, str):
        target = shlex.split(target)
    if not target:
        raise StartFailed("no command was given; name the agent to start")
    return list(target)


def elsewhere(command: list[str], here: str, there: str) -> list[str]:
    """A command that was written in one folder, to be started in another: the files it names are still meant."""
    if here == there:
        return command

    def is_left_behind(word: str) -> bool:
        return os.path.isfile(os.path.join(here, word)) and not os.path.isfile(os.path.join(there, word))

    return [os.path.join(here, word) if is_left_behind(word) else word for word in command]


def polyglot(introduction: InitializeParams, cwd: str) -> dict[str, Any]:
    """An initialize in all spellings at once; only `protocol_version` cannot please everybody (reference 5.15)."""
    official = values(introduction)
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
