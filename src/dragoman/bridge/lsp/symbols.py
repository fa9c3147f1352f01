"""Find a symbol by its name: models name symbols, servers want positions. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from dragoman.bridge.lsp.positions import InvalidEdit, TextIndex

# Nested symbols are read to this depth; a server could send a cycle's worth of them.
MAX_DEPTH = 20

_KINDS = (
    "file", "module", "namespace", "package", "class", "method", "property", "field", "constructor", "enum",
    "interface", "function", "variable", "constant", "string", "number", "boolean", "array", "object", "key", "null",
    "enum member", "struct", "event", "operator", "type parameter",
)  # fmt: skip


class Symbol(msgspec.Struct, frozen=True, kw_only=True):
    """A symbol of a file: its name, with those around it, its kind and the place of its name."""

    name: str
    container: str
    kind: str
    path: str
    line: int  # 1-based
    column: int
    offset: int = 0  # of its name

    @property
    def full_name(self) -> str:
        """The name with those around it: Class.method."""
        return f"{self.container}.{self.name}" if self.container else self.name


def kind_name(kind: Any) -> str:
    """Return the word for the number of a symbol's kind."""
    return _KINDS[kind - 1] if isinstance(kind, int) and 0 < kind <= len(_KINDS) else "symbol"


def read_symbols(items: Any, path: str, index: TextIndex) -> list[Symbol]:
    """Return the symbols of a document, in both forms that servers use, each before those inside it."""
    return list(_read_level(items, path, index, "", 0))


def _read_level(items: Any, path: str, index: TextIndex, container: str, depth: int) -> Iterator[Symbol]:
    for item in items if isinstance(items, list) and depth < MAX_DEPTH else ():
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            continue
        location = item.get("location")
        place = item.get("selectionRange") or (location.get("range") if isinstance(location, dict) else None)
        try:
            start, end = index.span(place)
        except InvalidEdit:
            continue
        inner = str(item.get("containerName") or container)
        name = item["name"]
        found = _word_offset(index.text, name, start, end)
        line, column = index.place(index.position(found))
        yield Symbol(
            name=name,
            container=inner,
            kind=kind_name(item.get("kind")),
            path=path,
            line=line,
            column=column,
            offset=found,
        )
        yield from _read_level(item.get("children"), path, index, f"{inner}.{name}" if inner else name, depth + 1)


def _word_offset(text: str, name: str, start: int, end: int) -> int:
    """Return where the name is in a range: some servers give the range of the whole definition."""
    found = _word(name.split("(")[0]).search(text, start, max(end, start))
    return found.start() if found else start


def _word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")


class SymbolNotFound(Exception):
    """There is no such symbol, or several; the message lists what there is."""


def find_symbol(name: str, line: int | None, symbols: list[Symbol], path: str, index: TextIndex) -> int:
    """Return the offset of a symbol in a document. `name` may be qualified; `line` chooses among several.

    Definitions come first. Otherwise the name is looked for in the text: a use of an imported symbol counts too.
    """
    last = name.rpartition(".")[2].rpartition("::")[2].strip("() ")
    if not last:
        raise SymbolNotFound("give the name of a symbol")
    defined = [each for each in symbols if name in (each.name, each.full_name) or each.full_name.endswith(f".{name}")]
    if line is not None:
        on_line = [each.offset for each in defined if each.line == line]
        text = index.line(line - 1)
        start = index.offset({"line": line - 1, "character": 0})
        on_line += [start + match.start() for match in _word(last).finditer(text)]
        if not on_line:
            raise SymbolNotFound(f"{path}:{line} does not contain {last}; leave out the line, or read the file again")
        return on_line[0]
    if len(defined) > 1:
        places = ", ".join(f"{each.full_name} in line {each.line}" for each in defined[:20])
        raise SymbolNotFound(f"{path} has several symbols {name}: {places}; give the line")
    if defined:
        return defined[0].offset
    match = _word(last).search(index.text)
    if match is None:
        near = ", ".join(dict.fromkeys(each.full_name for each in symbols[:40]))
        raise SymbolNotFound(f"{path} does not contain {last}; it has {near or 'no symbols'}")
    return match.start()
