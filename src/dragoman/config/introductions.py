"""What agents said of themselves when they were last started here: kept by name, with the command that was started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from dragoman.config.agent_choice import AgentFacts
from dragoman.config.private_files import JsonFile


class Introduction(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of one agent, and the command that they belong to: another command is another agent."""

    command: list[str]
    facts: AgentFacts


class Introductions:
    """The file with the introductions of all agents."""

    def __init__(self, path: str) -> None:
        self._file: JsonFile[dict[str, Introduction]] = JsonFile(
            path, dict[str, Introduction], {}, "forget what agents can do"
        )

    def find(self, name: str, command: Sequence[str]) -> AgentFacts | None:
        """Return what an agent last said of itself; None if it was never started with this command."""
        known = self._file.current().get(name)
        return known.facts if known is not None and known.command == list(command) else None

    def note(self, name: str, command: Sequence[str], facts: AgentFacts) -> None:
        """Keep what an agent said; an unchanged introduction of the same day is not written again."""
        known = self._file.current().get(name)
        new = Introduction(command=list(command), facts=facts)
        if known is not None and _without_time(known) == _without_time(new):
            return
        self._file.edit(lambda all: {**all, name: new})

    def forget(self, name: str) -> None:
        """Forget an agent."""
        self._file.edit(lambda all: _without(all, name))


def _without(all: Mapping[str, Introduction], name: str) -> dict[str, Introduction]:
    return {each: known for each, known in all.items() if each != name}


def _without_time(known: Introduction) -> Introduction:
    return msgspec.structs.replace(known, facts=msgspec.structs.replace(known.facts, date=known.facts.date[:10]))
