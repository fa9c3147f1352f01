"""A stored session on an output stream: messages, tool calls, and turns that ended abnormally.

`dragoman sessions show` shows the whole session, chat shows the end of the one it continues.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.cli.ui.format import format_age, format_count
from dragoman.cli.ui.markdown import Markdown
from dragoman.cli.ui.terminal import OutputStream, sanitize_line
from dragoman.cli.ui.turn_view import content_text, tool_call_line
from dragoman.schema.content import EmbeddedResource
from dragoman.session.message import Message
from dragoman.session.toolcall import ToolCall
from dragoman.store.contract import Entry, EntryKind, Store, Summary
from dragoman.store.replay import build_transcript

# Entries at the end of a session in which the last turn is searched.
LAST_TURN_ENTRIES = 2000


class TranscriptView:
    """Writes sessions to one output stream."""

    def __init__(self, output: OutputStream, *, thoughts: bool = False) -> None:
        self._output = output
        self._thoughts = thoughts

    def show_session(self, summary: Summary, lines: list[bytes]) -> None:
        """Show a whole session, with a header."""
        self._output.write_line(sanitize_line(summary.name or summary.title or summary.session_id), "bold")
        fields = {
            "id": summary.session_id,
            "agent": summary.agent,
            "folder": summary.cwd,
            "last": f"{format_age(summary.updated_at)}, {format_count(summary.turns, 'turn')}",
            "forked from": summary.forked_from,
            "members": ", ".join(_past_members(lines)),
        }
        for name, value in fields.items():
            if value:
                self._output.write_line(f"{name}: {sanitize_line(value)}", "dim")
        self.show_entries(lines)

    def show_entries(self, lines: list[bytes]) -> None:
        """Show messages and tool calls, and abnormal ends of turns in their place."""
        part: list[bytes] = []
        for line in lines:
            entry = msgspec.json.decode(line, type=Entry)
            note = _end_note(entry)
            if note:
                self._show_transcript(part)
                part = []
                self._output.ensure_blank_line()
                self._output.write_line(sanitize_line(note), "yellow")
            else:
                part.append(line)
        self._show_transcript(part)

    def _show_transcript(self, lines: list[bytes]) -> None:
        follows_call = False
        for each in build_transcript(lines):
            if isinstance(each, ToolCall):
                if not follows_call:
                    self._output.ensure_blank_line()
                line = tool_call_line(each)
                self._output.write_line(sanitize_line(line.text), line.style)
            elif isinstance(each, Message) and (each.role != "thought" or self._thoughts):
                self._show_message(each)
            else:
                continue
            follows_call = isinstance(each, ToolCall)

    def _show_message(self, message: Message) -> None:
        text = "".join(map(block_text, message.content)).strip()
        if not text:
            return
        self._output.ensure_blank_line()
        if message.role == "user":
            self._output.write_line("\n".join(f"> {line}" for line in text.split("\n")), "cyan")
        elif self._output.has_ansi:
            markdown = Markdown(
                self._output.write_pieces, lambda: self._output.width, "dim" if message.role == "thought" else ""
            )
            markdown.feed(text)
            markdown.finish()
            self._output.ensure_line_start()
        else:
            self._output.write_line(text)


async def read_last_turn(store: Store, summary: Summary) -> list[bytes]:
    """Return the lines of the last turn; of a very long one, the end of it."""
    after = max(0, summary.entries - LAST_TURN_ENTRIES)
    lines = await store.lines(summary.session_id, after=after, limit=summary.entries - after, intact=True)
    for index in range(len(lines) - 1, -1, -1):
        if msgspec.json.decode(lines[index], type=Entry).kind == EntryKind.TURN_STARTED:
            return lines[index:]
    return lines


def _past_members(lines: list[bytes]) -> list[str]:
    """Return the members of a session on a host, in the order in which they joined."""
    entries = (msgspec.json.decode(line, type=Entry) for line in lines if b'"member"' in line)
    joined = [each for one in entries if one.kind == EntryKind.MEMBER for each in one.body.get("came", ())]
    return list(dict.fromkeys(f"{each['user']} ({each['role']})" for each in joined))


def block_text(block: Any) -> str:
    """Return a block as text; an attachment is named, not shown."""
    if isinstance(block, EmbeddedResource):
        return f"[{sanitize_line(block.resource.uri)}]\n"
    return content_text(block)


def _end_note(entry: Entry) -> str:
    """Return a note when a turn ended abnormally."""
    body = entry.body if isinstance(entry.body, dict) else {}
    if entry.kind == EntryKind.AGENT_EXITED:
        return f"the agent exited: {body.get('message', '')}"
    if entry.kind == EntryKind.LOST:
        return f"entry {entry.seq} is lost"
    if entry.kind == EntryKind.TURN_ENDED and isinstance(body.get("error"), dict):
        return f"the turn failed: {body['error'].get('message', '')}"
    if entry.kind == EntryKind.TURN_ENDED and body.get("stopReason") not in (None, "end_turn"):
        return f"the turn ended: {str(body['stopReason']).replace('_', ' ')}"
    return ""
