"""Find the git indexes that a command line changes. Only one session at a time may run such a command.

git refuses a second command while one changes the index; with a lease it waits instead, or names who runs it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from dragoman.policy.shell_commands import parse_command_line

# Subcommands that write the index, and with it files and the branch.
WRITERS = frozenset(
    {"add", "am", "apply", "checkout", "cherry-pick", "clean", "commit", "merge", "mv", "pull", "read-tree", "rebase"}
    | {"reset", "restore", "revert", "rm", "stash", "switch", "update-index"}
)

# Options before the subcommand that take the next word.
_WITH_VALUE = frozenset({"-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"})

# A file `.git` of a worktree has one short line.
_MAX_LINK = 4096


def changed_indexes(line: str, folder: str) -> list[str]:
    """Return the paths of the indexes that a command line, run in a folder, changes; as far as its words tell."""
    if "git" not in line:  # most lines
        return []
    places = (_place_of(argv, folder) for argv in parse_command_line(line).commands)
    return sorted({index for place in places if place is not None and (index := index_of(place)) is not None})


def _place_of(argv: Sequence[str], folder: str) -> str | None:
    """Return the folder in which a command changes an index; None if it does not."""
    words = [word for word in argv if word]
    while words and "=" in words[0].partition("/")[0]:  # variables before the program
        del words[0]
    if not words or os.path.basename(words[0]) != "git":
        return None
    place, number = folder, 1
    while number < len(words) and words[number].startswith("-"):
        if words[number] == "-C" and number + 1 < len(words):
            place = os.path.join(place, words[number + 1])
        number += 2 if words[number] in _WITH_VALUE or words[number] == "-C" else 1
    return place if number < len(words) and words[number] in WRITERS else None


def index_of(folder: str) -> str | None:
    """Return the path of the index of the repository or worktree that has this folder; None if there is none."""
    place = os.path.realpath(folder)
    while True:
        found = os.path.join(place, ".git")
        if os.path.isdir(found):
            return os.path.join(found, "index")
        if os.path.isfile(found):
            return _linked_index(place, found)
        parent = os.path.dirname(place)
        if parent == place:
            return None
        place = parent


def _linked_index(place: str, link: str) -> str | None:
    try:
        with open(link, encoding="utf-8", errors="surrogateescape") as file:
            word, _, target = file.read(_MAX_LINK).partition(":")
    except OSError:
        return None
    return os.path.join(os.path.realpath(os.path.join(place, target.strip())), "index") if word == "gitdir" else None
