"""What Tab offers in a conversation: the agent's slash commands, our own, modes and options, and files after `@`.

Takes the text before the cursor, gives candidates; pure but for looking into folders. What comes from the agent is
made visible, and a name that could not be typed is not offered. Below is nothing of any line editor.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dragoman.cli.ui.terminal import sanitize_line

# More are not looked at: a folder of thousands is narrowed down by typing.
MAX_CANDIDATES = 200

_FILE_MENTION = re.compile(r"""(?:(?<=\s)|^)@("?)(?P<path>[^\s"]*|(?<=")[^"\n]*)$""")
_TYPEABLE = re.compile(r"[^\s\x00-\x1f\x7f-\x9f]+")


class Candidate(NamedTuple):
    """Something to complete with: the text, how many characters before the cursor it replaces, and what it is."""

    text: str
    replaced_length: int
    description: str = ""


def complete_slash_command(text_before_cursor: str, commands: Iterable[tuple[str, str]]) -> Iterator[Candidate]:
    """The agent's commands, at the beginning of a prompt."""
    if text_before_cursor.startswith("/") and not re.search(r"\s", text_before_cursor):
        for name, about in commands:
            if _TYPEABLE.fullmatch(name) and name.startswith(text_before_cursor[1:]):
                yield Candidate(f"/{name} ", len(text_before_cursor), sanitize_line(about))


def complete_word(text_before_cursor: str, choices: Iterable[tuple[str, str]]) -> Iterator[Candidate]:
    """One of several words, where the last one is being typed."""
    typed = "" if text_before_cursor[-1:].isspace() else (text_before_cursor.split() or [""])[-1]
    for word, about in choices:
        if _TYPEABLE.fullmatch(word) and word.lower().startswith(typed.lower()):
            yield Candidate(word, len(typed), sanitize_line(about))


def complete_file(text_before_cursor: str, cwd: str) -> Iterator[Candidate]:
    """Files and folders after an `@`."""
    found = _FILE_MENTION.search(text_before_cursor)
    if found is None:
        return
    typed = found["path"]
    folder, part = os.path.split(os.path.expanduser(typed) if typed.startswith("~") else typed)
    try:
        with os.scandir(os.path.join(cwd, folder)) as entries:
            listed = sorted(
                (entry for entry in entries if _matches_typed(entry.name, part)),
                key=lambda entry: (not entry.name.startswith(part), not entry.is_dir(), entry.name.lower()),
            )
    except OSError:
        return
    for entry in listed[:MAX_CANDIDATES]:
        path = os.path.join(os.path.split(typed)[0], entry.name)
        is_folder = entry.is_dir()
        quoted = f'"{path}"' if re.search(r"\s", path) else path
        text = f"@{quoted}" if not is_folder else f"@{path}/" if quoted == path else f'@"{path}/'
        yield Candidate(text, len(text_before_cursor) - found.start(), "folder" if is_folder else "")


def _matches_typed(name: str, typed: str) -> bool:
    """Hidden files only for who types a dot; any part of the name will do; nothing that could not be shown."""
    if name.startswith(".") and not typed.startswith("."):
        return False
    return typed.lower() in name.lower() and sanitize_line(name) == name and '"' not in name
