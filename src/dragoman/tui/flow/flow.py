"""The transcript of one session as blocks: takes updates in order, or the lines of a log.

Adding a chunk is one append; nothing is rendered before it is visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from msgspec import UNSET

from dragoman.cli.ui.rows import peer_line
from dragoman.cli.ui.turn_view import content_text
from dragoman.schema import update as updates
from dragoman.schema.content import ImageContent, TextContent
from dragoman.session.agent_terminal import AgentTerminal
from dragoman.session.message import WHOLE_ROLES
from dragoman.session.toolcall import FINAL_STATUSES, ToolCall, merge_update
from dragoman.store.contract import EntryKind, decode_raw_entry
from dragoman.store.replay import decode_prompt, decode_update
from dragoman.tui.flow.block import Block, Content
from dragoman.tui.flow.card import ToolCard
from dragoman.tui.flow.message import MessageText, clock_time
from dragoman.tui.flow.parts import Note, PictureBlock, PlanList


class Flow:
    """The blocks of one session."""

    def __init__(
        self,
        cwd: str,
        output_of: Callable[[str], str] = lambda _: "",
        terminals: Callable[[], Mapping[str, AgentTerminal]] = dict,
    ) -> None:
        self.blocks: list[Block] = []
        self.shifted = 0  # blocks that were added before the first one, since the flow was made
        self.cards: dict[str, ToolCard] = {}  # the last one of each id
        self.plan: list[tuple[str, str]] = []
        self.user = ""  # the author of prompts that come as updates
        self._cwd = cwd
        self._output_of = output_of
        self._terminals = terminals
        self._open: MessageText | None = None  # the message that the next chunk continues
        self._by_id: dict[tuple[str, str], MessageText] = {}
        self._plan_block: PlanList | None = None
        self._time = ""

    # --- adding -------------------------------------------------------------------------------------------------

    def add(self, content: Content) -> Block:
        """Add a block at the end."""
        self.end_message()
        block = Block(content)
        self.blocks.append(block)
        return block

    def add_note(self, text: str, style: str = "dim") -> None:
        """Add a line of ours."""
        self.add(Note(text, style))

    def add_prompt(self, content: Iterable[Any], author: str, time: str = "") -> None:
        """Add a prompt of a person."""
        parts = list(content)
        message = MessageText("user", author, time)
        message.add("".join(_prompt_text(block) for block in parts))
        message.finish()
        self.add(message)
        for block in parts:
            if isinstance(block, ImageContent):
                self.add(PictureBlock(block))

    def end_message(self) -> None:
        """Note that the message at the end is complete."""
        if self._open is not None:
            self._open.finish()
            self._open = None

    def end_turn(self, calls: Mapping[str, ToolCall] | None = None) -> None:
        """Note the end of a turn; `calls` has the statuses of calls that ended without an update."""
        self.end_message()
        self._plan_block = None
        for id, card in self.cards.items():
            known = (calls or {}).get(id)
            if card.is_running and known is not None and known.status in FINAL_STATUSES:
                card.call.status = known.status
                card.note_change()

    def apply(self, update: Any) -> None:
        """Add one update."""
        handler = self._HANDLERS.get(type(update))
        if handler is not None:
            handler(self, update)

    # --- messages -----------------------------------------------------------------------------------------------

    def _add_chunk(self, update: updates.MessageChunk) -> None:
        role = _CHUNK_ROLES[type(update)]
        block = update.content
        if not isinstance(block, TextContent):
            self._add_other(block, role)
            return
        if not block.text:
            return
        message = self._open
        id = update.message_id or None
        if message is None or message.kind != _KINDS[role] or (id is not None and id != message.message_id):
            message = self._start_message(role, id)
        message.add(block.text)

    def _start_message(self, role: str, id: str | None) -> MessageText:
        known = self._by_id.get((role, id)) if id is not None else None
        if known is not None:
            return known
        message = MessageText(role, self.user if role == "user" else "", self._time or clock_time(), id)
        self.add(message)
        if id is not None:
            self._by_id[role, id] = message
        self._open = message
        return message

    def _add_other(self, block: Any, role: str) -> None:
        if isinstance(block, ImageContent):
            self.add(PictureBlock(block))
        elif role != "thought":
            self.add_note(content_text(block))

    def _add_whole_message(self, update: updates.WholeMessage) -> None:
        role = WHOLE_ROLES[type(update)]
        if update.content is UNSET:
            return
        message = self._by_id.get((role, update.message_id)) or self._start_message(role, update.message_id)
        message.replace("".join(block.text for block in update.content or () if isinstance(block, TextContent)))
        for block in update.content or ():
            if not isinstance(block, TextContent):
                self._add_other(block, role)

    # --- work ---------------------------------------------------------------------------------------------------

    def _add_call(self, update: Any) -> None:
        id = update.tool_call_id
        card = self.cards.get(id)
        # Some agents reuse ids (docs/protocol/peers.md#tool-call-order).
        is_again = isinstance(update, updates.ToolCallStart) and card is not None and not card.is_running
        if card is None or is_again:
            call = merge_update(None, update)
            card = self.cards[id] = ToolCard(call, self._cwd, self._output_of, self._terminals())
            self.add(card)
        else:
            merge_update(card.call, update)
        card.note_change()

    def note_decision(self, call_id: str, text: str) -> None:
        """Note on its card who decided about a call."""
        if (card := self.cards.get(call_id)) is not None:
            card.decision = text
            card.note_change()

    def _set_plan(self, update: updates.Plan) -> None:
        self.plan = [(entry.status, entry.content) for entry in update.entries]
        if self._plan_block is None:
            self._plan_block = PlanList()
            self.add(self._plan_block)
        self._plan_block.replace(self.plan)

    def _add_notice(self, update: updates.Notice) -> None:
        more = f": {update.description}" if isinstance(update.description, str) and update.description else ""
        style = {"error": "red", "warning": "yellow"}.get(str(update.severity), "dim")
        self.add_note(f"{update.title}{more}", style)

    def _add_mode(self, update: updates.CurrentModeUpdate) -> None:
        self.add_note(f"mode is now {peer_line(update.current_mode_id)}")

    def _add_compaction(self, update: updates.CompactionUpdate) -> None:
        self.add_note(f"the agent shortens its context: {peer_line(str(update.status)).replace('_', ' ')}")

    # --- history ------------------------------------------------------------------------------------------------

    def add_history(self, lines: Iterable[bytes]) -> None:
        """Add entries of a log."""
        for entry in map(decode_raw_entry, lines):
            self._time = clock_time(entry.time)
            if entry.kind == EntryKind.UPDATE and (update := decode_update(entry.body)) is not None:
                self.apply(update)
            elif entry.kind == EntryKind.PROMPT:
                self.add_prompt(decode_prompt(entry.body), entry.actor if entry.actor != "user" else "", self._time)
            elif entry.kind == EntryKind.TURN_ENDED:
                self._end_logged_turn(entry.value)
            elif entry.kind == EntryKind.AGENT_EXITED:
                self.add_note(f"the agent exited: {peer_line(str(entry.value.get('message', '')))}", "yellow")
            elif entry.kind == EntryKind.LOST:
                self.add_note(f"entry {entry.seq} is lost", "yellow")
        self._time = ""

    def _end_logged_turn(self, body: Any) -> None:
        self.end_turn()
        error, reason = body.get("error"), body.get("stopReason")
        if isinstance(error, dict):
            self.add_note(f"the turn failed: {peer_line(str(error.get('message', '')))}", "yellow")
        elif reason not in (None, "end_turn"):
            self.add_note(f"the turn ended: {str(reason).replace('_', ' ')}", "yellow")

    def prepend_history(self, lines: Sequence[bytes]) -> None:
        """Add earlier entries of the log before everything else."""
        earlier = Flow(self._cwd, self._output_of, self._terminals)
        earlier.add_history(lines)
        earlier.end_turn()
        self.blocks[0:0] = earlier.blocks
        self.shifted += len(earlier.blocks)

    def changes(self) -> list[tuple[str, int, int]]:
        """Return the files that the agent changed: path, added and removed lines; the last change first."""
        counts: dict[str, tuple[int, int]] = {}
        for card in self.cards.values():
            if card.call.status == "completed":
                for path, diff in card.changes():
                    added, removed = counts.pop(path, (0, 0))
                    counts[path] = (added + diff.added, removed + diff.removed)
        return [(path, *counts[path]) for path in reversed(counts)]

    _HANDLERS: ClassVar[dict[type, Callable[[Flow, Any], None]]] = {
        updates.AgentMessageChunk: _add_chunk,
        updates.AgentThoughtChunk: _add_chunk,
        updates.UserMessageChunk: _add_chunk,
        updates.AgentMessage: _add_whole_message,
        updates.AgentThought: _add_whole_message,
        updates.UserMessage: _add_whole_message,
        updates.ToolCallStart: _add_call,
        updates.ToolCallProgress: _add_call,
        updates.ToolCallContentChunk: _add_call,
        updates.Plan: _set_plan,
        updates.Notice: _add_notice,
        updates.CurrentModeUpdate: _add_mode,
        updates.CompactionUpdate: _add_compaction,
    }


_CHUNK_ROLES = {
    updates.AgentMessageChunk: "agent",
    updates.AgentThoughtChunk: "thought",
    updates.UserMessageChunk: "user",
}
_KINDS = {"agent": "message", "thought": "thought", "user": "user"}


def _prompt_text(block: Any) -> str:
    """Return a block of a prompt; what is attached is named."""
    if isinstance(block, TextContent):
        return block.text
    uri = getattr(block, "uri", None) or getattr(getattr(block, "resource", None), "uri", None)
    return f"\n[{peer_line(str(uri))}]" if isinstance(uri, str) else f"\n{content_text(block)}"
