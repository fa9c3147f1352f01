"""`dragoman mcp`: the user's MCP servers are added, listed, tested and removed, without showing a credential."""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
from pathlib import Path

import pytest

from dragoman.cli.commands.mcp import main
from tests.cli.process import OnTerminal
from tests.mcp.servers import BARE, KEY


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_a_server_is_added_listed_tested_and_removed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["add", "bare", "--env", f"KEY={KEY}", "--", sys.executable, "-S", BARE]) == 0
    assert main(["add", "web", "--url", "https://x.example/mcp", "--header", f"Authorization=Bearer {KEY}"]) == 0
    main(["path"])
    path = capsys.readouterr().out.splitlines()[-1]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert main(["list", "--json"]) == 0
    listed = capsys.readouterr().out
    assert [(row["name"], row["type"]) for row in json.loads(listed)["servers"]] == [("bare", "stdio"), ("web", "http")]
    assert main(["test", "bare", "--json"]) == 0
    shown = capsys.readouterr().out
    (row,) = json.loads(shown)["servers"]
    assert "echo" in row["tools"]
    assert KEY not in listed + shown
    assert main(["remove", "bare"]) == 0
    assert main(["remove", "bare"]) == 1


def test_a_server_that_fails_is_named_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    main(["add", "gone", "--", "no-such-program"])
    assert main(["test"]) == 1
    assert "no such command on PATH" in capsys.readouterr().out


def test_a_port_that_cannot_be_used_is_an_error_that_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    agent = [sys.executable, "-m", "dragoman", "agent", "everything"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["--http", str(taken.getsockname()[1]), "--", *agent]) == 1
    assert "choose another port, or 0 for any" in capsys.readouterr().err
    assert main(["--http", "99999", "--", *agent]) == 1
    assert "a port is a number from 0 to 65535" in capsys.readouterr().err


def test_on_a_terminal_the_server_says_what_it_is_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    with OnTerminal("mcp", "--", sys.executable, "-c", "", cwd=tmp_path) as terminal:
        terminal.await_text("This program is an MCP server")
        terminal.type("\x03")
        assert terminal.end() == 130
