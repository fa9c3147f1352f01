"""`dragoman sessions`: list, show, search, change and share stored sessions."""

from __future__ import annotations

from dragoman.cli.subcommands import Subcommand, SubcommandGroup

ACTIONS: dict[str, Subcommand] = {
    "list": Subcommand("sessions.read", "list", "list stored sessions, the newest first (default)"),
    "show": Subcommand("sessions.read", "show SESSION", "show the messages and tool calls of a session"),
    "search": Subcommand("sessions.read", "search WORDS", "search in all sessions"),
    "fork": Subcommand("sessions.change", "fork SESSION [NAME]", "copy a session"),
    "rename": Subcommand("sessions.change", "rename SESSION [NAME]", "give a session a name, or remove its name"),
    "export": Subcommand("sessions.transfer", "export SESSION [FILE]", "write a session to a file"),
    "import": Subcommand("sessions.transfer", "import FILE", "store an exported session"),
    "share": Subcommand("sessions.share", "share SESSION", "share a session on a host: a link, or a member"),
    "delete": Subcommand("sessions.change", "delete SESSION...", "delete sessions"),
    "expire": Subcommand("sessions.change", "expire --older 90d", "delete old sessions"),
    "repair": Subcommand("sessions.repair", "repair [SESSION]", "repair a damaged store"),
}

COMMAND = SubcommandGroup(
    "sessions",
    "[ACTION] ...",
    "List, show, search, change and share stored sessions.",
    ACTIONS,
    """\
A SESSION is a name, an id, or the beginning of an id (at least eight
characters). `dragoman run --session NAME` and `dragoman chat --session NAME`
start a session with that name, or continue it.

examples:
  dragoman sessions
  dragoman sessions search 'parse error'
  dragoman sessions show roof | less
  dragoman run --session roof 'Where were we?'
  dragoman sessions export roof roof.session
  dragoman sessions --host office
  dragoman sessions share roof --role editor --for 2h

Run `dragoman sessions ACTION --help` for the options of an action;
docs/store.md describes how sessions are stored.""",
    default_action="list",
)

main = COMMAND.run
overview = COMMAND.overview
