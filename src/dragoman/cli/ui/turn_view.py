"""A turn on a terminal: Markdown as it streams in, thoughts dimmed, tool calls with their status, plans as checklists.

Takes updates, writes output streams; a table has one row per type of update.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from typing import Any, ClassVar, NamedTuple

from msgspec import UNSET

from dragoman import ClientSession
from dragoman.cli.ui.format import diff_lines
from dragoman.cli.ui.markdown import Markdown
from dragoman.cli.ui.terminal import OutputStream, StyledLine, TerminalOutput, sanitize_line
from dragoman.dialect.narrow.loss import LossReports
from dragoman.dialect.narrow.message import Messages
from dragoman.dialect.side_data import side_data_of
from dragoman.schema import update as updates
from dragoman.schema.content import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent
from dragoman.schema.toolcall import AgentTerminalEmbed, Diff, Patch, PatchDiff, TerminalEmbed, ToolCallBlock
from dragoman.session.toolcall import FINAL_STATUSES, ToolCall

# Lines shown of a tool's result, of a diff, and of a command's output (its end).
MAX_RESULT_LINES, MAX_DIFF_LINES, MAX_OUTPUT_LINES = 8, 40, 16

# An incomplete word is held back so that it can move to the next line, but no longer than this. Seconds.
WORD_FLUSH_DELAY = 0.1

# Status to sign and style.
STATUS_SIGNS = {
    "pending": ("·", "dim"),
    "awaiting_permission": ("?", "yellow"),
    "in_progress": ("…", "cyan"),
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "denied": ("✗", "red"),
    "cancelled": ("✗", "yellow"),
}

_PLAN_BOXES = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}

# The title of a host's notice that the agent exited.
AGENT_ENDED = "The agent ended"

# Updates of what can be chosen: only programs with menus need them.
# Contents and terminals are shown with their tool call.
_SILENT_UPDATES = (
    updates.AvailableCommandsUpdate,
    updates.ConfigOptionUpdate,
    updates.SessionStateUpdate,
    updates.ToolCallContentChunk,
    updates.TerminalUpdate,
    updates.TerminalOutputChunk,
)


class ResultPart(NamedTuple):
    """The lines of one part of a tool's result, and how many of them are shown."""

    lines: list[StyledLine]
    limit: int = MAX_RESULT_LINES
    shows_end: bool = False


