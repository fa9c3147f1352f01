"""The grants file: remembered decisions that can be listed and revoked while sessions run."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from dragoman.config.private_files import JsonFile
from dragoman.errors import ConfigFault
from dragoman.policy.grants import Grant

FORMAT = 1


class _GrantsDocument(msgspec.Struct, kw_only=True):
    format: int = FORMAT
    grants: list[Grant] = []


class GrantsFile:
    """The grants of one user. A grant that another process revoked no longer counts."""

    def __init__(self, path: str) -> None:
        self._file = JsonFile(path, _GrantsDocument, _GrantsDocument(), "start without grants")

    def current(self) -> tuple[Grant, ...]:
        """Return all current grants; raise ConfigFault if the file cannot be read."""
        return tuple(self._grants_in(self._file.current()))

    def add(self, grants: Iterable[Grant], *, now: float) -> None:
        """Add grants; drop expired ones."""
        added = list(grants)
        if added:
            self._edit(lambda kept: [grant for grant in kept if not grant.is_expired(now)] + added)

    def revoke(self, ids: Iterable[str]) -> list[Grant]:
        """Revoke grants, and return those that existed."""
        wanted = set(ids)
        found: list[Grant] = []

        def without(kept: list[Grant]) -> list[Grant]:
            found.extend(grant for grant in kept if grant.id in wanted)
            return [grant for grant in kept if grant.id not in wanted]

        self._edit(without)
        return found

    def forget_run(self, run: str) -> None:
        """Remove the grants of sessions that no longer run."""
        if any(grant.run == run for grant in self.current()):
            self._edit(lambda kept: [grant for grant in kept if grant.run != run])

    def _edit(self, change: Callable[[list[Grant]], list[Grant]]) -> None:
        self._file.edit(lambda document: _GrantsDocument(grants=change(self._grants_in(document))))

    def _grants_in(self, document: _GrantsDocument) -> list[Grant]:
        if document.format != FORMAT:
            newer = f"format {document.format} is of a newer Dragoman; this one reads {FORMAT}"
            raise ConfigFault([f"{self._file.path}: {newer}"])
        return document.grants
