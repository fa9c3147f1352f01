"""What a guard knows of the sessions it guards: who works there, in which folders, and where a path leads.

Takes a remote agent, or only a way to find a session's folders; gives questions their place. Links in the paths of the
folders themselves are the user's own and are resolved; whatever else an agent spells is kept beside what it leads to.
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
    from dragoman.roles.client.session import Conversation


class Premises:
    """The sessions of one agent, as far as they are known."""

    def __init__(self, agent: str = "") -> None:
        self.agent = agent
        self.find: Callable[[str], Conversation | None] = lambda _: None
        self.roots: Callable[[str], Sequence[str]] = lambda _: ()
        self.resolve: Callable[[str], str] = os.path.realpath  # gives where a folder of a session really is

    def attend(self, agent: RemoteAgent, otherwise: str = "") -> None:
        """Know an agent by the name it gives itself, `otherwise` by another, and its sessions."""
        self.find = agent.find
        if not self.agent:
            self.agent = (agent.info.name if agent.info is not None else "") or otherwise

    def place(self, question: Question, session_id: str, mode: str) -> Question:
        """A question with who asks it, and where."""
        session = self.find(session_id)
        return msgspec.structs.replace(
            question,
            agent=self.agent,
            session=session_id,
            roots=self.folders(session_id),
            mode=mode,
            agent_mode=(session.mode or "") if session is not None else "",
        )

    def folders(self, session_id: str) -> tuple[str, ...]:
        """The folders of a session, resolved."""
        return tuple(map(self.resolve, self._spelled(session_id)))

    def absolute(self, session_id: str) -> Callable[[str], str]:
        """Paths as the agent spells them, but with the session's folders resolved."""
        spelled = [os.path.normpath(root) for root in self._spelled(session_id)]

        def absolute(path: str) -> str:
            full = os.path.normpath(os.path.join(spelled[0] if spelled else "/", path))
            for root in spelled:
                if is_under(full, (root,)):
                    return os.path.normpath(os.path.join(self.resolve(root), os.path.relpath(full, root)))
            return full

        return absolute

    def resolver(self, session_id: str) -> Callable[[str], str]:
        """What a path leads to, links followed."""
        base = next(iter(self.folders(session_id)), "/")

        def resolve(path: str) -> str:
            try:
                return os.path.realpath(os.path.join(base, path))
            except (OSError, ValueError):
                return path

        return resolve

    def _spelled(self, session_id: str) -> Sequence[str]:
        session = self.find(session_id)
        try:
            return session.roots if session is not None else self.roots(session_id)
        except ProtocolError:  # a session that nobody knows, of a subagent say (peers.md 45)
            return ()
