"""Options of `dragoman run`: the prompt, attachments, settings, MCP servers, limits."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from dragoman.cli.connect import mcp_file
from dragoman.cli.exit_codes import TABLE
from dragoman.errors import ConfigFault
from tests.cli.process import EVERYTHING, dragoman

AGENT = ("--", *EVERYTHING)


def test_the_prompt_is_an_argument_followed_by_piped_text(tmp_path: Path) -> None:
    ran = dragoman("run", "/echo one", *AGENT, cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "one\n")
    ran = dragoman("run", "/echo one", *AGENT, cwd=tmp_path, text="two\n")
    assert ran.stdout == "one\n\ntwo\n"


def test_quiet_prints_only_the_answer(tmp_path: Path) -> None:
    ran = dragoman("run", "--quiet", "/tour", *AGENT, cwd=tmp_path)
    assert ran.stdout.startswith("This is a **message**")
    assert ran.stderr == ""
    ran = dragoman("run", "--quiet", "/error rate_limited", *AGENT, cwd=tmp_path)
    assert ran.returncode == 1
    assert "rate_limited" in ran.stderr


def test_files_are_attached_in_a_form_the_agent_supports(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the text of a\n")
    (tmp_path / "dot.png").write_bytes(b"\x89PNG")
    (tmp_path / "b.bin").write_bytes(b"\0\1\2")
    agent = telling(tmp_path)
    ran = dragoman("run", "go", "--file", "a.txt", "--file", "b.bin", "--image", "dot.png", "--", *agent, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    text, image, document, link = json.loads(ran.stdout)
    assert text == {"type": "text", "text": "go"}
    assert (image["type"], image["mimeType"], image["data"]) == ("image", "image/png", "iVBORw==")
    assert document["resource"]["text"] == "the text of a\n"
    assert document["resource"]["uri"] == (tmp_path / "a.txt").as_uri()
    assert (link["type"], link["name"], link["size"]) == ("resource_link", "b.bin", 3)


def test_an_agent_without_support_gets_links_and_no_images(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the text of a\n")
    (tmp_path / "dot.png").write_bytes(b"\x89PNG")
    agent = telling(tmp_path, image=False, embeddedContext=False)
    ran = dragoman("run", "--file", "a.txt", "--", *agent, cwd=tmp_path)
    assert [block["type"] for block in json.loads(ran.stdout)] == ["resource_link"]
    ran = dragoman("run", "go", "--image", "dot.png", "--", *agent, cwd=tmp_path)
    assert ran.returncode == 1
    assert "this agent does not support images" in ran.stderr


def test_a_prompt_stops_at_the_timeout(tmp_path: Path) -> None:
    ran = dragoman("run", "/slow 1000", "--timeout", "6", *AGENT, cwd=tmp_path)
    assert ran.returncode == 9
    assert "dragoman run: timeout: start and turn took longer than 6 s" in ran.stderr
    assert "Traceback" not in ran.stderr
    ran = dragoman("run", "/error timeout", *AGENT, cwd=tmp_path)
    assert ran.returncode == 1  # a timeout of the agent, not of --timeout


def test_the_timeout_covers_all_attempts_to_detect_the_dialect(tmp_path: Path) -> None:
    mute = (sys.executable, "-c", "import sys; sys.stdin.read()")
    ran = dragoman("run", "hello", "--timeout", "0.5", "--", *mute, cwd=tmp_path)
    assert ran.returncode == 9
    assert ran.stderr == "dragoman run: timeout: the agent was not ready within 0.5 s\n"


def test_modes_models_and_options_are_set_before_the_prompt(tmp_path: Path) -> None:
    settings = ("--model", "Loud", "--option", "verbose=on")
    ran = dragoman("run", "hello", *settings, *AGENT, cwd=tmp_path)
    assert "> HELLO" in ran.stdout
    assert "I was told: hello" in ran.stderr
    ran = dragoman("run", "/write a.txt text", "--agent-mode", "code", "--yes", *AGENT, cwd=tmp_path)
    assert (ran.returncode, (tmp_path / "a.txt").read_text()) == (0, "text")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--model", "nosuch"), "there is no model 'nosuch'; choose one of: plain, loud"),
        (("--agent-mode", "nosuch"), "there is no mode 'nosuch'; choose one of: ask, code"),
        (("--option", "nosuch=1"), "there is no option 'nosuch'; choose one of: model, verbose"),
    ],
)
def test_an_unknown_setting_lists_the_known_ones(tmp_path: Path, flags: tuple[str, ...], says: str) -> None:
    ran = dragoman("run", "hello", *flags, *AGENT, cwd=tmp_path)
    assert ran.returncode == 1
    assert says in ran.stderr
    assert ran.stdout == ""


def test_mcp_servers_come_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hush-hush-hush")
    server = {"command": "mcp-files", "args": ["."], "env": {"TOKEN": "${SECRET_TOKEN}"}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"files": server}}))
    agent = telling(tmp_path, what="servers")
    ran = dragoman("run", "go", "--mcp", "mcp.json", "--yes", "--", *agent, cwd=tmp_path)
    (shown,) = json.loads(ran.stdout)
    assert (shown["name"], shown["command"], shown["args"]) == ("files", "mcp-files", ["."])
    assert shown["env"] == [{"name": "TOKEN", "value": "hush-hush-hush"}]
    ran = dragoman("run", "go", "--mcp", "mcp.json", "--", *agent, cwd=tmp_path)
    assert json.loads(ran.stdout) == []  # nobody to ask for permission to start it
    assert ran.returncode == 6
    assert "hush-hush-hush" not in ran.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not valid JSON"),
        ("{}", "mcpServers: required"),
        ('{"mcpServers": {"a": {}}}', "mcpServers.a.command: must be a non-empty string"),
        ('{"mcpServers": {"a": {"url": ""}}}', "mcpServers.a.url: must be a non-empty string"),
        ('{"mcpServers": {"a": {"command": "x", "args": "y"}}}', "mcpServers.a.args: must be a list of strings"),
        ('{"mcpServers": {"a": {"command": "x", "color": 1}}}', "mcpServers.a.color: unknown member"),
        ('{"mcpServers": {"a": {"type": "x", "url": "y"}}}', "mcpServers.a.type: must be one of stdio, http, sse"),
        (
            '{"mcpServers": {"a": {"command": "x", "env": {"A": "${NO_SUCH_ONE}"}}}}',
            "mcpServers.a.env.A: there is no environment variable NO_SUCH_ONE",
        ),
    ],
)
def test_an_error_in_an_mcp_file_names_its_key(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(text)
    with pytest.raises(ConfigFault) as raised:
        mcp_file.load(str(file), {})
    assert f"mcp.json: {says}" in str(raised.value)


def test_a_missing_mcp_file_is_wrong_usage(tmp_path: Path) -> None:
    ran = dragoman("run", "go", "--mcp", "mcp.json", *AGENT, cwd=tmp_path)
    assert ran.returncode == 2
    assert ran.stderr == "dragoman run: mcp.json: there is no such file\n"


def test_an_unsupported_mcp_server_is_an_error_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"web": {"url": "https://example.org"}}}')
    ran = dragoman("run", "go", "--mcp", "mcp.json", "--yes", "--", *telling(tmp_path), cwd=tmp_path)
    assert ran.returncode == 1
    assert "the agent does not support http MCP servers, such as web" in ran.stderr


def test_every_exit_code_is_in_the_help_and_on_the_page() -> None:
    help_text = dragoman("run", "--help").stdout
    page = (Path(__file__).parents[3] / "docs" / "commands.md").read_text().replace("`", "")
    for code, meaning in TABLE:
        assert f"{code:3}  {meaning}" in help_text
        assert f"| {code} | {meaning} |" in page


def telling(folder: Path, what: str = "prompt", **takes: bool) -> list[str]:
    """Return an agent that answers with the prompt, or the MCP servers, as it came over the wire."""
    script = folder / f"telling_{what}_{len(takes)}.py"
    offered = {"image": True, "embeddedContext": True, **takes}
    script.write_text(
        f"""
import json, sys
def say(**message): print(json.dumps(dict(jsonrpc="2.0", **message)), flush=True)
for line in sys.stdin:
    call = json.loads(line)
    match call.get("method"):
        case "initialize":
            offered = dict(promptCapabilities=json.loads({json.dumps(json.dumps(offered))}))
            say(id=call["id"], result=dict(protocolVersion=1, agentCapabilities=offered))
        case "session/new":
            servers = call["params"]["mcpServers"]
            say(id=call["id"], result=dict(sessionId="s"))
        case "session/prompt":
            told = json.dumps(call["params"]["prompt"] if {what!r} == "prompt" else servers)
            update = dict(sessionUpdate="agent_message_chunk", content=dict(type="text", text=told))
            say(method="session/update", params=dict(sessionId="s", update=update))
            say(id=call["id"], result=dict(stopReason="end_turn"))
"""
    )
    return [sys.executable, str(script)]
