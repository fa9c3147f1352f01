"""What `dragoman run` can be told: the prompt, what goes along with it, settings, servers, limits."""

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


def test_the_prompt_is_a_word_and_what_is_piped_in_follows_it(tmp_path: Path) -> None:
    ran = dragoman("run", "/echo one", *AGENT, cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "one\n")
    ran = dragoman("run", "/echo one", *AGENT, cwd=tmp_path, text="two\n")
    assert ran.stdout == "one\n\ntwo\n"


def test_quiet_prints_the_answer_alone(tmp_path: Path) -> None:
    ran = dragoman("run", "--quiet", "/tour", *AGENT, cwd=tmp_path)
    assert ran.stdout.startswith("This is a **message**")
    assert ran.stderr == ""
    ran = dragoman("run", "--quiet", "/error rate_limited", *AGENT, cwd=tmp_path)
    assert ran.returncode == 1
    assert "rate_limited" in ran.stderr


def test_files_go_along_as_what_the_agent_takes(tmp_path: Path) -> None:
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


def test_an_agent_that_takes_neither_gets_links_and_no_images(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the text of a\n")
    (tmp_path / "dot.png").write_bytes(b"\x89PNG")
    agent = telling(tmp_path, image=False, embeddedContext=False)
    ran = dragoman("run", "--file", "a.txt", "--", *agent, cwd=tmp_path)
    assert [block["type"] for block in json.loads(ran.stdout)] == ["resource_link"]
    ran = dragoman("run", "go", "--image", "dot.png", "--", *agent, cwd=tmp_path)
    assert ran.returncode == 1
    assert "this agent takes no images" in ran.stderr


def test_what_takes_longer_than_the_timeout_is_given_up(tmp_path: Path) -> None:
    ran = dragoman("run", "/slow 1000", "--timeout", "1", *AGENT, cwd=tmp_path)
    assert ran.returncode == 9
    assert "dragoman run: given up: " in ran.stderr
    assert "Traceback" not in ran.stderr
    ran = dragoman("run", "/error timeout", *AGENT, cwd=tmp_path)
    assert ran.returncode == 1  # not ours


def test_an_agent_that_is_not_ready_in_time_is_given_up_once_whatever_dialects_there_are_to_try(tmp_path: Path) -> None:
    mute = (sys.executable, "-c", "import sys; sys.stdin.read()")
    ran = dragoman("run", "hello", "--timeout", "0.5", "--", *mute, cwd=tmp_path)
    assert ran.returncode == 9
    assert ran.stderr == "dragoman run: given up: it was not ready within 0.5 s\n"


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
        (("--model", "nosuch"), "there is no model 'nosuch'; there are: plain, loud"),
        (("--agent-mode", "nosuch"), "there is no mode 'nosuch'; there are: ask, code"),
        (("--option", "nosuch=1"), "there is no option 'nosuch'; there are: model, verbose"),
    ],
)
def test_a_setting_that_is_not_there_names_those_that_are(tmp_path: Path, flags: tuple[str, ...], says: str) -> None:
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
    (told,) = json.loads(ran.stdout)
    assert (told["name"], told["command"], told["args"]) == ("files", "mcp-files", ["."])
    assert told["env"] == [{"name": "TOKEN", "value": "hush-hush-hush"}]
    ran = dragoman("run", "go", "--mcp", "mcp.json", "--", *agent, cwd=tmp_path)
    assert json.loads(ran.stdout) == []  # nobody to ask whether it may be started
    assert ran.returncode == 6
    assert "hush-hush-hush" not in ran.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "this is no JSON"),
        ("{}", "mcpServers: must be there"),
        ('{"mcpServers": {"a": {}}}', "mcpServers.a.command: must be a text that is not empty"),
        ('{"mcpServers": {"a": {"url": ""}}}', "mcpServers.a.url: must be a text that is not empty"),
        ('{"mcpServers": {"a": {"command": "x", "args": "y"}}}', "mcpServers.a.args: must be a list of texts"),
        ('{"mcpServers": {"a": {"command": "x", "colour": 1}}}', "mcpServers.a.colour: a server has no such member"),
        ('{"mcpServers": {"a": {"type": "x", "url": "y"}}}', "mcpServers.a.type: there are stdio, http, sse"),
        (
            '{"mcpServers": {"a": {"command": "x", "env": {"A": "${NO_SUCH_ONE}"}}}}',
            "mcpServers.a.env.A: there is no variable NO_SUCH_ONE",
        ),
    ],
)
def test_a_fault_in_a_file_of_servers_names_its_key(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(text)
    with pytest.raises(ConfigFault) as raised:
        mcp_file.load(str(file), {})
    assert f"mcp.json: {says}" in str(raised.value)


def test_a_file_of_servers_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    ran = dragoman("run", "go", "--mcp", "mcp.json", *AGENT, cwd=tmp_path)
    assert ran.returncode == 2
    assert ran.stderr == "dragoman run: mcp.json: there is no such file\n"


def test_a_server_that_the_agent_cannot_reach_is_no_surprise_later(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"web": {"url": "https://example.org"}}}')
    ran = dragoman("run", "go", "--mcp", "mcp.json", "--yes", "--", *telling(tmp_path), cwd=tmp_path)
    assert ran.returncode == 1
    assert "the agent does not connect to http servers, such as web" in ran.stderr


def test_every_exit_code_is_in_the_help_and_on_the_page() -> None:
    shown = dragoman("run", "--help").stdout
    page = (Path(__file__).parents[3] / "docs" / "commands.md").read_text().replace("`", "")
    for code, meaning in TABLE:
        assert f"{code:3}  {meaning}" in shown
        assert f"| {code} | {meaning} |" in page


def telling(folder: Path, what: str = "prompt", **takes: bool) -> list[str]:
    """An agent that answers with the prompt, or the MCP servers, as it came over the wire."""
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
