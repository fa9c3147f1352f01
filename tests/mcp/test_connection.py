"""One connection to a real MCP server: both eras, all transports, what a server offers and asks, and its faults."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.mcp.channel import ProcessChannel
from dragoman.mcp.connection import ServerConnection, ServerSettings
from dragoman.mcp.limits import MAX_NOTIFICATIONS
from dragoman.mcp.sdk import ServerFailed
from dragoman.policy.redaction import Redactor
from dragoman.schema import content
from dragoman.schema.mcp import McpServer, NameValue
from tests.mcp.servers import KEY, bare, installed, open_server, sdk_server, serve_app, wait_for


@pytest.mark.item("BR-02", "004-46")
async def test_a_command_is_connected_with_its_env_and_folder(tmp_path: Path) -> None:
    async with open_server(bare(KEY_X="short"), str(tmp_path)) as server:
        seen = json.loads((await server.call("environment", {})).text)
    assert seen["env"]["KEY_X"] == "short"
    assert seen["cwd"] == str(tmp_path)
    assert "PYTEST_CURRENT_TEST" not in seen["env"], "a server inherits what may hold a credential"


async def test_all_pages_of_a_list_are_read_and_hints_choose_the_kind() -> None:
    async with open_server(bare()) as server:
        assert server.version == "2025-06-18"
        tools = {tool.tool: tool for tool in await server.list_tools()}
        resources = await server.list_resources()
        prompts = await server.list_prompts()
    assert len(tools) == 10
    assert tools["echo"].name == "mcp__bare__echo"
    assert [tools[name].kind for name in ("echo", "fail", "slow")] == ["read", "fetch", "other"]
    assert [(each.uri, each.is_template) for each in resources] == [("note://1", False), ("note://{id}", True)]
    assert [argument.name for argument in prompts[0].arguments] == ["who", "how"]


@pytest.mark.item("BR-05")
async def test_blocks_structured_results_and_errors_are_mapped() -> None:
    async with open_server(bare()) as server:
        blocks = await server.call("blocks", {})
        failed = await server.call("fail", {})
        refused = await server.call("error", {})
        resources = await server.read("note://1")
        messages = await server.get_prompt("greet", {"who": "Ada"})
    assert [type(block) for block in blocks.content] == [
        content.TextContent,
        content.ImageContent,
        content.AudioContent,
        content.EmbeddedResource,
        content.ResourceLink,
    ]
    assert blocks.structured == {"n": 1}
    assert (failed.is_error, failed.text) == (True, "it failed")
    assert refused.is_error
    assert "-32050" in refused.text
    assert resources[0].resource.text == "a note "
    assert messages[0].role == "user"
    assert messages[0].content == content.TextContent(text="Greet Ada kindly")


async def test_roots_and_forms_are_answered_and_sampling_is_declined() -> None:
    questions: list[Any] = []

    async def elicit(params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        questions.append(params["message"])
        return "accept", {"color": "red"}

    async with open_server(bare(), roots=["/a folder"], elicit=elicit) as server:
        asked = json.loads((await server.call("ask", {})).text)
    assert asked["roots"] == {"roots": [{"uri": "file:///a%20folder"}]}
    assert asked["form"] == {"action": "accept", "content": {"color": "red"}}
    assert "error" in asked["sample"]
    assert questions[0] == "Which color?"


async def test_a_server_that_asks_for_a_sample_gets_one_where_it_is_offered() -> None:
    async def sample(params: dict[str, Any]) -> dict[str, Any]:
        return {"role": "assistant", "content": {"type": "text", "text": "hello"}, "model": "m"}

    async with open_server(bare(), sample=sample) as server:
        asked = json.loads((await server.call("ask", {})).text)
    assert asked["sample"]["content"]["text"] == "hello"


@pytest.mark.item("BR-04")
async def test_a_cancelled_call_is_cancelled_at_the_server_and_the_connection_stays(tmp_path: Path) -> None:
    until = tmp_path / "until"
    steps: list[str] = []
    reached = asyncio.Event()

    async def on_progress(done: float, total: float | None, message: str) -> None:
        steps.append(f"{message} {done:g}/{total:g}")
        if len(steps) == 3:
            reached.set()

    async with open_server(bare()) as server:
        call = asyncio.create_task(server.call("slow", {"until": str(until)}, on_progress=on_progress))
        await asyncio.wait_for(reached.wait(), 60)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await wait_for(Path(f"{until}.cancelled").exists)
        assert (await server.call("echo", {"text": "still here"})).text == "still here"
    assert steps == ["step 1 1/3", "step 2 2/3", "step 3 3/3"]


@pytest.mark.item("BR-04")
async def test_a_call_times_out(tmp_path: Path) -> None:
    async with open_server(bare()) as server:
        result = await server.call("slow", {"until": str(tmp_path / "never")}, timeout=0.2)
    assert result.is_error
    assert "did not answer within 0.2 seconds" in result.text


@pytest.mark.item("BR-03")
@pytest.mark.parametrize(
    ("server", "why"),
    [
        (McpServer(name="s", command="no-such-program", args=[], env=[]), "no such command on PATH"),
        (McpServer(name="s", command="sh", args=["-c", "echo the reason >&2; exit 3"], env=[]), "the reason"),
        (McpServer(name="s", command="sh", args=["-c", "yes noise"], env=[]), "did not answer|floods"),
        (bare("s", "hang"), "did not answer within 1.5 seconds"),
        (McpServer(name="s", type="http", url="http://127.0.0.1:9/mcp", headers=[]), "nobody listens"),
        (McpServer(name="s", type="sse", url="http://127.0.0.1:9/sse", headers=[]), "nobody listens"),
        (McpServer(name="s", type="http", url="file:///etc/passwd", headers=[]), "must begin with http"),
    ],
)
async def test_a_server_that_cannot_be_opened_is_named_with_the_reason(server: McpServer, why: str) -> None:
    timeout = 1.5 if "did not answer" in why else 60.0
    with pytest.raises(ServerFailed, match=f"MCP server s: .*({why})"):
        async with open_server(server, timeout=timeout):
            pass


@pytest.mark.item("BR-03")
@pytest.mark.parametrize("fault", ["noise", "flood"])
async def test_noise_and_floods_do_not_stop_a_server(fault: str) -> None:
    reports: list[str] = []
    async with open_server(bare("s", fault), reports=reports) as server:
        assert (await server.call("echo", {"text": "here"})).text == "here"
    assert len(reports) == 1


def test_a_server_that_floods_for_minutes_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[str] = []
    channel = ProcessChannel("s", ["true"], {}, None, reports.append)
    for second in range(1, 4):
        monkeypatch.setattr("dragoman.mcp.channel.time.monotonic", lambda second=second: float(second))
        for _ in range(MAX_NOTIFICATIONS + 1):
            channel._parse(b'{"jsonrpc": "2.0", "method": "notifications/message"}')
    assert reports == [f"it sends more than {MAX_NOTIFICATIONS} notifications a second; the rest is dropped"]


class FailsWhenCancelled:
    """A channel that is being opened, and fails in its own way when that is cancelled."""

    failure = ""

    def __init__(self) -> None:
        self.is_opening = asyncio.Event()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Any, Any]]:
        self.is_opening.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("it broke meanwhile")
        yield None, None


async def test_a_failure_after_the_opener_was_cancelled_is_not_left_unseen() -> None:
    unseen: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context["message"]))
    channel = FailsWhenCancelled()
    connection = ServerConnection("s", "s", channel, ServerSettings(), Redactor([]))
    opening = asyncio.create_task(connection.open())
    await asyncio.wait_for(channel.is_opening.wait(), 60)
    opening.cancel()
    await asyncio.wait([opening])
    await connection.close()
    assert "it broke meanwhile" in str(connection.failure)
    del opening, connection
    gc.collect()
    assert unseen == []


@pytest.mark.item("BR-03", "004-56")
async def test_an_answer_that_is_too_large_or_breaks_its_schema_fails_only_its_call() -> None:
    async with open_server(bare()) as server:
        huge = await server.call("big", {"size": 100_000_000})
        large = await server.call("big", {"size": 3_000_000})
        lie = await server.call("lie", {})
        assert (await server.call("echo", {"text": "here"})).text == "here"
    assert huge.is_error
    assert "over the limit" in huge.text
    assert len(large.text) < 1_100_000
    assert "characters left out" in large.text
    assert lie.is_error


@pytest.mark.item("BR-03")
async def test_a_list_with_an_invalid_schema_is_refused() -> None:
    async with open_server(bare("s", "schema")) as server:
        with pytest.raises(ServerFailed, match="MCP server s"):
            await server.list_tools()


@pytest.mark.item("BR-03")
async def test_a_server_that_dies_in_a_call_is_named_without_its_credential() -> None:
    async with open_server(bare(KEY=KEY)) as server:
        result = await server.call("exit", {})
        later = await server.call("echo", {"text": "?"})
    assert result.is_error
    assert "exited with status 7" in result.text
    assert "[redacted]" in result.text
    assert KEY not in result.text + later.text
    assert later.is_error


@pytest.mark.item("004-56")
async def test_a_server_that_echoes_its_credential_is_redacted() -> None:
    async with open_server(bare(KEY=KEY)) as server:
        told = [
            (await server.call("environment", {})).text,
            (await server.call("error", {})).text,
            (await server.call("echo", {"text": f"Bearer {KEY}"})).text,
            str(await server.read("note://1")),
        ]
    assert all(KEY not in text for text in told)
    assert all("[redacted]" in text for text in told)


@pytest.mark.item("BR-02")
async def test_closing_ends_the_server_and_what_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    async with open_server(bare("s", "spawn", str(pids))):
        started = [int(pid) for pid in pids.read_text().split()]
        assert all(_is_alive(pid) for pid in started)
    assert [pid for pid in started if _is_alive(pid)] == []


def _is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.item("BR-02", "004-46")
async def test_http_servers_of_the_sdk_work_in_the_modern_era_with_headers() -> None:
    seen: list[str] = []
    app = sdk_server().streamable_http_app()

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.extend(value.decode() for name, value in scope["headers"] if name == b"authorization")
        await app(scope, receive, send)

    async with serve_app(watched) as url:
        headers = [NameValue(name="Authorization", value=f"Bearer {KEY}")]
        async with open_server(McpServer(name="web", type="http", url=f"{url}/mcp", headers=headers)) as server:
            assert server.version == "2026-07-28"
            assert [tool.tool for tool in await server.list_tools()] == ["add"]
            assert (await server.call("add", {"a": 1, "b": 2})).structured == {"result": 3}
            assert (await server.read("memo://one"))[0].resource.text == "the memo"
            assert (await server.get_prompt("review", {"code": "x=1"}))[0].content.text == "Please review x=1"  # type: ignore[union-attr]
    assert set(seen) == {f"Bearer {KEY}"}


@pytest.mark.item("BR-02")
async def test_sse_servers_work() -> None:
    async with serve_app(sdk_server().sse_app()) as url:
        async with open_server(McpServer(name="old", type="sse", url=f"{url}/sse", headers=[])) as server:
            assert (await server.call("add", {"a": 1, "b": 2})).structured == {"result": 3}


@pytest.mark.item("BR-03")
async def test_an_http_server_that_answers_too_much_fails_only_its_call() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        for _ in range(40):
            await send({"type": "http.response.body", "body": b" " * 1_000_000, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async with serve_app(app) as url:
        with pytest.raises(ServerFailed, match="over the limit"):
            async with open_server(McpServer(name="s", type="http", url=f"{url}/mcp", headers=[]), timeout=60):
                pass


@pytest.mark.item("004-46")
async def test_real_servers_from_pypi_work(tmp_path: Path) -> None:
    await (await asyncio.create_subprocess_exec("git", "init", "-q", str(tmp_path))).wait()
    async with open_server(installed("mcp-server-time")) as clock, open_server(installed("mcp-server-git")) as git:
        now = await clock.call("convert_time", {
            "source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"})  # fmt: skip
        status = await git.call("git_status", {"repo_path": str(tmp_path)})
    assert "21:00" in now.text
    assert "No commits yet" in status.text
