"""The grants file: remembered decisions that can be listed and revoked while sessions run.

One JSON file, mode 0600, changed under a lock and replaced atomically. It is read again after each change, so a grant
revoked by another process no longer counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from dragoman.config.private_files import as_config_faults, file_lock, file_stamp, read_bytes, write_private
from dragoman.errors import ConfigFault
from dragoman.policy.grants import Grant

FORMAT = 1


class _GrantsDocument(msgspec.Struct, kw_only=True):
    format: int = FORMAT
    grants: list[Grant] = []


class GrantsFile:
    """The grants of one user."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._current: tuple[Grant, ...] = ()

    def current(self) -> tuple[Grant, ...]:
        """Return all current grants; raise ConfigFault if the file cannot be read."""
        now = file_stamp(self._path)
        if now != self._stamp:
            self._current = self._read()
            self._stamp = now
        return self._current

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
        with as_config_faults(self._path), file_lock(self._path):
            before = list(self._read())
            after = change(before)
            if after != before:
                write_private(
                    self._path, msgspec.json.format(msgspec.json.encode(_GrantsDocument(grants=after)), indent=1)
                )
            self._stamp = None

    def _read(self) -> tuple[Grant, ...]:
        try:
            data = read_bytes(self._path)
            kept = msgspec.json.decode(data, type=_GrantsDocument) if data is not None else _GrantsDocument()
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigFault([f"{self._path}: {error}; move the file away to start without grants"]) from None
        if kept.format != FORMAT:
            raise ConfigFault([f"{self._path}: format {kept.format} is of a newer Dragoman; this one reads {FORMAT}"])
        return tuple(kept.grants)
