"""The stage before an agent: we are the client, and serve what the agent asks for unless the probe does it itself.

Opens conversations, prompts, cancels, and answers files, terminals and permission from a small workspace of its own.
A step that is only on the way (an agent that opens no session) ends a probe as inconclusive, for another probe is about
it. Below is the stage, above are the probes of agents.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from io import TextIOWrapper
from typing import Any

import msgspec

from dragoman.config.private_files import open_regular
from dragoman.conformance.harness import hello
from dragoman.conformance.harness.peer import Heard, Json, Line, Stage
from dragoman.conformance.harness.timeouts import Pace
from dragoman.conformance.prompts import EVERYTHING, PLAIN, Script
from dragoman.engine.peer_info import offers
from dragoman.errors import DragomanError
from dragoman.schema.side import Side

CONTENT = "first line\nsecond line\nthird line\n"

# What leave is given: an option of one of these kinds, the first that is there.
ALLOW = ("allow_once", "allow_always")
REJECT = ("reject_once", "reject_always")


# The end of a turn in which something happens is waited for so many times: models are slow, and some never stop.
ROUNDS = 3


class Spoken(msgspec.Struct, eq=False):
    """A turn: the id of its prompt, the frame number it began at, and its answer (None: none in time)."""

    id: Json
    session: str
    start: int
    answer: Heard | None = None
    stop: str = ""


class AgentStage(Stage):
    """One conversation with a fresh agent."""

    we = Side.CLIENT

    def __init__(
        self,
        transport: Line,
        dialect: str,
        pace: Pace,
        *,
        workspace: str,
        needs: str = "",
        script: Script | None = None,
    ) -> None:
        super().__init__(transport, dialect, pace, needs=needs)
        self.cwd = workspace
        self.file = os.path.join(workspace, "notes.txt")
        self.new = os.path.join(workspace, "made.txt")
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(CONTENT)
        self.capabilities: dict[str, Json] = {}
        """What the agent said it can do, in the vocabulary's words."""
        self.result: Json = None
        self.introduction: Heard | None = None
        """The answer to initialize, whatever was written before it."""
        self.opened_by: Heard | None = None
        """The answer that opened the last session."""
        self.session = ""
        self.leave: tuple[str, ...] = ALLOW
        self.serves: dict[str, Callable[[Heard], Json]] = {**_SERVED}
        """How requests are answered, by the vocabulary's method: a function gives the result, None holds it back."""
        self.held: list[Heard] = []
        self.written: dict[str, str] = {}
        self._script = script

    # --- opening ------------------------------------------------------------------------------------------------

    async def initialized(self, capabilities: Json = None) -> Json:
        """Introduce ourselves; gives the raw result. Ends the probe where the requirement needs what is not offered."""
        lent = hello.ALL[self.dialect] if capabilities is None else capabilities
        id = self.call("initialize", hello.initialize(self.dialect, self.cwd, lent))
        heard = await self.answered(id, self.pace.start)
        if heard is None or not isinstance(heard.message.get("result"), dict):
            self.unsure("the agent did not introduce itself", heard)
        assert heard is not None
        self.introduction = heard
        self.result = heard.message["result"]
        lifted = self._lifted("initialize", self.result)
        found = lifted.get("agentCapabilities") if isinstance(lifted, dict) else None
        self.capabilities = found if isinstance(found, dict) else {}
        if self.needs and not offers(self.needs, self.capabilities):
            self.mark(heard)
            self.skip(f"the agent does not offer {self.needs.partition('.')[2]}")
        return self.result

    async def opened(self, *, capabilities: Json = None, **members: Json) -> str:
        """Introduce ourselves if need be and open a session; gives its id."""
        if self.result is None:
            await self.initialized(capabilities)
        wanted = str(uuid.uuid4())
        params = {**hello.new_session(self.dialect, self.cwd, wanted), **members}
        heard = await self.asked("session/new", params, self.pace.start)
        if heard is None or not isinstance(heard.message.get("result"), dict):
            self.unsure("the agent opened no session", heard)
        assert heard is not None
        self.opened_by = heard
        self.setup = heard.message["result"]
        found = wanted if self.dialect == "2025.1" else self.setup.get("sessionId")
        if not isinstance(found, str) or not found:
            self.unsure("the agent opened a session without an id", heard)
        self.session = str(found)
        return self.session

    async def opened_two(self) -> tuple[str, str]:
        """Open two sessions; two of the same id end the probe as inconclusive, for another is about that."""
        first = await self.opened()
        second = await self.opened()
        if first == second:
            self.unsure("two sessions have the same id")
        return first, second

    async def asked(self, method: str, params: Json, seconds: float | None = None) -> Heard | None:
        """Say a request exactly so; gives the answer, None when none comes in time."""
        return await self.answered(self.call(method, params), seconds)

    async def requested(self, method: str, params: Json, seconds: float | None = None) -> Heard | None:
        """Say a request of the vocabulary in the agent's dialect; gives the answer."""
        return await self.asked(*self.spelled(method, params), seconds)

    def refused(self, heard: Heard | None, what: str, *codes: int) -> dict[str, Any]:
        """Require that this answer is an error, of one of these codes if any are given; gives the error."""
        self.require(heard is not None, f"{what} was not answered")
        assert heard is not None
        error = heard.message.get("error")
        self.require(isinstance(error, dict), f"{what} was answered with a result", heard)
        found = error.get("code")
        wanted = " or ".join(map(str, codes))
        if codes and found not in codes:
            self._unlocked(heard)
        self.require(not codes or found in codes, f"{what} was refused with {found!r}, not {wanted}", heard)
        return dict(error)

    def granted(self, heard: Heard | None, what: str) -> Json:
        """Require that this answer is a result; gives it."""
        self.require(heard is not None, f"{what} was not answered")
        assert heard is not None
        error = heard.message.get("error")
        told = error.get("message") if isinstance(error, dict) else error
        self._unlocked(heard)
        self.require("result" in heard.message, f"{what} was refused: {told}", heard)
        return heard.message["result"]

    def _unlocked(self, heard: Heard) -> None:
        """An agent that wants a login first is in its right; which number says so is another requirement."""
        is_login = self.asked_by(heard) in ("authenticate", "logout")
        if not is_login and "auth" in str(heard.message.get("error", "")).lower():
            self.unsure("the agent wants a login first", heard)

    async def alive(self, what: str) -> None:
        """Require that the agent still answers, after something."""
        heard = await self.asked("no/such_method", {})
        self.require(heard is not None, f"after {what} the agent answers no more")

    def code(self, kind: str) -> int:
        """The number of a kind of error in the agent's dialect."""
        return self.spelling.error_codes[kind]

    def name_of_agent(self) -> str:
        """What the agent calls itself, "" when it does not say."""
        info = self._lifted("initialize", self.result)
        found = info.get("agentInfo") if isinstance(info, dict) else None
        return str(found.get("name", "")) if isinstance(found, dict) else ""

    # --- turns --------------------------------------------------------------------------------------------------

    def words(self, purpose: str) -> str:
        """What to prompt with for this purpose; ends the probe when there are no words for it."""
        script = self._script or (EVERYTHING if self.name_of_agent() == "everything" else PLAIN)
        if purpose not in script:
            self.unsure(f"there are no words to make this agent do it; give some for {purpose!r} with --script")
        return script[purpose].format(file=self.file, new=self.new, dir=self.cwd)

    def begin(self, text: str | list[Json], session: str = "", id: Json = None) -> Spoken:
        """Prompt and do not wait."""
        blocks = [{"type": "text", "text": text}] if isinstance(text, str) else text
        session = session or self.session
        method, params = self.spelled("session/prompt", {"sessionId": session, "prompt": blocks})
        return Spoken(id=self.call(method, params, id), session=session, start=len(self.heard))

    async def ended(self, turn: Spoken, seconds: float | None = None) -> Spoken:
        """Wait for the end of a turn: so long, or as long as something comes."""
        came = (heard for heard in self.heard[turn.start :] if heard.is_reply and heard.message.get("id") == turn.id)
        turn.answer = next(came, None)
        for _ in range(1 if seconds is not None else ROUNDS):
            before = len(self.heard)
            turn.answer = turn.answer or await self.answered(turn.id, self.pace.turn if seconds is None else seconds)
            if turn.answer is not None or len(self.heard) == before:
                break
        result = turn.answer.message.get("result") if turn.answer else None
        name = hello.STOP[self.dialect]
        found = result.get(name or "stop_reason") if isinstance(result, dict) else None
        turn.stop = found if isinstance(found, str) else ""
        return turn

    async def prompted(self, text: str | list[Json], session: str = "") -> Spoken:
        """Prompt and wait for the end; a turn without an answer ends the probe as inconclusive."""
        turn = await self.ended(self.begin(text, session))
        if turn.answer is None:
            self.unsure("the agent did not end the turn in time")
        return turn

    async def did(self, purpose: str, session: str = "") -> Spoken:
        """Open what is not open, and have one turn for a purpose."""
        if not self.session:
            await self.opened()
        return await self.prompted(self.words(purpose), session)

    def cancel(self, session: str = "") -> None:
        """Cancel the turn, as the dialect does it."""
        method, params = self.spelled("session/cancel", {"sessionId": session or self.session})
        if self.dialect == "crow":
            self.call(method, params)
        else:
            self.tell(method, params)

    async def until_kind(self, *kinds: str, seconds: float | None = None) -> Heard | None:
        """The next update of one of these kinds, None when none comes in time."""
        return await self.until(lambda heard: heard.kind in kinds, self.pace.turn if seconds is None else seconds)

    def text(self, turn: Spoken) -> str:
        """What the agent said in a turn."""
        found = (heard.update.get("content") for heard in self.updates("agent_message_chunk", turn.start))
        return "".join(str(block.get("text", "")) for block in found if isinstance(block, dict))

    # --- serving ------------------------------------------------------------------------------------------------

    def attend(self, heard: Heard) -> None:
        """Answer what the agent asks for; what nobody serves is refused as a method that is not there."""
        is_question = heard.method == "session/request_permission"  # in crow an update, with no id
        if not heard.is_request and not (is_question and self.dialect == "crow"):
            return
        serve = self.serves.get(heard.method)
        if serve is None:
            self.refuse(heard, -32601, f"Method not found: {heard.method}")
            return
        params = heard.params if isinstance(heard.params, dict) else {}
        result = self.decided(params) if is_question and serve is _decide else serve(heard)
        if result is None:
            self.held.append(heard)
        else:
            self.answer_question(heard, result) if is_question else self._serve(heard, result)

    def answer_question(self, heard: Heard, result: Json) -> None:
        """Answer a question for leave, which is no request in crow."""
        if heard.is_request:
            self._serve(heard, result)
            return
        params = heard.params
        chosen = result.get("outcome", {}).get("optionId", "")
        call = params.get("toolCall", {}).get("toolCallId")
        response = {"sessionId": params.get("sessionId"), "toolCallId": call, "optionId": chosen}
        self.tell(*self.spelled("permission_response", response))

    def hold(self, method: str) -> None:
        """From now on these requests of the agent are not answered; they are in `held`."""
        self.serves[method] = _held

    def _serve(self, heard: Heard, result: Json) -> None:
        if isinstance(result, dict) and "refused" in result:
            self.refuse(heard, result["refused"], result.get("why", "refused"))
            return
        try:
            self.answer_as(heard, result)
        except DragomanError:
            self.reply(heard, result)

    def decided(self, params: dict[str, Any]) -> Json:
        """The answer to a question for leave, as `leave` says."""
        options = [each for each in params.get("options") or [] if isinstance(each, dict)]
        for kind in self.leave:
            for option in options:
                if option.get("kind") == kind:
                    return {"outcome": {"outcome": "selected", "optionId": option.get("optionId")}}
        return {"outcome": {"outcome": "cancelled"}}

    def _lifted(self, method: str, result: Json) -> Json:
        try:
            return self.spelling.lift_result(Side.AGENT, method, result)
        except DragomanError:
            return None


