"""The indexes that the user has: fetched and kept, a file or folder, or the snapshot that ships with Dragoman.

A kept index is always shown, with its age. An earlier source hides the ids of later ones.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from dragoman.config.private_files import read_bytes, write_private
from dragoman.config.registry_section import OFFICIAL_URL
from dragoman.registry.fault import RegistryFault
from dragoman.registry.index import snapshot
from dragoman.registry.index.entry import MAX_INDEX, Entry, Index, parse_index

if TYPE_CHECKING:
    from dragoman.registry.fetch.http import Http

# The official index changes every hour; a day old is good enough to look at.
MAX_AGE = timedelta(days=1)
# Nobody waits longer for a list. Seconds.
FETCH_TIMEOUT = 10.0
# A registry that did not answer is not asked again before this.
RETRY_AFTER = timedelta(minutes=10)
INDEX_FILE = "registry.json"


class Source(msgspec.Struct, frozen=True):
    """One index, where it is from, and of when."""

    url: str
    index: Index
    date: str  # ISO 8601; when it was fetched, or the day of the snapshot
    sha256: str = ""
    is_snapshot: bool = False
    note: str = ""  # why it is not newer


class Found(NamedTuple):
    """An entry, and the source that it is from."""

    entry: Entry
    source: Source


class Catalog(NamedTuple):
    """All sources in their order; `problems` are those that could not be read."""

    sources: tuple[Source, ...]
    problems: tuple[str, ...] = ()

    def all(self) -> Iterator[Found]:
        """Return every entry once: that of the earliest source."""
        seen: set[str] = set()
        for source in self.sources:
            for id, entry in source.index.entries.items():
                if id not in seen:
                    seen.add(id)
                    yield Found(entry, source)

    def find(self, id: str) -> Found | None:
        """Return the entry with this id."""
        return next((found for found in self.all() if found.entry.id == id), None)

    def hidden(self, id: str) -> list[Source]:
        """Return the sources whose entry of this id is hidden by an earlier one."""
        return [source for source in self.sources if id in source.index.entries][1:]

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """The entries that could not be read, with the reason."""
        return [each for source in self.sources for each in source.index.skipped]


class _Kept(msgspec.Struct, kw_only=True):
    url: str
    date: str
    sha256: str
    etag: str = ""


def load_catalog(
    urls: Sequence[str],
    cache: str,
    connect: Callable[[], Http],
    *,
    offline: bool = False,
    refresh: bool = False,
    now: datetime | None = None,
) -> Catalog:
    """Return the indexes; `connect` is called only to fetch one. Raise RegistryFault if none is readable."""
    loader = _Loader(cache, connect, offline, refresh, now or datetime.now(UTC))
    sources, problems = [], []
    for url in urls:
        try:
            sources.append(loader.load(url))
        except RegistryFault as fault:
            problems.append(f"{url}: {fault}")
    if not sources:
        raise RegistryFault("index", "; ".join(problems) or "no registry is configured")
    return Catalog(tuple(sources), tuple(problems))


class _Loader:
    def __init__(self, cache: str, connect: Callable[[], Http], offline: bool, refresh: bool, now: datetime) -> None:
        self._cache, self._connect, self._offline, self._refresh, self._now = cache, connect, offline, refresh, now

    def load(self, url: str) -> Source:
        """Return one source; raise RegistryFault."""
        if "://" not in url:
            return _read_local(url)
        folder = os.path.join(self._cache, hashlib.sha256(url.encode()).hexdigest()[:16])
        kept = _read_kept(folder)
        if kept is not None and not self._refresh and self._age(kept) < MAX_AGE:
            return kept
        tried = os.path.join(folder, "tried")
        why = "offline" if self._offline else "" if self._refresh else self._last_failure(tried)
        if not why:
            try:
                return self._fetch(url, folder, kept)
            except RegistryFault as fault:
                why = str(fault)
                write_private(tried, why.encode())
        if kept is not None:
            return msgspec.structs.replace(kept, note=why)
        if url == OFFICIAL_URL:
            date = snapshot.snapshot_date()
            return Source(url, snapshot.snapshot_index(), date, is_snapshot=True, note=why)
        raise RegistryFault("index", f"{why}; and no earlier copy is kept")

    def _last_failure(self, path: str) -> str:
        """Return why the last attempt failed, if that was just now: nobody wants to wait for it again."""
        try:
            age = self._now - datetime.fromtimestamp(os.path.getmtime(path), UTC)
            return (read_bytes(path) or b"").decode() if abs(age) < RETRY_AFTER else ""
        except OSError:
            return ""

    def _age(self, source: Source) -> timedelta:
        try:
            return self._now - datetime.fromisoformat(source.date)
        except ValueError:
            return MAX_AGE

    def _fetch(self, url: str, folder: str, kept: Source | None) -> Source:
        path, meta = os.path.join(folder, INDEX_FILE), os.path.join(folder, "kept.json")
        etag = _read_meta(folder).etag if kept is not None else ""
        answer = self._connect().get(url, limit=MAX_INDEX, etag=etag, timeout=FETCH_TIMEOUT)
        date = self._now.isoformat(timespec="seconds").replace("+00:00", "Z")
        if answer.body is None and kept is not None:
            source = msgspec.structs.replace(kept, date=date)
        else:
            body = answer.body or b""
            source = Source(url, parse_index(body), date, hashlib.sha256(body).hexdigest())
            write_private(path, body)
        known = _Kept(url=url, date=date, sha256=source.sha256, etag=answer.etag)
        write_private(meta, msgspec.json.encode(known))
        return source


def _read_kept(folder: str) -> Source | None:
    try:
        body = read_bytes(os.path.join(folder, INDEX_FILE))
        meta = _read_meta(folder)
        if body is None or hashlib.sha256(body).hexdigest() != meta.sha256:
            return None
        return Source(meta.url, parse_index(body), meta.date, meta.sha256)
    except (OSError, msgspec.DecodeError, RegistryFault):
        return None  # it is fetched again


def _read_meta(folder: str) -> _Kept:
    return msgspec.json.decode(read_bytes(os.path.join(folder, "kept.json")) or b"", type=_Kept)


def _read_local(path: str) -> Source:
    file = os.path.abspath(os.path.expanduser(path))
    if os.path.isdir(file):
        file = os.path.join(file, INDEX_FILE)
    try:
        body = read_bytes(file)
    except OSError as error:
        raise RegistryFault("index", f"{file}: {error.strerror or error}") from None
    if body is None:
        raise RegistryFault("index", f"there is no file {file}")
    changed = datetime.fromtimestamp(os.path.getmtime(file), UTC)
    date = changed.isoformat(timespec="seconds").replace("+00:00", "Z")
    return Source(file, parse_index(body), date, hashlib.sha256(body).hexdigest())
