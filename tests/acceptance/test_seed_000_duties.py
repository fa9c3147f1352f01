"""The requirements of the 2025.1 document from its capabilities on: gates, duties, states, security."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman import Agent, Kind, ProtocolError, Turn, WorkspaceAccess, WorkspaceUse, connect
from dragoman.schema.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
)
from dragoman.schema.update import Plan
from dragoman.testing import ScriptedPeer
from tests.acceptance.wire import (
    DRAGOMAN,
    Child,
    Json,
    acting,
    agent_played,
    call,
    client_of,
    note,
    result,
    run,
    serve,
)
from tests.acceptance.y2025 import ALL, BLOCKS, PNG, PROJECT, WAV, begin, hello, hold, introduction, prompt, run_prompt

# --- capabilities ---------------------------------------------------------------------------------------------------


@pytest.mark.item("000-14")
@pytest.mark.parametrize("is_open", [True, False])
def test_file_and_terminal_capabilities_allow_the_requests_of_agents(tmp_path: Path, is_open: bool) -> None:
    """If they are false our agent never calls, and an agent that calls our client anyway gets -32004."""

    async def ask(turn: Turn) -> None:
        for method, params in (
            ("fs/read_text_file", {"sessionId": turn.session.id, "path": f"{PROJECT}/a"}),
            ("terminal/create", {"sessionId": turn.session.id, "command": "ls"}),
        ):
            try:
                await turn.session.connection.request(method, params)
            except ProtocolError as refusal:
                await turn.say(refusal.kind)

    agent = Agent("a", version="1")
    agent.prompt(acting(ask=ask))

    async def serving() -> None:
        async with client_of(agent) as peer:
            await begin(peer, {"text_files": is_open, "terminal": is_open})
            if not is_open:
                updates, answer = await run_prompt(peer, "ask")
                assert [data["text"] for _, data in updates] == ["capability_unsupported"] * 2
                assert answer["result"] == {"status": "ok"}
                return
            peer.send(call(3, "session/prompt", prompt("ask")))
            await serve(peer, "fs/read_text_file", {"content": ""})
            await serve(peer, "terminal/create", {"terminal_id": "t"})
            await peer.expect(id=3)

    async def part(peer: ScriptedPeer) -> None:
        asked = await serve(peer, "initialize", introduction())
        assert asked["params"]["capabilities"] == {"text_files": is_open, "terminal": is_open}
        await serve(peer, "session/new", {"status": "ok"})
        write = await peer.request(8, "fs/write_text_file", {"path": str(tmp_path / "a"), "content": "b"})
        create = await peer.request(9, "terminal/create", {"cwd": str(tmp_path), "command": "true"})
        handle = create.get("result", {"terminal_id": "t"})
        wait = await peer.request(10, "terminal/wait_for_exit", handle)
        codes = [answer.get("error", {}).get("code") for answer in (write, create, wait)]
        assert codes == ([None] * 3 if is_open else [-32004] * 3)

    async def connecting() -> None:
        lending = WorkspaceAccess(files=is_open, terminals=is_open)
        async with agent_played(part, dialect="2025.1", cwd=str(tmp_path), workspace=lending) as remote:
            await remote.open_session(str(tmp_path))

    run(serving())
    run(connecting())
    assert (tmp_path / "a").exists() == is_open


CONTENT: dict[str, tuple[Json, ContentBlock]] = {
    "image": (BLOCKS[1], ImageContent(data=PNG, mime_type="image/png")),
    "audio": (BLOCKS[2], AudioContent(data=WAV, mime_type="audio/wav")),
    "embedded_context": (
        BLOCKS[3],
        EmbeddedResource(resource=ResourceContents(uri="file:///path/to/file", text="file contents...")),
    ),
}


@pytest.mark.item("000-14")
@pytest.mark.parametrize("name", CONTENT)
@pytest.mark.parametrize("is_open", [True, False])
async def test_a_clients_image_audio_and_embedded_context_capabilities_allow_such_content(
    name: str, is_open: bool
) -> None:
    """A client that says false sends none (-32004) and is sent none: a text stands for it, and nothing beside it."""
    wire_block, block = CONTENT[name]
    agent = Agent("a", version="1", image=True, audio=True)

    @agent.prompt
    async def show(turn: Turn) -> None:
        await turn.say(block)

    async with client_of(agent) as peer:
        await begin(peer, {**ALL, name: is_open})
        updates, _ = await run_prompt(peer, "show")
        ((kind, data),) = updates
        assert kind == "agent_message_chunk"
        assert ("_meta" in data) == is_open
        assert isinstance(data["text"], str)
        answer = await peer.request(3, "session/prompt", {"session_id": "abc123", "content": [wire_block]})
        if is_open:
            assert answer["result"] == {"status": "ok"}
        else:
            assert answer["error"]["code"] == -32004


@pytest.mark.item("000-14")
async def test_the_agent_author_sees_a_clients_experimental_features_by_name() -> None:
    """A feature that was announced is used; one that was not is refused with -32004."""
    agent = Agent("a", version="1")

    @agent.prompt
    async def use(turn: Turn) -> None:
        if not turn.session.connection.offers(f"client._meta.dragoman.experimental.{turn.text}"):
            raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, f"the client has no {turn.text}")
        await turn.say("used")

    async with client_of(agent) as peer:
        await begin(peer, {**ALL, "experimental": {"ghost_text": True, "voice": False}})
        assert (await run_prompt(peer, "ghost_text"))[1]["result"] == {"status": "ok"}
        for closed in ("voice", "telepathy"):
            assert (await run_prompt(peer, closed))[1]["error"]["code"] == -32004


@pytest.mark.item("000-14")
@pytest.mark.parametrize("is_open", [True, False])
async def test_an_agents_image_and_audio_capabilities_allow_prompts_with_such_content(is_open: bool) -> None:
    """They are announced as they are, and an agent without them answers such prompts with -32004."""
    agent = Agent("a", version="1", image=is_open, audio=is_open)

    @agent.prompt
    async def accept(turn: Turn) -> None:
        await turn.say("seen")

    async with client_of(agent) as peer:
        capabilities = (await begin(peer))["capabilities"]
        assert (capabilities["image"], capabilities["audio"]) == (is_open, is_open)
        for block in BLOCKS[1:3]:
            answer = await peer.request(3, "session/prompt", {"session_id": "abc123", "content": [block]})
            assert answer.get("error", {}).get("code") == (None if is_open else -32004)


@pytest.mark.item("000-14")
@pytest.mark.parametrize("is_open", [True, False])
async def test_an_agent_that_does_not_stream_sends_each_message_complete(is_open: bool) -> None:
    """`streaming` is announced; without it the pieces of a message are one chunk, in its place among the others."""
    agent = Agent("a", version="1", streaming=is_open)

    async def talk_(turn: Turn) -> None:
        await turn.think("Hm.")
        await turn.say("one ")
        await turn.say("two")
        await turn.plan("a step")
        await turn.say("three ")
        await turn.say("four")

    agent.prompt(acting(talk=talk_))

    async with client_of(agent) as peer:
        assert (await begin(peer))["capabilities"]["streaming"] is is_open
        updates, _ = await run_prompt(peer, "talk")
        texts = [data.get("text", "plan") for _, data in updates]
        streamed = ["Hm.", "one ", "two", "plan", "three ", "four"]
        assert texts == (streamed if is_open else ["Hm.", "one two", "plan", "three four"])


@pytest.mark.item("000-14")
def test_a_session_can_have_only_the_supported_modes(tmp_path: Path) -> None:
    """A supported mode is entered and acts; no other is. A mode that a 2025.1 agent lacks cannot be set by our client.

    What session/new says of a mode the agent does not support is lost and said to be: the session is opened all the
    same, for the client may name a mode without having looked.
    """

    async def serving(mode: str) -> list[Json]:
        async with Child("agent", "everything", "--dialect", "2025.1") as agent:
            answer = await agent.request(1, "initialize", hello({"text_files": True}, cwd=str(tmp_path)))
            assert answer["result"]["capabilities"]["supported_modes"] == ["ask", "code"]
            await agent.request(2, "session/new", {"session_id": "abc123", "mode": mode})
            agent.send(call(3, "session/prompt", prompt("/run touch made")))
            frames = await agent.until(3)
            _, _, aside = await agent.end()
            assert ("'fly' of session/new is lost" in aside) == (mode == "fly")
            return frames

    # In the mode `code` it runs without asking; in `ask` nobody can be asked for leave to run, so nothing is run.
    for mode, is_run in (("code", True), ("ask", False), ("fly", False)):
        frames = run(serving(mode))
        assert ("exit code 0" in json.dumps(frames)) == is_run
        assert (tmp_path / "made").exists() == is_run
        (tmp_path / "made").unlink(missing_ok=True)

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "initialize", introduction())
        await serve(peer, "session/new", {"status": "ok"})

    async def connecting() -> None:
        async with agent_played(part, dialect="2025.1", cwd=PROJECT) as remote:
            session = await remote.open_session(PROJECT, mode="ask")
            assert session.modes is not None
            assert [mode.id for mode in session.modes.available_modes] == ["ask"]  # the mode of a session is fixed
            assert session.modes.current_mode_id == "ask"
            with pytest.raises(ProtocolError) as caught:
                await session.set_mode("fly")
            assert caught.value.kind == Kind.CAPABILITY_UNSUPPORTED

    run(connecting())


@pytest.mark.item("000-14")
async def test_an_agents_tools_are_those_it_announced() -> None:
    """`tools` names them; a turn that would use another one is answered with -32004."""
    agent = Agent("a", version="1", tools=["read_file", "search"])

    @agent.prompt
    async def use(turn: Turn) -> None:
        async with turn.tool(turn.text, name=turn.text):
            pass

    async with client_of(agent) as peer:
        assert (await begin(peer))["capabilities"]["tools"] == ["read_file", "search"]
        updates, answer = await run_prompt(peer, "read_file")
        assert updates[0][1]["name"] == "read_file"
        assert answer["result"] == {"status": "ok"}
        updates, answer = await run_prompt(peer, "rm_rf")
        assert updates == []
        assert answer["error"]["code"] == -32004


# --- duties, states, security ---------------------------------------------------------------------------------------


@pytest.mark.item("000-16")
async def test_the_agent_meets_its_six_requirements(tmp_path: Path) -> None:
    """One process: lines in and out, the version, its capabilities, sessions, updates while it works, errors."""

    async with Child("agent", "everything") as agent:
        agent.send(
            b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":' + json.dumps(hello(cwd="/")).encode() + b"}"
        )
        opened = (await agent.until(1))[-1]["result"]  # 2. a client of 2025.1 is recognized and answered as one
        assert set(opened) - {"_meta"} == {"agent_info", "capabilities", "instructions"}
        assert opened["capabilities"]["streaming"] is True  # 3
        await agent.request(2, "session/new", {"session_id": "abc123", "mode": "ask"})  # 4
        agent.send(call(3, "session/prompt", prompt("/slow 300")))
        working = await agent.receive()  # 5. an update, though the turn goes on for minutes
        assert working["params"]["type"] == "tool_call"
        agent.send(note("session/cancel", {"session_id": "abc123"}))
        assert (await agent.until(3))[-1]["result"]["stop_reason"] == "cancelled"
        assert (await agent.request(4, "session/load", {"session_id": "abc123"}))["result"]["status"] == "ok"
        refused = await agent.request(5, "session/load", {"session_id": "unknown"})  # 6
        assert refused["error"]["code"] == -32001
        assert all(line.endswith(b"\n") for line in agent.lines)  # 1


@pytest.mark.item("000-17")
async def test_the_client_meets_its_six_requirements(tmp_path: Path) -> None:
    """Our client starts the agent, initializes it, keeps its sessions, serves files and terminals, follows updates."""
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    asked: list[str] = []

    def approve(question: WorkspaceUse) -> bool:
        asked.append(question.operation)
        return True

    command = [*DRAGOMAN, "agent", "everything", "--dialect", "2025.1"]
    async with connect(command, cwd=str(tmp_path), workspace=WorkspaceAccess(approve=approve)) as agent:
        assert agent.dialect == "2025.1"
        first, second = await agent.open_session(str(tmp_path)), await agent.open_session(str(tmp_path))
        assert first.id != second.id
        assert "2 lines" in await first.ask("/read a.txt")
        await second.ask("/write b.txt new")
        assert "exit code 0" in await second.ask("/run echo hello > c.txt")
        async with first.prompt("/plan") as turn:
            kinds = {type(update).__name__ async for update in turn}
        assert kinds == {"Plan", "AgentMessageChunk"}
        again = await agent.load_session(first.id, str(tmp_path))
        assert any(isinstance(update, Plan) for update in again.updates_outside_turns)
    assert asked == ["read", "read", "write", "execute"]
    assert (tmp_path / "b.txt").read_text() == "new"
    assert (tmp_path / "c.txt").read_text() == "hello\n"


@pytest.mark.item("000-18")
async def test_requests_in_the_wrong_state_get_invalid_state() -> None:
    """Created, initialized, session active, processing: what each state does not allow gets -32003, all else works."""
    agent = Agent("a", version="1")
    agent.prompt(acting(hold=hold))

    async def code(peer: ScriptedPeer, id: int, method: str, params: Json) -> Json:
        return (await peer.request(id, method, params)).get("error", {}).get("code")

    async with client_of(agent) as peer:
        for id, (method, params) in enumerate(
            (
                ("authenticate", {"type": "token", "token": "t"}),
                ("session/new", {"session_id": "abc123", "mode": "ask"}),
                ("session/load", {"session_id": "abc123"}),
                ("session/prompt", prompt("hold")),
            ),
            start=10,
        ):
            assert await code(peer, id, method, params) == -32003, method  # created
        assert await code(peer, 20, "initialize", hello()) is None
        assert await code(peer, 21, "initialize", hello()) == -32003  # initialized
        assert await code(peer, 22, "session/prompt", prompt("hold")) == -32001  # there is no session yet
        assert await code(peer, 23, "session/new", {"session_id": "abc123", "mode": "ask"}) is None
        peer.send(call(24, "session/prompt", prompt("hold")))  # processing
        await peer.expect(method="session/update")
        assert await code(peer, 25, "session/prompt", prompt("hold")) == -32003
        assert await code(peer, 26, "session/load", {"session_id": "abc123"}) == -32003
        assert await code(peer, 27, "session/new", {"session_id": "other", "mode": "ask"}) is None
        peer.send(note("session/cancel", {"session_id": "abc123"}))
        await peer.expect(id=24)
        assert await code(peer, 28, "session/load", {"session_id": "abc123"}) is None  # active again


@pytest.mark.item("000-18")
async def test_a_prompt_to_a_session_that_is_not_active_on_this_connection_is_refused() -> None:
    """A session of an earlier connection is there, but has to be loaded before it is prompted."""
    agent = Agent("a", version="1")

    async def respond(turn: Turn) -> None:
        await turn.say("here")

    agent.prompt(acting(respond=respond))

    async with client_of(agent) as peer:
        await begin(peer)
    (session,) = agent.sessions
    async with client_of(agent) as peer:
        await peer.request(1, "initialize", hello())
        refused = await peer.request(2, "session/prompt", prompt("respond", session))
        assert refused["error"]["code"] == -32003
        assert "result" in await peer.request(3, "session/load", {"session_id": session})
        assert "result" in await peer.request(4, "session/prompt", prompt("respond", session))


@pytest.mark.item("000-19")
def test_paths_that_are_not_absolute_are_rejected(tmp_path: Path) -> None:
    """By our client in every call that has a path, and by our agent for the working directory; nothing is touched."""

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "initialize", introduction())
        await serve(peer, "session/new", {"status": "ok"})
        for method, params in (
            ("fs/read_text_file", {"path": "a.txt"}),
            ("fs/read_text_file", {"path": "./a.txt"}),
            ("fs/read_text_file", {"path": ""}),
            ("fs/write_text_file", {"path": "new.txt", "content": "x"}),
            ("terminal/create", {"cwd": "sub", "command": "touch made"}),
        ):
            answer = await peer.request(5, method, params)
            assert answer["error"]["code"] == -32602, (method, params, answer)

    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "sub").mkdir()

    async def connecting() -> None:
        async with agent_played(part, dialect="2025.1", cwd=str(tmp_path), workspace=WorkspaceAccess()) as remote:
            await remote.open_session(str(tmp_path))

    run(connecting())
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.txt", "sub"]

    async def serving() -> None:
        async with Child("agent", "everything", "--dialect", "2025.1") as agent:
            await agent.request(1, "initialize", hello(cwd="project"))
            answer = await agent.request(2, "session/new", {"session_id": "abc123", "mode": "ask"})
            assert answer["error"]["code"] == -32602

    run(serving())


@pytest.mark.item("000-20")
async def test_the_client_decides_about_each_file_and_each_command(tmp_path: Path) -> None:
    """What the client's user does not allow is refused with -32002, and does not happen; the rest is served."""
    (tmp_path / "open.txt").write_text("open")
    (tmp_path / "shut.txt").write_text("shut")

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "initialize", introduction())
        await serve(peer, "session/new", {"status": "ok"})
        calls = [
            ("fs/read_text_file", {"path": str(tmp_path / "open.txt")}),
            ("fs/read_text_file", {"path": str(tmp_path / "shut.txt")}),
            ("fs/write_text_file", {"path": str(tmp_path / "shut.txt"), "content": "x"}),
            ("terminal/create", {"cwd": str(tmp_path), "command": "touch made"}),
        ]
        answers = [await peer.request(5, method, params) for method, params in calls]
        assert answers[0]["result"] == {"content": "open"}
        assert [answer["error"]["code"] for answer in answers[1:]] == [-32002] * 3

    lending = WorkspaceAccess(approve=lambda question: question.resource.endswith("open.txt"))
    async with agent_played(part, dialect="2025.1", cwd=str(tmp_path), workspace=lending) as remote:
        await remote.open_session(str(tmp_path))
    assert (tmp_path / "shut.txt").read_text() == "shut"
    assert not (tmp_path / "made").exists()


