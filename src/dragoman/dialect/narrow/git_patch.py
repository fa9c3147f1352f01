"""Patches in Git's format, both ways: the patch of two texts, and the sections and hunks of a patch. Pure.

Paths are absolute and have no prefix such as `a/` and `b/`; those of other writers are read all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Final, NamedTuple

import msgspec

# Unchanged lines around a change, as Git writes them.
CONTEXT_LINES: Final = 3

# Lines before times lines after, above which a change is written as one block: comparing them takes quadratic time.
MAX_COMPARISONS: Final = 1_000_000

NO_NEWLINE: Final = "\\ No newline at end of file"
MISSING_FILE: Final = "/dev/null"

_ESCAPES: Final = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
_UNESCAPES: Final = {letter: code for code, letter in _ESCAPES.items()}
_ESCAPE: Final = re.compile(r"\\([0-7]{1,3}|.)|([^\\]+)", re.DOTALL)
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_BLOBS: Final = re.compile(r"index ([0-9a-f]+)\.\.[0-9a-f]+")
_HUNK_HEADER: Final = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class MalformedPatch(ValueError):
    """A text that is no patch in Git's format."""


class Hunk(msgspec.Struct, frozen=True):
    """One place of a file, with the lines around it, before and after; each line has its line end."""

    old_start: int
    old_lines: list[str]
    new_start: int
    new_lines: list[str]

    @property
    def old_text(self) -> str:
        """The place before the change."""
        return "".join(self.old_lines)

    @property
    def new_text(self) -> str:
        """The place after the change."""
        return "".join(self.new_lines)


class PatchSection(msgspec.Struct, kw_only=True):
    """The changes of one file: `add`, `modify`, `delete`, `move` or `copy`."""

    old_path: str
    new_path: str
    operation: str = "modify"
    is_binary: bool = False
    hunks: list[Hunk] = msgspec.field(default_factory=list)

    @property
    def path(self) -> str:
        """The file after the change; of a deleted file, the file before."""
        return self.old_path if self.operation == "delete" else self.new_path


# --- writing ------------------------------------------------------------------------------------------------------


def patch_of(path: str, old_text: str | None, new_text: str) -> str:
    """Return the patch of a file; `old_text` is None for a new file. Equal texts have an empty patch."""
    if old_text == new_text:
        return ""
    name = quote_path(path)
    header = [f"diff --git {name} {name}"]
    if old_text is None:
        header.append("new file mode 100644")
    # Also for an empty file, without hunks: Git takes no absolute path from the first line.
    end = "\t" if " " in path else ""  # as Git does, for readers that take a time stamp after the name
    header.append(f"--- {MISSING_FILE if old_text is None else name + end}")
    header.append(f"+++ {name}{end}")
    return "".join(f"{line}\n" for line in header) + "".join(_hunks(_lines(old_text or ""), _lines(new_text)))


def quote_path(path: str) -> str:
    """Return a path as Git writes it: quoted if it has quotes, backslashes, control characters or no ASCII."""
    data = path.encode("utf-8", "surrogateescape")
    if all(32 <= byte < 127 and byte not in _ESCAPES for byte in data):
        return path
    return '"' + "".join(map(_escape_byte, data)) + '"'


def _escape_byte(byte: int) -> str:
    if byte in _ESCAPES:
        return f"\\{_ESCAPES[byte]}"
    return chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"


def _lines(text: str) -> list[str]:
    """Return the lines of a text with their ends. Only a newline ends a line: other characters are part of it."""
    return [line for line in re.split(r"(?<=\n)", text) if line]


class _Change(NamedTuple):
    """Old lines from `i1` to `i2` that the new lines from `j1` to `j2` replace."""

    i1: int
    i2: int
    j1: int
    j2: int


def _changes(old: list[str], new: list[str]) -> list[_Change]:
    """Return what differs, in order."""
    least = min(len(old), len(new))
    start = next((i for i in range(least) if old[i] != new[i]), least)
    same = next((i for i in range(least - start) if old[-1 - i] != new[-1 - i]), least - start)
    old_end, new_end = len(old) - same, len(new) - same
    if start == old_end and start == new_end:
        return []
    if (old_end - start) * (new_end - start) > MAX_COMPARISONS:
        return [_Change(start, old_end, start, new_end)]
    matcher = SequenceMatcher(None, old[start:old_end], new[start:new_end], autojunk=False)
    return [
        _Change(i1 + start, i2 + start, j1 + start, j2 + start)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    ]


def _hunks(old: list[str], new: list[str]) -> Iterator[str]:
    """Return the hunks; changes whose context would overlap share one."""
    group: list[_Change] = []
    for change in _changes(old, new):
        if group and change.i1 - group[-1].i2 > 2 * CONTEXT_LINES:
            yield _hunk(old, new, group)
            group = []
        group.append(change)
    if group:
        yield _hunk(old, new, group)


def _hunk(old: list[str], new: list[str], changes: list[_Change]) -> str:
    first, last = changes[0], changes[-1]
    before = min(CONTEXT_LINES, first.i1)
    after = min(CONTEXT_LINES, len(old) - last.i2)
    out = [f"@@ -{_range(first.i1 - before, last.i2 + after)} +{_range(first.j1 - before, last.j2 + after)} @@\n"]
    position = first.i1 - before
    for change in changes:
        out += [_marked(" ", line) for line in old[position : change.i1]]
        out += [_marked("-", line) for line in old[change.i1 : change.i2]]
        out += [_marked("+", line) for line in new[change.j1 : change.j2]]
        position = change.i2
    out += [_marked(" ", line) for line in old[position : position + after]]
    return "".join(out)


