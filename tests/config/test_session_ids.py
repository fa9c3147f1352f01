"""The ids that clients chose, in a file: by agent and folder, the latest first, and never in the way of a session."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dragoman.config import session_ids
from dragoman.config.session_ids import SessionIdsFile


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return where the ids are; the folder does not exist yet."""
    return str(tmp_path / "state" / "session-ids.json")


def ids(path: str, *command: str, reports: list[str] | None = None) -> SessionIdsFile:
    """Return the ids of an agent's sessions, as one process sees them."""
    return SessionIdsFile(path, command or ("agent",), (reports if reports is not None else []).append)


def test_another_process_finds_the_latest_session_of_an_id(path: str) -> None:
    assert ids(path).find("/w", "mine") is None
    ids(path).add("/w", "mine", "a-1")
    ids(path).add("/w", "mine", "a-2")
    assert ids(path).find("/w", "mine") == "a-2"


def test_the_same_id_in_another_folder_or_of_another_agent_is_another_session(path: str) -> None:
    ids(path, "agent", "--key", "k").add("/w", "mine", "a-1")
    assert ids(path, "agent", "--key", "k").find("/elsewhere", "mine") is None
    assert ids(path, "agent", "--key k").find("/w", "mine") is None


def test_the_file_is_private_and_has_no_command_line(path: str) -> None:
    ids(path, "agent", "--token", "s3cret").add("/w", "mine", "a-1")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert "s3cret" not in Path(path).read_text()


def test_the_oldest_ids_are_dropped(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_ids, "MAX_IDS", 2)
    kept = ids(path)
    for number in range(3):
        kept.add("/w", f"c-{number}", f"a-{number}")
    assert [kept.find("/w", f"c-{number}") for number in range(3)] == [None, "a-1", "a-2"]


@pytest.mark.parametrize("text", ["{", '{"format": 2, "ids": []}'])
def test_an_unreadable_file_is_reported_once_and_left_alone(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path))
    Path(path).write_text(text)
    reports: list[str] = []
    kept = ids(path, reports=reports)
    assert kept.find("/w", "mine") is None
    kept.add("/w", "mine", "a-1")
    assert Path(path).read_text() == text
    (report,) = reports
    assert path in report


def test_a_folder_that_cannot_be_written_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    reports: list[str] = []
    kept = ids(str(tmp_path / "file" / "session-ids.json"), reports=reports)
    kept.add("/w", "mine", "a-1")
    kept.add("/w", "other", "a-2")
    assert len(reports) == 1
