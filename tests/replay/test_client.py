"""Recorded agents, replayed against our client: every turn, tool call and update comes out as it was recorded.

The scripted agent says the recorded frames in their order, each after the calls that preceded it; the client makes the
recorded calls through the public API. What our client does otherwise than the recorded one is said where it happens.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from dragoman import ClientSession, ConnectionFailed, Kind, ProtocolError, RemoteAgent, StartFailed, connect
from dragoman.schema.base import to_json
from dragoman.schema.content import ContentBlock
from dragoman.schema.initialize import ClientCapabilities
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair
from tests.replay.recordings import AgentMessages, Step, agent_messages, digest, load, names, text_of

BOUND = 30.0

# The agent answered version 2 of the protocol, which this client does not speak.
OTHER_VERSION = {"crow_acp2"}

SERVED = (
    "fs/read_text_file",
    "fs/write_text_file",
    "terminal/create",
    "terminal/output",
    "terminal/wait_for_exit",
    "terminal/kill",
    "terminal/release",
)
KINDS = {-32002: Kind.RESOURCE_NOT_FOUND, -32603: Kind.INTERNAL_ERROR, -32601: Kind.METHOD_NOT_FOUND}


class Replay:
    """One recording being replayed."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps
        self.tale = agent_messages(steps)
        self.ours, theirs = memory_pair()
        self.peer = ScriptedPeer(theirs)
        self.reports: list[str] = []
        self.agent: RemoteAgent
        self.opened: list[ClientSession] = []
        self.turns: dict[str, list[Any]] = {}
        self.refused: list[str] = []
        self.frames = 0
        self._connecting: Any = None
        self._ids: dict[Any, Any] = {}
        self._tasks: dict[Any, asyncio.Task[Any]] = {}
        self._asked: asyncio.Queue[asyncio.Future[Any]] = asyncio.Queue()
        self._questions: dict[Any, tuple[Step, asyncio.Future[Any]]] = {}
        self._answered: set[Any] = set()
        self._barriers = 0

    async def run(self) -> None:
        """Play the recording from its first frame to its last."""
        try:
            for step in self.steps:
                if step.raw:
                    continue  # broken lines were the recorder's; our client writes none
                if step.way == "a2c":
                    await self.receive_message(step)
                elif step.is_answer:
                    await self.answer(step)
                else:
                    await self.barrier()
                    await self.call(step)
            await self.barrier()
        finally:
            if self._connecting is not None and hasattr(self, "agent"):
                await self._connecting.__aexit__(None, None, None)
            for task in self._tasks.values():
                assert isinstance(await outcome(task), ConnectionFailed)  # those the agent never answered

    # --- the agent sends --------------------------------------------------------------------------------------

    async def receive_message(self, step: Step) -> None:
        """One frame of the agent; what waits for it is waited for."""
        if step.is_answer:
            task = self._tasks.pop(step.id, None)
            if task is None:
                assert step.id in self._answered, f"an answer to nothing: {step.message}"
                return
            self.peer.send({**step.message, "id": self._ids[step.id]})
            self.check(step, await outcome(task))
            return
        self.peer.send(step.message)
        if step.id is None:
            return
        if step.method in (*SERVED, "session/request_permission"):
            self._questions[step.id] = (step, await self._asked.get())
        else:  # our client answers what it does not know; some never do (docs/protocol/peers.md#vendor-methods)
            answer = await self.peer.expect(id=step.id, error={"code": -32601})
            assert answer["error"]["data"]["method"] == step.method
            self.frames += 1
            self._answered.add(("c2a", step.id))

    def check(self, step: Step, error: BaseException | None) -> None:
        """An error is raised with its number; one that answers a cancelled turn is reported as its end
        (docs/protocol/peers.md#after-cancel).
        """
        if error is None:
            assert "result" in step.message or any(turn.cancelled for turn in self.all_turns())
        else:
            assert isinstance(error, ProtocolError), error
            assert error.code == step.message["error"]["code"]

    def all_turns(self) -> list[Any]:
        return [turn for turns in self.turns.values() for turn, _ in turns]

    async def barrier(self) -> None:
        """Wait until the client has read everything said so far."""
        if not hasattr(self, "agent"):
            return
        self._barriers += 1
        name = f"barrier-{self._barriers}"
        self.peer.send({"jsonrpc": "2.0", "id": name, "method": "_barrier"})
        await self.peer.expect(id=name)

    # --- the client sends -------------------------------------------------------------------------------------

    async def call(self, step: Step) -> None:
        """One recorded call, made through the public API, compared on the wire."""
        if step.id is None:
            await self.notify(step)
            return
        task = asyncio.ensure_future(self.act(step))
        frame = asyncio.ensure_future(self.peer.receive())
        await asyncio.wait({task, frame}, return_when=asyncio.FIRST_COMPLETED)
        if not frame.done():  # refused before it was sent: not offered by the agent, or not valid
            frame.cancel()
            error = await outcome(task)
            assert isinstance(error, ProtocolError), error
            assert error.kind in (Kind.CAPABILITY_UNSUPPORTED, Kind.INVALID_PARAMS), error
            self.refused.append(step.method)
            self._answered.add(step.id)
            return
        received = frame.result()
        self.frames += 1
        assert received["method"] == step.method
        if step.method != "initialize":
            assert received["params"] == step.params
        self._ids[step.id], self._tasks[step.id] = received["id"], task

    async def notify(self, step: Step) -> None:
        session = self.conversation(step.session) if step.method == "session/cancel" else None
        if session is None:
            self.agent.notify(step.method, step.params)
        else:
            session.cancel()
        await self.peer.expect(method=step.method, params=step.params)
        self.frames += 1
        if (
            session is not None and session.is_turn_cancelled
        ):  # all open questions are answered at once (docs/protocol/prompt-turns.md#cancel)
            for id, (question, _) in list(self._questions.items()):
                if question.method == "session/request_permission" and question.session == step.session:
                    await self.peer.expect(id=id, result={"outcome": {"outcome": "cancelled"}})
                    self.frames += 1
                    del self._questions[id]
                    self._answered.add(("c2a", id))

    async def answer(self, step: Step) -> None:
        """A recorded answer of the client, given by the functions that it passes to `connect`."""
        if ("c2a", step.id) in self._answered:
            return
        question, future = self._questions.pop(step.id)
        error = step.message.get("error")
        if error is not None:
            future.set_exception(ProtocolError(KINDS[error["code"]], error["message"], error.get("data")))
            await self.peer.expect(id=step.id, error={"code": error["code"], "message": error["message"]})
        else:
            result = step.message["result"]
            if question.method == "session/request_permission":
                future.set_result(result["outcome"].get("optionId"))
            else:
                future.set_result(result)
            received = await self.peer.expect(id=step.id)
            assert received["result"] == (result or {})  # `null` for nothing is said as `{}`
        self.frames += 1

    async def act(self, step: Step) -> Any:
        """The call of the public API that a recorded call stands for."""
        params = step.params
        session = self.conversation(step.session)
        match step.method:
            case "initialize":
                return await self.connect(params)
            case "session/new" if "cwd" in params:
                return self.enter(await self.agent.open_session(params["cwd"]))
            case "session/load":
                return self.enter(await self.agent.load_session(step.session, params["cwd"]))
            case "session/resume":
                return self.enter(await self.agent.resume_session(step.session, params["cwd"]))
            case "session/fork":
                return self.enter(await self.agent.fork_session(step.session, params["cwd"]))
            case "session/list":
                return await self.agent.list_sessions(params.get("cwd"))
            case "session/close":
                return await self.agent.close_session(step.session)
            case "session/delete":
                return await self.agent.delete_session(step.session)
            case "session/set_mode" if session is not None:
                return await session.set_mode(params["modeId"])
            case "session/set_config_option" if session is not None:
                return await session.set_option(params["configId"], params["value"])
            case "session/prompt" if session is not None and (session.turn is None or session.turn.is_over):
                return await self.prompt(session, params["prompt"])
        return await self.agent.request(step.method, params)

    async def connect(self, params: dict[str, Any]) -> None:
        self._connecting = connect(
            self.ours,
            capabilities=msgspec.convert(params.get("clientCapabilities", {}), ClientCapabilities),
            permission=self.serve,
            on=dict.fromkeys(SERVED, self.serve),
            report=self.reports.append,
        )
        self.agent = await self._connecting.__aenter__()

    async def serve(self, _: Any) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked.put_nowait(future)
        return await future

    def enter(self, session: ClientSession) -> None:
        self.opened.append(session)

    def conversation(self, id: str) -> ClientSession | None:
        """The conversation that is open for this session now: what was opened last and not closed."""
        return next((one for one in reversed(self.opened) if one.id == id), None)

    async def prompt(self, session: ClientSession, blocks: list[Any]) -> None:
        content = msgspec.convert(blocks, list[ContentBlock])
        turn = session.prompt(content)
        updates: list[Any] = []
        self.turns.setdefault(str(id(session)), []).append((turn, updates))
        async with turn:
            async for update in turn:
                updates.append(update)


