"""The workspace over the wire: in official v1, in the draft, and through a translator.

Each test is one turn of an agent, run for every combination. The frames at the agent's end are recorded and checked
where their form matters. Without a client workspace the same turn works on local files.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman import Agent, ClientSession, ProtocolError, RemoteAgent, Turn, WorkspaceAccess, WorkspaceUse, connect
from dragoman.dialect.side_data import with_side_data
from dragoman.errors import Kind
from dragoman.roles.client import workspace_calls
from dragoman.roles.client.dial import Dialer
from dragoman.roles.proxy.relay import Relay
from dragoman.schema.fs import ListDirectoryParams, UnwatchParams, WatchParams
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair
from dragoman.workspace.snapshot import merge_changes
from tests.pairs.peers import Watched

BOUND = 30.0

# (the client's dialect, the agent's); two different ones have the interpreter between them.
WAYS = [("v1", "v1"), ("banjo", "banjo"), ("draft", "draft"), ("v1", "draft"), ("draft", "v1")]
ways = pytest.mark.parametrize("way", WAYS, ids="-".join)
ALL = {"binary": True, "list": True, "createDirectory": True, "watch": True, "atomic": True}

Work = Callable[[Turn], Awaitable[None]]


def run(work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(BOUND):
            await work

    asyncio.run(bounded())


@asynccontextmanager
async def connected_agent(
    agent: Agent, way: tuple[str, str], **options: Any
) -> AsyncIterator[tuple[RemoteAgent, Watched]]:
    """Connect a client to this agent; record the frames at the agent's end."""
    client, spoken = way
    agent.dialect = "auto" if spoken == "v1" else spoken
    ours, theirs = memory_pair()
    ends: list[Any] = []
    running: list[asyncio.Task[Any]] = []
    if client != spoken:
        back, inner = memory_pair()
        dial = Dialer(back, dialect=spoken, cwd=os.getcwd(), report=ends.append)
        running.append(asyncio.create_task(Relay(theirs, dial, report=ends.append).run()))
        theirs = inner
    wire = Watched(theirs)
    connection = agent.start_connection(wire)
    try:
        async with connect(ours, dialect=client, **options) as remote:
            yield remote, wire
    finally:
        await connection.close()
        for task in running:
            await task


@asynccontextmanager
async def in_turn(
    folder: Path, work: Work, way: tuple[str, str] = ("v1", "v1"), **options: Any
) -> AsyncIterator[tuple[RemoteAgent, Watched, ClientSession]]:
    """Run this work in a turn of the agent; an error in it fails the test."""
    faults: list[BaseException] = []
    agent = Agent("worker")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        try:
            await work(turn)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            faults.append(error)

    options = {"workspace": WorkspaceAccess(), "cwd": str(folder), **options}
    async with connected_agent(agent, way, **options) as (remote, wire):
        session = await remote.open_session(str(folder))
        await session.ask("work")
        if faults:
            raise faults[0]
        yield remote, wire, session


async def run_turn(folder: Path, work: Work, way: tuple[str, str] = ("v1", "v1"), **options: Any) -> Watched:
    async with in_turn(folder, work, way, **options) as (_, wire, _):
        return wire


def request_methods(wire: Watched) -> list[str]:
    """Return the methods of all requests of the agent."""
    return [frame["method"] for frame in wire.said if "method" in frame and "id" in frame]


async def expect_error(call: Awaitable[object]) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        await call
    return caught.value


class Approving:
    """Approve by resource, and record the uses."""

    def __init__(self, refuse: Sequence[str] = ()) -> None:
        self.questions: list[WorkspaceUse] = []
        self._refuse = refuse

    def __call__(self, question: WorkspaceUse) -> bool:
        self.questions.append(question)
        return not question.resource.endswith(tuple(self._refuse) or ("\0",))


BYTES = bytes(range(256)) * 3


# --- each call, each way ------------------------------------------------------------------------------------------


