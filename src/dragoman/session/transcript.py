"""The transcript of a session: its messages, tool calls and current state, as a client sees them.

Takes updates in wire order. Adding a chunk is one append to `unmerged`; chunks are merged when somebody reads or when
MERGE_AFTER of them are pending. Chunks form messages by id, or by consecutive chunks of one role.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from dragoman.schema import update as updates
from dragoman.schema.config import SessionConfigOption, SessionModeState
from dragoman.schema.content import TextContent
from dragoman.schema.plan import PlanEntry
from dragoman.schema.toolcall import ToolCallStatus
from dragoman.session.agent_terminal import AgentTerminal
from dragoman.session.message import ROLES, WHOLE_ROLES, Message
from dragoman.session.toolcall import FINAL_STATUSES, ToolCall, merge_update

# Chunks that may be pending before they are merged: enough to make merging cheap, few enough to save memory.
MERGE_AFTER = 1024

# Terminals of the agent that are kept; of more, the oldest are dropped. Each may keep a megabyte.
MAX_TERMINALS = 100


class Compaction(msgspec.Struct, kw_only=True):
    """A compaction of the agent's context, at the position in the transcript where it happened."""

    compaction_id: str
    status: str
    summary: list[Any] = msgspec.field(default_factory=list)
    error: str | None = None


# A message, a tool call, a compaction, or an update without a merged form (such as an Unknown one).
TranscriptEntry = Any


