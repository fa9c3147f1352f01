"""What is written is what the editors read: their settings by schema, Lua and Emacs Lisp by a reader of the literals.

`make editors-check` gives the same files to the programs themselves (interop/editors.py).
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.editors.changes import History, plan_undo, plan_write, render_entry
from dragoman.editors.jsonc import parse
from dragoman.editors.launch import Launch
from dragoman.editors.quoting import lisp_string, lua_string
from dragoman.editors.table import EDITORS, JSON

DATA = Path(__file__).parents[1] / "data" / "editors"
HARD = ('a "b"', "\\", "tab\there", "line\nbreak", "\x01\x7f9", "ü€😀", "${HOME}", "$(id)", "]]", "-- x", "; y", "'")
LAUNCH = Launch(name="hard", title='A "title" \\', command="/opt/a b/agent", args=HARD, env={"K": HARD[4]}, mode="plan")


@pytest.mark.item("RG-24")
@pytest.mark.parametrize("name", ["zed", "jetbrains", "vscode"])
def test_settings_fit_the_schema_of_the_editor_and_change_only_their_key(tmp_path: Path, name: str) -> None:
    schema = json.loads((DATA / f"{name}.schema.json").read_text())
    settings = tmp_path / "settings.json"
    settings.write_text('// mine\n{\n  "other": [1, 2,], // kept\n}\n')
    before = settings.read_text()
    history = History(str(tmp_path / "state"))
    history.apply(plan_write(EDITORS[name], LAUNCH, str(settings)), "one", "")
    node = parse(settings.read_text())
    assert node is not None
    jsonschema.validate(node.value, schema)
    servers = node.value[EDITORS[name].keys[0]]
    assert servers[LAUNCH.title]["command"] == LAUNCH.command
    assert servers[LAUNCH.title]["args"] == list(HARD)
    assert [line for line in before.splitlines() if line not in settings.read_text()] == []
    applied = history.last(name)
    assert applied is not None
    history.undo(applied, plan_undo(applied, history.folder))
    assert settings.read_text() == before


@pytest.mark.item("RG-24")
def test_jetbrains_gets_plain_json_with_the_documented_members(tmp_path: Path) -> None:
    settings = tmp_path / "acp.json"
    written = plan_write(EDITORS["jetbrains"], LAUNCH, str(settings))
    History(str(tmp_path / "state")).apply(written, "one", "")
    document = json.loads(settings.read_text())  # the IDE reads no comments and no trailing commas
    jsonschema.validate(document, json.loads((DATA / "jetbrains.schema.json").read_text()))
    assert document["agent_servers"][LAUNCH.title] == {
        "command": LAUNCH.command,
        "args": list(HARD),
        "env": dict(LAUNCH.env),
    }


def lua_value(literal: str) -> str:
    """The text of a Lua string, by the rules of the language."""
    escapes = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"'}
    body = literal[1:-1]
    return re.sub(r"\\(\d{1,3}|.)", lambda found: escapes.get(found[1]) or chr(int(found[1])), body, flags=re.S)


def lisp_value(literal: str) -> str:
    """The text of an Emacs Lisp string, by the rules of the language."""
    body = literal[1:-1]
    return re.sub(
        r'\\x([0-9a-f]+)(?:\\ )?|\\(["\\])', lambda found: chr(int(found[1], 16)) if found[1] else found[2], body
    )


@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_any_text_is_one_string_of_lua_and_of_emacs_lisp(text: str) -> None:
    for quoted, value in ((lua_string(text), lua_value), (lisp_string(text), lisp_value)):
        assert "\n" not in quoted
        assert re.fullmatch(r'"(?:[^"\\]|\\.)*"', quoted)
        assert value(quoted) == text


@pytest.mark.item("RG-24")
@pytest.mark.parametrize("name", ["codecompanion", "avante", "agent-shell"])
def test_lua_and_lisp_have_every_word_of_the_command_and_balanced_brackets(name: str) -> None:
    text = render_entry(EDITORS[name], LAUNCH)
    quote = lisp_string if name == "agent-shell" else lua_string
    assert all(quote(word) in text for word in LAUNCH.argv)
    plain = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    for opening, closing in ("()", "{}", "[]"):
        assert plain.count(opening) == plain.count(closing)


@pytest.mark.skipif(shutil.which("emacs") is None, reason="needs emacs")
def test_emacs_reads_the_entry_as_it_was_meant(tmp_path: Path) -> None:
    (tmp_path / "entry.el").write_text(render_entry(EDITORS["agent-shell"], LAUNCH))
    script = (
        "(defvar agent-shell-agent-configs nil)"
        "(provide 'agent-shell) (defun agent-shell-make-environment-variables (&rest all) all)"
        "(defun acp-make-client (&rest all) all) (defun agent-shell-make-agent-config (&rest all) all)"
        '(load (expand-file-name "entry.el") nil t)'
        "(let ((client (funcall (plist-get (car agent-shell-agent-configs) :client-maker) 1)))"
        " (princ (json-encode (vconcat (plist-get client :command-params)))))"
    )
    run = ["emacs", "--batch", "-Q", "--eval", f"(progn (require 'json) {script})"]
    shown = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True).stdout
    assert tuple(json.loads(shown)) == HARD


def test_every_editor_with_a_json_file_has_a_key() -> None:
    assert all(editor.keys for editor in EDITORS.values() if editor.form == JSON)
    assert all(editor.limits and editor.dialect for editor in EDITORS.values())