@pytest.mark.item("004-75")
@ways
async def test_bytes_are_read_and_written(tmp_path: Path, way: tuple[str, str]) -> None:
    async def work(turn: Turn) -> None:
        path = str(tmp_path / "sub" / "a.bin")
        assert await turn.files.write_bytes(path, BYTES, create_directories=True) is True
        assert await turn.files.write_bytes(path, BYTES) is False
        assert await turn.files.read_bytes(path) == BYTES
        assert await turn.files.read_bytes(path, 254, 4) == b"\xfe\xff\x00\x01"
        error = await expect_error(turn.files.write_bytes(path, b"", overwrite=False))
        assert error.kind == Kind.INVALID_PARAMS

    approve = Approving()
    wire = await run_turn(tmp_path, work, way, workspace=WorkspaceAccess(approve=approve))
    assert (tmp_path / "sub" / "a.bin").read_bytes() == BYTES
    assert request_methods(wire) == ["fs/write_binary_file"] * 2 + ["fs/read_binary_file"] * 2 + [
        "fs/write_binary_file"
    ]
    first = next(frame for frame in wire.said if frame.get("method") == "fs/write_binary_file")
    assert first["params"]["data"] == base64.b64encode(BYTES).decode()
    assert first["params"]["createDirectories"] is True
    answers = [frame["result"] for frame in wire.received if "size" in (frame.get("result") or {})]
    assert answers[0] == {"data": base64.b64encode(BYTES).decode(), "size": len(BYTES)}
    assert answers[1] == {"data": base64.b64encode(BYTES[254:258]).decode(), "size": len(BYTES), "truncated": True}
    assert [question.operation for question in approve.questions] == ["write", "write", "read", "read", "write"]
    assert approve.questions[0].data == BYTES


@pytest.mark.item("004-75")
@ways
async def test_folders_are_made_and_listed(tmp_path: Path, way: tuple[str, str]) -> None:
    (tmp_path / "file").write_text("four")
    os.symlink("/etc", tmp_path / "link")

    async def work(turn: Turn) -> None:
        assert await turn.files.make_directory(str(tmp_path / "a")) is True
        assert await turn.files.make_directory(str(tmp_path / "a")) is False
        assert await turn.files.make_directory(str(tmp_path / "b" / "c"), parents=True) is True
        error = await expect_error(turn.files.make_directory(str(tmp_path / "x" / "y")))
        assert error.kind == Kind.RESOURCE_NOT_FOUND
        found = await turn.files.list(str(tmp_path), recursive=True)
        assert [(entry.name, entry.type) for entry in found.entries] == [
            ("a", "directory"),
            ("b", "directory"),
            ("file", "file"),
            ("link", "symlink"),
            ("b/c", "directory"),
        ]
        assert found.entries[2].size == 4
        assert found.entries[2].modified_at.endswith("Z")
        assert not found.truncated
        few = await turn.files.list(str(tmp_path), limit=2)
        assert ([entry.name for entry in few.entries], few.truncated) == (["a", "b"], True)

    approve = Approving()
    wire = await run_turn(tmp_path, work, way, workspace=WorkspaceAccess(approve=approve))
    assert request_methods(wire) == ["fs/create_directory"] * 4 + ["fs/list_directory"] * 2
    assert [(question.operation, question.method) for question in approve.questions] == (
        [("write", "fs/create_directory")] * 4 + [("read", "fs/list_directory")] * 2
    )


@pytest.mark.item("004-75")
@ways
async def test_several_files_are_written_together_or_not_at_all(tmp_path: Path, way: tuple[str, str]) -> None:
    (tmp_path / "old").write_text("old")

    async def work(turn: Turn) -> None:
        batch: dict[str, str | bytes] = {f"{tmp_path}/old": "new", f"{tmp_path}/sub/bytes": b"\x00\xff"}
        assert (await expect_error(turn.files.write_many(batch))).kind == Kind.RESOURCE_NOT_FOUND
        assert (tmp_path / "old").read_text() == "old"
        assert await turn.files.write_many(batch, create_directories=True) == 5
        outside = {**batch, f"{tmp_path}/../outside": "x"}
        assert (await expect_error(turn.files.write_many(outside))).kind == Kind.ACCESS_DENIED

    approve = Approving()
    wire = await run_turn(tmp_path, work, way, workspace=WorkspaceAccess(approve=approve))
    assert (tmp_path / "old").read_text() == "new"
    assert (tmp_path / "sub" / "bytes").read_bytes() == b"\x00\xff"
    assert sorted(os.listdir(tmp_path)) == ["old", "sub"]
    assert request_methods(wire) == ["fs/write_files"] * 3
    assert [(question.resource, question.text, question.data) for question in approve.questions[2:4]] == [
        (f"{tmp_path}/old", "new", None),
        (f"{tmp_path}/sub/bytes", None, b"\x00\xff"),
    ]