def _held(_: Heard) -> Json:
    return None


def _decide(_: Heard) -> Json:
    raise AssertionError("the stage decides")


def _read(heard: Heard) -> Json:
    try:
        with TextIOWrapper(open_regular(str(heard.params.get("path"))), encoding="utf-8") as file:
            lines = file.read().splitlines(keepends=True)
    except OSError as error:
        return {"refused": -32002, "why": f"Resource not found: {error.strerror}"}
    start = max(int(heard.params.get("line") or 1) - 1, 0)
    limit = heard.params.get("limit")
    return {"content": "".join(lines[start : None if limit is None else start + int(limit)])}


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting for a reader of a pipe: there is none, and that is an error then."""
    return os.open(path, flags | os.O_NONBLOCK, 0o666)


def _write(heard: Heard) -> Json:
    try:
        with open(str(heard.params.get("path")), "w", encoding="utf-8", opener=_open_at_once) as file:
            file.write(str(heard.params.get("content")))
    except OSError as error:
        return {"refused": -32603, "why": f"cannot write: {error.strerror}"}
    return {}


# A client's side of what agents ask for. Terminals are played: no agent can tell, and nothing is left running.
_SERVED: dict[str, Callable[[Heard], Json]] = {
    "session/request_permission": _decide,
    "fs/read_text_file": _read,
    "fs/write_text_file": _write,
    "terminal/create": lambda _: {"terminalId": "terminal-1"},
    "terminal/output": lambda _: {"output": "hello", "truncated": False, "exitStatus": {"exitCode": 0, "signal": None}},
    "terminal/wait_for_exit": lambda _: {"exitCode": 0, "signal": None},
    "terminal/kill": lambda _: {},
    "terminal/release": lambda _: {},
    "elicitation/create": lambda _: {"action": "decline"},
}
