"""`dragoman agent NAME`: run a built-in agent on standard input and output.

The arguments are parsed by hand: importing argparse would take longer than the rest of the start.
"""

from __future__ import annotations

import sys

HELP = """\
usage: dragoman agent everything [--dialect D]

Run a deterministic agent that needs no model and no network. It is made for
people who write clients. It uses standard input and output; start it from your
client, or try it here:

  dragoman run --prompt /help -- dragoman agent everything

  --dialect D   the dialect to use: {dialects},
                or auto (the dialect of the client; the default)"""


def main(arguments: list[str]) -> int:
    """Serve one client until it disconnects."""
    from dragoman.dialect.dialects import DIALECT_NAMES

    dialect, names = "auto", []
    rest = iter(arguments)
    for argument in rest:
        option, has_value, value = argument.partition("=")
        if option in ("-h", "--help"):
            print(HELP.format(dialects=", ".join(DIALECT_NAMES)))
            return 0
        if option == "--dialect":
            dialect = value if has_value else next(rest, "")
        else:
            names.append(argument)
    if names != ["everything"]:
        return _usage_error(f"there is no agent {' '.join(names)!r}" if names else "give the name of an agent")
    if dialect not in ("auto", *DIALECT_NAMES):
        return _usage_error(f"there is no dialect {dialect!r}; choose one of: auto, {', '.join(DIALECT_NAMES)}")

    from dragoman.agents.everything.agent import everything

    everything(dialect).run()
    return 0


def _usage_error(message: str) -> int:
    print(f"dragoman agent: {message}; try: dragoman agent everything", file=sys.stderr)
    return 2
