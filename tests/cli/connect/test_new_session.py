"""A session name that is not known: a new session is announced, and a close name is suggested."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.cli.connect.record import close_session_name
from dragoman.ids import now
from dragoman.store.contract import Draft, EntryKind
from dragoman.store.memory import MemoryStore
from tests.cli.process import DRAGOMAN, TIMEOUT, in_process
from tests.cli.serve_process import Served

SMALL = [sys.executable, str(Path(__file__).parents[1] / "small_agent.py")]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    host = Served(tmp_path_factory.mktemp("host"), "--bind", "127.0.0.1:0", agent=SMALL)
    yield host
    host.end(signal.SIGKILL)


@pytest.mark.parametrize("where", ["here", "on a host"])
def test_a_new_session_is_announced_with_a_name_that_is_close(where: str, served: Served, tmp_path: Path) -> None:
    def errors(*options: str) -> str:
        target = ("--host", served.url) if where == "on a host" else ()
        agent = () if where == "on a host" else ("--", *SMALL)
        ran = in_process("run", "hello", *options, *target, *agent, cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr
        return ran.stderr

    assert errors("-s", "team1") == "new session team1\n"
    assert "new session team1" not in errors("-s", "team1")
    assert errors("-s", "tem1") == "new session tem1; did you mean team1?\n"
    assert errors("-s", "teem1", "--quiet") == ""
    assert errors("-s", "teen1", "--json") == ""
    assert "new session" not in errors()


async def test_a_name_with_another_number_is_not_taken_for_a_typo() -> None:
    store = MemoryStore()
    await store.append("one", [Draft(kind=EntryKind.OPENED, actor="agent", time=now(), body={"cwd": "/"})])
    await store.rename("one", "team1")
    assert await close_session_name(store, "team2") == ""
    assert await close_session_name(store, "teem1") == "team1"


def test_a_viewer_learns_how_to_get_access_to_a_session(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [*DRAGOMAN, "tokens", "create", "bob", "--role", "viewer"]
    token = subprocess.run(command, env=served.environ, capture_output=True, text=True, timeout=TIMEOUT).stdout.strip()
    assert in_process("run", "--host", served.url, "-s", "board", "hello").returncode == 0
    monkeypatch.setenv("DRAGOMAN_TOKEN", token)
    ran = in_process("run", "--host", served.url, "-s", "board", "hi")
    assert ran.returncode == 2
    share = "dragoman sessions share board --user bob"
    assert "there is no session 'board' that you can see; " in ran.stderr
    assert ran.stderr.endswith(f"ask an admin of the session to run: {share}\n")
    monkeypatch.delenv("DRAGOMAN_TOKEN")
    assert in_process(*share.split()[1:], "--host", served.url).returncode == 0
    monkeypatch.setenv("DRAGOMAN_TOKEN", token)
    assert "you are viewer in this session" in in_process("run", "--host", served.url, "-s", "board", "hi").stderr
    assert "did you mean 'board'?" in in_process("run", "--host", served.url, "-s", "bord", "hi").stderr
