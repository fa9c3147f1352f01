"""What a client answers when an agent asks its user: for leave, or for facts (reference 1.10 and 1.13).

Takes the questions of all sessions; answers come from whoever built the client. Without anybody to ask, leave is
refused and facts are not offered at all. A cancelled turn closes its open questions. A link is handed over whole and
never opened here. Above is the remote agent; beside it the conversations.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.engine.handler import Handler, make_handler
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.base import Marker
from dragoman.schema.elicitation import (
    CreateElicitationParams,
    CreateElicitationResult,
    ElicitationAction,
    ElicitationMode,
)
from dragoman.schema.initialize import ElicitationCapabilities
from dragoman.schema.permission import (
    CancelledOutcome,
    RequestPermissionParams,
    RequestPermissionResult,
    SelectedOutcome,
)

if TYPE_CHECKING:
    from dragoman.roles.client.session import ClientSession

# Gives the id of the chosen option, or None for "cancelled". A policy is an object that can be called like this.
AskPermission = Callable[[RequestPermissionParams], Awaitable[str | None] | str | None]

# What a user made of a form or a link: the form's values, True (agreed), False (declined), None (closed without).
ElicitationReply = dict[str, Any] | bool | CreateElicitationResult | None
AskElicitation = Callable[[CreateElicitationParams], Awaitable[ElicitationReply] | ElicitationReply]

ELICITATION_MODES = (ElicitationMode.FORM, ElicitationMode.URL)


class UserCallbacks:
    """Who answers the questions of an agent."""

    def __init__(
        self, permission: AskPermission | str, elicit: AskElicitation | Mapping[str, AskElicitation] | None
    ) -> None:
        if not callable(permission) and permission not in ("allow", "deny"):
            raise ValueError(f"permission is a function, 'allow' or 'deny', not {permission!r}")
        self._permission = permission
        self._elicit = (
            dict(elicit) if isinstance(elicit, Mapping) else dict.fromkeys(ELICITATION_MODES, elicit) if elicit else {}
        )
        if unknown := set(self._elicit) - set(ELICITATION_MODES):
            raise ValueError(f"a question to the user is a form or a url, not {', '.join(sorted(unknown))}")

    def capabilities(self) -> Any:
        """Which questions beyond permission are taken; what nobody answers is not offered."""
        if not self._elicit:
            return UNSET
        form, url = (Marker() if mode in self._elicit else UNSET for mode in ELICITATION_MODES)
        return ElicitationCapabilities(form=form, url=url)

    def handlers(self, find_session: Callable[[str], ClientSession | None]) -> dict[str, Handler]:
        """The handlers of both kinds of questions; `find` gives a session by its id."""

        async def ask(params: RequestPermissionParams) -> RequestPermissionResult:
            return await self._ask_permission(params, find_session(params.session_id))

        async def elicit(params: CreateElicitationParams) -> CreateElicitationResult:
            session = find_session(params.session_id) if isinstance(params.session_id, str) else None
            return await self._ask_elicitation(params, session)

        return {"session/request_permission": make_handler(ask), "elicitation/create": make_handler(elicit)}

    async def _ask_permission(
        self, params: RequestPermissionParams, session: ClientSession | None
    ) -> RequestPermissionResult:
        if session is not None and (noted := session.note_permission_request(params)) is not None:
            await noted
        if callable(self._permission):
            option = await _await_answer(self._permission(params), session)
        else:
            option = choose_option(params, self._permission)
        outcome: CancelledOutcome | SelectedOutcome
        if option is None or (session is not None and session.is_turn_cancelled):
            outcome = CancelledOutcome()
        else:
            outcome = SelectedOutcome(option_id=option)
        if session is not None and (noted := session.note_permission_outcome(params, outcome)) is not None:
            await noted
        return RequestPermissionResult(outcome=outcome)

    async def _ask_elicitation(
        self, params: CreateElicitationParams, session: ClientSession | None
    ) -> CreateElicitationResult:
        answer = self._elicit.get(params.mode)
        if answer is None:  # never announced: reference 1.13
            raise ProtocolError(
                Kind.INVALID_PARAMS, f"this client asks its user no questions of the mode {params.mode!r}"
            )
        if session is not None and (noted := session.note_elicitation(params)) is not None:
            await noted
        reply = await _await_answer(answer(params), session)
        if session is not None and session.is_turn_cancelled:
            reply = None
        result = _elicitation_result(params, reply)
        if session is not None and (noted := session.note_elicitation_result(params, result)) is not None:
            await noted
        return result


async def _await_answer(answer: Any, session: ClientSession | None) -> Any:
    """What the user says, now or later; None when the turn is cancelled meanwhile."""
    if not isinstance(answer, Awaitable):
        return answer
    return await (answer if session is None else session.unless_cancelled(answer))


def _elicitation_result(params: CreateElicitationParams, reply: ElicitationReply) -> CreateElicitationResult:
    if isinstance(reply, CreateElicitationResult):
        return reply
    if reply is None:
        return CreateElicitationResult(action=ElicitationAction.CANCEL)
    if reply is False:
        return CreateElicitationResult(action=ElicitationAction.DECLINE)
    # To agree to a link is no more than that: what it led to the agent hears elsewhere.
    content = reply if isinstance(reply, dict) and params.mode == ElicitationMode.FORM else UNSET
    return CreateElicitationResult(action=ElicitationAction.ACCEPT, content=content)


def choose_option(params: RequestPermissionParams, verdict: str) -> str | None:
    """The id of the option that says `allow` or `deny`; the one for once is preferred, none means cancelled."""
    kinds = ("allow_once", "allow_always") if verdict == "allow" else ("reject_once", "reject_always")
    for kind in kinds:
        for option in params.options:
            if option.kind == kind:
                return option.option_id
    return None