async def outcome(task: asyncio.Task[Any]) -> BaseException | None:
    """The exception of a task, when it has ended."""
    await asyncio.wait({task})
    return task.exception()


def replayed(name: str) -> Replay:
    """A recording, replayed."""

    async def main() -> Replay:
        replay = Replay(load(name))
        async with asyncio.timeout(BOUND):
            await replay.run()
        return replay

    return asyncio.run(main())


def raw(update: Any) -> dict[str, Any]:
    value = to_json(update)
    assert isinstance(value, dict)
    return value


@pytest.mark.item("001-02")
@pytest.mark.parametrize("name", [name for name in names() if name not in OTHER_VERSION])
def test_our_client_works_with_a_recorded_agent(name: str) -> None:
    replay = replayed(name)
    tale = replay.tale
    assert [session.id for session in replay.opened] == [session.id for session in tale.sessions]
    for session, expected in zip(replay.opened, tale.sessions, strict=True):
        turns = replay.turns.get(str(id(session)), [])
        assert len(turns) == len(expected.turns)
        for (turn, updates), recorded in zip(turns, expected.turns, strict=True):
            assert text_of([raw(update) for update in updates]) == recorded.text
            assert [raw(update)["sessionUpdate"] for update in updates] == [
                update["sessionUpdate"] for update in recorded.updates
            ]
            ended = recorded.ended
            assert turn.stop_reason == (ended if isinstance(ended, str) else None)
        assert [raw(update)["sessionUpdate"] for update in session.updates_outside_turns] == [
            update["sessionUpdate"] for update in expected.between
        ]
        assert text_of([raw(update) for update in session.updates_outside_turns]) == text_of(expected.between)
        assert {id: picture(call) for id, call in session.tool_calls.items()} == {
            id: compared(call) for id, call in expected.calls.items()
        }
    assert count(replay, tale) == tale.updates
    assert replay.frames == calls_and_answers(replay)


