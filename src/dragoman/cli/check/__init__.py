"""`dragoman check`: test an agent or a client for conformance to the protocol, with frames as evidence."""

from __future__ import annotations

from dragoman.cli.subcommands import Action, CommandGroup

ACTIONS: dict[str, Action] = {
    "agent": Action(
        "check.agent:main", "agent [OPTIONS] URL | -- CMD...", "check an agent: at a URL, or started by a command"
    ),
    "client": Action("check.client:main", "client [OPTIONS] -- CMD...", "check a client, which starts our test agent"),
    "dialect": Action("check.dialect:main", "dialect [OPTIONS] URL | -- CMD...", "say which dialect an agent speaks"),
}

COMMAND = CommandGroup(
    "check",
    "agent|client|dialect ...",
    "Test an agent or a client: try each requirement of the protocol with a new\nprocess, and show the evidence.",
    ACTIONS,
    """\
examples:
  dragoman check agent -- my-agent --acp
  dragoman check agent --level must --html check.html -- my-agent --acp
  dragoman check agent --json now.json --baseline known.json -- my-agent --acp
  dragoman check agent --only agent.cancel -- dragoman agent everything
  dragoman check agent http://127.0.0.1:8000/acp
  dragoman check client -- dragoman run --prompt hello --yes -- {agent}
  dragoman check client --serve --only client.update
  dragoman check dialect -- my-agent --acp

Run `dragoman check ACTION --help` for the options of an action.""",
)

main = COMMAND.dispatch
overview = COMMAND.overview