@pytest.mark.item("004-40", "004-75")
@ways
async def test_changes_are_sent_until_the_watch_ends(tmp_path: Path, way: tuple[str, str]) -> None:
    (tmp_path / "old").write_text("1")

    async def work(turn: Turn) -> None:
        async with turn.files.watch(str(tmp_path), recursive=True) as watch:
            (tmp_path / "new").write_text("1")
            (tmp_path / "old").unlink()
            (tmp_path / "sub").mkdir()
            (tmp_path / "sub" / "deep").write_text("1")
            wanted = {
                f"{tmp_path}/new": "created",
                f"{tmp_path}/old": "deleted",
                f"{tmp_path}/sub": "created",
                f"{tmp_path}/sub/deep": "created",
            }
            found: dict[str, str] = {}
            async for changes in watch:
                merge_changes(found, changes)
                if found == wanted:
                    break

    approve = Approving()
    async with in_turn(tmp_path, work, way, workspace=WorkspaceAccess(approve=approve)) as (remote, wire, _):
        assert request_methods(wire) == ["fs/watch", "fs/unwatch"]
        received = [frame for frame in wire.received if frame.get("method") == "fs/changed"]
        assert received
        assert all("id" not in frame and set(frame["params"]) >= {"watchId", "changes"} for frame in received)
        assert [(question.operation, question.method) for question in approve.questions] == [("read", "fs/watch")]
        assert remote._workspace is not None
        assert remote._workspace.files._watches == {}


@pytest.mark.parametrize(
    "way", [("v1", "v1"), ("draft", "draft"), ("2025.1", "2025.1"), ("crow", "crow")], ids="-".join
)
async def test_without_a_client_workspace_the_agent_uses_local_files_and_terminals(
    tmp_path: Path, way: tuple[str, str]
) -> None:
    (tmp_path / "old").write_text("1")

    async def work(turn: Turn) -> None:
        path = str(tmp_path / "file")
        assert await turn.files.write_bytes(path, BYTES) is True
        assert await turn.files.read_bytes(path, 1, 2) == b"\x01\x02"
        assert await turn.files.make_directory(str(tmp_path / "a" / "b"), parents=True) is True
        assert [entry.name for entry in (await turn.files.list(str(tmp_path))).entries] == ["a", "file", "old"]
        assert await turn.files.write_many({path: "one", f"{tmp_path}/two": b"2"}) == 4
        async with turn.files.watch(str(tmp_path)) as watch:
            (tmp_path / "old").unlink()
            assert await watch.changes() == [(f"{tmp_path}/old", "deleted")]
        for call in (
            turn.files.read_bytes("/etc/hostname"),
            turn.files.write_bytes(f"{tmp_path}/../x", b""),
            turn.files.list("/etc"),
            turn.files.make_directory(f"{tmp_path}/../x"),
            turn.files.write_many({f"{tmp_path}/../x": ""}),
        ):
            assert (await expect_error(call)).kind == Kind.ACCESS_DENIED

    workspace = None if way[0] in ("v1", "draft") else WorkspaceAccess()  # two dialects have no words for these calls
    wire = await run_turn(tmp_path, work, way, workspace=workspace)
    assert request_methods(wire) == []
    assert not os.path.exists(tmp_path / ".." / "x")


@pytest.mark.parametrize("access", [True, False], ids=["access", "own"])
@pytest.mark.parametrize("way", [way for way in WAYS if way != ("v1", "draft")], ids="-".join)  # v1 has no words for it
async def test_text_is_written_in_any_encoding_into_new_folders_and_over_nothing(
    tmp_path: Path, way: tuple[str, str], access: bool
) -> None:
    async def work(turn: Turn) -> None:
        path = f"{tmp_path}/new/deep/file"
        assert (await expect_error(turn.files.write(path, "x"))).kind == Kind.RESOURCE_NOT_FOUND
        await turn.files.write(path, "é\nb\n", encoding="latin-1", create_directories=True)
        assert Path(path).read_bytes() == b"\xe9\nb\n"
        assert await turn.files.read(path, encoding="latin-1") == "é\nb\n"
        assert await turn.files.read(path, line=1, limit=1, encoding="latin-1") == "é"
        assert (await expect_error(turn.files.write(path, "c", overwrite=False))).kind == Kind.INVALID_PARAMS
        assert (await expect_error(turn.files.write(path, "c", encoding="no-such"))).kind == Kind.INVALID_PARAMS
        assert Path(path).read_bytes() == b"\xe9\nb\n"
        await turn.files.write(f"{path}.more", "c", overwrite=False)
        assert Path(f"{path}.more").read_text() == "c"

    wire = await run_turn(tmp_path, work, way, workspace=WorkspaceAccess() if access else None)
    assert bool(request_methods(wire)) is access