def picture(call: Any) -> dict[str, Any]:
    """The state of a tool call as our client shows it, spelled as it is recorded."""
    call_json = to_json(call)
    return compared({msgspec.structs.fields(type(call))[0].name: None, **{camel(k): v for k, v in call_json.items()}})


def camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(part.title() for part in tail)


def compared(call: dict[str, Any]) -> dict[str, Any]:
    plain = {name: call[name] for name in ("title", "kind", "status", "rawInput", "rawOutput")}
    return {
        **plain,
        "content": [digest(entry) for entry in call["content"]],
        "locations": [digest(entry) for entry in call["locations"]],
    }


def count(replay: Replay, tale: AgentMessages) -> int:
    """How many updates reached the user, and those of sessions nobody has open, which are kept aside."""
    in_turns = sum(len(updates) for turns in replay.turns.values() for _, updates in turns)
    between = sum(len(session.updates_outside_turns) for session in replay.opened)
    return in_turns + between + sum(len(updates) for updates in tale.strays.values())


def calls_and_answers(replay: Replay) -> int:
    """How many frames our client sends: one for each of the recorded client, and one for each question it ignored."""
    steps = [step for step in replay.steps if not step.raw]
    sent = sum(step.way == "c2a" for step in steps)
    asked = [step.id for step in steps if step.way == "a2c" and step.method and step.id is not None]
    answers = [step.id for step in steps if step.way == "c2a" and step.is_answer]
    return sent + len(asked) - len(answers) - len(replay.refused)


def test_the_error_for_an_agent_of_another_version_names_the_version() -> None:
    with pytest.raises(StartFailed, match="version 2"):
        asyncio.run(open_other("crow_acp2"))


async def open_other(name: str) -> None:
    steps = load(name)
    ours, theirs = memory_pair()
    peer = ScriptedPeer(theirs)

    async def agent() -> None:
        asked = await peer.expect(method="initialize")
        peer.send({**steps[1].message, "id": asked["id"]})

    async with asyncio.timeout(BOUND):
        playing = asyncio.ensure_future(agent())
        async with connect(ours):
            pass
        await playing


def test_errors_of_an_agent_without_a_request_are_reported() -> None:
    """docs/protocol/peers.md#errors-without-id: the Rust SDK answers notifications and broken lines with errors that
    have no id.
    """
    replay = replayed("zcodex")
    strays = [step for step in replay.steps if step.way == "a2c" and not step.method and not step.is_answer]
    assert len(strays) == 4
    assert sum("outside any request" in report for report in replay.reports) == len(strays)
