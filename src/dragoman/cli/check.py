"""`dragoman check`: whether an agent or a client keeps the protocol, with the frames that prove it.

Each side has its own module; here is the table of them. Below is the folder conformance/.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import NamedTuple

USAGE = 2


class Action(NamedTuple):
    """One side: the module that checks it, how it is called, what it is for."""

    module: str
    usage: str
    purpose: str


ACTIONS: dict[str, Action] = {
    "agent": Action("check_agent", "agent [OPTIONS] -- CMD...", "check the agent that this command starts"),
    "client": Action("check_client", "client [OPTIONS] -- CMD...", "check a client, which starts the tester"),
}

EXAMPLES = """\
examples:
  dragoman check agent -- my-agent --acp
  dragoman check agent --level must --junit check.xml --html check.html -- my-agent --acp
  dragoman check agent --json now.json --baseline known.json -- my-agent --acp
  dragoman check agent --only agent.cancel agent.order.02 -- dragoman agent everything
  dragoman check client -- dragoman run --prompt hello --yes -- {agent}
  dragoman check client --serve --only client.update"""


def main(arguments: list[str]) -> int:
    """Find the side and let it work."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(overview())
        return 0 if arguments else USAGE
    action = ACTIONS.get(arguments[0])
    if action is None:
        print(f"dragoman check: {arguments[0]!r} cannot be checked; try: {', '.join(ACTIONS)}", file=sys.stderr)
        return USAGE
    code: int = import_module(f"dragoman.cli.{action.module}").main(arguments[0], arguments[1:])
    return code


def overview() -> str:
    """What `dragoman check --help` says."""
    width = max(len(action.usage) for action in ACTIONS.values())
    listing = "\n".join(f"  dragoman check {each.usage:{width}}  {each.purpose}" for each in ACTIONS.values())
    return f"""\
usage: dragoman check agent|client ...

Try an agent or a client against the requirements of the protocol, each with a fresh process, and show the evidence.

{listing}

{EXAMPLES}

`dragoman check agent --help` and `dragoman check client --help` tell the rest."""
