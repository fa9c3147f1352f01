"""Grants in a file: kept for the owner alone, changed by several processes, revoked while in use."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from dragoman.config.grants import GrantsFile
from dragoman.config.private_files import file_lock, read_bytes, write_private
from dragoman.errors import ConfigFault
from dragoman.policy.grants import Grant


def grant(id: str, **more: object) -> Grant:
    """A grant for writing one file."""
    values = {
        "verdict": "allow",
        "scope": "always",
        "operation": "file_write",
        "created": 1.0,
        "resource": "/w/a",
        **more,
    }
    return Grant(id=id, **values)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where the grants are; the folder is not there yet."""
    return str(tmp_path / "state" / "dragoman" / "grants.json")


def ids(grants: GrantsFile) -> list[str]:
    """What is granted, by id."""
    return [each.id for each in grants.current()]


def test_a_new_file_has_no_grants(path: str) -> None:
    assert GrantsFile(path).current() == ()
    assert not os.path.exists(path)


def test_added_grants_are_read_by_the_next_process(path: str) -> None:
    given = grant("a", expires=99.0, session="s", run="r")
    GrantsFile(path).add([given], now=2.0)
    assert GrantsFile(path).current() == (given,)


def test_only_the_owner_can_read_them(path: str) -> None:
    GrantsFile(path).add([grant("a")], now=2.0)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700


def test_a_grant_revoked_by_another_process_ends_at_once(path: str) -> None:
    running, other = GrantsFile(path), GrantsFile(path)
    running.add([grant("a"), grant("b")], now=2.0)
    assert ids(running) == ["a", "b"]
    assert [each.id for each in other.revoke(["a", "nosuch"])] == ["a"]
    assert ids(running) == ["b"]
    assert other.revoke(["a"]) == []


def test_expired_grants_are_removed_when_others_are_added(path: str) -> None:
    grants = GrantsFile(path)
    grants.add([grant("a", expires=5.0)], now=1.0)
    grants.add([grant("b")], now=6.0)
    assert ids(grants) == ["b"]


def test_the_end_of_a_run_ends_its_sessions_grants(path: str) -> None:
    grants = GrantsFile(path)
    grants.add([grant("a", scope="session", run="r"), grant("b")], now=2.0)
    grants.forget_run("r")
    assert ids(grants) == ["b"]


@pytest.mark.parametrize("text", ["{", '{"grants": 5}', '{"format": 2, "grants": []}', '{"grants": [{"id": "a"}]}'])
def test_the_error_for_a_damaged_file_says_what_to_do(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path))
    Path(path).write_text(text)
    with pytest.raises(ConfigFault, match=r"grants\.json: "):
        GrantsFile(path).current()
    with pytest.raises(ConfigFault):
        GrantsFile(path).add([grant("a")], now=1.0)
    assert Path(path).read_text() == text


def _add(path: str, name: str) -> None:
    for number in range(20):
        GrantsFile(path).add([grant(f"{name}{number}")], now=1.0)


def test_several_processes_lose_nothing(path: str) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_add, args=(path, name)) for name in "xyz"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert len(ids(GrantsFile(path))) == 60


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "f")
    write_private(path, b"before")

    def fail(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no"):
        write_private(path, b"after")
    assert read_bytes(path) == b"before"
    assert os.listdir(tmp_path) == ["f"]


def test_a_path_that_is_not_a_file_is_refused(tmp_path: Path) -> None:
    assert read_bytes(str(tmp_path / "nosuch" / "f")) is None
    with pytest.raises(OSError):
        read_bytes(str(tmp_path))


@pytest.mark.timeout(60)
def test_a_pipe_is_not_read_as_an_empty_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="not a regular file"):
        read_bytes(str(pipe))
    writer = os.open(pipe, os.O_RDWR)
    try:
        with pytest.raises(OSError, match="not a regular file"):
            read_bytes(str(pipe))
    finally:
        os.close(writer)
    assert read_bytes(os.devnull) == b""


def test_the_lock_is_released(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with file_lock(str(path)), open(f"{path}.lock") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with open(f"{path}.lock") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
