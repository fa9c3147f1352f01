"""Parts of a turn: tool calls, plans, messages with an id, and compactions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.agent.author.arguments import (
    check_content,
    check_permission_options,
    check_text,
    check_tool_content,
    check_word,
    tool_diff,
    tool_locations,
)
from dragoman.roles.async_with import needs_async_with
from dragoman.schema import update as updates
from dragoman.schema.base import Marker
from dragoman.schema.content import ContentBlock, TextContent
from dragoman.schema.permission import PermissionOption
from dragoman.schema.plan import PlanEntry, PlanEntryPriority, PlanEntryStatus, PlanItems
from dragoman.schema.toolcall import (
    AgentTerminalEmbed,
    ControlCapabilities,
    TerminalEmbed,
    ToolCallBlock,
    ToolCallContent,
    ToolCallLocation,
    ToolCallStatusName,
    ToolCallUpdate,
    ToolKind,
    ToolKindName,
    ToolMember,
    ToolMemberName,
)
from dragoman.schema.toolcall import ToolCallStatus as Status
from dragoman.session.toolcall import FINAL_STATUSES, next_status

if TYPE_CHECKING:
    from dragoman.roles.agent.turn import Answer, Turn
    from dragoman.roles.agent.work.cancel_scope import CancelScope
    from dragoman.roles.agent.work.terminal import TurnTerminal


class TurnPlan:
    """The plan of a turn: change its entries and it is sent again."""

    def __init__(self, turn: Turn, entries: Iterable[str | PlanEntry], name: str | None = None) -> None:
        self.turn = turn
        self.name = name
        self.entries = [_plan_entry(entry) for entry in entries]

    async def start(self, step: int) -> None:
        """Mark a step as in progress."""
        await self.change(step, status=PlanEntryStatus.IN_PROGRESS)

    async def finish(self, step: int) -> None:
        """Mark a step as completed."""
        await self.change(step, status=PlanEntryStatus.COMPLETED)

    async def change(
        self, step: int, *, content: str | None = None, status: str | None = None, priority: str | None = None
    ) -> None:
        """Change a step; arguments that are None keep their value."""
        members = {"content": content, "status": status, "priority": priority}
        members = {name: value for name, value in members.items() if value is not None}
        if not isinstance(step, int):
            raise TypeError(f"a step of the plan is a number, 0 for the first, not {step!r:.80}")
        if not 0 <= step < len(self.entries):
            raise IndexError(f"the plan has no step {step}: its steps are 0 to {len(self.entries) - 1}")
        self.entries[step] = msgspec.structs.replace(self.entries[step], **members)
        await self.send()

    async def add(self, *entries: str | PlanEntry) -> None:
        """Append steps."""
        self.entries += [_plan_entry(entry) for entry in entries]
        await self.send()

    async def send(self) -> None:
        """Send the whole plan."""
        entries = list(self.entries)
        if self.name is None:
            await self.turn.send_update(updates.Plan(entries=entries))
        else:
            await self.turn.send_update(updates.PlanUpdate(plan=PlanItems(plan_id=self.name, entries=entries)))

    async def remove(self) -> None:
        """Remove the plan."""
        self.entries.clear()
        if self.name is None:
            await self.send()
        else:
            await self.turn.send_update(updates.PlanRemoved(plan_id=self.name))


def _plan_entry(entry: str | PlanEntry) -> PlanEntry:
    if isinstance(entry, PlanEntry):
        return entry
    if not isinstance(entry, str):
        raise TypeError(f"a step must be a str or a PlanEntry, not {entry!r}; pass a list as plan(*steps)")
    return PlanEntry(content=entry, priority=PlanEntryPriority.MEDIUM, status=PlanEntryStatus.PENDING)


@needs_async_with("turn.message() as message; to send text at once: await turn.say(...)")
class MessageStream:
    """A message with its own id: `async with turn.message() as message: await message.say("...")`."""

    def __init__(
        self, turn: Turn, id: str, kind: type[updates.AgentMessageChunk] | type[updates.AgentThoughtChunk]
    ) -> None:
        self.turn = turn
        self.id = id
        self.kind = kind
        self._buffered: list[str] = []

    async def say(self, text: str | ContentBlock) -> None:
        """Send a chunk of the message: text (Markdown) or any content block."""
        if isinstance(text, str):
            if not self.turn.session.is_streaming:
                self._buffered.append(text)
                return
            text = TextContent(text=text)
        self.finish()
        await self.turn.send_update(self._chunk(check_content(text)))

    def finish(self) -> None:
        """Send the buffered text, if messages are not streamed."""
        if self._buffered:
            text = "".join(self._buffered)
            self._buffered.clear()
            self.turn.session.send_update(self._chunk(TextContent(text=text)))

    def _chunk(self, block: Any) -> Any:
        return self.kind(content=block, message_id=self.id)

    async def replace(self, *content: str | ContentBlock) -> None:
        """Replace everything that the message said. A client without v2 gets the new text as another message."""
        self._buffered.clear()
        whole = updates.AgentThought if self.kind is updates.AgentThoughtChunk else updates.AgentMessage
        blocks: list[Any] = [check_content(each) for each in content]
        await self.turn.send_update(whole(message_id=self.id, content=blocks))

    async def clear(self) -> None:
        """Take back everything that the message said."""
        await self.replace()

    async def __aenter__(self) -> MessageStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()


@needs_async_with("turn.compaction() as work")
class TurnCompaction:
    """A compaction of the agent's context, as an async context manager."""

    def __init__(self, turn: Turn, id: str) -> None:
        self.turn = turn
        self.id = id
        self._summary_parts: list[str] = []

    async def __aenter__(self) -> TurnCompaction:
        await self.turn.send_update(
            updates.CompactionUpdate(compaction_id=self.id, status=updates.CompactionStatus.IN_PROGRESS)
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, asyncio.CancelledError):  # sent without waiting: this task is being cancelled
            self.turn.session.send_update(
                updates.CompactionUpdate(compaction_id=self.id, status=updates.CompactionStatus.CANCELLED)
            )
        elif error is not None:
            why = str(error) or type(error).__name__
            failed = updates.CompactionUpdate(compaction_id=self.id, status=updates.CompactionStatus.FAILED, error=why)
            await self.turn.send_update(failed)
        else:
            summary: Any = [TextContent(text="".join(self._summary_parts))] if self._summary_parts else UNSET
            done = updates.CompactionUpdate(
                compaction_id=self.id, status=updates.CompactionStatus.COMPLETED, summary=summary
            )
            await self.turn.send_update(done)

    async def add_summary(self, text: str) -> None:
        """Send a part of the summary that replaces the compacted context."""
        check_text("a summary", text)
        self._summary_parts.append(text)
        chunk = updates.CompactionSummaryChunk(compaction_id=self.id, content=TextContent(text=text))
        await self.turn.send_update(chunk)


