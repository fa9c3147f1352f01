"""Keeps the files of the window out of the user's own folders."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def isolate_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use folders of the test, and a terminal with common abilities."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))  # the window shows a folder as ~/here
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    for name in ("NO_COLOR", "EDITOR", "VISUAL", "TMUX", "KITTY_WINDOW_ID", "DRAGOMAN_IMAGES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a file."""
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "notes.txt").write_text("a line to read\nthe old text\nthe end\n")
    return folder
