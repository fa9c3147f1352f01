"""`dragoman tokens` and `dragoman hosts`."""

from __future__ import annotations

import io
import json
import os
import re
import socket
import stat
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import pytest

from dragoman.cli.commands.hosts import probe_hosts
from dragoman.cli.host_client.api import resolve_host
from dragoman.cli.main import main
from dragoman.config.config_file import load_config
from dragoman.config.paths import user_paths
from tests.cli.process import dragoman


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command in this process."""

    def ran(*arguments: str, text: str = "") -> Ran:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Ran(code, *capsys.readouterr())

    return ran


def test_a_token_is_created_listed_and_revoked(run: Run) -> None:
    created = dragoman("tokens", "create", "ann", "--role", "viewer", "--for", "2h", "--label", "laptop")
    assert created.returncode == 0
    token = created.stdout.strip()
    assert token.startswith("dgm_")
    assert "not shown again" in created.stderr
    [listed] = json.loads(run("tokens", "list", "--json").out)
    assert (listed["user"], listed["role"], listed["label"], listed["state"]) == ("ann", "viewer", "laptop", "valid")
    assert 7100 < listed["expires"] - listed["created"] < 7300
    listing = run("tokens", "list").out
    assert "never used" in listing
    assert token not in listing
    assert run("tokens", "revoke", listed["id"]).out == f"revoked {listed['id']}: ann, viewer\n"
    assert json.loads(run("tokens", "list", "--json").out)[0]["state"] == "revoked"


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (("create",), 2, "needs the name of one user"),
        (("create", "a b"), 1, "is not a valid user name"),
        (("create", "x" * 3000), 1, "at most 128 letters"),
        (("create", "ann", "--for", "soon"), 2, "y(ears)), for example 90d"),
        (("create", "ann", "--for", "0d"), 2, "must be longer than zero"),
        (("create", "ann", "--for", "1d", "--forever"), 2, "cannot be used together"),
        (("revoke",), 2, "needs the id of a token"),
        (("revoke", "nobody"), 1, "there is no token"),
        (("list", "ann"), 2, "no names"),
    ],
)
def test_wrong_token_arguments_are_one_error_line(
    run: Run, arguments: tuple[str, ...], code: int, expected: str
) -> None:
    ran = run("tokens", *arguments)
    assert (ran.code, ran.err.count("\n")) == (code, 1)
    assert expected in ran.err
    assert len(ran.err) < 300


def test_tokens_are_listed_and_those_that_expire_soon_with_the_time(run: Run) -> None:
    assert "there are no tokens" in run("tokens").out
    assert re.search(
        r"until \d{4}-\d\d-\d\d \d\d:\d\d UTC; the token is", run("tokens", "create", "ann", "--for", "1m").err
    )
    run("tokens", "create", "ben")
    ben, ann = run("tokens").out.splitlines()
    assert re.search(r"ann  .* UTC  ", ann)
    assert re.search(r"ben  .*until \d{4}-\d\d-\d\d  ", ben)


@pytest.mark.parametrize("arguments", [("share", "roof"), ("list", "--host")])
def test_a_host_of_this_machine_that_does_not_run_is_reported_with_how_to_name_another(
    run: Run, arguments: tuple[str, ...]
) -> None:
    path = Path(user_paths().config_file)
    path.parent.mkdir(parents=True)
    path.write_text('[host]\nbind = "127.0.0.1:9"\n')
    asked = run("sessions", *arguments)
    assert asked.code == 7
    advice = "start it with `dragoman serve`, or name another one with --host NAME|URL"
    assert asked.err == f"dragoman sessions {arguments[0]}: no host runs at http://127.0.0.1:9; {advice}\n"


def test_an_unknown_host_agent_is_a_config_error(run: Run) -> None:
    path = Path(user_paths().config_file)
    path.parent.mkdir(parents=True)
    path.write_text('version = 1\n[agents.one]\ncommand = "one"\n[host]\nagents = ["one", "nope"]\n')
    checked = run("config", "check")
    assert (checked.code, checked.out) == (1, "")
    assert checked.err.startswith(f"{path}: host.agents: there is no agent 'nope'; known agents: one")
    assert checked.err.count("\n") == 1


def test_host_without_a_value_is_the_default_host(run: Run) -> None:
    run("hosts", "add", "office", "http://127.0.0.1:1", "--default")
    for arguments in (("sessions", "list", "--host"), ("run", "hello", "--host")):
        ran = run(*arguments)
        assert (ran.code, "127.0.0.1:1" in ran.err) == (7, True), ran
    assert "put the prompt before --host" in run("run", "--host", "hello there").err


def test_an_address_that_no_command_can_use_is_not_added(run: Run) -> None:
    added = run("hosts", "add", "office", "http://office.example:7437", text="dgm_secret\n")
    assert (added.code, added.out) == (2, "")
    assert "without TLS only this machine can be used; use https://, forward the port with ssh -L, or" in added.err
    assert "tls=False" not in added.err
    assert "no host is configured" in run("hosts").out


def test_a_host_is_added_with_its_token_in_a_private_file(run: Run, tmp_path: Path) -> None:
    added = run("hosts", "add", "office", "https://office.example:7437", "--default", text="dgm_secret\n")
    assert added.code == 0, added.err
    file = tmp_path / "config" / "dragoman" / "tokens" / "office"
    assert file.read_text() == "dgm_secret\n"
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    listing = run("hosts", "--json").out
    assert "dgm_secret" not in listing
    known = json.loads(listing)
    assert (known["default"], known["hosts"][0]["url"]) == ("office", "https://office.example:7437")
    assert run("hosts", "remove", "office").code == 0
    assert not file.exists()
    assert run("hosts", "remove", "office").code == 1
    assert "no host is configured" in run("hosts").out
    assert run("hosts", "add", "roof", "http://127.0.0.1:7437/acp?token=dgm_link").code == 0
    assert "dgm_link" not in run("hosts").out
    assert file.with_name("roof").read_text() == "dgm_link\n"
    assert run("hosts", "add", "shed", text="http://127.0.0.1:7437/acp?token=dgm_read\n").code == 0
    assert file.with_name("shed").read_text() == "dgm_read\n"
    assert "give the URL" in run("hosts", "add", "barn").err


def test_changing_a_host_keeps_other_settings_and_never_moves_its_token(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "config" / "dragoman" / "tokens" / "office"
    run("hosts", "add", "office", "https://office.example:7437", "--default", text="dgm_secret\n")
    assert run("hosts", "add", "office", "--ca", "new.pem").out == "changed office\n"
    stored = load_config(user_paths().config_file).hosts["office"]
    assert (stored.url, stored.token_file, stored.ca) == (
        "https://office.example:7437",
        str(file),
        os.path.abspath("new.pem"),
    )
    assert run("hosts", "add", "office", text="dgm_next").code == 0
    assert file.read_text() == "dgm_next\n"
    moved = run("hosts", "add", "office", "https://elsewhere.example:7437", "--json")
    assert json.loads(moved.out) == {"changed": "office", "token": False}
    known = load_config(user_paths().config_file)
    assert (known.default_host, known.hosts["office"].ca) == ("office", os.path.abspath("new.pem"))
    assert not file.exists()
    assert run("hosts", "add", "other").code == 2


def test_the_list_shows_the_state_of_each_host_within_a_timeout(run: Run) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            bearer.append(self.headers.get("Authorization"))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"dragoman": "9", "user": "ann", "role": "editor", "agents": ["one", "two"]}')

        def log_message(self, *_: object) -> None:
            pass

    bearer: list[str | None] = []
    with HTTPServer(("127.0.0.1", 0), Handler) as server, socket.socket() as silent:
        Thread(target=server.serve_forever, daemon=True).start()
        run("hosts", "add", "up", f"http://127.0.0.1:{server.server_port}", text="dgm_mine")
        run("hosts", "add", "down", "http://127.0.0.1:9")
        os.environ["DRAGOMAN_TOKEN"] = "dgm_of_another"
        try:
            shown, listing = run("hosts").out, json.loads(run("hosts", "list", "--json").out)
        finally:
            del os.environ["DRAGOMAN_TOKEN"]
        assert "ms, dragoman 9, you are ann (editor), agents: one, two\n" in shown
        assert "connection refused" in shown
        up, down = listing["hosts"]
        assert (up["reachable"], up["version"], up["agents"]) == (True, "9", ["one", "two"])
        assert (down["reachable"], down["milliseconds"]) == (False, None)
        assert bearer == ["Bearer dgm_mine"] * 2
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        late = probe_hosts({"late": lambda: resolve_host(url)}, lambda _: None, timeout=0.2)
        assert late["late"].error
        server.shutdown()


def test_tokens_of_long_names_stay_in_columns(tmp_path: Path) -> None:
    for user in ("ann", "a-user-with-a-long-name"):
        assert dragoman("tokens", "create", user, cwd=tmp_path).returncode == 0
    lines = dragoman("tokens", cwd=tmp_path).stdout.splitlines()
    assert len({line.index("editor") for line in lines}) == 1
