"""What can go wrong with an agent of a registry: the reason as a word, and what to do as a sentence."""

from __future__ import annotations

from typing import Any

from dragoman.errors import DragomanError

# Reason -> exit code of `dragoman agents`. docs/registry.md has the same table.
EXIT_CODES: dict[str, int] = {
    "unknown": 1,  # no such agent
    "platform": 1,  # not for this platform
    "declined": 1,  # the user said no
    "used": 1,  # a running host uses it
    "changed": 1,  # verify and lock --check found a difference
    "tool": 3,  # node, npm, uv or Python is missing or too old
    "version": 4,  # the package index does not have this version
    "young": 4,  # the version is younger than the user's npm allows
    "hash": 5,  # a download differs from what was vouched for
    "archive": 5,  # an archive breaks a rule
    "scripts": 5,  # a package needs its install script
    "silent": 6,  # the agent does not answer initialize
    "network": 7,  # a server does not answer, or not by the rules
    "index": 7,  # the index cannot be read
    "disk": 8,  # no space, no rights
}


class RegistryFault(DragomanError):
    """An agent cannot be found, installed or checked; `why` is a key of EXIT_CODES."""

    def __init__(self, why: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.why = why
        self.details = details

    @property
    def exit_code(self) -> int:
        """The exit code of commands that end with this."""
        return EXIT_CODES[self.why]
