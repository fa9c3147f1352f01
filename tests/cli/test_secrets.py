"""Secrets planted wherever a user has some must not be printed or stored."""

from __future__ import annotations

import base64
import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from tests.acceptance.wire import Child
from tests.cli.process import EVERYTHING, OnTerminal, dragoman, in_process
from tests.cli.serve_process import Served

ENV = "canary-env-4f9b27c1d0"
HEADER = "canary-header-77ab01c2"
MCP = "canary-mcp-env-99d1e2f3"
OPTION = "canary-option-5512ab34"
BEARER = "canary-bearer-c0ffee42"
SHAPED = "sk-canary0123456789abcdefXYZ"
FILE = "canary-file-content-31415"

# Must not be visible anywhere. Contents of files are shown to the user and never stored.
SECRET = (ENV, HEADER, MCP, OPTION, BEARER, SHAPED)

# Recognized as secrets by the variable name or by their form. The others, in an agent's message, are plain text;
# messages of agents are in the log.
KNOWN = (ENV, OPTION, BEARER, SHAPED)

AGENT = """
import os, sys
from dragoman import Agent, ProtocolError, Kind
agent = Agent("leaky")
key = os.environ["SOME_API_KEY"]
LINES = [
    f"login --token {option} now",
    f"curl -H 'Authorization: Bearer {bearer}' http://localhost:1",
    f"echo {shaped} {env}",
    "printenv SOME_API_KEY",
]

@agent.prompt
async def answer(turn):
    print(f"on stderr: {env} and --token {option} and {shaped} and {header} {mcp}", file=sys.stderr, flush=True)
    async with turn.tool(f"Use {env}", kind="execute", input=dict(command=LINES[0])) as call:
        await call.add_text(f"the key is {env}, the header {header}, the server's {mcp}")
        await call.add_diff(turn.session.cwd + "/b.txt", "old", f"new {env}\\n")
    for line in LINES:
        try:
            done = await turn.terminals.run("sh", ["-c", line])
        except ProtocolError as error:
            print(error.message, file=sys.stderr, flush=True)
    for path in ("file.txt", f"{env}.txt", f"no/{env}"):
        try:
            await turn.files.read(turn.session.cwd + "/" + path)
            await turn.files.write(turn.session.cwd + "/copy-of-" + path, "{file}")
        except ProtocolError as error:
            print(error.message, file=sys.stderr, flush=True)
    if "die" in turn.text:
        print(f"dying with {env} {header}", file=sys.stderr, flush=True)
        os._exit(3)
    raise ProtocolError(Kind.INTERNAL_ERROR, f"it went wrong: key={env}, header {header}, Bearer {bearer}, {shaped}")

agent.run()
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a leaky agent, a file, MCP servers, and an environment with a key."""
    folder = tmp_path / "work"
    folder.mkdir()
    names = {"option": OPTION, "bearer": BEARER, "shaped": SHAPED, "header": HEADER, "mcp": MCP, "file": FILE}
    script = AGENT.replace("{env}", "{key}")
    for name, value in names.items():
        script = script.replace("{" + name + "}", value)
    (folder / "agent.py").write_text(script)
    (folder / "file.txt").write_text(FILE)
    env = {"PLAIN": MCP, "ALSO_PLAIN": f"Basic {HEADER}"}
    servers = {"mcpServers": {"local": {"command": "true", "args": [], "env": env}}}
    (folder / "servers.json").write_text(json.dumps(servers))
    monkeypatch.setenv("SOME_API_KEY", ENV)
    return folder


def leaks(text: str, *secrets: str) -> list[str]:
    """Return the secrets in a text, plain or in base64."""
    return [
        secret
        for secret in secrets or SECRET
        if secret in text or base64.b64encode(secret.encode()).decode().rstrip("=") in text
    ]


def stored_text(tmp_path: Path, but: str = "-") -> str:
    """Return the content of our folders after a run, except of files whose names begin with `but`."""
    files = [file for name in ("state", "config", "data") for file in (tmp_path / name).rglob("*") if file.is_file()]
    files = [file for file in files if not file.name.startswith(but)]
    assert any(file.name == "audit.jsonl" for file in files)
    return "".join(file.read_bytes().decode("utf-8", "replace") for file in files)


@pytest.mark.parametrize("options", [["--yes"], ["--yes", "--verbose"], ["--verbose"]], ids=" ".join)
@pytest.mark.parametrize("ending", ["fail", "die"])
def test_no_secret_is_printed_or_stored(tmp_path: Path, work: Path, options: list[str], ending: str) -> None:
    agent = [sys.executable, "agent.py"]
    ran = dragoman("run", "--prompt", ending, "--mcp", "servers.json", *options, "--", *agent, cwd=work)
    assert ran.returncode == (7 if ending == "die" else 1), ran.stderr
    assert "[redacted]" in ran.stderr
    assert leaks(ran.stdout) == []
    assert leaks(ran.stderr) == []
    written = stored_text(tmp_path)
    assert leaks(written) == []
    assert leaks(written, FILE) == []
    for arguments in (
        ["audit", "show"],
        ["audit", "export"],
        ["audit", "export", "--format", "csv"],
        ["grants", "list"],
    ):
        assert leaks(dragoman(*arguments, cwd=work).stdout, *SECRET, FILE) == []


