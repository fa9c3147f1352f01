"""Tool calls as cards: one row with status, kind, subject and result; below it diffs, output and texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from msgspec import UNSET

from dragoman.cli.ui.ansi import ansi_lines
from dragoman.cli.ui.diff import FileDiff, change_counts, compare_texts, diff_rows
from dragoman.cli.ui.format import format_count
from dragoman.cli.ui.rows import Piece, Row, RowWriter, clip_pieces, peer_line, pieces_width, two_sides, wrap_text
from dragoman.cli.ui.terminal import sanitize, without_question_bar
from dragoman.cli.ui.turn_view import STATUS_SIGNS, content_text
from dragoman.schema.base import to_json
from dragoman.schema.content import TextContent
from dragoman.schema.toolcall import AgentTerminalEmbed, Diff, PatchDiff, TerminalEmbed, ToolCallBlock
from dragoman.session.agent_terminal import AgentTerminal
from dragoman.session.toolcall import FINAL_STATUSES, ToolCall
from dragoman.tui import texts
from dragoman.tui.flow.block import RenderOptions

# Rows of a diff, of output and of other results on a card that is not open.
DIFF_ROWS, OUTPUT_ROWS, FAILURE_ROWS = 24, 4, 6

# Rows of an open card. A longer result is read in an editor.
MAX_OPEN_ROWS = 2000

# Characters of output that are rendered: the end of it.
MAX_OUTPUT = 256 * 1024

INDENT: Piece = ("    ", "")
LABEL_WIDTH = 7


class ToolCard:
    """One tool call."""

    kind = "card"

    def __init__(
        self, call: ToolCall, cwd: str, output_of: Callable[[str], str], terminals: Mapping[str, AgentTerminal]
    ) -> None:
        """`output_of` returns the output of a terminal of the client, `terminals` are those of the agent."""
        self.call = call
        self.decision = ""  # who allowed or refused it
        self._changes = 0
        self._cwd = cwd
        self._output_of = output_of
        self._terminals = terminals
        self._diffs: dict[int, tuple[Diff, FileDiff]] = {}
        self._started = monotonic()
        self._seconds: float | None = None
        self._outputs: dict[str, str] = {}  # of terminals that have ended

    @property
    def version(self) -> Any:
        """A value that changes with the card: its updates, the second of its duration, the length of its output."""
        if self._seconds is not None:
            return self._changes
        outputs = sum(len(self.output(block)) for block in self.call.content if is_terminal(block))
        return self._changes, int(monotonic() - self._started), outputs

    def note_change(self) -> None:
        """Note that the call has changed."""
        self._changes += 1
        if self.call.status in FINAL_STATUSES and self._seconds is None:
            self._seconds = monotonic() - self._started
            for block in self.call.content:
                if is_terminal(block):
                    self._outputs[block.terminal_id] = self.output(block)

    @property
    def is_running(self) -> bool:
        """Whether it is not over."""
        return self._seconds is None

    def output(self, block: Any) -> str:
        """Return the output of a terminal that the card shows."""
        kept = self._outputs.get(block.terminal_id)
        if kept:
            return kept
        if isinstance(block, AgentTerminalEmbed):
            terminal = self._terminals.get(block.terminal_id)
            return terminal.text if terminal is not None else ""
        return self._output_of(block.terminal_id)

    @property
    def terminal_text(self) -> str | None:
        """The output of its first terminal; None without one."""
        return next((self.output(block) for block in self.call.content if is_terminal(block)), None)

    @property
    def place(self) -> tuple[str, int] | None:
        """The file and the line that it is about."""
        for location in self.call.locations:
            return location.path, location.line if isinstance(location.line, int) else 1
        return next(((block.path, 1) for block in self.call.content if isinstance(block, Diff)), None)

    def changes(self) -> list[tuple[str, FileDiff]]:
        """Return the changed files with their diffs."""
        return [(block.path, self._diff(block)) for block in self.call.content if isinstance(block, Diff)]

    def _diff(self, block: Diff) -> FileDiff:
        known = self._diffs.get(id(block))
        if known is None:
            old = block.old_text if block.old_text is not UNSET else None
            known = self._diffs[id(block)] = (block, compare_texts(old, block.new_text))
        return known[1]

    def copy_text(self) -> str:
        """Return title, input and results as text."""
        parts = [self.call.title or self.call.name]
        for block in self.call.content:
            if isinstance(block, Diff):
                parts += [block.path, block.new_text]
            elif is_terminal(block):
                parts.append("\n".join("".join(text for text, _ in line) for line in ansi_lines(self.output(block))))
            elif isinstance(block, ToolCallBlock):
                parts.append(content_text(block.content))
            elif isinstance(block, PatchDiff) and block.patch:
                parts.append(block.patch.text)
        return "\n".join(parts)

    # --- rows ---------------------------------------------------------------------------------------------------

    def render(self, options: RenderOptions, is_open: bool) -> list[Row]:
        """Return the rows."""
        return [self._head(options.width, is_open), *self._body(options, is_open)]

    def _head(self, width: int, is_open: bool) -> Row:
        call = self.call
        sign, style = STATUS_SIGNS.get(call.status, ("·", "dim"))
        label = texts.KIND_LABELS.get(call.kind, "Tool")
        subject = self._subject(label)
        left: list[Piece] = [
            (f"{sign} ", style),
            (f"{label:{LABEL_WIDTH}} ", "bold" if self.is_running else ""),
            (subject, ""),
        ]
        right = self._facts()
        if pieces_width(right) > width // 2:
            right = clip_pieces(right, width // 2)
        return Row(two_sides(left, [("  ", ""), *right, (" ▾" if is_open else "  ", "dim")], width), "card")

    def _subject(self, label: str) -> str:
        """Return what the call is about: its title without a first word that repeats the label."""
        call = self.call
        # Blanks would push the rest of it out of sight.
        title = " ".join(peer_line(call.title or call.name or call.tool_call_id).split())
        first, _, rest = title.partition(" ")
        if rest and first.lower().rstrip(":") in (label.lower(), call.kind, "execute"):
            title = rest
        return self._relative_path(title) if title.startswith("/") else title

    def _facts(self) -> list[Piece]:
        """Return what is at the right end: changes, place, status, duration, who decided."""
        call = self.call
        facts: list[list[Piece]] = []
        for _, diff in self.changes()[:1]:
            facts.append(change_counts(diff))
        if self.place is not None and not self.changes() and self.place[1] > 1:
            facts.append([(f"line {self.place[1]}", "dim")])
        lines = sum(
            block.content.text.count("\n") + 1
            for block in call.content
            if isinstance(block, ToolCallBlock) and isinstance(block.content, TextContent)
        )
        if lines > 1 and call.status == "completed":
            facts.append([(format_count(lines, "line"), "dim")])
        if call.status in texts.STATUS_LABELS and call.status != "in_progress":
            facts.append([(texts.STATUS_LABELS[call.status], STATUS_SIGNS.get(call.status, ("", "dim"))[1])])
        if self.is_running and monotonic() - self._started >= 1:
            facts.append([(texts.format_seconds(int(monotonic() - self._started)).replace(".0", ""), "dim")])
        elif self._seconds is not None and self._seconds >= 0.1 and call.kind == "execute":
            facts.append([(texts.format_seconds(self._seconds), "dim")])
        if self.decision:
            facts.append([(peer_line(self.decision), "dim")])
        return [piece for at, fact in enumerate(facts) if fact for piece in ([(" · ", "faint")] if at else []) + fact]

    def _body(self, options: RenderOptions, is_open: bool) -> list[Row]:
        rows: list[Row] = []
        call = self.call
        width = options.width - len(INDENT[0])
        if is_open and call.raw_input not in (None, UNSET, {}, ""):
            rows += wrap_text(sanitize(_json_text(call.raw_input))[:MAX_OUTPUT], width, "dim")
        is_asking = call.status in ("pending", "awaiting_permission")  # the question shows the change
        for block in call.content:
            if isinstance(block, Diff) and is_asking and not is_open:
                continue
            if isinstance(block, Diff):
                rows += self._diff_part(block, width, options.is_split, is_open)
            elif isinstance(block, PatchDiff) and block.patch:
                rows += _limit(patch_rows(block.patch.text, width), DIFF_ROWS, is_open)
            elif is_terminal(block):
                rows += _limit(output_rows(self.output(block), width), OUTPUT_ROWS, is_open, keeps_end=True)
            elif isinstance(block, ToolCallBlock):
                rows += self._result_part(block, width, is_open)
        return [Row([INDENT, *row.pieces], row.fill) for row in rows[:MAX_OPEN_ROWS]]

    def _diff_part(self, block: Diff, width: int, is_split: bool | None, is_open: bool) -> list[Row]:
        diff = self._diff(block)
        rows = _limit(diff_rows(diff, width, is_split=is_split), DIFF_ROWS, is_open)
        if len(self.changes()) > 1 or self._relative_path(block.path) not in self._subject(""):
            head: list[Piece] = [(self._relative_path(block.path), "dim"), ("  ", ""), *change_counts(diff)]
            rows.insert(0, Row(clip_pieces(head, width)))
        return rows

    def _result_part(self, block: ToolCallBlock, width: int, is_open: bool) -> list[Row]:
        has_failed = self.call.status == "failed"
        if not is_open and not has_failed and isinstance(block.content, TextContent):
            return []  # the head counts its lines
        text = sanitize(content_text(block.content))[:MAX_OUTPUT]
        rows = wrap_text(_without_fence(text), width, "" if has_failed else "dim")
        return _limit(rows, FAILURE_ROWS, is_open, keeps_end=has_failed)

    def _relative_path(self, path: str) -> str:
        return without_question_bar(peer_line(path.removeprefix(self._cwd.rstrip("/") + "/")))


def is_terminal(block: Any) -> bool:
    """Return whether a part of a tool call is a terminal."""
    return isinstance(block, TerminalEmbed | AgentTerminalEmbed)


def output_rows(text: str, width: int) -> list[Row]:
    """Return the output of a command as rows, with its colors; only the end of a very long one."""
    writer = RowWriter(width)
    for line in ansi_lines(text[-MAX_OUTPUT:]):
        writer.write(line)
        writer.write([("\n", "")])
    return writer.rows


def patch_rows(text: str, width: int) -> list[Row]:
    """Return a patch in Git's format as rows."""
    styles = {"+": "added", "-": "removed", "@": "cyan"}
    rows = []
    for line in text[:MAX_OUTPUT].splitlines():
        style = "dim" if line.startswith(("+++", "---", "diff ", "index ")) else styles.get(line[:1], "")
        rows += [Row([(row.text, style)]) for row in wrap_text(sanitize(line), width)]
    return rows


def _limit(rows: list[Row], limit: int, is_open: bool, *, keeps_end: bool = False) -> list[Row]:
    """Return the rows that are shown, and one more that counts the others."""
    omitted = len(rows) - limit
    if is_open or omitted <= 0:
        return rows
    if keeps_end:
        return [Row([(texts.earlier_rows(omitted), "dim")]), *rows[omitted:]]
    return [*rows[:limit], Row([(texts.more_rows(omitted), "dim")])]


def _without_fence(text: str) -> str:
    """Return a result without the fence that some agents put around all of it."""
    lines = text.strip("\n").split("\n")
    if len(lines) > 2 and lines[0].startswith("```") and lines[-1].strip() == "```":
        return "\n".join(lines[1:-1])
    return "\n".join(lines)


def _json_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(to_json(value), indent=1, ensure_ascii=False)