@pytest.mark.parametrize("client", ["v1", "banjo", "crow", "2025.1"])
async def test_text_is_not_read_or_written_in_another_encoding_if_the_dialect_cannot_carry_it(
    tmp_path: Path, client: str
) -> None:
    async def work(turn: Turn) -> None:
        path = f"{tmp_path}/file"
        error = await expect_error(turn.files.write(path, "é", encoding="latin-1"))
        assert error.kind == Kind.CAPABILITY_UNSUPPORTED
        assert "latin-1" in error.message
        await turn.files.write(path, "é", encoding="UTF-8")
        assert Path(path).read_text("utf-8") == "é"
        assert (await expect_error(turn.files.read(path, encoding="latin-1"))).kind == Kind.CAPABILITY_UNSUPPORTED
        assert await turn.files.read(path, encoding="utf8") == "é"
        assert (await expect_error(turn.files.write(path, "e", overwrite=False))).kind == Kind.INVALID_PARAMS

    await _await_result(run_turn(tmp_path, work, (client, "draft")))


async def _await_result(work: Awaitable[object]) -> None:
    await work


async def test_text_options_that_a_client_does_not_support_are_rejected(tmp_path: Path) -> None:
    async def work(turn: Turn) -> None:
        path = f"{tmp_path}/file"
        for call in (
            turn.files.write(path, "x", encoding="latin-1"),
            turn.files.write(path, "x", create_directories=True),
            turn.files.write(path, "x", overwrite=False),
            turn.files.read(path, encoding="latin-1"),
        ):
            assert (await expect_error(call)).kind == Kind.CAPABILITY_UNSUPPORTED

    assert request_methods(await run_turn(tmp_path, work, workspace=WorkspaceAccess(binary=False))) == []
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("access", [True, False], ids=["access", "own"])
@pytest.mark.parametrize("way", [("v1", "v1"), ("draft", "draft"), ("v1", "draft"), ("draft", "v1")], ids="-".join)
async def test_a_command_is_ended_by_a_signal_by_force_or_by_its_time(
    tmp_path: Path, way: tuple[str, str], access: bool
) -> None:
    deaf = ["-c", "trap '' TERM; echo ready; while :; do sleep 0.02; done"]
    counting = ["-c", "trap 'echo usr1' USR1; echo ready; while :; do sleep 0.02; done"]

    async def until(terminal: Any, text: str) -> None:
        async with asyncio.timeout(BOUND):
            while text not in (await terminal.output()).output:  # noqa: ASYNC110  (nobody tells)
                await asyncio.sleep(0.01)

    async def work(turn: Turn) -> None:
        async with await turn.terminals.create("sleep", ["600"], timeout=0.2) as late:
            assert await late.wait() != 0
        if way[1] == "draft" or not access:
            async with await turn.terminals.create("sh", deaf) as terminal:
                await until(terminal, "ready")
                if way[0] == "draft" or not access:
                    await terminal.kill(force=True)
                    assert await terminal.wait() != 0
        async with await turn.terminals.create("sh", counting) as terminal:
            await until(terminal, "ready")
            if access and way[1] != "draft":
                assert (await expect_error(terminal.kill("SIGUSR1"))).kind == Kind.CAPABILITY_UNSUPPORTED
            elif way[0] == "draft" or not access:
                await terminal.kill("SIGUSR1")
                await until(terminal, "usr1")

    await run_turn(tmp_path, work, way, workspace=WorkspaceAccess() if access else None)


# --- offered and gated --------------------------------------------------------------------------------------------


@pytest.mark.item("004-40")
async def test_workspace_capabilities_are_announced_in_both_forms() -> None:
    async def introduced(dialect: str, workspace: WorkspaceAccess, **options: Any) -> Any:
        ours, theirs = memory_pair()
        peer = ScriptedPeer(theirs)

        async def answer() -> Any:
            frame = await peer.receive()
            result = {"protocolVersion": 1, "agentInfo": {"name": "a", "version": "1"}}
            capabilities = "capabilities" if dialect == "draft" else "agentCapabilities"
            peer.send({"jsonrpc": "2.0", "id": frame["id"], "result": {**result, capabilities: {}}})
            return frame["params"]

        answering = asyncio.create_task(answer())
        async with connect(ours, dialect=dialect, workspace=workspace, **options):
            return await answering

    params = await introduced("draft", WorkspaceAccess(max_terminals=5))
    assert params["capabilities"] == {
        "fs": {"read": True, "write": True, **ALL},
        "terminal": {"create": True, "interactive": True, "maxConcurrent": 5},
    }
    workspace = WorkspaceAccess(
        max_terminals=5, interactive=False, binary=False, listing=False, create_directories=False, atomic_writes=False
    )
    ui = {"permissionDialogs": True, "diffViewer": True, "codeNavigation": False}
    params = await introduced("draft", workspace, capabilities=with_side_data(workspace.capabilities(), ui=ui))
    assert params["capabilities"] == {
        "fs": {"read": True, "write": True, "watch": True},
        "terminal": {"create": True, "maxConcurrent": 5},
        "ui": ui,
    }
    params = await introduced("v1", WorkspaceAccess(max_terminals=5, watching=False, binary=False))
    shown = params["clientCapabilities"]
    assert shown["fs"] == {"readTextFile": True, "writeTextFile": True}
    assert shown["terminal"] is True
    assert shown["_meta"]["dragoman"] == {
        "fs": {"list": True, "createDirectory": True, "atomic": True},
        "terminal": {"interactive": True, "maxConcurrent": 5},
    }
    params = await introduced("v1", WorkspaceAccess(files=False, terminals=False))
    assert "_meta" not in params["clientCapabilities"]


