"""Commands with several actions: find the action, show the help.

A SubcommandGroup has a module and a parser per action; an ActionParser has one parser and a function per action.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from dragoman.cli import exit_codes
from dragoman.cli.parser import Parser

HELP_WIDTH = 80  # columns
HELP_FLAGS = ("-h", "--help", "help")


class Subcommand(NamedTuple):
    """One action: its module, usage and purpose."""

    module: str
    usage: str
    purpose: str


class SubcommandGroup(NamedTuple):
    """A command with its actions, for --help."""

    command: str
    usage: str
    description: str
    actions: Mapping[str, Subcommand]
    epilog: str
    default_action: str = ""  # the action without an argument; "": show the help

    def overview(self) -> str:
        """Return the text of --help."""
        usage = f"usage: dragoman {self.command} {self.usage}"
        return f"{usage}\n\n{self.description}\n\n{_actions_help(self.actions.values())}\n\n{self.epilog}"

    def run(self, arguments: list[str]) -> int:
        """Run the action that the arguments name."""
        name = arguments[0] if arguments else ""
        if name in HELP_FLAGS or not (name or self.default_action):
            print(self.overview())
            return exit_codes.OK if name else exit_codes.USAGE
        if name in self.actions:
            rest = arguments[1:]
        elif self.default_action and (not name or name.startswith("-")):
            name, rest = self.default_action, arguments
        else:
            problem = f"there is no action {name!r}; choose one of: {', '.join(self.actions)}"
            print(f"dragoman {self.command}: {problem}", file=sys.stderr)
            return exit_codes.USAGE
        code: int = import_module(f"dragoman.cli.{self.actions[name].module}").main(name, rest)
        return code


class Action(NamedTuple):
    """One action of an ActionParser: its function, usage and purpose."""

    run: Callable[[Parser, argparse.Namespace], int]
    usage: str
    purpose: str


class ActionParser(Parser):
    """The parser of a command whose actions are functions and share their options."""

    def __init__(
        self,
        command: str,
        usage: str,
        description: str,
        actions: Mapping[str, Action],
        epilog: str,
        default: str | None = None,
    ) -> None:
        super().__init__(command, usage, description, f"{_actions_help(actions.values())}\n\n{epilog}")
        self._functions = {name: action.run for name, action in actions.items()}
        optional: dict[str, Any] = {"nargs": "?", "default": default} if default else {}
        purpose = f"what to do ({default})" if default else "what to do"
        self.add_argument("action", choices=tuple(actions), help=purpose, **optional)

    def run(self, arguments: list[str]) -> int:
        """Run the action of a command that takes nothing after `--`."""
        return self.run_action(self.read_options(arguments))

    def run_action(self, options: argparse.Namespace) -> int:
        """Run the action that the options name."""
        return self._functions[options.action](self, options)


def _actions_help(actions: Iterable[Subcommand | Action]) -> str:
    rows = list(actions)
    width = max(len(each.usage) for each in rows)
    lines = []
    for each in rows:
        first, *more = textwrap.wrap(each.purpose, HELP_WIDTH - width - 4)
        lines += [f"  {each.usage:{width}}  {first}", *(f"{'':{width + 4}}{line}" for line in more)]
    return "\n".join(["actions:", *lines])


def require_name(parser: Parser, options: argparse.Namespace, noun: str) -> str:
    """Return the name that an action needs."""
    if options.name is None:
        parser.error(f"{options.action} needs the name of {noun}")
    return str(options.name)


def find_name(parser: Parser, options: argparse.Namespace, noun: str, known: Mapping[str, object]) -> str | None:
    """Return the name if it is configured; otherwise report it and return None."""
    name = require_name(parser, options, noun)
    if name in known:
        return name
    noun = noun.partition(" ")[2]
    print(
        f"{parser.prog}: there is no {noun} {name!r}; configured {noun}s: {', '.join(known) or 'none'}", file=sys.stderr
    )
    return None
