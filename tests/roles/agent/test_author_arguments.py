"""Arguments of the wrong kind are refused where an author's code passes them; a Path and plain text work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Turn, WorkspaceAccess
from dragoman.schema.content import ImageContent, TextContent
from dragoman.schema.toolcall import Diff, TerminalEmbed, ToolCallBlock, ToolCallLocation
from dragoman.testing import connect_in_memory
from tests.roles.raw_client import Raw, new_session, prompt_and_wait, raw_connection, updates

Act = Callable[[Any], Awaitable[Any]]

# The files and terminals of the client, and those of the agent itself.
both_workspaces = pytest.mark.parametrize("workspace", [WorkspaceAccess(), None], ids=["client", "local"])


async def run_turn(act: Act, folder: Path | str = "/", workspace: WorkspaceAccess | None = None) -> Exception | None:
    """Run this code in a turn; return what it raised."""
    raised: list[Exception] = []
    agent = Agent("acting")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        try:
            await act(turn)
        except Exception as error:
            raised.append(error)

    async with connect_in_memory(agent, workspace=workspace, cwd=str(folder)) as remote:
        session = await remote.open_session(str(folder))
        await session.ask("go")
    return raised[0] if raised else None


async def raw_turn(act: Act) -> Raw:
    """Run this code in a turn for a client of v1; return the client with what it got."""
    agent = Agent("acting")
    agent.prompt(act)
    async with raw_connection(agent) as client:
        assert "result" in await prompt_and_wait(client, await new_session(client))
    return client


async def expect_refusal(act: Act, kind: type[Exception], text: str, **options: Any) -> None:
    """Run this code in a turn; assert that it raises this."""
    raised = await run_turn(act, **options)
    assert type(raised) is kind
    assert str(raised) == text


@both_workspaces
async def test_bytes_are_refused_where_text_is_written(tmp_path: Path, workspace: WorkspaceAccess | None) -> None:
    path = tmp_path / "a.txt"
    said = "files.write takes text; for bytes use files.write_bytes"
    await expect_refusal(
        lambda turn: turn.files.write(str(path), b"hello"), TypeError, said, folder=tmp_path, workspace=workspace
    )
    said = "files.write_bytes takes bytes; for text use files.write"
    await expect_refusal(
        lambda turn: turn.files.write_bytes(str(path), "hello"), TypeError, said, folder=tmp_path, workspace=workspace
    )
    assert not path.exists()


async def test_text_and_content_blocks_are_wrapped_for_a_tool_call() -> None:
    async def act(turn: Turn) -> None:
        async with turn.tool("look") as call:
            picture = ImageContent(data="AAAA", mime_type="image/png")
            await call.add_content("words", picture, Diff(path="/a", old_text=None, new_text="new"))
            await call.add_content(ToolCallBlock(content=TextContent(text="more")), TerminalEmbed(terminal_id="t1"))

    shown = updates(await raw_turn(act), "tool_call_update")[1]["content"]
    assert shown == [
        {"type": "content", "content": {"type": "text", "text": "words"}},
        {"type": "content", "content": {"type": "image", "data": "AAAA", "mimeType": "image/png"}},
        {"type": "diff", "path": "/a", "oldText": None, "newText": "new"},
        {"type": "content", "content": {"type": "text", "text": "more"}},
        {"type": "terminal", "terminalId": "t1"},
    ]


@pytest.mark.parametrize("wrong", [5, ["words"], {"type": "text", "text": "words"}, None])
async def test_what_is_no_content_of_a_tool_call_is_refused(wrong: Any) -> None:
    async def act(turn: Any) -> None:
        async with turn.tool("look") as call:
            await call.add_content(wrong)

    wanted = "text, a content block, a ToolCallBlock, a Diff or a TerminalEmbed"
    await expect_refusal(act, TypeError, f"the content of a tool call is {wanted}, not {wrong!r}")


@both_workspaces
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("echo", "-n hello"), "args is a list: run('echo', ['-n', 'hello'])"),
        ((["echo", "hi"],), "command is the name of a program, not ['echo', 'hi']: run('echo', ['-n', 'hello'])"),
        (("sleep", [5]), "an argument of a command is text, not 5; use str(...)"),
    ],
)
async def test_a_command_that_is_not_a_program_and_a_list_is_refused(
    tmp_path: Path, workspace: WorkspaceAccess | None, words: Any, said: str
) -> None:
    where: Any = {"folder": tmp_path, "workspace": workspace}
    await expect_refusal(lambda turn: turn.terminals.run(*words), TypeError, said, **where)
    await expect_refusal(lambda turn: turn.terminals.create(*words), TypeError, said, **where)


@both_workspaces
async def test_files_and_terminals_take_paths(tmp_path: Path, workspace: WorkspaceAccess | None) -> None:
    async def act(turn: Turn) -> None:
        files = turn.files
        assert await files.make_directory(tmp_path / "sub")
        await files.write(tmp_path / "sub" / "a.txt", "text")
        assert await files.read(tmp_path / "sub" / "a.txt") == "text"
        await files.write_bytes(tmp_path / "sub" / "b", b"\x00")
        assert await files.read_bytes(tmp_path / "sub" / "b") == b"\x00"
        await files.write_many({tmp_path / "sub" / "c": "many"})
        assert [entry.name for entry in (await files.list(tmp_path / "sub")).entries] == ["a.txt", "b", "c"]
        async with files.watch(tmp_path / "sub"):
            pass
        ran = await turn.terminals.run(Path("/bin/cat"), [tmp_path / "sub" / "a.txt"], cwd=tmp_path)
        assert ran.output == "text"

    raised = await run_turn(act, tmp_path, workspace)
    assert raised is None


async def test_tool_calls_take_paths() -> None:
    async def act(turn: Turn) -> None:
        async with turn.tool("edit", paths=[Path("/a"), "/b", ToolCallLocation(path="/c", line=1)]) as call:
            await call.preview_diff(Path("/a"), None, "before")
            await call.add_diff(Path("/b"), "old", "new")

    client = await raw_turn(act)
    assert [place["path"] for place in updates(client, "tool_call")[0]["locations"]] == ["/a", "/b", "/c"]
    shown = [update["content"] for update in updates(client, "tool_call_update") if "content" in update]
    assert [[diff["path"] for diff in content] for content in shown] == [["/a"], ["/a", "/b"]]


async def test_what_is_no_path_is_refused() -> None:
    async def add_diff(turn: Any) -> None:
        async with turn.tool("edit") as call:
            await call.add_diff(b"/a", None, "new")

    async def create_tool(turn: Any) -> None:
        turn.tool("edit", paths=[5])

    for act, wrong in [(lambda turn: turn.files.read(5), 5), (add_diff, b"/a"), (create_tool, 5)]:
        await expect_refusal(act, TypeError, f"a path is a str or a Path, not {wrong!r}")


async def in_tool_call(turn: Any, method: str, *arguments: Any) -> None:
    """Call a method of a tool call."""
    async with turn.tool("edit") as call:
        await getattr(call, method)(*arguments)


async def add_summary(turn: Any) -> None:
    """Summarize with a number."""
    async with turn.compaction() as work:
        await work.add_summary(5)


@pytest.mark.parametrize(
    ("act", "noun"),
    [
        (lambda turn: turn.tool(5).start(), "the title of a tool call"),
        (lambda turn: in_tool_call(turn, "add_text", 5), "the text of a tool call"),
        (lambda turn: in_tool_call(turn, "append_text", 5), "the text of a tool call"),
        (lambda turn: in_tool_call(turn, "add_diff", "/a", None, 5), "the new text of a diff"),
        (lambda turn: in_tool_call(turn, "preview_diff", "/a", 5, "new"), "the old text of a diff"),
        (lambda turn: in_tool_call(turn, "fail", 5), "the reason of a failure"),
        (lambda turn: turn.set_title(5), "the title of a session"),
        (lambda turn: turn.send_notice(5), "the title of a notice"),
        (lambda turn: turn.ask_permission(5), "a question"),
        (add_summary, "a summary"),
    ],
)
async def test_a_number_is_refused_where_text_is_sent(act: Act, noun: str) -> None:
    await expect_refusal(act, TypeError, f"{noun} is text, not 5; use str(...)")


async def test_a_message_is_not_replaced_with_a_number() -> None:
    said = "a message is text or a content block, not 5; use str(...)"
    await expect_refusal(lambda turn: turn.message().replace(5), TypeError, said)


@pytest.mark.parametrize("paths", ["/tmp/x", Path("/tmp/x")])
async def test_one_path_is_no_list_of_paths(paths: Any) -> None:
    await expect_refusal(
        lambda turn: turn.tool("x", paths=paths).start(), TypeError, "paths is a list: paths=['/tmp/x']"
    )


async def test_a_word_is_no_slash_command() -> None:
    said = 'a slash command is not \'x\'; write: AvailableCommand(name="x", description="...")'
    await expect_refusal(lambda turn: turn.set_commands("x"), TypeError, said)


async def test_a_block_of_a_kind_that_nobody_knows_can_be_sent_on() -> None:
    block = {"type": "_hologram", "data": "AAAA"}

    async def act(turn: Turn) -> None:
        await turn.say(turn.prompt[0])

    agent = Agent("repeating")
    agent.prompt(act)
    async with raw_connection(agent) as client:
        assert "result" in await prompt_and_wait(client, await new_session(client), block)
    assert [update["content"] for update in updates(client, "agent_message_chunk")] == [block]


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"cost": 0.5}, "context_used and context_size"),
        ({"cost": 0.5, "input_tokens": 3}, "context_used and context_size"),
        ({"cost": 0.5, "context_size": 8000}, "context_used"),
        ({"context_used": 1500}, "context_size"),
    ],
)
async def test_a_cost_that_cannot_be_sent_is_refused_with_what_is_missing(given: Any, missing: str) -> None:
    said = f"the context and the cost are sent together; give {missing} too"
    await expect_refusal(lambda turn: turn.report_usage(**given), ValueError, said)


async def test_tokens_of_thoughts_alone_are_sent_with_the_end_of_the_turn() -> None:
    client = await raw_turn(lambda turn: turn.report_usage(thought_tokens=7))
    counts = {"totalTokens": 7, "inputTokens": 0, "outputTokens": 0, "thoughtTokens": 7}
    assert client.received[-1]["result"] == {"stopReason": "end_turn", "usage": counts}


@pytest.mark.parametrize("method", ["start", "finish", "change"])
@pytest.mark.parametrize("step", ["a", None, 1.0])
async def test_a_step_of_a_plan_is_named_by_its_number(method: str, step: Any) -> None:
    async def act(turn: Turn) -> None:
        plan = await turn.plan("a", "b")
        await getattr(plan, method)(step)

    await expect_refusal(act, TypeError, f"a step of the plan is a number, 0 for the first, not {step!r}")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"input_tokens": "3"}, "input_tokens is a whole number, not '3'; use int(...)"),
        ({"output_tokens": 3.5}, "output_tokens is a whole number, not 3.5; use int(...)"),
        ({"thought_tokens": True}, "thought_tokens is a whole number, not True; use int(...)"),
        ({"context_used": "3", "context_size": 4}, "context_used is a whole number, not '3'; use int(...)"),
        ({"context_used": 3, "context_size": 4, "cost": "free"}, "cost is a number, not 'free'; use float(...)"),
        ({"context_used": 3, "context_size": 4, "cost": 1, "currency": 5}, "a currency is text, not 5; use str(...)"),
    ],
)
async def test_usage_that_is_no_number_is_refused(given: Any, text: str) -> None:
    async def report(turn: Any) -> None:
        await turn.report_usage(**given)

    await expect_refusal(report, TypeError, text)


async def test_a_negative_number_of_tokens_is_refused() -> None:
    async def report(turn: Any) -> None:
        await turn.report_usage(input_tokens=-3)

    await expect_refusal(report, ValueError, "input_tokens is a whole number that is not negative, not -3")


@pytest.mark.parametrize("update", ["text", {"sessionUpdate": "plan"}, TextContent(text="text")])
async def test_what_is_no_session_update_is_refused(update: Any) -> None:
    async def send(turn: Any) -> None:
        await turn.send_update(update)

    wanted = 'use an object such as Notice(severity="info", title="...") of dragoman.schema.update'
    await expect_refusal(send, TypeError, f"a session update is not {update!r}; {wanted}")


@pytest.mark.parametrize(
    ("members", "noun"), [({"id": 3}, "the id of a tool call"), ({"name": 3}, "the name of a tool")]
)
async def test_a_number_is_no_id_and_no_name_of_a_tool_call(members: Any, noun: str) -> None:
    async def begin(turn: Any) -> None:
        async with turn.tool("Read", **members):
            pass

    await expect_refusal(begin, TypeError, f"{noun} is text, not 3; use str(...)")


async def test_a_tool_call_asks_for_permission_itself() -> None:
    async def ask(turn: Any) -> None:
        async with turn.tool("Read") as call:
            await turn.ask_permission("May I?", tool=call)

    raised = await run_turn(ask)
    assert isinstance(raised, TypeError)
    assert str(raised).endswith("; to ask for a tool call: call.ask_permission()")


def block_of(make: str) -> Act:
    """Return a function that enters what `make` returns with a plain `with`."""

    async def act(turn: Any) -> None:
        with getattr(turn, make)(*(["make"] if make == "terminal" else [])):
            pass

    return act


@pytest.mark.parametrize(
    ("make", "usage"),
    [
        ("message", "turn.message() as message; to send text at once: await turn.say(...)"),
        ("compaction", "turn.compaction() as work"),
        (
            "terminal",
            "turn.terminal(...) as terminal; for a terminal of the client: await turn.terminals.create(...)",
        ),
    ],
)
async def test_a_plain_with_block_is_refused_with_the_right_one(make: str, usage: str) -> None:
    await expect_refusal(block_of(make), TypeError, f"use: async with {usage}")


@both_workspaces
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"env": "CI=1"}, "env is a mapping, not 'CI=1': env={'CI': '1'}"),
        ({"env": {"CI": 1}}, "the value of the variable CI is text, not 1; use str(...)"),
        ({"output_byte_limit": "1"}, "output_byte_limit is a whole number, not '1'; use int(...)"),
        ({"timeout": "3"}, "timeout is a number, not '3'; use float(...)"),
        ({"size": 3}, "size is (rows, columns), two whole numbers, not 3"),
    ],
)
async def test_a_setting_of_a_terminal_that_is_of_the_wrong_kind_is_refused(
    tmp_path: Path, workspace: WorkspaceAccess | None, given: Any, said: str
) -> None:
    async def run(turn: Any) -> None:
        await turn.terminals.run("true", **given)

    await expect_refusal(run, TypeError, said, folder=tmp_path, workspace=workspace)


def no_coroutine(call: Any) -> None:
    """Stand for background work that is not asynchronous."""


async def test_background_work_that_is_no_async_function_is_refused_before_it_is_shown() -> None:
    raised = await run_turn(lambda turn: turn.run_in_background("Watch", no_coroutine))
    assert isinstance(raised, TypeError)
    assert "turn.run_in_background needs an async function; write: async def no_coroutine(...) (" in str(raised)
    called = "write the name of the function, without a call: turn.run_in_background(TITLE, function)"
    await expect_refusal(lambda turn: turn.run_in_background("Watch", None), TypeError, called)


async def test_work_of_a_session_inside_its_turn_is_refused_instead_of_waiting_for_itself() -> None:
    async def work(turn: Any) -> None:
        async with turn.session.work():
            pass

    raised = await run_turn(work)
    assert "this code runs in a turn, and session.work() would wait for its end; use the turn itself" in str(raised)
