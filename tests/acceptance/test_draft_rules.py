"""docs/protocol/draft.md#trust to #schemas: permission, folders, guides, versions."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from dragoman import Agent, Kind, ProtocolError, Turn, WorkspaceAccess, WorkspaceUse, connect
from dragoman.agents.everything.agent import everything
from dragoman.schema.content import EmbeddedResource, ImageContent, ResourceContents, ResourceLink, TextContent
from dragoman.testing.connections import connect_in_memory
from dragoman.transport.memory import memory_pair
from tests.acceptance.draft import (
    CREATED,
    SESSION,
    Raw,
    during_turn,
    initialize,
    kind_of,
    open_session,
    playing,
    prompted,
    serving,
    text_prompt,
)
from tests.cli.process import EVERYTHING, OnTerminal
from tests.cli.process import run as command

ROOT = Path(__file__).parents[2]
AGENT_COMMAND = [*EVERYTHING, "--dialect", "draft"]
DIALECT = ("--dialect", "draft")


def doing(work: Callable[[Turn], Awaitable[None]], **options: Any) -> Agent:
    """Return an agent that does this in every turn."""
    agent = Agent("worker", version="1", dialect="draft", **options)

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await work(turn)

    return agent


# --- 14.1 trust -----------------------------------------------------------------------------------------------


@pytest.mark.item("004-52")
@pytest.mark.parametrize("prompt", ["/write made text", "/run touch made"])
def test_no_sensitive_operation_runs_without_permission(tmp_path: Path, prompt: str) -> None:
    """`dragoman run`: nobody to ask means no; a person who says no means no; y, or --yes, is leave."""
    made = tmp_path / "made"
    assert command(prompt, *DIALECT, cwd=tmp_path, agent=AGENT_COMMAND).returncode == 6
    assert not made.exists()
    for key, is_allowed in (("n", False), ("y", True)):
        with OnTerminal("run", "--prompt", prompt, *DIALECT, "--", *AGENT_COMMAND, cwd=tmp_path) as terminal:
            terminal.await_text("The agent asks for permission:")
            terminal.await_text("n? ")
            assert not made.exists()
            terminal.type(f"{key}\n")
            assert terminal.end() == 0
        assert made.exists() is is_allowed
    made.unlink()
    assert command(prompt, "--yes", *DIALECT, cwd=tmp_path, agent=AGENT_COMMAND).returncode == 0
    assert made.exists()


@pytest.mark.item("004-52")
async def test_the_client_refuses_an_agent_that_does_not_ask(tmp_path: Path) -> None:
    """What a client offers is used only with its permission, whether the agent asked for it or not."""
    (tmp_path / "a.txt").write_text("before")
    asked: list[tuple[str, str]] = []

    def approve(question: WorkspaceUse) -> bool:
        asked.append((question.operation, question.resource))
        return question.operation == "read"

    async def part(agent: Raw) -> None:
        path = str(tmp_path / "a.txt")
        assert (await agent.result("fs/read_text_file", {"path": path}))["content"] == "before"
        assert (await agent.error("fs/write_text_file", {"path": path, "content": "after"}))["code"] == -32002
        refused = await agent.error("terminal/create", {"command": "touch", "args": ["made"]})
        assert refused["code"] == -32002

    await during_turn(tmp_path, part, workspace=WorkspaceAccess(approve=approve))
    assert asked == [("read", f"{tmp_path}/a.txt"), ("write", f"{tmp_path}/a.txt"), ("execute", "touch made")]
    assert (tmp_path / "a.txt").read_text() == "before"
    assert not (tmp_path / "made").exists()


# --- 14.3 the working directory -------------------------------------------------------------------------------


@pytest.mark.item("004-55")
async def test_files_are_inside_the_working_directory_and_relative_paths_start_there(tmp_path: Path) -> None:
    """Relative paths of files and terminals are resolved against workingDirectory; what leaves it by dots, by an
    absolute path or by a link is -32005; a folder that the client allowed besides is no exit."""
    inside, outside, allowed = (tmp_path / name for name in ("inside", "outside", "allowed"))
    for folder in (inside, outside, allowed, inside / "src"):
        folder.mkdir()
        (folder / "a.txt").write_text(folder.name)
    (inside / "link").symlink_to(outside)

    async def part(agent: Raw) -> None:
        agent.reply(await agent.expect(method="session/new"), {"sessionId": SESSION, "createdAt": CREATED})
        asked = await agent.expect(method="session/prompt")
        agent.answers["terminal/output"] = lambda _: {"received": True}

        async def read(path: str) -> Any:
            return await agent.call("fs/read_text_file", {"path": path})

        for path, text in (
            ("a.txt", "inside"),
            ("src/a.txt", "src"),
            ("src/../a.txt", "inside"),
            (f"{inside}/a.txt", "inside"),
            (f"{allowed}/a.txt", "allowed"),
        ):
            assert (await read(path))["result"]["content"] == text
        for path in ("../outside/a.txt", f"{outside}/a.txt", "link/a.txt", "/etc/hostname", "src/../../x"):
            assert (await read(path))["error"]["code"] == -32005
            write = {"path": path, "content": "changed"}
            assert (await agent.error("fs/write_text_file", write))["code"] == -32005
        assert (await agent.result("fs/write_text_file", {"path": "src/b.txt", "content": "x"}))["created"]
        assert (inside / "src" / "b.txt").read_text() == "x"
        created = await agent.result("terminal/create", {"command": "pwd", "cwd": "src"})
        await agent.result("terminal/wait_for_exit", {"terminalId": created["terminalId"]})
        assert agent.params_of("terminal/output")[0]["data"] == f"{inside}/src\n"
        assert (await agent.error("terminal/create", {"command": "pwd", "cwd": ".."}))["code"] == -32005
        agent.reply(asked, {"stopReason": "end_turn"})

    async with playing(part, workspace=WorkspaceAccess()) as remote:
        session = await remote.open_session(str(inside), directories=[str(allowed)])
        async with session.prompt("go"):
            pass
    assert (outside / "a.txt").read_text() == "outside"


@pytest.mark.item("004-55")
async def test_our_agent_uses_no_files_outside_the_working_directory(tmp_path: Path) -> None:
    """If the client offers no files, the agent's own calls end at the session's folder."""
    (tmp_path / "a.txt").write_text("inside")
    kinds: list[str] = []

    async def reach(turn: Turn) -> None:
        await turn.say(await turn.files.read(f"{tmp_path}/a.txt"))
        for path in ("/etc/hostname", f"{tmp_path}/../other"):
            kinds.append(await kind_of(turn.files.read(path)))

    async with connect_in_memory(doing(reach), dialect="draft") as remote:
        assert await (await remote.open_session(str(tmp_path))).ask("go") == "inside"
    assert kinds == [Kind.ACCESS_DENIED, Kind.ACCESS_DENIED]


# --- 16.1 for client developers -------------------------------------------------------------------------------


@pytest.mark.item("004-63")
async def test_a_client_object_starts_the_agent_initializes_it_and_matches_answers_to_requests(tmp_path: Path) -> None:
    """connect() with a command: one process, initialize first; answers that come in another order than the requests
    reach whoever asked, and requests that are open when the agent dies fail and do not hang."""
    script = tmp_path / "agent.py"
    script.write_text(
        "import json, sys\n"
        "def say(id, result): print(json.dumps({'jsonrpc': '2.0', 'id': id, 'result': result}), flush=True)\n"
        "first = json.loads(sys.stdin.readline())\n"
        "assert first['method'] == 'initialize', first\n"
        "say(first['id'], {'protocolVersion': 1, 'agentInfo': {'name': 'odd', 'version': '1'}, 'capabilities': {}})\n"
        "asked = [json.loads(sys.stdin.readline()) for _ in range(3)]\n"
        "for request in reversed(asked): say(request['id'], {'echo': request['params']})\n"
        "sys.stdin.readline()\n"
        "sys.exit(3)\n"
    )

    async with connect([sys.executable, str(script)], dialect="draft") as remote:
        assert remote.info is not None
        assert remote.info.name == "odd"
        answers = await asyncio.gather(*(remote.request("_echo", {"n": n}) for n in range(3)))
        assert answers == [{"echo": {"n": n}} for n in range(3)]
        with pytest.raises(Exception, match="exited with status 3"):
            await remote.request("_last", {})


@pytest.mark.item("004-64")
async def test_a_client_answers_the_agent_at_any_time_and_asks_before_it_writes(tmp_path: Path) -> None:
    """Between turns as well as in one, several at once; reads, questions and terminals are served, and a write asks
    first: refused, it is -32002 and nothing was written."""
    leave = {"granted": False}
    asked: list[str] = []

    def approve(question: WorkspaceUse) -> bool:
        asked.append(question.operation)
        if question.operation == "write":
            assert not (tmp_path / "b.txt").exists()  # asked first
            return leave["granted"]
        return True

    (tmp_path / "a.txt").write_text("text")

    async def serves(agent: Raw) -> None:
        (tmp_path / "b.txt").unlink(missing_ok=True)
        read = agent.ask("fs/read_text_file", {"path": str(tmp_path / "a.txt")})
        question = {"sessionId": SESSION, "operation": "file_write", "resource": "b.txt"}
        permission = agent.ask("session/request_permission", question)
        terminal = agent.ask("terminal/create", {"command": "true"})
        answers: dict[int, Any] = {}
        while answers.keys() != {read, permission, terminal}:
            message = await agent.until(lambda m: "method" not in m)
            answers[message["id"]] = message["result"]
        assert answers[read]["content"] == "text"
        assert answers[permission] == {"granted": True, "scope": "once"}
        assert answers[terminal]["terminalId"]
        write = {"path": str(tmp_path / "b.txt"), "content": "x"}
        leave["granted"] = False
        assert (await agent.error("fs/write_text_file", write))["code"] == -32002
        assert not (tmp_path / "b.txt").exists()
        leave["granted"] = True
        assert (await agent.result("fs/write_text_file", write))["created"] is True

    async def part(agent: Raw) -> None:
        agent.answers["terminal/output"] = lambda _: {"received": True}
        agent.reply(await agent.expect(method="session/new"), {"sessionId": SESSION, "createdAt": CREATED})
        for asked_for, answer in (("_between", {}), ("session/prompt", {"stopReason": "end_turn"})):
            message = await agent.wait_for_call(asked_for)
            await serves(agent)
            agent.reply(message, answer)

    async with playing(part, workspace=WorkspaceAccess(approve=approve), permission="allow") as remote:
        session = await remote.open_session(str(tmp_path))
        await remote.request("_between", {})  # no turn is running
        async with session.prompt("go"):
            pass
    assert asked.count("write") == 4


@pytest.mark.item("004-64")
async def test_a_client_is_ready_as_soon_as_session_new_is_answered(tmp_path: Path) -> None:
    """An agent that looks around in the very moment it has opened the session gets what it asks for."""
    (tmp_path / "AGENTS.md").write_text("rules")

    async def part(agent: Raw) -> None:
        agent.reply(await agent.expect(method="session/new"), {"sessionId": SESSION, "createdAt": CREATED})
        assert (await agent.result("fs/read_text_file", {"path": "AGENTS.md"}))["content"] == "rules"

    async with playing(part, workspace=WorkspaceAccess()) as remote:
        await remote.open_session(str(tmp_path))


# --- 16.2 for agent developers --------------------------------------------------------------------------------


@pytest.mark.item("004-67")
async def test_updates_are_sent_while_the_agent_works() -> None:
    """Each piece arrives before the next is made: the agent goes on only when the client says so, and the prompt is
    answered at the end; first thoughts, then text and tool calls."""

    async def stream(turn: Turn) -> None:
        async def step() -> None:
            await turn.session.request("_step", {})

        await turn.think("first a thought")
        await step()
        await turn.say("some text, ")
        await step()
        async with turn.tool("look", kind="search") as call:
            await step()
            await call.add_text("found")
            await step()
        await turn.say("more text")
        await step()

    async with serving(doing(stream)) as client:
        session = await open_session(client)
        id = client.ask("session/prompt", text_prompt(session))
        seen: list[list[str]] = []
        for _ in range(5):
            step = await client.wait_for_call("_step")
            seen.append([params["type"] for params in client.params_of("session/update")])
            client.reply(step, {})
        assert (await client.answer(id))["result"]["stopReason"] == "end_turn"
        assert [kinds[-1] for kinds in seen] == [
            "thought_message_chunk",
            "agent_message_chunk",
            "tool_call",
            "tool_call_update",
            "agent_message_chunk",
        ]
        assert [len(kinds) for kinds in seen] == [1, 2, 3, 4, 6]


@pytest.mark.item("004-68")
async def test_a_tool_call_reports_each_step_and_its_result() -> None:
    """Announced; asked where it needs leave; `denied`, and then nothing is done; else `in_progress`, executed, and
    `completed` with its output or `failed` with the error's text."""
    done: list[str] = []

    async def execute(turn: Turn) -> None:
        needs = turn.text != "free"
        tool = turn.tool("write", kind="edit", input={"path": "/x"}, paths=["/x"], requires_permission=needs)
        try:
            async with tool as call:
                if needs and not await call.ask_permission("to try it"):
                    return
                await call.start()
                done.append(turn.text)
                if turn.text == "fail":
                    raise ValueError("the disk is full")
                await call.add_text("42")
        except ValueError:
            await turn.say("It failed.")

    async with serving(doing(execute)) as client:
        session = await open_session(client)

        async def steps(text: str, granted: bool) -> tuple[list[str], Any]:
            client.answers["session/request_permission"] = lambda _: {"granted": granted}
            start = len(client.received)
            assert (await prompted(client, session, text))["result"]["stopReason"] == "end_turn"
            walked: list[str] = []
            last: Any = None
            for message in client.received[start:]:
                if message.get("method") == "session/request_permission":
                    assert message["params"]["reason"] == "to try it"
                    walked.append("asked")
                elif message.get("params", {}).get("type") in ("tool_call", "tool_call_update"):
                    last = message["params"]["data"]
                    walked.append(last["status"])
            return walked, last

        walked, _ = await steps("denied", False)
        assert walked == ["pending", "awaiting_permission", "asked", "denied"]
        walked, _ = await steps("work", True)
        assert walked == ["pending", "awaiting_permission", "asked", "in_progress", "in_progress", "completed"]
        walked, _ = await steps("free", True)
        assert walked == ["pending", "in_progress", "in_progress", "completed"]
        outputs = [data["output"] for data in client.updates("tool_call_update") if "output" in data]
        assert outputs == [{"type": "text", "text": "42"}] * 2
        walked, last = await steps("fail", True)
        assert walked == ["pending", "awaiting_permission", "asked", "in_progress", "failed"]
        assert last["error"] == "the disk is full"
    assert done == ["work", "free", "fail"]


