"""`dragoman editors list` and `read`: what the editors' files have."""

from __future__ import annotations

import os

from dragoman.cli import exit_codes
from dragoman.cli.editors import options as editor_options
from dragoman.cli.parser import Parser, unknown_word
from dragoman.cli.ui.format import report
from dragoman.config import config_file as config
from dragoman.config.config_file import NAME_PATTERN, NAME_RULE, NamedAgent
from dragoman.config.paths import user_paths
from dragoman.editors.changes import EditorEntry, read_entries
from dragoman.editors.quoting import shell_line
from dragoman.editors.table import COMMAND, EDITORS, JSON
from dragoman.errors import ConfigFault


def run_list(command: str, arguments: list[str]) -> int:
    """List the editors."""
    parser = Parser(command, "[--json]", "List the editors, their files and their entries.", "")
    parser.add_flag("--json", "print JSON")
    options = parser.read_options(arguments)
    rows, lines = [], []
    names = max(map(len, EDITORS))
    titles = max(len(editor.title) for editor in EDITORS.values())
    for editor in EDITORS.values():
        path = editor.file(os.environ)
        entries: list[EditorEntry] = []
        fault = ""
        try:
            entries = read_entries(editor, path) if path else []
        except ConfigFault as error:
            fault = str(error)
        exists = bool(path) and os.path.exists(path)
        state = fault or ", ".join(entry.title for entry in entries) or ("no agents yet" if exists else "")
        shown = path.replace(os.path.expanduser("~"), "~", 1) if path.startswith(os.path.expanduser("~/")) else path
        place = "(show prints a command)" if editor.form == COMMAND else shown
        lines.append(f"{editor.name:{names}}  {editor.title:{titles}}  {place}")
        if state:
            lines.append(f"{'':{names}}  {state}")
        rows.append(
            {
                "name": editor.name,
                "title": editor.title,
                "file": path or None,
                "exists": exists,
                "entries": [entry.title for entry in entries],
                "fault": fault or None,
                "limits": list(editor.limits),
            }
        )
    return report(options, rows, lines)


def run_read(command: str, arguments: list[str]) -> int:
    """Read the entries of a file back."""
    parser = Parser(
        command,
        "EDITOR [NAME] [--add AGENT]",
        "Read the entries of an editor's file back.",
        """\
--add makes the entry an agent of Dragoman, so that other editors and `dragoman
chat` can use it.

examples:
  dragoman editors read zed
  dragoman editors read zed 'Claude Code' --add claude
  dragoman editors read jetbrains --json""",
    )
    editor_options.add_editor_argument(parser)
    parser.add_argument("name", nargs="?", metavar="NAME", help="only this entry")
    parser.add_value("--add", "AGENT", "add the entry NAME to your agents under this name")
    options = parser.read_options(arguments)
    editor = editor_options.read_editor(parser, options)
    if editor.form == COMMAND:
        return parser.fail(f"{editor.title} has no file for agents")
    path = editor_options.editor_path(options, editor)
    entries = read_entries(editor, path)
    if options.name is not None:
        found = [entry for entry in entries if entry.title == options.name]
        if not entries:
            return parser.fail(f"{path} has no agents")
        if not found:
            return parser.fail(f"{unknown_word('entry', options.name, [entry.title for entry in entries])} ({path})")
        entries = found
    if options.add is not None:
        if options.name is None:
            parser.error("--add needs the NAME of an entry")
        return _add(parser, options.add, entries[0])
    lines = [_line(entry) for entry in entries] or [f"{path} has no agents"]
    # Values of variables are secrets more often than not.
    rows = [
        {
            "name": entry.title,
            "kind": entry.kind,
            "command": entry.command or None,
            "args": list(entry.args),
            "env": sorted(entry.env),
            "mode": entry.mode or None,
            "fault": entry.fault or None,
        }
        for entry in entries
    ]
    if not options.json and editor.form == JSON:
        lines += [f"# {limit}" for limit in editor.limits]
    return report(options, {"editor": editor.name, "file": path, "entries": rows}, lines)


def _line(entry: EditorEntry) -> str:
    if entry.fault:
        return f"{entry.title}: cannot be used: {entry.fault}"
    if entry.kind == "registry":
        return f"{entry.title}: the editor installs it from the registry"
    if entry.kind == "block":
        return f"{entry.title}: a block that Dragoman wrote"
    names = f" (sets {', '.join(sorted(entry.env))})" if entry.env else ""
    return f"{entry.title}: {shell_line([entry.command, *entry.args])}{names}"


def _add(parser: Parser, name: str, entry: EditorEntry) -> int:
    """Make an entry an agent of config.toml."""
    if NAME_PATTERN.fullmatch(name) is None:
        parser.error(NAME_RULE)
    if not entry.command:
        reason = entry.fault or "the editor installs it itself; use: dragoman agents install"
        return parser.fail(f"{entry.title} has no command that Dragoman could start: {reason}")
    path = user_paths().config_file
    config.add_entry(
        path, NamedAgent(name=name, command=entry.command, args=entry.args, env=entry.env, mode=entry.mode)
    )
    print(f"added {name} to {path}; try: dragoman chat --agent {name}")
    return exit_codes.OK
