"""`dragoman editors show`, `write` and `undo`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable

from dragoman import ids
from dragoman.cli import exit_codes
from dragoman.cli.editors import options as editor_options
from dragoman.cli.parser import Parser
from dragoman.cli.ui.format import diff_lines, print_json
from dragoman.cli.ui.terminal import OutputStream, StyledLine, sanitize_line
from dragoman.config.paths import user_paths
from dragoman.editors.changes import Change, History, plan_undo, plan_write, render_entry
from dragoman.editors.table import COMMAND, EDITORS, JSON, Editor

# More than the change of one entry needs.
_MAX_DIFF_LINES = 200

_EPILOG = """\
exit codes:
  0  done, or nothing to do
  1  the file cannot be used, or you said no
  2  wrong usage, or no such agent
  5  there is no terminal to ask on: add --yes"""


def run_show(command: str, arguments: list[str]) -> int:
    """Print the entry."""
    parser = Parser(
        command, "EDITOR [AGENT] [OPTIONS] [-- CMD ARG...]", "Print the entry of an agent, to copy.", _EPILOG
    )
    editor_options.add_editor_argument(parser)
    editor_options.add_launch_options(parser)
    options, rest = parser.read(arguments)
    editor = editor_options.read_editor(parser, options)
    launch, remarks = editor_options.read_launch(parser, options, rest)
    path = editor_options.editor_path(options, editor)
    text = render_entry(editor, launch)
    if options.json:
        print_json(
            {
                "editor": editor.name,
                "file": path or None,
                "entry": editor.entry(launch) if editor.form == JSON else text,
                "keys": list(editor.member_path(launch.title)) if editor.form == JSON else None,
                "command": list(launch.argv),
                "via": launch.way,
                "once": list(editor.once),
                "remarks": [*remarks, *editor.limits],
            }
        )
        return exit_codes.OK
    # The entry alone goes to stdout, so that it can be piped; it is our own text, but names are the user's.
    for line in text.splitlines():
        print(sanitize_line(line))
    _report([_where(editor, path), *remarks, *editor.limits])
    return exit_codes.OK


def run_write(command: str, arguments: list[str]) -> int:
    """Show the change, ask, and write it."""
    parser = Parser(
        command,
        "EDITOR [AGENT] [OPTIONS] [-- CMD ARG...]",
        "Write the entry of an agent into the editor's file.",
        _EPILOG,
    )
    editor_options.add_editor_argument(parser)
    editor_options.add_launch_options(parser)
    parser.add_flag("-y --yes", "do not ask")
    parser.add_flag("--dry-run", "only show the change")
    options, rest = parser.read(arguments)
    editor = editor_options.read_editor(parser, options)
    launch, remarks = editor_options.read_launch(parser, options, rest)
    if editor.form == COMMAND:
        return parser.fail(
            f"{editor.title} has no file for agents; run this instead: {render_entry(editor, launch).strip()}"
        )
    change = plan_write(editor, launch, editor_options.editor_path(options, editor))
    result = {"editor": editor.name, "file": change.file.path, "entry": change.title, "written": False}
    if change.is_empty:
        return _finish(options, {**result, "changed": False}, [f"{change.file.path} has this entry already"])
    code = _confirm(parser, options, change, f"write this to {change.file.path}?")
    if code is not None:
        return _finish(options, result, [], code)
    history = History(user_paths().state)
    history.apply(change, ids.new_id(), ids.now())
    lines = [f"written to {change.file.path}; take it back with: dragoman editors undo {editor.name}"]
    lines += [*remarks, *editor.limits, *_once(editor, change.file.path)]
    return _finish(options, {**result, "written": True, "remarks": lines[1:]}, lines)


def run_undo(command: str, arguments: list[str]) -> int:
    """Take the last write back."""
    parser = Parser(command, "EDITOR [NAME] [--yes]", "Take the last write to an editor's file back.", _EPILOG)
    parser.add_argument("editor", metavar="EDITOR", help=f"one of: {', '.join(EDITORS)}")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the entry (the one that was written last)")
    parser.add_flag("-y --yes", "do not ask")
    parser.add_flag("--dry-run", "only show the change")
    parser.add_flag("--json", "print JSON")
    options = parser.read_options(arguments)
    editor = editor_options.read_editor(parser, options)
    history = History(user_paths().state)
    title = options.name if options.name is None or editor.form == JSON else f"{editor.name} {options.name}"
    applied = history.last(editor.name, title)
    if applied is None:
        entry = f"the entry {options.name} of {editor.title}" if options.name else editor.title
        return parser.fail(f"Dragoman has written nothing for {entry} that it could take back")
    change = plan_undo(applied, history.folder)
    result = {"editor": editor.name, "file": applied.path, "entry": applied.title, "undone": False}
    code = None if change.is_empty else _confirm(parser, options, change, f"take this back in {applied.path}?")
    if code is not None:
        return _finish(options, result, [], code)
    history.undo(applied, change)
    done = "was already gone from" if change.is_empty else "is taken back in"
    return _finish(options, {**result, "undone": True}, [f"the entry {applied.title} {done} {applied.path}"])


def _confirm(parser: Parser, options: argparse.Namespace, change: Change, question: str) -> int | None:
    """Show the change and ask; None means yes, else the exit code."""
    out = OutputStream(sys.stderr if options.json else sys.stdout)
    head = change.file.path if change.file.text is not None else f"{change.file.path} (a new file)"
    after = change.after
    lines = (
        [StyledLine("(the file is removed: it did not exist before)", "dim")]
        if after is None
        else diff_lines(change.file.text, after, _MAX_DIFF_LINES)
    )
    out.write_lines([StyledLine(head, "bold"), *lines])
    if options.dry_run:
        return exit_codes.OK
    if options.yes:
        return None
    if not sys.stdin.isatty() or not sys.stderr.isatty():
        return parser.fail(
            "nothing is changed: there is no terminal to ask on; add --yes", exit_codes.CANCELLED, is_json_done=True
        )
    print(f"{sanitize_line(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return None
    return parser.fail("nothing is changed", exit_codes.FAILED, is_json_done=True)


def _where(editor: Editor, path: str) -> str:
    if editor.form == COMMAND:
        return "run this command in a terminal"
    if editor.form == JSON:
        return f"this goes into {path}; `dragoman editors write {editor.name}` puts it there"
    return f"add this to your own configuration; `dragoman editors write {editor.name}` puts it into {path}"


def _once(editor: Editor, path: str) -> list[str]:
    """Return the lines that the user's own configuration needs, if it does not have them."""
    if not editor.once or _mentions(editor, path):
        return []
    return ["add this once to your own configuration:", *(f"  {line}" for line in editor.once)]


