"""Recorded clients, replayed against our Agent: it answers all of them, and says what the recorded agents said.

The scripted client sends the recorded frames; an author's function says the recorded updates, questions and ends of
turns through the public API. Everything else is answered by the library. INSTEAD lists, for each recording, how often
our agent does something else than the recorded one, and what.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from dragoman import Agent, Kind, ProtocolError, Session, Turn
from dragoman.engine.codec import decode_as
from dragoman.engine.connection import Connection
from dragoman.schema.config import SessionConfigOption, SessionModeState
from dragoman.schema.methods import find_method
from dragoman.schema.prompt import Usage
from dragoman.schema.side import Side
from dragoman.schema.unknown_members import ListExtras, ObjectExtras, find_unknown_members
from dragoman.schema.update import UpdateParams
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair
from tests.replay.recordings import Step, load, names, text_of

BOUND = 30.0

# Recordings of one agent whose connections follow each other.
FOLLOWING = {"acpx_sess_1": ["acpx_sess_1", "acpx_sess_2", "acpx_sess_3"]}

# What our agent does otherwise than the recorded one, and how many frames it is about.
NO_SUCH_SESSION = "an unknown session is an error, and nothing is said in it"
NO_ERROR = "a notification nobody serves is no error"
BROKEN_LINE = "a line that is no message is answered with an error that has id null"
BUSY = "a second prompt is refused while one runs; what it led to is said between turns"
CANCELLED = "a cancelled turn ends as cancelled"
CANCEL_REQUEST = "what was asked in a cancelled turn is called off with $/cancel_request"
OWN_REPLAY = "the history comes from the session's own transcript"
NOT_SERVED = "an extension nobody serves is method_not_found"
SERVED = "the library serves this"
DELETED = "nothing is said in a session that was deleted"
MODE_TOLD = "a new mode is told with an update, whoever set it"
NARROWED = "a client of version 1 gets a whole message as a chunk of it, and no states from then on"
VERSION = "the answer is version 1, in which the end of a turn answers its prompt"
INSTEAD: dict[str, dict[str, int]] = {
    "acpx_sess_2": {MODE_TOLD: 1},
    "claude": {CANCEL_REQUEST: 1, BUSY: 1, BROKEN_LINE: 2, OWN_REPLAY: 1},
    "client_nvim_codecompanion": {CANCEL_REQUEST: 2, CANCELLED: 1},
    "cline": {SERVED: 1},
    "copilot": {CANCEL_REQUEST: 1, BUSY: 1, BROKEN_LINE: 2, OWN_REPLAY: 1, SERVED: 1},
    "crow": {CANCELLED: 1, NOT_SERVED: 1, BUSY: 1, OWN_REPLAY: 2, BROKEN_LINE: 2, DELETED: 14},
    "crow_acp2": {NARROWED: 3, VERSION: 1},
    "gemini": {BUSY: 1, BROKEN_LINE: 2, OWN_REPLAY: 1, SERVED: 1},
    "gemini_enoent": {OWN_REPLAY: 1, SERVED: 1},
    "kimi": {CANCEL_REQUEST: 1, OWN_REPLAY: 1, BROKEN_LINE: 2, SERVED: 1},
    "kimicli": {SERVED: 1},
    "opencode": {CANCEL_REQUEST: 1, BUSY: 1, BROKEN_LINE: 2, OWN_REPLAY: 2},
    "pi": {BUSY: 1, OWN_REPLAY: 1, BROKEN_LINE: 2},
    "pydacp": {CANCEL_REQUEST: 1, BUSY: 1, OWN_REPLAY: 1, SERVED: 4, BROKEN_LINE: 2},
    "pysdk_agent": {NOT_SERVED: 1, NO_SUCH_SESSION: 1, BROKEN_LINE: 2, SERVED: 1},
    "pysdk_echo_agent": {NOT_SERVED: 1, NO_SUCH_SESSION: 1, BROKEN_LINE: 2, SERVED: 1},
    "qwen": {CANCEL_REQUEST: 1, BUSY: 1, BROKEN_LINE: 2, OWN_REPLAY: 1, SERVED: 1},
    "tssdk020_agent": {CANCELLED: 1, CANCEL_REQUEST: 1, BUSY: 1, BROKEN_LINE: 2},
    "zcodex": {CANCEL_REQUEST: 1, NO_ERROR: 4, BUSY: 1, OWN_REPLAY: 1, BROKEN_LINE: 2},
}


class Replay:
    """One recorded connection being replayed against an agent, which may have sessions already."""

    def __init__(self, agent: Agent, steps: list[Step], sessions: dict[str, str]) -> None:
        self.agent = agent
        self.steps = steps
        self.sessions = sessions  # recorded id -> ours
        self.instead: Counter[str] = Counter()
        self.received: dict[str, list[dict[str, Any]]] = {}
        self.due: dict[str, list[dict[str, Any]]] = {}
        self.frames = 0
        self.more = 0  # frames our agent sends beyond the recorded ones
        self._passed: set[int] = set()  # recorded frames that have been said already, or never will
        self._early: list[dict[str, Any]] = []
        self._last_words: dict[str, list[Any]] = {}
        self._acts: dict[str, asyncio.Queue[Any]] = {}
        self._running: dict[str, Any] = {}  # our session -> id of the prompt
        self._questions: dict[Any, asyncio.Task[Any]] = {}
        self._ids: dict[Any, Any] = {}
        self._called_off: set[Any] = set()
        agent.prompt_handler = self.answer  # a recording may have several connections

    # --- the author's part ------------------------------------------------------------------------------------

    def on_opened(self, session: Session) -> None:
        """Before the client knows the session: what the recorded agent said so early
        (docs/protocol/peers.md#early-updates).
        """
        for update in self._early:
            session.send_update(typed(session.id, update))

    async def answer(self, turn: Turn) -> str:
        """Say what the recorded agent said in this turn, as the replay hands it over."""
        acts = self._acts[turn.session.id]
        asked: list[asyncio.Task[Any]] = []
        try:
            while True:
                act = await acts.get()
                if isinstance(act, ProtocolError):
                    raise act
                if isinstance(act, str):
                    return act
                if isinstance(act, Usage):
                    turn.token_usage = act
                elif isinstance(act, Step):
                    row = find_method(Side.CLIENT, act.method)
                    params = decode_as(row.params if row else None, self.ours(act.params))
                    task = asyncio.ensure_future(turn.session.request(act.method, params))
                    asked.append(task)
                    self._questions[act.id] = task
                else:
                    await turn.send_update(act)
        except asyncio.CancelledError:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
            for update in self._last_words.pop(turn.session.id, ()):
                turn.session.send_update(update)
            raise

    # --- the client's part ------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Play the recording from its first frame to its last."""
        ours, theirs = memory_pair()
        self.peer = ScriptedPeer(theirs)
        connection: Connection = self.agent.start_connection(ours)
        try:
            for number, step in enumerate(self.steps):
                if number in self._passed:
                    continue
                if step.way == "a2c":
                    await self.say(number, step)
                elif step.raw:
                    await self.send_broken(step)
                elif step.is_answer:
                    await self.send_answer(step)
                else:
                    await self.send_call(number, step)
            self.peer.send({"jsonrpc": "2.0", "id": "barrier", "method": "_barrier"})
            await self.peer.expect(id="barrier", error={"code": -32601})  # and nothing before it
        finally:
            await connection.close()

    async def receive(self) -> dict[str, Any]:
        self.frames += 1
        return await self.peer.receive()

    async def send_broken(self, step: Step) -> None:
        self.peer.send(step.raw.encode())
        answer = await self.receive()
        assert answer["id"] is None
        assert answer["error"]["code"] == (-32600 if step.raw.startswith("[") else -32700)
        self.instead[BROKEN_LINE] += 1
        self.more += 1

    async def send_answer(self, step: Step) -> None:
        self.peer.send({**step.message, "id": self._ids[step.id]})
        task = self._questions.pop(step.id)
        if step.id in self._called_off:
            return  # a late answer is nobody's business any more
        await asyncio.wait({task})
        error = task.exception()
        if "error" in step.message:
            assert isinstance(error, ProtocolError)
            assert error.code == step.message["error"]["code"]
        else:
            assert error is None, error

    async def send_call(self, number: int, step: Step) -> None:
        session = self.sessions.get(step.session, "")
        if step.method == "session/new":
            end = self.find_answer(number, step)
            self._early = [one.params["update"] for one in self.take(number, end, self.created(end))]
        if step.method == "session/cancel" and session in self._running:
            await self.cancel(number, step, session)
            return
        message = {**step.message, "params": self.ours(step.params)} if "params" in step.message else step.message
        if step.method == "session/prompt" and session and session not in self._running:
            self._acts[session], self._running[session] = asyncio.Queue(), step.id
            self.peer.send(message)
            return
        self.peer.send(message)
        if step.id is not None:
            await self.served(number, step, session)

    async def served(self, number: int, step: Step, session: str) -> None:
        """A request that the library answers."""
        end = self.find_answer(number, step)
        recorded = self.steps[end].message if end is not None else {}
        if end is not None:
            self._passed.add(end)
        else:
            self.more += 1
        updates = []
        while "method" in (received := await self.receive()):
            updates.append(received["params"]["update"])
        assert received["id"] == step.id
        match step.method:
            case "session/new" if "cwd" in step.params:
                assert updates == [known(update) for update in self._early]
                self.note(received["result"]["sessionId"], self._early, updates)
                if "result" in recorded:
                    self.sessions[recorded["result"]["sessionId"]] = received["result"]["sessionId"]
            case "session/new":
                assert received["error"]["code"] == -32602
                assert [fault["path"] for fault in received["error"]["data"]["errors"]] == ["cwd"]
            case "session/prompt" if session:
                assert received["error"]["code"] == -32600
                self.instead[BUSY] += "error" not in recorded
            case "session/prompt":
                assert received["error"]["code"] == -32002
                self.instead[NO_SUCH_SESSION] += "result" in recorded
                self.more -= len(self.take(number, len(self.steps), step.session))
            case "session/load":
                self.check_history(number, end, step, updates, session)
            case "session/fork":
                self.replays(-len(self.take(number, end, self.created(end))))
                if "result" in recorded:
                    self.sessions[recorded["result"]["sessionId"]] = received["result"]["sessionId"]
            case "session/set_mode":
                assert updates == [{"sessionUpdate": "current_mode_update", "currentModeId": step.params["modeId"]}]
                self.instead[MODE_TOLD] += 1
                self.more += 1
            case "session/delete":
                self.sessions = {theirs: ours for theirs, ours in self.sessions.items() if ours != session}
        if find_method(Side.AGENT, step.method) is None:
            assert received["error"]["code"] == -32601
            self.instead[NOT_SERVED] += "result" in recorded
        elif "result" not in recorded and "result" in received:
            self.instead[SERVED] += 1

    def check_history(
        self, number: int, end: int | None, step: Step, updates: list[dict[str, Any]], session: str
    ) -> None:
        """Our replay is the session's own transcript: all that was said in it, in order."""
        assert text_of(updates) == text_of(self.received.get(session, []))
        self.replays(len(updates) - len(self.take(number, end, step.session)))

    def replays(self, more: int) -> None:
        self.instead[OWN_REPLAY] += more != 0
        self.more += more

    async def cancel(self, number: int, step: Step, session: str) -> None:
        """The turn ends at once; what the recorded agent still said before its answer are its last words."""
        prompt = self._running.pop(session)
        end = next(
            (n for n, one in self.after(number) if one.way == "a2c" and one.is_answer and one.id == prompt), None
        )
        words = self.take(number, end, step.session)
        self._last_words[session] = [typed(session, one.params["update"]) for one in words]
        self.peer.send({**step.message, "params": self.ours(step.params)})
        for id in [id for id, task in self._questions.items() if not task.done() and id not in self._called_off]:
            answer = await self.receive()
            assert (answer["method"], answer["params"]) == ("$/cancel_request", {"requestId": self._ids[id]})
            self._called_off.add(id)
            self.instead[CANCEL_REQUEST] += 1
            self.more += 1
        updates = []
        for one in words:
            answer = await self.receive()
            updates.append(answer["params"]["update"])
            assert updates[-1] == known(one.params["update"])
        self.note(session, [one.params["update"] for one in words], updates)
        answer = await self.receive()
        assert answer == {"jsonrpc": "2.0", "id": prompt, "result": {"stopReason": "cancelled"}}
        if end is None:
            self.instead[CANCELLED] += 1
            self.more += 1
        else:
            self._passed.add(end)
            self.instead[CANCELLED] += self.steps[end].message.get("result", {}).get("stopReason") != "cancelled"

    # --- the agent's part -------------------------------------------------------------------------------------

    async def say(self, number: int, step: Step) -> None:
        if step.is_answer:
            await self.end_turn(step)
        elif not step.method:
            self.instead[NO_ERROR] += 1
            self.more -= 1
        elif step.method == "session/update":
            await self.update(step)
        elif step.id is None:
            self.agent.sessions[next(iter(self._running))].connection.notify(step.method, step.params)
            answer = await self.receive()
            assert (answer["method"], answer["params"]) == (step.method, step.params)
        else:
            self._acts[self.sessions.get(step.session) or next(iter(self._running))].put_nowait(step)
            answer = await self.receive()
            assert answer["method"] == step.method
            row = find_method(Side.CLIENT, step.method)
            params = self.ours(step.params)
            assert answer["params"] == (known(params, row.params) if row else params)
            self._ids[step.id] = answer["id"]

    async def update(self, step: Step) -> None:
        session = self.sessions.get(step.session)
        if session is None:
            self.instead[DELETED] += 1
            self.more -= 1
            return
        update = step.params["update"]
        if session in self._running:
            self._acts[session].put_nowait(typed(session, update))
        else:
            self.agent.sessions[session].send_update(typed(session, update))
        if self.instead[NARROWED] and update["sessionUpdate"] == "state_update":
            self.instead[NARROWED] += 1
            self.more -= 1
            return
        answer = await self.receive()
        if update["sessionUpdate"] == "user_message":
            self.instead[NARROWED] += 1
            update = {**update, "sessionUpdate": "user_message_chunk", "content": update["content"][0]}
        assert answer["params"] == {"sessionId": session, "update": known(update)}
        self.note(session, [update], [answer["params"]["update"]])

    async def end_turn(self, step: Step) -> None:
        session = next(session for session, prompt in self._running.items() if prompt == step.id)
        del self._running[session]
        acts = self._acts[session]
        if "stopReason" not in step.message.get("result", {"stopReason": ""}):
            self.instead[VERSION] += 1
        if "error" in step.message:
            acts.put_nowait(ProtocolError(Kind.INTERNAL_ERROR, step.message["error"]["message"]))
            assert (await self.receive())["error"]["code"] == step.message["error"]["code"]
            return
        result = step.message["result"]
        if "usage" in result:
            acts.put_nowait(decode_as(Usage, result["usage"]))
        acts.put_nowait(result.setdefault("stopReason", "end_turn"))
        answer = await self.receive()
        assert answer["id"] == step.id
        assert answer["result"] == {name: result[name] for name in ("stopReason", "usage") if name in result}

    # --- looking around in the recording ----------------------------------------------------------------------

    def ours(self, params: dict[str, Any]) -> dict[str, Any]:
        """Params with our id of their session."""
        id = params.get("sessionId")
        return {**params, "sessionId": self.sessions.get(id, id)} if isinstance(id, str) else params

    def after(self, number: int) -> list[tuple[int, Step]]:
        return [(n, step) for n, step in enumerate(self.steps) if n > number and n not in self._passed]

    def find_answer(self, number: int, step: Step) -> int | None:
        return next(
            (n for n, one in self.after(number) if one.way == "a2c" and one.is_answer and one.id == step.id), None
        )

    def created(self, end: int | None) -> str:
        """The session that a recorded answer names."""
        return str(self.steps[end].message.get("result", {}).get("sessionId", "")) if end is not None else ""

    def take(self, number: int, end: int | None, session: str) -> list[Step]:
        """The updates of a session between two frames; they are said elsewhere."""
        found = [
            (n, step)
            for n, step in self.after(number)
            if end is not None and n < end and step.method == "session/update" and step.session == session
        ]
        self._passed.update(n for n, _ in found)
        return [step for _, step in found]

    def note(self, session: str, due: list[dict[str, Any]], updates: list[dict[str, Any]]) -> None:
        self.due.setdefault(session, []).extend(due)
        self.received.setdefault(session, []).extend(updates)


def typed(session: str, update: dict[str, Any]) -> Any:
    """An update as an author has it."""
    return decode_as(UpdateParams, {"sessionId": session, "update": update}).update


def known(value: Any, kind: Any = None) -> Any:
    """A recorded value without the members that the vocabulary does not know."""
    if kind is None:
        return known({"sessionId": "", "update": value}, UpdateParams)["update"]
    return without(value, find_unknown_members(value, kind))


def without(value: Any, extra: Any) -> Any:
    if isinstance(extra, ObjectExtras):
        return {
            name: without(item, extra[name]) if name in extra else item
            for name, item in value.items()
            if name not in extra or isinstance(extra[name], ObjectExtras | ListExtras)
        }
    if isinstance(extra, ListExtras):
        return [without(item, extra.get(index)) for index, item in enumerate(value)]
    return value


def agent_of(steps: list[Step]) -> Agent:
    """An agent with the modes and options of the recorded one."""
    results = [step.message["result"] for step in steps if step.way == "a2c" and step.message.get("result")]
    modes = next((result["modes"] for result in results if result.get("modes")), None)
    options: list[Any] = next((result["configOptions"] for result in results if result.get("configOptions")), [])
    return Agent(
        "replay",
        version="1",
        versions=(1,),  # tests/pairs has recordings of v2
        image=True,
        audio=True,
        modes=decode_as(SessionModeState, modes).available_modes if modes else (),
        options=[decode_as(SessionConfigOption, option) for option in options if "id" in option],  # version 2 has none
    )


def recorded() -> list[list[str]]:
    later = {name for group in FOLLOWING.values() for name in group[1:]}
    return [FOLLOWING.get(name, [name]) for name in names() if name not in later]


def replayed(group: list[str]) -> list[Replay]:
    async def main() -> list[Replay]:
        agent = agent_of(load(group[0]))
        sessions: dict[str, str] = {}
        replays: list[Replay] = []
        agent.on_session_opened(lambda session: replays[-1].on_opened(session))
        async with asyncio.timeout(BOUND):
            for name in group:
                replays.append(Replay(agent, load(name), sessions))
                await replays[-1].run()
        return replays

    return asyncio.run(main())


@pytest.mark.parametrize("group", recorded(), ids=lambda group: group[0])
def test_our_agent_serves_a_recorded_client(group: list[str]) -> None:
    for name, replay in zip(group, replayed(group), strict=True):
        for session, due in replay.due.items():
            assert text_of(replay.received[session]) == text_of(due)
            assert len(replay.received[session]) == len(due)
        assert replay.frames == sum(step.way == "a2c" for step in replay.steps) + replay.more
        assert +replay.instead == INSTEAD.get(name, {})
