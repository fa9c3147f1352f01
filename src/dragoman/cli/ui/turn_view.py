"""A turn on a terminal: Markdown as it comes, thoughts dimmed, tool calls with their status, plans as checklists.

Takes updates, writes sheets; one row of a table for each kind of update. What a peer says goes through the sheets,
which let nothing act. Above are run, chat and demo; knows nothing of connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from typing import Any, ClassVar

from msgspec import UNSET

from dragoman import Conversation
from dragoman.cli.ui.diff import changed, shortened
from dragoman.cli.ui.markdown import Markdown
from dragoman.cli.ui.terminal import Line, Sheet, Terminal, single
from dragoman.schema.content import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent
from dragoman.schema.toolcall import Diff, TerminalEmbed, ToolCallBlock
from dragoman.schema.update import (
    AgentMessageChunk,
    AgentThoughtChunk,
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    Notice,
    Plan,
    SessionInfoUpdate,
    ToolCallProgress,
    ToolCallStart,
    UsageUpdate,
    UserMessageChunk,
)
from dragoman.session.toolcall import FINAL, ToolCall

# Lines shown of what a tool found, of a change, and of what a command printed (its end).
RESULT, CHANGE, PRINTED = 8, 40, 16

# A word is kept back until it is whole, so that it can begin a line; not longer than an eye would notice. Seconds.
WHOLE_WORD = 0.1

# How a status looks: a sign and a style.
_SIGNS = {
    "pending": ("·", "dim"),
    "awaiting_permission": ("?", "yellow"),
    "in_progress": ("…", "cyan"),
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "denied": ("✗", "red"),
    "cancelled": ("✗", "yellow"),
}

_BOXES = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}

# How a host begins its notice of an agent's death, for clients that know no other word for it.
AGENT_ENDED = "The agent ended"

# News of what could be chosen: for programs with menus.
_SILENT = (AvailableCommandsUpdate, ConfigOptionUpdate)


class Screen:
    """Shows the updates of one conversation."""

    def __init__(
        self,
        terminal: Terminal,
        conversation: Conversation,
        *,
        output_of: Callable[[str], str] = lambda _: "",
        known: Container[tuple[str, str]] = (),
        verbose: bool = False,
        discreet: bool = False,
        quiet: bool = False,
        who: Callable[[], str] | None = None,
    ) -> None:
        self._answer = terminal.answer
        self._aside = terminal.aside
        self._conversation = conversation
        self._output_of = output_of
        self._known = known
        self._verbose = verbose
        self._quiet = quiet  # nothing but the answer
        self._who = who  # who asked, where it may have been somebody else
        self._discreet = discreet  # somebody else shows mode, title and usage
        self._texts = {
            "message": Markdown(self._answer.pieces, lambda: self._answer.width),
            "thought": Markdown(self._aside.pieces, lambda: self._aside.width, "dim"),
        }
        self._resting: asyncio.TimerHandle | None = None
        self._section: dict[Sheet, str] = {}
        self._statuses: dict[str, str] = {}
        self._plan: list[tuple[str, str]] = []
        self._calls: list[str] = []  # those whose lines stand together at the end

    def show(self, update: Any) -> None:
        """One update."""
        if isinstance(update, Notice) and self.is_silent(update):
            return
        if self._quiet and not (isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContent)):
            return
        shown = self._SHOWN.get(type(update))
        if shown is not None:
            shown(self, update)
        elif self._verbose and not isinstance(update, _SILENT):
            self._note(f"({type(update).__name__})")

    def is_silent(self, update: Any) -> bool:
        """Whether nothing would be shown."""
        if isinstance(update, Notice):  # who has the others' company is told there that the agent ended
            return self._who is not None and update.title == AGENT_ENDED
        return isinstance(update, _SILENT) or (self._discreet and isinstance(update, UsageUpdate))

    def end(self) -> None:
        """The turn is over: the answer ends with a newline, and a later turn begins anew."""
        self._answer.fresh()
        self._aside.fresh()
        self._section.clear()
        self._statuses.clear()
        self._plan = []
        self._calls = []

    # --- text -------------------------------------------------------------------------------------------------

    def _say(self, update: AgentMessageChunk) -> None:
        if isinstance(update.content, TextContent):
            self._flow(self._answer, "message", update.content.text)
        else:
            self._note(describe(update.content))

    def _think(self, update: AgentThoughtChunk) -> None:
        if isinstance(update.content, TextContent):
            self._flow(self._aside, "thought", update.content.text)

    def _flow(self, sheet: Sheet, section: str, text: str) -> None:
        """Text as it streams in: as Markdown where there is ink for it, else as it is."""
        if not text:
            return  # some agents send empty chunks that carry only _meta (peers.md 35)
        self._enter(sheet, section)
        if not sheet.has_ink:
            sheet.say(text, "dim" if section == "thought" else "")
            return
        flowing = self._texts[section]
        flowing.feed(text)
        sheet.unsettled = flowing.settle
        if self._resting is None:
            self._resting = asyncio.get_running_loop().call_later(WHOLE_WORD, self._rest)

    def _rest(self) -> None:
        self._resting = None
        for text in self._texts.values():
            text.rest()

    def _echo(self, update: UserMessageChunk) -> None:
        if self._who is not None:
            self._enter(self._aside, "asked")
            self._aside.line(f"{single(self._who()) or 'somebody'} asks: {describe(update.content)}", "bold")
        elif self._verbose:
            self._note(f"(you: {describe(update.content)})")

    # --- work -------------------------------------------------------------------------------------------------

    def _tool(self, update: ToolCallStart | ToolCallProgress) -> None:
        call = self._conversation.tool_calls[update.tool_call_id]
        again = isinstance(update, ToolCallStart)  # some agents use an id again (peers.md 18)
        before = None if again else self._statuses.get(call.tool_call_id)
        if call.status == before:
            return
        self._statuses[call.tool_call_id] = call.status
        # Where a line cannot be drawn over, the beginning and the end of a call must do.
        stands = self._aside.continues("calls") and call.tool_call_id in self._calls
        if before is None or call.status in FINAL or stands:
            self._enter(self._aside, "work")
            together = self._calls if self._aside.continues("calls") else []
            if call.status in FINAL or call.tool_call_id not in together:
                # What it found stands below, so it goes to the end.
                together = [*(id for id in together if id != call.tool_call_id), call.tool_call_id]
            self._calls = together
            self._aside.block("calls", [headline(self._conversation.tool_calls[id]) for id in together])
        if call.status in FINAL:
            self._aside.lines(Line(f"    {line.text}", line.style) for line in self._results(call))

    def _results(self, call: ToolCall) -> list[Line]:
        lines: list[Line] = []
        for block in call.content:
            match block:
                case Diff() if call.status != "completed" or (block.path, block.new_text) in self._known:
                    continue  # it was not made, or a question has just shown it
                case Diff():
                    lines.append(Line(self._short(block.path), "dim"))
                    lines += changed(block.old_text if block.old_text is not UNSET else None, block.new_text, CHANGE)
                case TerminalEmbed():
                    printed = [Line(text, "dim") for text in self._output_of(block.terminal_id).splitlines()]
                    left_out = len(printed) - PRINTED
                    lines += [Line(f"… {left_out} lines before", "dim")] if left_out > 0 else []
                    lines += printed[-PRINTED:]
                case ToolCallBlock(content=TextContent(text=text)):
                    lines += shortened([Line(line, "dim") for line in text.splitlines()], RESULT)
                case ToolCallBlock():
                    lines.append(Line(describe(block.content), "dim"))
        return lines

    def _checklist(self, update: Plan) -> None:
        entries = [(entry.status, entry.content) for entry in update.entries]
        lines = [
            Line(f"{_BOXES.get(status, '[ ]')} {text}", _SIGNS.get(status, ("", ""))[1]) for status, text in entries
        ]
        if not self._aside.continues("plan") and len(entries) == len(self._plan):
            lines = [line for line, now, then in zip(lines, entries, self._plan, strict=True) if now != then]
        if lines:
            self._enter(self._aside, "plan")
            self._aside.block("plan", lines)
        self._plan = entries

    # --- the session ------------------------------------------------------------------------------------------

    def _mode(self, update: CurrentModeUpdate) -> None:
        self._note(f"the mode is {single(update.current_mode_id)} now")

    def _info(self, update: SessionInfoUpdate) -> None:
        if update.title:
            self._note(f"the session is called {single(update.title)!r} now")

    def _usage(self, update: UsageUpdate) -> None:
        if self._discreet:
            return
        cost = f", {update.cost.amount:g} {single(update.cost.currency)}" if update.cost else ""
        self._note(f"{update.used} of {update.size} tokens of the context used{cost}")

    def _notice(self, update: Notice) -> None:
        more = f": {single(update.description)}" if isinstance(update.description, str) and update.description else ""
        self._note(f"{single(update.severity)}: {single(update.title)}{more}")

    def _note(self, text: str) -> None:
        self._enter(self._aside, "note")
        self._aside.line(text, "dim")

    def _enter(self, sheet: Sheet, section: str) -> None:
        """Different things stand apart: an empty line between them, a new line at least."""
        before = self._section.get(sheet)
        if before != section:
            self._section[sheet] = section
            if before is None:
                sheet.fresh()
            else:
                sheet.gap()

    def _short(self, path: str) -> str:
        return single(path.removeprefix(self._conversation.cwd.rstrip("/") + "/"))

    _SHOWN: ClassVar[dict[type, Callable[[Screen, Any], None]]] = {
        AgentMessageChunk: _say,
        AgentThoughtChunk: _think,
        UserMessageChunk: _echo,
        ToolCallStart: _tool,
        ToolCallProgress: _tool,
        Plan: _checklist,
        CurrentModeUpdate: _mode,
        SessionInfoUpdate: _info,
        UsageUpdate: _usage,
        Notice: _notice,
    }


def headline(call: ToolCall) -> Line:
    """A tool call in one line."""
    sign, style = _SIGNS.get(call.status, ("·", "dim"))
    kind = f" ({call.status})" if call.status in ("denied", "cancelled") else ""
    return Line(f"{sign} {call.title or call.name or call.tool_call_id}{kind}", style)


def describe(block: Any) -> str:
    """A content block that a terminal cannot show, in words."""
    match block:
        case TextContent():
            return block.text
        case ImageContent() | AudioContent():
            kind = "image" if isinstance(block, ImageContent) else "sound"
            return f"[{kind}, {single(block.mime_type)}, {len(block.data) * 3 // 4} bytes]"
        case ResourceLink():
            return f"[link to {single(block.name)}: {single(block.uri)}]"
        case EmbeddedResource():
            return (
                block.resource.text or f"[{single(block.resource.uri)}, {single(block.resource.mime_type or 'bytes')}]"
            )
        case _:
            return f"[{single(str(getattr(block, 'tag', 'something')))}]"
