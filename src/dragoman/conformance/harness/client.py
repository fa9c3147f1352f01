"""The client under test: we are its agent. A table answers the client's requests; a probe answers prompts itself."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from dragoman.conformance.harness.client_environment import ClientEnvironment, ClientExit
from dragoman.conformance.harness.peer import Json, PeerUnderTest, RawChannel, ReceivedFrame, Timeouts
from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.engine.peer_info import offers
from dragoman.errors import ConnectionFailed, DragomanError, Unsayable, WriteStalled
from dragoman.schema.side import Side

SESSION = "9b2f7c1e-5a4d-4f0b-8c6e-d1a2b3c4d5e6"  # crow's are UUIDs; others take any string

INITIALIZE_RESULT: Json = {
    "protocolVersion": 1,
    "agentCapabilities": {},
    "agentInfo": {"name": "dragoman-check", "version": "1.0"},
    "authMethods": [],
}

# The capabilities of clients that requirements need.
READ, WRITE, TERMINALS = "client.fs.readTextFile", "client.fs.writeTextFile", "client.terminal"

# The answers of our agent: a value, or a function of the received frame.
ANSWERS: dict[str, Json | Callable[[ReceivedFrame], Json]] = {
    "initialize": INITIALIZE_RESULT,
    "authenticate": {},
    "session/new": {"sessionId": SESSION},
    "session/cancel": {},
}

# Calls that every agent of v2 serves.
WIDE_ANSWERS: dict[str, Json | Callable[[ReceivedFrame], Json]] = {
    "session/list": {"sessions": []},
    "session/resume": {},
    "session/load": {},
    "session/close": {},
    "logout": {},
}

# Our ids start far from those of clients, which count from 0: only one probe is about collisions.
OWN_IDS = 1000

# Megabytes through one pipe on a busy machine take time; a client that reads nothing never takes them. Seconds.
DRAIN_TIMEOUT = 30.0
STUCK = "the client stopped reading its agent's output"
REFUSES_COMMANDS = "the client refuses to run commands; let it allow that (as with --yes)"
REFUSES_WRITES = "the client refuses to write; let it allow that (as with --yes)"
SYNC_METHOD, SYNC_ID = "_dragoman/fence", "sync-"
# A client that has not answered an unknown request after so many quiet periods never does
# (docs/protocol/peers.md#vendor-methods).
SYNC_ROUNDS = 10


class ClientUnderTest(PeerUnderTest):
    """One run of a client whose agent we are."""

    our_side = Side.AGENT

    def __init__(
        self,
        transport: RawChannel,
        dialect: str,
        timeouts: Timeouts,
        environment: ClientEnvironment,
        *,
        needs: str = "",
    ) -> None:
        super().__init__(transport, dialect, timeouts, needs=needs)
        self.environment = environment
        self.answers = {**ANSWERS, **(WIDE_ANSWERS if self.codec.is_wide else {})}
        self.held: set[str] = {"session/prompt"}
        self.session = SESSION
        self.cwd = environment.cwd
        self.exits_after_turn: bool | None = None
        """Whether the client exits after a turn, if known; an editor stays."""
        self.capabilities: Json = {}
        """The client's capabilities, in the terms of v1."""
        self._created_files: list[str] = []
        self._inserted = 0  # prompts that were accepted
        self._last_id = OWN_IDS

    # --- what any agent does --------------------------------------------------------------------------------------

    def on_frame(self, frame: ReceivedFrame) -> None:
        """Answer what the probe does not answer itself."""
        params = frame.params if isinstance(frame.params, dict) else {}
        if frame.method == "initialize" and not self.capabilities:
            self.capabilities = params.get("clientCapabilities") or {}
        if frame.method == "session/new":
            self._note_session(frame, params)
        if not frame.is_request or frame.method in self.held:
            return
        if frame.method not in self.answers:
            self.refuse(frame, -32601, f"the checker has no {frame.method}")
            return
        answer = self.answers[frame.method]
        self.reply_in_dialect(frame, answer(frame) if callable(answer) else answer)

    def _note_session(self, frame: ReceivedFrame, params: dict[str, Any]) -> None:
        if self.dialect == "2025.1":  # there the client chooses the id, and the folder is the connection's
            self.session = str(frame.message.get("params", {}).get("session_id", ""))
            self.answers["session/new"] = {"sessionId": self.session}
            first = next((each for each in self.received if each.method == "initialize"), None)
            if first is not None and isinstance(first.message.get("params"), dict):
                folder = first.message["params"].get("working_directory")
                self.cwd = folder if isinstance(folder, str) and os.path.isabs(folder) else self.cwd
        elif isinstance(params.get("cwd"), str) and os.path.isabs(params["cwd"]):
            self.cwd = params["cwd"]

    def continue_from(self, last: ClientUnderTest) -> None:
        """Take over the connection of an earlier probe, with a prompt that is not answered yet."""
        self.session, self.cwd, self.capabilities = last.session, last.cwd, last.capabilities
        self._unread = [frame for frame in last.received if frame.method == "session/prompt"][1:]

    async def wait_initialize(self) -> ReceivedFrame:
        """Return the client's initialize."""
        return await self.wait_call("initialize", self.timeouts.start)

    async def hold_initialize(self) -> ReceivedFrame:
        """Return the client's initialize, unanswered."""
        self.held.add("initialize")
        return await self.wait_initialize()

    async def wait_new_session(self) -> ReceivedFrame:
        """Return the client's session/new."""
        return await self.wait_call("session/new", self.timeouts.start)

    async def hold_new_session(self) -> ReceivedFrame:
        """Return the client's session/new, unanswered."""
        self.held.add("session/new")
        return await self.wait_new_session()

    async def wait_prompt(self) -> ReceivedFrame:
        """Return the client's prompt; the table answers everything before it. Skip if the client lacks `needs`."""
        found = await self.wait_call("session/prompt", self.timeouts.start)
        params = found.params if isinstance(found.params, dict) else {}
        self.session = str(params.get("sessionId") or self.session)
        if self.needs and not offers_capability(self.capabilities, self.needs):
            wanted = self.needs.partition(".")[2]
            self.skip(f"the client {'offers' if self.needs.startswith('!') else 'does not offer'} {wanted}")
        return found

    async def wait_call(self, method: str, seconds: float) -> ReceivedFrame:
        """Return a call that the client makes by itself; end as inconclusive without it."""
        found = await self.wait_for(lambda frame: frame.method == method, seconds)
        if found is None:
            end = self.environment.exit_state()
            detail = f" (exit status {end.status}: {end.stderr_excerpt()})" if end.status is not None else ""
            self.inconclusive(f"the client never sent {method}{detail}")
        return found

    # --- sending ---------------------------------------------------------------------------------------------------

    def in_dialect(self, method: str, params: Json) -> tuple[str, Json]:
        """Return a call of v1 in the client's dialect, without side data; skip what the dialect cannot express."""
        try:
            name, wire = self.to_wire(method, params)
        except Unsayable as error:
            self.skip(str(error))
        return name, without_side_data(wire)

    def update(self, kind: str, /, **members: Json) -> None:
        """Send one session/update."""
        params = {"sessionId": self.session, "update": {"sessionUpdate": kind, **members}}
        self.notify(*self.in_dialect("session/update", params))

    def chunk(self, text: str) -> None:
        """Send a piece of the agent's message."""
        ids = {"messageId": "check-answer"} if self.codec.is_wide else {}
        self.update("agent_message_chunk", content={"type": "text", "text": text}, **ids)

    def end_turn(self, prompt: ReceivedFrame, reason: str = "end_turn") -> None:
        """End the turn: by the answer, or by the state of a session whose prompt was answered when it began."""
        if self.codec.is_wide:
            self.update("state_update", state="idle", stopReason=reason)
        else:
            self.reply_in_dialect(prompt, {"stopReason": reason})

    def accept_prompt(self, prompt: ReceivedFrame) -> str:
        """Insert a prompt of a v2 client: its message, the answer, and `running`; return the id of the message."""
        self._inserted += 1
        id = f"check-prompt-{self._inserted}"
        self.update("user_message", messageId=id, content=prompt.wire_params.get("prompt"))
        self.reply(prompt, {"messageId": id})
        self.update("state_update", state="running")
        return id

    def reply_in_dialect(self, asked: ReceivedFrame, result: Json) -> None:
        """Answer in the client's dialect, without side data."""
        self.reply(asked, without_side_data(self.codec.lower_result(self.our_side, asked.method, result)))

    async def flush(self) -> None:
        """Wait until the client has read what was sent, at most DRAIN_TIMEOUT."""
        try:
            async with asyncio.timeout(DRAIN_TIMEOUT):
                await self.transport.drain()
        except (ConnectionFailed, TimeoutError) as error:
            self.closed = self.closed or (error if isinstance(error, ConnectionFailed) else WriteStalled(STUCK))

    # --- requests ---------------------------------------------------------------------------------------------------

    async def request_in_dialect(self, method: str, params: Json, seconds: float | None = None) -> ReceivedFrame | None:
        """Send a request of v1 in the client's dialect, with the session; return the answer."""
        return await self.request(*self.in_dialect(method, {"sessionId": self.session, **params}), seconds)

    async def require_answer(
        self, method: str, params: Json, what: str = "", seconds: float | None = None
    ) -> ReceivedFrame:
        """Send this request as it is, and require an answer; `what` is what to call it."""
        return self.require(await self.request(method, params, seconds), f"{what or method} was never answered")

    async def require_result(self, method: str, params: Json) -> ReceivedFrame:
        """Send this request as it is, and require an object as result; return the answer."""
        frame = await self.require_answer(method, params, seconds=self.timeouts.turn)
        self.require("result" in frame.message, f"{method} was answered with an error", frame)
        self.require(isinstance(frame.message["result"], dict), f"the result of {method} is not an object", frame)
        return frame

    async def request_result(self, method: str, params: Json) -> Json:
        """Send a request that the client must grant; return the result in the terms of v1."""
        found = self.require(await self.request_in_dialect(method, params), f"the client does not answer {method}")
        self.require("result" in found.message, f"the client answers {method} with an error", found)
        try:
            result = self.codec.lift_result(Side.CLIENT, method, found.message["result"])
        except DragomanError:
            result = found.message["result"]
        self.require(isinstance(result, dict), f"the result of {method} is not an object", found)
        return result

    async def sync(self) -> bool:
        """Return whether the client still answers; everything it sent before has then arrived."""
        id = self.call(SYNC_METHOD, {}, id=f"{SYNC_ID}{uuid.uuid4().hex[:8]}")
        return await self.wait_reply(id, SYNC_ROUNDS * self.timeouts.quiet) is not None

    def create_file(self, text: str | bytes, name: str = "", folder: str = "") -> str:
        """Create a file in the session's folder, removed when the probe ends; return its path."""
        path = os.path.join(folder or self.cwd, name or f"dragoman-check-{uuid.uuid4().hex[:8]}.txt")
        with open(path, "wb") as file:
            file.write(text.encode() if isinstance(text, str) else text)
        self._created_files.append(path)
        return path

    def absent_path(self) -> str:
        """Return a path in the session's folder where nothing is; what the client creates there is removed."""
        path = os.path.join(self.cwd, f"dragoman-check-{uuid.uuid4().hex[:8]}.txt")
        self._created_files.append(path)
        return path

    def remove_files(self) -> None:
        """Remove the files of this probe."""
        for path in self._created_files:
            try:
                os.unlink(path)
            except OSError:
                continue

    # --- verdicts --------------------------------------------------------------------------------------------------

    async def wait_exit(self) -> ClientExit:
        """Wait until the client exits and release its agent; a client that stays (an editor) is left running."""
        await self.wait_for(lambda _: False, self.timeouts.exit)
        if self.closed is not None:
            self.environment.release_agent()
        end = await self.environment.wait_exit(self.timeouts.exit if self.closed is not None else 0.0)
        if end.status is not None:
            self.note(f"the client ended with status {end.status}; its stderr: {end.stderr.strip()[-1000:]!r}")
        return end

    def require_last(self, value: object, why: str) -> None:
        """Require this of the last frame, which is the proof."""
        self.require(value, why, self.received[-1])

    async def require_no_crash(self, why: str) -> ClientExit:
        """Wait for the client's exit, and require that it did not crash."""
        end = await self.wait_exit()
        self.require(not end.crashed, f"{why}: {end.stderr_excerpt()}")
        return end

    async def require_alive(self, prompt: ReceivedFrame, what: str) -> ClientExit:
        """Require that the client still works after `what`: it reads more text and the end of the turn."""
        self.require(self.closed is None, f"the client closed the connection after {what}")
        await self.sync()
        self.require(self.closed is None, f"the client closed the connection after {what}")
        mark = f"check-{uuid.uuid4().hex[:8]}"
        self.chunk(f"{mark}\n")
        self.end_turn(prompt)
        end = await self.require_no_crash(f"the client crashed after {what}")
        is_ended = self.closed is not None or not self.exits_after_turn
        self.require(is_ended, f"the client no longer sees the end of its turn after {what}")
        self.require(end.shows(mark), f"the client shows nothing any more after {what}")
        return end

    async def require_end(self, what: str) -> ClientExit:
        """Require that the client ends the turn after `what`: it neither crashes nor waits."""
        end = await self.require_no_crash(f"the client crashed after {what}")
        if self.closed is None and self.environment.is_watched:
            if self.exits_after_turn is None:
                self.inconclusive(f"the client stays, so it is unknown whether it still waits after {what}")
            self.require(not self.exits_after_turn, f"the client still waits after {what}")
        return end

    async def require_prompt(self, why: str) -> ReceivedFrame:
        """Require that the client sends its prompt, and return it; `why` says what it does otherwise."""
        prompt = await self.wait_method("session/prompt", self.timeouts.start)
        return self.require(prompt, f"{why}: {self.environment.exit_state().stderr_excerpt()}")

    def assume_capabilities_stated(self) -> None:
        """End as inconclusive when a client of banjo, which has to say what it offers, does not."""
        is_stated = "clientCapabilities" in self.calls("initialize")[0].params
        self.assume(self.dialect != "banjo" or is_stated, "the client did not say what it offers")

    def own_replies(self, start: int) -> list[ReceivedFrame]:
        """Return the answers since the frame of that number, without those to `sync`."""
        found = [frame for frame in self.received[start:] if frame.is_reply]
        return [frame for frame in found if not str(frame.message.get("id", "")).startswith(SYNC_ID)]

    async def begin_turn(self) -> ReceivedFrame:
        """Wait for the prompt and show some text; return the prompt."""
        prompt = await self.wait_prompt()
        if self.codec.is_wide:
            self.accept_prompt(prompt)
        self.chunk("check-begin\n")
        return prompt

    @asynccontextmanager
    async def turn(self, survives: str = "") -> AsyncIterator[ReceivedFrame]:
        """Give the prompt of a turn with some text shown; end the turn after the block unless that fails.

        `survives` says what happens in the block: the client must still work afterwards.
        """
        prompt = await self.begin_turn()
        yield prompt
        if survives:
            await self.require_alive(prompt, survives)
        else:
            self.end_turn(prompt)

    async def run_turn(self) -> None:
        """Show some text and end the turn."""
        self.end_turn(await self.begin_turn())

    async def record_turn(self) -> list[ReceivedFrame]:
        """Run a turn with a request in it, to the end of the client; return everything it sent."""
        async with self.turn():
            await self.sync()
        await self.wait_exit()
        return self.received