@needs_async_with("turn.tool(...) as call")
class Tool:
    """One tool call of a turn.

    Entering the block announces the call; leaving it completes it. An exception marks it failed, a cancelled turn
    cancelled, a refused permission denied. While the user is asked for permission, only the answer changes the status.
    """

    def __init__(
        self,
        turn: Turn,
        id: str,
        title: str,
        *,
        kind: ToolKindName = "other",
        name: str | None = None,
        input: Any = UNSET,
        paths: Sequence[str | os.PathLike[str] | ToolCallLocation] = (),
        requires_permission: bool = False,
        cancellable: bool = False,
        starts_at_once: bool = False,
    ) -> None:
        check_text("the title of a tool call", title)
        check_text("the id of a tool call", id)
        check_text("the name of a tool", name or "")
        check_word("kind", kind, ToolKind)
        self.turn = turn
        self.id = id
        self.title = title
        self.kind = kind
        self.name = name
        self.input = input
        self.locations = tool_locations(paths)
        self.requires_permission = requires_permission
        self.status: str = Status.PENDING
        self._starts_at_once = starts_at_once  # announced as in_progress: nobody has to be asked
        self._is_announced = False
        self._content: list[ToolCallContent] = []
        self._scope: CancelScope | None = None
        if cancellable:
            from dragoman.roles.agent.work.cancel_scope import CancelScope

            self._scope = CancelScope()

    async def __aenter__(self) -> Tool:
        if self.status != Status.PENDING or self.id in self.turn._open_tools:
            raise ProtocolError(
                Kind.INVALID_STATE, f"the tool call {self.id} was already announced; create another with turn.tool"
            )
        start = updates.ToolCallStart(
            tool_call_id=self.id,
            title=self.title,
            name=self.name or UNSET,
            kind=self.kind,
            status=Status.IN_PROGRESS if self._starts_at_once else Status.PENDING,
            locations=self.locations or UNSET,
            raw_input=self.input,
            meta={SIDE_DATA_KEY: {"requiresPermission": True}} if self.requires_permission else UNSET,
        )
        self.turn._open_tools[self.id] = self
        self._is_announced = True
        await self.turn.send_update(start)
        self.status = str(start.status)
        if self._scope is not None:
            self._scope.enter()
            self.turn.session._cancel_scopes["tool_call", self.id] = self._scope
            if self._is_shown_wide:
                await self._send_progress(capabilities=ControlCapabilities(cancel=Marker()))
        return self

    @property
    def cancelled(self) -> bool:
        """Whether the client cancelled this call alone."""
        return self._scope is not None and self._scope.is_cancelled

    @property
    def _is_shown_wide(self) -> bool:
        return self.turn.session.connection.dialect.is_wide

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if self._scope is not None:
            is_own = self._scope.absorb(error)
            self.turn.session._cancel_scopes.pop(("tool_call", self.id), None)
            if is_own:
                self.mark_cancelled()
                return True
        await self._end(error)
        return None

    async def _end(self, error: BaseException | None) -> None:
        """End the call as its block ended."""
        if error is None and self.status == Status.AWAITING_PERMISSION:
            self.mark_cancelled()  # another task asks for permission, and the block did not wait for it
        elif error is None:
            await self.finish()
        elif isinstance(error, asyncio.CancelledError):
            self.mark_cancelled()
        elif isinstance(error, ProtocolError) and error.kind == Kind.PERMISSION_DENIED:
            await self.finish(Status.DENIED if self.status == Status.AWAITING_PERMISSION else Status.FAILED)
        else:
            await self.fail(str(error) or type(error).__name__)

    async def start(self) -> None:
        """Set the status to in_progress. The first output does this too. Raises while permission is being asked."""
        if self.status != Status.IN_PROGRESS:
            self._check_permission(Status.IN_PROGRESS)
            await self._set_status(Status.IN_PROGRESS)

    async def add_text(self, text: str) -> None:
        """Add text to the content."""
        check_text("the text of a tool call", text)
        await self.add_content(ToolCallBlock(content=TextContent(text=text)))

    async def add_diff(self, path: str | os.PathLike[str], old: str | None, new: str) -> None:
        """Add a file change to the content. `old` is None for a new file."""
        await self.add_content(tool_diff(path, old, new))

    async def preview_diff(self, path: str | os.PathLike[str], old: str | None, new: str) -> None:
        """Show a file change before asking permission for it, without starting the call."""
        self._content.append(tool_diff(path, old, new))
        await self._send_progress(content=list(self._content))

    async def add_terminal(self, terminal: str | TurnTerminal) -> None:
        """Show a terminal in the content: one of the client, by its id, or one that the agent runs itself."""
        if isinstance(terminal, str):
            await self.add_content(TerminalEmbed(terminal_id=terminal))
        else:
            await self.add_content(AgentTerminalEmbed(terminal_id=terminal.id))

    async def append_text(self, text: str) -> None:
        """Append text without sending the whole content again, for output that grows."""
        check_text("the text of a tool call", text)
        block = ToolCallBlock(content=TextContent(text=text))
        await self.start()
        self._content.append(block)
        await self.turn.send_update(updates.ToolCallContentChunk(tool_call_id=self.id, content=block))

    async def clear(self, *members: ToolMemberName) -> None:
        """Clear members of the call, `content` by default. A client without v2 gets an empty list or a default."""
        names = list(members or ("content",))
        for name in names:
            check_word("member", name, ToolMember)
        if "content" in names:
            self._content.clear()
        if "locations" in names:
            self.locations = []
        self.turn.session._narrow_for_client(self.turn.session.history)
        await self._send_progress(clear=names)

    async def add_content(self, *content: str | ContentBlock | ToolCallContent) -> None:
        """Add text, content blocks and any other content of a tool call."""
        added = [check_tool_content(each) for each in content]
        if self.status == Status.PENDING:
            self.status = next_status(self.status, Status.IN_PROGRESS)
        self._content.extend(added)
        await self._send_progress(status=self.status, content=list(self._content))

    async def ask_permission(
        self, reason: str | None = None, options: Sequence[PermissionOption] | None = None
    ) -> Answer:
        """Ask the user for permission for this call. If the user rejects it, the call becomes denied."""
        check_permission_options(options or ())
        await self._set_status(Status.AWAITING_PERMISSION)
        answer = await self.turn.ask_permission(
            reason or self.title, options=options, tool=self._permission_subject(reason)
        )
        if self.status in FINAL_STATUSES:
            return answer  # the call ended while the user was asked
        if answer:
            await self._set_status(Status.IN_PROGRESS)
        else:
            await self._set_status(Status.CANCELLED if answer.cancelled else Status.DENIED)
        return answer

    async def fail(self, reason: str) -> None:
        """Mark the call failed, or denied if permission was still being asked."""
        check_text("the reason of a failure", reason)
        if self.status in FINAL_STATUSES:
            return
        is_started = self.status != Status.AWAITING_PERMISSION
        if is_started:
            await self.start()
        self._content.append(ToolCallBlock(content=TextContent(text=reason)))
        await self._set_status(Status.FAILED if is_started else Status.DENIED, content=list(self._content))

    async def finish(self, status: ToolCallStatusName = "completed", output: Any = UNSET) -> None:
        """End the call with this status. Raises while permission is being asked."""
        check_word("status", status, Status)
        if self.status in FINAL_STATUSES:
            return
        self._check_permission(status)
        if status in (Status.COMPLETED, Status.FAILED):
            await self.start()
        await self._set_status(status, raw_output=output)

    def mark_cancelled(self) -> None:
        """Mark the call cancelled without waiting, because its turn was cancelled."""
        if self.status not in FINAL_STATUSES:
            self.status = Status.CANCELLED
            self.turn._open_tools.pop(self.id, None)
            self.turn.session.send_update(updates.ToolCallProgress(tool_call_id=self.id, status=Status.CANCELLED))

    def _permission_subject(self, reason: str | None = None) -> ToolCallUpdate:
        """Return the call as the permission request shows it. Only some dialects can carry the reason."""
        return ToolCallUpdate(
            tool_call_id=self.id,
            title=self.title,
            name=self.name or UNSET,
            kind=self.kind,
            status=Status.PENDING,
            locations=self.locations or UNSET,
            raw_input=self.input,
            content=list(self._content) or UNSET,
            meta={SIDE_DATA_KEY: {"reason": reason}} if reason and reason != self.title else UNSET,
        )

    def _check_permission(self, status: str) -> None:
        if self.status == Status.AWAITING_PERMISSION and status in (
            Status.IN_PROGRESS,
            Status.COMPLETED,
            Status.FAILED,
        ):
            raise ProtocolError(
                Kind.INVALID_STATE,
                f"the tool call {self.id} awaits permission and cannot become {status} before the answer",
            )

    async def _set_status(self, status: str, **members: Any) -> None:
        self.status = next_status(self.status, status)
        if status in FINAL_STATUSES:
            self.turn._open_tools.pop(self.id, None)
            if self._scope is not None and self._is_shown_wide:
                members["clear"] = ["capabilities"]  # nothing is left to cancel
        await self._send_progress(status=status, **members)

    async def _send_progress(self, **members: Any) -> None:
        if not self._is_announced:
            raise RuntimeError("the tool call was not announced; use: async with turn.tool(...) as call")
        await self.turn.send_update(updates.ToolCallProgress(tool_call_id=self.id, **members))
