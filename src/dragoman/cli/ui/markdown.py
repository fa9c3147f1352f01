"""Streaming Markdown: text is shown as soon as its style is certain; a possible mark waits for its end.

Takes pieces of an agent's text, returns pieces with a style of OutputStream. Supports headings, lists, quotes, tables,
code, emphasis and links; everything else stays as written. Wraps lines between words and sanitizes the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from dragoman.cli.ui.highlight import CodeStyler
from dragoman.cli.ui.terminal import char_width, sanitize

# Wider text is hard to read, however wide the terminal is. Columns.
MAX_WIDTH = 100

# A mark that has not ended within this many characters is plain text. This also bounds the text that is searched again
# with each piece, so that the time for a very long line grows with its length, not with its square.
MAX_PENDING_MARK = 500

# A narrower column would have a few letters a line. Columns.
MIN_COLUMN = 4

_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[^`]*$")
_RULE = re.compile(r"[ \t]*([-*_])(?:[ \t]*\1){2,}[ \t]*$")
_LIST_ITEM = re.compile(r"([ \t]*)([-*+]|\d{1,9}[.)])[ \t]+")
_QUOTE = re.compile(r"[ \t]*>[ \t]?")
_TABLE_ROW = re.compile(r"[ \t]*\|.*\|[ \t]*$")
TABLE_RULE = re.compile(r"[ \t]*\|?(?:[ \t]*:?-+:?[ \t]*\|)+(?:[ \t]*:?-+:?[ \t]*)?$")

# The beginning of a line that can still become one of the above.
_UNDECIDED = re.compile(
    r"(?:[ \t]*>)*[ \t]*(?:#{0,6}|`{1,2}|~{1,2}|[-+]|\*{1,2}|_{1,2}|\d{1,9}[.)]?|([-*_])(?:[ \t]*\1)*)[ \t]*$"
)

# Inline marks and their styles. Of those that match, the one that ends first counts, then the first of this table: the
# text that follows cannot change the choice. `__` is left alone: in texts about code it is usually part of a name.
_INLINE_MARKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(`+)(?!`)(?P<text>.+?)(?<!`)\1(?!`)"), "code"),
    (re.compile(r"\*\*\*(?P<text>\**[^\s*].*?)(?<=\S)\*\*\*(?!\*)"), "bold italic"),
    (re.compile(r"\*\*(?P<text>\**[^\s*].*?)(?<=\S)\*\*(?!\*)"), "bold"),
    (re.compile(r"~~(?P<text>~*[^\s~].*?)(?<=\S)~~(?!~)"), "strike"),
    (re.compile(r"\*(?=[^\s*])(?P<text>.+?)(?<=[^\s*])\*(?!\*)"), "italic"),
    (re.compile(r"_(?=[^\s_])(?P<text>.+?)(?<=[^\s_])_(?!\w)"), "italic"),
)
_LINK = re.compile(r"\[(?P<text>[^\]\[]+)\]\((?P<address>[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)\)")
_SPECIAL = re.compile(r"[`*_~\[\\]")
_ESCAPABLE = set("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")

Piece = tuple[str, str]  # text and style


class Markdown:
    """One text, from its first piece to its end; `show` takes the styled pieces, newlines included."""

    def __init__(self, show: Callable[[list[Piece]], None], width: Callable[[], int], base_style: str = "") -> None:
        self._show = show
        self._out: list[Piece] = []
        self._width = width
        self._base_style = base_style
        self._line = ""  # text of the line that is not shown yet
        self._line_parts: list[str] = []  # the text after it, while the line can be shown only as a whole
        self._needs_whole_line = False  # a line of code, a table row or a heading
        self._is_line_started = False  # whether the kind of the line is known and shown
        self._previous_char = ""  # the character before the text that is not shown yet
        self._line_style = ""  # of the whole line
        self._fence = ""
        self._code: CodeStyler | None = None  # colors of the block of code
        self._table_rows: list[str] = []
        self._word: list[Piece] = []
        self._pending_space = ""
        self._column = 0
        self._hanging_indent = 0
        self._quote_depth = 0

    # --- input ----------------------------------------------------------------------------------------------

    def feed(self, text: str) -> None:
        """Add the next piece of text."""
        self._line_parts.append(text)
        if self._needs_whole_line and "\n" not in text:
            return
        *lines, rest = self._take_line().replace("\r\n", "\n").split("\n")
        for line in lines:
            self._line = line
            self._advance(is_whole=True)
            self._end_line()
        self._line = rest
        if rest and not rest.endswith("\r"):
            self._advance(is_whole=False)
        self._flush_output()

    def flush_partial(self) -> None:
        """Show the incomplete word, because nothing came for a while."""
        self._flush_word()
        self._flush_output()

    def finish(self) -> None:
        """Show everything that is held back: the text is over, or something else has to be written."""
        self._line = self._take_line()
        if self._line or self._table_rows:
            self._advance(is_whole=True)
            self._flush_table()
        self._flush_word()
        self._fence = ""
        self._begin_line()
        self._flush_output()

    def _take_line(self) -> str:
        """Return all text of the line that is not shown yet."""
        line = "".join((self._line, *self._line_parts))
        self._line, self._line_parts, self._needs_whole_line = "", [], False
        return line

    def _begin_line(self) -> None:
        self._line = self._line_style = self._pending_space = self._previous_char = ""
        self._is_line_started = self._needs_whole_line = False
        self._column = self._hanging_indent = self._quote_depth = 0

    # --- lines ----------------------------------------------------------------------------------------------

    def _advance(self, *, is_whole: bool) -> None:
        """Show as much of the line as is certain."""
        line = self._line
        if self._fence:
            self._show_code(line, is_whole)
            return
        if not self._is_line_started:
            head = line[: MAX_PENDING_MARK + 1]
            if head.lstrip(" \t").startswith("|"):
                self._needs_whole_line = not is_whole
                if is_whole:
                    self._table_rows.append(line)
                    self._line = ""
                return
            is_undecided = _UNDECIDED.match(head) is not None or _might_be_fence(head)
            if is_undecided and not is_whole and len(line) <= MAX_PENDING_MARK:
                return
            self._flush_table()
            if is_undecided and len(line) > MAX_PENDING_MARK:
                self._is_line_started = True  # a mark that is too long, also if the whole line came at once
            elif not self._start_line(line, is_whole):
                return
        self._show_inline(is_whole)

    def _start_line(self, line: str, is_whole: bool) -> bool:
        """Decide what the line is; return whether there is more of it to show."""
        if is_whole and (fence := _FENCE.match(line)):
            self._fence = fence[1]
            self._code = CodeStyler(line.strip().lstrip("`~"))
            self._write_styled(sanitize(line.strip()), "dim")
            self._line = ""
            return False
        if is_whole and _RULE.match(line):
            self._write_styled("─" * min(self._text_width, 40), "dim")
            self._line = ""
            return False
        if line.lstrip(" \t").startswith("#") and re.match(r"#{1,6}[ \t]", line):
            if not is_whole:
                self._needs_whole_line = True  # headings are short, and their end can be a mark too
                return False
            found = _HEADING.match(line)
            self._line_style = "bold underline" if found and len(found[1]) == 1 else "bold"
            self._line = found[2] if found else line
        rest = self._line
        while quote := _QUOTE.match(rest):
            self._write_styled("│ ", "dim")
            self._quote_depth += 1
            rest = rest[quote.end() :]
        if item := _LIST_ITEM.match(rest):
            indent = " " * min(len(item[1].expandtabs(4)), 24)
            mark = "•" if item[2] in "-*+" else item[2]
            self._write_styled(f"{indent}{mark} ", "dim" if mark == "•" else "")
            rest = rest[item.end() :]
        elif rest[:1] in (" ", "\t"):
            kept = rest.lstrip(" \t")
            self._write_styled(rest[: len(rest) - len(kept)].expandtabs(4))
            rest = kept
        self._hanging_indent = self._column
        self._line, self._is_line_started, self._previous_char = rest, True, ""
        return True

    def _end_line(self) -> None:
        if self._table_rows:
            self._line = ""
            return
        self._flush_word()
        self._write("\n", self._base_style)
        self._begin_line()

    def _show_code(self, line: str, is_whole: bool) -> None:
        if not is_whole:
            self._needs_whole_line = True  # a line of code is short, and can be the closing fence
            return
        found = _FENCE.match(line)
        if found and found[1].startswith(self._fence) and line.strip() == found[1]:
            self._fence = ""
            self._write_styled(line.strip(), "dim")
        else:
            assert self._code is not None
            for text, style in self._code.pieces(sanitize(line)):
                self._write(text, self._with_base_style(style))
        self._line = ""

    # --- inside a line --------------------------------------------------------------------------------------

    def _show_inline(self, is_whole: bool) -> None:
        text = self._line
        shown = 0
        for end, pieces in _parse_pieces(text, self._previous_char, is_whole):
            for piece, style in pieces:
                self._wrap_words(piece, f"{self._line_style} {style}".strip())
            shown = end
        if shown:
            self._previous_char = text[shown - 1]
        self._line = text[shown:]

    def _wrap_words(self, text: str, style: str) -> None:
        """Add words; they are wrapped at the width of the terminal."""
        for part in re.split(r"([ \t]+)", sanitize(text)):
            if not part:
                continue
            if part[0] in " \t":
                self._flush_word()
                self._pending_space += part  # its tabs are expanded when all of it is known
            else:
                self._word.append((part, style))

    def _flush_word(self) -> None:
        word, space = self._word, self._pending_space
        self._word, self._pending_space = [], ""
        if not word:
            self._pending_space = space  # spaces are written before a word only: none at the end of a line
            return
        space = space.expandtabs(4)
        width = sum(char_width(character) for text, _ in word for character in text)
        # Without a space before it, it continues a word that is already shown.
        if space and self._column > self._hanging_indent and self._column + len(space) + width > self._text_width:
            self._write("\n", self._base_style)
            self._write("│ " * self._quote_depth, self._with_base_style("dim"))
            self._write(" " * (self._hanging_indent - 2 * self._quote_depth), self._base_style)
            self._column, space = self._hanging_indent, ""
        self._write_styled(space)
        for text, style in word:
            self._write_styled(text, style)

    # --- tables ---------------------------------------------------------------------------------------------

    def _flush_table(self) -> None:
        rows, self._table_rows = self._table_rows, []
        if not rows:
            return
        if len(rows) >= 2 and TABLE_RULE.match(rows[1]) and all(_TABLE_ROW.match(row) for row in rows):
            self._show_table([split_cells(row) for row in [rows[0], *rows[2:]]], split_cells(rows[1]))
        else:
            for row in rows:
                self._write(sanitize(row), self._base_style)
                self._write("\n", self._base_style)
        self._column = 0

    def _show_table(self, rows: list[list[str]], rule: list[str]) -> None:
        count = max(map(len, rows))
        cells = [[list(parse_inline(cell)) for cell in [*row, *[""] * (count - len(row))]] for row in rows]
        widths = _column_widths(cells, self._text_width - 3 * (count - 1))
        sides = [_alignment(rule[index]) if index < len(rule) else "" for index in range(count)]
        for number, row in enumerate(cells):
            wrapped = [_wrap_cell(cell, width) for cell, width in zip(row, widths, strict=True)]
            for line in range(max(map(len, wrapped))):
                for index, parts in enumerate(wrapped):
                    if index:
                        self._write(" │ ", self._with_base_style("dim"))
                    pieces = parts[line] if line < len(parts) else []
                    left = widths[index] - _cell_width(pieces)
                    before = left if sides[index] == "right" else left // 2 if sides[index] == "center" else 0
                    self._write(" " * before, self._base_style)
                    for text, style in pieces:
                        self._write(text, self._with_base_style(f"bold {style}".strip() if number == 0 else style))
                    if index < count - 1:
                        self._write(" " * (left - before), self._base_style)
                self._write("\n", self._base_style)
            if number == 0:
                self._write("─┼─".join("─" * width for width in widths), self._with_base_style("dim"))
                self._write("\n", self._base_style)

    # --- writing --------------------------------------------------------------------------------------------

    @property
    def _text_width(self) -> int:
        return min(MAX_WIDTH, self._width() - 1)

    def _write(self, text: str, style: str) -> None:
        if text:
            self._out.append((text, style))

    def _flush_output(self) -> None:
        if self._out:
            out, self._out = self._out, []
            self._show(out)

    def _write_styled(self, text: str, style: str = "") -> None:
        self._write(text, self._with_base_style(style))
        self._column += sum(map(char_width, text))

    def _with_base_style(self, style: str) -> str:
        return f"{self._base_style} {style}".strip()


def _might_be_fence(line: str) -> bool:
    return line.lstrip(" \t").startswith(("```", "~~~")) or _RULE.match(line) is not None


def split_cells(row: str) -> list[str]:
    """Return the cells of a table row."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row.strip()[1:-1])]


