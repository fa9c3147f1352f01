"""Tab completion in a chat: slash commands, colon commands, modes, options, and files after `@`.

Takes the text before the cursor, returns candidates. Text of the agent is sanitized, and names that cannot be typed are
left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dragoman.cli.ui.terminal import sanitize_line

# In a larger folder the user narrows the list by typing.
MAX_CANDIDATES = 200

_FILE_MENTION = re.compile(r"""(?:(?<=\s)|^)@("?)(?P<path>[^\s"]*|(?<=")[^"\n]*)$""")
_TYPEABLE = re.compile(r"[^\s\x00-\x1f\x7f-\x9f]+")


class Candidate(NamedTuple):
    """A completion: the text, how many characters before the cursor it replaces, and a description."""

    text: str
    replaced_length: int
    description: str = ""


def complete_slash_command(text_before_cursor: str, commands: Iterable[tuple[str, str]]) -> Iterator[Candidate]:
    """Yield the agent's commands, at the beginning of a prompt."""
    if text_before_cursor.startswith("/") and not re.search(r"\s", text_before_cursor):
        for name, description in commands:
            if _TYPEABLE.fullmatch(name) and name.startswith(text_before_cursor[1:]):
                yield Candidate(f"/{name} ", len(text_before_cursor), sanitize_line(description))


def complete_word(text_before_cursor: str, choices: Iterable[tuple[str, str]]) -> Iterator[Candidate]:
    """Yield the choices that match the last word."""
    typed = "" if text_before_cursor[-1:].isspace() else (text_before_cursor.split() or [""])[-1]
    for word, description in choices:
        if _TYPEABLE.fullmatch(word) and word.lower().startswith(typed.lower()):
            yield Candidate(word, len(typed), sanitize_line(description))


def complete_file(text_before_cursor: str, cwd: str) -> Iterator[Candidate]:
    """Yield files and folders after an `@`."""
    mention = _FILE_MENTION.search(text_before_cursor)
    if mention is None:
        return
    typed = mention["path"]
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
        yield Candidate(text, len(text_before_cursor) - mention.start(), "folder" if is_folder else "")


def _matches_typed(name: str, typed: str) -> bool:
    """Match any part of a name; hidden files only after a dot; no name that cannot be shown."""
    if name.startswith(".") and not typed.startswith("."):
        return False
    return typed.lower() in name.lower() and sanitize_line(name) == name and '"' not in name
