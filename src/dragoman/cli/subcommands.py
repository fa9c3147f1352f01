"""Commands with several actions: find the action and run it, show the help, report the result."""

from __future__ import annotations

import argparse
import shlex
import textwrap
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from dragoman.cli import exit_codes
from dragoman.cli.parser import HELP_WIDTH, Parser, close_word, fit_help, unknown_name, unknown_word

HELP_FLAGS = ("-h", "--help", "help")


class Action(NamedTuple):
    """One action of a command: its function, usage and purpose.

    A function that shares the options of the command takes the parser and the options. One with options of its own is
    named as "module:function", imported when it is needed, and takes its command line ("sessions list") and arguments.
    """

    run: Callable[[Parser, argparse.Namespace], int] | str
    usage: str
    purpose: str


class CommandGroup(Parser):
    """A command with actions: the parser of the options that they share, or only their list."""

    def __init__(
        self,
        command: str,
        usage: str,
        description: str,
        actions: Mapping[str, Action],
        epilog: str,
        default: str = "",
    ) -> None:
        """`default` is the action without an argument; "": show the help, or require an action."""
        super().__init__(command, usage, description, f"{_actions_help(actions.values())}\n\n{epilog}")
        self._command = command
        self._table = actions
        self._default = default
        optional: dict[str, Any] = {"nargs": "?", "default": default} if default else {}
        purpose = f"what to do ({default})" if default else "what to do"
        self.add_argument("action", metavar="ACTION", choices=tuple(actions), help=purpose, **optional)

    def overview(self) -> str:
        """Return the text of --help where each action has its own options."""
        return f"usage: {self.usage}\n\n{self.description}\n\n{self.epilog}"

    def dispatch(self, arguments: list[str]) -> int:
        """Run the action that the first argument names, with its own options."""
        name = arguments[0] if arguments else ""
        if name in HELP_FLAGS or not (name or self._default):
            print(fit_help(self.overview()))
            return exit_codes.OK if name else exit_codes.USAGE
        rest = arguments[1:]
        if name not in self._table:
            if not self._default or (name and not name.startswith("-")):
                problem = unknown_word("action", name, self._table) + self._show_advice(name)
                if "--json" in rest:  # an option of most actions
                    self.write_json_error(problem, "usage", exit_codes.USAGE)
                return self.fail(problem, exit_codes.USAGE)
            name, rest = self._default, arguments
        return self._run_with_own_options(name, rest)

    def _show_advice(self, word: str) -> str:
        """Return how to show the thing that the user may have named instead of an action."""
        takes_name = "show" in self._table and " " in self._table["show"].usage
        if not takes_name or close_word(word, self._table):
            return ""
        return f"; or to show one: dragoman {self._command} show {shlex.quote(word)}"

    def run_own(self, arguments: list[str]) -> int | None:
        """Run the action that the first argument names, if it has options of its own beside those that are shared."""
        name = arguments[0] if arguments else ""
        if name not in self._table or not isinstance(self._table[name].run, str):
            return None
        return self._run_with_own_options(name, arguments[1:])

    def _run_with_own_options(self, name: str, arguments: list[str]) -> int:
        module, _, function = str(self._table[name].run).partition(":")
        code: int = getattr(import_module(f"dragoman.cli.{module}"), function)(f"{self._command} {name}", arguments)
        return code

    def run(self, arguments: list[str]) -> int:
        """Run the action of a command that takes nothing after `--`."""
        return self.run_action(self.read_options(arguments))

    def run_action(self, options: argparse.Namespace) -> int:
        """Run the action that the shared options name."""
        action = self._table[options.action].run
        assert not isinstance(action, str)
        return action(self, options)


def _actions_help(actions: Iterable[Action]) -> str:
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
    parser.fail(unknown_name(noun, name, known))
    return None
