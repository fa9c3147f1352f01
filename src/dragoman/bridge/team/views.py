"""How the client of a team sees its agents: the one that answers as the team itself, the others as children.

Children are shown by `subagent_update` and `session_message` where the client takes them, else as tool calls.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dragoman.bridge.team.messages import TeamAnswer
from dragoman.errors import DragomanError
from dragoman.schema import update as updates
from dragoman.schema.content import TextContent
from dragoman.schema.toolcall import TerminalEmbed, ToolCallBlock

if TYPE_CHECKING:
    from dragoman.bridge.team.child import Child
    from dragoman.roles.agent.turn import Turn
    from dragoman.roles.agent.turn_parts import Tool

SUBAGENTS = "client.subagents"
NOTICES = "client.session.notices"

# Where a notice goes for a client that takes none, and the name of the agent that took over: in _meta of
# session_info_update.
NOTICE_KEY, AGENT_KEY = "dragoman/notice", "dragoman/agent"

# Characters of a task in the title of a child.
MAX_TITLE = 80

# Updates that say something about the agent's own session, which the client does not see.
_OWN_SETTINGS = (
    updates.AvailableCommandsUpdate,
    updates.CurrentModeUpdate,
    updates.ConfigOptionUpdate,
    updates.SessionInfoUpdate,
    updates.SessionStateUpdate,
    updates.UserMessageChunk,
    updates.UserMessage,
)


class AnswerView:
    """Shows the updates of the agent that answers as those of the team."""

    def __init__(self, turn: Turn, *, shows_terminals: bool) -> None:
        self._turn = turn
        self._shows_terminals = shows_terminals  # whether the terminals are those of the client

    async def show(self, child: Child, update: Any) -> None:
        """Send an update to the client, with ids that are unique in the team."""
        if isinstance(update, _OWN_SETTINGS):
            return
        if isinstance(update, updates.Notice) and not self._turn.session.connection.offers(NOTICES):
            told = {"title": update.title, "severity": update.severity, "agent": child.id}
            await self._turn.send_update(updates.SessionInfoUpdate(meta={NOTICE_KEY: told}))
            return
        changes: dict[str, Any] = {}
        for member in ("tool_call_id", "message_id"):
            value = getattr(update, member, UNSET)
            if isinstance(value, str):
                changes[member] = f"{child.id}-{value}"
        content = getattr(update, "content", UNSET)
        if isinstance(content, list) and not self._shows_terminals:
            changes["content"] = [_without_terminal(each) for each in content]
        await self._turn.send_update(msgspec.structs.replace(update, **changes) if changes else update)


def _without_terminal(content: Any) -> Any:
    if isinstance(content, TerminalEmbed):
        return ToolCallBlock(content=TextContent(text="(output of a command)"))
    return content


class ChildView:
    """One question to a child, as the client sees it."""

    answer: TeamAnswer | None = None  # set when there is one


class ChildViews:
    """Shows the questions to children in one turn."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._count = 0

    @asynccontextmanager
    async def watch(self, child: Child, text: str, asker: Child | None) -> AsyncIterator[ChildView]:
        """Show a question to a child, and its answer."""
        view = ChildView()
        title = f"{child.id}: {_first_line(text)}"
        if self._turn.session.connection.offers(SUBAGENTS):
            async with self._watch_subagent(child, title, text, asker, view):
                yield view
            return
        source = {"from": asker.id} if asker is not None else {}
        async with self._turn.tool(title, kind="other", input={"agent": child.id, "prompt": text, **source}) as call:
            await call.start()
            yield view
            await _finish(call, view.answer)

    @asynccontextmanager
    async def _watch_subagent(
        self, child: Child, title: str, text: str, asker: Child | None, view: ChildView
    ) -> AsyncIterator[None]:
        sender = self._turn.session.id if asker is None else asker.session_id
        await child.open()
        await self._send_state(child, updates.StateUpdate(state=updates.SessionState.RUNNING), title)
        await self.send_message(sender, child.session_id, text)
        stop_reason: Any = UNSET
        try:
            yield
            if view.answer is not None:
                stop_reason = view.answer.stop_reason
                await self.send_message(child.session_id, sender, view.answer.text)
        finally:
            idle = updates.StateUpdate(state=updates.SessionState.IDLE, stop_reason=stop_reason)
            self._turn.session.send_update(updates.SubagentUpdate(session_id=child.session_id, state=idle))

    async def _send_state(self, child: Child, state: updates.StateUpdate, title: str) -> None:
        await self._turn.send_update(
            updates.SubagentUpdate(session_id=child.session_id, title=title, cwd=child.cwd, state=state)
        )

    async def send_message(self, sender: str, recipient: str, text: str) -> None:
        """Show a message between two sessions."""
        self._count += 1
        await self._turn.send_update(
            updates.SessionMessage(
                message_id=f"team_{self._turn.session.turn_count}_{self._count}",
                sender_session_id=sender,
                recipient_session_id=recipient,
                content=[TextContent(text=text)],
            )
        )


async def _finish(call: Tool, answer: TeamAnswer | None) -> None:
    if answer is not None:
        await call.add_text(answer.text or f"({answer.stop_reason})")
        await call.finish(output={"stopReason": answer.stop_reason, "tokens": answer.tokens})


def answers_text(results: list[tuple[str, TeamAnswer | DragomanError]]) -> str:
    """Return the answers of all agents as one message."""
    return "\n\n".join(f"## {name}\n\n{str(result).strip() or '(nothing)'}" for name, result in results)


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= MAX_TITLE else f"{line[: MAX_TITLE - 1]}…"
