"""Changes of a file as rows: side by side or one below the other, with the changed words marked.

Takes the text before and after, returns rows of pieces; the styles begin with `added` and `removed`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from dragoman.cli.ui.format import MAX_COMPARED, format_count
from dragoman.cli.ui.rows import Piece, Row, clip_text, pad_pieces, split_columns, text_width
from dragoman.cli.ui.terminal import sanitize_line, without_question_bar

# Lines shown around a change.
CONTEXT_LINES = 3

# Lines are paired by their similarity in blocks of at most this many pairs: each pair costs a comparison.
MAX_PAIRS = 900

# Lines that have less in common than this are no pair, and their words are not marked.
MIN_SIMILARITY = 0.45

# Words are marked only in lines of at most this many characters: nobody finds them in a longer one.
MAX_MARKED_LINE = 400

# Below this width two columns are too narrow to read.
MIN_SPLIT_WIDTH = 88

_WORD = re.compile(r"\w+|\s+|.", re.S)


class Side(NamedTuple):
    """One line of one side: its number and its pieces."""

    number: int
    pieces: list[Piece]


class DiffLine(NamedTuple):
    """A line before and after; one side is None if there is none there, both if lines are left out."""

    old: Side | None
    new: Side | None
    is_changed: bool = True


GAP = DiffLine(None, None)


class FileDiff(NamedTuple):
    """The compared lines, and how many were added and removed; `note` instead of lines that are not compared."""

    lines: list[DiffLine]
    added: int
    removed: int
    note: str = ""


def compare_texts(old: str | None, new: str) -> FileDiff:
    """Compare two texts; None is a file that did not exist."""
    if old is not None and len(old) + len(new) > MAX_COMPARED:
        size = f"from {format_count(len(old), 'character')} to {format_count(len(new), 'character')}"
        return FileDiff([], 0, 0, f"{size}: too long to compare here")
    before, after = _split_lines(old or ""), _split_lines(new)
    if old is None:
        lines = [DiffLine(None, Side(at, [(text, "added")])) for at, text in enumerate(after, 1)]
        return FileDiff(lines, len(after), 0, "" if lines else "empty file")
    lines = list(_compare_lines(before, after))
    added = sum(line.new is not None and line.is_changed for line in lines)
    removed = sum(line.old is not None and line.is_changed for line in lines)
    return FileDiff(lines, added, removed, "" if added or removed else "no change")


def _split_lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    return [without_question_bar(sanitize_line(line.expandtabs(4))) for line in lines]


def _compare_lines(before: list[str], after: list[str]) -> Iterator[DiffLine]:
    matcher = SequenceMatcher(None, before, after, autojunk=len(before) + len(after) > 4000)
    last_old = last_new = 0
    for group in matcher.get_grouped_opcodes(CONTEXT_LINES):
        if group[0][1] > last_old or group[0][3] > last_new:
            yield GAP
        for kind, i, i_end, j, j_end in group:
            if kind == "equal":
                for old, new in zip(range(i, i_end), range(j, j_end), strict=True):
                    yield DiffLine(
                        Side(old + 1, [(before[old], "")]), Side(new + 1, [(after[new], "")]), is_changed=False
                    )
            else:
                yield from _changed_lines(before[i:i_end], after[j:j_end], i + 1, j + 1)
        last_old, last_new = group[-1][2], group[-1][4]
    if (last_old or last_new) and last_old < len(before):
        yield GAP


def _changed_lines(old: list[str], new: list[str], old_number: int, new_number: int) -> Iterator[DiffLine]:
    """Yield the lines of one change; similar lines are side by side."""
    i = j = 0
    for pair_i, pair_j in [*_pair_lines(old, new), (len(old), len(new))]:
        # What lies between two pairs has no counterpart, but may share rows.
        left, right = list(range(i, pair_i)), list(range(j, pair_j))
        for at in range(max(len(left), len(right))):
            yield DiffLine(
                Side(old_number + left[at], [(old[left[at]], "removed")]) if at < len(left) else None,
                Side(new_number + right[at], [(new[right[at]], "added")]) if at < len(right) else None,
            )
        if pair_i < len(old):
            marked_old, marked_new = mark_words(old[pair_i], new[pair_j])
            yield DiffLine(Side(old_number + pair_i, marked_old), Side(new_number + pair_j, marked_new))
        i, j = pair_i + 1, pair_j + 1


def _pair_lines(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    """Return which lines belong together, in order: the pairs with the greatest similarity in all."""
    if not old or not new or len(old) * len(new) > MAX_PAIRS:
        return []
    scores = [[_similarity(a, b) for b in new] for a in old]
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in reversed(range(len(old))):
        for j in reversed(range(len(new))):
            paired = scores[i][j] + best[i + 1][j + 1] if scores[i][j] else 0.0
            best[i][j] = max(paired, best[i + 1][j], best[i][j + 1])
    pairs, i, j = [], 0, 0
    while i < len(old) and j < len(new):
        if scores[i][j] and best[i][j] == scores[i][j] + best[i + 1][j + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _similarity(old: str, new: str) -> float:
    """Return how much two lines have in common; 0 if they are no pair."""
    if not old.strip() or not new.strip() or max(len(old), len(new)) > MAX_MARKED_LINE:
        return 0.0
    matcher = SequenceMatcher(None, old.strip(), new.strip(), autojunk=False)
    if matcher.real_quick_ratio() < MIN_SIMILARITY or matcher.quick_ratio() < MIN_SIMILARITY:
        return 0.0
    ratio = matcher.ratio()
    return ratio if ratio >= MIN_SIMILARITY else 0.0


def mark_words(old: str, new: str) -> tuple[list[Piece], list[Piece]]:
    """Return both lines as pieces, with the words that differ marked."""
    a, b = _WORD.findall(old), _WORD.findall(new)
    before: list[Piece] = []
    after: list[Piece] = []
    for kind, i, i_end, j, j_end in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        mark = "" if kind == "equal" else "-word"
        if i < i_end:
            before.append(("".join(a[i:i_end]), f"removed{mark}"))
        if j < j_end:
            after.append(("".join(b[j:j_end]), f"added{mark}"))
    return before, after


# --- rows -----------------------------------------------------------------------------------------------------


def diff_rows(diff: FileDiff, width: int, *, is_split: bool | None = None) -> list[Row]:
    """Return the rows of a diff: side by side if there is room, unless `is_split` says otherwise."""
    if diff.note:
        return [Row([(clip_text(diff.note, width), "dim")])]
    digits = max((len(str(side.number)) for line in diff.lines for side in line[:2] if side), default=1)
    # A new or a deleted file has only one side.
    has_both = any(line.old for line in diff.lines) and any(line.new for line in diff.lines)
    if is_split if is_split is not None else width >= MIN_SPLIT_WIDTH and has_both:
        return [row for line in diff.lines for row in _split_rows(line, width, digits)]
    return list(_unified_rows(diff.lines, width, digits))


def _split_rows(line: DiffLine, width: int, digits: int) -> Iterator[Row]:
    half = (width - 1) // 2
    if line == GAP:
        yield Row([(f"{'⋯':>{digits}}", "dim"), (" " * (half - digits), ""), ("│", "faint"), (" ⋯", "dim")])
        return
    left = _side_rows(line.old, half, digits, "removed" if line.is_changed else "")
    right = _side_rows(line.new, width - 1 - half, digits, "added" if line.is_changed else "")
    for at in range(max(len(left), len(right))):
        before = left[at] if at < len(left) else _blank(half, bool(line.old), "removed" if line.is_changed else "")
        after = (
            right[at]
            if at < len(right)
            else _blank(width - 1 - half, bool(line.new), "added" if line.is_changed else "")
        )
        yield Row([*before, ("│", "faint"), *after])


def _blank(width: int, continues: bool, style: str) -> list[Piece]:
    return [(" " * width, style if continues else "absent")]


def _side_rows(side: Side | None, width: int, digits: int, style: str) -> list[list[Piece]]:
    """Return one side of a line, as long as it takes."""
    if side is None:
        return []
    sign = {"removed": "-", "added": "+"}.get(style, " ")
    rows = []
    for at, pieces in enumerate(_wrap(side.pieces, width - digits - 3)):
        number = str(side.number) if at == 0 else ""
        head: list[Piece] = [
            (f"{number:>{digits}}", f"number-column {style}".strip()),
            (f" {sign if at == 0 else ' '} ", style),
        ]
        rows.append([*head, *pad_pieces(pieces, width - digits - 3, style)])
    return rows


def _unified_rows(lines: Sequence[DiffLine], width: int, digits: int) -> Iterator[Row]:
    pending: list[Row] = []  # added lines that belong below the removed lines before them
    for line in lines:
        if not line.is_changed or line == GAP:
            yield from pending
            pending = []
        if line == GAP:
            yield Row([(" " * digits + " ", ""), (f"{'⋯':>{digits}}", "dim")])
        elif not line.is_changed:
            yield from _unified_side(line.old, line.new, width, digits, "")
        else:
            if line.old is not None:
                yield from _unified_side(line.old, None, width, digits, "removed")
            if line.new is not None:
                pending += _unified_side(None, line.new, width, digits, "added")
    yield from pending


def _unified_side(old: Side | None, new: Side | None, width: int, digits: int, style: str) -> Iterator[Row]:
    sign = {"removed": "-", "added": "+"}.get(style, " ")
    side = old or new
    assert side is not None
    room = width - 2 * digits - 4
    for at, pieces in enumerate(_wrap(side.pieces, room)):
        numbers = [str(each.number) if each is not None and at == 0 else "" for each in (old, new)]
        head = f"{numbers[0]:>{digits}} {numbers[1]:>{digits}}"
        yield Row(
            [
                (head, f"number-column {style}".strip()),
                (f" {sign if at == 0 else ' '} ", style),
                *pad_pieces(pieces, room, style),
            ]
        )


def _wrap(pieces: list[Piece], width: int) -> list[list[Piece]]:
    """Return pieces as lines of at most this width, broken anywhere."""
    width = max(1, width)
    lines: list[list[Piece]] = [[]]
    used = 0
    for text, style in pieces:
        rest = text
        while rest:
            part, rest, size = split_columns(rest, width - used, is_row_empty=not used)
            if part:
                lines[-1].append((part, style))
                used += size
            if rest:
                lines.append([])
                used = 0
    return lines


def change_counts(diff: FileDiff) -> list[Piece]:
    """Return the numbers of added and removed lines."""
    added: list[Piece] = [(f"+{diff.added}", "green")] if diff.added else []
    removed: list[Piece] = [(f"-{diff.removed}", "red")] if diff.removed else []
    return [*added, *([(" ", "")] if added and removed else []), *removed]


def widest(rows: Sequence[Row]) -> int:
    """Return the columns of the longest row."""
    return max((text_width(row.text) for row in rows), default=0)
