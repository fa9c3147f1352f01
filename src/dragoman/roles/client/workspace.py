"""WorkspaceAccess: the files and terminals that a client gives an agent access to, in the sessions' folders.

Every use is approved first. A command is not confined once it runs, unless in a sandbox.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.engine.codec import json_values
from dragoman.engine.connection import Connection
from dragoman.engine.incoming import Handler, call_handler, make_handler
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.client.caller_errors import check_function
from dragoman.roles.client.tree_members import TreeMembers
from dragoman.roles.client.workspace_calls import MAX_TERMINALS, FileCalls, TerminalCalls
from dragoman.schema.initialize import ClientCapabilities, FileSystemCapabilities
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side

if TYPE_CHECKING:
    from dragoman.mcp.tool_table import ToolTable
    from dragoman.roles.client.session import ClientSession
    from dragoman.transport.sandbox.spec import Sandbox
    from dragoman.workspace.coordination import FileCoordinator
    from dragoman.workspace.terminal import Terminal
    from dragoman.workspace.tree_member import TreeMember

# Terminals that can still be shown; older ones are dropped.
MAX_SHOWN_TERMINALS = 32


class WorkspaceUse(msgspec.Struct, frozen=True, kw_only=True):
    """A use of the workspace that needs approval: an operation on a resource, in a session."""

    operation: str  # read | write | execute
    resource: str  # the resolved path, or the command line
    session_id: str
    text: str | None = None  # the text to write
    env: dict[str, str] = {}  # the variables set for the command
    requested_path: str = ""  # the path as the agent gave it
    data: bytes | None = None  # the bytes to write, if they are not text
    cwd: str = ""  # the resolved folder in which the command starts
    interactive: bool = False  # whether the command gets a pseudo-terminal
    read_current: Callable[[], str | None] | None = None  # reads the text of the file to write, as far as it is shown
    agent: str = ""  # the agent's name in its team
    method: str = ""  # the method, which is more precise than the operation: fs/list_directory is a read


# Delivers an update, as JSON, as if the agent had sent it.
SendUpdate = Callable[[str, dict[str, Any]], Awaitable[None] | None]

Approve = Callable[[WorkspaceUse], Awaitable[bool] | bool]


def allow_all(_: WorkspaceUse) -> bool:
    """Approve every use inside the session's folders."""
    return True


class AgentObserver(Protocol):
    """Watches the calls of one agent, for example to add the diagnostics of language servers."""

    def wrap_all(self, handlers: Mapping[str, Handler]) -> dict[str, Handler]:
        """Return the handlers of the agent's methods, those that it watches wrapped."""
        ...

    def tool_tables(self) -> Sequence[ToolTable]:
        """The tools that each session of the agent gets."""
        ...

    def held_updates(self, session_id: str) -> asyncio.Future[None] | None:
        """Return what is done when no update of a session is held back; None if none is. The end of a turn waits."""
        ...

    async def end_session(self, session_id: str) -> None:
        """Release what belongs to a session."""
        ...

    async def close(self) -> None:
        """Release everything."""
        ...


class WorkspaceObserver(Protocol):
    """Makes the observer of each agent that uses a workspace."""

    def for_agent(self, workspace: AgentWorkspace, send_update: SendUpdate) -> AgentObserver:
        """Return the observer of an agent; `send_update` delivers an update as if the agent had sent it."""
        ...