def _range(start: int, end: int) -> str:
    """Return the numbers of lines in a hunk's header; an empty range is named by the line before it."""
    count = end - start
    return str(start + 1) if count == 1 else f"{start + bool(count)},{count}"


def _marked(mark: str, line: str) -> str:
    return mark + line if line.endswith("\n") else f"{mark}{line}\n{NO_NEWLINE}\n"


# --- reading ------------------------------------------------------------------------------------------------------


def parse_patch(text: str) -> list[PatchSection]:
    """Return the sections of a patch; raise MalformedPatch for any other text. What comes before them is ignored."""
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    sections: list[PatchSection] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        if line.startswith("diff --git "):
            old, new = _header_paths(line.removeprefix("diff --git "))
            sections.append(PatchSection(old_path=old, new_path=new))
            number += 1
        elif line.startswith("@@ ") and sections:
            hunk, number = _parse_hunk(lines, number)
            sections[-1].hunks.append(hunk)
        else:
            if sections:
                _read_header(sections[-1], line)
            number += 1
    if not sections:
        raise MalformedPatch("no section begins with `diff --git`")
    return sections


def _read_header(section: PatchSection, line: str) -> None:
    """Read a line between `diff --git` and the first hunk."""
    if line.startswith("new file mode"):
        section.operation = "add"
    elif line.startswith("deleted file mode"):
        section.operation = "delete"
    elif line.startswith(("Binary files ", "GIT binary patch")):
        section.is_binary = True
    elif (blobs := _BLOBS.match(line)) and blobs.group(1).strip("0"):
        _note_existing(section)
    for words, operation in (("rename", "move"), ("copy", "copy")):
        if line.startswith(f"{words} from "):
            section.operation, section.old_path = operation, unquote_path(line.removeprefix(f"{words} from "))
        elif line.startswith(f"{words} to "):
            section.new_path = unquote_path(line.removeprefix(f"{words} to "))
    if section.hunks:
        return
    if line.startswith("--- "):
        path = unquote_path(line.removeprefix("--- "))
        if path == MISSING_FILE:
            section.operation = "add"
        else:
            section.old_path = path
            _note_existing(section)
    elif line.startswith("+++ "):
        path = unquote_path(line.removeprefix("+++ "))
        if path == MISSING_FILE:
            section.operation = "delete"
        else:
            section.new_path = path


def _note_existing(section: PatchSection) -> None:
    """Note that a file is not new: Git marks every file as new whose path it is told to begin with a slash."""
    if section.operation == "add":
        section.operation = "modify"


def _header_paths(rest: str) -> tuple[str, str]:
    """Return both paths of `diff --git`; two that are equal, except for their prefix, may have spaces."""
    if rest.startswith('"'):
        first = _QUOTED.match(rest)
        if first is None:
            raise MalformedPatch(f"the quotes are not closed: {rest}")
        return unquote_path(first.group()), unquote_path(rest[first.end() + 1 :])
    if rest.endswith('"'):
        first_name, _, second = rest.partition(' "')
        return first_name, unquote_path(f'"{second}')
    middle = len(rest) // 2
    halves = rest[:middle], rest[middle + 1 :]
    if rest[middle : middle + 1] == " " and _without_prefix(halves[0]) == _without_prefix(halves[1]):
        return halves
    old, _, new = rest.partition(" ")
    return old, new or old  # the following lines have the right ones


def _without_prefix(path: str) -> str:
    return path[2:] if path[1:2] == "/" else path


def unquote_path(name: str) -> str:
    """Return a path as it is, from Git's form of it; what follows a tab is no part of it."""
    quoted = _QUOTED.match(name)
    if quoted is None:
        return name.partition("\t")[0]
    data = bytearray()
    for escaped, plain in _ESCAPE.findall(quoted.group(1)):
        if plain:
            data += plain.encode("utf-8", "surrogateescape")
        elif escaped[0] in "01234567":
            data.append(int(escaped, 8) & 255)
        else:
            data.append(_UNESCAPES.get(escaped, ord(escaped) & 255))
    return data.decode("utf-8", "surrogateescape")


def _parse_hunk(lines: list[str], number: int) -> tuple[Hunk, int]:
    """Return the hunk whose header has this number, and the number of the line after it."""
    header = _HUNK_HEADER.match(lines[number])
    if header is None:
        raise MalformedPatch(f"line {number + 1} is no header of a hunk: {lines[number]}")
    old_start, old_count, new_start, new_count = (int(group) if group else 1 for group in header.groups())
    hunk = Hunk(old_start, [], new_start, [])
    number += 1
    while number < len(lines) and lines[number].startswith("\\"):
        number += 1
    while len(hunk.old_lines) < old_count or len(hunk.new_lines) < new_count:
        if number >= len(lines):
            raise MalformedPatch(f"the patch ends in the hunk {header.group()}")
        mark, line = lines[number][:1] or " ", lines[number][1:]
        number += 1
        is_last = number < len(lines) and lines[number].startswith("\\")
        line += "" if is_last else "\n"
        number += is_last
        if mark not in " -+":
            raise MalformedPatch(f"line {number} of the patch is no line of a hunk")
        if mark != "+":
            hunk.old_lines.append(line)
        if mark != "-":
            hunk.new_lines.append(line)
    return hunk, number
