"""Names of folders and files for a page that cannot read them itself: where a session may work, and what is there.

Only names, only under the roots of the caller or in the folder of a session, bounded in number and time.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence

from dragoman.host.access import is_under

# Names in one answer. Nobody chooses from more.
MAX_NAMES = 50

# Entries looked at, and the time for it. A folder may have millions. Count, seconds.
MAX_ENTRIES = 50_000
MAX_SECONDS = 1.0

# Folders that hold what tools made, not what people name.
SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "target", "dist", "build", "venv"})


def folders_at(path: str, roots: Sequence[str] | None) -> list[str]:
    """Return folders that begin with a path, as a shell completes it; without one the roots themselves."""
    if not path.startswith("/") or "\0" in path:
        return list((os.path.expanduser("~"),) if roots is None else roots)[:MAX_NAMES]
    parent, _, start = path.rpartition("/")
    parent = parent or "/"
    if not is_under(os.path.realpath(parent), roots):
        return [root for root in roots or () if root.startswith(path)][:MAX_NAMES]
    names = sorted(
        entry.name
        for entry in _scan(parent)
        if entry.name.startswith(start) and (start.startswith(".") or entry.name[0] != ".") and _is_folder(entry)
    )
    folders = [os.path.join(parent, name) for name in names[:MAX_NAMES]]
    return [folder for folder in folders if is_under(os.path.realpath(folder), roots)]


def files_matching(folder: str, words: str, *, max_entries: int = MAX_ENTRIES) -> list[str]:
    """Return files of a folder whose path has these letters in order, those with the letters in their name first."""
    wanted = words.lower()
    found: list[tuple[int, int, str]] = []
    for name in _walk(folder, max_entries, time.monotonic() + MAX_SECONDS):
        if (rank := _rank(name.lower(), wanted)) is not None:
            found.append((rank, len(name), name))
    return [name for _, _, name in sorted(found)[:MAX_NAMES]]


def _rank(name: str, wanted: str) -> int | None:
    base = name.rpartition("/")[2]
    if base.startswith(wanted):
        return 0
    if wanted in base:
        return 1
    if wanted in name:
        return 2
    letters = iter(name)
    return 3 if all(letter in letters for letter in wanted) else None


def _walk(folder: str, max_entries: int, deadline: float) -> Iterator[str]:
    """Yield the files below a folder, near ones first, without hidden folders and links to folders.

    Folders count too: a tree may have no files.
    """
    waiting = deque([""])
    seen = 0
    while waiting:
        prefix = waiting.popleft()
        for entry in _scan(os.path.join(folder, prefix)):
            seen += 1
            if seen > max_entries or time.monotonic() > deadline:
                return
            if entry.name.startswith(".") or entry.name in SKIPPED_FOLDERS:
                continue
            name = f"{prefix}{entry.name}"
            if _is_folder(entry, follows=False):
                waiting.append(f"{name}/")
            else:
                yield name


def _scan(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for _, entry in zip(range(MAX_ENTRIES), entries, strict=False)]
    except OSError:
        return []


def _is_folder(entry: os.DirEntry[str], *, follows: bool = True) -> bool:
    try:
        return entry.is_dir(follow_symlinks=follows)
    except OSError:
        return False