# --- 17.3 versions --------------------------------------------------------------------------------------------


@pytest.mark.item("004-78")
async def test_the_version_is_an_integer_and_older_agents_still_work() -> None:
    """Our client says an integer; an agent that answers an older version, and says nothing of what came later, is
    talked to with what it has: its capabilities tell."""

    received: list[Any] = []

    async def part(agent: Raw) -> None:
        received.append(agent.received[0]["params"]["protocolVersion"])
        agent.reply(await agent.expect(method="session/new"), {"sessionId": SESSION, "createdAt": CREATED})
        asked = await agent.expect(method="session/prompt")
        chunk = {"sessionId": SESSION, "type": "agent_message_chunk", "data": {"content": "still here"}}
        agent.notify("session/update", chunk)
        agent.reply(asked, {"stopReason": "end_turn"})

    info = {"name": "old", "version": "0.1"}
    async with playing(part, {"protocolVersion": 0, "agentInfo": info, "capabilities": {}}) as remote:
        session = await remote.open_session("/")
        assert await session.ask("hello") == "still here"
        assert session.modes is None
        with pytest.raises(ProtocolError) as refusal:
            await remote.load_session(SESSION, "/")
        assert refusal.value.kind == Kind.CAPABILITY_UNSUPPORTED
    assert received == [1]