class WorkspaceAccess:
    """The files and terminals that a client offers, and the function that approves their use.

    `files` turns all file calls on or off; the options after it single out those beyond official v1. `extra_roots` are
    folders that every session may use besides its own, for files only. `protected` returns the paths in a
    session's folders that are never written. `max_terminals` is announced to the agent; None does not announce
    it, and the default limit applies. Commands run in the `sandbox`, or else in the agent's. With `as_tools`, each
    session gets an MCP server `workspace` that reads, writes and runs through the same approval (extra `mcp`).
    Sessions that use overlapping folders do not overwrite each other's files (docs/teams.md), unless `coordinate` is
    False; all workspaces of this process share one coordinator, unless another is given.
    """

    def __init__(
        self,
        *,
        files: bool = True,
        terminals: bool = True,
        binary: bool = True,
        listing: bool = True,
        create_directories: bool = True,
        watching: bool = True,
        atomic_writes: bool = True,
        interactive: bool = True,
        approve: Approve = allow_all,
        protected: Callable[[list[str]], list[str]] = lambda _: [],
        extra_roots: Sequence[str] = (),
        max_terminals: int | None = MAX_TERMINALS,
        sandbox: Sandbox | None = None,
        as_tools: bool = False,
        coordinate: bool = True,
        coordinator: FileCoordinator | None = None,
    ) -> None:
        check_function("approve", approve, "use")
        self.offers_files = files
        self.offers_terminals = terminals
        self.fs_extensions = {  # by the names in the draft
            "binary": files and binary,
            "list": files and listing,
            "createDirectory": files and create_directories,
            "watch": files and watching,
            "atomic": files and atomic_writes,
        }
        self.interactive = interactive
        self.approve = approve
        self.protected = protected
        self._extra_roots = tuple(extra_roots)
        self.max_terminals = max_terminals
        self.sandbox = sandbox
        self.as_tools = as_tools
        self.coordinates = coordinate
        self.coordinator = coordinator  # None: that of the process
        self.display_name = ""  # what other agents are told when this one is in their way; "": the agent's own name
        self.on_member: Callable[[str, TreeMember], None] = lambda session_id, member: None
        self.observer: WorkspaceObserver | None = None
        self._shown_terminals: dict[str, Terminal] = {}
        # Set by a guard:
        self.wrap_handler: Callable[[str, Handler], Handler] = lambda method, handler: handler
        self.policy_roots: Callable[[str], Sequence[str]] = lambda session_id: ()
        self.session_roots: Callable[[str], Sequence[str]] = lambda session_id: ()  # of the last agent
        self.resolve_folder: Callable[[str], str] = os.path.realpath  # returns the real path of a session's folder

    def extra_roots(self, session_id: str) -> tuple[str, ...]:
        """Return the folders whose files a session may use besides its own."""
        return (*self._extra_roots, *self.policy_roots(session_id))

    def capabilities(self) -> ClientCapabilities:
        """Return the capabilities to announce."""
        side: dict[str, Any] = {}
        if self.offers_files:
            side["fs"] = {name: True for name, is_offered in self.fs_extensions.items() if is_offered}
        if self.offers_terminals:
            side["terminal"] = {"interactive": True} if self.interactive else {}
            if self.max_terminals is not None:
                side["terminal"]["maxConcurrent"] = self.max_terminals
        side = {name: value for name, value in side.items() if value}
        return ClientCapabilities(
            fs=FileSystemCapabilities(read_text_file=self.offers_files, write_text_file=self.offers_files),
            terminal=self.offers_terminals,
            meta={SIDE_DATA_KEY: side} if side else msgspec.UNSET,
        )

    def for_agent(
        self,
        connection: Callable[[], Connection],
        roots: Callable[[str], list[str]],
        session_ids: Callable[[], Sequence[str]] = lambda: (),
        find_session: Callable[[str], ClientSession | None] = lambda session_id: None,
        agent_name: Callable[[], str] = str,
    ) -> AgentWorkspace:
        """Create the workspace of one agent. `roots` returns a session's folders, `session_ids` the open sessions."""
        self.session_roots = roots
        return AgentWorkspace(self, connection, roots, session_ids, find_session, agent_name)

    def find_terminal(self, id: str) -> Terminal | None:
        """Return a terminal by its id, to show its output, also for some time after its release."""
        return self._shown_terminals.get(id)

    def remember_terminal(self, terminal: Terminal) -> None:
        """Keep a terminal, so that it can be shown."""
        self._shown_terminals[terminal.id] = terminal
        if len(self._shown_terminals) > MAX_SHOWN_TERMINALS:
            del self._shown_terminals[next(iter(self._shown_terminals))]


