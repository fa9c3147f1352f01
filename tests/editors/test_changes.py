"""Writing, reading and undoing entries in the files of editors."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from dragoman.config.config_file import NamedAgent
from dragoman.editors.changes import History, plan_undo, plan_write, read_entries, render_entry
from dragoman.editors.launch import Launch, launch_agent, launch_attach, launch_translate, way_for
from dragoman.editors.settings_file import read_file, replace_file
from dragoman.editors.table import COMMAND, EDITORS, JSON
from dragoman.errors import ConfigFault

ROOF = Launch(name="roof", title="Roof", command="/opt/roof", args=("acp", 'a "b" \\ c'), env={"K": "v'1"})
SETTINGS = '{\n  // mine\n  "theme": "x",\n}\n'
WRITABLE = [editor for editor in EDITORS.values() if editor.form != COMMAND]


class Trial:
    """A file and a history."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "settings.json"
        self.history = History(str(folder / "state"))
        self.count = 0

    def write(self, launch: Launch, editor: str = "zed") -> None:
        self.count += 1
        change = plan_write(EDITORS[editor], launch, str(self.path))
        self.history.apply(change, f"id{self.count}", "2026-11-17T00:00:00Z")

    def undo(self, editor: str = "zed", title: str | None = None) -> None:
        applied = self.history.last(editor, title)
        assert applied is not None
        self.history.undo(applied, plan_undo(applied, self.history.folder))


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(tmp_path)


@pytest.mark.parametrize("editor", WRITABLE, ids=lambda editor: editor.name)
def test_an_entry_is_written_read_back_and_undone_in_every_editor(trial: Trial, editor: object) -> None:
    name = editor.name  # type: ignore[attr-defined]
    trial.write(ROOF, name)
    (entry,) = read_entries(EDITORS[name], str(trial.path))
    assert entry.title in ("Roof", "roof")
    if EDITORS[name].form == JSON:
        assert (entry.command, entry.args, entry.env) == (ROOF.command, ROOF.args, ROOF.env)
    trial.undo(name)
    assert not trial.path.exists()
    assert trial.history.last(name) is None


def test_writing_twice_changes_nothing(trial: Trial) -> None:
    trial.path.write_text(SETTINGS)
    trial.write(ROOF)
    assert plan_write(EDITORS["zed"], ROOF, str(trial.path)).is_empty


def test_undo_restores_the_bytes_and_goes_back_step_by_step(trial: Trial) -> None:
    trial.path.write_bytes(SETTINGS.replace("\n", "\r\n").encode())
    before = trial.path.read_bytes()
    trial.write(ROOF)
    middle = trial.path.read_bytes()
    trial.write(Launch(name="other", title="Other", command="/x"))
    trial.undo()
    assert trial.path.read_bytes() == middle
    trial.undo()
    assert trial.path.read_bytes() == before


def test_undo_keeps_what_the_user_changed_since(trial: Trial) -> None:
    trial.path.write_text(SETTINGS)
    trial.write(ROOF)
    trial.path.write_text(trial.path.read_text().replace('"x"', '"y" /* newer */'))
    trial.undo()
    assert trial.path.read_text().startswith('{\n  // mine\n  "theme": "y" /* newer */')
    assert read_entries(EDITORS["zed"], str(trial.path)) == []


def test_an_older_entry_of_the_user_comes_back_also_after_other_changes(trial: Trial) -> None:
    trial.path.write_text(
        '{\n  "agent_servers": {\n    "Roof": {"type": "custom", "command": "old",} // kept\n  }\n}\n'
    )
    trial.write(ROOF)
    trial.path.write_text(f"// new\n{trial.path.read_text()}")
    trial.undo()
    assert '"Roof": {"type": "custom", "command": "old",} // kept' in trial.path.read_text()


def test_members_that_only_the_user_sets_stay(trial: Trial) -> None:
    trial.path.write_text(
        '{"agent_servers": {"Roof": {"type": "custom", "command": "old", "env": {"A": "1"},\n'
        '  "default_config_options": {"model": "x"}}}}'
    )
    plain = Launch(name="roof", title="Roof", command="/new")
    trial.write(plain)
    entry = json.loads(trial.path.read_text())["agent_servers"]["Roof"]
    assert entry == {
        "type": "custom",
        "command": "/new",
        "args": [],
        "default_config_options": {"model": "x"},
    }


def test_an_entry_of_the_registry_is_replaced_as_a_whole(trial: Trial) -> None:
    trial.path.write_text('{"agent_servers": {"Roof": {"type": "registry", "env": {"A": "1"}}}}')
    assert read_entries(EDITORS["zed"], str(trial.path))[0].kind == "registry"
    trial.write(ROOF)
    assert read_entries(EDITORS["zed"], str(trial.path))[0].command == "/opt/roof"


def test_mode_and_links_of_the_file_are_kept(trial: Trial, tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "zed.json").write_text(SETTINGS)
    (dotfiles / "zed.json").chmod(0o640)
    trial.path.symlink_to(dotfiles / "zed.json")
    trial.write(ROOF)
    assert trial.path.is_symlink()
    assert stat.S_IMODE((dotfiles / "zed.json").stat().st_mode) == 0o640
    assert "Roof" in (dotfiles / "zed.json").read_text()
    assert sorted(os.listdir(dotfiles)) == ["zed.json"]
    trial.undo()
    assert trial.path.is_symlink()
    assert trial.path.read_text() == SETTINGS


def test_a_new_file_is_readable_only_by_its_owner(trial: Trial) -> None:
    trial.write(ROOF)
    assert stat.S_IMODE(trial.path.stat().st_mode) == 0o600


