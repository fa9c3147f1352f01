"""`dragoman agent NAME`: be one of the agents that ship with Dragoman, on standard input and output.

The arguments are read by hand: argparse would cost more than everything else the start needs of its own.
"""

from __future__ import annotations

import sys

HELP = """\
usage: dragoman agent everything [--dialect D]

An agent that needs no model and no network and always does the same, for people who write clients. It speaks over
standard input and output; start it from your client, or try it here:

  dragoman run --prompt /help -- dragoman agent everything

  --dialect D   the dialect to speak: {dialects}, or auto (that of the client; the default)"""


def main(arguments: list[str]) -> int:
    """Serve one client until it leaves."""
    from dragoman.dialect.dialects import DIALECT_NAMES

    dialect, names = "auto", []
    rest = iter(arguments)
    for word in rest:
        option, given, value = word.partition("=")
        if option in ("-h", "--help"):
            print(HELP.format(dialects=", ".join(DIALECT_NAMES)))
            return 0
        if option == "--dialect":
            dialect = value if given else next(rest, "")
        else:
            names.append(word)
    if names != ["everything"]:
        return _usage_error(f"there is no agent {' '.join(names)!r}" if names else "name an agent")
    if dialect not in ("auto", *DIALECT_NAMES):
        return _usage_error(f"there is no dialect {dialect!r}; there are: auto, {', '.join(DIALECT_NAMES)}")

    from dragoman.agents.everything.agent import everything

    everything(dialect).run()
    return 0


def _usage_error(message: str) -> int:
    print(f"dragoman agent: {message}; try: dragoman agent everything", file=sys.stderr)
    return 2