RAW: dict[str, tuple[str, dict[str, Any]]] = {
    "fs/read_binary_file": ("binary", {}),
    "fs/write_binary_file": ("binary", {"data": ""}),
    "fs/list_directory": ("listing", {}),
    "fs/create_directory": ("create_directories", {}),
    "fs/watch": ("watching", {}),
    "fs/unwatch": ("watching", {"watchId": "w"}),
    "fs/write_files": ("atomic_writes", {"files": []}),
}


@pytest.mark.item("000-20")
@pytest.mark.parametrize("method", RAW)
@pytest.mark.parametrize("dialect", ["v1", "draft"])
async def test_methods_that_are_not_offered_are_not_served(tmp_path: Path, method: str, dialect: str) -> None:
    """The agent sends the request although it was not offered."""
    part, more = RAW[method]
    (tmp_path / "file").write_text("1")

    less: dict[str, Any] = {part: False}
    for workspace in (WorkspaceAccess(**less), WorkspaceAccess(files=False)):
        agent = Agent("rough")

        @agent.prompt
        async def answer(turn: Turn) -> None:
            connection = turn.session.connection
            params = {"sessionId": turn.session.id, "path": str(tmp_path / "file"), **more}
            done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            connection.sender.send_request(method, params, lambda result, error: done.set_result((result, error)))
            result, error = await done
            await turn.say(f"{result} {error.kind}")

        async with connected_agent(agent, (dialect, dialect), workspace=workspace) as (remote, _):
            session = await remote.open_session(str(tmp_path))
            assert await session.ask("go") == "None capability_unsupported"


@pytest.mark.item("000-20")
@pytest.mark.parametrize("way", [("v1", "v1"), ("draft", "draft")], ids="-".join)
async def test_each_use_needs_approval_and_a_refusal_does_nothing(tmp_path: Path, way: tuple[str, str]) -> None:
    (tmp_path / "no").write_text("old")

    async def work(turn: Turn) -> None:
        no = str(tmp_path / "no")
        calls = [
            turn.files.read(no),
            turn.files.write(no, "new"),
            turn.files.read_bytes(no),
            turn.files.write_bytes(no, b"new"),
            turn.files.write_many({f"{tmp_path}/yes": "new", no: "new"}),
            turn.files.list(f"{tmp_path}/dir-no"),
            turn.files.make_directory(f"{tmp_path}/new-no"),
            turn.files.watch(no).__aenter__(),
            turn.terminals.create("touch", [f"{tmp_path}/yes", "no"]),
        ]
        for call in calls:
            assert (await expect_error(call)).kind == Kind.PERMISSION_DENIED

    approve = Approving(refuse=["no"])
    await run_turn(tmp_path, work, way, workspace=WorkspaceAccess(approve=approve))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"no": "old"}
    assert [question.operation for question in approve.questions] == [
        "read", "write", "read", "write", "write", "write", "read", "write", "read", "execute",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "params", "place"),
    [
        ("fs/write_binary_file", {"path": "{cwd}/f", "data": "not base64!"}, "data"),
        ("fs/write_files", {"files": [{"path": "{cwd}/f", "content": "x", "data": "eA=="}]}, "files[0]"),
        ("fs/write_files", {"files": [{"path": "{cwd}/f"}]}, "files[0]"),
        (
            "fs/write_files",
            {"files": [{"path": "{cwd}/f", "content": ""}, {"path": "{cwd}/g", "data": "?"}]},
            "files[1]",
        ),
    ],
)
async def test_invalid_file_content_is_named_and_nothing_is_written(
    tmp_path: Path, method: str, params: dict[str, Any], place: str
) -> None:
    async def work(turn: Turn) -> None:
        params_here = msgspec.json.decode(msgspec.json.encode(params).replace(b"{cwd}", str(tmp_path).encode()))
        connection = turn.session.connection
        error = await expect_error(connection.request(method, {"sessionId": turn.session.id, **params_here}))
        assert error.kind == Kind.INVALID_PARAMS
        assert error.data is not None
        assert error.data["errors"][0]["path"].startswith(place)

    await run_turn(tmp_path, work)
    assert os.listdir(tmp_path) == []


