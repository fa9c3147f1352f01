"""What a client lends an agent: files and terminals in the session's folders, each use approved.

Lending says what is lent and who approves; a Loan is what one agent has of it, and ends with the connection. Every use
is a Question first; whoever built the client says yes or no. Above is the client; below are the calls and the
workspace, which confines. What a command does once started is not confined, unless in a sandbox.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.engine.connection import Connection
from dragoman.engine.handler import Handler, make_handler
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.client.fs_calls import FileCalls
from dragoman.roles.client.terminal_calls import MAX_TERMINALS, TerminalCalls
from dragoman.schema.initialize import ClientCapabilities, FileSystemCapabilities

if TYPE_CHECKING:
    from dragoman.transport.sandbox.spec import Sandbox
    from dragoman.workspace.terminal import Terminal

# Terminals that can still be shown: as many as may be open at once. The oldest fall away.
MAX_SHOWN_TERMINALS = 32


class WorkspaceUse(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent wants leave for: an operation on a resource, in a session."""

    operation: str  # read | write | execute
    resource: str  # the resolved path, or the command line
    session_id: str
    text: str | None = None  # what is to be written
    env: dict[str, str] = {}  # what is set for the command besides our own environment
    requested_path: str = ""  # the path as the agent gave it
    data: bytes | None = None  # what is to be written, where that is no text
    cwd: str = ""  # the folder that the command starts in, resolved
    interactive: bool = False  # the command gets a real terminal, in which programs page and prompt
    method: str = ""  # the method, for what the operation does not tell: fs/list_directory is a read


Approve = Callable[[WorkspaceUse], Awaitable[bool] | bool]


def allow_all(_: WorkspaceUse) -> bool:
    """Approve everything inside the session's folders."""
    return True


class WorkspaceAccess:
    """Files and terminals that a client lends, and who approves their use.

    `files` are all file calls; the others single out the parts of them that official v1 does not know. `extra_roots`
    are folders that every session has besides its own, for files only. `protected` gives, for a session's folders,
    what in them is never written. `max_terminals` is told to the agent; None leaves it untold, not unbounded. Commands
    run in the `sandbox`; without one in that of the agent, if it has one.
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
    ) -> None:
        self.offers_files = files
        self.offers_terminals = terminals
        self.fs_extensions = {  # by the draft's names
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
        self._shown_terminals: dict[str, Terminal] = {}

    def extra_roots(self, session_id: str) -> tuple[str, ...]:
        """Folders whose files a session has besides those of its own."""
        return self._extra_roots

    def capabilities(self) -> ClientCapabilities:
        """What the agent is told."""
        side: dict[str, Any] = {}
        if self.offers_files:
            side["fs"] = {name: True for name, is_lent in self.fs_extensions.items() if is_lent}
        if self.offers_terminals:
            side["terminal"] = {"interactive": True} if self.interactive else {}
            if self.max_terminals is not None:
                side["terminal"]["maxConcurrent"] = self.max_terminals
        side = {name: told for name, told in side.items() if told}
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
    ) -> AgentWorkspace:
        """Lend to one agent; `roots` gives a session's folders, `sessions` the ids of those that are open."""
        return AgentWorkspace(self, connection, roots, session_ids)

    def find_terminal(self, id: str) -> Terminal | None:
        """A terminal by its id, to show what it wrote; also for a while after the agent released it."""
        return self._shown_terminals.get(id)

    def remember_terminal(self, terminal: Terminal) -> None:
        """Remember a terminal, to be shown."""
        self._shown_terminals[terminal.id] = terminal
        if len(self._shown_terminals) > MAX_SHOWN_TERMINALS:
            del self._shown_terminals[next(iter(self._shown_terminals))]


class AgentWorkspace:
    """What one agent has borrowed: the files, watches and terminals of its sessions."""

    def __init__(
        self,
        access: WorkspaceAccess,
        connection: Callable[[], Connection],
        roots: Callable[[str], list[str]],
        session_ids: Callable[[], Sequence[str]],
    ) -> None:
        self.access = access
        self.sandbox = access.sandbox
        self.connection = connection
        self.roots = roots
        self.resolve_folder: Callable[[str], str] = os.path.realpath  # gives where a folder that is lent really is
        self._session_ids = session_ids
        self.files = FileCalls(self)
        self.terminals = TerminalCalls(self)

    def handlers(self) -> dict[str, Handler]:
        """The handlers of what is lent."""
        served: dict[str, Callable[[Any], Any]] = {}
        if self.access.offers_files:
            served |= self.files.methods(self.access.fs_extensions)
        if self.access.offers_terminals:
            served |= self.terminals.methods()
        return {method: make_handler(function) for method, function in served.items()}

    def session_of(self, params: Any) -> str:
        """The session that a call is for; it may go unsaid while only one is open."""
        if isinstance(params.session_id, str) and params.session_id:
            return params.session_id
        known = self._session_ids()
        if len(known) != 1:
            raise ProtocolError(
                Kind.INVALID_PARAMS, f"{len(known)} sessions are open: the call must name its sessionId"
            )
        return known[0]

    async def require_approval(self, operation: str, resource: str, session_id: str, **more: Any) -> None:
        """Have a use approved, or raise permission_denied."""
        question = WorkspaceUse(operation=operation, resource=resource, session_id=session_id, **more)
        approved = self.access.approve(question)
        if not (await approved if isinstance(approved, Awaitable) else approved):
            raise ProtocolError(Kind.PERMISSION_DENIED, f"the user did not allow to {operation} {resource}")

    async def end_session(self, session_id: str) -> None:
        """A session is over: its watches and terminals end."""
        self.files.end_session(session_id)
        await self.terminals.end_session(session_id)

    def on_agent_lost(self) -> None:
        """The agent is gone: there is nobody to tell of changes."""
        self.files.close()

    async def close(self) -> None:
        """Take everything back."""
        self.files.close()
        await asyncio.shield(self.terminals.close())
