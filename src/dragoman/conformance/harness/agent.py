"""The agent under test: we are its client, and answer its requests unless the probe does."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from dragoman.conformance.harness import hello
from dragoman.conformance.harness.client_answers import ANSWERS
from dragoman.conformance.harness.peer import Json, PeerUnderTest, RawChannel, ReceivedFrame, Timeouts
from dragoman.conformance.harness.prompt_turn import PromptTurn
from dragoman.conformance.harness.settings import AgentSettings, choose_options, log_in
from dragoman.conformance.json_shape import Shape
from dragoman.conformance.prompts import EVERYTHING, PLAIN, Script, fill_prompt
from dragoman.engine.peer_info import offers
from dragoman.errors import DragomanError
from dragoman.schema.side import Side

CONTENT = "first line\nsecond line\nthird line\n"

# The kinds of permission options to choose, the first that is offered.
ALLOW = ("allow_once", "allow_always")
REJECT = ("reject_once", "reject_always")

QUESTION = "session/request_permission"
PROMPT = "session/prompt"  # in every dialect
CANCELLED: Json = {"outcome": {"outcome": "cancelled"}}  # the answer to a question of a cancelled turn

# How often to wait for the end of a turn in which frames still come: models are slow, and some never stop.
ROUNDS = 3


class AgentUnderTest(PeerUnderTest):
    """One conversation with a fresh agent."""

    our_side = Side.CLIENT

    def __init__(
        self,
        transport: RawChannel,
        dialect: str,
        timeouts: Timeouts,
        *,
        workspace: str,
        needs: str = "",
        settings: AgentSettings | None = None,
    ) -> None:
        super().__init__(transport, dialect, timeouts, needs=needs)
        self.cwd = workspace
        self.file = os.path.join(workspace, "notes.txt")
        self.new = os.path.join(workspace, "made.txt")
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(CONTENT)
        self.capabilities: dict[str, Json] = {}
        """The agent's capabilities, in the terms of v1."""
        self.result: Json = None
        self.initialize_reply: ReceivedFrame | None = None
        self.session_reply: ReceivedFrame | None = None
        """The answer that opened the last session."""
        self.session = ""
        self.permission_kinds: tuple[str, ...] = ALLOW
        self.handlers: dict[str, Callable[[ReceivedFrame], Json]] = {QUESTION: self.permission_outcome, **ANSWERS}
        """How to answer requests, by method of v1: a function returns the result, or None to hold the request."""
        self.held: list[ReceivedFrame] = []
        self._keeps_questions = False  # until `cancel`: they make a turn take long
        self.settings = settings or AgentSettings()

    # --- opening ------------------------------------------------------------------------------------------------

    async def request_initialize(self, capabilities: Json = None, **members: Json) -> ReceivedFrame | None:
        """Send initialize with these capabilities, or all; return the answer as it is."""
        params = {**self.initialize_params(capabilities), **members}
        return await self.request("initialize", params, self.timeouts.start)

    def initialize_params(self, capabilities: Json = None) -> dict[str, Json]:
        """Return the params of initialize with these capabilities, or all."""
        offered = hello.ALL[self.dialect] if capabilities is None else capabilities
        return hello.initialize(self.dialect, self.cwd, offered)

    async def initialize(self, capabilities: Json = None) -> Json:
        """Send initialize; return the raw result. End the probe if the agent lacks the capability in `needs`."""
        frame = await self.request_initialize(capabilities)
        if frame is None or not isinstance(frame.message.get("result"), dict):
            self.inconclusive("the agent did not answer initialize", frame)
        self.initialize_reply = frame
        self.result = frame.message["result"]
        lifted = self._from_wire("initialize", self.result)
        found = lifted.get("agentCapabilities") if isinstance(lifted, dict) else None
        self.capabilities = found if isinstance(found, dict) else {}
        if self.needs and not offers(self.needs, self.capabilities):
            self.mark(frame)
            self.skip(f"the agent does not offer {self.needs.partition('.')[2]}")
        if self.settings.auth_method:
            await log_in(self)
        return self.result

    def new_session_params(self, session: str = "one") -> dict[str, Json]:
        """Return the params of session/new; `session` is the id in dialects where the client chooses it."""
        return hello.new_session(self.dialect, self.cwd, session)

    async def request_session(self, session: str = "one", seconds: float | None = None) -> ReceivedFrame | None:
        """Send session/new; return the answer as it is."""
        return await self.request("session/new", self.new_session_params(session), seconds)

    async def open_session(self, *, capabilities: Json = None, **members: Json) -> str:
        """Send initialize if needed and open a session; return its id."""
        if self.result is None:
            await self.initialize(capabilities)
        wanted = str(uuid.uuid4())
        frame = await self.request("session/new", {**self.new_session_params(wanted), **members}, self.timeouts.start)
        if frame is None or not isinstance(frame.message.get("result"), dict):
            self.inconclusive("the agent opened no session", frame)
        self.session_reply = frame
        self.setup = frame.message["result"]
        found = wanted if self.dialect == "2025.1" else self.setup.get("sessionId")
        self.session = self.assume(
            found if isinstance(found, str) else "", "the agent opened a session without an id", frame
        )
        await choose_options(self)
        return self.session

    def available_modes(self) -> list[str]:
        """Return the ids of the modes of the last session; empty when it has none."""
        modes = self.setup.get("modes")
        known = modes.get("availableModes") if isinstance(modes, dict) else None
        return [str(mode.get("id")) for mode in known or [] if isinstance(mode, dict)]

    async def open_two_sessions(self) -> tuple[str, str]:
        """Open two sessions; end as inconclusive if both have the same id, because another probe covers that."""
        first = await self.open_session()
        second = await self.open_session()
        self.assume(first != second, "two sessions have the same id")
        return first, second

    async def request_in_dialect(self, method: str, params: Json, seconds: float | None = None) -> ReceivedFrame | None:
        """Send a request of v1 in the agent's dialect; return the answer."""
        return await self.request(*self.to_wire(method, params), seconds)

    def require_error(self, frame: ReceivedFrame | None, what: str, *codes: int) -> dict[str, Any]:
        """Require that the answer is an error, with one of these codes if any are given; return the error."""
        frame = self.require(frame, f"{what} was not answered")
        error = frame.message.get("error")
        self.require(isinstance(error, dict), f"{what} was answered with a result", frame)
        found = error.get("code")
        wanted = " or ".join(map(str, codes))
        if codes and found not in codes:
            self._excuse_login(frame)
        self.require(not codes or found in codes, f"{what} was refused with {found!r}, not {wanted}", frame)
        return dict(error)

    async def require_refused(
        self, method: str, params: Json, what: str, *codes: int, seconds: float | None = None
    ) -> None:
        """Send this request, after initialize, and require that it is refused, with one of these codes if any."""
        if self.result is None:
            await self.initialize()
        self.require_error(await self.request(method, params, seconds), what, *codes)

    async def require_session_refused(self, session: Json, what: str) -> None:
        """Require that a prompt with this as its session id is refused."""
        await self.open_session()
        prompt = {"sessionId": "x", "prompt": [{"type": "text", "text": "hello"}]}
        method, params = self.to_wire("session/prompt", prompt)
        params = {**params, hello.SESSION[self.dialect]: session}
        await self.require_refused(method, params, what, seconds=self.timeouts.turn)

    def require_usage(self, turn: PromptTurn, shape: Shape) -> None:
        """Require that the usage in the answer of a turn has this shape, if there is one."""
        usage = turn.answer.result.get("usage") if turn.answer else None
        self.skip_unless(usage is not None, "the agent does not report the usage of a turn")
        self.require_shape(usage, shape, turn.answer, "usage")

    def require_result(self, frame: ReceivedFrame | None, what: str, shape: Shape = object) -> Json:
        """Require that the answer is a result, of this shape; return it."""
        frame = self.require(frame, f"{what} was not answered")
        error = frame.message.get("error")
        detail = error.get("message") if isinstance(error, dict) else error
        self._excuse_login(frame)
        if self.method_answered(frame) == PROMPT and self.settings.excuses(error):
            self.inconclusive(f"the agent answers no prompt at all: {detail}", frame)
        self.require("result" in frame.message, f"{what} was refused: {detail}", frame)
        self.require_shape(frame.message["result"], shape, frame, "result")
        return frame.message["result"]

    async def require_initialize_shape(self, shape: Shape) -> None:
        """Require that the result of initialize has this shape."""
        self.require_shape(await self.initialize(), shape, self.initialize_reply)

    async def require_turn_result(self, purpose: str, what: str) -> None:
        """Require that a turn for this purpose ends with a result."""
        self.require_result((await self.try_turn(purpose)).answer, what)

    def assume_result(self, frame: ReceivedFrame | None, why: str) -> ReceivedFrame:
        """Return the answer; end as inconclusive when there is none, or an error."""
        if frame is None or "error" in frame.message:
            self.inconclusive(why, frame)
        return frame

    def assume_error(self, frame: ReceivedFrame | None, why: str) -> ReceivedFrame:
        """Return the answer; end as inconclusive when there is none, or a result."""
        if frame is None or not isinstance(frame.message.get("error"), dict):
            self.inconclusive(why, frame)
        return frame

    def _excuse_login(self, frame: ReceivedFrame) -> None:
        """End as inconclusive if the agent requires a login, which it may; another requirement covers the code."""
        is_login = self.method_answered(frame) in ("authenticate", "logout")
        if not is_login and "auth" in str(frame.message.get("error", "")).lower():
            self.inconclusive("the agent wants a login first", frame)

    async def require_survival(self, line: bytes, what: str) -> None:
        """Send a line after initialize, and require that the agent still answers."""
        await self.initialize()
        self.send(line)
        await self.collect()
        await self.require_alive(what)

    async def require_alive(self, what: str) -> None:
        """Require that the agent still answers."""
        frame = await self.request("no/such_method", {})
        self.require(frame is not None, f"after {what} the agent answers no more")

    def error_code(self, kind: str) -> int:
        """Return the code of a kind of error in the agent's dialect."""
        return self.codec.error_codes[kind]

    def agent_name(self) -> str:
        """Return the name the agent gave in initialize, or ""."""
        info = self._from_wire("initialize", self.result)
        found = info.get("agentInfo") if isinstance(info, dict) else None
        return str(found.get("name", "")) if isinstance(found, dict) else ""

    # --- turns --------------------------------------------------------------------------------------------------

    def prompt_for(self, purpose: str) -> str:
        """Return the prompt for this purpose; end the probe when there is none."""
        self.purpose = purpose
        prompt = self.assume(self._prompts().get(purpose), "no prompt makes this agent do it")
        return fill_prompt(prompt, file=self.file, new=self.new, dir=self.cwd)

    def has_prompt(self, purpose: str) -> bool:
        """Whether there is a prompt for this purpose."""
        return purpose in self._prompts()

    def _prompts(self) -> Script:
        return self.settings.script or (EVERYTHING if self.agent_name() == "everything" else PLAIN)

    def file_link(self) -> Json:
        """Return a content block that links our file."""
        return {"type": "resource_link", "uri": f"file://{self.file}", "name": "notes.txt"}

    def send_prompt(self, text: str | list[Json], session: str = "") -> PromptTurn:
        """Send a prompt and do not wait."""
        blocks = [{"type": "text", "text": text}] if isinstance(text, str) else text
        session = session or self.session
        method, params = self.to_wire("session/prompt", {"sessionId": session, "prompt": blocks})
        return PromptTurn(id=self.call(method, params), session=session, start=len(self.received))

    def start_turn(self, purpose: str, session: str = "") -> PromptTurn:
        """Send the prompt for this purpose and do not wait."""
        return self.send_prompt(self.prompt_for(purpose), session)

    async def wait_turn(self, turn: PromptTurn, seconds: float | None = None) -> PromptTurn:
        """Wait for the end of a turn: for `seconds`, or as long as frames come."""
        turn.answer = next(iter(self.replies(turn.id)), None)
        for _ in range(1 if seconds is not None else ROUNDS):
            before = len(self.received)
            turn.answer = turn.answer or await self.wait_reply(
                turn.id, self.timeouts.turn if seconds is None else seconds
            )
            if turn.answer is not None or len(self.received) == before:
                break
        result = turn.answer.message.get("result") if turn.answer else None
        if self.codec.is_wide and result is not None:  # the answer is a receipt; the work ends with idle
            await self._wait_idle(turn)
        name = hello.STOP[self.dialect]
        found = result.get(name or "stop_reason") if isinstance(result, dict) else None
        turn.stop = found if isinstance(found, str) else ""
        return turn

    async def _wait_idle(self, turn: PromptTurn) -> None:
        """Wait until the session is idle again after this prompt, if it is in time."""

        def is_over(_: object = None) -> bool:
            states = [frame.update.get("state") for frame in self.updates("state_update", start=turn.start)]
            return "running" in states and states[-1] == "idle"

        if not is_over():
            await self.wait_for(is_over, self.timeouts.turn)

    async def try_prompt(self, text: str | list[Json], session: str = "") -> PromptTurn:
        """Open a session if there is none, send a prompt and wait for the end, if it comes."""
        if not self.session:
            await self.open_session()
        return await self.wait_turn(self.send_prompt(text, session))

    async def try_turn(self, purpose: str, session: str = "") -> PromptTurn:
        """Open a session if there is none, and run one turn for this purpose, answered or not."""
        if not self.session:
            await self.open_session()
        return await self.try_prompt(self.prompt_for(purpose), session)

    async def prompt(self, text: str | list[Json], session: str = "") -> PromptTurn:
        """Run a turn; end as inconclusive if no answer comes."""
        turn = await self.try_prompt(text, session)
        self.assume(turn.answer, "the agent did not end the turn in time")
        return turn

    async def run_turn(self, purpose: str, session: str = "") -> PromptTurn:
        """Run a turn for this purpose; end as inconclusive if no answer comes."""
        turn = await self.try_turn(purpose, session)
        self.assume(turn.answer, "the agent did not end the turn in time")
        return turn

    async def start_slow_turn(self, session: str = "") -> PromptTurn:
        """Start a turn that takes long; return it once it has begun.

        If it ends at once, try one whose permission request stays open until `cancel`.
        """
        if not self.session:
            await self.open_session()
        turn = await self._start_slow_turn(session)
        if self.replies(turn.id) and self.calls(QUESTION):
            self._keeps_questions = True
            self.hold(QUESTION)
            turn = await self._start_slow_turn(session)
        self.assume(not self.replies(turn.id), "the turn that should take long was over at once", self.received[-1])
        return turn

    async def _start_slow_turn(self, session: str) -> PromptTurn:
        turn = self.start_turn("slow", session)
        await self.wait_update("tool_call", "agent_message_chunk", "agent_thought_chunk", seconds=self.timeouts.turn)
        await self.collect()  # a turn that ends by itself in this moment is none that takes long
        return turn

    @asynccontextmanager
    async def slow_turn(self, session: str = "") -> AsyncIterator[PromptTurn]:
        """Run a turn that takes long around the block; cancel it afterwards."""
        turn = await self.start_slow_turn(session)
        yield turn
        self.cancel(turn.session)
        await self.wait_turn(turn)

    async def wait_question(self, purpose: str) -> tuple[PromptTurn, ReceivedFrame]:
        """Start a turn that waits for permission; return it and the question."""
        return await self.wait_request(purpose, QUESTION, "the agent did not ask for permission")

    async def wait_request(self, purpose: str, method: str, why: str = "") -> tuple[PromptTurn, ReceivedFrame]:
        """Start a turn that waits for the answer to a request of this method; return both."""
        await self.open_session()
        self.hold(method)
        turn = self.start_turn(purpose)
        asked = await self.wait_method(method, self.timeouts.turn)
        return turn, self.assume(asked, why or f"the agent did not ask for {method}")

    async def cancel_question(self, turn: PromptTurn, question: ReceivedFrame) -> None:
        """Cancel a turn that waits for permission, answer its question accordingly, and wait for its end."""
        self.cancel()
        self.answer_permission(question, CANCELLED)
        await self.wait_turn(turn)

    def cancel(self, session: str = "") -> None:
        """Cancel the turn in the way of the dialect, and the questions that keep it open."""
        session = session or self.session
        method, params = self.to_wire("session/cancel", {"sessionId": session})
        if self.dialect == "crow":
            self.call(method, params)
        else:
            self.notify(method, params)
        if self._keeps_questions:
            self.handlers[QUESTION] = self.permission_outcome
        for question in list(self.held) if self._keeps_questions else []:
            if question.method == QUESTION and question.params.get("sessionId") == session:
                self.answer_permission(question, CANCELLED)
                self.held.remove(question)

    async def wait_update(self, *kinds: str, seconds: float | None = None) -> ReceivedFrame | None:
        """Return the next update of one of these kinds, None when none comes in time."""
        return await self.wait_for(
            lambda frame: frame.kind in kinds, self.timeouts.turn if seconds is None else seconds
        )

    def turn_text(self, turn: PromptTurn) -> str:
        """Return the text that the agent sent in a turn."""
        found = (frame.update.get("content") for frame in self.updates("agent_message_chunk", start=turn.start))
        return "".join(str(block.get("text", "")) for block in found if isinstance(block, dict))

    def requests(self, *begins: str) -> list[ReceivedFrame]:
        """Return the agent's requests whose method begins so."""
        return [frame for frame in self.received if frame.is_request and frame.method.startswith(begins)]

    # --- serving ------------------------------------------------------------------------------------------------

    def on_frame(self, frame: ReceivedFrame) -> None:
        """Answer a request of the agent; refuse methods without a handler."""
        is_question = frame.method == QUESTION  # in crow an update, with no id
        if not frame.is_request and not (is_question and self.dialect == "crow"):
            return
        serve = self.handlers.get(frame.method)
        if serve is None:
            self.refuse(frame, -32601, f"Method not found: {frame.method}")
            return
        result = serve(frame)
        if result is None:
            self.held.append(frame)
        else:
            self.answer_permission(frame, result) if is_question else self._serve(frame, result)

    def answer_permission(self, frame: ReceivedFrame, result: Json) -> None:
        """Answer a permission request, which is a notification in crow."""
        if frame.is_request:
            self._serve(frame, result)
            return
        params = frame.params
        option_id = result.get("outcome", {}).get("optionId", "")
        call = params.get("toolCall", {}).get("toolCallId")
        response = {"sessionId": params.get("sessionId"), "toolCallId": call, "optionId": option_id}
        self.notify(*self.to_wire("permission_response", response))

    def hold(self, method: str) -> None:
        """Stop answering these requests of the agent; they are kept in `held`."""
        self.handlers[method] = lambda _: None

    def _serve(self, frame: ReceivedFrame, result: Json) -> None:
        if isinstance(result, dict) and "refused" in result:
            self.refuse(frame, result["refused"], result.get("why", "refused"))
            return
        try:
            self.reply_in_dialect(frame, result)
        except DragomanError:
            self.reply(frame, result)

    def permission_outcome(self, question: ReceivedFrame) -> Json:
        """Return the answer to a permission request, as `permission_kinds` says."""
        params = question.params if isinstance(question.params, dict) else {}
        options = [each for each in params.get("options") or [] if isinstance(each, dict)]
        for kind in self.permission_kinds:
            for option in options:
                if option.get("kind") == kind:
                    return {"outcome": {"outcome": "selected", "optionId": option.get("optionId")}}
        return CANCELLED

    def _from_wire(self, method: str, result: Json) -> Json:
        try:
            return self.codec.lift_result(Side.AGENT, method, result)
        except DragomanError:
            return None