def offers_capability(capabilities: Json, path: str) -> bool:
    """Return whether a capability such as `client.terminal` is offered; `!client.terminal` negates it."""
    return not offers(path[1:], capabilities) if path.startswith("!") else offers(path, capabilities)


def without_side_data(wire: Json) -> Json:
    """Return the value without side data, which no other agent would send."""
    if isinstance(wire, list):
        return [without_side_data(each) for each in wire]
    if not isinstance(wire, dict):
        return wire
    found = {name: without_side_data(value) for name, value in wire.items()}
    meta = found.get("_meta")
    if isinstance(meta, dict) and SIDE_DATA_KEY in meta:
        del meta[SIDE_DATA_KEY]
        if not meta:
            del found["_meta"]
    return found


# An older session, and the modes and the option that a command line can name.
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


def offer_choices(client: ClientUnderTest) -> None:
    """Offer modes and an option with each session."""
    client.answers["session/new"] = {"sessionId": SESSION, "modes": MODES, "configOptions": OPTIONS}
    client.answers["session/set_mode"] = {}
    client.answers["session/set_config_option"] = {"configOptions": OPTIONS}


def offer_sessions(client: ClientUnderTest, *, load: bool = True) -> None:
    """Offer an older session that can be listed and loaded, or only resumed."""
    capabilities = {"loadSession": load, "sessionCapabilities": {"list": {}, **({} if load else {"resume": {}})}}
    client.answers["initialize"] = {**INITIALIZE_RESULT, "agentCapabilities": capabilities}
    client.answers["session/list"] = {"sessions": [{"sessionId": OLDER, "cwd": client.cwd, "title": "An older one"}]}
    client.answers["session/load"] = client.answers["session/resume"] = {}
