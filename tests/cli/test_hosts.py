"""`dragoman tokens` and `dragoman hosts`: one of them as a process, the rest in this one, for processes cost time."""

from __future__ import annotations

import io
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from dragoman.cli.main import main
from tests.cli.command import dragoman


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command, in this process."""

    def ran(*words: str, text: str = "") -> Ran:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        capsys.readouterr()
        try:
            code = main(words)
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Ran(code, *capsys.readouterr())

    return ran


def test_a_token_is_made_listed_and_revoked(run: Run) -> None:
    made = dragoman("tokens", "create", "ann", "--role", "viewer", "--for", "2h", "--label", "laptop")
    assert made.returncode == 0
    token = made.stdout.strip()
    assert token.startswith("dgm_")
    assert "not shown again" in made.stderr
    [listed] = json.loads(run("tokens", "list", "--json").out)
    assert (listed["user"], listed["role"], listed["label"], listed["state"]) == ("ann", "viewer", "laptop", "valid")
    assert 7100 < listed["expires"] - listed["created"] < 7300
    shown = run("tokens", "list").out
    assert "never used" in shown
    assert token not in shown
    assert run("tokens", "revoke", listed["id"]).out == f"revoked {listed['id']}: ann, viewer\n"
    assert json.loads(run("tokens", "list", "--json").out)[0]["state"] == "revoked"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("create",), 2, "for whom"),
        (("create", "a b"), 1, "no name of a user"),
        (("create", "ann", "--for", "soon"), 2, "as in 90d"),
        (("create", "ann", "--for", "0d"), 2, "no time at all"),
        (("create", "ann", "--for", "1d", "--forever"), 2, "contradict"),
        (("revoke",), 2, "which"),
        (("revoke", "nobody"), 1, "there is no token"),
        (("list", "ann"), 2, "no names"),
    ],
)
def test_wrong_words_about_tokens_are_one_line(run: Run, words: tuple[str, ...], code: int, said: str) -> None:
    ran = run("tokens", *words)
    assert (ran.code, ran.err.count("\n")) == (code, 1)
    assert said in ran.err


def test_a_host_is_kept_with_its_token_in_a_private_file(run: Run, tmp_path: Path) -> None:
    added = run("hosts", "add", "office", "https://office.example:7437", "--default", text="dgm_secret\n")
    assert added.code == 0, added.err
    file = tmp_path / "config" / "dragoman" / "tokens" / "office"
    assert file.read_text() == "dgm_secret\n"
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    told = run("hosts", "--json").out
    assert "dgm_secret" not in told
    known = json.loads(told)
    assert (known["default"], known["hosts"][0]["url"]) == ("office", "https://office.example:7437")
    assert run("hosts", "add", "office", "https://x").code == 2
    assert run("hosts", "remove", "office").code == 0
    assert not file.exists()
    assert run("hosts", "remove", "office").code == 1
    assert "none is configured" in run("hosts").out
    assert run("hosts", "add", "roof", "http://127.0.0.1:7437/acp?token=dgm_link").code == 0
    assert "dgm_link" not in run("hosts").out
    assert file.with_name("roof").read_text() == "dgm_link\n"
