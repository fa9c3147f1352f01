"""Terminals that an agent runs itself, for clients that know only terminals of their own. Per session, pure.

A client that announced it gets the output in the `_meta` of the tool call that shows the terminal; another one gets it
as text of that tool call. A terminal that no tool call shows gets a tool call of its own.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from dragoman.dialect.narrow.client_view import ClientView
from dragoman.dialect.narrow.content import text_item
from dragoman.dialect.narrow.loss import Loss, LossReports
from dragoman.dialect.narrow.terminal_text import (
    TerminalText,
    decode_output,
    exit_members,
    has_failed,
    transcript,
)
from dragoman.schema.terminal import TerminalExitStatus
from dragoman.schema.toolcall import TerminalEmbed, ToolCallStatus, ToolKind
from dragoman.schema.update import TerminalOutputChunk, TerminalUpdate, ToolCallProgress, ToolCallStart

# Terminals that are remembered in a session; of more, the oldest are forgotten.
MAX_TERMINALS = 100


class AgentTerminal:
    """One terminal: what it wrote, how it ended, and where the client sees it."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.command: str | None = None
        self.cwd: str | None = None
        self.output = TerminalText()
        self.exit_status: TerminalExitStatus | None = None
        self.shown_in: list[str] = []  # the tool calls that refer to it
        self.carrier: str | None = None  # the tool call whose `_meta` carries the output
        self.has_own_call = False  # whether the client knows a tool call that is only about this terminal
        self.is_own_call_open = False
        self.is_exit_sent = False

    @property
    def own_call_id(self) -> str:
        """The id of a tool call that is only about this terminal."""
        return f"terminal:{self.id}"


class Terminals:
    """The terminals of one session."""

    def __init__(self, view: ClientView, losses: LossReports) -> None:
        self._view = view
        self._losses = losses
        self._terminals: dict[str, AgentTerminal] = {}
        self.changed: dict[str, AgentTerminal] = {}  # whose text the client does not have yet

    def get_or_add(self, id: str) -> AgentTerminal:
        """Return a terminal, from the first time that anything refers to it."""
        terminal = self._terminals.get(id)
        if terminal is None:
            terminal = self._terminals[id] = AgentTerminal(id)
            if len(self._terminals) > MAX_TERMINALS:
                self.changed.pop(oldest := next(iter(self._terminals)), None)
                del self._terminals[oldest]
        return terminal

    # --- what the agent says ----------------------------------------------------------------------------------

    def update(self, update: TerminalUpdate) -> list[Any]:
        """Note a terminal that appeared or changed; return what the client gets at once."""
        terminal = self.get_or_add(update.terminal_id)
        if update.command is not UNSET:
            terminal.command = update.command or None
        if update.cwd is not UNSET:
            terminal.cwd = update.cwd or None
        if update.capabilities and update.capabilities.cancel is not UNSET:
            self._losses.add(Loss.CANCEL_TERMINAL)
        text = ""
        if update.output is not UNSET:
            text = terminal.output.replace(self._bytes(update.output.data) if update.output else b"")
        if update.exit_status is not UNSET:
            terminal.exit_status = update.exit_status or None
        return self._tell(terminal, text)

    def output(self, update: TerminalOutputChunk) -> list[Any]:
        """Note more output; return what the client gets at once."""
        terminal = self.get_or_add(update.terminal_id)
        return self._tell(terminal, terminal.output.append(self._bytes(update.data)))

    def _bytes(self, data: str) -> bytes:
        found = decode_output(data)
        if found is None:
            self._losses.add(Loss.TERMINAL_BYTES)
        return found or b""

    def _tell(self, terminal: AgentTerminal, text: str) -> list[Any]:
        if terminal.carrier is not None:
            return self._pieces(terminal, text)
        self.changed[terminal.id] = terminal
        return []

    # --- as text ----------------------------------------------------------------------------------------------

    def item(self, id: str) -> Any:
        """Return the content of a tool call in place of a terminal."""
        if self._view.output_key is not None:
            return TerminalEmbed(terminal_id=id)
        terminal = self.get_or_add(id)
        plain = terminal.output.plain_text(terminal.exit_status is not None)
        if plain.had_sequences:
            self._losses.add(Loss.TERMINAL_STYLE)
        if plain.had_other_bytes:
            self._losses.add(Loss.TERMINAL_BYTES)
        return text_item(transcript(plain, terminal.output.dropped, terminal.exit_status))

    def own_call(self, terminal: AgentTerminal) -> list[Any]:
        """Return the tool call of a terminal that no other tool call shows."""
        self.changed.pop(terminal.id, None)
        if terminal.carrier is not None:
            return []
        content = [self.item(terminal.id)]
        status: str = ToolCallStatus.IN_PROGRESS
        if terminal.exit_status is not None:
            status = ToolCallStatus.FAILED if has_failed(terminal.exit_status) else ToolCallStatus.COMPLETED
        terminal.is_own_call_open = True
        if terminal.has_own_call:
            return [ToolCallProgress(tool_call_id=terminal.own_call_id, status=status, content=content)]
        terminal.has_own_call = True
        start = ToolCallStart(
            tool_call_id=terminal.own_call_id,
            title=terminal.command or f"terminal {terminal.id}",
            kind=ToolKind.EXECUTE,
            status=status if self._view.output_key is None else ToolCallStatus.IN_PROGRESS,
            content=content,
            meta=self.carrier_meta(terminal, terminal.own_call_id) or UNSET,
        )
        return [start, *self.output_so_far(terminal)]

    def end_own_call(self, terminal: AgentTerminal) -> list[Any]:
        """Return the end of a terminal's own tool call: another one shows the terminal now."""
        if not terminal.is_own_call_open or terminal.carrier is not None:
            return []
        terminal.is_own_call_open = False
        status = ToolCallStatus.COMPLETED
        return [ToolCallProgress(tool_call_id=terminal.own_call_id, status=status, content=[])]

    # --- in the `_meta` of tool calls -------------------------------------------------------------------------

    def carrier_meta(self, terminal: AgentTerminal, call_id: str) -> dict[str, Any]:
        """Make a tool call the carrier of the output, unless there is one; return what its start says about it."""
        if self._view.output_key is None or terminal.carrier is not None:
            return {}
        terminal.carrier = call_id
        self.changed.pop(terminal.id, None)
        info = {"terminal_id": terminal.id, **({"cwd": terminal.cwd} if terminal.cwd else {})}
        return {"terminal_info": info}

    def output_so_far(self, terminal: AgentTerminal) -> list[Any]:
        """Return what the terminal wrote before its carrier was known."""
        return [] if terminal.carrier is None else self._pieces(terminal, terminal.output.all_text())

    def _pieces(self, terminal: AgentTerminal, text: str) -> list[Any]:
        call_id, key = terminal.carrier, self._view.output_key
        assert call_id is not None
        assert key is not None
        if "\ufffd" in text:
            self._losses.add(Loss.TERMINAL_BYTES)
        updates = []
        if text:
            meta: dict[str, Any] = {key: {"terminal_id": terminal.id, "data": text}}
            updates.append(ToolCallProgress(tool_call_id=call_id, meta=meta))
        status = terminal.exit_status
        if status is not None and not terminal.is_exit_sent:
            terminal.is_exit_sent = True
            ended: Any = UNSET
            if call_id == terminal.own_call_id:
                ended = ToolCallStatus.FAILED if has_failed(status) else ToolCallStatus.COMPLETED
            meta = {"terminal_exit": {"terminal_id": terminal.id, **exit_members(status)}}
            updates.append(ToolCallProgress(tool_call_id=call_id, status=ended, meta=meta))
        return updates
