"""`dragoman serve`, `attach`, and `--host` of run and sessions: real processes around one host."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import pytest

from dragoman import ConnectionFailed, ProtocolError, connect
from dragoman.cli.main import main
from dragoman.cli.serve.process import announce
from dragoman.cli.ui.log_lines import LogLines
from dragoman.config.config_file import NamedAgent
from dragoman.config.paths import user_paths
from dragoman.host.auth.database import HostDatabase
from dragoman.store.urls import parse_address
from tests.cli.process import DRAGOMAN, EVERYTHING, TIMEOUT, OnScreen
from tests.cli.serve_process import Served


class Editor:
    """An editor that starts `dragoman attach` as its agent."""

    def __init__(self, served: Served, *arguments: str, **environ: str) -> None:
        self._process = subprocess.Popen(
            [*DRAGOMAN, "attach", served.url, *arguments],
            cwd=served.folder,
            env={**served.environ, **environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.received: list[dict[str, Any]] = []
        self._id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return its answer; messages in between are in `received`."""
        self._id += 1
        message = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
        while line := self._process.stdout.readline():
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == self._id and "method" not in answer:
                return answer
            self.received.append(answer)
        raise AssertionError(self._process.communicate()[1])

    def begin(self, cwd: Path) -> str:
        self.ask("initialize", protocolVersion=1, clientCapabilities={})
        return str(self.ask("session/new", cwd=str(cwd), mcpServers=[])["result"]["sessionId"])

    def prompt(self, session: str, text: str) -> str:
        """Send a prompt; return the agent's text."""
        self.received.clear()
        answer = self.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])
        assert answer["result"]["stopReason"] == "end_turn", answer
        return self.text_of("agent_message_chunk")

    def text_of(self, kind: str) -> str:
        updates = (each["params"]["update"] for each in self.received if each.get("method") == "session/update")
        return "".join(each["content"]["text"] for each in updates if each["sessionUpdate"] == kind)

    def end(self) -> tuple[int, str]:
        """Disconnect; return the exit code and stderr."""
        _, stderr = self._process.communicate(timeout=TIMEOUT)
        return self._process.returncode, stderr


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(served: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command of the host's user in this process, which is faster."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, served.environ[name])
    monkeypatch.chdir(served.folder)
    monkeypatch.setattr("sys.stdin", None)

    def ran(*arguments: str) -> Ran:
        capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Ran(code, *capsys.readouterr())

    return ran


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    host = Served(tmp_path_factory.mktemp("host"), "--bind", "127.0.0.1:0")
    yield host
    if host.process.poll() is None:
        host.end(signal.SIGKILL)


@pytest.fixture(scope="module")
def roof(served: Served) -> subprocess.CompletedProcess[str]:
    """Send a prompt in a session with that name, for other tests."""
    arguments = ["run", "--host", served.url, "--session", "roof", "--json", "/echo the roof leaks"]
    ran = subprocess.run(
        [*DRAGOMAN, *arguments],
        cwd=served.folder,
        env=served.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert ran.returncode == 0, ran.stderr
    return ran


def test_a_prompt_runs_on_the_host_and_its_session_is_stored_there(
    served: Served, run: Run, roof: subprocess.CompletedProcess[str]
) -> None:
    lines = [json.loads(line) for line in roof.stdout.splitlines()]
    numbers = [line["seq"] for line in lines[:-1]]
    assert numbers == sorted(set(numbers))
    assert {line["kind"] for line in lines} >= {"opened", "turn_started", "prompt", "update", "turn_ended", "result"}
    assert lines[-1]["body"]["text"] == "the roof leaks"
    result = run("sessions", "show", "roof", "--host", served.url)
    assert result.out.count("the roof leaks") == 2
    assert run("sessions", "show", "roof") == result  # the host uses the user's own store


SESSIONS: tuple[tuple[str, ...], ...] = (
    (),
    ("list", "--json"),
    ("list", "--names", "--here"),
    ("list", "--last", "1"),
    ("show", "roof"),
    ("show", "roof", "--json"),
    ("show", "nosuch", "--json"),
    ("search", "leaks"),
    ("search", "leaks", "--json", "--session", "roof"),
    ("search", "nowhere"),
    ("fork", "roof", "roof"),
    ("fork", "nosuch"),
    ("fork", "roof", "--upto", "0"),
    ("rename", "nosuch", "x"),
    ("rename", "roof", "/x"),
    ("rename", "roof", "roof", "--json"),
    ("export", "nosuch"),
    ("delete", "roof", "nosuch"),
    ("expire", "--older", "90d"),
    ("expire", "--keep", "0", "--dry-run", "--json"),
)


@pytest.mark.usefixtures("roof")
@pytest.mark.parametrize("arguments", SESSIONS, ids=" ".join)
def test_sessions_of_a_host_are_shown_like_local_ones(served: Served, run: Run, arguments: tuple[str, ...]) -> None:
    there, here = run("sessions", *arguments, "--host", served.url), run("sessions", *arguments)
    assert there.code == here.code
    advice = f"dragoman sessions --host {served.url}`"  # the advice is for the same host
    assert [timeless(text).replace(advice, "dragoman sessions`") for text in (there.out, there.err)] == [
        timeless(here.out),
        timeless(here.err),
    ]


def timeless(text: str) -> str:
    """Remove ages, which can change between two commands, and so can column widths."""
    return re.sub(r" +(just now|\d+ minutes? ago) +", " ", re.sub(r", (just now|\d+ minutes? ago)", "", text))


@pytest.mark.usefixtures("roof")
def test_sessions_of_a_host_are_forked_renamed_exported_and_deleted(served: Served, run: Run, tmp_path: Path) -> None:
    host, file = ("--host", served.url), str(tmp_path / "loft.session")
    forked = f"loft is a copy of roof; continue it with: dragoman run --host {served.url} --session loft 'PROMPT'\n"
    assert run("sessions", "fork", "roof", "loft", *host).out == forked
    assert run("sessions", "rename", "loft", "attic", *host).out == "renamed loft to attic\n"
    assert run("sessions", "export", "attic", file, *host).code == 0
    deleted = json.loads(run("sessions", "delete", "attic", "--json", *host).out)["deleted"]
    imported = json.loads(run("sessions", "import", file, "--json").out)
    assert ([imported["sessionId"]], imported["name"]) == (deleted, "attic")
    assert run("sessions", "delete", "attic").code == 0


@pytest.mark.parametrize("arguments", [("import", "x.session"), ("repair",)], ids=" ".join)
def test_local_only_actions_are_refused_with_host_and_say_how(
    served: Served, run: Run, arguments: tuple[str, ...]
) -> None:
    refused = run("sessions", *arguments, "--host", served.url)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert f"without --host: {'copy the file' if arguments[0] == 'import' else 'stop the host'}" in refused.err


@pytest.mark.parametrize("arguments", [("run", "hello", "--host"), ("attach",)], ids=" ".join)
def test_an_unknown_agent_of_a_host_lists_the_known_ones(served: Served, run: Run, arguments: tuple[str, ...]) -> None:
    ran = run(*arguments, served.url, "--agent", "nope")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "has no agent 'nope'; its agents: " in ran.err


def test_an_editor_attaches_to_an_existing_session_and_gets_its_answer_first(served: Served) -> None:
    with Editor(served) as first:
        session = first.begin(served.folder)
        assert first.prompt(session, "/echo one") == "one"
        with Editor(served, "--session", session[:12]) as second:
            second.ask("initialize", protocolVersion=1, clientCapabilities={})
            second.received.clear()
            landed = second.ask("session/new", cwd=str(served.folder), mcpServers=[])["result"]
            assert landed["sessionId"] == session
            assert second.received == []
            assert second.prompt(session, "/echo two").endswith("two")
            assert second.text_of("user_message_chunk") == "/echo one"
        # Both see the same, and the other member sees the prompt too.
        assert first.prompt(session, "/echo three").endswith("three")
        assert first.text_of("user_message_chunk") == "/echo two"
        assert first.end()[0] == 0


@pytest.mark.usefixtures("roof")
def test_a_token_gives_access_only_to_shared_sessions(
    served: Served, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text(run("tokens", "create", "ann").out)
    file.chmod(0o600)
    ran = run("sessions", "--host", served.url, "--token-file", str(file), "--json")
    assert ran.out.strip() == "[]", ran.err
    made = run("sessions", "share", "roof", "--host", served.url, "--for", "1h")
    link = made.out.strip()
    revoking = r"to end it: dragoman sessions share roof --revoke \S+ --host "
    assert re.match(rf"valid until [-\d]+ [\d:]+ UTC; {revoking}", made.err)
    assert link.startswith(f"{served.url}/acp?token=dgm_")
    [seen] = json.loads(run("sessions", "--json", "--host", link).out)
    assert seen["name"] == "roof"
    refused = run("run", "--host", link, "/echo more")
    assert (refused.code, "you are viewer" in refused.err) == (1, True)
    assert "the request was refused (permission_denied)" in refused.err
    shared = run("sessions", "share", "roof", "--host", served.url, "--user", "ann", "--role", "admin").out
    assert shared == "ann is admin of roof, but the user's token allows only editor\n"
    shared = run("sessions", "share", "roof", "--host", served.url, "--user", "typo").out
    assert shared.startswith("typo is viewer of roof; this user has no token of the host yet")
    for user in ("ann", "typo"):
        arguments = ("--user", user, "--role", "none")
        assert (
            run("sessions", "share", "roof", "--host", served.url, *arguments).out
            == f"{user} is no longer a member of roof\n"
        )
    monkeypatch.setenv("DRAGOMAN_TOKEN", "dgm_nonsense")
    wrong = run("sessions", "--host", served.url)
    assert (wrong.code, wrong.err.count("\n")) == (7, 1)


@pytest.mark.usefixtures("roof")
def test_two_users_chat_in_one_session(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, served.environ[name])
    arguments = ("chat", "--host", served.url, "--session", "roof")
    with OnScreen(*arguments, cwd=served.folder) as one:
        one.await_last("›")
        with OnScreen(*arguments, cwd=served.folder) as two:
            two.await_text("members: ")
            one.await_text("joined (admin)")
            two.await_last("›")
            two.type("/write note.txt hello\r")
            two.await_text("y/s/w/n")
            one.await_text("asks: /write note.txt hello")
            one.await_text("y/s/w/n")
            one.type("y")
            two.await_text("decided: Allow once (Write note.txt)")
            two.await_line("▌ y/s/w/n?")  # the notice of a decision is below the question, not in it
            two.await_text("Created note.txt")
            one.await_text("Created note.txt")
    assert (served.folder / "note.txt").read_text().strip() == "hello"


@pytest.mark.usefixtures("roof")
def test_the_host_serves_status_and_metrics(served: Served) -> None:
    stranger = urllib.request.Request(f"{served.url}/status", headers={"Authorization": "Bearer dgm_nonsense"})
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(stranger, timeout=TIMEOUT)
    with urllib.request.urlopen(f"{served.url}/metrics", timeout=TIMEOUT) as answer:
        assert answer.headers["content-type"].startswith("application/openmetrics-text")
        text = answer.read().decode()
    assert text.endswith("# EOF\n")
    assert 'reason="auth_required"' in text
    with urllib.request.urlopen(f"{served.url}/status", timeout=TIMEOUT) as answer:
        assert b"roof" in answer.read()


def test_one_store_has_one_host(served: Served, run: Run) -> None:
    other = run("serve", "--bind", "127.0.0.1:0", "--", *EVERYTHING)
    assert (other.code, other.err.count("\n")) == (10, 1)
    assert str(served.process.pid) in other.err


def test_a_host_with_a_memory_store_warns(tmp_path: Path) -> None:
    host = Served(tmp_path, "--bind", "127.0.0.1:0", "--store", "memory:")
    with Editor(host) as editor:
        try:
            session = editor.begin(tmp_path)
            assert editor.prompt(session, "/echo once") == "once"
        finally:
            code = host.end(signal.SIGTERM)
    assert (code, host.info["store"], host.info["lasts"]) == (0, "memory:", False)
    assert "sessions are only in memory and are lost when this process ends" in host.process.communicate()[1]
    assert not (tmp_path / "state" / "dragoman" / "sessions.db").exists()
    with HostDatabase(str(tmp_path / "state" / "dragoman" / "host.db")) as register:
        assert register.fetch_rows("SELECT * FROM members") == []


def test_the_second_signal_ends_the_host_and_its_agents_at_once(tmp_path: Path) -> None:
    host = Served(tmp_path, "--bind", "127.0.0.1:0", "--store", "memory:", "--verbose")

    async def scene() -> None:
        async with connect(f"{host.url}/acp", reconnect_timeout=0.0) as remote:
            session = await remote.open_session(str(tmp_path))
            has_update = asyncio.Event()
            session.on_update = lambda _: has_update.set()
            answer = asyncio.ensure_future(session.ask("/slow 60"))
            await has_update.wait()  # it runs
            host.process.send_signal(signal.SIGINT)
            host.process.send_signal(signal.SIGTERM)  # two signals of one kind at once may arrive as one
            with pytest.raises((ProtocolError, ConnectionFailed)):
                await answer

    try:
        asyncio.run(asyncio.wait_for(scene(), TIMEOUT))
        code = host.process.wait(TIMEOUT)
    finally:
        host.process.kill()
    stderr = host.process.communicate()[1]
    assert "Traceback" not in stderr
    assert code == 130, stderr
    [agent] = re.findall(r"was started \(process (\d+)\)", stderr)
    assert re.search(r"session \S+: \S+ joined as admin", stderr)
    limit = time.monotonic() + TIMEOUT
    while Path(f"/proc/{agent}").exists() and time.monotonic() < limit:
        time.sleep(0.01)
    assert not Path(f"/proc/{agent}").exists()


def test_a_missing_agent_command_is_reported_at_host_start(capsys: pytest.CaptureFixture[str]) -> None:
    agents = [NamedAgent(name="ok", command=EVERYTHING[0]), NamedAgent(name="not", command="/nope/agent")]
    announce(agents, "http://127.0.0.1:1/acp", parse_address("x.db"), Namespace(json=True), LogLines(sys.stderr))
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT[\d:.]+Z warning: command not found: /nope/agent; sessions need it\n", capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--bind", "0.0.0.0:0"), "--tls cert.pem key.pem"),
        (("--bind", "0.0.0.0:0", "--tls", "c.pem", "k.pem"), "dragoman tokens create"),
        (("--bind", "nowhere"), "give the address to listen at"),
        (("--bind", "127.0.0.1:99999"), "99999 is not a port; the largest is 65535"),
        (("--bind", "99999"), "99999 is not a port"),
        (("--root", "/no/such/folder"), "serve: --root: the folder /no/such/folder does not exist"),
        (("--policy", "/no/policy.toml"), "serve: --policy: /no/policy.toml: "),
        (("--mcp", "/no/servers.json"), "serve: --mcp: /no/servers.json: there is no such file"),
        (("--store", "postgres://x"), "write a path, or sqlite:PATH, memory:"),
        (("--tls", "c.pem", "k.pem"), "cannot be used: there is no file c.pem"),
        (("--tls", __file__, "k.pem"), "cannot be used: there is no file k.pem"),
        (("--origin", "nonsense"), "--origin: 'nonsense' is no origin"),
        (("--name", "bad_name/x"), "--name: 'bad_name/x' is no name of a machine"),
    ],
)
@pytest.mark.item("004-57")
def test_an_unsafe_or_wrong_host_does_not_start_and_says_what_to_do(
    arguments: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *arguments, "--", *EVERYTHING]) == 2
    err = capsys.readouterr().err
    assert expected in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[host]\nroots = ['/no/such/folder']", "host.roots: the folder /no/such/folder does not exist"),
        ("[host]\npolicy = '/no/policy.toml'", "host.policy: /no/policy.toml: "),
        ("[host]\nmcp = ['/no/servers.json']", "host.mcp: /no/servers.json: there is no such file"),
        ("[host.limits]\nprompt = 8", "host.limits: there is no limit prompt; the limits are "),
    ],
)
def test_a_wrong_setting_of_the_file_is_named_with_the_file(
    text: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(user_paths().config_file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    assert main(["serve", "--bind", "127.0.0.1:0", "--", *EVERYTHING]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"dragoman serve: {path}: {expected}")
    assert main(["config", "check"]) == 1
    assert f"{path}: {expected}" in capsys.readouterr().err


def test_a_client_cannot_add_lines_to_the_log_by_its_name(tmp_path: Path) -> None:
    host = Served(tmp_path, "--bind", "127.0.0.1:0", "--verbose")
    try:
        with Editor(host) as editor:
            info = {"name": "editor\ndragoman: root is connected", "version": "1"}
            editor.ask("initialize", protocolVersion=1, clientCapabilities={}, clientInfo=info)
            editor.ask("session/new", cwd=str(tmp_path), mcpServers=[])
    finally:
        host.end()
    assert host.process.stderr is not None
    log = host.process.stderr.read()
    assert "editor␊dragoman: root is connected" in log
    assert "\ndragoman: root is connected\n" not in log


def test_the_log_is_lines_of_json_if_wanted(tmp_path: Path) -> None:
    host = Served(tmp_path, "--bind", "127.0.0.1:0", "--verbose", "--log", "json", "--store", "memory:")
    try:
        with Editor(host) as editor:
            editor.ask("initialize", protocolVersion=1, clientCapabilities={})
            editor.ask("session/new", cwd=str(tmp_path), mcpServers=[])
    finally:
        host.end()
    assert host.process.stderr is not None
    entries = [json.loads(line) for line in host.process.stderr.read().splitlines()]
    assert entries[0]["message"].startswith("sessions are only in memory")
    assert {entry["level"] for entry in entries} == {"warning", "info"}
    assert all(entry["time"].endswith("Z") for entry in entries)


def test_a_browser_asks_for_the_token_of_the_status_page(served: Served, run: Run) -> None:
    def page(path: str, password: str) -> urllib.request.Request:
        basic = base64.b64encode(f":{password}".encode()).decode()
        return urllib.request.Request(
            f"{served.url}{path}", headers={"Authorization": f"Basic {basic}", "Accept": "text/html"}
        )

    with pytest.raises(urllib.error.HTTPError, match="401") as refused:
        urllib.request.urlopen(page("/status", "dgm_nonsense"), timeout=TIMEOUT)
    assert refused.value.headers["www-authenticate"].startswith("Basic realm=")
    token = run("tokens", "create", "ann").out.split()[-1]
    with urllib.request.urlopen(page("/status", token), timeout=TIMEOUT) as answer:
        assert b"<h1>" in answer.read()
