"""The output of a tool call: the draft has one output and an error text, v1 a list of contents.

Two texts become hunks with three lines of context; hunks become the lines they show, because a patch holds no more.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from dragoman.dialect.draft.content import lower_block
from dragoman.dialect.guesses import placeholder_text
from dragoman.dialect.mapping import ObjectMapping
from dragoman.dialect.reshape import ABSENT, Json, Object, json_side_data, with_json_side_data
from dragoman.dialect.side_data import begin_lowering

CONTEXT_LINES: Final = 3
# Comparison takes time proportional to the product of both sizes; beyond this the changed middle is one block.
MAX_DIFF_LINES: Final = 10_000

TERMINAL: Final = ObjectMapping(side_data=("command", "exitCode", "stdout", "stderr"))
_NO_NEWLINE: Final = "\n\\ No newline at end of file"

Opcode = tuple[str, int, int, int, int]


class LoweredOutput(NamedTuple):
    """What the draft can express of a list of contents, and the entries it cannot."""

    output: Json
    error: Json
    rest: list[Json]


def text_entry(text: str) -> Object:
    """Return a text entry."""
    return {"type": "content", "content": {"type": "text", "text": text}}


def lift_output(output: Json, failed: bool) -> Object | None:
    """Return the entry for an output; None for an unknown shape."""
    if type(output) is not dict:
        return None
    kind = output.get("type")
    if kind == "text":
        entry: Object = {"type": "content", "content": output}
        # A failed call with only text content lowers to an error; this one was an output.
        return with_json_side_data(entry, error=False) if failed else entry
    if kind == "diff" and type(output.get("hunks")) is list:
        row = ObjectMapping(side_data=("hunks",)).begin_lifting(output)
        row.put("oldText", _text_from_hunks(output["hunks"], "-"))
        row.put("newText", _text_from_hunks(output["hunks"], "+"))
        return row.build()
    return TERMINAL.lift(output) if kind == "terminal" else None


def lift_error(error: str) -> Object:
    """Return the entry for an error text."""
    return with_json_side_data(text_entry(error), error=True)


def lower_outputs(entries: list[Json], failed: bool) -> LoweredOutput:
    """Lower a list of contents to one output and one error."""
    errors = [_text_of(entry) for entry in entries if json_side_data(entry).get("error") is True]
    others = [entry for entry in entries if json_side_data(entry).get("error") is not True]
    error: Json = "\n".join(errors) if errors else ABSENT
    texts = [entry for entry in others if _is_text(entry)]
    unmarked = not any("error" in json_side_data(entry) for entry in entries)
    if failed and unmarked and texts and len(texts) == len(entries):
        return LoweredOutput(ABSENT, "\n".join(map(_text_of, texts)), [])
    if not others:
        return LoweredOutput(ABSENT, error, [])
    first = others[0]
    if _is_text(first):
        one = lower_block(first["content"]) if len(texts) == 1 else None
        said = one or {"type": "text", "text": "\n".join(map(_text_of, texts))}
        return LoweredOutput(said, error, [entry for entry in others if not _is_text(entry)])
    kind = first.get("type") if type(first) is dict else None
    if kind == "diff":
        return LoweredOutput(_lower_diff(first), error, others[1:])
    if kind == "terminal":
        return LoweredOutput(TERMINAL.lower(first), error, others[1:])
    if kind == "content" and type(first.get("content")) is dict:
        return LoweredOutput({"type": "text", "text": placeholder_text(first["content"])}, error, others)
    return LoweredOutput(ABSENT, error, others)


def _is_text(entry: Json) -> bool:
    block = entry.get("content") if type(entry) is dict and entry.get("type") == "content" else None
    return type(block) is dict and block.get("type") == "text" and type(block.get("text")) is str


def _text_of(entry: Json) -> str:
    return str(entry["content"]["text"]) if _is_text(entry) else ""


def _lower_diff(entry: Object) -> Object:
    lowered = begin_lowering(entry)
    old, new, told = lowered.take("oldText"), lowered.take("newText"), lowered.take_side_data("hunks")
    if told is ABSENT:
        told = diff_hunks(old if type(old) is str else "", new if type(new) is str else "")
    lowered.put("hunks", told)
    return lowered.build()


def _text_from_hunks(pieces: list[Json], mark: str) -> str:
    """Return the lines of one side and the common ones. A line without a mark counts as common."""
    other = "+" if mark == "-" else "-"
    lines: list[str] = []
    for piece in pieces:
        content = piece.get("content") if type(piece) is dict else None
        for line in content.split("\n") if type(content) is str else ():
            if line.startswith(("@@", "\\", other)):
                continue
            lines.append(line[1:] if line.startswith((mark, " ")) else line)
    return "\n".join(lines)


def diff_hunks(old: str, new: str) -> list[Object]:
    """Return the hunks that turn one text into the other."""
    a, b = _split_lines(old, new), _split_lines(new, old)
    return [_render_hunk(group, a, b) for group in _opcode_groups(a, b)]


def _split_lines(text: str, other: str) -> list[str]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    elif other.endswith("\n"):
        # The texts differ in the final newline, which only this mark can show.
        lines[-1] += _NO_NEWLINE
    return lines


def _opcode_groups(a: list[str], b: list[str]) -> Iterable[list[Opcode]]:
    if a == b:
        return ()
    if len(a) + len(b) <= MAX_DIFF_LINES:
        return SequenceMatcher(None, a, b).get_grouped_opcodes(CONTEXT_LINES)
    head, short = 0, min(len(a), len(b))
    while head < short and a[head] == b[head]:
        head += 1
    tail = 0
    while tail < short - head and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    before, after = min(head, CONTEXT_LINES), min(tail, CONTEXT_LINES)
    end_a, end_b = len(a) - tail, len(b) - tail
    return (
        [
            ("equal", head - before, head, head - before, head),
            ("replace", head, end_a, head, end_b),
            ("equal", end_a, end_a + after, end_b, end_b + after),
        ],
    )


def _render_hunk(group: list[Opcode], a: list[str], b: list[str]) -> Object:
    old_from, old_to, new_from, new_to = group[0][1], group[-1][2], group[0][3], group[-1][4]
    lines: list[str] = []
    for tag, a_from, a_to, b_from, b_to in group:
        if tag == "equal":
            lines += [f" {line}" for line in a[a_from:a_to]]
            continue
        lines += [f"-{line}" for line in a[a_from:a_to]]
        lines += [f"+{line}" for line in b[b_from:b_to]]
    old_lines, new_lines = old_to - old_from, new_to - new_from
    # As in every patch: a side without lines is named by the line before it.
    old_start, new_start = old_from + bool(old_lines), new_from + bool(new_lines)
    header = f"@@ -{old_start},{old_lines} +{new_start},{new_lines} @@"
    return {
        "oldStart": old_start,
        "oldLines": old_lines,
        "newStart": new_start,
        "newLines": new_lines,
        "content": "\n".join([header, *lines]),
    }
