"""`dragoman conduct` as an editor starts it, chains of the config wherever an agent's name is, and nested chains."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from dragoman import Chain, Proxy, connect
from dragoman.config.config_file import parse_config
from dragoman.errors import ConfigFault
from dragoman.schema.content import TextContent
from dragoman.schema.update import AgentMessageChunk
from tests.acceptance.wire import Child
from tests.cli.process import DRAGOMAN, dragoman, in_process
from tests.roles.proxy.chain.pieces import HELLO, raw_proxy

SMALL_AGENT = [sys.executable, str(Path(__file__).parent.parent / "small_agent.py")]


def marking(mark: str, *words: str) -> str:
    """A proxy as one word of the command line."""
    return shlex.join(raw_proxy("--mark", mark, *words))


def write_config(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "config" / "dragoman"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f"version = 1\n{text}")


async def conversation(command: list[str], cwd: Path) -> str:
    async with connect(command) as agent:
        session = await agent.open_session(cwd=str(cwd))
        return await session.ask("hello")


@pytest.mark.item("BR-21")
async def test_a_chain_from_the_command_line_is_an_agent(tmp_path: Path) -> None:
    chain = [*DRAGOMAN, "conduct", marking("<"), marking("-", "--old"), "--", *SMALL_AGENT]
    plain, through = await conversation(SMALL_AGENT, tmp_path), await conversation(chain, tmp_path)
    assert through.replace("<-", "") == plain
    assert through.startswith("<-")


@pytest.mark.item("BR-21")
async def test_a_chain_can_be_a_proxy_of_another_chain(tmp_path: Path) -> None:
    nested = shlex.join([*DRAGOMAN, "conduct", "--as-proxy", marking("b"), marking("c")])
    chain = [*DRAGOMAN, "conduct", marking("a"), nested, marking("d"), "--", *SMALL_AGENT]
    assert (await conversation(chain, tmp_path)).startswith("abcd")


@pytest.mark.item("BR-21")
async def test_functions_and_processes_mix_in_a_chain_of_the_library(tmp_path: Path) -> None:
    proxy = Proxy("here")

    @proxy.from_agent("session/update")
    def mark(params, forward):  # type: ignore[no-untyped-def]
        if isinstance(params.update, AgentMessageChunk) and isinstance(params.update.content, TextContent):
            params.update.content.text = f"[{params.update.content.text}]"
        return forward(params)

    chain = Chain([marking("<"), proxy, marking("-")], agent=SMALL_AGENT)
    reports: list[str] = []
    async with connect(chain, report=reports.append) as agent:
        session = await agent.open_session(cwd=str(tmp_path))
        assert (await session.ask("hello")).startswith("<[-"), reports


CONFIG = f"""
[agents.small]
command = {sys.executable!r}
args = [{SMALL_AGENT[1]!r}]

[chains.marked]
proxies = [{marking("<")!r}, {{ proxy = {marking("-")!r}, name = "dash", on_exit = "restart" }}]
agent = "small"