# --- folders of a session -----------------------------------------------------------------------------------------


@pytest.mark.item("004-55")
async def test_only_the_sessions_folders_and_extra_roots_are_accessible(tmp_path: Path) -> None:
    project, more, extra, closed = (tmp_path / name for name in ("project", "more", "extra", "closed"))
    for folder in (project, more, extra, closed):
        folder.mkdir()
        (folder / "file").write_text(folder.name)

    async def work(turn: Turn) -> None:
        for folder in (project, more, extra):
            assert await turn.files.read(f"{folder}/file") == folder.name
            assert await turn.files.read_bytes(f"{folder}/file") == folder.name.encode()
            await turn.files.write_bytes(f"{folder}/new", b"")
        for path in (f"{closed}/file", f"{project}/../closed/file", "/etc/hostname"):
            assert (await expect_error(turn.files.read(path))).kind == Kind.ACCESS_DENIED
            assert (await expect_error(turn.files.read_bytes(path))).kind == Kind.ACCESS_DENIED
        error = await expect_error(turn.terminals.create("true", cwd=str(extra)))
        assert error.kind == Kind.ACCESS_DENIED  # files only

    agent = Agent("worker")
    faults: list[BaseException] = []

    @agent.prompt
    async def answer(turn: Turn) -> None:
        try:
            await work(turn)
        except BaseException as error:
            faults.append(error)

    async with connected_agent(agent, ("v1", "v1"), workspace=WorkspaceAccess(extra_roots=[str(extra)])) as (remote, _):
        session = await remote.open_session(str(project), directories=[str(more)])
        await session.ask("go")
        assert faults == []


@pytest.mark.item("004-55")
async def test_relative_paths_of_a_draft_agent_are_in_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()

    async def work(turn: Turn) -> None:
        await turn.files.write("text", "1")
        await turn.files.write_bytes("./bytes", b"1")
        await turn.files.write_many({"sub/one": "1", "two": "2"})
        await turn.files.make_directory("sub/made")
        found = await turn.files.list("sub")
        assert [entry.name for entry in found.entries] == ["made", "one"]
        assert await turn.files.read_bytes("sub/../two") == b"2"
        async with turn.files.watch("sub") as watch:
            (tmp_path / "sub" / "new").write_text("")
            assert await watch.changes() == [(f"{tmp_path}/sub/new", "created")]
        for path in ("../out", "sub/../../out"):
            assert (await expect_error(turn.files.write_many({"two": "3", path: ""}))).kind == Kind.ACCESS_DENIED
            assert (await expect_error(turn.files.list(path))).kind == Kind.ACCESS_DENIED

    await run_turn(tmp_path, work, ("draft", "draft"))
    assert sorted(os.listdir(tmp_path)) == ["bytes", "sub", "text", "two"]
    assert (tmp_path / "two").read_text() == "2"


