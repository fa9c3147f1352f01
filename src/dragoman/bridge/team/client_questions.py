"""The questions of the agents of a team, asked of its client; each says which agent asks."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dragoman.policy.decision import ALLOW, DENY
from dragoman.policy.grants import Scope
from dragoman.policy.question import Operation
from dragoman.roles.client.permission.questions import (
    AskUser,
    PermissionChoice,
    PermissionPrompt,
    describe_question,
)
from dragoman.roles.client.workspace import WorkspaceUse
from dragoman.schema.content import TextContent
from dragoman.schema.permission import RequestPermissionParams
from dragoman.schema.toolcall import Diff, ToolCallBlock, ToolCallLocation, ToolCallUpdate, ToolKindName

if TYPE_CHECKING:
    from dragoman.roles.agent.session import Session
    from dragoman.schema.elicitation import CreateElicitationParams

_KINDS: dict[str, ToolKindName] = {
    Operation.FILE_READ: "read",
    Operation.FILE_WRITE: "edit",
    Operation.FILE_DELETE: "delete",
    Operation.TERMINAL_EXECUTE: "execute",
    Operation.NETWORK_ACCESS: "fetch",
}
_USE_KINDS: dict[str, ToolKindName] = {"read": "read", "write": "edit", "execute": "execute"}


class ClientQuestions:
    """Asks the client of one session of a team."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._numbers = count(1)

    def asker(self, name: str) -> AskUser:
        """Return how the guard of an agent asks."""

        async def ask(prompt: PermissionPrompt) -> PermissionChoice | None:
            return await self._ask_prompt(name, prompt)

        return ask

    async def _ask_prompt(self, name: str, prompt: PermissionPrompt) -> PermissionChoice | None:
        turn = self._session.turn
        if turn is None:
            return None
        question = prompt.questions[0]
        title = getattr(prompt.tool_call, "title", "") or describe_question(question)
        call = ToolCallUpdate(
            tool_call_id=self._new_id(name),
            title=f"{name}: {title}",
            kind=_KINDS.get(question.operation, "other"),
            locations=[ToolCallLocation(path=question.resource)] if question.resource.startswith("/") else UNSET,
            content=_content(prompt) or UNSET,
        )
        answer = await turn.ask_permission(title, options=prompt.options or None, tool=call)
        if answer.cancelled:
            return None
        if prompt.options:
            return PermissionChoice(option_id=answer.option_id)
        scope = Scope.SESSION if answer.kind.endswith("always") else Scope.ONCE
        return PermissionChoice(ALLOW if answer else DENY, scope)

    async def request_permission(self, params: RequestPermissionParams) -> str | None:
        """Pass on a permission request of an agent, whose title has its name."""
        turn = self._session.turn
        if turn is None:
            return None
        call = msgspec.structs.replace(params.tool_call, tool_call_id=self._new_id(params.tool_call.tool_call_id))
        answer = await turn.ask_permission(call.title or "", options=params.options, tool=call)
        return None if answer.cancelled else answer.option_id

    async def approve(self, use: WorkspaceUse) -> bool:
        """Ask for a use of the workspace; reading in the session's folders is free."""
        turn = self._session.turn
        if use.operation == "read":
            return True
        if turn is None:
            return False
        content: list[Any] = []
        if use.text is not None and use.operation == "write":
            old = use.read_current() if use.read_current is not None else None
            content.append(Diff(path=use.resource, old_text=old, new_text=use.text))
        call = ToolCallUpdate(
            tool_call_id=self._new_id(use.agent),
            title=f"{use.agent}: {use.operation} {use.resource}",
            kind=_USE_KINDS.get(use.operation, "other"),
            content=content or UNSET,
        )
        return bool(await turn.ask_permission(call.title or "", tool=call))

    async def elicit(self, params: CreateElicitationParams) -> Any:
        """Pass on a form or a link of an agent."""
        asked = msgspec.structs.replace(params, session_id=self._session.id, tool_call_id=UNSET, request_id=UNSET)
        return await self._session.request("elicitation/create", asked)

    def _new_id(self, name: str) -> str:
        return f"ask_{name}_{self._session.turn_count}_{next(self._numbers)}"


def _content(prompt: PermissionPrompt) -> list[Any]:
    """Return what is asked about: the change of a file, or the lines of the question."""
    if prompt.new_text is not None:
        return [Diff(path=prompt.questions[0].resource, old_text=prompt.current_text, new_text=prompt.new_text)]
    shown = list(getattr(prompt.tool_call, "content", ()) or ())
    return [*shown, ToolCallBlock(content=TextContent(text="\n".join(prompt.lines)))]
