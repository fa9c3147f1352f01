"""`dragoman inspect`: record what passes between a client and an agent, and look at it.

Each action has its own module and parser; here is the table of them. Below is the folder inspect/.
"""

from __future__ import annotations

from dragoman.cli.subcommands import Subcommand, SubcommandGroup

ACTIONS: dict[str, Subcommand] = {
    "run": Subcommand(
        "inspect.run", "run [--out FILE] -- CMD...", "start an agent for a client and record all that passes"
    ),
    "show": Subcommand("inspect.show", "show FILE", "what happened, as a timeline or a tree; filter and search"),
    "tail": Subcommand("inspect.show", "tail [-f] FILE", "the end of it, and what follows"),
    "stats": Subcommand("inspect.stats", "stats FILE", "counts, sizes and latencies by method; turns"),
    "validate": Subcommand("inspect.validate", "validate FILE", "every message against the schema; for CI"),
    "diff": Subcommand("inspect.diff", "diff FILE FILE", "two recordings by structure, whatever the ids and times"),
    "export": Subcommand("inspect.export", "export FILE", "a copy without secrets, or one HTML page"),
    "replay": Subcommand("inspect.replay", "replay FILE --as agent|client", "play a recording as a mock peer"),
}

COMMAND = SubcommandGroup(
    "inspect",
    "ACTION ...",
    "See every message between a client and an agent.",
    ACTIONS,
    """\
examples:
  dragoman inspect run --out talk.ndjson -- my-agent --acp     (put this where the editor starts its agent)
  dragoman inspect tail -f talk.ndjson
  dragoman inspect show talk.ndjson --method session/prompt --slow 500
  dragoman inspect export talk.ndjson --html --out talk.html
  dragoman inspect replay talk.ndjson --as agent

`dragoman inspect ACTION --help` tells the rest.""",
)

main = COMMAND.run
overview = COMMAND.overview