[chains.outer]
proxies = [{marking("=")!r}]
agent = "marked"
"""


@pytest.mark.item("BR-21")
@pytest.mark.parametrize("name", ["marked", "outer"])
def test_a_chain_of_the_config_is_used_by_its_name(tmp_path: Path, name: str) -> None:
    write_config(tmp_path, CONFIG)
    ran = dragoman("run", "--agent", name, "--prompt", "hello", "--no-store", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert {"marked": "<-", "outer": "=<-"}[name] in ran.stdout


def said_to(editor: Child) -> str:
    """The text that a 2025.1 editor received."""
    updates = [each["params"]["data"] for each in editor.received if each.get("method") == "session/update"]
    return "".join(str(data.get("text", "")) for data in updates)


@pytest.mark.item("BR-21")
async def test_an_editor_of_another_dialect_uses_a_chain(tmp_path: Path) -> None:
    """A 2025.1 editor with v1 proxies and a v1 agent, through translate and with the conductor itself."""
    write_config(tmp_path, CONFIG)
    hello = {"protocol_version": "2025.1", "capabilities": {}, "working_directory": str(tmp_path), "mcp_servers": []}
    async with Child("translate", "--agent", "marked") as editor:  # a chain wherever an agent's name is
        await editor.request(1, "initialize", hello)
        await editor.request(2, "session/new", {"session_id": "mine"})
        await editor.request(3, "session/prompt", {"session_id": "mine", "content": [{"type": "text", "text": "hi"}]})
        said = "".join(
            str(each["params"].get("data", {}).get("text", "")) for each in editor.received if "method" in each
        )
        assert "<-" in said
    async with Child("conduct", marking("<"), "--", *SMALL_AGENT) as editor:  # and the conductor itself
        await editor.request(1, "initialize", hello)
        await editor.request(2, "session/new", {"session_id": "mine"})
        await editor.request(3, "session/prompt", {"session_id": "mine", "content": [{"type": "text", "text": "hi"}]})
        assert any(
            "<" in str(each["params"].get("data", {}).get("text", "")) for each in editor.received if "method" in each
        )


async def test_a_component_that_cannot_be_started_is_named_on_the_wire_and_on_stderr(tmp_path: Path) -> None:
    async with Child("conduct", "no-such-proxy-here", "--", *SMALL_AGENT) as editor:
        answer = await editor.request(1, "initialize", HELLO)
        assert "proxy 1 (no-such-proxy-here) cannot be started" in answer["error"]["message"]


async def test_a_mistyped_built_in_proxy_is_named_on_the_wire() -> None:
    async with Child("conduct", "contxt", "--", *SMALL_AGENT) as editor:
        answer = await editor.request(1, "initialize", HELLO)
        assert answer["error"]["message"].endswith("; did you mean the built-in proxy context?")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["conduct", "no-such-proxy", "--", *SMALL_AGENT],
            "proxy 1 (no-such-proxy) cannot be started: no-such-proxy: there is no such command on PATH; install "
            "it, or give its full path",
        ),
        (
            ["conduct", "contxt --max 3", "--", *SMALL_AGENT],
            "proxy 1 (contxt) cannot be started: contxt: there is no such command on PATH; did you mean context?",
        ),
        (
            ["conduct", "python", "polite.py", "--", *SMALL_AGENT],
            "proxy 2 (polite.py) cannot be started: polite.py: there is no such command on PATH; for the file in this "
            "folder, write ./polite.py, or its interpreter before it, both in quotes: 'python polite.py'",
        ),
        (
            ["conduct", "context", "--", "./nosuch"],
            "the agent cannot be started: ./nosuch: there is no such file",
        ),
        (
            ["translate", "--", "no-such-agent"],
            "the agent cannot be started: no-such-agent: there is no such command",
        ),
    ],
)
def test_a_missing_program_is_named_before_a_client_connects(tmp_path: Path, words: list[str], expected: str) -> None:
    (tmp_path / "polite.py").write_text("")
    ran = dragoman(*words, cwd=tmp_path)
    assert ran.stderr.startswith(f"dragoman: {expected}")
    assert ran.stderr.count("\n") == 1


def test_programs_that_are_there_are_not_reported(tmp_path: Path) -> None:
    (tmp_path / "proxy").write_text("#!/bin/sh\n")
    (tmp_path / "proxy").chmod(0o755)
    assert dragoman("conduct", "./proxy", "context", "--", *SMALL_AGENT, cwd=tmp_path).stderr == ""
    assert dragoman("translate", "--", *SMALL_AGENT, cwd=tmp_path).stderr == ""


BAD_CONFIG = """\
[chains.b]
proxies = [{ proxy = "y", on_exit = "explode" }, 3]
agent = "small"
[chains.c]
proxies = "z"
[agents.small]
command = "x"
[chains.small]
command = "y"
[chains.neither]
proxies = []
[chains.first]
agent = "second"
[chains.second]
agent = "first"
"""


def test_mistakes_in_the_config_are_explained_with_their_line() -> None:
    with pytest.raises(ConfigFault) as found:
        parse_config(BAD_CONFIG, "config.toml")
    shown = "\n".join(found.value.faults)
    for text in (
        "line 2: chains.b.proxies[1].on_exit: must be one of fail, restart, bypass",
        "a proxy is a text, or a table",
        "line 5: chains.c.proxies: must be a list",
        "say either agent",
        "there is an agent small too",
        "the chain contains itself",
    ):
        assert text in shown, shown


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--chain", "a", "--", "x"], "give nothing else"),
        (["--as-proxy", "--", "x"], "leave it out"),
        (["--chain", "nope"], "there is no chain 'nope'"),
        (["", "--", "x"], "the command of a proxy is empty"),
    ],
)
def test_wrong_usage_is_one_line_that_says_what_to_do(words: list[str], reason: str, tmp_path: Path) -> None:
    shown = in_process("conduct", *words, cwd=tmp_path)
    assert shown.returncode == 2
    assert reason in shown.stderr
    assert shown.stderr.count("\n") == 1
