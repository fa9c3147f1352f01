"""The built-in proxies before a scripted agent: context, redact, budget, filter and record."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from dragoman import Chain
from dragoman.inspect.reader import RecordingReader
from dragoman.roles.proxy.built_in.context import context_files
from dragoman.roles.proxy.built_in.table import BUILT_IN
from tests.roles.proxy.chain.pieces import AGENT, HELLO, Json, Running, call, chunk, raw_proxy, reply, running_chain

ROOT = Path(__file__).parents[4]


def prompt(text: str, session: str = "s") -> Json:
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}


async def open_session(chain: Running, folder: Path, **capabilities: Any) -> None:
    chain.client.send(call("i", "initialize", HELLO))
    result = {**AGENT, "agentCapabilities": capabilities}
    chain.agent.send(reply(await chain.agent.expect(method="initialize"), result))
    await chain.client.expect(id="i")
    chain.client.send(call("n", "session/new", {"cwd": str(folder), "mcpServers": []}))
    chain.agent.send(reply(await chain.agent.expect(method="session/new"), {"sessionId": "s"}))
    await chain.client.expect(id="n")


async def text_in_pieces(chain: Running, said: str, size: int) -> str:
    """Let the agent say a text in pieces of a size; return what the client got before the answer."""
    chain.client.send(call(1, "session/prompt", prompt("what is it?")))
    asked = await chain.agent.expect(method="session/prompt")
    for start in range(0, len(said), size):
        chain.agent.send(chunk(said[start : start + size]))
    chain.agent.send(reply(asked, {"stopReason": "end_turn"}))
    text = ""
    while "method" in (message := await chain.client.receive()):
        text += message["params"]["update"]["content"]["text"]
    assert message["id"] == 1
    return text


def test_each_built_in_proxy_has_a_page_that_names_its_options() -> None:
    from importlib import import_module

    page = (ROOT / "docs" / "built-in-proxies.md").read_text()
    for name, row in BUILT_IN.items():
        assert f"## {name}\n" in page
        for option in import_module(row.module).OPTIONS:
            assert f"`{option.flag}" in page, f"{name} {option.flag}"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("budget", "needs a limit"),
        ("budget --tokens", "needs a value after --tokens"),
        ("budget --tokens many", "cannot read --tokens 'many'"),
        ("budget --wishes 3", "has no option '--wishes'; it has --tokens"),
        ("budget --tokens -5", "cannot read --tokens '-5'"),
        ("budget --seconds nan", "cannot read --seconds 'nan'"),
        ("context --max-bytes -5", "cannot read --max-bytes '-5': how many bytes of each file"),
        ("context --max-bytes 0", "cannot read --max-bytes '0'"),
        ("context --max-bytes 1.5", "cannot read --max-bytes '1.5'"),
        ("context --max-bytes 9000000000000000000", "cannot read --max-bytes"),
        ("redact --env NO_SUCH_VARIABLE", "cannot find the variable NO_SUCH_VARIABLE"),
        ("filter", "needs something to refuse"),
        ("filter --method 'session/*'", "cannot refuse session/prompt"),
    ],
)
def test_a_wrong_option_is_refused_with_what_is_possible(words: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Chain([words], agent="x")


# --- context --------------------------------------------------------------------------------------------------


@pytest.mark.item("BR-22")
@pytest.mark.parametrize("embeds", [True, False])
async def test_context_puts_the_files_of_a_project_before_the_first_prompt_only(tmp_path: Path, embeds: bool) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "CLAUDE.md").write_text("Test first.")
    (tmp_path / "notes.txt").write_text("Ship on Friday.")
    async with running_chain([raw_proxy(), f"context --file {tmp_path}/notes.txt"]) as chain:
        await open_session(chain, inner, promptCapabilities={"embeddedContext": embeds})
        for number, count in enumerate((4, 1)):
            chain.client.send(call(number, "session/prompt", prompt("hello")))
            asked = await chain.agent.expect(method="session/prompt")
            blocks = asked["params"]["prompt"]
            assert len(blocks) == count
            assert blocks[-1] == {"type": "text", "text": "hello"}
            if count > 1:
                texts = [each["resource"]["text"] if embeds else each["text"] for each in blocks[:-1]]
                for text, expected in zip(texts, ("Use tabs.", "Test first.", "Ship on Friday."), strict=True):
                    assert text.endswith(expected) if embeds else expected in text
            chain.agent.send(reply(asked, {"stopReason": "end_turn"}))
            await chain.client.expect(id=number)


def test_context_reads_no_file_from_outside_the_project(tmp_path: Path) -> None:
    outside, project = tmp_path / "secret", tmp_path / "project"
    outside.write_text("a private key")
    (project / ".git").mkdir(parents=True)
    (project / "AGENTS.md").symlink_to(outside)
    (project / "CLAUDE.md").write_text("fine" * 100)
    [(path, text)] = context_files(str(project), max_bytes=10)
    assert path == str(project / "CLAUDE.md")
    assert text == "finefinefi\n[the rest of this file was left out]"
    (project / "AGENTS.md").unlink()
    (project / "AGENTS.md").symlink_to("CLAUDE.md")  # the same file is sent once
    assert len(context_files(str(project))) == 1


# --- redact ---------------------------------------------------------------------------------------------------

SECRET = "hunter2-and-more"
KEY = "sk-abcdefghijklmnopqrstuvwxyz"


@pytest.mark.item("BR-22")
async def test_redact_removes_secrets_in_both_directions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_TOKEN", SECRET)
    async with running_chain(["redact"]) as chain:
        await open_session(chain, tmp_path)
        chain.client.send(call(1, "session/prompt", prompt(f"my token is {SECRET}, my key {KEY}")))
        asked = await chain.agent.expect(method="session/prompt")
        assert asked["params"]["prompt"][0]["text"] == "my token is [redacted], my key [redacted]"
        chain.agent.send(call("r", "fs/read_text_file", {"sessionId": "s", "path": "/x/.env"}))
        asked_file = await chain.client.expect(method="fs/read_text_file")
        chain.client.send(reply(asked_file, {"content": f"A=1\nTOKEN={SECRET}\n"}))
        assert "hunter2" not in (await chain.agent.expect(id="r"))["result"]["content"]
        chain.agent.send(
            call("w", "fs/write_text_file", {"sessionId": "s", "path": "/x/.env", "content": "TOKEN=[redacted]"})
        )
        refused = await chain.agent.expect(id="w", error={"data": {"kind": "access_denied"}})
        assert "overwrite" in refused["error"]["message"]
        tool = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "env", "rawOutput": {"out": [SECRET]}}
        chain.agent.send({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": tool}})
        update = await chain.client.expect(method="session/update")
        assert update["params"]["update"]["rawOutput"] == {"out": ["[redacted]"]}
        chain.agent.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": 1, "message": f"bad {SECRET}"}})
        assert (await chain.client.expect(id=1))["error"] == {"code": 1, "message": "bad [redacted]"}


@pytest.mark.item("BR-22")
async def test_redact_finds_secrets_that_a_stream_cuts_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_TOKEN", SECRET)
    said = f"It is {SECRET}! Or {KEY}? No: hunter, sk-ip it. The end: hunter"
    for size in (1, 3, 7):
        async with running_chain(["redact"]) as chain:
            await open_session(chain, tmp_path)
            text = await text_in_pieces(chain, said, size)
            assert text == "It is [redacted]! Or [redacted]? No: hunter, sk-ip it. The end: hunter"


@pytest.mark.parametrize("size", [1, 40, 500])
async def test_redact_finds_a_private_key_that_a_stream_cuts_in_pieces(tmp_path: Path, size: int) -> None:
    body = "\n".join(["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"] * 30)
    said = f"Here:\n-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\nDone. -----BEGIN is all"
    async with running_chain(["redact"]) as chain:
        await open_session(chain, tmp_path)
        text = await text_in_pieces(chain, said, size)
        assert text == "Here:\n[redacted]\nDone. -----BEGIN is all"


NAMED = [
    ("Bearer 0123456789abcdef", "Bearer [redacted]"),
    ("the password=hunter22 there", "the password=[redacted] there"),
    ("go to https://ann:s3cret@host/x now", "go to https://ann:[redacted]@host/x now"),
    ("run --token abcdefgh now", "run --token [redacted] now"),
    ("a token, a password: no. 12:30", "a token, a password: no. 12:30"),
]


@pytest.mark.parametrize(("said", "shown"), NAMED)
@pytest.mark.parametrize("size", [1, 5, 11])
async def test_redact_finds_a_secret_whose_name_says_it_is_one_in_pieces(
    tmp_path: Path, said: str, shown: str, size: int
) -> None:
    async with running_chain(["redact"]) as chain:
        await open_session(chain, tmp_path)
        text = await text_in_pieces(chain, said, size)
        assert text == shown


async def test_redact_finds_a_secret_although_something_comes_between_its_halves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_TOKEN", SECRET)
    usage = {"sessionUpdate": "usage_update", "used": 1, "size": 2}
    thought = {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}
    async with running_chain(["redact"]) as chain:
        await open_session(chain, tmp_path)
        chain.client.send(call(1, "session/prompt", prompt("what is it?")))
        asked = await chain.agent.expect(method="session/prompt")
        for between in (usage, thought):
            chain.agent.send(chunk(SECRET[:7]))
            params = {"sessionId": "s", "update": between}
            chain.agent.send({"jsonrpc": "2.0", "method": "session/update", "params": params})
            chain.agent.send(chunk(SECRET[7:]))
        chain.agent.send(reply(asked, {"stopReason": "end_turn"}))
        seen = ""
        while "method" in (message := await chain.client.receive()):
            seen += str(message["params"]["update"].get("content", {}).get("text", ""))
        assert seen.replace("hm", "") == "[redacted][redacted]"


QUESTION = {"toolCall": {"toolCallId": "t"}, "options": []}


@pytest.mark.parametrize(
    "between",
    [
        {"jsonrpc": "2.0", "id": "list", "result": {"sessions": []}},
        {"jsonrpc": "2.0", "id": "list", "error": {"code": 1, "message": "no"}},
        {"jsonrpc": "2.0", "id": "other", "result": {"stopReason": "end_turn"}},
        {"jsonrpc": "2.0", "method": "_example/note", "params": {}},
        {"jsonrpc": "2.0", "method": "_example/note"},
        call("q", "session/request_permission", {"sessionId": "other", **QUESTION}),
    ],
)
async def test_redact_finds_a_secret_although_a_message_of_no_or_another_session_comes_between_its_halves(
    tmp_path: Path, between: Json
) -> None:
    async with running_chain(["redact"]) as chain:
        await open_session(chain, tmp_path)
        for session, method in (("s", "session/prompt"), ("other", "session/prompt"), ("list", "session/list")):
            chain.client.send(call(session, method, {} if session == "list" else prompt("?", session)))
        asked = {number: await chain.agent.expect() for number in ("s", "other", "list")}
        chain.agent.send(chunk("key ghp_abcdefghij"))
        chain.agent.send({**between, "id": asked[between["id"]]["id"]} if between.get("id") in asked else between)
        chain.agent.send(chunk("klmnopqrstuvwxyz0123456789"))
        chain.agent.send(reply(asked["s"], {"stopReason": "end_turn"}))
        seen, others = "", 0
        while (message := await chain.client.receive()).get("id") != "s":
            if message.get("method") == "session/update":
                seen += message["params"]["update"]["content"]["text"]
            else:
                others += 1
        assert (seen, others) == ("key [redacted]", 1)


@pytest.mark.parametrize(
    "last",
    [
        {"jsonrpc": "2.0", "id": "turn", "result": {"stopReason": "end_turn"}},
        {"jsonrpc": "2.0", "id": "turn", "error": {"code": 1, "message": "no"}},
        {"jsonrpc": "2.0", "method": "_example/note", "params": {"sessionId": "s"}},
        call("q", "session/request_permission", {"sessionId": "s", **QUESTION}),
    ],
)
async def test_redact_sends_what_it_holds_of_a_session_before_an_answer_or_a_question_of_it(
    tmp_path: Path, last: Json
) -> None:
    async with running_chain(["redact"]) as chain:
        await open_session(chain, tmp_path)
        chain.client.send(call("turn", "session/prompt", prompt("?")))
        asked = await chain.agent.expect(method="session/prompt")
        chain.agent.send(chunk("a word of another session: ghp_a", "other"))
        chain.agent.send(chunk("it begins with ghp_"))
        chain.agent.send({**last, "id": asked["id"]} if last.get("id") == "turn" else last)
        texts = []
        while (message := await chain.client.receive()).get("method") == "session/update":
            texts.append((message["params"]["sessionId"], message["params"]["update"]["content"]["text"]))
        assert message.get("method") == last.get("method")
        assert texts == [("other", "a word of another session: "), ("s", "it begins with "), ("s", "ghp_")]


async def test_redact_finds_secrets_beside_the_text_of_a_message(tmp_path: Path) -> None:
    plain = chunk("hello")
    beside = chunk("hello")
    beside["params"]["_meta"] = {"note": KEY}
    beside["params"]["update"]["content"]["annotations"] = {"mcpServers": KEY, KEY: 1}
    tool = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x", "rawOutput": {"mcpServers": [KEY], KEY: 1}}
    other = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": tool}}
    twice = json.dumps(plain).replace('"sessionId"', f'"sessionId": "{KEY}", "sessionId"').encode()
    async with running_chain(["redact"]) as chain:
        await open_session(chain, tmp_path)
        for message in (beside, other, twice):
            chain.agent.send(message)
            assert KEY.encode() not in await chain.client.receive_frame()


async def test_redact_lets_credentials_reach_those_they_are_for_and_learns_them(tmp_path: Path) -> None:
    server = {"name": "db", "command": "db", "args": [], "env": [{"name": "PASS", "value": "opensesame1"}]}
    async with running_chain(["redact"]) as chain:
        await chain.initialize()
        chain.client.send(call(1, "session/new", {"cwd": str(tmp_path), "mcpServers": [server]}))
        asked = await chain.agent.expect(method="session/new")
        assert asked["params"]["mcpServers"] == [server]
        chain.agent.send(reply(asked, {"sessionId": "s"}))
        await chain.client.expect(id=1)
        chain.agent.send(chunk("the password is opensesame1."))
        update = await chain.client.expect(method="session/update")
        assert update["params"]["update"]["content"]["text"] == "the password is [redacted]."


# --- budget ---------------------------------------------------------------------------------------------------


def tool_call(number: int) -> Json:
    update = {"sessionUpdate": "tool_call", "toolCallId": str(number), "title": "x", "status": "pending"}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}


def usage(used: int, cost: float) -> Json:
    update = {
        "sessionUpdate": "usage_update", "used": used, "size": 10**6, "cost": {"amount": cost, "currency": "USD"},
    }  # fmt: skip
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}


@pytest.mark.item("BR-22")
@pytest.mark.parametrize(
    ("words", "messages", "reason", "stop"),
    [
        ("--tool-calls 2", [tool_call(n) for n in range(3)], "more than 2 tool calls", "max_turn_requests"),
        ("--tokens 1000", [usage(1200, 0.1)], "1,200 of 1,000 tokens", "max_tokens"),
        ("--cost 0.5", [usage(10, 0.75)], "cost 0.75 of 0.5 USD", "max_turn_requests"),
        ("--seconds 0.2", [], "took longer than 0.2 s", "max_turn_requests"),
    ],
)
async def test_budget_stops_a_turn_and_says_why(
    words: str, messages: list[Json], reason: str, stop: str, tmp_path: Path
) -> None:
    async with running_chain([f"budget {words}", raw_proxy()]) as chain:
        await open_session(chain, tmp_path)
        chain.client.send(call(1, "session/prompt", prompt("work")))
        asked = await chain.agent.expect(method="session/prompt")
        for message in messages:
            chain.agent.send(message)
        await chain.agent.expect(method="session/cancel", params={"sessionId": "s"})
        chain.agent.send(reply(asked, {"stopReason": "cancelled"}))
        texts = []
        while "method" in (message := await chain.client.receive()):
            texts.append(message["params"]["update"].get("content", {}).get("text", ""))
        assert message["result"]["stopReason"] == stop
        assert f"Stopped by the budget: the {'session' if 'of' in reason else 'turn'}" in texts[-1]
        assert reason in texts[-1]
        if "of" in reason:  # the session has no budget left
            chain.client.send(call(2, "session/prompt", prompt("more")))
            refused = await chain.client.expect(id=2, error={})
            assert "the budget is used up" in refused["error"]["message"]


async def test_budget_counts_the_tokens_of_finished_turns(tmp_path: Path) -> None:
    spent = {"totalTokens": 600, "inputTokens": 500, "outputTokens": 100}
    async with running_chain(["budget --tokens 1000"]) as chain:
        await open_session(chain, tmp_path)
        for number in range(2):
            chain.client.send(call(number, "session/prompt", prompt("work")))
            asked = await chain.agent.expect(method="session/prompt")
            chain.agent.send(reply(asked, {"stopReason": "end_turn", "usage": spent}))
            await chain.client.expect(id=number, result={"stopReason": "end_turn"})
        chain.client.send(call(9, "session/prompt", prompt("more")))
        refused = await chain.client.expect(id=9, error={})
        assert "1,200 of 1,000 tokens" in refused["error"]["message"]


async def test_budget_ends_the_turn_of_an_agent_that_does_not_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.roles.proxy.built_in.budget.STOP_TIMEOUT", 0.1)
    async with running_chain(["budget --seconds 0.1"]) as chain:
        await open_session(chain, tmp_path)
        chain.client.send(call(1, "session/prompt", prompt("work")))
        asked = await chain.agent.expect(method="session/prompt")
        await chain.agent.expect(method="session/cancel")
        await chain.client.expect(method="session/update")
        await chain.client.expect(id=1, result={"stopReason": "max_turn_requests"})
        await chain.agent.expect(method="$/cancel_request", params={"requestId": asked["id"]})


# --- filter ---------------------------------------------------------------------------------------------------


@pytest.mark.item("BR-22")
async def test_filter_refuses_methods_and_paths(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / ".env")
    words = shlex.join(["filter", "--method", "terminal/*", "--method", "_hum", "--path", "**/.env"])
    async with running_chain([words]) as chain:
        await chain.initialize()
        for id, method, params in (
            (1, "terminal/create", {"sessionId": "s", "command": "ls"}),
            (2, "fs/read_text_file", {"sessionId": "s", "path": f"{tmp_path}/.env"}),
            (3, "fs/write_text_file", {"sessionId": "s", "path": f"{tmp_path}/x/../.env", "content": ""}),
            (4, "fs/read_text_file", {"sessionId": "s", "path": f"{tmp_path}/link"}),
            (6, "fs/write_files", {"sessionId": "s", "files": [{"path": "/x"}, {"path": f"{tmp_path}/.env"}]}),
        ):
            chain.agent.send(call(id, method, params))
            refused = await chain.agent.expect(id=id, error={"data": {"kind": "access_denied"}})
            assert "the filter of this chain refuses" in refused["error"]["message"]
        chain.agent.send({"jsonrpc": "2.0", "method": "_hum", "params": {}})  # is dropped
        chain.agent.send(call(5, "fs/read_text_file", {"sessionId": "s", "path": f"{tmp_path}/.envrc"}))
        await chain.client.expect(method="fs/read_text_file")


@pytest.mark.item("BR-22")
async def test_filter_rejects_the_permission_of_a_tool(tmp_path: Path) -> None:
    options = [
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]
    async with running_chain(["filter --tool 'web*'"]) as chain:
        await chain.initialize()
        question = {"sessionId": "s", "toolCall": {"toolCallId": "t", "title": "web search"}, "options": options}
        chain.agent.send(call(1, "session/request_permission", question))
        await chain.agent.expect(id=1, result={"outcome": {"outcome": "selected", "optionId": "no"}})
        question["toolCall"] = {"toolCallId": "t", "title": "read"}
        chain.agent.send(call(2, "session/request_permission", question))
        await chain.client.expect(method="session/request_permission")


@pytest.mark.parametrize("kind", ["tool_call", "tool_call_update"])
@pytest.mark.parametrize("asked", [{}, {"title": "read"}])
async def test_filter_rejects_the_permission_of_a_tool_that_was_named_before(kind: str, asked: Json) -> None:
    options = [{"optionId": "no", "name": "No", "kind": "reject_once"}]
    async with running_chain(["filter --tool 'web*'"]) as chain:
        await chain.initialize()
        update = {"sessionUpdate": kind, "toolCallId": "t", "title": "web search"}
        chain.agent.send({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}})
        await chain.client.expect(method="session/update")
        question = {"sessionId": "s", "toolCall": {"toolCallId": "t", **asked}, "options": options}
        chain.agent.send(call(1, "session/request_permission", question))
        await chain.agent.expect(id=1, result={"outcome": {"outcome": "selected", "optionId": "no"}})
        chain.agent.send(call(2, "session/request_permission", {**question, "toolCall": {"toolCallId": "u", **asked}}))
        await chain.client.expect(method="session/request_permission")


@pytest.mark.item("BR-22")
@pytest.mark.parametrize("member", ["params", "mcpParams"])
async def test_filter_refuses_a_tool_of_mcp_whatever_stands_beside_its_name(member: str) -> None:
    async with running_chain(["filter --tool 'web*'"]) as chain:
        await chain.initialize()
        request = {"connectionId": "c", "method": "tools/call", "params": {}, "mcpParams": {}}
        chain.agent.send(call(1, "_mcp/request", request | {member: {"name": "web_search"}}))
        refused = await chain.agent.expect(id=1)
        assert "refuses the tool web_search" in refused["error"]["message"]


# --- record ---------------------------------------------------------------------------------------------------


async def test_record_writes_the_messages_at_its_place(tmp_path: Path) -> None:
    out = tmp_path / "talk.ndjson"
    async with running_chain([raw_proxy("--mark", "<"), f"record --out {out}", raw_proxy("--mark", "-")]) as chain:
        await open_session(chain, tmp_path)
        chain.client.send(call(1, "session/prompt", prompt("hello")))
        asked = await chain.agent.expect(method="session/prompt")
        chain.agent.send(chunk("hi"))
        chain.agent.send(reply(asked, {"stopReason": "end_turn"}))
        update = await chain.client.expect(method="session/update")
        assert update["params"]["update"]["content"]["text"] == "<-hi"
        await chain.client.expect(id=1)
    messages = [json.loads(line.data) for line in RecordingReader().read_file(str(out))]
    assert [each.get("method", "answer") for each in messages] == [
        "initialize", "answer", "session/new", "answer", "session/prompt", "session/update", "answer",
    ]  # fmt: skip
    assert messages[5]["params"]["update"]["content"]["text"] == "-hi"
    assert messages[4]["id"] == messages[6]["id"]
    assert os.stat(out).st_mode & 0o777 == 0o600
