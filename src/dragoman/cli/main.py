"""The command `dragoman`: find the module of a command and run it.

Editors start this for every agent, so it imports only what the command needs. Expected errors end as one line on
stderr and an exit code; a traceback is always a bug.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from dragoman.cli import exit_codes, json_error

# A command is cli/commands/NAME.py, which has `main(arguments) -> exit code`, or has a folder of its own;
# a module outside of cli/ is named in full.
COMMAND_PACKAGES = {
    "chat": "chat.command",
    "tui": "dragoman.tui.command",
    "sessions": "sessions",
    "inspect": "inspect",
    "check": "check",
    "editors": "editors",
    "team": "team",
    "compare": "team.compare",
    "race": "team.race",
}

# Command to purpose. The purpose must fit into 80 columns after the name.
COMMANDS: dict[str, str] = {
    "demo": "chat with the built-in demo agent (needs no model)",
    "chat": "chat with an agent in the terminal",
    "tui": "work with several agents in a full-screen terminal",
    "run": "send one prompt to an agent and show its work",
    "team": "let several agents work on one task, as one agent",
    "compare": "give several agents one prompt, and compare what they do",
    "race": "give several agents one prompt; the first that passes wins",
    "sessions": "list, show, search, export and share stored sessions",
    "serve": "run a host: shared sessions that continue without an editor",
    "attach": "connect an editor to an agent on a host",
    "hosts": "list, add and remove hosts; choose the default host",
    "store": "copy, back up and verify the sessions of a host",
    "tokens": "create, list and revoke access tokens for your host",
    "fleet": "show the nodes of a fleet, drain a node, move a session",
    "translate": "connect an editor and an agent that use different dialects",
    "conduct": "run a chain of proxies before an agent",
    "mcp": "offer an agent as an MCP server; list and test MCP servers",
    "agent": "run the built-in test agent on standard input and output",
    "agents": "list, add and remove agents; choose the default agent",
    "editors": "make Zed, JetBrains, VS Code, Neovim, Emacs start an agent",
    "lsp": "show the language servers whose diagnostics --lsp adds",
    "config": "show and check your configuration",
    "policy": "check policy rules, explain a decision, trust a project",
    "grants": "list and revoke remembered permissions",
    "audit": "show, verify and export the log of permission decisions",
    "inspect": "record and examine the messages between client and agent",
    "check": "test an agent or a client for conformance to the protocol",
    "completion": "print a completion script for bash, zsh or fish",
}

# Words that are no commands, and the commands that do this.
COMMAND_SYNONYMS: dict[str, str] = {
    "share": "sessions share",
    "export": "sessions export",
    "import": "sessions import",
    "fork": "sessions fork",
    "delete": "sessions delete",
    "rename": "sessions rename",
    "history": "sessions",
    "resume": "chat --session NAME",
    "continue": "chat --session NAME",
    "install": "agents install",
    "search": "agents search",
    "doctor": "agents doctor",
    "ask": "run",
    "prompt": "run",
    "host": "serve",
    "server": "serve",
    "connect": "attach",
}

EXAMPLES = """\
examples:
  dragoman demo
  dragoman chat --agent opencode
  dragoman run --prompt 'What is this project?' -- dragoman agent everything
  git diff | dragoman run 'Review this' -- my-agent --acp
  dragoman translate --agent-dialect draft -- my-agent"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; turn every expected error into one line and an exit code."""
    from dragoman.errors import DragomanError

    json_error.set_json_error_writer(None)
    argv = list(sys.argv[1:] if arguments is None else arguments)
    _open_standard_streams()
    name = f"dragoman {argv[0]}" if argv and argv[0] in COMMANDS else "dragoman"
    try:
        try:
            return _dispatch(argv)
        finally:
            sys.stdout.flush()  # an error of the last write, too, is reported here and not by the interpreter
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    except DragomanError as error:
        from dragoman.cli.messages import error_kind
        from dragoman.cli.ui.terminal import sanitize

        json_error.print_json_error(str(error), error_kind(error), exit_codes.FAILED)
        return _report(f"{name}: {sanitize(str(error))}")
    except UnicodeEncodeError:
        unreadable = next((each for each in argv if not _is_text(each)), None)
        if unreadable is None:
            raise
        return _report(f"{name}: the argument {unreadable!a} is not UTF-8; write it in UTF-8", exit_codes.USAGE)
    except OSError as error:
        if error.filename is None and not _has_folder():
            return _report(f"{name}: the current folder was removed; change to another one")
        if error.filename is not None:
            problem = f"{error.filename!s}: {error.strerror}{_folder_advice(str(error.filename))}"
            json_error.print_json_error(problem, "failed", exit_codes.FAILED)
            return _report(f"{name}: {problem}")
        with suppress(OSError, ValueError):  # the interpreter flushes stdout once more at exit, so it must work
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return exit_codes.BROKEN_PIPE
        return _report(f"{name}: cannot write the output: {error.strerror or error}")


def _dispatch(argv: list[str]) -> int:
    if argv and argv[0] == "help" and len(argv) > 1:
        argv = [*argv[1:], "--help"]
    if not argv or argv[0] in ("-h", "--help", "help"):
        from dragoman.cli.parser import fit_help

        print(fit_help(overview()))
        return exit_codes.OK if argv else exit_codes.USAGE
    if argv[0] in ("-V", "--version", "version"):
        from dragoman import __version__

        print(f"dragoman {__version__}")
        return exit_codes.OK
    if argv[0] not in COMMANDS:
        from dragoman.cli.parser import unknown_word

        if argv[0] in COMMAND_SYNONYMS:
            meant = f"did you mean dragoman {COMMAND_SYNONYMS[argv[0]]}?"
            return _report(f"dragoman: there is no command {argv[0]!r}; {meant}", exit_codes.USAGE)
        return _report(f"dragoman: {unknown_word('command', argv[0], COMMANDS)}", exit_codes.USAGE)
    return run_command(argv[0], argv[1:])


def _open_standard_streams() -> None:
    """Open the null device for standard streams that are closed, so that no other file takes their numbers."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            if not _is_open(number):
                os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  (until the end)


def _is_text(argument: str) -> bool:
    """Return whether an argument can be written: its bytes were in the encoding of the terminal."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def _has_folder() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _report(text: str, code: int = exit_codes.FAILED) -> int:
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
    return code


def _folder_advice(path: str) -> str:
    """Return what to do if a folder of the user cannot be written: the variable that names another one."""
    from dragoman.config.paths import user_paths

    paths = user_paths()
    folders = {
        "XDG_CONFIG_HOME": paths.config,
        "XDG_STATE_HOME": paths.state,
        "XDG_DATA_HOME": paths.data,
        "XDG_CACHE_HOME": paths.cache,
    }
    concerned = [
        variable
        for variable, folder in folders.items()
        if f"{folder}/".startswith(f"{path.rstrip('/')}/") or path.startswith(f"{folder}/")
    ]
    if not concerned:
        return ""
    return f"; set {concerned[0] if len(concerned) == 1 else 'HOME'} to a folder that can be written"


def command_module(name: str) -> str:
    """Return the dotted name of the module that has a command's `main`."""
    module = COMMAND_PACKAGES.get(name, f"commands.{name}")
    return module if module.startswith("dragoman.") else f"dragoman.cli.{module}"


def run_command(name: str, arguments: list[str]) -> int:
    """Run a command's module."""
    code: int = import_module(command_module(name)).main(arguments)
    return code


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
