"""`dragoman sessions`: what was said to agents, kept: list it, read it, search it, take it elsewhere.

Each action has its own parser; here is the table of them. Below are shelf and the store.
"""

from __future__ import annotations

from dragoman.cli.subcommands import Subcommand, SubcommandGroup

ACTIONS: dict[str, Subcommand] = {
    "list": Subcommand("sessions.read", "list", "what is kept, the newest first (also without a word)"),
    "show": Subcommand("sessions.read", "show SESSION", "what was said and done in one"),
    "search": Subcommand("sessions.read", "search WORDS", "find words in all of them"),
    "fork": Subcommand("sessions.change", "fork SESSION [NAME]", "a copy that goes its own way"),
    "rename": Subcommand("sessions.change", "rename SESSION [NAME]", "give it a name, or take it away"),
    "export": Subcommand("sessions.transfer", "export SESSION [FILE]", "one file to take elsewhere"),
    "import": Subcommand("sessions.transfer", "import FILE", "keep a session that was exported"),
    "share": Subcommand("sessions.share", "share SESSION", "a link to a session in a host, or another member of it"),
    "delete": Subcommand("sessions.change", "delete SESSION...", "forget them"),
    "expire": Subcommand("sessions.change", "expire --older 90d", "forget the old ones"),
    "repair": Subcommand("sessions.repair", "repair [SESSION]", "make a damaged store readable again"),
}

COMMAND = SubcommandGroup(
    "sessions",
    "[ACTION] ...",
    "What was said to agents, kept.",
    ACTIONS,
    """\
A SESSION is a name, an id, or the beginning of an id (eight characters or more). `dragoman run --session NAME` and
`dragoman chat --session NAME` begin a session of that name, or go on with it.

examples:
  dragoman sessions
  dragoman sessions search 'parse error'
  dragoman sessions show roof | less
  dragoman run --session roof 'Where were we?'
  dragoman sessions export roof roof.session
  dragoman sessions --host office
  dragoman sessions share roof --role editor --for 2h

`dragoman sessions ACTION --help` tells the rest; docs/store.md, how it is kept.""",
    default_action="list",
)

main = COMMAND.run
overview = COMMAND.overview
