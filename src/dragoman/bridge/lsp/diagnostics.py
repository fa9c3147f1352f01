"""Diagnostics as values: read from a server's JSON, compared with those before an edit, and formatted. Pure."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dragoman.bridge.lsp.positions import InvalidEdit, TextIndex

# Diagnostics of one file that are kept; nobody reads more.
MAX_PER_FILE = 500

# What a tool call shows: at most this many lines of a file, and this many other files.
MAX_LINES = 20
MAX_OTHER_FILES = 5

# Characters of one message: type checkers explain themselves in paragraphs.
MAX_MESSAGE = 500

SEVERITIES = ("error", "warning", "info", "hint")
ERROR = 1


class Diagnostic(msgspec.Struct, frozen=True, kw_only=True):
    """One problem in a file. Lines and columns begin at 1."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    severity: int = ERROR  # 1 error, 2 warning, 3 info, 4 hint
    source: str = ""
    code: str = ""
    message: str = ""

    @property
    def key(self) -> tuple[Any, ...]:
        """What stays the same when lines move."""
        return self.path, self.severity, self.source, self.code, self.message

    def to_json(self, is_new: bool | None = None) -> dict[str, Any]:
        """Return the diagnostic for `rawOutput`."""
        values: dict[str, Any] = msgspec.to_builtins(self) | {"severity": SEVERITIES[self.severity - 1]}
        return values if is_new is None else values | {"new": is_new}


def read_diagnostics(items: Any, path: str, index: TextIndex, source: str) -> list[Diagnostic]:
    """Return the diagnostics of a file, errors first; what cannot be read is left out."""
    found = []
    for item in items[:MAX_PER_FILE] if isinstance(items, list) else ():
        if not isinstance(item, dict):
            continue
        try:
            start, end = index.span(item.get("range"))
        except InvalidEdit:
            start = end = 0
        line, column = index.place(index.position(start))
        end_line, end_column = index.place(index.position(end))
        severity = item.get("severity")
        code = item.get("code")
        found.append(
            Diagnostic(
                path=path,
                line=line,
                column=column,
                end_line=end_line,
                end_column=end_column,
                severity=severity if severity in (1, 2, 3, 4) else ERROR,
                source=_text(item.get("source")) or source,
                code=_text(code.get("value") if isinstance(code, dict) else code),
                message=_text(item.get("message"))[:MAX_MESSAGE],
            )
        )
    return sorted(found, key=lambda each: (each.severity, each.line, each.column))


def _text(value: Any) -> str:
    if isinstance(value, dict):  # markup
        value = value.get("value")
    return " ".join(str(value).split()) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def new_diagnostics(before: Iterable[Diagnostic], after: Sequence[Diagnostic]) -> set[int]:
    """Return the indices of those that were not there before. One that only moved is not new."""
    places = Counter((each.key, each.line) for each in before)
    kinds: Counter[tuple[Any, ...]] = Counter()
    for (key, _), count in places.items():
        kinds[key] += count
    unplaced = []
    for index, each in enumerate(after):
        if places[each.key, each.line] > 0:
            places[each.key, each.line] -= 1
            kinds[each.key] -= 1
        else:
            unplaced.append(index)
    new = set()
    for index in unplaced:
        key = after[index].key
        if kinds[key] > 0:
            kinds[key] -= 1
        else:
            new.add(index)
    return new


class FileReport(msgspec.Struct, frozen=True, kw_only=True):
    """The diagnostics of one file after an edit, those before it if they are known, and who is not ready yet."""

    path: str
    after: list[Diagnostic] = []
    before: list[Diagnostic] | None = None
    late: list[str] = []  # servers that have not answered
    is_written: bool = True  # False: another file, which the edit affects

    @property
    def new(self) -> set[int]:
        """The indices of the new ones; none if the state before is not known."""
        return set() if self.before is None else new_diagnostics(self.before, self.after)


def format_diagnostic(diagnostic: Diagnostic, folder: str, is_new: bool) -> str:
    """Return one line: path:line:column severity source(code): message."""
    path = shown_path(diagnostic.path, folder)
    code = f"({diagnostic.code})" if diagnostic.code else ""
    mark = "new " if is_new else ""
    return (
        f"{path}:{diagnostic.line}:{diagnostic.column} {mark}{SEVERITIES[diagnostic.severity - 1]} "
        f"{diagnostic.source}{code}: {diagnostic.message}"
    )


def shown_path(path: str, folder: str) -> str:
    """Return a path relative to the folder of the session, if it is inside."""
    inside = path.startswith(folder.rstrip(os.sep) + os.sep)
    return path[len(folder.rstrip(os.sep)) + 1 :] if inside else path


def format_report(files: Sequence[FileReport], folder: str) -> str:
    """Return the text for a tool call; "" if there is nothing to say."""
    lines: list[str] = []
    others = 0
    for file in files:
        new = file.new
        shown = [index for index, each in enumerate(file.after) if file.is_written or index in new]
        shown.sort(key=lambda index: (file.after[index].severity, index not in new))
        if not file.is_written:
            shown = [index for index in shown if file.after[index].severity == ERROR]
            others += bool(shown)
            if others > MAX_OTHER_FILES:
                continue
        lines += [format_diagnostic(file.after[index], folder, index in new) for index in shown[:MAX_LINES]]
        if len(shown) > MAX_LINES:
            lines.append(f"{shown_path(file.path, folder)}: {len(shown) - MAX_LINES} more")
        if file.late:
            lines.append(f"{shown_path(file.path, folder)}: diagnostics of {', '.join(file.late)} are not ready yet")
    if others > MAX_OTHER_FILES:
        lines.append(f"{others - MAX_OTHER_FILES} other files have new errors too")
    if not lines:
        return ""
    return "\n".join(["Diagnostics:", *lines])


def report_json(files: Sequence[FileReport]) -> list[dict[str, Any]]:
    """Return the report with all diagnostics, for programs."""
    listed = []
    for file in files:
        new, is_known = file.new, file.before is not None
        items = [each.to_json(index in new if is_known else None) for index, each in enumerate(file.after)]
        listed.append({"path": file.path, "diagnostics": items} | ({"late": file.late} if file.late else {}))
    return listed


def by_path(diagnostics: Mapping[str, Sequence[Diagnostic]]) -> list[Diagnostic]:
    """Return the diagnostics of several servers for one file, without repetitions, errors first."""
    merged = dict.fromkeys(each for items in diagnostics.values() for each in items)
    return sorted(merged, key=lambda each: (each.severity, each.line, each.column))