def test_remembered_permissions_contain_no_secret(tmp_path: Path, work: Path) -> None:
    """The question itself shows the command: the user must know what to allow."""
    arguments = ("run", "--prompt", "fail", "--", sys.executable, "agent.py")
    with OnTerminal(*arguments, cwd=work) as terminal:
        for number, answer in enumerate("aaaan", 1):
            terminal.await_count("y/s/w/a/n? ", number)
            terminal.type(f"{answer}\n")
        terminal.end()
    assert leaks(stored_text(tmp_path, but="sessions.db")) == []
    assert leaks(stored_text(tmp_path), *KNOWN) == []
    assert os.path.exists(tmp_path / "state" / "dragoman" / "grants.json")  # printenv could be remembered


def echoing_servers(folder: Path) -> Path:
    """Write a file with an MCP server that echoes its credential in results, errors and on stderr."""
    bare = Path(__file__).parents[1] / "mcp" / "bare_server.py"
    entry = {"command": sys.executable, "args": ["-S", str(bare)], "env": {"KEY": MCP}}
    file = folder / "echoing.json"
    file.write_text(json.dumps({"mcpServers": {"bare": entry}}))
    return file


@pytest.mark.item("004-56", "BR-06")
def test_no_credential_of_an_mcp_server_that_echoes_it_is_in_output_log_recording_audit_or_export(
    tmp_path: Path, work: Path
) -> None:
    servers = echoing_servers(work)
    agent = [sys.executable, "-m", "dragoman", "agent", "everything"]
    recordings = [work / f"{tool}.ndjson" for tool in ("environment", "error", "exit")]
    seen = ""
    for recording, more in zip(recordings, (["--verbose"], ["--json"], []), strict=True):
        command = ["--prompt", f"/call bare {recording.stem} {{}}", "--mcp", str(servers), "--yes", *more]
        ran = dragoman("run", *command, "--session", "leak", "--trace", str(recording), "--", *agent, cwd=work)
        seen += ran.stdout + ran.stderr
        seen += recording.read_text()
    assert seen.count("[redacted]") > 5
    commands = [["inspect", kind, str(recordings[0])] for kind in ("show", "export")]
    commands += [["sessions", "export", "leak", *form] for form in ([], ["--html"], ["--markdown"])]
    commands += [["audit", "show"], ["audit", "export"], ["sessions", "show", "leak"]]
    for arguments in commands:
        ran = in_process(*arguments, cwd=work)
        assert ran.returncode == 0, (arguments, ran.stderr)
        seen += ran.stdout + ran.stderr
    assert leaks(seen, MCP) == []
    assert leaks(stored_text(tmp_path), MCP) == []


@pytest.mark.item("004-56", "BR-06")
def test_no_credential_of_an_mcp_server_of_a_host_is_in_its_output_log_or_store(tmp_path: Path, work: Path) -> None:
    store = tmp_path / "host.db"
    options = ("--mcp", str(echoing_servers(work)), "--verbose", "--workspace-tools", "--store", str(store))
    served = Served(work, *options, "--bind", "127.0.0.1:0")
    try:
        prompts = ["/call bare environment {}", "/tools"]
        ran = [
            dragoman(
                "run",
                "--host",
                served.url,
                "--cwd",
                str(work),
                "-y",
                "--mcp",
                "echoing.json",
                "--prompt",
                text,
                cwd=work,
            )
            for text in prompts
        ]
    finally:
        served.end()
    assert served.process.stderr is not None
    seen = "".join(each.stdout + each.stderr for each in ran) + served.process.stderr.read()
    assert "[redacted]" in seen
    assert "run_command" in seen
    seen += "".join(file.read_bytes().decode("utf-8", "replace") for file in work.rglob("*.jsonl"))
    files = [file for file in tmp_path.glob("host.db*") if file.suffix != ".credentials"]  # where the host keeps them
    seen += "".join(file.read_bytes().decode("utf-8", "replace") for file in files)
    assert leaks(seen, MCP) == []


DYING = f"""
import os, sys
sys.exit("bad key " + os.environ["SOME_API_KEY"] + " or {SHAPED}")
"""


@pytest.mark.parametrize("command", [["translate"], ["conduct", "context"]])
async def test_the_error_of_an_agent_that_does_not_start_has_no_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setenv("SOME_API_KEY", ENV)
    async with Child(*command, "--", sys.executable, "-c", DYING) as editor:
        answer = await editor.request(1, "initialize", {"protocolVersion": 1})
    assert "bad key [redacted] or [redacted]" in answer["error"]["message"]


async def test_the_error_of_a_proxy_that_does_not_start_has_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", ENV)
    proxy = shlex.join([sys.executable, "-c", DYING])
    async with Child("conduct", proxy, "--", *EVERYTHING) as editor:
        answer = await editor.request(1, "initialize", {"protocolVersion": 1})
    assert "bad key [redacted] or [redacted]" in json.dumps(answer)


def test_an_agent_that_does_not_start_prints_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", ENV)
    ran = dragoman("run", "hi", "--json", "--", sys.executable, "-c", DYING, cwd=tmp_path)
    assert ran.returncode == 7
    for text in (ran.stdout, ran.stderr):
        assert "bad key [redacted] or [redacted]" in text
