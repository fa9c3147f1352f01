"""The command `dragoman`: find the module of a command and run it.

Editors start this for every agent, so it imports only what the command needs. Expected errors end as one line on
stderr and an exit code; a traceback is always a bug.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from dragoman.cli import exit_codes

# A command is cli/commands/NAME.py, which has `main(arguments) -> exit code`, or has a folder of its own.
COMMAND_PACKAGES = {"chat": "chat.chat", "sessions": "sessions", "inspect": "inspect", "check": "check"}

# Command to purpose. The purpose must fit into 80 columns after the name.
COMMANDS: dict[str, str] = {
    "demo": "chat with the built-in demo agent (needs no model)",
    "chat": "chat with an agent in the terminal",
    "run": "send one prompt to an agent and show its work",
    "sessions": "list, show, search, export and share stored sessions",
    "serve": "run a host: shared sessions that continue without an editor",
    "attach": "connect an editor to an agent on a host",
    "hosts": "list, add and remove hosts; choose the default host",
    "tokens": "create, list and revoke access tokens for your host",
    "translate": "connect an editor and an agent that use different dialects",
    "agent": "run the built-in test agent on standard input and output",
    "agents": "list, add and remove agents; choose the default agent",
    "config": "show and check your configuration",
    "policy": "check policy rules, explain a decision, trust a project",
    "grants": "list and revoke remembered permissions",
    "audit": "show, verify and export the log of permission decisions",
    "inspect": "record and examine the messages between client and agent",
    "check": "test an agent or a client for conformance to the protocol",
    "completion": "print a completion script for bash, zsh or fish",
}

EXAMPLES = """\
examples:
  dragoman demo
  dragoman chat --agent opencode
  dragoman run --prompt 'What is this project?' -- dragoman agent everything
  git diff | dragoman run 'Review this' -- my-agent --acp
  dragoman translate --agent-dialect draft -- my-agent"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(overview())
        return exit_codes.OK if argv else exit_codes.USAGE
    if argv[0] in ("-V", "--version"):
        from dragoman import __version__

        print(f"dragoman {__version__}")
        return exit_codes.OK
    if argv[0] not in COMMANDS:
        print(f"dragoman: there is no command {argv[0]!r}; choose one of: {', '.join(COMMANDS)}", file=sys.stderr)
        return exit_codes.USAGE
    return run_command(argv[0], argv[1:])


def command_module(name: str) -> str:
    """Return the dotted name of the module that has a command's `main`."""
    return f"dragoman.cli.{COMMAND_PACKAGES.get(name, f'commands.{name}')}"


def run_command(name: str, arguments: list[str]) -> int:
    """Run a command's module; turn every expected error into an exit code."""
    from dragoman.errors import DragomanError

    try:
        code: int = import_module(command_module(name)).main(arguments)
        return code
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes stdout once more at exit, so stdout must be open.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return exit_codes.BROKEN_PIPE
    except DragomanError as error:
        from dragoman.cli.ui.terminal import sanitize

        print(f"dragoman {name}: {sanitize(str(error))}", file=sys.stderr)
        return exit_codes.FAILED


def overview() -> str:
    """Return the text of `dragoman --help`."""
    width = max(map(len, COMMANDS))
    listing = "\n".join(f"  {name:{width}}  {purpose}" for name, purpose in COMMANDS.items())
    return f"""\
usage: dragoman COMMAND [ARGUMENTS]

Use coding agents over the Agent Client Protocol (ACP), in any of its dialects;
connect editors to agents, and host their sessions.

commands:
{listing}

{EXAMPLES}

Run `dragoman COMMAND --help` for the options of a command."""
