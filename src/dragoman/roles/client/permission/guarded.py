"""Lending under a guard: each use is approved by it before and audited after, and what is ours is never written.

Above are clients that use `Guard.lend`; below is Lending, which does the work.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from dragoman.engine.connection import Connection
from dragoman.engine.handler import Handler
from dragoman.engine.incoming import Incoming
from dragoman.engine.pending import DoneCallback
from dragoman.errors import ProtocolError
from dragoman.roles.client.workspace import AgentWorkspace, WorkspaceAccess

if TYPE_CHECKING:
    from dragoman.roles.client.permission.guard import Guard

# Looking at a running command happens many times a second, and tells nothing that its end does not.
NOT_AUDITED = frozenset({"terminal/output"})


class GuardedWorkspaceAccess(WorkspaceAccess):
    """Files and terminals lent under a guard; the other options are those of Lending."""

    def __init__(self, guard: Guard, **options: Any) -> None:
        super().__init__(approve=guard.approve, protected=guard.protected, **options)
        self._guard = guard

    def extra_roots(self, session_id: str) -> tuple[str, ...]:
        """Those of whoever lends, and those of the policy as it is now."""
        return (*super().extra_roots(session_id), *self._guard.extra_roots(session_id))

    def for_agent(
        self,
        connection: Callable[[], Connection],
        roots: Callable[[str], list[str]],
        session_ids: Callable[[], Sequence[str]] = lambda: (),
    ) -> AgentWorkspace:
        """Lend to one agent, whose sessions' folders the guard then knows."""
        self._guard.set_roots(roots)
        return GuardedAgentWorkspace(self._guard, self, connection, roots, session_ids)


class GuardedAgentWorkspace(AgentWorkspace):
    """What one agent has borrowed; what becomes of each call is noted."""

    def __init__(
        self,
        guard: Guard,
        access: WorkspaceAccess,
        connection: Callable[[], Connection],
        roots: Callable[[str], list[str]],
        session_ids: Callable[[], Sequence[str]],
    ) -> None:
        super().__init__(access, connection, roots, session_ids)
        self._guard = guard

    def handlers(self) -> dict[str, Handler]:
        """The handlers of what is lent."""
        return {
            method: handler if method in NOT_AUDITED else self._with_audit(method, handler)
            for method, handler in super().handlers().items()
        }

    def _with_audit(self, method: str, handler: Handler) -> Handler:
        async def work(incoming: Incoming, done: DoneCallback) -> None:
            answers: list[tuple[Any, ProtocolError | None]] = []
            try:
                working = handler(incoming, lambda result, error: answers.append((result, error)))
                if working is not None:
                    await working
            except ProtocolError as refusal:
                await self._guard.audit_use(method, incoming.params, refusal)
                raise
            for result, error in answers:
                await self._guard.audit_use(method, incoming.params, error, result)
                done(result, error)

        def noted(incoming: Incoming, done: DoneCallback) -> Awaitable[None]:
            return work(incoming, done)

        return noted
