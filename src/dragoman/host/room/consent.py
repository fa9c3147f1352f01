"""Who is asked when the agent of a room wants leave or facts: policy first, then the members.

Takes the agent's questions and the uses of what the host lends; gives the guard's decision, or an answer of a member.
Remembers who answered, for the log. Above is the room; below are its guard and its questions.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dragoman.host.room.questions import Questions
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
