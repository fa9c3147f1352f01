"""`dragoman check`: whether an agent or a client keeps the protocol, with the frames that prove it.

Each side has its own module; here is the table of them. Below is the folder conformance/.
"""

from __future__ import annotations

from dragoman.cli.subcommands import Action, CommandGroup

ACTIONS: dict[str, Action] = {
    "agent": Action(
        "check.agent:main", "agent [OPTIONS] URL | -- CMD...", "check the agent at an address, or that a command starts"
    ),
    "client": Action("check.client:main", "client [OPTIONS] -- CMD...", "check a client, which starts the tester"),
}

COMMAND = CommandGroup(
    "check",
    "agent|client ...",
    "Try an agent or a client against the requirements of the protocol, one fresh process each, and show the evidence.",
    ACTIONS,
    """\
examples:
  dragoman check agent -- my-agent --acp
  dragoman check agent --level must --junit check.xml --html check.html -- my-agent --acp
  dragoman check agent --json now.json --baseline known.json -- my-agent --acp
  dragoman check agent --only agent.cancel agent.order.02 -- dragoman agent everything
  dragoman check agent http://127.0.0.1:8000/acp
  dragoman check client -- dragoman run --prompt hello --yes -- {agent}
  dragoman check client --serve --only client.update

`dragoman check agent --help` and `dragoman check client --help` tell the rest.""",
)

main = COMMAND.dispatch
overview = COMMAND.overview
