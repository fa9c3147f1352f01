"""`dragoman editors`: the entry that makes an editor start an agent; show it, write it, read it back, undo it."""

from __future__ import annotations

from dragoman.cli.subcommands import Action, CommandGroup

ACTIONS: dict[str, Action] = {
    "list": Action("editors.read:run_list", "list", "list the editors, their files and their entries (default)"),
    "show": Action("editors.write:run_show", "show EDITOR [AGENT]", "print the entry of an agent, to copy"),
    "write": Action("editors.write:run_write", "write EDITOR [AGENT]", "write the entry into the editor's file"),
    "read": Action("editors.read:run_read", "read EDITOR [NAME]", "read the entries of the editor's file back"),
    "undo": Action("editors.write:run_undo", "undo EDITOR [NAME]", "take the last write back"),
}

COMMAND = CommandGroup(
    "editors",
    "[ACTION] ...",
    "Make an editor start an agent: show, write, read back and undo its entry.",
    ACTIONS,
    """\
An AGENT is a name from `dragoman agents`; without it, your default agent. Its
entry starts the agent itself (--via direct), `dragoman translate` before it
(--via translate), or `dragoman attach` to a host (--host). write shows the
change first, changes only its entry, and can be undone.

examples:
  dragoman editors
  dragoman editors show zed opencode
  dragoman editors write zed opencode
  dragoman editors write jetbrains --host office --agent claude
  dragoman editors write codecompanion mine --via translate
  dragoman editors show agent-shell -- my-agent --acp
  dragoman editors read zed Roof --add roof
  dragoman editors undo zed

Run `dragoman editors ACTION --help` for the options of an action;
docs/editors.md has a block to copy for each editor.""",
    default="list",
)

main = COMMAND.dispatch
overview = COMMAND.overview