def _mentions(editor: Editor, path: str) -> bool:
    """Whether an init file beside ours already loads it."""
    folder = os.path.dirname(path)
    root = os.path.dirname(folder) if os.path.basename(folder) == "lua" else folder
    candidates = [os.path.join(root, name) for name in ("init.lua", "init.el")]
    candidates += [os.path.join(os.path.expanduser("~"), ".emacs")]
    for top, folders, files in os.walk(root):
        folders[:] = [each for each in folders if each in ("lua", "plugins", "config", "custom", "lisp")]
        candidates += [os.path.join(top, name) for name in files if name.endswith((".lua", ".el"))]
    for candidate in candidates:
        if os.path.abspath(candidate) == os.path.abspath(path):
            continue
        try:
            with open(candidate, encoding="utf-8", errors="replace") as file:
                if editor.mention in file.read():
                    return True
        except OSError:
            continue
    return False


def _finish(
    options: argparse.Namespace, value: dict[str, object], lines: Iterable[str], code: int = exit_codes.OK
) -> int:
    if options.json:
        print_json(value)
    else:
        for line in lines:
            print(sanitize_line(line))
    return code


def _report(lines: Iterable[str]) -> None:
    for line in lines:
        print(f"# {sanitize_line(line)}", file=sys.stderr)
