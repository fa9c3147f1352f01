"""A room whose agent says more than most clients know: v2 clients get the originals, the others what they know."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Turn
from dragoman.cli.ui.terminal import TerminalOutput
from dragoman.cli.ui.turn_view import TurnView
from dragoman.config.config_file import NamedAgent
from dragoman.host.auth.roles import MemorySessionRoles
from dragoman.store.memory import MemoryStore
from tests.host.memory_host import Hosted, running_host, talker, until
from tests.host.test_methods import Raw

WIDE = NamedAgent(name="wide", command="wide", dialect="v2")
ADDED = {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c"}
DONE = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


# What the agent says in a turn, as v2 writes it.
TURN: tuple[dict[str, Any], ...] = (
    {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": text("Let me ")},
    {"sessionUpdate": "agent_message", "messageId": "m", "content": [text("Let me look.")]},
    {"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Run", "status": "in_progress"},
    {"sessionUpdate": "tool_call_update", "toolCallId": "c", "rawInput": {"command": "ls"}},
    {**ADDED, "content": {"type": "content", "content": text("one")}},
    {**ADDED, "content": {"type": "terminal", "terminalId": "t"}},
    {"sessionUpdate": "terminal_update", "terminalId": "t", "command": "ls"},
    {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": base64.b64encode(b"a.txt\n\xe2").decode()},
    {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": base64.b64encode(b"\x82\xac\n").decode()},
    {"sessionUpdate": "terminal_update", "terminalId": "t", "exitStatus": {"exitCode": 0}},
    {**DONE, "rawInput": None},
    {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "d",
        "title": "Edit",
        "status": "completed",
        "content": [
            {
                "type": "diff",
                "changes": [{"operation": "add", "path": "/w/b.txt", "fileType": "text"}],
                "patch": {
                    "format": "git_patch",
                    "text": "diff --git a/w/b.txt b/w/b.txt\nnew file mode 100644\n--- /dev/null\n+++ b/w/b.txt\n"
                    "@@ -0,0 +1 @@\n+new\n",
                },
            }
        ],
    },
    {"sessionUpdate": "agent_message", "messageId": "n", "content": [text("Done.")]},
)  # fmt: skip


def wide_agent() -> Agent:
    """Return an agent that says the same in each turn."""
    agent = Agent("wide", dialect="v2")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.say("Hm. ")
        for update in TURN:
            params = {"sessionId": turn.session.id, "update": update}
            frame = {"jsonrpc": "2.0", "method": "session/update", "params": params}
            turn.session.connection.transport.send(json.dumps(frame).encode())

    return agent


async def connect(hosted: Hosted, version: int) -> Raw:
    """Connect a client of v1 or v2."""
    client = Raw(hosted.connect_as())
    info = {"name": "editor", "version": "1"}
    params = {"info": info, "capabilities": {}} if version == 2 else {"clientInfo": info, "clientCapabilities": {}}
    answer = await client.ask("initialize", {"protocolVersion": version, **params})
    assert answer["result"]["protocolVersion"] == version
    return client


async def load(client: Raw, session: str, cwd: Path, version: int) -> None:
    """Open a session with its history."""
    where: dict[str, Any] = {"sessionId": session, "cwd": str(cwd), "mcpServers": []}
    method, more = ("session/resume", {"replayFrom": {"type": "start"}}) if version == 2 else ("session/load", {})
    assert "result" in await client.ask(method, {**where, **more})


async def prompt(client: Raw, session: str, words: str) -> None:
    """Prompt as a v1 or v2 client, until the turn is over."""
    answer = await client.ask("session/prompt", {"sessionId": session, "prompt": [text(words)]})
    if "stopReason" not in answer["result"]:
        await until(lambda: states(client)[-1:] == ["idle"])


def updates(client: Raw) -> list[dict[str, Any]]:
    return [dict(params["update"]) for params in client.received("session/update")]


def states(client: Raw) -> list[str]:
    return [it["state"] for it in updates(client) if it["sessionUpdate"] == "state_update"]


def kinds(client: Raw) -> set[str]:
    return {it["sessionUpdate"] for it in updates(client)}


def of_agent(client: Raw) -> list[dict[str, Any]]:
    """Return what the agent said itself in its turn."""
    return [it for it in updates(client) if it in TURN]


def answer_text(client: Raw) -> str:
    """Return the text of the agent as a v1 client shows it."""
    return "".join(it["content"]["text"] for it in updates(client) if it["sessionUpdate"] == "agent_message_chunk")


def calls(client: Raw) -> dict[str, dict[str, Any]]:
    """Return the tool calls as a v1 client merges them."""
    merged: dict[str, dict[str, Any]] = {}
    for it in updates(client):
        if it["sessionUpdate"] in ("tool_call", "tool_call_update"):
            assert it["sessionUpdate"] == "tool_call" or it["toolCallId"] in merged, "never started"
            merged.setdefault(it["toolCallId"], {}).update({name: value for name, value in it.items() if value})
    return merged


def check_narrowed(client: Raw) -> None:
    assert kinds(client) <= {"user_message_chunk", "agent_message_chunk", "tool_call", "tool_call_update"}
    assert answer_text(client) == "Hm. Let me look.Done."
    run, edit = calls(client)["c"], calls(client)["d"]
    assert (run["title"], run["status"]) == ("Run", "completed")
    assert "one" in str(run["content"])
    assert "a.txt\\n€" in json.dumps(run["content"], ensure_ascii=False)
    (diff,) = edit["content"]
    assert (diff["path"], diff["newText"]) == ("/w/b.txt", "new\n")
    numbers = [params["_meta"]["dragoman"]["seq"] for params in client.received("session/update") if "_meta" in params]
    assert numbers == sorted(numbers)
    assert numbers


def messages(client: Raw) -> list[tuple[str, str]]:
    """Return the messages as a v2 client merges them."""
    merged: dict[tuple[str, str], str] = {}
    for it in updates(client):
        role, _, rest = it["sessionUpdate"].partition("_message")
        if rest == "_chunk":
            merged[role, it["messageId"]] = merged.get((role, it["messageId"]), "") + it["content"]["text"]
        elif rest == "" and "content" in it and "messageId" in it:
            merged[role, it["messageId"]] = "".join(block["text"] for block in it["content"])
    return [(role, words) for (role, _), words in merged.items()]


async def open_session(client: Raw, cwd: Path) -> str:
    created = await client.ask("session/new", {"cwd": str(cwd), "mcpServers": []})
    return str(created["result"]["sessionId"])


@pytest.mark.item("V2-28")
async def test_each_client_gets_what_it_knows_live_and_replayed(tmp_path: Path) -> None:
    async with running_host(wide_agent, agents=(WIDE,)) as hosted:
        old, new = await connect(hosted, 1), await connect(hosted, 2)
        session = await open_session(old, tmp_path)
        await load(new, session, tmp_path, 2)
        new.frames.clear()
        await prompt(old, session, "go")
        check_narrowed(old)
        await until(lambda: states(new)[-1:] == ["idle"])
        assert of_agent(new) == list(TURN)
        assert states(new) == ["running", "idle"]
        story = [("user", "go"), ("agent", "Hm. "), ("agent", "Let me look."), ("agent", "Done.")]
        assert messages(new) == story
        late = await connect(hosted, 1)
        await load(late, session, tmp_path, 1)
        check_narrowed(late)
        late = await connect(hosted, 2)
        await load(late, session, tmp_path, 2)
        assert of_agent(late) == list(TURN)
        assert (states(late), messages(late)) == (["idle"], story)


@pytest.mark.item("V2-28")
async def test_a_stored_session_is_narrowed_before_its_agent_runs_again(tmp_path: Path) -> None:
    kept: dict[str, Any] = {"store": MemoryStore(), "session_roles": MemorySessionRoles()}
    async with running_host(wide_agent, agents=(WIDE,), **kept) as hosted:
        client = await connect(hosted, 2)
        session = await open_session(client, tmp_path)
        client.frames.clear()
        await prompt(client, session, "go")
        assert of_agent(client) == list(TURN)
        assert (states(client), messages(client)[0]) == (["running", "idle"], ("user", "go"))
    async with running_host(wide_agent, agents=(WIDE,), **kept) as hosted:
        old = await connect(hosted, 1)
        await load(old, session, tmp_path, 1)
        check_narrowed(old)


@pytest.mark.item("V2-28")
async def test_a_client_that_comes_back_gets_whole_contents_of_what_it_missed(tmp_path: Path) -> None:
    async with running_host(wide_agent, agents=(WIDE,)) as hosted:
        old = await connect(hosted, 1)
        session = await open_session(old, tmp_path)
        await prompt(old, session, "go")
        entries = await hosted.host.store.read(session)
        for seq in [entry.seq for entry in entries if entry.kind == "update"]:
            back = await connect(hosted, 1)
            cursor = {"_meta": {"dragoman": {"cursor": seq}}}
            where = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": [], **cursor}
            assert "result" in await back.ask("session/resume", where)
            content = [it["content"] for it in updates(back) if it.get("toolCallId") == "c" and it.get("content")]
            assert all("one" in str(each) for each in content), seq
            assert all(it["sessionUpdate"] != "tool_call" or it["title"] for it in updates(back))
            assert "Let me look.Done.".endswith(answer_text(back)) or answer_text(back) == "Hm. Let me look.Done.", seq


@pytest.mark.parametrize("prompter", [1, 2])
async def test_a_v2_member_of_a_shared_room_is_told_each_turn_once(prompter: int, tmp_path: Path) -> None:
    async with running_host(talker) as hosted:
        old, new = await connect(hosted, 1), await connect(hosted, 2)
        session = await open_session(old, tmp_path)
        await load(new, session, tmp_path, 2)
        new.frames.clear()
        for word in ("one", "two"):
            await prompt(old if prompter == 1 else new, session, word)
            await until(lambda: states(new)[-1:] == ["idle"])
        expected = [
            (who, f"{what}{word}") for word in ("one", "two") for who, what in (("user", ""), ("agent", "heard "))
        ]
        assert messages(new) == expected
        assert states(new) == ["running", "idle"] * 2
        (*_, idle) = [it for it in updates(new) if it["sessionUpdate"] == "state_update"]
        assert idle["stopReason"] == "end_turn"
        assert "state_update" not in kinds(old)
        again = await connect(hosted, 2)
        await load(again, session, tmp_path, 2)
        assert (messages(again), states(again)) == (expected, ["idle"])


async def test_a_prompt_of_a_v2_member_is_answered_when_its_turn_begins(tmp_path: Path) -> None:
    async with running_host(talker) as hosted:
        old, new = await connect(hosted, 1), await connect(hosted, 2)
        session = await open_session(old, tmp_path)
        await load(new, session, tmp_path, 2)
        new.frames.clear()
        old.say(id=90, method="session/prompt", params={"sessionId": session, "prompt": [text("wait gate")]})
        await until(lambda: "gate" in hosted.agents[-1].gates)  # type: ignore[attr-defined]
        await until(lambda: states(new) == ["running"])
        late = await connect(hosted, 2)
        where = {"sessionId": session, "cwd": str(tmp_path)}
        await late.ask("session/resume", where)
        assert states(late) == ["running"]
        new.say(id=91, method="session/prompt", params={"sessionId": session, "prompt": [text("mine")]})
        await until(lambda: hosted.room.queue.waiting)
        hosted.agents[-1].gates["gate"].set()  # type: ignore[attr-defined]
        await until(lambda: states(new) == ["running", "idle"] * 2 and states(late) == ["running", "idle"] * 2)
        receipt = next(at for at, frame in enumerate(new.frames) if frame.get("id") == 91)
        first_idle = next(at for at, frame in enumerate(new.frames) if '"idle"' in json.dumps(frame))
        assert first_idle < receipt
        told = [
            ("user", "wait gate"),
            ("agent", "waiting for gate; gate came"),
            ("user", "mine"),
            ("agent", "heard mine"),
        ]
        assert messages(new) == told


async def test_the_answer_to_a_prompt_has_whole_messages_once(tmp_path: Path) -> None:
    async with running_host(wide_agent, agents=(WIDE,)) as hosted:
        for dialect in ("v1", "v2"):
            async with hosted.client(dialect=dialect) as remote:
                session = await remote.open_session(str(tmp_path))
                assert await session.ask("go") == "Hm. Let me look.Done."
                assert [call.title for call in session.tool_calls.values()] == ["Run", "Edit"]


@pytest.mark.parametrize("quiet", [True, False])
async def test_a_terminal_shows_whole_messages_once_and_the_output_of_agent_terminals(
    quiet: bool, tmp_path: Path
) -> None:
    out, err = io.StringIO(), io.StringIO()
    async with running_host(wide_agent, agents=(WIDE,)) as hosted, hosted.client(dialect="v2") as remote:
        session = await remote.open_session(str(tmp_path))
        view = TurnView(TerminalOutput(out, err), session, quiet=quiet, verbose=True)
        async with session.prompt("go") as turn:
            async for update in turn:
                view.show(update)
        view.end_turn()
    assert out.getvalue() == "Hm. Let me look.Done.\n"
    assert all((word in err.getvalue()) is not quiet for word in ("✓ Run", "a.txt", "€", "one", "✓ Edit", "+new"))
    assert "Update)" not in err.getvalue()