def _cell_width(cell: list[Piece]) -> int:
    return sum(char_width(character) for text, _ in cell for character in text)


def parse_inline(text: str, style: str = "") -> Iterator[Piece]:
    """Return a whole text as styled pieces."""
    for _, pieces in _parse_pieces(text, "", True):
        for piece, inner in pieces:
            yield sanitize(piece), f"{style} {inner}".strip()


def _alignment(mark: str) -> str:
    """Return the side of a column, by its cell in the rule: `---:` or `:---:`."""
    return "" if not mark.endswith(":") else "center" if mark.startswith(":") else "right"


def _column_widths(cells: list[list[list[Piece]]], room: int) -> list[int]:
    """Return the widths of the columns; the widest ones become narrower until all fit."""
    widths = [max(1, *map(_cell_width, column)) for column in zip(*cells, strict=True)]
    while sum(widths) > room and max(widths) > MIN_COLUMN:
        widths[widths.index(max(widths))] -= 1
    return widths


def _wrap_cell(cell: list[Piece], width: int) -> list[list[Piece]]:
    """Return the lines of a cell, broken between words, and inside a word that is too long."""
    lines: list[list[Piece]] = [[]]
    used = 0
    for text, style in cell:
        for word in re.findall(r"\s+|\S+", text):
            if used and used + _cell_width([(word, "")]) > width:
                lines.append([])
                used = 0
                if word.isspace():
                    continue
            for character in word:
                size = char_width(character)
                if used and used + size > width:
                    lines.append([])
                    used = 0
                lines[-1].append((character, style))
                used += size
    return lines


