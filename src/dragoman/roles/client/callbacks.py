"""The client's answers to permission requests and elicitations (docs/protocol/permission.md and elicitation.md).

Without callbacks, permission is denied and elicitation not offered. A cancelled turn closes its open questions. A link
is passed to the callback and never opened here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.engine.incoming import Handler, make_handler
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

# Returns the id of the chosen option, or None for "cancelled". A policy is an object that can be called like this.
AskPermission = Callable[[RequestPermissionParams], Awaitable[str | None] | str | None]

# The user's reply to a form or a link: the form's values, True (accepted), False (declined), None (closed).
ElicitationReply = dict[str, Any] | bool | CreateElicitationResult | None
AskElicitation = Callable[[CreateElicitationParams], Awaitable[ElicitationReply] | ElicitationReply]

ELICITATION_MODES = (ElicitationMode.FORM, ElicitationMode.URL)


class UserCallbacks:
    """The callbacks that answer an agent's questions."""

    def __init__(
        self, permission: AskPermission | str, elicit: AskElicitation | Mapping[str, AskElicitation] | None
    ) -> None:
        if not callable(permission) and permission not in ("allow", "deny"):
            raise ValueError(f"permission must be a function, 'allow' or 'deny', not {permission!r}")
        self._permission = permission
        self._elicit = (
            dict(elicit) if isinstance(elicit, Mapping) else dict.fromkeys(ELICITATION_MODES, elicit) if elicit else {}
        )
        if unknown := set(self._elicit) - set(ELICITATION_MODES):
            raise ValueError(f"elicit takes the modes form and url, not {', '.join(sorted(unknown))}")

    def capabilities(self) -> Any:
        """Return the elicitation capabilities: the modes that have a callback."""
        if not self._elicit:
            return UNSET
        form, url = (Marker() if mode in self._elicit else UNSET for mode in ELICITATION_MODES)
        return ElicitationCapabilities(form=form, url=url)

    def handlers(self, find_session: Callable[[str], ClientSession | None]) -> dict[str, Handler]:
        """Return the handlers of both methods. `find_session` returns a session by its id."""

        async def ask(params: RequestPermissionParams) -> RequestPermissionResult:
            return await self._ask_permission(params, find_session(params.session_id))

        async def elicit(params: CreateElicitationParams) -> CreateElicitationResult:
            session = find_session(params.session_id) if isinstance(params.session_id, str) else None
            return await self._ask_elicitation(params, session)

        return {"session/request_permission": make_handler(ask), "elicitation/create": make_handler(elicit)}

    async def _ask_permission(
        self, params: RequestPermissionParams, session: ClientSession | None
    ) -> RequestPermissionResult:
        if session is not None:
            await session.note_question("session/request_permission", params)
        if callable(self._permission):
            option = await _await_answer(self._permission(params), session)
        else:
            option = choose_option(params, self._permission)
        is_cancelled = option is None or (session is not None and session.is_turn_cancelled)
        result = RequestPermissionResult(
            outcome=CancelledOutcome() if is_cancelled else SelectedOutcome(option_id=option)
        )
        if session is not None:
            await session.note_decision("session/request_permission", params, result)
        return result

    async def _ask_elicitation(
        self, params: CreateElicitationParams, session: ClientSession | None
    ) -> CreateElicitationResult:
        ask = self._elicit.get(params.mode)
        if ask is None:  # never announced: docs/protocol/elicitation.md#modes
            raise ProtocolError(
                Kind.INVALID_PARAMS, f"this client does not support elicitation in the mode {params.mode!r}"
            )
        if session is not None:
            await session.note_question("elicitation/create", params)
        reply = await _await_answer(ask(params), session)
        if session is not None and session.is_turn_cancelled:
            reply = None
        result = _elicitation_result(params, reply)
        if session is not None:
            await session.note_decision("elicitation/create", params, result)
        return result


async def _await_answer(answer: Any, session: ClientSession | None) -> Any:
    """Await the user's answer; None if the turn is cancelled meanwhile."""
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
    # Accepting a link has no content: the agent learns the outcome elsewhere.
    content = reply if isinstance(reply, dict) and params.mode == ElicitationMode.FORM else UNSET
    return CreateElicitationResult(action=ElicitationAction.ACCEPT, content=content)


def choose_option(params: RequestPermissionParams, verdict: str) -> str | None:
    """Return the id of the option for `allow` or `deny`, preferably for once; None means cancelled."""
    kinds = ("allow_once", "allow_always") if verdict == "allow" else ("reject_once", "reject_always")
    for kind in kinds:
        for option in params.options:
            if option.kind == kind:
                return option.option_id
    return None
