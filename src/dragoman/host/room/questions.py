"""Open questions of one room: sent to all members who may answer, closed by the first answer.

Members who join later are asked too. While nobody who may answer is connected, the deadline is paused.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET

from dragoman.dialect.announced_calls import with_announced
from dragoman.dialect.side_data import with_side_data
from dragoman.errors import ProtocolError
from dragoman.host.limits import HostLimits
from dragoman.host.room.member import Member
from dragoman.host.room.notifications import PERMISSIONS
from dragoman.ids import new_id
from dragoman.policy.decision import ALLOW, DENY
from dragoman.policy.grants import Scope
from dragoman.roles.client.permission.questions import PermissionChoice, PermissionPrompt
from dragoman.schema.base import to_json
from dragoman.schema.content import TextContent
from dragoman.schema.elicitation import CreateElicitationResult, ElicitationMode
from dragoman.schema.permission import (
    PermissionOption,
    RequestPermissionParams,
    RequestPermissionResult,
    SelectedOutcome,
)
from dragoman.schema.toolcall import Diff, ToolCallBlock, ToolCallUpdate
from dragoman.store.contract import EntryKind
from dragoman.store.session_log import SessionLog
from dragoman.wire.envelope import Id

if TYPE_CHECKING:
    from dragoman.host.account_calls import Caller
    from dragoman.roles.client.permission.guard import Guard


# Characters of a question in lists of sessions.
MAX_TITLE = 200


class MemberAnswer(NamedTuple):
    """The outcome of a question: a result or None, who answered, and why nobody did."""

    result: Any
    by: str = ""
    reason: str = ""


class _OpenQuestion:
    """A question that waits for an answer."""

    def __init__(self, method: str, params: Any, gate: str, timeout: float) -> None:
        self.method = method
        self.params = params
        self.gate = gate
        self.answer: asyncio.Future[MemberAnswer] = asyncio.get_running_loop().create_future()
        self.asked_members: dict[str, tuple[Member, Id]] = {}  # by connection: who is being asked, under which id
        self.dismissed_by: set[str] = set()  # connections whose users dismissed it, or that cannot answer
        self.remaining = timeout  # time left while somebody who may answer is connected
        self.timer: asyncio.TimerHandle | None = None
        self.running_since: float | None = None  # when the deadline started running; None while it is paused

    def close(self, answer: MemberAnswer) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)


class Questions:
    """All open questions of one room."""

    def __init__(self, members: Callable[[], Iterable[Member]], limits: HostLimits) -> None:
        self._members = members
        self._limits = limits
        self._open: list[_OpenQuestion] = []
        self.on_change: Callable[[], None] = lambda: None  # a question was opened or closed

    @property
    def has_open(self) -> bool:
        """Whether any question is open."""
        return bool(self._open)

    @property
    def first_title(self) -> str:
        """What the first open question is about, in one line."""
        if not self._open:
            return ""
        params = self._open[0].params
        call = getattr(params, "tool_call", None)
        text = (call.title if call is not None else getattr(params, "message", "")) or ""
        return " ".join(text.split())[:MAX_TITLE]

    async def ask(self, method: str, params: Any) -> MemberAnswer:
        """Ask all who may answer and return the first answer. Cancelling withdraws the question everywhere."""
        gate = ""
        if method == "elicitation/create":
            mode = params.mode if params.mode in (ElicitationMode.FORM, ElicitationMode.URL) else ElicitationMode.FORM
            gate = f"client.elicitation.{mode}"
        question = _OpenQuestion(method, params, gate, self._limits.answer_timeout)
        self._open.append(question)
        self.on_change()
        try:
            self._refresh(question)
            return await question.answer
        finally:
            self._open.remove(question)
            self.on_change()
            if question.timer is not None:
                question.timer.cancel()
            for member, id in question.asked_members.values():
                member.client.connection.cancel_request(id, wait=False)

    def add_member(self, member: Member) -> None:
        """Ask a new member the open questions."""
        for question in list(self._open):
            question.dismissed_by.discard(member.client.id)
            self._refresh(question)

    def remove_member(self, member: Member) -> None:
        """Withdraw the open questions from a member who left or may not answer any more."""
        for question in list(self._open):
            asked = question.asked_members.pop(member.client.id, None)
            if asked is not None:
                member.client.connection.cancel_request(asked[1], wait=False)
            self._refresh(question)

    def refresh(self) -> None:
        """Pause or resume the deadlines, because a member lost its socket or has one again."""
        for question in list(self._open):
            self._refresh(question)

    # --- one question -----------------------------------------------------------------------------------------

    def _eligible_members(self, question: _OpenQuestion) -> list[Member]:
        """Return the members who may and can answer, whether or not they dismissed the question."""
        eligible = [
            member
            for member in self._members()
            if member.is_live
            and member.can_control
            and (not question.gate or member.client.connection.offers(question.gate))
        ]
        # An emulator answers for clients that cannot be asked. They are asked only if nobody else is there.
        return [member for member in eligible if member.client.dialect.can_ask] or eligible

    def _refresh(self, question: _OpenQuestion) -> None:
        """Ask those who were not asked yet, and pause or resume the deadline."""
        if question.answer.done():
            return
        eligible = self._eligible_members(question)
        if not eligible and question.gate and any(member.is_live and member.can_control for member in self._members()):
            # Else the prompt would wait for nothing.
            question.close(MemberAnswer(None, "", "no client in this session can show it"))
            return
        for member in eligible:
            if member.client.id not in question.asked_members and member.client.id not in question.dismissed_by:
                self._ask_member(question, member)
        if question.answer.done():
            return
        if eligible and all(member.client.id in question.dismissed_by for member in eligible):
            last = eligible[-1].client.principal.user
            question.close(MemberAnswer(None, last, "the question was dismissed without an answer"))
            return
        # A client that lost its socket for a moment still counts as present, but its time does not run.
        waits = self._limits.waits_unattended
        self._update_deadline(question, any(member.client.is_connected or not waits for member in eligible))

    def _ask_member(self, question: _OpenQuestion, member: Member) -> None:
        client = member.client
        is_answered = False

        def done(result: Any, error: ProtocolError | None) -> None:
            nonlocal is_answered
            is_answered = True
            question.asked_members.pop(client.id, None)
            if question.answer.done() or client.connection.failure is not None:
                return
            if error is None and is_answer(question.params, result):
                question.close(MemberAnswer(result, client.principal.user))
                return
            question.dismissed_by.add(client.id)
            self._refresh(question)

        params = question.params
        if isinstance(params, RequestPermissionParams):
            call = member.terminals.for_client(client, params.tool_call)
            params = msgspec.structs.replace(params, tool_call=call)
        if PERMISSIONS in client.topics:
            params = with_side_data(params, secondsLeft=round(self._seconds_left(question)))
        id: Any = client.connection.call(question.method, params, done)
        if not is_answered:
            question.asked_members[client.id] = (member, id)

    def _seconds_left(self, question: _OpenQuestion) -> float:
        """Return how long a member who is asked now has for the answer."""
        if question.running_since is None:
            return question.remaining
        return question.remaining - (asyncio.get_running_loop().time() - question.running_since)

    def _update_deadline(self, question: _OpenQuestion, is_attended: bool) -> None:
        loop = asyncio.get_running_loop()
        if is_attended and question.running_since is None:
            question.running_since = loop.time()
            self._set_timer(question, question.remaining, "nobody answered in time")
        elif not is_attended and (question.running_since is not None or question.timer is None):
            if question.running_since is not None:
                question.remaining -= loop.time() - question.running_since
                question.running_since = None
            if not self._limits.waits_unattended:
                question.close(MemberAnswer(None, "", "nobody is present who may answer"))
                return
            self._set_timer(question, self._limits.unattended_timeout, "nobody joined who may answer")

    def _set_timer(self, question: _OpenQuestion, delay: float, reason: str) -> None:
        if question.timer is not None:
            question.timer.cancel()
        loop = asyncio.get_running_loop()
        question.timer = loop.call_later(max(delay, 0.0), question.close, MemberAnswer(None, "", reason))


def is_answer(params: Any, result: Any) -> bool:
    """Tell whether this is an answer: an offered option, or a reply that is not just a dismissal."""
    if isinstance(result, RequestPermissionResult) and isinstance(params, RequestPermissionParams):
        outcome = result.outcome
        offered = {option.option_id for option in params.options}
        return isinstance(outcome, SelectedOutcome) and outcome.option_id in offered
    return isinstance(result, CreateElicitationResult) and result.action in ("accept", "decline")


# Characters of a change that members are shown. It is also logged, for each question.
MAX_SHOWN_TEXT = 200_000

# Decided by the policy, not by a member.
POLICY = "policy"

# The agent's request that the guard is asking about in this task; None for a use of the host's workspace.
_current_request: contextvars.ContextVar[RequestPermissionParams | None] = contextvars.ContextVar(
    "asking", default=None
)

# Options for a use of the host's workspace, where the agent offers none.
_USE_OPTIONS = (
    (PermissionOption(option_id="allow", name="Allow", kind="allow_once"), PermissionChoice(ALLOW)),
    (
        PermissionOption(option_id="session", name="Allow in this session", kind="allow_always"),
        PermissionChoice(ALLOW, Scope.SESSION),
    ),
    (PermissionOption(option_id="deny", name="Deny", kind="reject_once"), PermissionChoice(DENY)),
)


class AgentQuestions:
    """Permission requests and elicitations of the agent of one room."""

    def __init__(self, session: str, questions: Questions, log: SessionLog) -> None:
        self._session = session
        self._questions = questions
        self._log = log
        self._deciders: dict[str, str] = {}
        self.opening_client: Caller | None = None  # asked while the session is being opened and has no members

    async def request_permission(self, guard: Guard, params: RequestPermissionParams) -> str | None:
        """Answer a permission request of the agent: the policy decides, or the members do."""
        token = _current_request.set(params)
        try:
            return await guard.request_permission(params)
        finally:
            _current_request.reset(token)

    async def ask_members(self, prompt: PermissionPrompt) -> PermissionChoice | None:
        """Ask the members what the policy does not decide."""
        params = _current_request.get()
        if params is None:
            return await self._ask_workspace_use(prompt)
        call = with_announced(params.tool_call, prompt.tool_call)  # a member may not have got the updates before
        question_params = msgspec.structs.replace(params, session_id=self._session, tool_call=call)
        answer = await self._questions.ask("session/request_permission", question_params)
        self._deciders[params.tool_call.tool_call_id] = answer.by or POLICY
        if answer.result is None:
            return None if answer.by else PermissionChoice(DENY, explanation=answer.reason)
        return PermissionChoice(option_id=answer.result.outcome.option_id, user=answer.by or "")

    async def _ask_workspace_use(self, prompt: PermissionPrompt) -> PermissionChoice | None:
        """Ask the members about a use of the host's workspace, and log question and answer."""
        options = [option for option, choice in _USE_OPTIONS if choice.scope == Scope.ONCE or prompt.can_be_remembered]
        lines = prompt.lines
        call = ToolCallUpdate(
            tool_call_id=f"use_{new_id()}",
            title=lines[0],
            raw_input={"asked": lines},
            content=_written_content(prompt) or UNSET,
        )
        params = RequestPermissionParams(session_id=self._session, tool_call=call, options=options)
        log = self._log
        await log.append_and_wait(EntryKind.ASKED, to_json(params), actor="dragoman")
        answer = await self._questions.ask("session/request_permission", params)
        outcome = answer.result.outcome if answer.result is not None else None
        chosen = outcome.option_id if isinstance(outcome, SelectedOutcome) else ""
        outcome_json = {"outcome": "selected", "optionId": chosen} if chosen else {"outcome": "cancelled"}
        body = {"toolCallId": call.tool_call_id, "outcome": outcome_json}
        await log.append_and_wait(EntryKind.DECIDED, body, actor=answer.by or POLICY)
        choice = next((choice for option, choice in _USE_OPTIONS if option.option_id == chosen), None)
        if choice is None:
            choice = PermissionChoice(DENY, explanation=answer.reason or "the question was dismissed")
        return msgspec.structs.replace(choice, user=answer.by or "")

    async def elicit(self, params: Any) -> Any:
        """Ask a member who can show the form or link. The members know the session, not our request id."""
        if self.opening_client is not None:
            return await self.opening_client.elicit(params)
        question_params = msgspec.structs.replace(params, session_id=self._session, request_id=UNSET)
        answer = await self._questions.ask("elicitation/create", question_params)
        self._deciders[_elicitation_key(params)] = answer.by or POLICY
        return answer.result

    def take_decider(self, params: Any) -> str:
        """Return who answered a question: a member, or the policy."""
        call = getattr(params, "tool_call", None)
        return self._deciders.pop(call.tool_call_id if call is not None else _elicitation_key(params), POLICY)


def _written_content(prompt: PermissionPrompt) -> list[Any]:
    """Return what a write would write: a change that clients compare, or as much as can be shown."""
    text, current = prompt.new_text, prompt.current_text
    if text is None:
        lines = prompt.data_lines if prompt.data is not None else []
        return [_text_block("```\n" + "\n".join(lines) + "\n```")] if lines else []
    if len(text) + len(current or "") <= MAX_SHOWN_TEXT:
        return [Diff(path=prompt.questions[0].resource, old_text=current, new_text=text)]
    excerpt = text[: MAX_SHOWN_TEXT // 2]
    return [_text_block(f"The first {len(excerpt)} of {len(text)} characters to write:\n\n{excerpt}")]


def _text_block(text: str) -> ToolCallBlock:
    return ToolCallBlock(content=TextContent(text=text))


def _elicitation_key(params: Any) -> str:
    return f"elicitation {params.elicitation_id or id(params)}"
