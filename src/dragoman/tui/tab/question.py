"""Questions of the agent: what is asked, whether a key may answer it yet, and the rows of the bar at the bottom.

A key answers only a question that was on the screen for a while, during which no key was typed, and only if nothing is
being written in the prompt. So no key that was meant for something else is an answer.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from time import monotonic

from dragoman.cli.ui.diff import change_counts, compare_texts, diff_rows
from dragoman.cli.ui.key_prompt import KeyChoice, Prompter, QuestionPart, TextChange
from dragoman.cli.ui.rows import Piece, Row, clip_pieces, clip_text, peer_line, pieces_width, wrap_text
from dragoman.cli.ui.terminal import QUESTION_BAR, OutputStream, StyledLine, sanitize
from dragoman.tui import texts

# How long a question must be on the screen without a key before one answers it. Longer than the pause between two keys
# of somebody who types. Seconds.
ARM_DELAY = 0.4

# Rows that one line of a question may take: its beginning and its end are shown.
MAX_LINE_ROWS = 8

# More blanks in a row are counted instead: they would push what follows out of sight.
_BLANKS = re.compile(r"[^\S\n]{12,}")


class Question:
    """One question, until it is answered or closed."""

    def __init__(self, parts: Sequence[QuestionPart], choices: Sequence[KeyChoice], *, label: str = "") -> None:
        """`label` is that of a line of text to type; without it, one of the choices answers."""
        self.parts = list(parts)
        self.choices = list(choices)
        self.label = label
        self.answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self.scroll = 0
        self.hint = ""
        self._first_drawn: float | None = None
        self._rows: tuple[int, list[Row]] = (0, [])

    @property
    def is_text(self) -> bool:
        """Whether a line of text answers it."""
        return bool(self.label)

    def note_drawn(self) -> bool:
        """Note that it is on the screen; return whether it was not before."""
        is_first = self._first_drawn is None
        if is_first:
            self._first_drawn = monotonic()
        return is_first

    def note_hidden(self) -> None:
        """Note that something else is on the screen."""
        self._first_drawn = None

    def is_armed(self, last_key: float, now: float | None = None) -> bool:
        """Return whether a key may answer it: it was on the screen long enough, and no key was typed meanwhile."""
        if self._first_drawn is None:
            return False
        return (monotonic() if now is None else now) - max(self._first_drawn, last_key) >= ARM_DELAY

    def find_choice(self, key: str) -> KeyChoice | None:
        """Return the choice of a key."""
        return next((choice for choice in self.choices if choice.key == key.lower()), None)

    def resolve(self, value: str | None) -> None:
        """Answer it; None is no answer."""
        if not self.answer.done():
            self.answer.set_result(value)

    # --- rows ---------------------------------------------------------------------------------------------------

    def rows(self, width: int, max_height: int, *, is_focused: bool, number: tuple[int, int] = (1, 1)) -> list[Row]:
        """Return the rows of the bar: what is asked, as much of it as there is room for, and the keys."""
        body = self._body(width - 2)
        keys = self._key_rows(width - 2, is_focused, number)
        room = max(2, max_height - len(keys))
        self.scroll = max(0, min(self.scroll, len(body) - room))
        shown = body[self.scroll : self.scroll + room]
        if len(body) > room:
            rest = len(body) - room - self.scroll
            note = f"{self.scroll + 1}-{self.scroll + len(shown)} of {len(body)} lines"
            note += f" · ↓ {rest} more" if rest else ""
            keys = [Row([(note, "dim")]), *keys][: len(keys) + 1]
            shown = shown[: max(1, room - 1)]
        bar: Piece = (f"{QUESTION_BAR} ", "ask-bar")
        return [Row([bar, *row.pieces], row.fill) for row in [*shown, *keys]]

    def _body(self, width: int) -> list[Row]:
        if self._rows[0] != width:
            self._rows = (width, [row for part in self.parts for row in _part_rows(part, width)])
        return self._rows[1]

    def _key_rows(self, width: int, is_focused: bool, number: tuple[int, int]) -> list[Row]:
        if self.is_text:
            return []
        rows: list[list[Piece]] = [[]]
        for at, choice in enumerate(self.choices):
            named = peer_line(choice.name)
            is_own = not named or choice.key == "n"  # our own words say enough
            text = choice.short or (choice.meaning if is_own else f"{choice.meaning}: {named}")
            key = (f" {choice.key} ", "key" if is_focused else "dim")
            pieces: list[Piece] = [
                key,
                (f" {clip_text(text, width - 6)}", "" if at or not is_focused else "bold"),
                ("  ", ""),
            ]
            if rows[-1] and pieces_width(rows[-1]) + pieces_width(pieces) > width:
                rows.append([])
            rows[-1] += pieces
        hint = self.hint or ("" if is_focused else texts.QUESTION_TAB)
        if number[1] > 1:
            hint = f"{number[0]} of {number[1]}  {hint}"
        if hint and pieces_width(rows[-1]) + len(hint) + 1 <= width:
            rows[-1] += [(" " * (width - pieces_width(rows[-1]) - len(hint)), ""), (hint, "dim")]
        elif self.hint:
            rows.append([(clip_text(self.hint, width), "yellow")])
        return [Row(row) for row in rows]


def _part_rows(part: QuestionPart, width: int) -> list[Row]:
    if isinstance(part, TextChange):
        diff = compare_texts(part.old, part.new)
        head: list[Piece] = [(peer_line(part.path.rpartition("/")[2]), "dim"), ("  ", ""), *change_counts(diff)]
        return [Row(clip_pieces(head, width)), *diff_rows(diff, width)]
    rows = wrap_text(_visible_blanks(sanitize(part.text)), width, part.style)
    if len(rows) > MAX_LINE_ROWS:
        left_out = sum(len(row.text) for row in rows[MAX_LINE_ROWS - 3 : -2])
        middle = Row([(f"… {left_out:,} more characters …", "yellow")])
        rows = [*rows[: MAX_LINE_ROWS - 3], middle, *rows[-2:]]
    return rows


def _visible_blanks(text: str) -> str:
    return _BLANKS.sub(lambda run: f" … {len(run[0])} blanks … ", text)


class BarPrompter(Prompter):
    """Asks in the bar of a tab."""

    shows_changes = True

    def __init__(
        self,
        output: OutputStream,
        on_change: Callable[[], None],
        suspend: Callable[[], AbstractAsyncContextManager[None]],
    ) -> None:
        """`on_change` is called when a question comes or goes; `suspend` leaves the terminal to another program."""
        super().__init__(output, -1)
        self.questions: list[Question] = []
        self._on_change = on_change
        self._suspend = suspend
        self._is_suspended = False

    @property
    def current(self) -> Question | None:
        """The question that is shown."""
        return self.questions[0] if self.questions else None

    @property
    def is_asking(self) -> bool:
        """Whether the user is asked."""
        return bool(self.questions) or self._is_suspended

    async def choose(self, question: Sequence[QuestionPart], choices: Sequence[KeyChoice]) -> str | None:
        """Ask until the user types one of the choices."""
        return await self._ask(Question(question, choices))

    @property
    def way_out(self) -> str:
        """How the user leaves a question without an answer."""
        return texts.WAY_OUT

    async def read(self, prompt: str, style: str = "ask", *, note: str = "") -> str | None:
        """Return the line that the user types."""
        parts = [StyledLine(note, "yellow")] if note else []
        return await self._ask(Question(parts, (), label=prompt.removeprefix(QUESTION_BAR).strip()))

    async def _ask(self, question: Question) -> str | None:
        self.questions.append(question)
        self._on_change()
        try:
            return await question.answer
        finally:
            self.questions.remove(question)
            self._on_change()

    def close_question(self) -> None:
        """Close all open questions, without an answer."""
        for question in list(self.questions):
            question.resolve(None)

    @asynccontextmanager
    async def release_terminal(self) -> AsyncIterator[None]:
        """Leave the terminal to another program."""
        self._is_suspended = True
        try:
            async with self._suspend():
                yield
        finally:
            self._is_suspended = False
