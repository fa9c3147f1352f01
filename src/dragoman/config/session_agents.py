"""Which agent each stored session used last, so that it need not be given again when the session is continued."""

from __future__ import annotations

import msgspec

from dragoman.config.config_file import NamedAgent
from dragoman.config.private_files import JsonFile

# Sessions that are remembered; the oldest are dropped. People continue recent ones, and the file is written as a whole.
MAX_SESSIONS = 200


class SessionAgent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The agent of one session: the name of a configured one, or a command."""

    session: str
    name: str
    command: tuple[str, ...] = ()  # empty: the agent that is configured or installed with this name
    dialect: str = "auto"


class SessionAgents:
    """The file with the agents of sessions. It is private, because a command line may contain secrets."""

    def __init__(self, path: str) -> None:
        self._file: JsonFile[list[SessionAgent]] = JsonFile(
            path, list[SessionAgent], [], "forget which agents sessions used"
        )

    def find(self, session: str) -> SessionAgent | None:
        """Return the agent that a session used last."""
        return next((each for each in self._file.current() if each.session == session), None)

    def note(self, used: SessionAgent) -> None:
        """Remember the agent of a session."""
        if self.find(used.session) != used:
            self._file.edit(lambda known: [*_without(known, used.session), used][-MAX_SESSIONS:])

    def forget(self, session: str) -> None:
        """Forget a session that was deleted."""
        if self.find(session) is not None:
            self._file.edit(lambda known: _without(known, session))


def as_named_agent(used: SessionAgent) -> NamedAgent:
    """Return an agent that was given by its command."""
    return NamedAgent(name=used.name, command=used.command[0], args=used.command[1:], dialect=used.dialect)


def _without(known: list[SessionAgent], session: str) -> list[SessionAgent]:
    return [each for each in known if each.session != session]
