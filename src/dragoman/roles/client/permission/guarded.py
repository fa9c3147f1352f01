"""Workspace access under a guard, which approves each use before and audits it after."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dragoman.engine.connection import Connection
from dragoman.engine.incoming import DoneCallback, Handler, Incoming
from dragoman.errors import ProtocolError
from dragoman.roles.client.workspace import AgentWorkspace, WorkspaceAccess

if TYPE_CHECKING:
    from dragoman.roles.client.permission.guard import Guard

# Polled many times a second, and without information that the end of the command does not have.
NOT_AUDITED = frozenset({"terminal/output"})


class GuardedWorkspaceAccess(WorkspaceAccess):
    """A WorkspaceAccess under a guard; the options are those of WorkspaceAccess."""

    def __init__(
        self,
        guard: Guard,
        *,
        route: Callable[[str, Handler], Handler] = lambda _, handler: handler,
        check_folder: Callable[[str], str] = os.path.realpath,
        resolve_folder: Callable[[str], str] = os.path.realpath,
        **options: Any,
    ) -> None:
        """`route` may send calls elsewhere. Folders of sessions are resolved by one function for the policy, and by one
        that raises if they changed for each use.
        """
        super().__init__(approve=guard.approve, protected=guard.protected, **options)
        self._guard = guard
        self._route = route
        self._check_folder = check_folder
        self._resolve_folder = resolve_folder

    def extra_roots(self, session_id: str) -> tuple[str, ...]:
        """Return the folders of WorkspaceAccess and those of the current policy."""
        return (*super().extra_roots(session_id), *self._guard.extra_roots(session_id))

    def for_agent(
        self,
        connection: Callable[[], Connection],
        roots: Callable[[str], list[str]],
        session_ids: Callable[[], Sequence[str]] = lambda: (),
    ) -> AgentWorkspace:
        """Create the workspace of one agent; the guard learns its sessions' folders."""
        self._guard.set_roots(roots, self._resolve_folder)
        workspace = super().for_agent(connection, roots, session_ids)
        workspace.resolve_folder = self._check_folder
        return workspace

    def wrap_handler(self, method: str, handler: Handler) -> Handler:
        """Return the handler with auditing, as it is routed."""
        return self._route(method, handler if method in NOT_AUDITED else self._with_audit(method, handler))

    def _with_audit(self, method: str, handler: Handler) -> Handler:
        async def audited(incoming: Incoming, done: DoneCallback) -> None:
            answers: list[tuple[Any, ProtocolError | None]] = []
            try:
                work = handler(incoming, lambda result, error: answers.append((result, error)))
                if work is not None:
                    await work
            except ProtocolError as refusal:
                await self._guard.audit_use(method, incoming.params, refusal)
                raise
            for result, error in answers:
                await self._guard.audit_use(method, incoming.params, error, result)
                done(result, error)

        return audited
