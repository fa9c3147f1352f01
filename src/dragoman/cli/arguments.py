"""Reading a command's arguments: options first, then `--`, then the agent's own command line.

A thin layer on argparse, so that every command fails in the same way: one line that says what to do, exit code 2.
"""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn


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
        mark = arguments.index("--") if "--" in arguments else len(arguments)
        return self.parse_args(arguments[:mark]), arguments[mark + 1 :]

    def read_with_agent(self, arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
        """The options, and the command of an agent, which must be there."""
        options, command = self.read(arguments)
        if not command:
            self.error("name the agent to start after --, as in: -- my-agent --acp")
        return options, command
