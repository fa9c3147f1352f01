"""`dragoman inspect`: record and examine the messages between a client and an agent."""

from __future__ import annotations

from dragoman.cli.subcommands import Action, CommandGroup

ACTIONS: dict[str, Action] = {
    "run": Action("inspect.run:main", "run [--out FILE] -- CMD...", "start an agent and record its messages"),
    "show": Action("inspect.show:main", "show FILE", "show a timeline or a tree; filter and search"),
    "tail": Action("inspect.show:main", "tail [-f] FILE", "show the end, and follow new messages"),
    "stats": Action("inspect.reports:run_stats", "stats FILE", "counts, sizes and latencies by method"),
    "validate": Action("inspect.reports:run_validate", "validate FILE", "check all messages against the schema"),
    "diff": Action("inspect.reports:run_diff", "diff FILE FILE", "compare the structure of two recordings"),
    "export": Action("inspect.export:main", "export FILE", "copy without secrets, or an HTML page"),
    "replay": Action("inspect.replay:main", "replay FILE --as agent|client", "act as a mock peer"),
}

COMMAND = CommandGroup(
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

main = COMMAND.dispatch
overview = COMMAND.overview
