"""The input history is private and limited, and a damaged file does not stop the chat."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.cli.chat import line_editor
from dragoman.cli.chat.line_editor import MAX_HISTORY, InputHistory, type_ahead_text
from dragoman.cli.connect.prompt import mentioned_files


def test_texts_come_back_in_order(tmp_path: Path) -> None:
    history = InputHistory(str(tmp_path / "state" / "history"))
    assert history.texts() == []
    for text in ("one", "two\nlines", " not this", "", "drei ü"):
        history.add(text)
    assert history.texts() == ["one", "two\nlines", "drei ü"]
    assert stat.S_IMODE(os.stat(tmp_path / "state" / "history").st_mode) == 0o600


def test_a_damaged_history_gives_its_readable_lines(tmp_path: Path) -> None:
    file = tmp_path / "history"
    file.write_bytes(b'"one"\nnonsense\n\xff\n{"a": 1}\n"two"\n"cut')
    assert InputHistory(str(file)).texts() == ["one", "two"]


def test_an_unwritable_folder_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    InputHistory(str(tmp_path / "file" / "history")).add("text")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    InputHistory(str(tmp_path / "link")).add("text")
    assert not (tmp_path / "elsewhere").exists()


def test_the_history_file_is_truncated(tmp_path: Path) -> None:
    file = tmp_path / "history"
    file.write_text("".join(f'"{number}"\n' for number in range(2 * MAX_HISTORY)))
    InputHistory(str(file)).add("last")
    assert len(file.read_text().splitlines()) == MAX_HISTORY
    assert InputHistory(str(file)).texts()[-1] == "last"


# --- what is typed --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (b"hello", "hello"),
        (b"hellp\x7fo\r", "hello"),
        (b"one\rtwo\r", "one\ntwo"),
        (b"\x1b[A\x1b[3~x\x1bOAy", "xy"),
        ("naïve 漢\x07".encode(), "naïve 漢"),
        (b"\xff\x04ok", "ok"),
    ],
)
def test_type_ahead_is_plain_text(keys: bytes, text: str) -> None:
    assert type_ahead_text(keys) == text


@given(st.binary())
def test_type_ahead_has_no_control_characters(keys: bytes) -> None:
    assert all(character == "\n" or character.isprintable() for character in type_ahead_text(keys))


def test_files_are_mentioned_with_an_at_sign(tmp_path: Path) -> None:
    for name in ("a.txt", "b c.txt", "d.py"):
        (tmp_path / name).touch()
    text = 'see @a.txt, @"b c.txt" and (not@d.py) @nosuch @a.txt @d.py.'
    assert mentioned_files(text, str(tmp_path)) == [str(tmp_path / name) for name in ("a.txt", "b c.txt", "d.py")]


def test_files_are_completed_by_any_part_of_their_name(tmp_path: Path) -> None:
    for name in ("main.py", "test_main.py", ".hidden", "two words.txt", "evil\x1b[2J.txt"):
        (tmp_path / name).touch()
    (tmp_path / "maintenance").mkdir()

    def offered(before: str) -> list[str]:
        return [candidate.text for candidate in line_editor.complete_file(before, str(tmp_path))]

    assert offered("see @main") == ["@maintenance/", "@main.py", "@test_main.py"]
    assert offered("@.h") == ["@.hidden"]
    assert offered("@wor") == ['@"two words.txt"']
    assert offered("@evil") == []
    assert offered("mail@main") == []
    assert offered("@nosuch/") == []


def test_slash_commands_are_completed_if_they_can_be_typed() -> None:
    commands = [("plan", "a\x1b[31mb"), ("pl an", ""), ("p\x1b[2J", ""), ("other", "")]
    (found,) = line_editor.complete_slash_command("/p", commands)
    assert (found.text, found.replaced_length, found.description) == ("/plan ", 2, "a␛[31mb")
    assert list(line_editor.complete_slash_command("/p x", commands)) == []