class AgentWorkspace:
    """The workspace of one agent: the files, watches and terminals of its sessions."""

    def __init__(
        self,
        access: WorkspaceAccess,
        connection: Callable[[], Connection],
        roots: Callable[[str], list[str]],
        session_ids: Callable[[], Sequence[str]],
        find_session: Callable[[str], ClientSession | None],
        agent_name: Callable[[], str],
    ) -> None:
        self.access = access
        self.sandbox = access.sandbox
        self.connection = connection
        self.roots = roots
        self._session_ids = session_ids
        self.find_session = find_session
        self._agent_name = agent_name
        self.send_update: SendUpdate = lambda session_id, update: None
        self.observer: AgentObserver | None = None
        self.members = TreeMembers(self)
        self.files = FileCalls(self)
        self.terminals = TerminalCalls(self)

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers of the offered methods."""
        methods: dict[str, Callable[[Any], Any]] = {}
        if self.access.offers_files:
            methods |= self.files.methods(self.access.fs_extensions)
        if self.access.offers_terminals:
            methods |= self.terminals.methods()
        return {
            method: self.access.wrap_handler(method, make_handler(function)) for method, function in methods.items()
        }

    def observe(
        self,
        handlers: Mapping[str, Handler],
        send_update: SendUpdate,
    ) -> Mapping[str, Handler]:
        """Return the handlers of the agent, observed if the workspace has an observer."""
        self.send_update = send_update
        if self.access.observer is None:
            return handlers
        self.observer = self.access.observer.for_agent(self, send_update)
        return self.observer.wrap_all(handlers)

    def tool_tables(self, handlers: Mapping[str, Handler]) -> list[ToolTable]:
        """Return the tools that each session gets; they use these handlers of the agent."""
        tables = [] if self.observer is None else list(self.observer.tool_tables())
        if self.access.as_tools:
            from dragoman.mcp.workspace_tools import workspace_table

            async def call(method: str, params: dict[str, Any]) -> Any:
                row = METHODS[Side.CLIENT, method]
                return json_values(await call_handler(handlers[method], method, row, params))

            files = self.access.offers_files
            own = workspace_table(call, reads=files, writes=files, runs=self.access.offers_terminals)
            tables += [] if own is None else [own]
        return tables

    def held_updates(self, session_id: str) -> asyncio.Future[None] | None:
        """Return what is done when the observer holds no update of a session; None if it holds none."""
        return None if self.observer is None else self.observer.held_updates(session_id)

    @property
    def agent_name(self) -> str:
        """The name of the agent, as others are told."""
        return self.access.display_name or self._agent_name()

    @property
    def session_ids(self) -> Sequence[str]:
        """The ids of the open sessions."""
        return self._session_ids()

    def session_of(self, params: Any) -> str:
        """Return the session of a call; it may be omitted while only one session is open."""
        if isinstance(params.session_id, str) and params.session_id:
            return params.session_id
        open_ids = self._session_ids()
        if len(open_ids) != 1:
            raise ProtocolError(
                Kind.INVALID_PARAMS, f"{len(open_ids)} sessions are open: the call must name its sessionId"
            )
        return open_ids[0]

    async def require_approval(self, operation: str, resource: str, session_id: str, **more: Any) -> None:
        """Have a use approved, or raise permission_denied."""
        use = WorkspaceUse(operation=operation, resource=resource, session_id=session_id, **more)
        approved = self.access.approve(use)
        if not (await approved if isinstance(approved, Awaitable) else approved):
            raise ProtocolError(Kind.PERMISSION_DENIED, f"the user did not allow to {operation} {resource}")

    async def end_session(self, session_id: str) -> None:
        """End the watches and terminals of a session."""
        self.files.end_session(session_id)
        self.members.end_session(session_id)
        if self.observer is not None:
            await self.observer.end_session(session_id)
        await self.terminals.end_session(session_id)

    def on_agent_lost(self) -> None:
        """End all watches and leases, because there is no agent to notify."""
        self.files.close()
        self.members.close()

    async def close(self) -> None:
        """End all watches and terminals."""
        self.files.close()
        if self.observer is not None:
            await asyncio.shield(self.observer.close())
        await asyncio.shield(self.terminals.close())
        self.members.close()