@pytest.mark.item("004-78")
@pytest.mark.parametrize("dialect", ["2025.1", "crow", "banjo", "v1", "draft"])
async def test_our_client_detects_agents_of_every_version(tmp_path: Path, dialect: str) -> None:
    """The client knows only the command of the agent: whichever version of the protocol it has, the turn works."""

    async with connect([*EVERYTHING, "--dialect", dialect], cwd=str(tmp_path)) as remote:
        session = await remote.open_session(str(tmp_path))
        assert await session.ask("/echo heard") == "heard"


@pytest.mark.item("004-78")
async def test_deprecated_forms_work_for_at_least_one_more_version() -> None:
    """The policy is written down where users look for changes, and an agent answers a client of a later version with
    the one it has instead of turning it away."""
    text = " ".join((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split())
    assert "deprecated feature works for at least one more major version" in text

    async def echo(turn: Turn) -> None:
        await turn.say(turn.text)

    ours, theirs = memory_pair()
    connection = doing(echo).start_connection(theirs)
    client = Raw(ours)
    assert (await client.result("initialize", initialize() | {"protocolVersion": 2}))["protocolVersion"] == 1
    assert (await prompted(client, await open_session(client)))["result"]["stopReason"] == "end_turn"
    await connection.close()


# --- appendix B: the schemas ----------------------------------------------------------------------------------

SCHEMAS = json.loads((ROOT / "tests" / "data" / "dialects" / "draft_schemas.json").read_text(encoding="utf-8"))
BLOCK = Draft202012Validator(SCHEMAS["ContentBlock"])
UPDATE = Draft202012Validator(SCHEMAS["SessionUpdate"])


@pytest.mark.item("004-80")
async def test_every_update_of_the_everything_agent_is_valid(tmp_path: Path) -> None:
    """All it can say, as frames on the wire, against the schema of appendix B.2; all nine types are among it."""
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    prompts = [
        "hello", "/echo x", "/think x", "/plan", "/read a.txt", "/read missing", "/write b.txt new",
        "/edit a.txt one 1", "/run echo hi", "/ask", "/stream 3", "/image", "/audio", "/resource", "/title x",
        "/usage", "/mode code", "/option model loud", "/option verbose true", "/late", "/tour", "/help",
        "/error timeout",
    ]  # fmt: skip

    async with serving(everything("draft"), {}) as client:
        client.answers["session/request_permission"] = lambda _: {"granted": True}
        session = await open_session(client, tmp_path)
        for prompt in prompts:
            await prompted(client, session, prompt)
        await client.result("session/load", {"sessionId": session})  # with the user's own words
        frames = client.params_of("session/update")
        for frame in frames:
            UPDATE.validate(frame)
        assert {frame["type"] for frame in frames} == set(UPDATE.schema["properties"]["type"]["enum"])


@pytest.mark.item("004-80")
async def test_every_content_block_our_client_sends_is_valid() -> None:
    """The blocks of a prompt on the wire against the schema of appendix B.1, which has no audio; and the schema is a
    real check: a block without what it needs is not valid."""
    blocks: list[Any] = [
        TextContent(text="text"),
        ImageContent(data="AAAA", mime_type="image/png"),
        ImageContent(data="", mime_type="image/png", uri="https://example.com/a.png"),
        ResourceLink(name="a", uri="file:///a", mime_type="text/plain", title="A", description="more", size=3),
        EmbeddedResource(resource=ResourceContents(uri="file:///a", text="text")),
        EmbeddedResource(resource=ResourceContents(uri="file:///a", blob="AAAA", mime_type="image/png")),
    ]

    async def part(agent: Raw) -> None:
        agent.reply(await agent.expect(method="session/new"), {"sessionId": SESSION, "createdAt": CREATED})
        asked = await agent.expect(method="session/prompt")
        assert len(asked["params"]["content"]) == len(blocks)
        for block in asked["params"]["content"]:
            BLOCK.validate(block)
            needed = {"text": "text", "image": "source", "resource_link": "uri", "resource": "uri"}[block["type"]]
            assert not BLOCK.is_valid({name: value for name, value in block.items() if name != needed})
        agent.reply(asked, {"stopReason": "end_turn"})

    async with playing(part) as remote:
        session = await remote.open_session("/")
        async with session.prompt(blocks):
            pass
