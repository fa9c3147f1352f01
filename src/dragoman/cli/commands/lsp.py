"""`dragoman lsp`: which language servers are known and installed; a proxy that adds their diagnostics to an agent."""

from __future__ import annotations

import argparse
import os
from typing import Any

import msgspec

from dragoman.cli import exit_codes
from dragoman.cli.parser import Parser
from dragoman.cli.subcommands import Action, CommandGroup
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.errors import ConfigFault

EPILOG = """\
With --lsp, run, chat, serve and translate start the language servers of the
files that an agent reads or writes, and show their diagnostics in the tool call
that wrote a file. Of several servers for one group, the first that is installed
is used. config.toml changes them:

  [lsp.ty]
  on = false

  [lsp.rust]
  command = ["rust-analyzer"]
  files = ["*.rs"]
  roots = ["Cargo.toml"]

docs/lsp.md describes everything.

exit codes:
    0  at least one server is installed
    1  none is installed
    2  wrong usage, or a configuration that cannot be used

examples:
  dragoman lsp status
  dragoman lsp status --json
  dragoman run --lsp 'fix the types in app.py'"""


def main(arguments: list[str]) -> int:
    """Parse the arguments and run the action."""
    group = CommandGroup("lsp", "[status] [OPTIONS]", "Show the language servers.", ACTIONS, EPILOG, default="status")
    group.add_flag("--json", "print JSON")
    return group.run(arguments)


def show_status(parser: Parser, options: argparse.Namespace) -> int:
    """Print each server: whether it is installed, used, for which files, and how to install it."""
    from dragoman.bridge.lsp.workspace_observer import user_table

    try:
        table = user_table()
    except ConfigFault as fault:
        parser.print_json_error(str(fault))
        for line in fault.faults:
            parser.fail(line, is_json_done=True)
        return exit_codes.USAGE
    found: list[dict[str, Any]] = []
    used: set[str] = set()
    for row in table:
        program = row.find_program()
        is_used = program is not None and row.group not in used
        used |= {row.group} if is_used else set()
        found.append(
            {
                "name": row.name,
                "group": row.group,
                "command": row.argv,
                "program": program,
                "used": is_used,
                "files": list(row.files),
                "roots": list(row.roots),
                "install": row.install,
            }
        )
    if options.json:
        print(msgspec.json.encode({"servers": found}).decode())
        return exit_codes.OK if used else exit_codes.FAILED
    width = max((len(each["name"]) for each in found), default=0)
    for each in found:
        home = os.path.expanduser("~")
        place = str(each["program"] or "").replace(home, "~", 1)
        state = ("used" if each["used"] else "not used") if place else "missing"
        detail = place or (f"install: {each['install']}" if each["install"] else "not on PATH")
        line = f"{each['name']:{width}}  {state:8}  {' '.join(each['files'])}  {detail}"
        print(sanitize_line(line))
    return exit_codes.OK if used else exit_codes.FAILED


ACTIONS = {"status": Action(show_status, "status", "known language servers, and which of them would be used")}
