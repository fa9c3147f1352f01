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
from dragoman.roles.client.permission.prompt import Asked, Choice
from dragoman.schema.base import to_json
from dragoman.schema.permission import PermissionOption, RequestPermissionParams, SelectedOutcome
from dragoman.schema.toolcall import ToolCallUpdate
from dragoman.store.contract import EntryKind
from dragoman.store.session_log import Chronicle

if TYPE_CHECKING:
    from dragoman.host.account_calls import Caller
    from dragoman.roles.client.permission.guard import Guard

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from dragoman.errors import ProtocolError
from dragoman.host.limits import Bounds
from dragoman.host.room.member import Member
from dragoman.schema.elicitation import CreateElicitationResult, ElicitationMode
from dragoman.schema.permission import RequestPermissionResult
from dragoman.wire.envelope import Id

# Clients of these dialects cannot be asked: their ledger answers for them, by what they lend (dialect/y2025/consent).
# So they are asked only where nobody else is there.
UNASKABLE = frozenset({"2025.1"})


class Answer(NamedTuple):
    """What became of a question: a result, or None; who said so, and in words why nobody did."""

    result: Any
    by: str = ""
    why: str = ""


class _Open:
    """A question that waits for an answer."""

    def __init__(self, method: str, params: Any, gate: str, patience: float) -> None:
        self.method = method
        self.params = params
        self.gate = gate
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.asked: dict[str, tuple[Member, Id]] = {}  # by connection: who is being asked, under which id
        self.dismissed: set[str] = set()  # connections whose users closed it, or that cannot answer
        self.left = patience  # of the time that somebody who may answer is there
        self.alarm: asyncio.TimerHandle | None = None
        self.since: float | None = None  # when the patience began to run again; None while nobody is there

    def close(self, answer: Answer) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)


class Questions:
    """All that is being asked in one room."""

    def __init__(self, members: Callable[[], Iterable[Member]], bounds: Bounds) -> None:
        self._members = members
        self._bounds = bounds
        self._open: list[_Open] = []

    @property
    def are_open(self) -> bool:
        """Whether anything is being asked."""
        return bool(self._open)

    async def ask(self, method: str, params: Any) -> Answer:
        """Ask all who may answer and give the first answer; being cancelled takes the question back everywhere."""
        gate = ""
        if method == "elicitation/create":
            mode = params.mode if params.mode in (ElicitationMode.FORM, ElicitationMode.URL) else ElicitationMode.FORM
            gate = f"client.elicitation.{mode}"
        question = _Open(method, params, gate, self._bounds.patience)
        self._open.append(question)
        try:
            self._put(question)
            return await question.answer
        finally:
            self._open.remove(question)
            if question.alarm is not None:
                question.alarm.cancel()
            for member, id in question.asked.values():
                member.desk.connection.call_off(id, wait=False)

    def came(self, member: Member) -> None:
        """Somebody is there who may hear what is being asked."""
        for question in list(self._open):
            question.dismissed.discard(member.desk.id)
            self._put(question)

    def went(self, member: Member) -> None:
        """Somebody left, or may not answer any more."""
        for question in list(self._open):
            asked = question.asked.pop(member.desk.id, None)
            if asked is not None:
                member.desk.connection.call_off(asked[1], wait=False)
            self._put(question)

    def noticed(self) -> None:
        """Somebody lost the socket, or has one again: deadlines stand still, or run."""
        for question in list(self._open):
            self._put(question)

    # --- one question -----------------------------------------------------------------------------------------

    def _able(self, question: _Open) -> list[Member]:
        """Who may answer and can, dismissed or not."""
        able = [
            member
            for member in self._members()
            if member.is_live
            and member.controls
            and (not question.gate or member.desk.connection.offers(question.gate))
        ]
        return [member for member in able if member.desk.dialect not in UNASKABLE] or able

    def _put(self, question: _Open) -> None:
        """Ask those who were not asked yet, and let the deadline run or stand still."""
        if question.answer.done():
            return
        able = self._able(question)
        if not able and question.gate and any(member.is_live and member.controls for member in self._members()):
            question.close(Answer(None, "", "no client that is here can show it"))  # its prompter would wait in vain
            return
        for member in able:
            if member.desk.id not in question.asked and member.desk.id not in question.dismissed:
                self._put_to(question, member)
        if question.answer.done():
            return
        if able and all(member.desk.id in question.dismissed for member in able):
            question.close(Answer(None, able[-1].desk.visitor.user, "the question was closed without an answer"))
            return
        # Who lost the socket for a moment is there enough not to be answered for, and too far to be hurried.
        is_attended = any(member.desk.is_there for member in able) if self._bounds.waits else bool(able)
        self._time(question, is_attended)

    def _put_to(self, question: _Open, member: Member) -> None:
        desk = member.desk
        is_answered = False

        def done(result: Any, error: ProtocolError | None) -> None:
            nonlocal is_answered
            is_answered = True
            question.asked.pop(desk.id, None)
            if question.answer.done() or desk.connection.failure is not None:
                return
            if error is None and is_given(question.params, result):
                question.close(Answer(result, desk.visitor.user))
                return
            question.dismissed.add(desk.id)
            self._put(question)

        id: Any = desk.connection.call(question.method, question.params, done)
        if not is_answered:
            question.asked[desk.id] = (member, id)

    def _time(self, question: _Open, is_attended: bool) -> None:
        loop = asyncio.get_running_loop()
        if is_attended and question.since is None:
            question.since = loop.time()
            self._alarm(question, question.left, "nobody answered in time")
        elif not is_attended and (question.since is not None or question.alarm is None):
            if question.since is not None:
                question.left -= loop.time() - question.since
                question.since = None
            if not self._bounds.waits:
                question.close(Answer(None, "", "nobody is there who may answer"))
                return
            self._alarm(question, self._bounds.unattended, "nobody came who may answer")

    def _alarm(self, question: _Open, after: float, why: str) -> None:
        if question.alarm is not None:
            question.alarm.cancel()
        loop = asyncio.get_running_loop()
        question.alarm = loop.call_later(max(after, 0.0), question.close, Answer(None, "", why))


