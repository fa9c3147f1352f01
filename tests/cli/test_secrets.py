"""Canaries: secrets planted wherever a user has some, and then everything that was printed or kept is searched."""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path

import pytest

from tests.cli.process import OnTerminal, dragoman

ENV = "canary-env-4f9b27c1d0"
HEADER = "canary-header-77ab01c2"
MCP = "canary-mcp-env-99d1e2f3"
OPTION = "canary-option-5512ab34"
BEARER = "canary-bearer-c0ffee42"
SHAPED = "sk-canary0123456789abcdefXYZ"
FILE = "canary-file-content-31415"

# What nobody may see anywhere; the content of files is shown to who works with them, and is never kept.
SECRET = (ENV, HEADER, MCP, OPTION, BEARER, SHAPED)

# What is known to be one without being told: by the name of its variable, or by its looks. The others are, of an agent
# that says them, only words; and the words of agents are in the log.
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
        await call.text(f"the key is {env}, the header {header}, the server's {mcp}")
        await call.diff(turn.session.cwd + "/b.txt", "old", f"new {env}\\n")
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
    """Which secrets stand in a text, as they are or in base64."""
    return [
        secret
        for secret in secrets or SECRET
        if secret in text or base64.b64encode(secret.encode()).decode().rstrip("=") in text
    ]


def kept(tmp_path: Path, but: str = "-") -> str:
    """All that our folders hold after a run; `but` leaves out files whose names begin so."""
    files = [file for name in ("state", "config", "data") for file in (tmp_path / name).rglob("*") if file.is_file()]
    files = [file for file in files if not file.name.startswith(but)]
    assert any(file.name == "audit.jsonl" for file in files)
    return "".join(file.read_bytes().decode("utf-8", "replace") for file in files)


@pytest.mark.parametrize("options", [["--yes"], ["--yes", "--verbose"], ["--verbose"]], ids=" ".join)
@pytest.mark.parametrize("ending", ["fail", "die"])
def test_no_secret_is_printed_or_kept(tmp_path: Path, work: Path, options: list[str], ending: str) -> None:
    agent = [sys.executable, "agent.py"]
    ran = dragoman("run", "--prompt", ending, "--mcp", "servers.json", *options, "--", *agent, cwd=work)
    assert ran.returncode == (7 if ending == "die" else 1), ran.stderr
    assert "[redacted]" in ran.stderr
    assert leaks(ran.stdout) == []
    assert leaks(ran.stderr) == []
    written = kept(tmp_path)
    assert leaks(written) == []
    assert leaks(written, FILE) == []
    for words in (["audit", "show"], ["audit", "export"], ["audit", "export", "--format", "csv"], ["grants", "list"]):
        assert leaks(dragoman(*words, cwd=work).stdout, *SECRET, FILE) == []


def test_what_is_remembered_on_a_terminal_has_no_secret_in_it(tmp_path: Path, work: Path) -> None:
    """The question itself shows what it is about: whoever says yes must know to what."""
    words = ("run", "--prompt", "fail", "--", sys.executable, "agent.py")
    with OnTerminal(*words, cwd=work) as terminal:
        for number, answer in enumerate("aaaan", 1):
            terminal.await_count("y/s/w/a/n? ", number)
            terminal.type(f"{answer}\n")
        terminal.end()
    assert leaks(kept(tmp_path, but="sessions.db")) == []
    assert leaks(kept(tmp_path), *KNOWN) == []
    assert os.path.exists(tmp_path / "state" / "dragoman" / "grants.json")  # printenv could be remembered
