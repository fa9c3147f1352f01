"""The stage before a client: we are its agent, answer what any agent answers, and a probe does the rest.

Takes the pipes the client gave its agent and the grounds around it. Requests of the client are answered by a table
unless the probe holds them back; a prompt is always the probe's. Calls and updates are spelled in the client's dialect,
without side data of ours. Below is Stage; above are the probes of clients.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable
from typing import Any, Final

from dragoman.conformance.harness.client_environment import Ending, Grounds
from dragoman.conformance.harness.peer import Heard, Json, Line, Stage
from dragoman.conformance.harness.timeouts import Pace
from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.engine.peer_info import offers
from dragoman.errors import ConnectionFailed, DragomanError, Unsayable, WriteStalled
from dragoman.schema.side import Side

SESSION = "9b2f7c1e-5a4d-4f0b-8c6e-d1a2b3c4d5e6"  # crow's are UUIDs; others take any string

INTRODUCTION: Json = {
    "protocolVersion": 1,
    "agentCapabilities": {},
    "agentInfo": {"name": "dragoman-check", "version": "1.0"},
    "authMethods": [],
}

# What an agent answers to what it can be asked; a value, or a function of what was heard.
ANSWERS: dict[str, Json | Callable[[Heard], Json]] = {
    "initialize": INTRODUCTION,
    "authenticate": {},
    "session/new": {"sessionId": SESSION},
    "session/cancel": {},
}

# Where our own ids begin: far from those of clients, which count from 0, for only one probe is about collisions.
OWN_IDS = 1000

# Megabytes through one pipe on a busy machine take their time; a client that reads nothing takes for ever. Seconds.
TAKEN = 30.0
STUCK = "the client stopped taking what its agent says"
FENCE = "_dragoman/fence"
# A client that has not answered an unknown request after so many quiet whiles never does (peers.md 7).
FENCED = 10


class ClientStage(Stage):
    """One run of a client whose agent we are."""

    we = Side.AGENT

    def __init__(self, transport: Line, dialect: str, pace: Pace, grounds: Grounds, *, needs: str = "") -> None:
        super().__init__(transport, dialect, pace, needs=needs)
        self.grounds = grounds
        self.answers = dict(ANSWERS)
        self.held: set[str] = {"session/prompt"}
        self.session = SESSION
        self.cwd = grounds.cwd
        self.leaves: bool | None = None
        """Whether the client is known to leave after a turn; an editor stays, which is not the same as to wait."""
        self.offers: Json = {}
        """The client's capabilities, in the vocabulary's words."""
        self._made: list[str] = []
        self._last_id = OWN_IDS

    # --- what any agent does --------------------------------------------------------------------------------------

    def attend(self, heard: Heard) -> None:
        """Answer what the probe does not answer itself."""
        params = heard.params if isinstance(heard.params, dict) else {}
        if heard.method == "initialize" and not self.offers:
            self.offers = params.get("clientCapabilities") or {}
        if heard.method == "session/new":
            self._enter(heard, params)
        if not heard.is_request or heard.method in self.held:
            return
        if heard.method not in self.answers:
            self.refuse(heard, -32601, f"the tester has no {heard.method}")
            return
        answer = self.answers[heard.method]
        self.answer_as(heard, answer(heard) if callable(answer) else answer)

    def _enter(self, heard: Heard, params: dict[str, Any]) -> None:
        if self.dialect == "2025.1":  # there the client chooses the id, and the folder is the connection's
            self.session = str(heard.message.get("params", {}).get("session_id", ""))
            self.answers["session/new"] = {"sessionId": self.session}
            first = next((each for each in self.heard if each.method == "initialize"), None)
            if first is not None and isinstance(first.message.get("params"), dict):
                folder = first.message["params"].get("working_directory")
                self.cwd = folder if isinstance(folder, str) and os.path.isabs(folder) else self.cwd
        elif isinstance(params.get("cwd"), str) and os.path.isabs(params["cwd"]):
            self.cwd = params["cwd"]

    def go_on(self, last: ClientStage) -> None:
        """Take over the conversation of another stage, and a prompt that nobody has played yet."""
        self.session, self.cwd, self.offers = last.session, last.cwd, last.offers
        self._unread = [heard for heard in last.heard if heard.method == "session/prompt"][1:]

    async def introduced(self) -> Heard:
        """The client's initialize."""
        return await self.wanted("initialize", self.pace.start)

    async def prompted(self) -> Heard:
        """The client's prompt; everything before it is answered by the table. Skips what the client does not offer."""
        found = await self.wanted("session/prompt", self.pace.start)
        params = found.params if isinstance(found.params, dict) else {}
        self.session = str(params.get("sessionId") or self.session)
        if self.needs and not offered(self.offers, self.needs):
            wanted = self.needs.partition(".")[2]
            self.skip(f"the client {'offers' if self.needs.startswith('!') else 'does not offer'} {wanted}")
        return found

    async def wanted(self, method: str, seconds: float) -> Heard:
        """A call the client makes by itself; without it the probe cannot say anything."""
        found = await self.until(lambda heard: heard.method == method, seconds)
        if found is None:
            ending = self.grounds.ending()
            told = f" (exit status {ending.status}: {ending.words()})" if ending.status is not None else ""
            self.unsure(f"the client never sent {method}{told}")
        assert found is not None
        return found

    # --- saying ---------------------------------------------------------------------------------------------------

    def say(self, method: str, params: Json) -> tuple[str, Json]:
        """A call of the vocabulary as the dialect says it, without side data; skips what it cannot say."""
        try:
            spelled, wire = self.spelled(method, params)
        except Unsayable as error:
            self.skip(str(error))
            raise
        return spelled, bare(wire)

    def update(self, kind: str, /, **members: Json) -> None:
        """One session/update."""
        params = {"sessionId": self.session, "update": {"sessionUpdate": kind, **members}}
        self.tell(*self.say("session/update", params))

    def chunk(self, text: str) -> None:
        """A piece of the answer."""
        self.update("agent_message_chunk", content={"type": "text", "text": text})

    def end(self, prompt: Heard, reason: str = "end_turn") -> None:
        """The end of the turn."""
        self.answer_as(prompt, {"stopReason": reason})

    def answer_as(self, asked: Heard, result: Json) -> None:
        """Answer in the client's dialect, without side data of ours."""
        self.reply(asked, bare(self.spelling.lower_result(self.we, asked.method, result)))

    async def flush(self) -> None:
        """Wait until the client has taken what was said, as long as it takes anything."""
        try:
            async with asyncio.timeout(TAKEN):
                await self.transport.drain()
        except (ConnectionFailed, TimeoutError) as error:
            self.gone = self.gone or (error if isinstance(error, ConnectionFailed) else WriteStalled(STUCK))

    # --- asking ---------------------------------------------------------------------------------------------------

    async def ask(self, method: str, params: Json, id: Json = None, seconds: float | None = None) -> Heard | None:
        """A request of the vocabulary to the client, and its answer; None when none comes in time."""
        return await self.answered(self.call(*self.say(method, params), id=id), seconds)

    async def fact(self, method: str, params: Json) -> Json:
        """Ask for something the client has to give; its result in the vocabulary's words."""
        found = await self.ask(method, params)
        self.require(found is not None, f"the client does not answer {method}")
        assert found is not None
        self.require("result" in found.message, f"the client answers {method} with an error", found)
        try:
            result = self.spelling.lift_result(Side.CLIENT, method, found.message["result"])
        except DragomanError:
            result = found.message["result"]
        self.require(isinstance(result, dict), f"the result of {method} is not an object", found)
        return result

    async def fence(self) -> bool:
        """Whether the client still answers; what it had to say before has then been said."""
        id = self.call(FENCE, {}, id=f"fence-{uuid.uuid4().hex[:8]}")
        return await self.answered(id, FENCED * self.pace.quiet) is not None

    def file(self, text: str | bytes, name: str = "", folder: str = "") -> str:
        """A fresh file with this text in the session's folder; gone when the probe ends."""
        path = os.path.join(folder or self.cwd, name or f"dragoman-check-{uuid.uuid4().hex[:8]}.txt")
        with open(path, "wb") as file:
            file.write(text.encode() if isinstance(text, str) else text)
        self._made.append(path)
        return path

    def absent(self) -> str:
        """A path in the session's folder where nothing is; what the client puts there is removed."""
        path = os.path.join(self.cwd, f"dragoman-check-{uuid.uuid4().hex[:8]}.txt")
        self._made.append(path)
        return path

    def sweep(self) -> None:
        """Remove the files of this probe."""
        for path in self._made:
            try:
                os.unlink(path)
            except OSError:
                continue

    # --- judging --------------------------------------------------------------------------------------------------

    async def over(self) -> Ending:
        """Hear the client to its end, and let its agent go; one that stays (an editor) is left as it is."""
        await self.until(lambda _: False, self.pace.leave)
        if self.gone is not None:
            self.grounds.dismiss()
        ending = await self.grounds.over(self.pace.leave if self.gone is not None else 0.0)
        if ending.status is not None:
            self.note(f"the client ended with status {ending.status}; its stderr: {ending.said.strip()[-1000:]!r}")
        return ending

    async def survived(self, prompt: Heard, what: str) -> Ending:
        """The client lives on after `what`: it takes more text and the end of the turn, and does not break down."""
        self.require(self.gone is None, f"the client closed the connection after {what}")
        await self.fence()
        self.require(self.gone is None, f"the client closed the connection after {what}")
        mark = f"check-{uuid.uuid4().hex[:8]}"
        self.chunk(f"{mark}\n")
        self.end(prompt)
        ending = await self.over()
        self.require(not ending.crashed, f"the client broke down after {what}: {ending.words()}")
        self.require(
            self.gone is not None or not self.leaves, f"the client no longer sees the end of its turn after {what}"
        )
        seen = "check-begin" in ending.shown
        self.require(not seen or mark in ending.shown, f"the client shows nothing any more after {what}")
        return ending

    async def concluded(self, what: str) -> Ending:
        """The client comes to an end after `what`: it neither breaks down nor waits on."""
        ending = await self.over()
        self.require(not ending.crashed, f"the client broke down after {what}: {ending.words()}")
        if self.gone is None and self.grounds.is_watched:
            if self.leaves is None:
                self.unsure(f"the client stays, so it cannot be told whether it waits on after {what}")
            self.require(not self.leaves, f"the client still waits after {what}")
        return ending

    async def begun(self) -> Heard:
        """A turn under way, with something shown, for probes that ask whether it goes on."""
        prompt = await self.prompted()
        self.chunk("check-begin\n")
        return prompt


