"""The folders and paths of guarded sessions.

Links in the paths of the folders themselves are the user's own and are resolved; other paths are kept as the agent
wrote them, next to what they resolve to.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from dragoman.errors import ProtocolError
from dragoman.policy.question import Question, is_under

if TYPE_CHECKING:
    from dragoman.roles.client.remote_agent import RemoteAgent
    from dragoman.roles.client.session import ClientSession


class SessionPaths:
    """The sessions of one agent, for the questions of a guard."""

    def __init__(self, agent_name: str = "") -> None:
        self.agent_name = agent_name
        self.find_session: Callable[[str], ClientSession | None] = lambda _: None
        self.find_roots: Callable[[str], Sequence[str]] = lambda _: ()
        self.resolve_folder: Callable[[str], str] = os.path.realpath  # returns the real path of a folder

    def set_agent(self, agent: RemoteAgent, fallback_name: str = "") -> None:
        """Take the agent's name, or else `fallback_name`, and its sessions."""
        self.find_session = agent.find_session
        if not self.agent_name:
            self.agent_name = (agent.info.name if agent.info is not None else "") or fallback_name

    def with_context(self, question: Question, session_id: str, mode: str) -> Question:
        """Return the question with its agent, session, folders and modes."""
        session = self.find_session(session_id)
        return msgspec.structs.replace(
            question,
            agent=self.agent_name,
            session=session_id,
            roots=self.resolved_roots(session_id),
            mode=mode,
            agent_mode=(session.mode or "") if session is not None else "",
        )

    def resolved_roots(self, session_id: str) -> tuple[str, ...]:
        """Return the folders of a session, resolved."""
        return tuple(map(self.resolve_folder, self._given_roots(session_id)))

    def path_normalizer(self, session_id: str) -> Callable[[str], str]:
        """Return a function that makes paths absolute, with only the session's folders resolved."""
        roots = [os.path.normpath(root) for root in self._given_roots(session_id)]

        def normalize(path: str) -> str:
            full = os.path.normpath(os.path.join(roots[0] if roots else "/", path))
            for root in roots:
                if is_under(full, (root,)):
                    return os.path.normpath(os.path.join(self.resolve_folder(root), os.path.relpath(full, root)))
            return full

        return normalize

    def path_resolver(self, session_id: str) -> Callable[[str], str]:
        """Return a function that resolves paths, with links followed."""
        base = next(iter(self.resolved_roots(session_id)), "/")

        def resolve(path: str) -> str:
            try:
                return os.path.realpath(os.path.join(base, path))
            except (OSError, ValueError):
                return path

        return resolve

    def _given_roots(self, session_id: str) -> Sequence[str]:
        session = self.find_session(session_id)
        try:
            return session.roots if session is not None else self.find_roots(session_id)
        except (
            ProtocolError
        ):  # an unknown session, for example of a subagent (docs/protocol/peers.md#subagent-questions)
            return ()
