"""A command with several actions, each in a module with a parser of its own: which one is meant, and what help says.

Takes a table of actions and the words after the command; the module that has the action does the rest. Above are check,
inspect, sessions and others of their kind.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

from dragoman.cli import exit_codes

HELP_FLAGS = ("-h", "--help", "help")


class Subcommand(NamedTuple):
    """One action: the module that has it, how it is called, what it is for."""

    module: str
    usage: str
    purpose: str


class SubcommandGroup(NamedTuple):
    """A command as its help tells it: name, usage, what it is for, its actions, and what stands below their list."""

    command: str
    usage: str
    description: str
    actions: Mapping[str, Subcommand]
    epilog: str
    default_action: str = ""  # the action that is meant when none is named; "": the help is shown

    def overview(self) -> str:
        """What --help says."""
        width = max(len(action.usage) for action in self.actions.values())
        rows = (f"  dragoman {self.command} {each.usage:{width}}  {each.purpose}" for each in self.actions.values())
        listing = "\n".join(rows)
        return f"usage: dragoman {self.command} {self.usage}\n\n{self.description}\n\n{listing}\n\n{self.epilog}"

    def run(self, arguments: list[str]) -> int:
        """Find the action and let it work."""
        name = arguments[0] if arguments else ""
        if name in HELP_FLAGS or not (name or self.default_action):
            print(self.overview())
            return exit_codes.OK if name else exit_codes.USAGE
        if name in self.actions:
            rest = arguments[1:]
        elif self.default_action and (not name or name.startswith("-")):
            name, rest = self.default_action, arguments
        else:
            said = f"there is no {name!r}; try: {', '.join(self.actions)}"
            print(f"dragoman {self.command}: {said}", file=sys.stderr)
            return exit_codes.USAGE
        code: int = import_module(f"dragoman.cli.{self.actions[name].module}").main(name, rest)
        return code
