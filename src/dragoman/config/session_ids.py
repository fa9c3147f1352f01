"""The session ids file: the agent's id of each session whose id a client chose, for a later process of `translate`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import msgspec

from dragoman.config.private_files import JsonFile
from dragoman.errors import ConfigFault

FORMAT = 1

# Ids that are kept, over all agents and folders; the oldest are dropped. An editor loads recent sessions, and the file
# is written as a whole.
MAX_IDS = 2_000


class _SessionId(msgspec.Struct, frozen=True, kw_only=True):
    agent: str  # a hash: a command line may contain secrets
    cwd: str
    chosen: str
    session: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.agent, self.cwd, self.chosen


class _IdsDocument(msgspec.Struct, kw_only=True):
    format: int = FORMAT
    ids: list[_SessionId] = []  # the oldest first


class SessionIdsFile:
    """The ids of one agent command's sessions, by folder and by the id that the client chose.

    A file that cannot be read or written is reported and then left alone: the session works, only a later process does
    not find it.
    """

    def __init__(self, path: str, command: Sequence[str], report: Callable[[str], None]) -> None:
        self._file = JsonFile(path, _IdsDocument, _IdsDocument(), "start without the ids of earlier sessions")
        self._agent = hashlib.sha256("\0".join(command).encode("utf-8", "surrogateescape")).hexdigest()
        self._report = report
        self._is_broken = False

    def find(self, cwd: str, chosen: str) -> str | None:
        """Return the agent's id of a session; the latest if the client chose the id more than once."""
        try:
            known = self._ids_in(self._file.current())
        except ConfigFault as error:
            self._report_once(error)
            return None
        return next((each.session for each in reversed(known) if each.key == (self._agent, cwd, chosen)), None)

    def add(self, cwd: str, chosen: str, session: str) -> None:
        """Keep the agent's id of a session."""
        added = _SessionId(agent=self._agent, cwd=cwd, chosen=chosen, session=session)

        def with_added(document: _IdsDocument) -> _IdsDocument:
            others = [each for each in self._ids_in(document) if each.key != added.key]
            return _IdsDocument(ids=[*others, added][-MAX_IDS:])

        try:
            self._file.edit(with_added)
        except ConfigFault as error:
            self._report_once(error)

    def _ids_in(self, document: _IdsDocument) -> list[_SessionId]:
        if document.format != FORMAT:
            newer = f"format {document.format} is of a newer Dragoman; this one reads {FORMAT}"
            raise ConfigFault([f"{self._file.path}: {newer}"])
        return document.ids

    def _report_once(self, error: ConfigFault) -> None:
        if not self._is_broken:
            self._is_broken = True
            self._report(f"session ids are not kept for later processes: {error}")