def is_given(params: Any, result: Any) -> bool:
    """Whether this is an answer: an option that was offered, or a reply that is not merely a closed window."""
    if isinstance(result, RequestPermissionResult) and isinstance(params, RequestPermissionParams):
        outcome = result.outcome
        offered = {option.option_id for option in params.options}
        return isinstance(outcome, SelectedOutcome) and outcome.option_id in offered
    return isinstance(result, CreateElicitationResult) and result.action in ("accept", "decline")


# Nobody of the members decided this: the policy of the house did.
POLICY = "policy"


# The question of the agent's that a guard is asked about in this task; none where it is the use of something lent.
_asking: contextvars.ContextVar[RequestPermissionParams | None] = contextvars.ContextVar("asking", default=None)


# What members can answer to the use of something lent, which no agent offers options for.
_USE_OPTIONS = (
    (PermissionOption(option_id="allow", name="Allow", kind="allow_once"), Choice(ALLOW)),
    (
        PermissionOption(option_id="session", name="Allow in this session", kind="allow_always"),
        Choice(ALLOW, Scope.SESSION),
    ),
    (PermissionOption(option_id="deny", name="Deny", kind="reject_once"), Choice(DENY)),
)


class Consent:
    """Leave and facts in one room."""

    def __init__(self, session: str, questions: Questions, chronicle: Callable[[], Chronicle]) -> None:
        self._session = session
        self._questions = questions
        self._chronicle = chronicle
        self._deciders: dict[str, str] = {}
        self.opener: Caller | None = None  # who is asked while the session is being opened, and nobody is in it

    async def permission(self, guard: Guard, params: RequestPermissionParams) -> str | None:
        """A question of the agent's: policy decides, or asks the members."""
        token = _asking.set(params)
        try:
            return await guard.ask(params)
        finally:
            _asking.reset(token)

    async def ask_members(self, asked: Asked) -> Choice | None:
        """What policy does not decide."""
        params = _asking.get()
        if params is None:
            return await self._ask_use(asked)
        wanted = msgspec.structs.replace(params, session_id=self._session)
        answer = await self._questions.ask("session/request_permission", wanted)
        self._deciders[params.tool_call.tool_call_id] = answer.by or POLICY
        if answer.result is None:
            return None if answer.by else Choice(DENY, why=answer.why)
        return Choice(option_id=answer.result.outcome.option_id)

    async def _ask_use(self, asked: Asked) -> Choice | None:
        """The use of something the host lends: a question like any other, in the log as well."""
        options = [option for option, choice in _USE_OPTIONS if choice.scope == Scope.ONCE or asked.can_be_remembered]
        lines = asked.lines
        call = ToolCallUpdate(tool_call_id=f"use_{new_id()}", title=lines[0], raw_input={"asked": lines})
        params = RequestPermissionParams(session_id=self._session, tool_call=call, options=options)
        chronicle = self._chronicle()
        await chronicle.record(EntryKind.ASKED, to_json(params), actor="dragoman")
        answer = await self._questions.ask("session/request_permission", params)
        outcome = answer.result.outcome if answer.result is not None else None
        chosen = outcome.option_id if isinstance(outcome, SelectedOutcome) else ""
        told = {"outcome": "selected", "optionId": chosen} if chosen else {"outcome": "cancelled"}
        body = {"toolCallId": call.tool_call_id, "outcome": told}
        await chronicle.record(EntryKind.DECIDED, body, actor=answer.by or POLICY)
        choice = next((choice for option, choice in _USE_OPTIONS if option.option_id == chosen), None)
        return choice or Choice(DENY, why=answer.why or "the question was closed")

    async def elicit(self, params: Any) -> Any:
        """A form or a link: whoever can show it. Requests of ours mean nothing to members; the session does."""
        if self.opener is not None:
            return await self.opener.elicit(params)
        wanted = msgspec.structs.replace(params, session_id=self._session, request_id=UNSET)
        answer = await self._questions.ask("elicitation/create", wanted)
        self._deciders[_elicited(params)] = answer.by or POLICY
        return answer.result

    def decider(self, params: Any) -> str:
        """Who answered a question: a member, or the policy of the house."""
        call = getattr(params, "tool_call", None)
        return self._deciders.pop(call.tool_call_id if call is not None else _elicited(params), POLICY)


def _elicited(params: Any) -> str:
    return f"elicitation {params.elicitation_id or id(params)}"
