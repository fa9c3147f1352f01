"""`dragoman inspect`: record and examine the messages between a client and an agent."""

from __future__ import annotations

from dragoman.cli.subcommands import Subcommand, SubcommandGroup

ACTIONS: dict[str, Subcommand] = {
    "run": Subcommand("inspect.run", "run [--out FILE] -- CMD...", "start an agent and record its messages"),
    "show": Subcommand("inspect.show", "show FILE", "show a timeline or a tree; filter and search"),
    "tail": Subcommand("inspect.show", "tail [-f] FILE", "show the end, and follow new messages"),
    "stats": Subcommand("inspect.stats", "stats FILE", "counts, sizes and latencies by method"),
    "validate": Subcommand("inspect.validate", "validate FILE", "check all messages against the schema"),
    "diff": Subcommand("inspect.diff", "diff FILE FILE", "compare the structure of two recordings"),
    "export": Subcommand("inspect.export", "export FILE", "copy without secrets, or an HTML page"),
    "replay": Subcommand("inspect.replay", "replay FILE --as agent|client", "act as a mock peer"),
}

COMMAND = SubcommandGroup(
    "inspect",
    "ACTION ...",
    "Record and examine the messages between a client and an agent.",
    ACTIONS,
    """\
examples:
  dragoman inspect run --out talk.ndjson -- my-agent --acp
      (configure this as the agent of your editor)
  dragoman inspect tail -f talk.ndjson
  dragoman inspect show talk.ndjson --method session/prompt --slow 500
  dragoman inspect export talk.ndjson --html --out talk.html
  dragoman inspect replay talk.ndjson --as agent

Run `dragoman inspect ACTION --help` for the options of an action.""",
)

main = COMMAND.run
overview = COMMAND.overview
