"""Reading a command's arguments: options first, then `--`, then the agent's own command line.

A thin layer on argparse, so that every command fails in the same way: one line that says what to do, exit code 2; and
so that what a command takes can be looked at without running it (for shell completion).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import NoReturn

# What `--host` means alone. No host can be called so.
DEFAULT_HOST = "-"

_is_capturing: ContextVar[bool] = ContextVar("describing", default=False)


class ParserCaptured(Exception):
    """Raised in place of reading, while somebody only wants to know what a command takes."""

    def __init__(self, parser: Parser) -> None:
        self.parser = parser


class Parser(argparse.ArgumentParser):
    """A parser of options whose faults are one line."""

    def __init__(self, name: str, usage: str, description: str, epilog: str) -> None:
        super().__init__(
            prog=f"dragoman {name}",
            usage=f"dragoman {name} {usage}",
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where the help is."""
        print(f"{self.prog}: {message}; see {self.prog} --help", file=sys.stderr)
        sys.exit(2)

    def read(self, arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
        """The options, and the words after `--`."""
        if _is_capturing.get():
            raise ParserCaptured(self)
        mark = arguments.index("--") if "--" in arguments else len(arguments)
        return self.parse_args(arguments[:mark]), arguments[mark + 1 :]

    def read_with_agent(self, arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
        """The options, and the command of an agent, which must be there."""
        options, command = self.read(arguments)
        if not command:
            self.error("name the agent to start after --, as in: -- my-agent --acp")
        return options, command


def add_host_options(parser: Parser) -> None:
    """The flags of commands that can use a host."""
    parser.add_argument(
        "--host",
        metavar="HOST",
        nargs="?",
        const=DEFAULT_HOST,
        help="in this host: a name of `dragoman hosts`, or an URL; alone, the default one",
    )
    parser.add_argument("--token-file", metavar="FILE", help="with --host: where its token is (or DRAGOMAN_TOKEN)")


def reject_host_options(parser: Parser, options: argparse.Namespace, instead: str) -> None:
    """End a command that was to do with a host what only its own machine can: say where and how it is done."""
    if options.host or options.token_file:
        parser.error(f"this is done on the machine where the host runs, without --host: {instead}")


def capture_parser(main: Callable[[list[str]], int], arguments: Sequence[str] = ()) -> Parser | None:
    """The parser that a command reads its arguments with, after these; None for one that reads them by hand."""
    token = _is_capturing.set(True)
    try:
        main(list(arguments))
    except ParserCaptured as found:
        return found.parser
    finally:
        _is_capturing.reset(token)
    return None
