"""The open questions of one room: put to all who may answer, closed by the first who does.

Takes a question of the agent's, or of the policy's, and puts it to every member who may answer; also to those who come
later. While nobody is there who could answer, its deadline stands still. Above is the room; below are connections.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dragoman.policy.decision import ALLOW, DENY
from dragoman.policy.grants import Scope
from dragoman.roles.agent.session import new_id
from dragoman.roles.client.permission.prompt import PermissionChoice, PermissionPrompt
from dragoman.schema.base import to_json
from dragoman.schema.permission import PermissionOption, RequestPermissionParams, SelectedOutcome
from dragoman.schema.toolcall import ToolCallUpdate
from dragoman.store.contract import EntryKind
from dragoman.store.session_log import SessionLog

if TYPE_CHECKING:
    from dragoman.host.account_calls import Caller
    from dragoman.roles.client.permission.guard import Guard

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from dragoman.errors import ProtocolError
from dragoman.host.limits import HostLimits
from dragoman.host.room.member import Member
from dragoman.schema.elicitation import CreateElicitationResult, ElicitationMode
from dragoman.schema.permission import RequestPermissionResult
from dragoman.wire.envelope import Id

# Clients of these dialects cannot be asked: their ledger answers for them, by what they lend (dialect/y2025/consent).
# So they are asked only where nobody else is there.
UNASKABLE_DIALECTS = frozenset({"2025.1"})


class MemberAnswer(NamedTuple):
    """What became of a question: a result, or None; who said so, and in words why nobody did."""

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
        self.dismissed_by: set[str] = set()  # connections whose users closed it, or that cannot answer
        self.remaining = timeout  # of the time that somebody who may answer is there
        self.timer: asyncio.TimerHandle | None = None
        self.running_since: float | None = None  # when the patience began to run again; None while nobody is there

    def close(self, answer: MemberAnswer) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)


class Questions:
    """All that is being asked in one room."""

    def __init__(self, members: Callable[[], Iterable[Member]], bounds: HostLimits) -> None:
        self._members = members
        self._bounds = bounds
        self._open: list[_OpenQuestion] = []

    @property
    def has_open(self) -> bool:
        """Whether anything is being asked."""
        return bool(self._open)

    async def ask(self, method: str, params: Any) -> MemberAnswer:
        """Ask all who may answer and give the first answer; being cancelled takes the question back everywhere."""
        gate = ""
        if method == "elicitation/create":
            mode = params.mode if params.mode in (ElicitationMode.FORM, ElicitationMode.URL) else ElicitationMode.FORM
            gate = f"client.elicitation.{mode}"
        question = _OpenQuestion(method, params, gate, self._bounds.answer_timeout)
        self._open.append(question)
        try:
            self._refresh(question)
            return await question.answer
        finally:
            self._open.remove(question)
            if question.timer is not None:
                question.timer.cancel()
            for member, id in question.asked_members.values():
                member.client.connection.cancel_request(id, wait=False)

    def add_member(self, member: Member) -> None:
        """Somebody is there who may hear what is being asked."""
        for question in list(self._open):
            question.dismissed_by.discard(member.client.id)
            self._refresh(question)

    def remove_member(self, member: Member) -> None:
        """Somebody left, or may not answer any more."""
        for question in list(self._open):
            asked = question.asked_members.pop(member.client.id, None)
            if asked is not None:
                member.client.connection.cancel_request(asked[1], wait=False)
            self._refresh(question)

    def refresh(self) -> None:
        """Somebody lost the socket, or has one again: deadlines stand still, or run."""
        for question in list(self._open):
            self._refresh(question)

    # --- one question -----------------------------------------------------------------------------------------

    def _eligible_members(self, question: _OpenQuestion) -> list[Member]:
        """Who may answer and can, dismissed or not."""
        able = [
            member
            for member in self._members()
            if member.is_live
            and member.can_control
            and (not question.gate or member.client.connection.offers(question.gate))
        ]
        return [member for member in able if member.client.dialect not in UNASKABLE_DIALECTS] or able

    def _refresh(self, question: _OpenQuestion) -> None:
        """Ask those who were not asked yet, and let the deadline run or stand still."""
        if question.answer.done():
            return
        able = self._eligible_members(question)
        if not able and question.gate and any(member.is_live and member.can_control for member in self._members()):
            question.close(
                MemberAnswer(None, "", "no client that is here can show it")
            )  # its prompter would wait in vain
            return
        for member in able:
            if member.client.id not in question.asked_members and member.client.id not in question.dismissed_by:
                self._ask_member(question, member)
        if question.answer.done():
            return
        if able and all(member.client.id in question.dismissed_by for member in able):
            question.close(
                MemberAnswer(None, able[-1].client.principal.user, "the question was closed without an answer")
            )
            return
        # Who lost the socket for a moment is there enough not to be answered for, and too far to be hurried.
        is_attended = (
            any(member.client.is_connected for member in able) if self._bounds.waits_unattended else bool(able)
        )
        self._update_deadline(question, is_attended)

    def _ask_member(self, question: _OpenQuestion, member: Member) -> None:
        desk = member.client
        is_answered = False

        def done(result: Any, error: ProtocolError | None) -> None:
            nonlocal is_answered
            is_answered = True
            question.asked_members.pop(desk.id, None)
            if question.answer.done() or desk.connection.failure is not None:
                return
            if error is None and is_answer(question.params, result):
                question.close(MemberAnswer(result, desk.principal.user))
                return
            question.dismissed_by.add(desk.id)
            self._refresh(question)

        id: Any = desk.connection.call(question.method, question.params, done)
        if not is_answered:
            question.asked_members[desk.id] = (member, id)

    def _update_deadline(self, question: _OpenQuestion, is_attended: bool) -> None:
        loop = asyncio.get_running_loop()
        if is_attended and question.running_since is None:
            question.running_since = loop.time()
            self._set_timer(question, question.remaining, "nobody answered in time")
        elif not is_attended and (question.running_since is not None or question.timer is None):
            if question.running_since is not None:
                question.remaining -= loop.time() - question.running_since
                question.running_since = None
            if not self._bounds.waits_unattended:
                question.close(MemberAnswer(None, "", "nobody is there who may answer"))
                return
            self._set_timer(question, self._bounds.unattended_timeout, "nobody came who may answer")

    def _set_timer(self, question: _OpenQuestion, delay: float, reason: str) -> None:
        if question.timer is not None:
            question.timer.cancel()
        loop = asyncio.get_running_loop()
        question.timer = loop.call_later(max(delay, 0.0), question.close, MemberAnswer(None, "", reason))


def is_answer(params: Any, result: Any) -> bool:
    """Whether this is an answer: an option that was offered, or a reply that is not merely a closed window."""
    if isinstance(result, RequestPermissionResult) and isinstance(params, RequestPermissionParams):
        outcome = result.outcome
        offered = {option.option_id for option in params.options}
        return isinstance(outcome, SelectedOutcome) and outcome.option_id in offered
    return isinstance(result, CreateElicitationResult) and result.action in ("accept", "decline")


# Nobody of the members decided this: the policy of the house did.
POLICY = "policy"


# The question of the agent's that a guard is asked about in this task; none where it is the use of something lent.
_current_request: contextvars.ContextVar[RequestPermissionParams | None] = contextvars.ContextVar(
    "asking", default=None
)


# What members can answer to the use of something lent, which no agent offers options for.
_USE_OPTIONS = (
    (PermissionOption(option_id="allow", name="Allow", kind="allow_once"), PermissionChoice(ALLOW)),
    (
        PermissionOption(option_id="session", name="Allow in this session", kind="allow_always"),
        PermissionChoice(ALLOW, Scope.SESSION),
    ),
    (PermissionOption(option_id="deny", name="Deny", kind="reject_once"), PermissionChoice(DENY)),
)


class AgentQuestions:
    """Leave and facts in one room."""

    def __init__(self, session: str, questions: Questions, log: Callable[[], SessionLog]) -> None:
        self._session = session
        self._questions = questions
        self._log = log
        self._deciders: dict[str, str] = {}
        self.opening_client: Caller | None = None  # who is asked while the session is being opened, and nobody is in it

    async def request_permission(self, guard: Guard, params: RequestPermissionParams) -> str | None:
        """A question of the agent's: policy decides, or asks the members."""
        token = _current_request.set(params)
        try:
            return await guard.request_permission(params)
        finally:
            _current_request.reset(token)

    async def ask_members(self, prompt: PermissionPrompt) -> PermissionChoice | None:
        """What policy does not decide."""
        params = _current_request.get()
        if params is None:
            return await self._ask_workspace_use(prompt)
        wanted = msgspec.structs.replace(params, session_id=self._session)
        answer = await self._questions.ask("session/request_permission", wanted)
        self._deciders[params.tool_call.tool_call_id] = answer.by or POLICY
        if answer.result is None:
            return None if answer.by else PermissionChoice(DENY, explanation=answer.reason)
        return PermissionChoice(option_id=answer.result.outcome.option_id)

    async def _ask_workspace_use(self, prompt: PermissionPrompt) -> PermissionChoice | None:
        """The use of something the host lends: a question like any other, in the log as well."""
        options = [option for option, choice in _USE_OPTIONS if choice.scope == Scope.ONCE or prompt.can_be_remembered]
        lines = prompt.lines
        call = ToolCallUpdate(tool_call_id=f"use_{new_id()}", title=lines[0], raw_input={"asked": lines})
        params = RequestPermissionParams(session_id=self._session, tool_call=call, options=options)
        chronicle = self._log()
        await chronicle.append_and_wait(EntryKind.ASKED, to_json(params), actor="dragoman")
        answer = await self._questions.ask("session/request_permission", params)
        outcome = answer.result.outcome if answer.result is not None else None
        chosen = outcome.option_id if isinstance(outcome, SelectedOutcome) else ""
        told = {"outcome": "selected", "optionId": chosen} if chosen else {"outcome": "cancelled"}
        body = {"toolCallId": call.tool_call_id, "outcome": told}
        await chronicle.append_and_wait(EntryKind.DECIDED, body, actor=answer.by or POLICY)
        choice = next((choice for option, choice in _USE_OPTIONS if option.option_id == chosen), None)
        return choice or PermissionChoice(DENY, explanation=answer.reason or "the question was closed")

    async def elicit(self, params: Any) -> Any:
        """A form or a link: whoever can show it. Requests of ours mean nothing to members; the session does."""
        if self.opening_client is not None:
            return await self.opening_client.elicit(params)
        wanted = msgspec.structs.replace(params, session_id=self._session, request_id=UNSET)
        answer = await self._questions.ask("elicitation/create", wanted)
        self._deciders[_elicitation_key(params)] = answer.by or POLICY
        return answer.result

    def take_decider(self, params: Any) -> str:
        """Who answered a question: a member, or the policy of the house."""
        call = getattr(params, "tool_call", None)
        return self._deciders.pop(call.tool_call_id if call is not None else _elicitation_key(params), POLICY)


def _elicitation_key(params: Any) -> str:
    return f"elicitation {params.elicitation_id or id(params)}"
