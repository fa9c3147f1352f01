"""`dragoman sessions`: what was said to agents, kept: list it, read it, search it, take it elsewhere.

Each action has its own parser; here is the table of them. Below are shelf and the store.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import NamedTuple

USAGE = 2


class Action(NamedTuple):
    """One action: the module that has it, how it is called, what it is for."""

    module: str
    usage: str
    purpose: str


ACTIONS: dict[str, Action] = {
    "list": Action("sessions_read", "list", "what is kept, the newest first (also without a word)"),
    "show": Action("sessions_read", "show SESSION", "what was said and done in one"),
    "search": Action("sessions_read", "search WORDS", "find words in all of them"),
    "fork": Action("sessions_change", "fork SESSION [NAME]", "a copy that goes its own way"),
    "rename": Action("sessions_change", "rename SESSION [NAME]", "give it a name, or take it away"),
    "export": Action("sessions_file", "export SESSION [FILE]", "one file to take elsewhere"),
    "import": Action("sessions_file", "import FILE", "keep a session that was exported"),
    "delete": Action("sessions_change", "delete SESSION...", "forget them"),
    "expire": Action("sessions_change", "expire --older 90d", "forget the old ones"),
    "repair": Action("sessions_mend", "repair [SESSION]", "make a damaged store readable again"),
}

EXAMPLES = """\
A SESSION is a name, an id, or the beginning of an id (eight characters or more). `dragoman run --session NAME` and
`dragoman chat --session NAME` begin a session of that name, or go on with it.

examples:
  dragoman sessions
  dragoman sessions search 'parse error'
  dragoman sessions show roof | less
  dragoman run --session roof 'Where were we?'
  dragoman sessions export roof roof.session"""


def main(arguments: list[str]) -> int:
    """Find the action and let it work."""
    if arguments and arguments[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    name, rest = (arguments[0], arguments[1:]) if arguments and arguments[0] in ACTIONS else ("list", arguments)
    if rest and name == "list" and not arguments[0].startswith("-") and arguments[0] != "list":
        said = f"there is no {arguments[0]!r}; try: {', '.join(ACTIONS)}"
        print(f"dragoman sessions: {said}", file=sys.stderr)
        return USAGE
    code: int = import_module(f"dragoman.cli.{ACTIONS[name].module}").main(name, rest)
    return code


def overview() -> str:
    """What `dragoman sessions --help` says."""
    width = max(len(action.usage) for action in ACTIONS.values())
    listing = "\n".join(f"  dragoman sessions {each.usage:{width}}  {each.purpose}" for each in ACTIONS.values())
    return f"""\
usage: dragoman sessions [ACTION] ...

What was said to agents, kept.

{listing}

{EXAMPLES}

`dragoman sessions ACTION --help` tells the rest; docs/store.md, how it is kept."""
