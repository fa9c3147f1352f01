"""The command `dragoman`: finds the module of a command and lets it work.

Every editor pays for what is imported here each time it starts an agent, so nothing is that one command does not need.
Expected faults end as one line on stderr and an exit code; a traceback is always a bug of ours.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple


class CommandHelp(NamedTuple):
    """A command: how it is called, and what it is for."""

    usage: str
    purpose: str


# A command is cli/commands/NAME.py, which has `main(arguments) -> exit code`, or has a folder of its own.
COMMAND_PACKAGES = {"chat": "chat.chat", "sessions": "sessions", "inspect": "inspect", "check": "check"}
COMMANDS: dict[str, CommandHelp] = {
    "demo": CommandHelp("demo", "talk with the agent that ships with Dragoman"),
    "chat": CommandHelp("chat [--agent NAME | -- CMD ARG...]", "talk with an agent, line by line"),
    "run": CommandHelp("run PROMPT [--agent NAME | -- CMD ARG...]", "give an agent one prompt and watch it work"),
    "sessions": CommandHelp(
        "sessions [list|show|search|...]", "what was said, kept: read it, search it, take it elsewhere"
    ),
    "serve": CommandHelp(
        "serve [--agent NAME...] [--root DIR...]", "be a host: sessions that outlive the editor, shared"
    ),
    "attach": CommandHelp("attach [HOST] [--session SESSION]", "give an editor an agent of a host"),
    "hosts": CommandHelp("hosts [add|remove|default]", "hosts by name: list them, add one, choose the default"),
    "tokens": CommandHelp("tokens create|list|revoke", "who may use your host"),
    "translate": CommandHelp(
        "translate [OPTIONS] -- CMD ARG...", "let an editor and an agent of different dialects talk"
    ),
    "agent": CommandHelp("agent everything [--dialect D]", "be an agent: deterministic, offline, for writing clients"),
    "agents": CommandHelp("agents [add|remove|default]", "agents by name: list them, add one, choose the default"),
    "config": CommandHelp("config [show|path|check]", "where your settings are, and what they say"),
    "policy": CommandHelp(
        "policy check|explain|trust", "what agents may do: check the rules, explain, trust a project"
    ),
    "grants": CommandHelp("grants list|revoke", "answers that were remembered: list them, take them back"),
    "audit": CommandHelp("audit show|verify|export", "what agents wanted, what was decided and why"),
    "inspect": CommandHelp(
        "inspect run|show|stats|...", "record what passes between a client and an agent, and look at it"
    ),
    "check": CommandHelp("check agent|client ... -- CMD ARG...", "try whether an agent or a client keeps the protocol"),
    "completion": CommandHelp("completion bash|zsh|fish", "a script that completes all this in your shell"),
}

EXAMPLES = """\
examples:
  dragoman demo
  dragoman chat --agent opencode
  dragoman run --prompt 'What does this project do?' -- dragoman agent everything
  git diff | dragoman run 'Review this' -- my-agent --acp
  dragoman translate --agent-dialect draft -- my-agent"""

EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells count
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE: whoever read our output has gone
EXIT_USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the result is the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview())
        return 0 if words else EXIT_USAGE
    if words[0] in ("-V", "--version"):
        from dragoman import __version__

        print(f"dragoman {__version__}")
        return 0
    if words[0] not in COMMANDS:
        print(f"dragoman: there is no command {words[0]!r}; try: {', '.join(COMMANDS)}", file=sys.stderr)
        return EXIT_USAGE
    return run_command(words[0], words[1:])


def command_module(name: str) -> str:
    """The dotted name of the module that has a command's `main`."""
    return f"dragoman.cli.{COMMAND_PACKAGES.get(name, f'commands.{name}')}"


def run_command(name: str, arguments: list[str]) -> int:
    """Run a command's module, with every expected end turned into an exit code."""
    from dragoman.errors import DragomanError

    try:
        code: int = import_module(command_module(name)).main(arguments)
        return code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes stdout once more at its end; there must be something to take it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return EXIT_BROKEN_PIPE
    except DragomanError as error:
        from dragoman.cli.ui.terminal import sanitize

        print(f"dragoman {name}: {sanitize(str(error))}", file=sys.stderr)
        return 1


def overview() -> str:
    """What `dragoman --help` says."""
    width = max(len(entry.usage) for entry in COMMANDS.values())
    listing = "\n".join(f"  dragoman {entry.usage:{width}}  {entry.purpose}" for entry in COMMANDS.values())
    return f"""\
dragoman: the Agent Client Protocol. Editors and coding agents, in whatever dialect of it they speak.

{listing}

{EXAMPLES}

`dragoman COMMAND --help` tells the rest."""