def _parse_pieces(text: str, previous_char: str, is_whole: bool) -> Iterator[tuple[int, list[Piece]]]:
    """Yield the pieces of a text that can be shown, each with its end."""
    at = 0
    while at < len(text):
        found = _SPECIAL.search(text, at)
        if found is None:
            yield len(text), [(text[at:], "")]
            return
        if found.start() > at:
            yield found.start(), [(text[at : found.start()], "")]
            at = found.start()
        previous = text[at - 1] if at else previous_char
        mark = text[at]
        if mark == "\\" and at + 1 < len(text) and text[at + 1] in _ESCAPABLE:
            yield at + 2, [(text[at + 1], "")]
            at += 2
            continue
        # An underscore inside a word is part of a name.
        parsed = _parse_mark(text, at) if not (mark == "_" and (previous.isalnum() or previous == "_")) else None
        if parsed is not None and (is_whole or parsed[0] < len(text)):
            yield parsed
            at = parsed[0]
            continue
        end = at + 1
        while mark in "*`~_" and text[end : end + 1] == mark:
            end += 1
        # Code and the label of a link may begin with a space, other marks may not.
        opens = (mark in "`[" or text[end : end + 1] not in (" ", "\t")) and not (
            mark == "_" and (previous.isalnum() or text[at : at + 2] == "__")
        )
        if opens and not is_whole and len(text) - at <= MAX_PENDING_MARK:
            return
        yield end, [(text[at:end], "")]
        at = end


def _parse_mark(text: str, at: int) -> tuple[int, list[Piece]] | None:
    """Return the mark that begins here: its end and its pieces."""
    limit = at + MAX_PENDING_MARK
    link = _LINK.match(text, at, limit)
    if link:
        label, address = link["text"], link["address"]
        label_pieces = [(piece, f"underline {style}".strip()) for piece, style in parse_inline(label)]
        # The target of a link is always shown: its label can claim anything.
        return link.end(), label_pieces if label == address else [*label_pieces, (f" ({address})", "dim")]
    marks = [(found, style) for pattern, style in _INLINE_MARKS if (found := pattern.match(text, at, limit))]
    if not marks:
        return None
    found, style = min(marks, key=lambda mark: mark[0].end())
    if style == "code":
        return found.end(), [(found["text"], style)]
    return found.end(), [(piece, f"{style} {inner}".strip()) for piece, inner in parse_inline(found["text"])]