@pytest.mark.item("000-23")
def test_unknown_keys_are_ignored_and_capabilities_list_what_is_supported(tmp_path: Path) -> None:
    """A client of a later version with keys nobody knows is served in 2025.1; so is our client by such an agent."""

    async def serving() -> None:
        async with Child("agent", "everything") as agent:
            params = hello(
                {**ALL, "holograms": {"depth": 3}}, cwd=str(tmp_path), protocol_version="2027.2", mood="good"
            )
            answer = (await agent.request(1, "initialize", params))["result"]
            assert answer["capabilities"]["streaming"] is True
            assert "protocol_version" not in answer
            opened = {"session_id": "abc123", "mode": "ask", "theme": "dark"}
            assert (await agent.request(2, "session/new", opened))["result"]["status"] == "ok"
            content = [{"type": "text", "text": "/echo hi", "font": "serif"}]
            answer = await agent.request(3, "session/prompt", {"session_id": "abc123", "content": content, "haste": 1})
            assert answer == result(3, {"status": "ok"})
            assert agent.received[-2]["params"]["data"] == {"text": "hi"}

    async def part(peer: ScriptedPeer) -> None:
        values = {**introduction(holograms=True), "protocol_version": "2027.2", "mood": "good"}
        asked = await serve(peer, "initialize", values)
        assert asked["params"]["protocol_version"] == "2025.1"
        session = (await serve(peer, "session/new", {"status": "ok", "theme": "dark"}))["params"]["session_id"]
        asked = await peer.expect(method="session/prompt")
        data = {"text": "hi", "font": "serif"}
        update = {"session_id": session, "type": "agent_message_chunk", "data": data, "at": 7}
        peer.send(note("session/update", update))
        peer.send(note("session/update", {"session_id": session, "type": "hologram", "data": {"depth": 3}}))
        peer.send(result(asked, {"status": "ok", "haste": 1}))

    async def connecting() -> None:
        async with agent_played(part, dialect="2025.1", cwd=str(tmp_path)) as remote:
            session = await remote.open_session(str(tmp_path))
            assert await session.ask("go") == "hi"

    run(serving())
    run(connecting())
