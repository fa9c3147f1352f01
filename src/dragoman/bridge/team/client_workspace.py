"""The workspace of a team that serves a client: the files and terminals of that client, where it offers them.

Calls of the agents are forwarded with the session of the team. Files are coordinated between the agents.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from dragoman.engine.incoming import DoneCallback, Handler, Incoming
from dragoman.roles.client.forwarded_files import COORDINATED_METHODS, ForwardedFiles
from dragoman.roles.client.tree_members import turn_activity
from dragoman.schema.methods import METHODS, methods_that
from dragoman.schema.side import Side
from dragoman.workspace.tree_member import TreeMember

if TYPE_CHECKING:
    from dragoman.bridge.team.access import Route
    from dragoman.bridge.team.child import Child
    from dragoman.roles.agent.session import Session

# How long the client may take for a call: it may ask its user. Seconds. Waiting for a command takes as long as that.
CLIENT_TIMEOUT = 600.0
_UNBOUNDED_METHODS = methods_that("waits")


class ClientWorkspace:
    """The files and terminals of the client of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._files: dict[Child, ForwardedFiles] = {}

    def route(self, child: Child) -> Route:
        """Return the function that wraps the workspace handlers of an agent."""
        return lambda method, local: self._routed(child, method, local)

    def _routed(self, child: Child, method: str, local: Handler) -> Handler:
        gate = METHODS[Side.CLIENT, method].gate

        def handle(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
            if not self._session.is_bound or not self._session.connection.offers(gate):
                return local(incoming, done)
            return self._forward(child, method, incoming, done)

        return handle

    async def _forward(self, child: Child, method: str, incoming: Incoming, done: DoneCallback) -> None:
        params = {**incoming.values, "sessionId": self._session.id}
        timeout = None if method in _UNBOUNDED_METHODS else CLIENT_TIMEOUT
        send: Callable[[str, Any], Awaitable[Any]] = partial(self._session.connection.request_raw, timeout=timeout)
        if method in COORDINATED_METHODS:
            done(await self._files_of(child).call(method, params, send), None)
        else:
            done(await send(method, params), None)

    def _files_of(self, child: Child) -> ForwardedFiles:
        known = self._files.get(child)
        if known is not None:
            return known
        session = child.session
        member = TreeMember(lambda: child.id, [child.cwd], activity=lambda: turn_activity(session))
        files = self._files[child] = ForwardedFiles(child.team.coordinator, member)
        child.note_member(session.id, member)
        session.on_turn_over.append(files.release)
        return files

    def close(self) -> None:
        """Release all files."""
        for files in self._files.values():
            files.close()
        self._files.clear()