async def test_protected_paths_of_the_client_are_never_written(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    lending = WorkspaceAccess(protected=lambda roots: [f"{root}/own" for root in roots])

    async def work(turn: Turn) -> None:
        own = str(tmp_path / "own")
        for call in (
            turn.files.write(f"{own}/f", ""),
            turn.files.write_bytes(f"{own}/f", b""),
            turn.files.make_directory(f"{own}/d"),
            turn.files.make_directory(f"{own}/d/e", parents=True),
            turn.files.write_many({f"{tmp_path}/f": "", f"{own}/f": ""}),
        ):
            assert (await expect_error(call)).kind == Kind.ACCESS_DENIED
        assert (await turn.files.list(own)).entries == []

    await run_turn(tmp_path, work, workspace=lending)
    assert os.listdir(tmp_path) == ["own"]


# --- watches end --------------------------------------------------------------------------------------------------


async def test_watches_are_bounded_end_with_their_session_and_can_be_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace_calls, "MAX_WATCHES", 2)

    async def work(turn: Turn) -> None:
        connection = turn.session.connection
        params = WatchParams(path=str(tmp_path))  # one session is open: it may go unsaid
        first = await connection.request("fs/watch", params)
        await connection.request("fs/watch", params)
        assert (await expect_error(connection.request("fs/watch", params))).kind == Kind.RATE_LIMITED
        await connection.request("fs/unwatch", UnwatchParams(watch_id=first.watch_id))
        again = connection.request("fs/unwatch", UnwatchParams(watch_id=first.watch_id))
        assert (await expect_error(again)).kind == Kind.RESOURCE_NOT_FOUND
        await connection.request("fs/watch", params)

    async with in_turn(tmp_path, work) as (remote, wire, session):
        assert remote._workspace is not None
        watches = remote._workspace.files._watches
        assert len(watches) == 2
        tasks = [task for *_, task in watches.values()]
        await session.close()
        assert watches == {}
        await asyncio.gather(*tasks, return_exceptions=True)
        (tmp_path / "new").write_text("1")
        other = await remote.open_session(str(tmp_path))
        await other.ask("again")
        # Two answers, no news: nobody watches for the first session any more.
        assert [frame for frame in wire.received if frame.get("method") == "fs/changed"] == []
        tasks = [task for *_, task in watches.values()]
    assert watches == {}
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_watch_of_an_agent_ends_with_the_connection(tmp_path: Path) -> None:
    ended = asyncio.Event()

    agent = Agent("watcher")

    @agent.on_session_opened
    def on_opened(session: Any) -> None:
        async def follow() -> None:
            async with session.files.watch(str(tmp_path)) as watch:
                watching.set()
                assert [changes async for changes in watch] == []
            ended.set()

        tasks.append(asyncio.create_task(follow()))

    tasks: list[asyncio.Task[None]] = []
    watching = asyncio.Event()
    async with connected_agent(agent, ("v1", "v1"), workspace=WorkspaceAccess()) as (remote, _):
        await remote.open_session(str(tmp_path))
        await watching.wait()
    await ended.wait()
    await asyncio.gather(*tasks)


async def test_a_call_must_name_its_session_when_several_are_open(tmp_path: Path) -> None:
    async def work(turn: Turn) -> None:
        listing = turn.session.connection.request("fs/list_directory", ListDirectoryParams(path=str(tmp_path)))
        if turn.text == "work":
            assert (await listing).entries == []
        else:
            await turn.say((await expect_error(listing)).kind)

    async with in_turn(tmp_path, work) as (remote, _, session):
        await remote.open_session(str(tmp_path))
        assert await session.ask("again") == Kind.INVALID_PARAMS


# --- terminals ----------------------------------------------------------------------------------------------------


@pytest.mark.item("004-40")
@pytest.mark.parametrize("way", [("v1", "v1"), ("draft", "draft"), ("draft", "v1")], ids="-".join)
async def test_the_announced_terminal_limit_is_enforced(tmp_path: Path, way: tuple[str, str]) -> None:
    """The limit is for all sessions together, and the client enforces it."""

    agent = Agent("worker")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        terminal = await turn.terminals.create("true")
        if turn.text == "keep":
            turn.session.data["kept"] = terminal
        else:
            await terminal.release()

    async with connected_agent(agent, way, workspace=WorkspaceAccess(max_terminals=2)) as (remote, _):
        first, second = await remote.open_session(str(tmp_path)), await remote.open_session(str(tmp_path))
        await first.ask("keep")
        await second.ask("keep")
        for session in (first, second):
            assert (await expect_error(session.ask("more"))).kind == Kind.RATE_LIMITED
        await agent.sessions[first.id].data["kept"].release()
        await second.ask("more")


@pytest.mark.item("004-40")
async def test_an_interactive_terminal_is_a_real_one_that_the_user_can_type_to(tmp_path: Path) -> None:
    lending = WorkspaceAccess()

    async def work(turn: Turn) -> None:
        line = 'test -t 0 && stty size && read a && echo "got $a"'
        async with await turn.terminals.create("/bin/sh", ["-c", line], size=(33, 101)) as terminal:
            found = lending.find_terminal(terminal.id)
            assert found is not None
            found.write_input("yes\n")
            assert await terminal.wait() == 0
            output = (await terminal.output()).output
            assert output.split("\r\n")[-2:] == ["got yes", ""]
            assert "33 101\r\n" in output

    wire = await run_turn(tmp_path, work, ("draft", "draft"), workspace=lending)
    created = next(frame["params"] for frame in wire.said if frame.get("method") == "terminal/create")
    assert (created["interactive"], created["rows"], created["columns"]) == (True, 33, 101)


