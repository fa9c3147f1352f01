"""`dragoman sessions`: list, show, search, change and share stored sessions."""

from __future__ import annotations

from dragoman.cli.subcommands import Action, CommandGroup

ACTIONS: dict[str, Action] = {
    "list": Action("sessions.read:run_list", "list", "list stored sessions, the newest first (default)"),
    "show": Action("sessions.read:run_show", "show SESSION", "show the messages and tool calls of a session"),
    "search": Action("sessions.read:run_search", "search WORDS", "search in all sessions"),
    "fork": Action("sessions.change:run_fork", "fork SESSION [NAME]", "copy a session"),
    "rename": Action("sessions.change:run_rename", "rename SESSION [NAME]", "set or remove the name of a session"),
    "export": Action("sessions.files:run_export", "export SESSION [FILE]", "write a session to a file"),
    "import": Action("sessions.files:run_import", "import FILE", "store an exported session"),
    "share": Action("sessions.change:run_share", "share SESSION", "share a session on a host: a link, or a member"),
    "delete": Action("sessions.change:run_delete", "delete SESSION...", "delete sessions"),
    "expire": Action("sessions.change:run_expire", "expire --older 90d", "delete old sessions"),
    "repair": Action("sessions.files:run_repair", "repair [SESSION]", "repair a damaged store"),
}

COMMAND = CommandGroup(
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
    default="list",
)

main = COMMAND.dispatch
overview = COMMAND.overview