class TurnView:
    """Shows the updates of one session."""

    def __init__(
        self,
        terminal: TerminalOutput,
        session: ClientSession,
        *,
        output_of: Callable[[str], str] = lambda _: "",
        shown_changes: Container[tuple[str, str]] = (),
        verbose: bool = False,
        hide_status: bool = False,
        quiet: bool = False,
        prompt_author: Callable[[], str] | None = None,
    ) -> None:
        self._answer = terminal.answer
        self._diagnostics = terminal.diagnostics
        self._session = session
        self._output_of = output_of
        self._shown_changes = shown_changes
        self._verbose = verbose
        self._quiet = quiet  # only the answer
        self._prompt_author = prompt_author  # the author of a prompt, where it can be another member
        self._hide_status = hide_status  # the status line shows mode, title and usage
        self._markdown = {
            "message": Markdown(self._answer.write_pieces, lambda: self._answer.width),
            "thought": Markdown(self._diagnostics.write_pieces, lambda: self._diagnostics.width, "dim"),
        }
        self._flush_timer: asyncio.TimerHandle | None = None
        self._sections: dict[OutputStream, str] = {}
        self._messages = Messages(LossReports())  # those that may still be changed
        self._statuses: dict[str, str] = {}
        self._plan: list[tuple[str, str]] = []
        self.expected_mode = ""  # id or name of the mode that the user chose; the command itself reports it
        self.fold_hint = ""  # how to see the lines that are left out
        self.folded_result: list[StyledLine] = []  # all lines of the last result of which some were left out
        self._call_ids: list[str] = []  # tool calls whose lines are together at the end

    def show(self, update: Any) -> None:
        """Show one update."""
        if isinstance(update, updates.Notice) and self.is_silent(update):
            return
        if self._quiet and not (
            isinstance(update, updates.AgentMessage)
            or (isinstance(update, updates.AgentMessageChunk) and isinstance(update.content, TextContent))
        ):
            return
        if isinstance(update, updates.MessageChunk) and update.message_id:
            self._messages.chunk(update)
        show_update = self._SHOW_BY_TYPE.get(type(update))
        if show_update is not None:
            show_update(self, update)
        elif self._verbose and not isinstance(update, _SILENT_UPDATES):
            self._write_note(f"({type(update).__name__})")

    def is_silent(self, update: Any) -> bool:
        """Return whether nothing would be shown."""
        if isinstance(update, updates.Notice):  # in a host, the presence lines report that the agent exited
            return self._prompt_author is not None and update.title == AGENT_ENDED
        if isinstance(update, updates.CurrentModeUpdate):
            return self.expected_mode.lower() in map(str.lower, self._mode_names(update))
        return isinstance(update, _SILENT_UPDATES) or (self._hide_status and isinstance(update, updates.UsageUpdate))

    def end_turn(self) -> None:
        """End the turn: the answer ends with a newline, and the next turn begins anew."""
        self._answer.ensure_line_start()
        self._diagnostics.ensure_line_start()
        self._sections.clear()
        self._statuses.clear()
        self._plan = []
        self._call_ids = []

    # --- text -------------------------------------------------------------------------------------------------

    def _show_message(self, update: updates.AgentMessageChunk) -> None:
        if isinstance(update.content, TextContent):
            self._stream_text(self._answer, "message", update.content.text)
        else:
            self._write_note(content_text(update.content))

    def _show_whole_message(self, update: updates.WholeMessage) -> None:
        """Show what was not shown yet of a message; one that was changed is shown anew, one taken back is named."""
        chunks = self._messages.whole(update)
        is_cleared = update.content is not UNSET and not update.content
        if is_cleared and not self._messages.passes(updates.AgentMessageChunk, update.message_id):
            self._answer.ensure_blank_line()
            if not self._quiet:
                self._write_note("(the agent took that back)")
        for chunk in chunks:
            if "replaces" in side_data_of(chunk) and isinstance(chunk, updates.AgentMessageChunk):
                self._answer.ensure_blank_line()
            self._SHOW_BY_TYPE[type(chunk)](self, chunk)

    def _show_thought(self, update: updates.AgentThoughtChunk) -> None:
        if isinstance(update.content, TextContent):
            self._stream_text(self._diagnostics, "thought", update.content.text)

    def _stream_text(self, output: OutputStream, section: str, text: str) -> None:
        """Write text as it streams in: as Markdown where styles are possible, else as it is."""
        if not text:
            return  # some agents send empty chunks that carry only _meta (docs/protocol/peers.md#empty-chunks)
        self._begin_section(output, section)
        if not output.has_ansi:
            output.write_text(text, "dim" if section == "thought" else "")
            return
        markdown = self._markdown[section]
        markdown.feed(text)
        output.flush_pending = markdown.finish
        if self._flush_timer is None:
            self._flush_timer = asyncio.get_running_loop().call_later(WORD_FLUSH_DELAY, self._flush_words)

    def _flush_words(self) -> None:
        self._flush_timer = None
        for text in self._markdown.values():
            text.flush_partial()

    def _show_user_message(self, update: updates.UserMessageChunk) -> None:
        if self._prompt_author is not None:
            self._begin_section(self._diagnostics, "asked")
            self._diagnostics.write_line(
                f"{sanitize_line(self._prompt_author()) or 'somebody'} asks: {content_text(update.content)}", "bold"
            )
        elif self._verbose:
            self._write_note(f"(you: {content_text(update.content)})")

    # --- work -------------------------------------------------------------------------------------------------

    def _show_tool_call(self, update: updates.ToolCallStart | updates.ToolCallProgress) -> None:
        call = self._session.tool_calls[update.tool_call_id]
        # Some agents reuse an id (docs/protocol/peers.md#tool-call-order).
        is_new = isinstance(update, updates.ToolCallStart)
        before = None if is_new else self._statuses.get(call.tool_call_id)
        if call.status == before:
            return
        self._statuses[call.tool_call_id] = call.status
        # Where a line cannot be redrawn, show only the beginning and the end of a call.
        is_drawn = self._diagnostics.can_redraw("calls") and call.tool_call_id in self._call_ids
        if before is None or call.status in FINAL_STATUSES or is_drawn:
            self._begin_section(self._diagnostics, "work")
            drawn = self._call_ids if self._diagnostics.can_redraw("calls") else []
            if call.status in FINAL_STATUSES or call.tool_call_id not in drawn:
                # Its result is shown below, so it goes to the end.
                drawn = [*(id for id in drawn if id != call.tool_call_id), call.tool_call_id]
            self._call_ids = drawn
            self._diagnostics.draw_block("calls", [tool_call_line(self._session.tool_calls[id]) for id in drawn])
        if call.status in FINAL_STATUSES:
            lines = [line for part in self._result_parts(call) for line in self._fold(part)]
            self._diagnostics.write_lines(StyledLine(f"    {line.text}", line.style) for line in lines)
            if len(lines) != len(self._all_lines(call)):
                self.folded_result = [tool_call_line(call), *self._all_lines(call)]

    def _all_lines(self, call: ToolCall) -> list[StyledLine]:
        return [line for part in self._result_parts(call) for line in part.lines]

    def _fold(self, part: ResultPart) -> list[StyledLine]:
        """Return the lines of a part that are shown, and one more that counts the others."""
        omitted = len(part.lines) - part.limit
        if omitted <= 0:
            return part.lines
        word = "earlier" if part.shows_end else "more"
        note = StyledLine(f"… {omitted} {word} line{'' if omitted == 1 else 's'}{self.fold_hint}", "dim")
        return [note, *part.lines[omitted:]] if part.shows_end else [*part.lines[: part.limit], note]

    def _result_parts(self, call: ToolCall) -> list[ResultPart]:
        parts: list[ResultPart] = []
        for block in call.content:
            match block:
                case Diff() if call.status != "completed" or (block.path, block.new_text) in self._shown_changes:
                    continue  # it was not made, or a question has just shown it
                case Diff():
                    old = block.old_text if block.old_text is not UNSET else None
                    lines = [StyledLine(self._relative_path(block.path), "dim"), *diff_lines(old, block.new_text)]
                    parts.append(ResultPart(lines, MAX_DIFF_LINES + 1))
                case PatchDiff(patch=Patch(text=patch)) if call.status == "completed":
                    parts.append(ResultPart([StyledLine(line, "dim") for line in patch.splitlines()], MAX_DIFF_LINES))
                case AgentTerminalEmbed() if known := self._session.transcript.terminals.get(block.terminal_id):
                    output = [StyledLine(sanitize_line(text), "dim") for text in known.text.splitlines()]
                    parts.append(ResultPart(output, MAX_OUTPUT_LINES, shows_end=True))
                case TerminalEmbed():
                    output = [StyledLine(text, "dim") for text in self._output_of(block.terminal_id).splitlines()]
                    parts.append(ResultPart(output, MAX_OUTPUT_LINES, shows_end=True))
                case ToolCallBlock(content=TextContent(text=text)):
                    parts.append(ResultPart([StyledLine(line, "dim") for line in text.splitlines()], MAX_RESULT_LINES))
                case ToolCallBlock():
                    parts.append(ResultPart([StyledLine(content_text(block.content), "dim")]))
        return parts

    def _show_plan(self, update: updates.Plan) -> None:
        entries = [(entry.status, entry.content) for entry in update.entries]
        lines = [
            StyledLine(f"{_PLAN_BOXES.get(status, '[ ]')} {text}", STATUS_SIGNS.get(status, ("", ""))[1])
            for status, text in entries
        ]
        if not self._diagnostics.can_redraw("plan") and len(entries) == len(self._plan):
            lines = [line for line, now, then in zip(lines, entries, self._plan, strict=True) if now != then]
        if lines:
            self._begin_section(self._diagnostics, "plan")
            self._diagnostics.draw_block("plan", lines)
        self._plan = entries

    # --- the session ------------------------------------------------------------------------------------------

    def _show_mode(self, update: updates.CurrentModeUpdate) -> None:
        if not self.is_silent(update):
            self.expected_mode = ""
            self._write_note(f"mode is now {sanitize_line(self._mode_names(update)[-1])}")

    def _mode_names(self, update: updates.CurrentModeUpdate) -> list[str]:
        """Return the id of a mode, and its name if it has one."""
        modes = self._session.modes.available_modes if self._session.modes else ()
        id = update.current_mode_id
        return [id, *(mode.name for mode in modes if mode.id == id and mode.name)]

    def _show_title(self, update: updates.SessionInfoUpdate) -> None:
        if update.title:
            self._write_note(f"session title is now {sanitize_line(update.title)!r}")

    def _show_usage(self, update: updates.UsageUpdate) -> None:
        if self._hide_status:
            return
        cost = f", {update.cost.amount:g} {sanitize_line(update.cost.currency)}" if update.cost else ""
        self._write_note(f"context: {update.used} of {update.size} tokens used{cost}")

    def _show_notice(self, update: updates.Notice) -> None:
        more = (
            f": {sanitize_line(update.description)}"
            if isinstance(update.description, str) and update.description
            else ""
        )
        self._write_note(f"{sanitize_line(update.severity)}: {sanitize_line(update.title)}{more}")

    def _write_note(self, text: str) -> None:
        self._begin_section(self._diagnostics, "note")
        self._diagnostics.write_prose(text, "dim")

    def _begin_section(self, output: OutputStream, section: str) -> None:
        """Separate sections of different kinds with an empty line."""
        before = self._sections.get(output)
        if before != section:
            self._sections[output] = section
            if before is None:
                output.ensure_line_start()
            else:
                output.ensure_blank_line()

    def _relative_path(self, path: str) -> str:
        return sanitize_line(path.removeprefix(self._session.cwd.rstrip("/") + "/"))

    _SHOW_BY_TYPE: ClassVar[dict[type, Callable[[TurnView, Any], None]]] = {
        updates.AgentMessageChunk: _show_message,
        updates.AgentThoughtChunk: _show_thought,
        updates.UserMessageChunk: _show_user_message,
        updates.AgentMessage: _show_whole_message,
        updates.AgentThought: _show_whole_message,
        updates.UserMessage: _show_whole_message,
        updates.ToolCallStart: _show_tool_call,
        updates.ToolCallProgress: _show_tool_call,
        updates.Plan: _show_plan,
        updates.CurrentModeUpdate: _show_mode,
        updates.SessionInfoUpdate: _show_title,
        updates.UsageUpdate: _show_usage,
        updates.Notice: _show_notice,
    }


def tool_call_line(call: ToolCall) -> StyledLine:
    """Return a tool call in one line."""
    sign, style = STATUS_SIGNS.get(call.status, ("·", "dim"))
    kind = f" ({call.status})" if call.status in ("denied", "cancelled") else ""
    return StyledLine(f"{sign} {call.title or call.name or call.tool_call_id}{kind}", style)


def content_text(block: Any) -> str:
    """Return a content block as text."""
    match block:
        case TextContent():
            return block.text
        case ImageContent() | AudioContent():
            kind = "image" if isinstance(block, ImageContent) else "sound"
            return f"[{kind}, {sanitize_line(block.mime_type)}, {len(block.data) * 3 // 4} bytes]"
        case ResourceLink():
            return f"[link to {sanitize_line(block.name)}: {sanitize_line(block.uri)}]"
        case EmbeddedResource():
            return (
                block.resource.text
                or f"[{sanitize_line(block.resource.uri)}, {sanitize_line(block.resource.mime_type or 'bytes')}]"
            )
        case _:
            return f"[{sanitize_line(str(getattr(block, 'tag', 'something')))}]"