def test_a_file_that_changed_meanwhile_is_not_overwritten(trial: Trial) -> None:
    trial.path.write_text(SETTINGS)
    change = plan_write(EDITORS["zed"], ROOF, str(trial.path))
    trial.path.write_text('{"by": "the editor"}')
    with pytest.raises(ConfigFault, match="changed by another program"):
        trial.history.apply(change, "id", "")
    assert trial.path.read_text() == '{"by": "the editor"}'
    assert trial.history.last("zed") is None
    assert sorted(os.listdir(trial.path.parent)) == ["settings.json", "state"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"a": \xff}', "is not UTF-8"),
        (b'{"agent_servers": []}', "line 1: agent_servers is not an object"),
        (b'{\n"a": 1\n', "line 3"),
    ],
)
def test_a_file_that_cannot_be_changed_is_refused_and_left_alone(trial: Trial, content: bytes, reason: str) -> None:
    trial.path.write_bytes(content)
    with pytest.raises(ConfigFault, match=reason):
        plan_write(EDITORS["zed"], ROOF, str(trial.path))
    assert trial.path.read_bytes() == content


def test_a_dangling_link_and_a_pipe_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    os.mkfifo(tmp_path / "pipe")
    for name, reason in (("link", "does not exist"), ("pipe", "not a regular file")):
        with pytest.raises(ConfigFault, match=reason):
            read_file(str(tmp_path / name))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_named(trial: Trial) -> None:
    trial.path.write_text(SETTINGS)
    trial.path.parent.chmod(0o500)
    try:
        with pytest.raises(ConfigFault, match="Permission denied; show the entry instead"):
            replace_file(read_file(str(trial.path)), "x")
    finally:
        trial.path.parent.chmod(0o700)


def test_a_file_of_ours_without_its_last_line_is_refused(trial: Trial) -> None:
    trial.path.write_text("print(1)\n")
    with pytest.raises(ConfigFault, match="has no line 'return M'"):
        plan_write(EDITORS["avante"], ROOF, str(trial.path))


def test_blocks_of_two_agents_and_two_plugins_share_a_file(trial: Trial) -> None:
    trial.write(ROOF, "avante")
    first = trial.path.read_text()
    trial.write(ROOF, "codecompanion")
    trial.write(Launch(name="other", title="Other", command="/x"), "codecompanion")
    assert [entry.title for entry in read_entries(EDITORS["codecompanion"], str(trial.path))] == ["roof", "other"]
    trial.path.write_text(f"-- my remark\n{trial.path.read_text()}")
    trial.undo("codecompanion", "codecompanion roof")
    trial.undo("codecompanion")
    assert trial.path.read_text() == f"-- my remark\n{first}"


def test_only_the_last_changes_can_be_undone(trial: Trial) -> None:
    for number in range(25):
        trial.write(Launch(name="n", title=f"n{number}", command="/x"))
    copies = [name for name in os.listdir(trial.history.folder) if name.endswith(".before")]
    assert len(copies) <= 20
    assert trial.history.last("zed", "n0") is None
    assert trial.history.last("zed", "n24") is not None


def test_an_agent_is_started_directly_only_if_that_loses_nothing() -> None:
    assert way_for(NamedAgent(name="a", command="x")) == "direct"
    assert way_for(NamedAgent(name="a", command="x", env={"K": "v"})) == "translate"
    assert way_for(NamedAgent(name="a", command="x", sandbox=True)) == "translate"
    assert way_for(NamedAgent(name="a", command="x", dialect="draft")) == "translate"


def test_programs_are_written_with_absolute_paths(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    launch = launch_agent(NamedAgent(name="a", command="tool", args=("--acp",)), "A", {"PATH": str(tmp_path)})
    assert launch.argv == (str(tmp_path / "tool"), "--acp")
    with pytest.raises(ConfigFault, match="gone is not on PATH; install it"):
        launch_agent(NamedAgent(name="a", command="gone"), "A", {"PATH": str(tmp_path)})
    assert os.path.isabs(launch_attach("office", "claude", "n", "N").command)


def test_a_script_whose_interpreter_only_your_shell_finds_is_started_by_it(tmp_path: Path) -> None:
    for name, text in (("own-node", "#!/bin/sh\n"), ("agent", "#!/usr/bin/env own-node\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    launch = launch_agent(NamedAgent(name="a", command="agent"), "A", {"PATH": str(tmp_path)})
    assert launch.argv == (str(tmp_path / "own-node"), str(tmp_path / "agent"))


def test_translate_names_a_configured_agent_and_repeats_any_other_command() -> None:
    agent = NamedAgent(name="a", command=sys.executable, args=("-c", "x"))
    assert launch_translate(agent, "A", is_configured=True).args[-3:] == ("translate", "--agent", "a")
    assert launch_translate(agent, "A", is_configured=False).args[-4:] == ("--", sys.executable, "-c", "x")


def test_words_that_no_text_file_can_hold_are_refused(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("")
    (tmp_path / "tool").chmod(0o755)
    for word, reason in (("\udc80", "not valid UTF-8"), ("a\0b", "NUL")):
        with pytest.raises(ConfigFault, match=reason):
            launch_agent(NamedAgent(name="a", command="tool", args=(word,)), "A", {"PATH": str(tmp_path)})


def test_marimo_gets_a_command_for_the_port_of_an_agent_that_it_knows() -> None:
    plain = Launch(name="my-gemini", title="G", command="/opt/g", args=("--acp", "a b"))
    assert render_entry(EDITORS["marimo"], plain) == "npx stdio-to-ws '/opt/g --acp '\"'\"'a b'\"'\"'' --port 3019\n"
    assert "--port 3017" in render_entry(EDITORS["marimo"], ROOF)