@pytest.mark.parametrize("way", [("v1", "v1"), ("draft", "draft")], ids="-".join)
async def test_an_interactive_terminal_is_refused_where_there_is_none(tmp_path: Path, way: tuple[str, str]) -> None:
    async def work(turn: Turn) -> None:
        refused = await expect_error(turn.terminals.create("true", size=(24, 80)))
        assert refused.kind == Kind.CAPABILITY_UNSUPPORTED

    async def rough(turn: Turn) -> None:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        params = {"command": "true", "interactive": True}
        turn.session.connection.sender.send_request("terminal/create", params, lambda _, error: done.set_result(error))
        error = await done
        if way[0] == "draft":
            assert error.kind == Kind.CAPABILITY_UNSUPPORTED

    wire = await run_turn(tmp_path, work, way, workspace=WorkspaceAccess(interactive=False))
    assert request_methods(wire) == []
    await run_turn(tmp_path, rough, way, workspace=WorkspaceAccess(interactive=False))


async def test_an_agents_own_terminal_can_be_a_real_one(tmp_path: Path) -> None:
    async def work(turn: Turn) -> None:
        async with await turn.terminals.create("tty", size=(24, 80)) as terminal:
            assert await terminal.wait() == 0
            assert (await terminal.output()).output.startswith("/dev/")

    await _ignore_error(run_turn(tmp_path, work, workspace=None))


async def _ignore_error(work: Awaitable[object]) -> None:
    await work


@pytest.mark.parametrize(
    "env", [[{"name": "", "value": "x"}], [{"name": "A=B", "value": "x"}], [{"name": "A", "value": "\0"}]]
)
async def test_an_invalid_environment_is_rejected(tmp_path: Path, env: list[dict[str, str]]) -> None:
    async def work(turn: Turn) -> None:
        params = {"sessionId": turn.session.id, "command": "true", "env": env}
        error = await expect_error(turn.session.connection.request("terminal/create", params))
        assert error.kind == Kind.INVALID_PARAMS

    await _ignore_error(run_turn(tmp_path, work))


async def test_a_draft_agent_is_pushed_what_a_command_prints_and_told_whether_it_was_killed(tmp_path: Path) -> None:
    async def work(turn: Turn) -> None:
        connection = turn.session.connection

        async def ask(method: str, **params: Any) -> Any:
            done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            connection.sender.send_request(method, params, lambda result, error: done.set_result((result, error)), True)
            result, error = await done
            assert error is None, error
            return result

        created = await ask("terminal/create", command="/bin/sh", args=["-c", "echo out; echo err >&2"])
        terminal = created["terminalId"]
        await ask("terminal/wait_for_exit", terminalId=terminal)
        await ask("terminal/kill", terminalId=terminal)
        await ask("terminal/release", terminalId=terminal)

    wire = await run_turn(tmp_path, work, ("draft", "draft"))
    pushed = [frame["params"] for frame in wire.received if frame.get("method") == "terminal/output"]
    assert {(params["stream"], params["data"]) for params in pushed} == {("stdout", "out\n"), ("stderr", "err\n")}
    answers = [frame["result"] for frame in wire.received if "result" in frame]
    assert isinstance(next(answer["pid"] for answer in answers if "terminalId" in answer), int)
    assert {"killed": False} in answers  # it had ended
    assert {"released": True} in answers


async def test_terminals_end_with_their_session(tmp_path: Path) -> None:
    async def work(turn: Turn) -> None:
        await turn.terminals.create("sleep", ["1000"])

    lending = WorkspaceAccess()
    async with in_turn(tmp_path, work, workspace=lending) as (_, _, session):
        (terminal,) = lending._shown_terminals.values()
        assert terminal.output().exit is None
        await session.close()
        assert terminal.output().exit is not None
        assert terminal.is_reaped


async def test_two_agents_with_one_workspace_access_share_nothing(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        (folder / "file").write_text(folder.name)
    lending = WorkspaceAccess()

    async def work(turn: Turn) -> None:
        await turn.say(await turn.files.read(turn.text))

    agents = [Agent("a"), Agent("b")]
    for agent in agents:
        agent.prompt(work)
    async with connected_agent(agents[0], ("v1", "v1"), workspace=lending) as (one, _):
        async with connected_agent(agents[1], ("v1", "v1"), workspace=lending) as (two, _):
            first, second = await one.open_session(str(folders[0])), await two.open_session(str(folders[1]))
            assert await first.ask(f"{folders[0]}/file") == "one"
            assert await second.ask(f"{folders[1]}/file") == "two"
            assert (await expect_error(first.ask(f"{folders[1]}/file"))).kind == Kind.ACCESS_DENIED
        assert await first.ask(f"{folders[0]}/file") == "one"
