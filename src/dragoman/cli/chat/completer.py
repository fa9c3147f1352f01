"""What Tab offers in a conversation: the agent's slash commands, our own, modes and options, and files after `@`.

Takes the text before the cursor, gives candidates; pure but for looking into folders. What comes from the agent is
made visible, and a name that could not be typed is not offered. Below is nothing of any line editor.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dragoman.cli.ui.terminal import single

# More are not looked at: a folder of thousands is narrowed down by typing.
OFFERED = 200

_FILE = re.compile(r"""(?:(?<=\s)|^)@("?)(?P<path>[^\s"]*|(?<=")[^"\n]*)$""")
_TYPEABLE = re.compile(r"[^\s\x00-\x1f\x7f-\x9f]+")


class Candidate(NamedTuple):
    """Something to complete with: the text, how many characters before the cursor it replaces, and what it is."""

    text: str
    replaces: int
    about: str = ""


def slash(before: str, commands: Iterable[tuple[str, str]]) -> Iterator[Candidate]:
    """The agent's commands, at the beginning of a prompt."""
    if before.startswith("/") and not re.search(r"\s", before):
        for name, about in commands:
            if _TYPEABLE.fullmatch(name) and name.startswith(before[1:]):
                yield Candidate(f"/{name} ", len(before), single(about))


def words(before: str, known: Iterable[tuple[str, str]]) -> Iterator[Candidate]:
    """One of several words, where the last one is being typed."""
    typed = "" if before[-1:].isspace() else (before.split() or [""])[-1]
    for word, about in known:
        if _TYPEABLE.fullmatch(word) and word.lower().startswith(typed.lower()):
            yield Candidate(word, len(typed), single(about))


def files(before: str, cwd: str) -> Iterator[Candidate]:
    """Files and folders after an `@`."""
    found = _FILE.search(before)
    if found is None:
        return
    typed = found["path"]
    folder, part = os.path.split(os.path.expanduser(typed) if typed.startswith("~") else typed)
    try:
        with os.scandir(os.path.join(cwd, folder)) as entries:
            listed = sorted(
                (entry for entry in entries if _is_wanted(entry.name, part)),
                key=lambda entry: (not entry.name.startswith(part), not entry.is_dir(), entry.name.lower()),
            )
    except OSError:
        return
    for entry in listed[:OFFERED]:
        path = os.path.join(os.path.split(typed)[0], entry.name)
        is_folder = entry.is_dir()
        quoted = f'"{path}"' if re.search(r"\s", path) else path
        text = f"@{quoted}" if not is_folder else f"@{path}/" if quoted == path else f'@"{path}/'
        yield Candidate(text, len(before) - found.start(), "folder" if is_folder else "")


def _is_wanted(name: str, part: str) -> bool:
    """Hidden files only for who types a dot; any part of the name will do; nothing that could not be shown."""
    if name.startswith(".") and not part.startswith("."):
        return False
    return part.lower() in name.lower() and single(name) == name and '"' not in name