class Transcript:
    """The entries of one session in order, and its current state: plan, usage, title, mode, options, commands."""

    def __init__(self) -> None:
        self.unmerged: list[Any] = []  # the hot path appends here and calls `merge_pending` when it is long
        self.tool_calls: dict[str, ToolCall] = {}
        self._asked_calls: set[str] = set()  # named by permission requests alone
        self.started_calls = 0  # can exceed the number of ids, because some agents reuse them
        self.terminals: dict[str, AgentTerminal] = {}  # those that the agent runs itself
        self.plan: list[PlanEntry] = []
        self.plans: dict[str, Any] = {}  # plans that have an id
        self.usage: updates.UsageUpdate | None = None
        self.title: str | None = None
        self.modes: SessionModeState | None = None
        self.options: list[SessionConfigOption] = []
        self.commands: list[updates.AvailableCommand] = []
        self.state: str | None = None  # what the agent told last; agents before v2 tell none
        self.background: list[Any] = []  # work that goes on without a turn, as the agent told it last
        self._mode: str | None = None
        self._entries: list[TranscriptEntry] = []
        self._open_message: Message | None = None  # the message that the next chunk may continue
        self._by_id: dict[tuple[str, str], Message] = {}
        self._compactions: dict[str, Compaction] = {}

    # --- current state ----------------------------------------------------------------------------------------

    @property
    def entries(self) -> list[TranscriptEntry]:
        """Messages, tool calls and other entries, in order. An entry can still change while its turn runs."""
        self.merge_pending()
        return list(self._entries)

    def __iter__(self) -> Iterator[TranscriptEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        self.merge_pending()
        return len(self._entries)

    @property
    def messages(self) -> list[Message]:
        """The messages and thoughts, without other entries."""
        return [entry for entry in self.entries if type(entry) is Message]

    @property
    def mode(self) -> str | None:
        """The id of the current mode, or None if the agent reported none."""
        return self.modes.current_mode_id if self.modes else self._mode

    # --- adding updates ---------------------------------------------------------------------------------------

    def add_prompt(self, content: list[Any]) -> None:
        """Add a prompt of the user."""
        self.unmerged.append(Message("user", None, content, is_local_prompt=True))

    def add(self, update: Any) -> None:
        """Add an update of any kind."""
        kind = type(update)
        if kind in ROLES:
            self.unmerged.append(update)
            if len(self.unmerged) >= MERGE_AFTER:
                self.merge_pending()
        elif kind in _CALL_UPDATES:
            known = self.tool_calls.get(update.tool_call_id)
            self._asked_calls.discard(update.tool_call_id)
            if kind is updates.ToolCallStart and known is not None and known.status in FINAL_STATUSES:
                known = None  # some agents reuse ids in every turn (docs/protocol/peers.md#tool-call-order)
            self._merge_call(known, update)
        elif kind in _STATE_UPDATES:
            _STATE_UPDATES[kind](self, update)
        elif kind not in _NOT_SHOWN:
            self.unmerged.append(update)

    def add_run(self, chunks: list[Any]) -> list[Any]:
        """Add consecutive text chunks of one message, joined into one. Return what was added."""
        first = chunks[0]
        if len(chunks) > 1 and type(first) is not updates.UserMessageChunk:  # its first chunk may be an echo
            text = "".join([chunk.content.text for chunk in chunks])
            chunks = [type(first)(content=TextContent(text=text), message_id=first.message_id)]
        self.unmerged.extend(chunks)
        if len(self.unmerged) >= MERGE_AFTER:
            self.merge_pending()
        return chunks

    def add_permission_call(self, call: Any) -> None:
        """Add the tool call of a permission request, announced or not (docs/protocol/peers.md#tool-call-order)."""
        if call.tool_call_id not in self.tool_calls:
            self._asked_calls.add(call.tool_call_id)
        self._merge_call(self.tool_calls.get(call.tool_call_id), call)

    def withdraw_permission_call(self, id: str) -> None:
        """End the tool call of a permission request that the agent took back, unless the agent announced the call."""
        if id in self._asked_calls:
            self._asked_calls.discard(id)
            self.tool_calls[id].status = ToolCallStatus.CANCELLED

    def _merge_call(self, known: ToolCall | None, update: Any) -> None:
        merged = merge_update(known, update)
        if known is None:
            self.started_calls += 1
            self.tool_calls[merged.tool_call_id] = merged
            self.unmerged.append(merged)

    def set_mode(self, mode_id: str) -> None:
        """Set the current mode."""
        self._mode = mode_id
        if self.modes is not None:
            self.modes.current_mode_id = mode_id

    def _apply_terminal(self, update: Any) -> None:
        id = update.terminal_id
        terminal = self.terminals.get(id)
        if terminal is None:
            terminal = self.terminals[id] = AgentTerminal(terminal_id=id)
            if len(self.terminals) > MAX_TERMINALS:
                del self.terminals[next(iter(self.terminals))]
        if type(update) is updates.TerminalUpdate:
            terminal.update(update)
        else:
            terminal.write(update)

    def _apply_state(self, update: updates.SessionStateUpdate) -> None:
        self.state = update.state
        if update.background is not UNSET:
            self.background = list(update.background or ())

    def _apply_plan(self, update: updates.PlanUpdate) -> None:
        plan: Any = update.plan
        id = plan.raw.get("planId") if hasattr(plan, "raw") else plan.plan_id
        self.plans[str(id)] = plan

    def _apply_info(self, update: updates.SessionInfoUpdate) -> None:
        if update.title is not UNSET:
            self.title = update.title

    def _apply_compaction(self, update: updates.CompactionUpdate) -> None:
        known = self._find_compaction(update.compaction_id)
        known.status = update.status
        if update.summary:
            known.summary = list(update.summary)
        if update.error:
            known.error = update.error

    def _apply_summary(self, update: updates.CompactionSummaryChunk) -> None:
        self._find_compaction(update.compaction_id).summary.append(update.content)

    def _find_compaction(self, id: str) -> Compaction:
        if id not in self._compactions:
            self._compactions[id] = Compaction(compaction_id=id, status="in_progress")
            self.unmerged.append(self._compactions[id])
        return self._compactions[id]

    def discard_finished(self) -> None:
        """Drop finished entries and keep the current state, for a reader that takes the rest from a log."""
        self.unmerged.clear()
        self._entries.clear()
        self._by_id.clear()
        self._compactions.clear()
        self._open_message = None
        self.terminals = {id: each for id, each in self.terminals.items() if each.exit_status is None}
        self.tool_calls = {id: call for id, call in self.tool_calls.items() if call.status not in FINAL_STATUSES}

    # --- merging ----------------------------------------------------------------------------------------------

    def merge_pending(self) -> None:
        """Merge the pending updates. This loop runs for every chunk, so it does little."""
        kind: Any = None  # the kind and id of the chunks being joined
        id: Any = None
        texts: list[str] = []
        for item in self.unmerged:
            if type(item) is kind and (item.message_id is id or item.message_id == id):
                content = item.content
                if type(content) is TextContent and content.meta is UNSET and content.annotations is UNSET:
                    texts.append(content.text)
                    continue
            if texts:
                self._open_message.write_text("".join(texts))  # type: ignore[union-attr]
                texts.clear()
            kind = None
            role = ROLES.get(type(item))
            if role is None:
                self._append_entry(item)
            else:
                kind, id = type(item), item.message_id
                self._message_for(role, id or None, item).write(item.content)
        if texts:
            self._open_message.write_text("".join(texts))  # type: ignore[union-attr]
        self.unmerged.clear()

    def _message_for(self, role: str, id: str | None, chunk: Any) -> Message:
        """Return the message that a chunk belongs to: the open one, unless its role or id differs."""
        message = self._open_message
        if (
            message is None
            or message.role != role
            or message.is_local_prompt
            or (id is not None and id != message.message_id)
        ):
            return self._start_message(role, id, chunk)
        return message

    def _start_message(self, role: str, id: str | None, chunk: Any) -> Message:
        """Return the message of a chunk that does not continue the open message."""
        last = self._open_message
        if last is not None and last.is_local_prompt and role == last.role and last.is_echoed_by(chunk.content):
            last.restart(id)  # the agent echoes the prompt (docs/protocol/peers.md#prompt-echo): keep one copy
            message = last
        elif id is not None and (role, id) in self._by_id:
            message = self._by_id[role, id]
        else:
            message = Message(role, id)
            self._entries.append(message)
        if id is not None:
            self._by_id[role, id] = message
        self._open_message = message
        return message

    def _replace_message(self, role: str, update: Any) -> None:
        """Set the content of a message; absent content stays."""
        content = None if update.content is UNSET else list(update.content or ())
        if content is None and (role, update.message_id) not in self._by_id:
            return
        first = content[0] if content else TextContent(text="")
        message = self._message_for(role, update.message_id, updates.UserMessageChunk(content=first))
        if content is not None:
            message.replace(update.message_id, content)

    def _append_entry(self, item: Any) -> None:
        role = WHOLE_ROLES.get(type(item))
        if role is not None:
            self._replace_message(role, item)
            return
        self._entries.append(item)
        if type(item) is Message:
            self._open_message = item
        elif type(item) in (ToolCall, Compaction):  # these end a message; an unknown update does not
            self._open_message = None


_CALL_UPDATES = frozenset({updates.ToolCallStart, updates.ToolCallProgress, updates.ToolCallContentChunk})

# Notices are not part of the transcript.
_NOT_SHOWN = frozenset({updates.Notice})

_STATE_UPDATES: dict[type, Any] = {
    updates.TerminalUpdate: Transcript._apply_terminal,
    updates.TerminalOutputChunk: Transcript._apply_terminal,
    updates.SessionStateUpdate: Transcript._apply_state,
    updates.Plan: lambda transcript, update: setattr(transcript, "plan", list(update.entries)),
    updates.PlanUpdate: Transcript._apply_plan,
    updates.PlanRemoved: lambda transcript, update: transcript.plans.pop(update.plan_id, None),
    updates.UsageUpdate: lambda transcript, update: setattr(transcript, "usage", update),
    updates.SessionInfoUpdate: Transcript._apply_info,
    updates.CurrentModeUpdate: lambda transcript, update: transcript.set_mode(update.current_mode_id),
    updates.ConfigOptionUpdate: lambda transcript, update: setattr(transcript, "options", list(update.config_options)),
    updates.AvailableCommandsUpdate: lambda transcript, update: setattr(
        transcript, "commands", list(update.available_commands)
    ),
    updates.CompactionUpdate: Transcript._apply_compaction,
    updates.CompactionSummaryChunk: Transcript._apply_summary,
}