def offered(capabilities: Json, path: str) -> bool:
    """Whether this gate is open, as `client.terminal`; `!client.terminal` asks that it is not."""
    return not offers(path[1:], capabilities) if path.startswith("!") else offers(path, capabilities)


def bare(wire: Json) -> Json:
    """The same without side data, which no other agent would send."""
    if isinstance(wire, list):
        return [bare(each) for each in wire]
    if not isinstance(wire, dict):
        return wire
    found = {name: bare(value) for name, value in wire.items()}
    meta = found.get("_meta")
    if isinstance(meta, dict) and SIDE_DATA_KEY in meta:
        del meta[SIDE_DATA_KEY]
        if not meta:
            del found["_meta"]
    return found


# A session from before, the modes and the option by which a command line can name them.
OLDER: Final = "check-older-session"


MODES: Final[Json] = {
    "currentModeId": "check-ask",
    "availableModes": [{"id": "check-ask", "name": "Ask"}, {"id": "check-code", "name": "Code"}],
}


OPTION: Final = "check-model"


VALUES: Final = ("small", "large")


OPTIONS: Final[Json] = [
    {
        "id": OPTION,
        "name": "Model",
        "category": "model",
        "type": "select",
        "currentValue": VALUES[0],
        "options": [{"value": value, "name": value.title()} for value in VALUES],
    }
]


def offer_choices(stage: ClientStage) -> None:
    """Sessions come with modes and an option."""
    stage.answers["session/new"] = {"sessionId": SESSION, "modes": MODES, "configOptions": OPTIONS}
    stage.answers["session/set_mode"] = {}
    stage.answers["session/set_config_option"] = {"configOptions": OPTIONS}


def offer_sessions(stage: ClientStage, *, load: bool = True) -> None:
    """There is a session from before, which can be listed and loaded, or only resumed."""
    capabilities = {"loadSession": load, "sessionCapabilities": {"list": {}, **({} if load else {"resume": {}})}}
    stage.answers["initialize"] = {**INTRODUCTION, "agentCapabilities": capabilities}
    stage.answers["session/list"] = {"sessions": [{"sessionId": OLDER, "cwd": stage.cwd, "title": "An older one"}]}
    stage.answers["session/load"] = stage.answers["session/resume"] = {}
