"""Marked blocks in a Lua or Emacs Lisp file of ours: one block an agent; the rest of the file is left alone.

A user's own init file is a program, which cannot be changed safely. So the entries have a file of their own, and the
init file loads it with one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from dragoman.editors.table import LISP, LUA
from dragoman.errors import ConfigFault


class _Layout(NamedTuple):
    """How such a file begins and ends, and what begins a comment."""

    comment: str
    head: str
    tail: str  # the line before which a new block goes
    end: str  # what follows the tail in a new file


_LAYOUTS = {
    LUA: _Layout(
        comment="--",
        head=(
            "-- Agents for CodeCompanion and avante.\n"
            "-- `dragoman editors write` changes the marked blocks, nothing else.\n"
            "local M = { codecompanion = {}, avante = {} }\n"
        ),
        tail="return M",
        end="\n",
    ),
    LISP: _Layout(
        comment=";;",
        head=(
            ";;; dragoman-agents.el --- Agents for agent-shell -*- lexical-binding: t; -*-\n"
            ";;; Commentary:\n"
            ";; `dragoman editors write` changes the marked blocks, nothing else.\n"
            ";;; Code:\n"
        ),
        tail="(provide 'dragoman-agents)",
        end="\n;;; dragoman-agents.el ends here\n",
    ),
}


def find_block(text: str, form: str, label: str) -> str | None:
    """Return the lines of a block, without its marks; None if it is not there."""
    match = _block_pattern(form, label).search(text)
    return None if match is None else match["body"]


def set_block(text: str | None, form: str, label: str, lines: Iterable[str]) -> str:
    """Return the text of a file with the block; None is a file that does not exist yet."""
    layout = _LAYOUTS[form]
    body = "".join(f"{line}\n" for line in lines)
    block = f"{layout.comment} >>> dragoman {label}\n{body}{layout.comment} <<< dragoman {label}\n"
    if text is None or not text.strip():
        return f"{layout.head}\n{block}\n{layout.tail}{layout.end}"
    if (match := _block_pattern(form, label).search(text)) is not None:
        return text[: match.start()] + block + text[match.end() :]
    at = max((found.start() for found in re.finditer(f"^{re.escape(layout.tail)}", text, re.M)), default=-1)
    if at < 0:
        raise ConfigFault([f"the file has no line {layout.tail!r}; add it at the end, or move the file away"])
    return f"{text[:at]}{block}\n{text[at:]}"


def remove_block(text: str, form: str, label: str) -> str:
    """Return the text without the block, and without the empty line after it."""
    match = _block_pattern(form, label).search(text)
    return text if match is None else text[: match.start()] + text[match.end() :].removeprefix("\n")


def block_labels(text: str, form: str) -> list[str]:
    """Return the labels of all blocks, in their order."""
    return re.findall(rf"^{re.escape(_LAYOUTS[form].comment)} >>> dragoman (.+?)\r?$", text, re.M)


def _block_pattern(form: str, label: str) -> re.Pattern[str]:
    comment, name = re.escape(_LAYOUTS[form].comment), re.escape(label)
    return re.compile(
        rf"^{comment} >>> dragoman {name}\r?\n(?P<body>.*?)^{comment} <<< dragoman {name}\r?(?:\n|\Z)", re.M | re.S
    )
