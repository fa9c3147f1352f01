"""Which language server serves a file, in which folder, and what config.toml changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.bridge.lsp.server_table import BUILT_IN, build_table, find_root, language_id, rows_for
from dragoman.config.config_file import parse_config
from dragoman.errors import ConfigFault


def table_of(text: str) -> dict[str, list[str]]:
    """Return the names of the servers for a Python file by group, with this config."""
    rows = rows_for(build_table(parse_config(text, "config.toml").lsp), "/p/a.py")
    return {group: [row.name for row in found] for group, found in rows.items()}


def test_the_measured_servers_are_built_in() -> None:
    assert [row.name for row in BUILT_IN] == [
        "ruff", "ty", "basedpyright", "pyright", "typescript", "typescript-language-server", "gopls",
    ]  # fmt: skip
    assert table_of("") == {"python-lint": ["ruff"], "python": ["ty", "basedpyright", "pyright"]}


def test_a_section_changes_a_built_in_server_or_turns_it_off() -> None:
    assert table_of("[lsp.ty]\non = false\n")["python"] == ["basedpyright", "pyright"]
    rows = build_table(parse_config('[lsp.ty]\ncommand = ["/opt/ty", "server"]\n', "x").lsp)
    changed = next(row for row in rows if row.name == "ty")
    assert (changed.argv, changed.files) == (["/opt/ty", "server"], ("*.py", "*.pyi"))


def test_a_section_with_the_name_of_a_group_replaces_it() -> None:
    text = '[lsp.python]\ncommand = ["pylsp"]\nfiles = ["*.py"]\nsettings = { pylsp = { x = 1 } }\n'
    assert table_of(text) == {"python": ["python"], "python-lint": ["ruff"]}
    assert table_of("[lsp.python]\non = false\n") == {"python-lint": ["ruff"]}


def test_another_section_is_a_server_of_its_own() -> None:
    rows = build_table(parse_config('[lsp.rust]\ncommand = ["rust-analyzer"]\nfiles = ["*.rs"]\n', "x").lsp)
    assert [row.name for row in rows_for(rows, "/p/a.rs")["rust"]] == ["rust"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('[lsp.rust]\ncommand = ["x"]\n', "lsp.rust: give command and files"),
        ("[lsp.rust]\nfiles = 1\n", "line 2: lsp.rust.files: must be a list of texts"),
        ("[lsp.rust]\nport = 1\n", "a language server has no such member"),
        ("lsp = 1\n", "language servers are written as"),
        ("[lsp]\nx = 1\n", "a language server is written as a table"),
    ],
)
def test_a_wrong_section_is_named_with_its_line(text: str, what: str) -> None:
    with pytest.raises(ConfigFault, match=what.replace("[", "\\[")):
        build_table(parse_config(text, "config.toml").lsp)


def test_the_root_is_the_nearest_folder_with_a_marker_inside_the_session(tmp_path: Path) -> None:
    deep = tmp_path / "session" / "one" / "two"
    deep.mkdir(parents=True)
    (tmp_path / "mark").touch()
    session, file = str(tmp_path / "session"), str(deep / "a.py")
    assert find_root(file, ["mark"], [session]) == session
    (tmp_path / "session" / "one" / "mark").touch()
    assert find_root(file, ["mark"], [session]) == str(tmp_path / "session" / "one")
    assert find_root(file, ["mark"], [session, str(deep)]) == str(deep)
    assert find_root(str(tmp_path / "b.py"), ["mark"], [session]) is None
    assert find_root(session + "2/a.py", ["mark"], [session]) is None


def test_languages_are_named_as_lsp_does() -> None:
    assert [language_id(f"/a/x.{end}") for end in ("py", "tsx", "go", "Q")] == ["python", "typescriptreact", "go", "q"]
